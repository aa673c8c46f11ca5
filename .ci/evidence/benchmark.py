"""The benchmark of sqs-once beside its peers. The record has everything that `sqs-once-bench` measured, with the figures
derived from it. This module shows them as tables and plots."""

import json
import math

from .plot import plot
from .run import OUT, Run, Unit, release, table

MODULES = ("batch", "failed", "idempotency", "key", "lambda", "record", "report.rs", "store", "telemetry")
OURS = "ours"
# The contenders that the tables show, by their names in the record.
TITLES = {
    "bare": "limit: bare HTTP client",
    "prototype": "prototype: batched, SDK",
    OURS: "sqs-once",
    "ours-single": "sqs-once, single requests",
    "by-hand-50": "Rust by hand, 50 at a time",
    "by-hand-10": "Rust by hand, 10 at a time",
    "typescript": "Powertools TypeScript, parallel",
    "python-6": "Powertools Python, 6 threads",
    "python-1": "Powertools Python, sequential",
}
COMPARED = ["bare", "prototype", OURS, "by-hand-10", "typescript", "python-6", "python-1"]
# The contenders of the summary and of the plots.
FEW = {
    OURS: "sqs-once",
    "bare": "limit",
    "by-hand-10": "Rust by hand",
    "typescript": "Powertools TypeScript",
    "python-6": "Powertools Python",
}
SHARES = ("0.07 of a core", "0.145 of a core", "0.29 of a core")
SMALL = "0.145 of a core"
SIZES = (1, 3, 10, 30, 100, 300, 1000, 3000, 10000)


class Benchmark(Run):
    name = "benchmark"
    what = "sqs-once beside its peers"
    needs = "Linux, an idle machine, Node.js with npm"
    takes = "25 min"
    page = "verification/performance.md"
    units = {
        "all": Unit(
            {"rounds": 4},
            [*(f"crates/sqs-once/src/{module}" for module in MODULES), "verification/sqs-once-bench/src"],
        )
    }

    def part(self, unit, arguments, part, done):
        """A single part, because the contenders take turns. Other load on the machine then affects all of them equally."""
        file = OUT / self.name / "measured.json"
        release("sqs-once-bench", "--rounds", arguments["rounds"], "--json", file)
        return json.loads(file.read_text())

    def show(self, records):
        return Measured(records).tables()

    def drawings(self, records):
        return Measured(records).plots()


