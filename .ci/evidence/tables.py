"""Compares the tables of `dynamodb-for-tests` with two other implementations of DynamoDB."""

import os
import re

from .run import ROOT, Run, Unit, output

SLICE = 100_000
PUBLISHED = {"operations": 1_000_000, "seed": 7}
COVERS = ["verification/dynamodb-for-tests", "crates/sqs-once/src/store"]
TOLD = re.compile(r"^(\d+) operations in (\d+) requests, (\d+) of them refused, in (.*)$", re.MULTILINE)


class Agreement(Run):
    name = "agreement"
    what = "the in-memory DynamoDB compared with dynoxide and with ministack"
    needs = "for ministack: the tools of `.ci/requirements.txt`, which `.ci/run` installs"
    takes = "5 min; ministack 75 min"
    units = {"dynoxide": Unit(PUBLISHED, COVERS), "ministack": Unit(PUBLISHED, [*COVERS, ".ci/dynamodb.py"])}

    def parts(self, unit, arguments):
        """Parts with one seed each, because a sequence of requests cannot start in the middle."""
        count = -(-arguments["operations"] // SLICE)
        return [f"seed-{seed}" for seed in range(arguments["seed"], arguments["seed"] + count)]

    def part(self, unit, arguments, part, done):
        operations = min(SLICE, arguments["operations"])
        options = ["--operations", operations, "--seed", part.removeprefix("seed-")]
        if unit == "dynoxide":
            package = ["--package", "dynamodb-for-tests", "--example", "agreement"]
            told = output("cargo", "run", "--quiet", "--release", *package, "--", *options)
        else:
            tools = ROOT / "target/ci/venv/bin"
            if not tools.exists():
                raise SystemExit("ministack is missing: `.ci/run` installs it first of all, into target/ci/venv")
            environment = os.environ | {"PATH": f"{tools}:{os.environ['PATH']}"}
            told = output("python3", ".ci/dynamodb.py", *options, env=environment)
        found = TOLD.search(told)
        return {"operations": int(found[1]), "requests": int(found[2]), "refused": int(found[3])}

    def merged(self, unit, parts):
        seeds = [int(part.removeprefix("seed-")) for part in parts]
        sums = {what: sum(part[what] for part in parts.values()) for what in ("operations", "requests", "refused")}
        return {"seeds": [seeds[0], seeds[-1]]} | sums

    def show(self, records):
        compared = (f"{record['figures']['operations']:,} operations with {unit}" for unit, record in records.items())
        return f"The published runs compared {' and '.join(compared)}."
