"""What the pages for users show: five figures, and what is missing."""

from .benchmark import Measured
from .run import table


def performance(runs, older):
    records = runs["benchmark"].records()
    record = records["all"]
    changed = " The code has changed since." if older["benchmark"] else ""
    return f"Measured at `{record['commit'][:7]}` on {record['date']}.{changed}\n\n{Measured(records).summary()}"


def reliability(runs, older):
    runs = {name: run for name, run in runs.items() if name != "benchmark"}
    figures = {name: {unit: one["figures"] for unit, one in run.records().items()} for name, run in runs.items()}
    states = sum(one["states"] for one in figures["model"]["all"]["large"].values())
    simulated = [one["counts"] for one in figures["simulation"].values()]
    schedules, deliveries = (sum(one[what] for one in simulated) for what in ("schedules", "deliveries"))
    guards = {name for run in ("sim-mutants", "engine-mutants") for unit in figures[run].values() for name in unit}
    ways = figures["kill"]["all"].values()
    kills, messages = (sum(one[what] for one in ways) for what in ("kills", "messages"))
    wrong, repeated = (sum(sum(one[what].values()) for one in ways) for what in ("wrong", "repeated"))
    mutants = figures["mutants"].values()
    missed = sum(len(one["survivors"]) for one in mutants)
    caught = sum(one["caught"] + len(one["timeouts"]) for one in mutants)
    rows = [
        [f"a model checker visits {states:,} states of small systems", "every property holds"],
        [f"{schedules:,} random schedules of whole consumers, with {deliveries:,} deliveries", "every property holds"],
        [
            f"{kills:,} kills (`kill -9`) of real processes that handle {messages:,} messages",
            f"{wrong} messages lost or wrong; {repeated} effects repeated where they can",
        ],
        [f"{len(guards)} guards of the code, each removed in turn", "the simulation finds each"],
        [
            f"{caught + missed:,} changes of single expressions, in {len(mutants)} modules",
            f"tests catch {caught:,}; {missed} remain, each with a reason",
        ],
    ]
    units = [f"`{name} {unit}`" for name, run in runs.items() for unit in run.units if unit not in figures[name]]
    measured, old = (sum(len(units[name]) for name in runs) for units in (figures, older))
    return "\n\n".join(
        [
            table(["test", "result"], rows),
            f"The code has changed since {old} of {measured} measurements. Not measured yet: {', '.join(units)}.",
        ]
    )
