"""Guards of the engine that have no seam in the simulation, taken out of the code itself: each patch in
crates/sqs-once-sim/mutants is put on a copy of the repository, and the simulation looks for the first seed that shows it.

`python3 .ci/mutants.py` builds and runs all of them, `python3 .ci/mutants.py NAME...` these; with `--apply` it only sees
whether each still fits the code.
"""

import argparse
import os
import re
import subprocess
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATCHES = ROOT / "crates/sqs-once-sim/mutants"


def git(*arguments, cwd=ROOT):
    subprocess.run(["git", *arguments], cwd=cwd, check=True)


def first_seed(patch, copy, seeds):
    """The first seed that shows what the patch breaks, and what that is."""
    # A folder of their own: cargo would take what it builds of a copy for the repository's.
    environment = os.environ | {"CARGO_TARGET_DIR": str(ROOT / "target/mutants")}
    run = ["cargo", "run", "--quiet", "-p", "sqs-once-sim", "--", "--seeds", str(seeds), "--threads", "2"]
    done = subprocess.run(run, cwd=copy, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = re.search(r"^seed (\d+): (.*)$", done.stdout, re.MULTILINE)
    if not found:
        tail = "\n".join(done.stdout.splitlines()[-3:])
        raise SystemExit(f"{patch.stem} survives {seeds} seeds, or does not build:\n{tail}")
    return found.groups()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="which of them")
    parser.add_argument("--apply", action="store_true", help="only see whether they fit")
    parser.add_argument("--seeds", type=int, default=100_000, help="how many seeds each of them gets")
    arguments = parser.parse_args()
    patches = sorted(PATCHES.glob("*.patch"))
    patches = [patch for patch in patches if not arguments.names or patch.stem in arguments.names]
    assert patches, "there is no such patch"
    for patch in patches:
        git("apply", "--check", str(patch))
    if arguments.apply:
        print(f"{len(patches)} patches fit")
        return
    print("| what is taken out | first seed | what breaks |\n|---|---:|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "copy"
        git("worktree", "add", "--quiet", "--detach", str(copy))
        try:
            for patch in patches:
                git("apply", str(patch), cwd=copy)
                seed, broken = first_seed(patch, copy, arguments.seeds)
                print(f"| {patch.stem} | {seed} | {broken} |", flush=True)
                git("checkout", "--quiet", ".", cwd=copy)
        finally:
            git("worktree", "remove", "--force", str(copy))


if __name__ == "__main__":
    main()