class Measured:
    def __init__(self, records):
        self.all = records["all"]["figures"]
        self.cells = {(one["contender"], one["shape"]): one for one in self.all["cells"]}
        self.starts = {(one["contender"], one["share"]): one for one in self.all["cold_starts"]}

    def value(self, contender, shape, of):
        cell = self.cells.get((contender, shape))
        return short(of(cell)) if cell else "–"

    def start(self, contender, share, of):
        start = self.starts.get((contender, share))
        return short(start[of]["median"]) if start and start[of] else "–"

    def by_batch(self, contenders, shapes, of):
        """A row for each contender, and a column for each batch: its title and its name in the record."""
        rows = [[TITLES[one], *(self.value(one, shape, of) for shape in shapes.values())] for one in contenders]
        return table(["", *(f"{title}:" for title in shapes)], rows)

    def tables(self):
        return "\n\n".join(
            [
                self.origin(),
                self.shares(),
                f"### Aims\n\n{table(['aim', 'measured:', 'verdict', 'note'], map(aim, self.all['goals']))}",
                self.comparison(),
                self.cold_starts(),
                self.statements(),
                self.growth(),
                self.costs(),
            ]
        )

    def origin(self):
        load = "unknown" if self.all["load_before"] is None else short(self.all["load_before"])
        told = f"The machine: {self.all['machine']}, with a load of {load} before the {self.all['rounds']} rounds. "
        told += f"Every request takes {self.all['request_latency_us']} µs, "
        told += f"every statement {self.all['statement_latency_us']} µs more."
        return "\n\n".join([told, *self.warnings()])

    def warnings(self):
        return ["**Other work ran on the machine: times are too long, ratios are rough.**"] if self.all["is_busy"] else []

    def shares(self):
        contenders = [one for one in COMPARED if (one, SMALL) in self.starts]
        parts = [
            "### Functions with little memory\n\nLambda gives a function with 128, 256 or 512 MB about 0.07, 0.145 or "
            "0.29 of a core. The kernel limits each process to that share, in periods of 20 ms. Latency in ms."
        ]
        for size in (10, 100):
            shapes = {share: f"{share}, {size} new" for share in SHARES}
            parts.append(f"A batch of {size} new keys:\n\n{self.by_batch(contenders, shapes, latency)}")
        rows = [[TITLES[one], *(self.start(one, share, "latency_ms") for share in SHARES)] for one in contenders]
        starts = table(["", *(f"{share}:" for share in SHARES)], rows)
        return "\n\n".join([*parts, f"A cold start with 10 new keys:\n\n{starts}"])

    def comparison(self):
        sizes = [f"{size} new" for size in (1, 10, 100, 1000, 10000)]
        halves = ["100, half duplicates", "1000, half duplicates"]
        others = [*halves, "100 duplicates", "100 duplicates, cached", "100 new, 20 ms each"]
        requests = ["1 new", "10 new", "100, half duplicates", "100 duplicates"]
        requesting = ["bare", OURS, "ours-single", "by-hand-10"]
        tables = [
            ("New keys: latency, ms", sizes, COMPARED, latency),
            ("New keys: CPU a record, µs", sizes, COMPARED, cpu),
            ("Other batches: latency, ms", others, COMPARED, latency),
            ("Peak memory, MB", ["1 new", "1000 new", "10000 new"], COMPARED, lambda cell: cell["memory_mb"]),
            ("Requests a record", requests, requesting, lambda cell: cell["requests"]),
        ]
        return "\n\n".join(
            f"### {title}\n\n{self.by_batch(contenders, dict(zip(shapes, shapes, strict=True)), of)}"
            for title, shapes, contenders, of in tables
        )

    def cold_starts(self):
        rows = [[TITLES[one], self.start(one, None, "latency_ms"), self.start(one, None, "cpu_ms")] for one in COMPARED]
        intro = "From the start of the process to its first answer, for 10 new keys."
        return f"### Cold start\n\n{intro}\n\n{table(['', 'ms:', 'CPU, ms:'], rows)}"

    def statements(self):
        shapes = {
            f"{size} keys, {time} ms": f"{size} new, {time} ms a statement" for size in (100, 1000) for time in ("0.2", "1")
        }
        contenders = ["bare", "prototype", OURS, "ours-single", "by-hand-50", "by-hand-10"]
        intro = "Latency of a batch of new keys, ms, when each statement of a request takes 0.2 or 1 ms more."
        return f"### When statements take time\n\n{intro}\n\n{self.by_batch(contenders, shapes, latency)}"

    def growth(self):
        def line(fit):
            return f"{short(fit['base'])} ms + {short(fit['each'] * 1000)} µs × records", f"{short(fit['off'] * 100)} %"

        rows = [[TITLES[one["contender"]], *line(one["latency_ms"]), *line(one["cpu_ms"])] for one in self.all["growth"]]
        head = ["", "latency", "off by at most:", "CPU", "off by at most:"]
        intro = "The line that fits the batches of new keys best (least squares of the relative errors):"
        return f"### Growth\n\n{intro}\n\n{table(head, rows)}"

    def costs(self):
        def dash(number):
            return "–" if number is None else short(number)

        units = ["write units:", "read units:", "dollars a million:", "Powertools: write units:", "dollars a million:"]
        records = [
            [
                one["record"],
                *(short(one["ours"][what]) for what in ("write", "read")),
                short(one["ours_dollars"]),
                *(dash(one[f"powertools_{what}"]) for what in ("writes", "dollars")),
            ]
            for one in self.all["record_costs"]
        ]
        messages = [
            [TITLES[one["contender"]], short(one["table"]), *map(dash, one["lambda"])]
            for one in self.all["message_costs"]
            if one["contender"] in COMPARED
        ]
        head = ["", "DynamoDB:", "Lambda, batches of 10:", "Lambda, batches of 100:"]
        return "\n\n".join(
            [
                "### Cost of each kind of record",
                table(["a record", *units], records),
                "### Cost of a million new keys, in dollars",
                table(head, messages),
            ]
        )

    def plots(self):
        def lines(of):
            points = {one: [(size, self.cells.get((one, f"{size} new"))) for size in SIZES] for one in FEW}
            return {FEW[one]: [(size, of(cell)) for size, cell in cells if cell] for one, cells in points.items()}

        return {
            "docs/performance.svg": plot("Latency of a batch of new keys, ms", lines(latency)),
            "verification/performance-cpu.svg": plot("CPU time a record, µs", lines(cpu)),
        }

    def summary(self):
        """Five figures, and the aims that are missed."""
        small = f"{SMALL}, 100 new"
        rows = [
            ["a batch of 100 new keys, ms", *(self.value(one, "100 new", latency) for one in FEW)],
            ["the same with 256 MB of memory, ms", *(self.value(one, small, latency) for one in FEW)],
            ["a cold start with 256 MB, ms", *(self.start(one, SMALL, "latency_ms") for one in FEW)],
            ["CPU time a record, in batches of 100, µs", *(self.value(one, "100 new", cpu) for one in FEW)],
            ["requests to DynamoDB for 100 new keys", *(f"{self.cells[one, '100 new']['requests'] * 100:.0f}" for one in FEW)],
        ]
        missed = [aim(one) for one in self.all["goals"] if one["holds"] is False]
        aims = [f"- {text}: {figure}{note and f' ({note})'}" for text, figure, _, note in missed]
        return "\n\n".join(
            [
                table(["", *(f"{title}:" for title in FEW.values())], rows),
                *self.warnings(),
                "![Latency of a batch of new keys against its size][performance.svg]",
                f"`sqs-once` misses {len(missed)} of its {len(self.all['goals'])} aims:",
                "\n".join(aims),
            ]
        )


def latency(cell):
    return cell["latency_ms"]["median"]


def cpu(cell):
    return cell["cpu_us"]["median"]


def aim(goal):
    """The columns of an aim. The figure has enough digits to show whether it meets the aim."""
    verdict = {True: "holds", False: "missed", None: "not measured"}[goal["holds"]]
    measured, bound = goal["measured"], float(goal["text"].rsplit(" ", 1)[1])
    figure = "–"
    if measured is not None:
        figures = (short(measured, count) for count in range(3, 12))
        holds = float.__le__ if "≤" in goal["text"] else float.__ge__
        figure = next((one for one in figures if holds(float(one), bound) == goal["holds"]), str(measured))
    return [goal["text"], figure, verdict, goal["note"]]


def short(number, digits=3):
    """A number with this many significant digits, or with all digits before its decimal point."""
    if number == 0:
        return "0"
    after = min(max(digits - 1 - math.floor(math.log10(abs(number))), 0), 9)
    text = f"{number:.{after}f}"
    # Trailing zeros of a small number carry no information: 0.08 requests.
    return text.rstrip("0").rstrip(".") if abs(number) < 1 else text
