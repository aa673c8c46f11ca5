"""The runs of `sqs-once-sim`: the model, the simulation, and the mutants of the guards and of the engine."""

import json
import os
import re
import subprocess

from .run import OUT, ROOT, Run, Unit, bounds, commit, output, release, slices, table, worktree

THREADS = os.cpu_count()
LIBRARY = "crates/sqs-once/src"
DECISIONS = [f"{LIBRARY}/{module}" for module in ("idempotency", "store")]
CONSUMER = [f"{LIBRARY}/{module}" for module in ("batch", "consumer", "disposition", "handler", "key", "record", "report")]
WORLD = [*DECISIONS, *CONSUMER, "verification/sqs-once-sim/src/simulation"]
BENEATH = [*WORLD, f"{LIBRARY}/aws.rs", "verification/dynamodb-for-tests/src"]
PATCHES = ROOT / "verification/sqs-once-sim/mutants"


def lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


class Model(Run):
    name = "model"
    what = "every state of a small system"
    takes = "3 min"
    units = {"all": Unit({}, [*DECISIONS, "verification/sqs-once-sim/src/model"])}

    def parts(self, unit, arguments):
        return release("sqs-once-sim", "model", "--list").split()

    def part(self, unit, arguments, part, done):
        [verdict] = lines(release("sqs-once-sim", "model", "--config", part, "--json"))
        return verdict

    def merged(self, unit, parts):
        large = {name: one for name, one in parts.items() if name.endswith("-large")}
        # `clocks-too-far-apart` is expected to break a property, and stops early.
        small = [one for name, one in parts.items() if name not in large and name != "clocks-too-far-apart"]

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
        between = {what: "{:,} to {:,}".format(*small[what]) for what in ("states", "depth")}
        rows = [
            [
                f"{small['configurations']} small ones (run in CI)",
                between["states"],
                "",
                between["depth"],
                f"at most {small['seconds']} s",
            ]
        ]
        for name, one in figures["large"].items():
            rows.append([f"`{name}`", f"{one['states']:,}", f"{one['steps']:,}", one["depth"], f"{one['seconds']} s"])
        return table(["configuration", "states:", "steps:", "depth:", "time:"], rows)


class Simulation(Run):
    name = "simulation"
    what = "whole consumers in simulated time, at the `Store` trait and beneath the SDK"
    takes = "40 min each"
    units = {
        "trait": Unit({"seeds": "0..10000000"}, WORLD),
        "sdk": Unit({"seeds": "0..1000000"}, BENEATH),
    }

    def parts(self, unit, arguments):
        return slices(arguments["seeds"], 250_000 if unit == "trait" else 25_000)

    def part(self, unit, arguments, part, done):
        first, end = bounds(part)
        options = ["--depth", unit, "--first", first, "--seeds", end - first, "--threads", THREADS, "--json"]
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
        # The counts beyond the margins are only for hostile runs.
        names = [name for name in counts["trait"] if not name.startswith(("beyond", "fault: "))]
        rows = [[name, *(f"{counts[unit][name]:,}" for unit in columns)] for name in names]
        # The record lists each kind of fault.
        faults = [name for name in counts["trait"] if name.startswith("fault: ")]
        fewest = (min(counts[unit][name] for name in faults) for unit in columns)
        rows.append([f"request faults: each of {len(faults)} kinds, at least", *(f"{least:,}" for least in fewest)])
        rates = " and ".join(
            f"{counts[unit]['schedules'] / records[unit]['figures']['seconds']:,.0f}" for unit in columns
        )
        return table(["what happened", *columns.values()], rows) + f"\n\nThe runs made {rates} schedules a second."


class Guards(Run):
    name = "sim-mutants"
    what = "the simulation without each guard, at the `Store` trait and in the SDK's requests"
    takes = "5 min"
    units = {
        "trait": Unit({"seeds": 100_000}, WORLD),
        "sdk": Unit({"seeds": 100_000}, BENEATH),
    }

    def part(self, unit, arguments, part, done):
        options = ["--depth", unit, "--seeds", arguments["seeds"], "--threads", THREADS, "--json"]
        found = lines(release("sqs-once-sim", "mutants", *options))
        return {one["guard"]: {"seed": one["seed"], "breaks": one["breaks"]} for one in found}

    def show(self, records):
        at_the_trait = records["trait"]["figures"].items()
        beneath = ", ".join(f"{guard} {one['seed']}" for guard, one in records["sdk"]["figures"].items())
        rows = [[guard, one["seed"], one["breaks"]] for guard, one in at_the_trait]
        return (
            table(["guard removed", "first seed:", "violation"], rows)
            + f"\n\nFirst seeds beneath the SDK: {beneath}."
        )


class Engine(Run):
    name = "engine-mutants"
    what = "the simulation of an engine without one of its guards"
    takes = "10 min"
    units = {"all": Unit({"seeds": 100_000}, [*WORLD, "verification/sqs-once-sim/mutants"])}

    def parts(self, unit, arguments):
        return sorted(patch.stem for patch in PATCHES.glob("*.patch"))

    def part(self, unit, arguments, part, done):
        tree = worktree(OUT / self.name / "tree", commit())
        output("git", "apply", PATCHES / f"{part}.patch", cwd=tree)
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
        found = records["all"]["figures"].items()
        rows = [[name, one["seed"], one["breaks"]] for name, one in found]
        return table(["guard removed", "first seed:", "violation"], rows)

    def problems(self, records):
        patches = self.parts("all", {})
        problems = []
        for name in patches:
            fits = subprocess.run(["git", "apply", "--check", str(PATCHES / f"{name}.patch")], cwd=ROOT)
            if fits.returncode:
                problems.append(f"verification/sqs-once-sim/mutants/{name}.patch no longer fits the code")
        if patches != sorted(records["all"]["figures"]):
            problems.append("the patches are not those that were measured")
        return problems
