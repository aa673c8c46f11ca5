#!/usr/bin/env python3
"""python3 .ci/coverage.py: which lines and regions of the protocol, the batch engine and the stores the tests reach.

Counted are the tests of the crate `sqs-once` (`cargo test -p sqs-once --lib --tests`), without doctests. Needs
`rustup component add llvm-tools`. `--missed` lists the lines that no test reaches.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "crates/sqs-once/src"
MODULES = ("idempotency", "batch", "store")
TESTS = ["cargo", "test", "--package", "sqs-once", "--lib", "--tests"]
OUT = ROOT / "target/coverage"


def tool(name):
    sysroot = subprocess.check_output(["rustc", "--print", "sysroot"], text=True).strip()
    found = list(Path(sysroot).glob(f"lib/rustlib/*/bin/{name}"))
    if not found:
        sys.exit(f"{name} is missing: rustup component add llvm-tools")
    return str(found[0])


def built():
    """The test executables."""
    lines = subprocess.check_output([*TESTS, "--no-run", "--message-format=json"], text=True)
    messages = (json.loads(line) for line in lines.splitlines() if line.startswith("{"))
    return [message["executable"] for message in messages if message.get("executable")]


def export(profile, executables, *options):
    """What llvm-cov says of the crate's own files."""
    objects = [argument for one in executables[1:] for argument in ("--object", one)]
    command = [tool("llvm-cov"), "export", *options, "--instr-profile", profile, executables[0], *objects, str(SOURCES)]
    return subprocess.check_output(command, text=True)


def module(file):
    return Path(file).relative_to(SOURCES).parts[0]


def row(name, summaries):
    cells = []
    for kind in ("lines", "regions"):
        count = sum(summary[kind]["count"] for summary in summaries)
        covered = sum(summary[kind]["covered"] for summary in summaries)
        cells.append(f"{covered} of {count} ({100 * covered / count:.1f} %)")
    print(f"| {name} | {cells[0]} | {cells[1]} |")


def missed(profile, executables):
    """The lines of the modules that no test reaches."""
    for line in export(profile, executables, "--format=lcov").splitlines():
        field, _, value = line.partition(":")
        if field == "SF":
            file = value
        elif field == "DA" and value.endswith(",0") and module(file) in MODULES:
            print(f"{Path(file).relative_to(ROOT)}:{value.split(',')[0]}")


def main():
    os.chdir(ROOT)
    OUT.mkdir(parents=True, exist_ok=True)
    for old in OUT.glob("*.profraw"):
        old.unlink()
    # Instruments the workspace's own crates alone, so that no dependency is built again.
    os.environ["RUSTC_WORKSPACE_WRAPPER"] = str(Path(__file__).resolve())
    os.environ["LLVM_PROFILE_FILE"] = str(OUT / "%4m.profraw")
    executables = built()
    # Beside the report, not in it.
    subprocess.run(TESTS, check=True, stdout=sys.stderr)
    profile = str(OUT / "tests.profdata")
    raw = map(str, OUT.glob("*.profraw"))
    subprocess.run([tool("llvm-profdata"), "merge", "--sparse", *raw, "--output", profile], check=True)
    files = json.loads(export(profile, executables, "--summary-only"))["data"][0]["files"]
    print("| module | lines | regions |\n|---|---|---|")
    for name in MODULES:
        row(f"`{name}`", [file["summary"] for file in files if module(file["filename"]) == name])
    row("the whole crate", [file["summary"] for file in files])
    if "--missed" in sys.argv:
        missed(profile, executables)


if len(sys.argv) > 1 and Path(sys.argv[1]).name == "rustc":
    # As cargo's wrapper of rustc.
    os.execvp(sys.argv[1], [*sys.argv[1:], "-Cinstrument-coverage", "-Cdebuginfo=0", "-Cstrip=debuginfo"])
main()
