"""Whole outages of a dependency in simulated time."""

import json
import os

from .run import Run, Unit, output, table

SOURCES = "crates/sqs-once/src"
TESTS = "crates/sqs-once/tests/all/outages"
CONSUMER = [
    f"{SOURCES}/{module}" for module in ("batch", "breaker", "consumer", "failed", "handler", "idempotency", "report.rs", "store")
]
TEST = "outages::world::an_outage_of_a_day_buries_no_message_with_three_deliveries_left"
# The outages in a part, which take a minute.
SLICE = 2_000
LENGTHS = {"600": "1 to 10 min", "3600": "up to 1 h", "21600": "up to 6 h", "86400": "up to 24 h"}


class Outages(Run):
    name = "outages"
    what = "outages of a service that handlers call, with queue, environments and breaker in simulated time"
    takes = "10 min"
    units = {"all": Unit({"outages": 20_000}, [*CONSUMER, TESTS])}

    def parts(self, unit, arguments):
        """The seeds. Each draws other outages."""
        return [str(seed) for seed in range(-(-arguments["outages"] // SLICE))]

    def part(self, unit, arguments, part, done):
        outages = min(SLICE, arguments["outages"] - int(part) * SLICE)
        drawn = {"PROPTEST_RNG_SEED": part, "PROPTEST_CASES": str(outages)}
        command = ["cargo", "test", "-p", "sqs-once", "--all-features", "--test", "all", "--", "--exact", TEST, "--nocapture"]
        [told] = [line for line in output(*command, env=os.environ | drawn).splitlines() if line.startswith("{")]
        return json.loads(told)

    def merged(self, unit, parts):
        figures = {}
        for length in LENGTHS:
            told = [part[length] for part in parts.values()]
            figures[length] = {name: sum(one[name] for one in told) for name in told[0]}
            figures[length]["longest_delay"] = max(one["longest_delay"] for one in told)
        return figures

    def show(self, records):
        figures = records["all"]["figures"]
        head = ["", *(f"{length}:" for length in LENGTHS.values())]
        rows = {
            "outages": lambda one: f"{one['outages']:,}",
            "messages": lambda one: f"{one['messages']:,}",
            "of these, with enough deliveries left": lambda one: f"{one['surviving']:,}",
            "**of these, in the DLQ**": lambda one: f"**{one['lost']:,}**",
            "others in the DLQ, with the reason": lambda one: f"{one['marked']:,}",
            "**others in the DLQ, without a reason**": lambda one: f"**{one['buried']:,}**",
            "calls during the outage, on average": lambda one: f"{one['calls'] / one['outages']:.0f}",
            "late successes: the breaker had changed meanwhile": lambda one: f"{one['outdated']:,}",
            "**of these, changed it again**": lambda one: f"**{one['overwritten']:,}**",
            "longest delay after the outage": lambda one: minutes(one["longest_delay"]),
        }
        return table(head, [[name, *(of(figures[length]) for length in LENGTHS)] for name, of in rows.items()])


def minutes(seconds):
    return f"{-(-seconds // 60)} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
