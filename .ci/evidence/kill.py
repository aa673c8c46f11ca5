"""The long run of the kill test."""

import re

from .run import Run, Unit, release, table

WAYS = ("claim-first", "fifo", "transactional")
SOURCES = "crates/sqs-once/src"
MODULES = ("batch", "consumer", "failed", "idempotency", "key", "lambda", "record", "report.rs", "router.rs", "store")
LOCAL = ("dynamodb", "function.rs", "launch.rs", "log.rs", "message.rs", "queue", "runtime_api", "response.rs", "table.rs")
OTHERS = (
    "verification/sqs-once-kill/src",
    "crates/sqs-once-judge/src",
    *(f"crates/sqs-once-local/src/{module}" for module in LOCAL),
)
WRONG = ("lost", "unrecorded", "unexpected", "duplicated", "misplaced", "concurrent", "unfenced", "disordered")


class Kill(Run):
    name = "kill"
    what = "real processes killed and frozen at random, on a faulty network"
    takes = "25 min"
    units = {
        "all": Unit(
            {"messages": 100_000, "kills": 1_200, "seed": 1},
            [*(f"{SOURCES}/{module}" for module in MODULES), *OTHERS],
        )
    }

    def parts(self, unit, arguments):
        return list(WAYS)

    def part(self, unit, arguments, part, done):
        shares = {name: -(-arguments[name] // len(WAYS)) for name in ("messages", "kills")}
        # Code that outlives its invocation waits for real leases, which the gate's runs do not.
        options = ["--way", part, "--freezes", shares["kills"] // 2, "--outliving", 5, "--seed", arguments["seed"]]
        for name, share in shares.items():
            options += [f"--{name}", share]
        told = release("sqs-once-kill", *options)
        rows = re.findall(r"^\| \**(.+?)\** \| (\d+) \| (.*) \|$", told, re.MULTILINE)
        accounts = {name: int(count) for name, count, _ in rows}
        [(kills, busy)] = re.findall(r"SIGKILL to (\d+) of them, (\d+) with a batch", told)
        [freezes] = re.findall(r"^SIGSTOP and SIGCONT (\d+) times", told, re.MULTILINE)
        timeouts = r"(\d+) processes ended, (\d+) were frozen and (\d+) lived on; (\d+) ended themselves"
        [(ended, frozen, lived_on, themselves)] = re.findall(timeouts, told)
        [outlived] = re.findall(r"(\d+) effects of code that outlived its invocation", told)
        [(requests, faults)] = re.findall(r"^(\d+) requests: (.*)\.$", told, re.MULTILINE)
        return {
            "messages": shares["messages"],
            "orders": accounts["attempted"],
            "kills": int(kills),
            "with a batch": int(busy),
            "freezes": int(freezes),
            "timeouts": {"ended": int(ended), "frozen": int(frozen), "lived on": int(lived_on)},
            "ended themselves": int(themselves),
            "outlived": int(outlived),
            "requests": int(requests),
            "disturbed": sum(map(int, re.findall(r" (\d+)(?:,|$)", faults))),
            "wrong": {name: accounts[name] for name in WRONG if name in accounts},
            "repeated": {note: int(count) for name, count, note in rows if name == "repeated"},
            "recovered": accounts["recovered"],
            "dead letters": accounts["dead letters"],
        }

    def merged(self, unit, parts):
        return parts

    def show(self, records):
        ways = records["all"]["figures"]

        def row(name, of):
            return [name, *(of(ways[way]) for way in WAYS)]

        def wrong(*names):
            def of(one):
                found = [one["wrong"][name] for name in names if name in one["wrong"]]
                return f"**{sum(found)}**" if found else "–"

            return row(f"**{', '.join(names)}**", of)

        def pair(first, second):
            return lambda one: f"{one[first]:,}, {one[second]:,}"

        def counts(name, what):
            return [row(name, what)] if all("freezes" in one for one in ways.values()) else []

        reasons = dict.fromkeys(why for one in ways.values() for why, count in one["repeated"].items() if count)
        return table(
            ["", *(f"{way}:" for way in WAYS)],
            [
                row("messages / orders", lambda one: f"{one['messages']:,} / {one['orders']:,}"),
                row("kills, of these with a batch", pair("kills", "with a batch")),
                *counts("freezes", lambda one: f"{one['freezes']:,}"),
                *counts("at a timeout: ended, frozen, lived on", lambda one: ", ".join(f"{count:,}" for count in one["timeouts"].values())),
                *counts("ended themselves", lambda one: f"{one['ended themselves']:,}"),
                *counts("effects of code that outlived its invocation", lambda one: f"{one['outlived']:,}"),
                row("requests, of these disturbed", pair("requests", "disturbed")),
                wrong("lost", "unrecorded", "unexpected", "duplicated", "misplaced"),
                wrong("concurrent", "unfenced"),
                wrong("disordered"),
                *(row(f"repeated: {why}", lambda one, why=why: one["repeated"].get(why, "–")) for why in reasons),
                row("recovered", lambda one: f"{one['recovered']:,}"),
            ],
        )
