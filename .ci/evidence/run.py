"""A long run: its published arguments, its parts, and the record of its figures."""

import datetime
import hashlib
import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# The state of interrupted runs, which another machine can continue.
OUT = Path(os.environ.get("LONG_STATE", ROOT / "target/long")).absolute()
FIGURES = ROOT / "verification/figures"
# `.ci/long` writes these paths, and no run depends on them.
OUTPUTS = ["verification/figures", "docs", "verification/*.md", "verification/*.svg"]


@dataclass(frozen=True)
class Unit:
    """One set of published figures."""

    # Only figures with these arguments are published.
    arguments: dict
    # Figures are older than the code after a change of these paths.
    covers: list


class Run:
    """A command of `.ci/long`. Subclasses run its parts and format its figures."""

    name: str
    what: str
    needs = "nothing more than a build"
    takes: str
    page = "verification/reliability.md"
    units: dict

    def parts(self, unit, arguments):
        """The names of the parts. An interrupted run continues with the first unfinished part."""
        return ["all"]

    def state(self, unit):
        """The state of the code. Finished parts are reused only for the same state."""
        return commit()[:12]

    def part(self, unit, arguments, part, done):
        """Runs one part and returns its figures. `done` has the figures of earlier parts. A fault raises SystemExit."""
        raise NotImplementedError

    def merged(self, unit, parts):
        """The figures of all parts together."""
        return parts["all"]

    def show(self, records):
        """The figures as Markdown."""
        raise NotImplementedError

    def drawings(self, records):
        """The figures as plots, by path."""
        return {}

    def problems(self, records):
        """The reasons not to publish the recorded figures."""
        return []

    def records(self):
        file = FIGURES / f"{self.name}.json"
        return json.loads(file.read_text()) if file.exists() else {}


def output(*command, cwd=ROOT, **options):
    """The standard output of a command that must succeed. Its standard error goes to the terminal."""
    done = subprocess.run([str(word) for word in command], cwd=cwd, stdout=subprocess.PIPE, text=True, **options)
    if done.returncode:
        raise SystemExit(f"{done.stdout}\nFAILED with {done.returncode}: {' '.join(map(str, command))}")
    return done.stdout


def release(package, *arguments):
    """Runs a package's release build, and returns what it prints."""
    return output("cargo", "run", "--quiet", "--release", "-p", package, "--", *arguments)


def installed(tool, version):
    """The path of a pinned tool from crates.io. Installs it below `target/` if it is missing."""
    root = OUT / "tools" / f"{tool}-{version}"
    program = root / "bin" / tool
    if not program.exists():
        install = ["cargo", "install", "--quiet", "--locked", "--root", str(root), f"{tool}@{version}"]
        subprocess.run(install, cwd=ROOT, check=True)
    return program


def python_packages(*pinned):
    """Makes pinned packages from PyPI importable. Installs them below `target/` if they are missing."""
    folder = OUT / "tools" / "-".join(["python", *pinned])
    if not folder.exists():
        install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(folder), *pinned]
        subprocess.run(install, cwd=ROOT, check=True)
    sys.path.insert(0, str(folder))


def worktree(folder, commit):
    """A separate checkout of the commit. Discards earlier changes to its files."""
    if not (folder / ".git").exists():
        output("git", "worktree", "prune")
        output("git", "worktree", "add", "--quiet", "--detach", "--force", folder, commit)
    output("git", "checkout", "--quiet", "--force", "--detach", commit, cwd=folder)
    return folder


def commit():
    """The full hash of HEAD. Refuses a dirty tree, because its figures would belong to no commit."""
    paths = [".", *(f":!{path}" for path in OUTPUTS)]
    dirty = output("git", "status", "--porcelain", "--", *paths)
    if dirty:
        raise SystemExit(f"the tree is dirty, so that no commit has these figures:\n{dirty}")
    return output("git", "rev-parse", "HEAD").strip()


def slices(seeds, size):
    """The parts of a range `A..B`, in the same format."""
    first, end = bounds(seeds)
    return [f"{start}..{min(start + size, end)}" for start in range(first, end, size)]


def bounds(seeds):
    """The first seed and the end of a range `A..B`."""
    match = re.fullmatch(r"(\d+)\.\.(\d+)", seeds)
    if not match or int(match[1]) >= int(match[2]):
        raise SystemExit(f"{seeds} is not a range of seeds such as 0..3000")
    return int(match[1]), int(match[2])


def machine():
    return {"cores": os.cpu_count(), "rustc": output("rustc", "--version").strip()}


def carry_out(run, unit, arguments):
    """Runs the unfinished parts and prints the record. Stores the record if the arguments are the published ones."""
    at = commit()
    published = run.units[unit].arguments
    changed = [f"--{name} {value}" for name, value in arguments.items() if value != published[name]]
    digest = hashlib.sha256(json.dumps(arguments, sort_keys=True).encode()).hexdigest()
    folder = OUT / run.name / unit / f"{run.state(unit)}-{digest[:8]}"
    folder.mkdir(parents=True, exist_ok=True)
    names = run.parts(unit, arguments)
    done = {}
    for number, part in enumerate(names, 1):
        file = folder / f"{part}.json"
        known = file.exists()
        if not known:
            figures = run.part(unit, arguments, part, done)
            if commit() != at:
                raise SystemExit(f"HEAD is no longer {at}: part {part} is not kept")
            half = file.with_suffix(".half")
            half.write_text(json.dumps(figures))
            half.rename(file)
        done[part] = json.loads(file.read_text())
        print(f"{run.name} {unit}: {number} of {len(names)}, {part}{' (done before)' * known}", file=sys.stderr)
    record = {
        "commit": at,
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "machine": machine(),
        "command": " ".join([".ci/long", run.name, unit, *changed]),
        "arguments": arguments,
        "figures": run.merged(unit, done),
    }
    print(json.dumps(record, indent=2, ensure_ascii=False))
    if changed:
        print(f"not recorded: {' '.join(changed)} is not what is published", file=sys.stderr)
        return
    FIGURES.mkdir(parents=True, exist_ok=True)
    records = run.records() | {unit: record}
    write(run, records)


def write(run, records):
    known = {unit: records[unit] for unit in run.units if unit in records}
    file = FIGURES / f"{run.name}.json"
    file.write_text(json.dumps(known, indent=2, ensure_ascii=False) + "\n")
    print(f"recorded in {file.relative_to(ROOT)}; `.ci/long --write` writes the page", file=sys.stderr)


def table(head, rows):
    """A Markdown table. A column contains numbers if its heading ends with a colon."""
    marks = "|".join("---:" if name.endswith(":") else "---" for name in head)
    names = [name.removesuffix(":") for name in head]
    lines = ["|" + "".join(f" {cell} |" if cell != "" else " |" for cell in row) for row in (names, *rows)]
    return "\n".join([lines[0], f"|{marks}|", *lines[1:]])
