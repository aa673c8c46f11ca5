"""The benchmark. `sqs-once-bench` writes its figures into the page itself; the record has digests of these files."""

import hashlib
import json
import re

from .run import OUT, ROOT, Run, Unit, release

DOCS = ROOT / "docs"
WRITTEN = ("performance.json", "performance.svg", "performance-growth.svg")
MEASURED = re.compile(r"<!-- measured: begin -->.*<!-- measured: end -->", re.DOTALL)
MODULES = ("batch", "failed", "idempotency", "key", "lambda", "record", "report.rs", "store", "telemetry")


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()


def written():
    """Digests of all files that the benchmark writes."""
    digests = {name: digest((DOCS / name).read_text()) for name in WRITTEN}
    return digests | {"performance.md": digest(MEASURED.search((DOCS / "performance.md").read_text())[0])}


class Benchmark(Run):
    name = "benchmark"
    what = "sqs-once beside its peers"
    needs = "Linux, an idle machine, Node.js with npm"
    takes = "25 min"
    page = "docs/performance.md"
    units = {
        "all": Unit(
            {"rounds": 4},
            [*(f"crates/sqs-once/src/{module}" for module in MODULES), "verification/sqs-once-bench/src"],
        )
    }

    def part(self, unit, arguments, part, done):
        """A single part, because the contenders take turns. Other load on the machine then affects all of them equally."""
        options = ["--rounds", arguments["rounds"]]
        if arguments == self.units[unit].arguments:
            release("sqs-once-bench", *options, "--docs")
            file = DOCS / "performance.json"
        else:
            file = OUT / self.name / "performance.json"
            release("sqs-once-bench", *options, "--json", file)
        return imported(file)

    def show(self, records):
        return ""

    def problems(self, records):
        recorded = records["all"]["figures"]["written"]
        edited = [name for name, found in written().items() if found != recorded[name]]
        return [f"docs/{name} is not what the benchmark wrote" for name in edited]


def imported(file):
    cells = json.loads(file.read_text())["cells"]
    ours = {
        cell["shape"]: {
            "latency, ms": round(cell["latency_ms"]["median"], 3),
            "CPU a record, µs": round(cell["cpu_us"]["median"], 2),
        }
        for cell in cells
        if cell["contender"] == "ours"
    }
    return {"sqs-once": ours} | ({"written": written()} if file.parent == DOCS else {})
