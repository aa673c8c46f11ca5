"""Random storms of faults around consumers whose effects commit with the completion of their key."""

import os
import re

from .run import Run, Unit, bounds, output, slices, table

SOURCES = "crates/sqs-once/src"
CONSUMER = [
    f"{SOURCES}/{module}" for module in ("batch", "consumer", "failed", "handler", "idempotency", "key", "once", "record", "report.rs", "store")
]


class Storms(Run):
    name = "storms"
    what = "effects that commit with the completion of their key on PostgreSQL, through storms of faults"
    needs = "Node.js"
    takes = "10 min"
    units = {
        "postgres": Unit(
            {"seeds": "0..10000"},
            [*CONSUMER, "crates/sqs-once-postgres/src", "crates/sqs-once-postgres/tests/all/exactly_once"],
        ),
    }

    def parts(self, unit, arguments):
        return slices(arguments["seeds"], 1000)

    def part(self, unit, arguments, part, done):
        first, end = bounds(part)
        seeds = {"SQS_ONCE_FIRST_SEED": str(first), "SQS_ONCE_SEEDS": str(end - first)}
        told = output("cargo", "test", "-p", "sqs-once-postgres", "--test", "all", "in_any_storm", env=os.environ | seeds)
        # Each way of recording has one test.
        [tests] = re.findall(r"^test result: ok\. ([1-9]\d*) passed", told, re.MULTILINE)
        return {"storms": int(tests) * (end - first)}

    def merged(self, unit, parts):
        return {"storms": sum(part["storms"] for part in parts.values())}

    def show(self, records):
        rows = [["on PostgreSQL", f"{record['figures']['storms']:,}"] for record in records.values()]
        return table(["effects", "storms:"], rows)
