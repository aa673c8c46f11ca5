"""The benchmark of sqs-once beside its peers. The record has everything that `sqs-once-bench` measured."""

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
SIZES = (1, 10, 100, 1000, 10000)
# Dollars for a million write units and for a million read units: see `docs/cost.md`.
PRICES = {"write": 0.625, "read": 0.125}
# The highest load per core at which a machine counts as idle.
IDLE = 0.3


class Benchmark(Run):
    name = "benchmark"
    what = "sqs-once beside its peers"
    needs = "Linux, an idle machine, Node.js with npm"
    takes = "25 min"
    page = "verification/performance.md"
    units = {
        "all": Unit(
            {"rounds": 4},
            [
                *(f"crates/sqs-once/src/{module}" for module in MODULES),
                "verification/sqs-once-bench/src",
                # The gate's own count, of which no record has a figure.
                ":!verification/sqs-once-bench/src/instructions.rs",
            ],
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
                self.comparison(),
                self.cold_starts(),
                self.statements(),
                self.units(),
            ]
        )

    def origin(self):
        load = "unknown" if self.all["load_before"] is None else short(self.all["load_before"])
        told = f"The machine: {self.all['machine']}, with a load of {load} before the {self.all['rounds']} rounds. "
        told += f"Every request takes {self.all['request_latency_us']} µs, "
        told += f"every statement {self.all['statement_latency_us']} µs more."
        return "\n\n".join([told, *self.warnings()])

    def warnings(self):
        is_busy = (self.all["load_before"] or 0) > IDLE * self.all["cores"]
        return ["**Other work ran on the machine: times are too long, ratios are rough.**"] * is_busy

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
            ("New keys: CPU a message, µs", sizes, COMPARED, cpu),
            ("Other batches: latency, ms", others, COMPARED, latency),
            ("Peak memory, MB", ["1 new", "1000 new", "10000 new"], COMPARED, lambda cell: cell["memory_mb"]),
            ("Requests a message", requests, requesting, lambda cell: cell["requests"]),
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

    def units(self):
        """The request units of each kind of message, and their price."""
        kinds = [(one["record"], one["units"]) for one in self.all["consumptions"]]
        rows = [
            [kind, *(short(units[what]) for what in PRICES), short(sum(units[what] * PRICES[what] for what in PRICES))]
            for kind, units in kinds
        ]
        head = ["a message", "write units:", "read units:", "dollars a million:"]
        return f"### Request units of each kind of message\n\n{table(head, rows)}"

    def plots(self):
        def lines(of):
            points = {one: [(size, self.cells.get((one, f"{size} new"))) for size in SIZES] for one in FEW}
            return {FEW[one]: [(size, of(cell)) for size, cell in cells if cell] for one, cells in points.items()}

        return {
            "docs/performance.svg": plot("Latency of a batch of new keys, ms", lines(latency)),
            "verification/performance-cpu.svg": plot("CPU time a message, µs", lines(cpu)),
        }

    def summary(self):
        small = f"{SMALL}, 100 new"
        rows = [
            ["a batch of 100 new keys, ms", *(self.value(one, "100 new", latency) for one in FEW)],
            ["the same with 256 MB of memory, ms", *(self.value(one, small, latency) for one in FEW)],
            ["a cold start with 256 MB, ms", *(self.start(one, SMALL, "latency_ms") for one in FEW)],
            ["CPU time a message, in batches of 100, µs", *(self.value(one, "100 new", cpu) for one in FEW)],
            ["requests to DynamoDB for 100 new keys", *(f"{self.cells[one, '100 new']['requests'] * 100:.0f}" for one in FEW)],
        ]
        return "\n\n".join(
            [
                table(["", *(f"{title}:" for title in FEW.values())], rows),
                *self.warnings(),
                "![Latency of a batch of new keys against its size][performance.svg]",
            ]
        )


def latency(cell):
    return cell["latency_ms"]["median"]


def cpu(cell):
    return cell["cpu_us"]["median"]


def short(number):
    """A number with three significant digits, or with all digits before its decimal point."""
    if number == 0:
        return "0"
    after = min(max(2 - math.floor(math.log10(abs(number))), 0), 9)
    text = f"{number:.{after}f}"
    # Trailing zeros of a small number carry no information: 0.08 requests.
    return text.rstrip("0").rstrip(".") if abs(number) < 1 else text
