"""The runs of `sqs-once-sim`: the model, the simulation, and the mutants of the guards and of the engine."""

import json
import os
import re
import subprocess
import tomllib

from .run import OUT, ROOT, Run, Unit, bounds, commit, release, slices, table, worktree

THREADS = os.cpu_count()
LIBRARY = "crates/sqs-once/src"
DECISIONS = [f"{LIBRARY}/{module}" for module in ("idempotency", "store")]
CONSUMER = [f"{LIBRARY}/{module}" for module in ("batch", "consumer", "failed", "handler", "key", "record", "report.rs", "router.rs")]
FORGET = "crates/sqs-once-operate/src/change.rs"
WAYS = "verification/sqs-once-sim/src/way.rs"
JUDGE = "crates/sqs-once-judge/src"
WORLD = [*DECISIONS, *CONSUMER, WAYS, JUDGE, "verification/sqs-once-sim/src/simulation"]
BENEATH = [*WORLD, f"{LIBRARY}/aws"]
# The configurations of the model that are expected to break a property, where the search stops early.
BREAKING = ("clocks-too-far-apart", "two-ids-unread")
MUTANTS = ROOT / "verification/sqs-once-sim/mutants.toml"
# The counts that the page shows. The record has all counts of its commit.
SHOWN = re.compile("schedules|deliveries|claims|duplicates|effects|crashes|processes|freezes|clocks")
VERSIONS = ("mixed", "upgrade", "rollback", "other-ids")


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def mutants():
    return tomllib.loads(MUTANTS.read_text())


def mutated(name, tree):
    """The only file of a checkout that has what a mutant replaces, and its text with the mutant."""
    find, replace = (mutants()[name][key] for key in ("find", "replace"))
    sources = {file: file.read_text() for file in (tree / LIBRARY).rglob("*.rs")}
    hits = [file for file, text in sources.items() for _ in range(text.count(find))]
    if len(hits) != 1:
        found = ", ".join(str(file.relative_to(tree)) for file in hits) or "nowhere"
        raise SystemExit(f"{MUTANTS.relative_to(ROOT)}: {name} must be found once, and is found {found}: {find}")
    return hits[0], sources[hits[0]].replace(find, replace)


def by_property(guards):
    """The guards and their first seeds, one row for each property."""
    rows = {}
    for guard, one in guards.items():
        rows.setdefault(one["breaks"].partition(": ")[0], []).append(f"{guard} {one['seed']}")
    cells = [[violated, ", ".join(found)] for violated, found in rows.items()]
    return table(["violated property", "guards removed, and first seeds"], cells)


class Model(Run):
    name = "model"
    what = "every state of a small system"
    takes = "5 min"
    units = {"all": Unit({}, [*DECISIONS, FORGET, WAYS, "verification/sqs-once-sim/src/model"])}

    def parts(self, unit, arguments):
        return release("sqs-once-sim", "model", "--list").split()

    def part(self, unit, arguments, part, done):
        [verdict] = lines(release("sqs-once-sim", "model", "--config", part, "--json"))
        return verdict

    def merged(self, unit, parts):
        large = {name: one for name, one in parts.items() if name.endswith("-large")}
        small = [one for name, one in parts.items() if name not in large and name not in BREAKING]

        def ends(what):
            return [min(one[what] for one in small), max(one[what] for one in small)]

        return {
            "small": {
                "configurations": len(small),
                "states": ends("states"),
                "depth": ends("depth"),
                "seconds": round(ends("seconds")[1], 1),
            },
            "large": {
                name: {what: one[what] for what in ("states", "steps", "depth")} | {"seconds": round(one["seconds"])}
                for name, one in sorted(large.items(), key=lambda item: -item[1]["states"])
            },
        }

    def show(self, records):
        figures = records["all"]["figures"]
        small = figures["small"]
        rows = [[f"{small['configurations']} small ones (run in CI)", "{:,} to {:,}".format(*small["states"])]]
        rows += [[f"`{name}`", f"{one['states']:,}"] for name, one in figures["large"].items()]
        return table(["configuration", "states:"], rows)


