"""Writes the records into the pages and plots, and checks that each matches the output of `.ci/long --write`."""

import re
import subprocess

from . import summary
from .run import FIGURES, ROOT, output

SECTION = re.compile(r"<!-- figures: (\S+) -->\n.*?<!-- end -->", re.DOTALL)
# The pages for users. Each has a section `summary`.
SUMMARIES = {"docs/performance.md": summary.performance, "docs/reliability.md": summary.reliability}
CHANGED = "The code under test has changed since."


def is_shallow():
    return output("git", "rev-parse", "--is-shallow-repository").strip() == "true"


def is_older(record, unit):
    """Whether the code, or what is published, has changed since the figures were measured."""
    if record["arguments"] != unit.arguments:
        return True
    return subprocess.run(["git", "diff", "--quiet", record["commit"], "--", *unit.covers], cwd=ROOT).returncode != 0


def section(run, records, older):
    """A run's figures, with their date, and which of them are older than the code."""
    body = run.show(records) if records else "Not measured yet."
    groups = {}
    for unit, record in records.items():
        # The commit of figures with a note is the one that published them: see `note` in the record.
        verb = "Published" if "note" in record else "Measured"
        key = (verb, record["commit"][:7], record["date"], unit in older)
        groups.setdefault(key, []).append(unit)
    lines = []
    for (verb, commit, date, changed), units in groups.items():
        names = ", ".join(f"`{unit}`" for unit in units)
        measured = verb if len(groups) == 1 else f"{names}: {verb.lower()}"
        measured += f" at `{commit}` on {date}."
        lines.append(f"> {measured} {CHANGED}" if changed else measured)
    parts = [part for part in (body, *lines) if part]
    return marks(run.name, "\n\n".join(parts))


def marks(name, text):
    return f"<!-- figures: {name} -->\n\n{text}\n\n<!-- end -->"


def outputs(runs, older):
    """The current text of every page and plot, by its path."""
    named = {run.name: run for run in runs}
    sections = {page: {"summary": marks("summary", show(named, older))} for page, show in SUMMARIES.items()}
    texts = {}
    for run in runs:
        sections.setdefault(run.page, {})[run.name] = section(run, run.records(), older[run.name])
        texts |= run.drawings(run.records())
    for page, shown in sections.items():
        text = (ROOT / page).read_text()
        marked = SECTION.findall(text)
        if sorted(marked) != sorted(shown):
            raise SystemExit(f"{page} must have a section for each of {sorted(shown)}, and has {sorted(marked)}")
        texts[page] = SECTION.sub(lambda found, shown=shown: shown[found[1]], text)
    return texts


def write(runs):
    if is_shallow():
        raise SystemExit("a shallow clone does not know the commits of the figures")
    older = {}
    for run in runs:
        older[run.name] = {unit for unit, record in run.records().items() if is_older(record, run.units[unit])}
    for path, text in outputs(runs, older).items():
        (ROOT / path).write_text(text)
        print(f"wrote {path}")


def check(runs, is_release):
    """Checks that every record belongs to a published run, and that every page matches the records. For a release, no figure
    may be older than the code."""
    problems, older = [], {}
    known = {f"{run.name}.json" for run in runs}
    problems += [f"{file} is the record of no run" for file in FIGURES.glob("*.json") if file.name not in known]
    for run in runs:
        records = run.records()
        problems += run.problems(records) if records else []
        older[run.name] = set()
        for unit in run.units.values():
            gone = [path for path in unit.covers if not (ROOT / path.removeprefix(":!")).exists()]
            problems += [f"{run.name} covers {path}, which is gone" for path in gone]
        for unit, record in records.items():
            if is_shallow():
                continue
            commit = record["commit"]
            ancestor = ["git", "merge-base", "--is-ancestor", commit, "HEAD"]
            if len(commit) != 40 or subprocess.run(ancestor, cwd=ROOT, stderr=subprocess.DEVNULL).returncode:
                problems.append(f"{run.name} {unit} was measured at {commit}, which is not part of this history")
            elif is_older(record, run.units[unit]):
                older[run.name].add(unit)
    old = [f"{name} {unit}" for name, units in older.items() for unit in units if name != "mutants"]
    if is_release and (old or is_shallow()):
        problems.append(f"not of this code: {', '.join(old) or 'a shallow clone can not tell'}")
    if is_shallow():
        print("NOT CHECKED: whether figures are older than the code, and the pages: the clone is shallow")
    elif not problems:
        for path, text in outputs(runs, older).items():
            if not (ROOT / path).exists() or (ROOT / path).read_text() != text:
                problems.append(f"{path} is not what `.ci/long --write` makes of the records and of the code")
    if problems:
        raise SystemExit("\n".join(problems))
    if not is_shallow():
        records = sum(len(run.records()) for run in runs)
        print(f"{records} records, {sum(map(len, older.values()))} of them older than the code")
