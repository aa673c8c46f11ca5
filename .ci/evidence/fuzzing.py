"""Fuzzing that starts with only the committed corpus."""

import os
import re
import shutil
import subprocess

from .run import OUT, ROOT, Run, Unit, installed

SLICE = 1_000_000
SOURCES = "crates/sqs-once/src"
# The code that each target runs, in addition to `sqs-once-fuzz`.
COVERS = {
    "event": [f"{SOURCES}/{module}" for module in ("batch", "idempotency", "key", "record", "store")],
    "envelope": [f"{SOURCES}/record"],
    "key": [f"{SOURCES}/key"],
    "extraction": [f"{SOURCES}/key", f"{SOURCES}/record"],
    "item": [f"{SOURCES}/idempotency", f"{SOURCES}/store"],
    "macros": ["crates/sqs-once-macros/src"],
}


class Fuzz(Run):
    name = "fuzz"
    what = "six fuzz targets, from the committed corpus"
    needs = "a C++ compiler"
    takes = "5 min a target"
    units = {
        target: Unit({"executions": 5_000_000}, [*paths, "verification/sqs-once-fuzz/src"])
        for target, paths in COVERS.items()
    }

    def parts(self, unit, arguments):
        size = min(SLICE, arguments["executions"])
        return [f"seed-{seed + 1}" for seed in range(-(-arguments["executions"] // size))]

    def part(self, unit, arguments, part, done):
        cargo_fuzz = installed("cargo-fuzz", "0.13.1")
        found = OUT / self.name / "found" / unit
        if part == "seed-1":
            shutil.rmtree(found, ignore_errors=True)
        environment = os.environ | {"PATH": f"{cargo_fuzz.parent}:{os.environ['PATH']}", "FOUND": str(found)}
        options = [f"-seed={part.removeprefix('seed-')}", f"-runs={min(SLICE, arguments['executions'])}"]
        command = ["bash", "verification/fuzz/run", unit, *options]
        done = subprocess.run(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        executed = re.search(r"^stat::number_of_executed_units:\s*(\d+)$", done.stderr, re.MULTILINE)
        took = re.search(r"^Done \d+ runs in (\d+) second", done.stderr, re.MULTILINE)
        if done.returncode or not executed or not took:
            raise SystemExit(f"{done.stderr}\nFAILED: {' '.join(command)}")
        return {"executions": int(executed[1]), "seconds": int(took[1])}

    def merged(self, unit, parts):
        return {what: sum(part[what] for part in parts.values()) for what in ("executions", "seconds")}

    def show(self, records):
        runs = [f"`{target}` {record['figures']['executions']:,}" for target, record in records.items()]
        missing = [f"`{target}`" for target in self.units if target not in records]
        shown = f"Executions without a finding: {', '.join(runs)}."
        return f"{shown} Not measured: {', '.join(missing)}." if missing else shown