class Simulation(Run):
    name = "simulation"
    what = "whole consumers in simulated time: at the `Store` trait, beneath the SDK, and two versions at once"
    takes = "5 min each, 2 min for the versions"
    units = {
        "trait": Unit({"seeds": "0..1000000"}, WORLD),
        "sdk": Unit({"seeds": "0..100000"}, BENEATH),
        "versions": Unit({"seeds": "0..100000"}, WORLD),
    }

    def parts(self, unit, arguments):
        ranges = slices(arguments["seeds"], 25_000 if unit == "sdk" else 100_000)
        return [f"{versions}~{seeds}" for versions in VERSIONS for seeds in ranges] if unit == "versions" else ranges

    def part(self, unit, arguments, part, done):
        versions, _, seeds = part.rpartition("~")
        chosen = ["--versions", versions] if versions else ["--depth", unit]
        first, end = bounds(seeds)
        options = [*chosen, "--first", first, "--seeds", end - first, "--threads", THREADS, "--json"]
        [told] = lines(release("sqs-once-sim", *options))
        return told

    def merged(self, unit, parts):
        counts = {}
        for part in parts.values():
            for name, count in part["counts"]:
                counts[name] = counts.get(name, 0) + count
        return {"seconds": round(sum(part["seconds"] for part in parts.values())), "counts": counts}

    def show(self, records):
        columns = {"trait": "at the `Store` trait:", "sdk": "beneath the SDK:"}
        counts = {unit: records[unit]["figures"]["counts"] for unit in columns}
        names = [name for name in counts["trait"] if SHOWN.match(name) and name in counts["sdk"]]
        rows = [[name, *(f"{counts[unit][name]:,}" for unit in columns)] for name in names]
        # The record has each kind.
        faults = [name for name in counts["trait"] if name.startswith("fault: ")]
        fewest = (min(counts[unit][name] for name in faults) for unit in columns)
        rows.append([f"request faults: each of {len(faults)} kinds, at least", *(f"{least:,}" for least in fewest)])
        if "versions" not in records:
            return table(["what happened", *columns.values()], rows)
        counts = records["versions"]["figures"]["counts"]
        beside = f"{counts['schedules'] // len(VERSIONS):,} schedules with each of the four `--versions`, too"
        return table(["what happened", *columns.values()], rows) + f"\n\nNo property was violated in {beside}."


class Guards(Run):
    name = "sim-mutants"
    what = "the simulation without each guard, at the `Store` trait and in the SDK's requests"
    takes = "15 min"
    units = {
        "trait": Unit({"seeds": 100_000}, WORLD),
        "sdk": Unit({"seeds": 100_000}, BENEATH),
    }

    def part(self, unit, arguments, part, done):
        options = ["--depth", unit, "--seeds", arguments["seeds"], "--threads", THREADS, "--json"]
        found = lines(release("sqs-once-sim", "mutants", *options))
        return {one["guard"]: {"seed": one["seed"], "breaks": one["breaks"]} for one in found}

    def show(self, records):
        beneath = ", ".join(f"{guard} {one['seed']}" for guard, one in records["sdk"]["figures"].items())
        return by_property(records["trait"]["figures"]) + f"\n\nFirst seeds beneath the SDK: {beneath}."


class Engine(Run):
    name = "engine-mutants"
    what = "the simulation of an engine without one of its guards"
    takes = "10 min"
    units = {"all": Unit({"seeds": 100_000}, [*WORLD, "verification/sqs-once-sim/mutants.toml"])}

    def parts(self, unit, arguments):
        return sorted(mutants())

    def part(self, unit, arguments, part, done):
        tree = worktree(OUT / self.name / "tree", commit())
        file, text = mutated(part, tree)
        file.write_text(text)
        # A separate target folder, because cargo would confuse the builds of the copy and of the repository.
        environment = os.environ | {"CARGO_TARGET_DIR": str(OUT / self.name / "build")}
        options = ["--seeds", str(arguments["seeds"]), "--threads", str(THREADS)]
        command = ["cargo", "run", "--quiet", "-p", "sqs-once-sim", "--", *options]
        # The simulation exits with an error if it finds a violation.
        done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, text=True)
        found = re.search(r"^seed (\d+): (.*)$", done.stdout, re.MULTILINE)
        if not found:
            raise SystemExit(f"{part} survives {arguments['seeds']} seeds, or does not build:\n{done.stdout}")
        return {"seed": int(found[1]), "breaks": found[2]}

    def merged(self, unit, parts):
        return parts

    def show(self, records):
        figures = records["all"]["figures"]
        missing = ", ".join(sorted(mutants().keys() - figures.keys()))
        return by_property(figures) + (f"\n\nNot measured: {missing}." if missing else "")

    def problems(self, records):
        problems = []
        for name in mutants():
            try:
                mutated(name, ROOT)
            except SystemExit as problem:
                problems.append(str(problem))
        if gone := sorted(records["all"]["figures"].keys() - mutants().keys()):
            problems.append(f"mutants that were measured no longer exist: {', '.join(gone)}")
        return problems
