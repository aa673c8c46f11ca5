#!/usr/bin/env python3
"""The lines and regions of `sqs-once` that its tests reach, without doctests and the simulation.

As a program, this file is cargo's wrapper for rustc. It instruments only the workspace's own crates, so cargo need not
rebuild dependencies.
"""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

if __name__ == "__main__":
    os.execvp(sys.argv[1], [*sys.argv[1:], "-Cinstrument-coverage", "-Cdebuginfo=0", "-Cstrip=debuginfo"])

from .run import OUT, ROOT, Run, Unit, output, table

SOURCES = ROOT / "crates/sqs-once/src"
MODULES = ("idempotency", "batch", "store")
TESTS = ["cargo", "test", "--package", "sqs-once", "--lib", "--tests", "--examples"]
PROFILES = OUT / "coverage/profiles"


def tool(name):
    sysroot = Path(output("rustc", "--print", "sysroot").strip())
    found = list(sysroot.glob(f"lib/rustlib/*/bin/{name}"))
    if not found:
        raise SystemExit(f"{name} is missing: rustup component add llvm-tools")
    return found[0]


class Coverage(Run):
    name = "coverage"
    what = "the lines and regions of `sqs-once` that its tests reach"
    needs = "`rustup component add llvm-tools`"
    takes = "8 min"
    units = {"all": Unit({}, ["crates/sqs-once/src", "crates/sqs-once/tests"])}

    def part(self, unit, arguments, part, done):
        shutil.rmtree(PROFILES, ignore_errors=True)
        PROFILES.mkdir(parents=True)
        environment = os.environ | {
            "RUSTC_WORKSPACE_WRAPPER": str(Path(__file__).resolve()),
            "LLVM_PROFILE_FILE": str(PROFILES / "%4m.profraw"),
        }
        llvm_profdata, llvm_cov = tool("llvm-profdata"), tool("llvm-cov")
        built = output(*TESTS, "--no-run", "--message-format=json", env=environment)
        messages = (json.loads(line) for line in built.splitlines() if line.startswith("{"))
        programs = [message["executable"] for message in messages if message.get("executable")]
        # On standard error, because standard output contains the figures.
        subprocess.run(TESTS, cwd=ROOT, env=environment, check=True, stdout=sys.stderr)
        profile = PROFILES / "tests.profdata"
        output(llvm_profdata, "merge", "--sparse", *PROFILES.glob("*.profraw"), "--output", profile)
        objects = [word for one in programs[1:] for word in ("--object", one)]
        export = [llvm_cov, "export", "--instr-profile", profile, programs[0], *objects, SOURCES]
        (PROFILES / "missed").write_text("\n".join(missed(output(*export, "--format=lcov"))) + "\n")
        print(f"lines that no test reaches: {PROFILES.relative_to(ROOT)}/missed", file=sys.stderr)
        files = json.loads(output(*export, "--summary-only"))["data"][0]["files"]
        groups = {name: [file for file in files if module(file["filename"]) == name] for name in MODULES}
        return {name: summed(group) for name, group in (groups | {"the whole crate": files}).items()}

    def show(self, records):
        rows = []
        for name, one in records["all"]["figures"].items():
            cells = [f"{100 * reached / there:.1f} %" for reached, there in one.values()]
            rows.append([f"`{name}`" if name in MODULES else name, *cells])
        return table(["module", "lines:", "regions:"], rows)


def module(file):
    return Path(file).relative_to(SOURCES).parts[0]


def summed(files):
    kinds = {}
    for kind in ("lines", "regions"):
        summaries = [file["summary"][kind] for file in files]
        kinds[kind] = [sum(one["covered"] for one in summaries), sum(one["count"] for one in summaries)]
    return kinds


def missed(report):
    for line in report.splitlines():
        field, _, value = line.partition(":")
        if field == "SF":
            file = value
        elif field == "DA" and value.endswith(",0") and module(file) in MODULES:
            yield f"{Path(file).relative_to(ROOT)}:{value.split(',')[0]}"
