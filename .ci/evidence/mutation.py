"""Mutation testing of the library by cargo-mutants, module by module."""

import json
import os
import re
import subprocess
import sys
import tomllib
from collections import Counter

from .run import OUT, ROOT, Run, Unit, commit, installed, output, table, worktree

VERSION = "27.1.0"
# The number of mutants in a part, which takes a few minutes.
SLICE = 25
MODULES = ("batch", "breaker", "failed", "handler", "idempotency", "key", "once", "record", "store")
SOURCES = "crates/sqs-once/src"
POSTGRES = "crates/sqs-once-postgres/src"
# The survivors that are accepted, each with a reason.
KEPT = ROOT / "verification/survivors.toml"
# The format `file:line:column: mutation`.
PLACE = re.compile(r"^(\S+?):(\d+):\d+: (.*)$")


# The closest modules of `tests/all` for a file, else for its module. They catch most mutants, and build in seconds without
# the other test modules.
NEXT_TO = {
    "batch/answer.rs": "batch blocking deadline metrics",
    "batch/batcher.rs": "batch in_flight requests store_trouble",
    "batch/call.rs": "batch deadline store_trouble transactional transactional_effects transactions unknown_outcome",
    "batch/claims.rs": "batch in_flight requests store_trouble",
        "batch/ending.rs": "batch dead_letters fifo hooks outages store_trouble transactional transactional_effects transactions"
    " visibility",
    "batch/engine.rs": "batch fifo missing_key requests",
    "batch/gate.rs": "metrics outages",
    "batch/handling.rs": "batch deadline logs outages",
    "batch/held.rs": "batch_handlers renewals",
    "batch/hooks.rs": "hooks",
    "batch/ledger.rs": "batch logs spans",
    "batch/leaders.rs": "batch batch_handlers cache",
    "batch/line.rs": "batch fifo in_flight requests",
    "batch/prepare.rs": "batch blocking dead_letters large_messages logs outages",
    "batch/record.rs": "batch dead_letters fifo hooks missing_key outages store_trouble",
    "batch/room.rs": "batch fifo in_flight",
    "batch/run.rs": "batch deadline fifo in_flight missing_key outages requests unknown_outcome",
    "batch/settlements.rs": "batch requests store_trouble",
    "batch/stop.rs": "batch dead_letters fifo outages",
    "batch/together.rs": "batch_handlers batch_handlers_fifo batch_handlers_late outages",
    "batch/unknown_outcome.rs": "unknown_outcome",
    "batch/visibility_warning.rs": "visibility_warning",
    "batch/watchdog.rs": "blocking deadline next_event renewals",
    "failed/attributes.rs": "dead_letters",
    "failed/backoff.rs": "invalid_settings visibility",
    "failed/dead_letters.rs": "dead_letters",
    "failed/isolated.rs": "outages testing_kit",
    "failed/mod.rs": "dead_letters outages visibility",
    "failed/settings.rs": "dead_letters invalid_settings visibility",
    "failed/sqs.rs": "dead_letters visibility",
    "failed/visibility.rs": "outages visibility",
    "handler/batch.rs": "batch_handlers",
    "handler/batch_handler.rs": "batch_handlers",
    "handler/blocking.rs": "blocking deadline next_event",
    "handler/error.rs": "dead_letters hooks outages visibility",
    "handler/extract.rs": "batch correlation envelopes keys testing_kit",
    "handler/outcome.rs": "recorded writes",
    "handler/prepare.rs": "decoders envelopes missing_key namesakes",
    "handler/reader.rs": "decoders fingerprint keys",
    "batch": "batch batch_handlers batch_handlers_fifo batch_handlers_late blocking cache dead_letters deadline fifo hooks"
    " in_flight invalid_settings layers logs metrics missing_key outages renewals requests router silence spans store_trouble"
    " unknown_outcome transactional transactional_effects transactions visibility visibility_warning",
    "breaker": "metrics outages",
    "failed": "batch dead_letters fifo hooks invalid_settings outages start testing_kit visibility",
    "handler": "batch batch_handlers batch_handlers_fifo blocking dead_letters hooks idempotency_run invalid_settings logs"
    " outages recorded spans testing_kit unknown_outcome transactional transactional_effects transactions writes",
    "idempotency": "also_read batch cache idempotency_run metrics outages recorded start store_trouble transactional"
    " transactional_effects transactional_settings transactions writes",
    "key": "also_read attribute fetched_secrets fingerprint invalid_settings jmespath key_codecs key_secret keys namesakes"
    " powertools_items readable_keys start stored_values",
    "once": "also_read cache idempotency_effects idempotency_run invalid_settings metrics start transactional transactions"
    " writes",
    "record": "bad_input batch batch_handlers correlation dead_letters envelopes events fifo idempotency_run key_codecs logs"
    " metrics own_envelopes producer spans testing_kit visibility",
    "report": "invalid_settings logs metrics spans",
    "store": "also_read in_flight powertools_items protocol_decisions requests start store_suite store_trouble testing_writes"
    " transactional writes",
    "idempotency/breaker.rs": "outages",
    "idempotency/cache.rs": "cache",
    "idempotency/admit.rs": "batch transactional transactional_effects writes recorded transactions store_trouble",
    "idempotency/key_rules.rs": "batch transactional transactional_effects writes recorded transactions store_trouble",
    "idempotency/settle.rs": "batch transactional transactional_effects writes recorded transactions store_trouble",
    "idempotency/also_read.rs": "also_read",
    "idempotency/connect.rs": "start store_trouble",
    "idempotency/protocol.rs": "protocol_decisions",
    "idempotency/settings.rs": "transactional_settings start also_read",
    "key/codec.rs": "key_codecs",
    "key/envelope_ids.rs": "envelopes keys",
    "key/extractor.rs": "keys",
    "key/fingerprint.rs": "fingerprint stored_values",
    "key/hex.rs": "keys stored_values",
    "key/jmes_path.rs": "jmespath",
    "key/json_pointer.rs": "fingerprint keys",
    "key/mod.rs": "keys stored_values",
    "key/namespace.rs": "keys readable_keys start",
    "key/part.rs": "keys",
    "key/powertools.rs": "key_codecs",
    "key/readable.rs": "readable_keys",
    "key/secret.rs": "key_secret",
    "once/builder.rs": "idempotency_run",
    "once/error.rs": "idempotency_run",
    "once/invocation.rs": "idempotency_run",
    "once/keyed_work.rs": "idempotency_run",
    "record/correlation.rs": "correlation",
    "record/decode.rs": "decoders",
    "record/envelope/auto.rs": "envelopes",
    "record/envelope/event_bridge.rs": "envelopes",
    "record/envelope/fields.rs": "envelopes",
    "record/envelope/mod.rs": "envelopes own_envelopes",
    "record/envelope/opened.rs": "own_envelopes",
    "record/envelope/s3.rs": "envelopes",
    "record/envelope/sns.rs": "envelopes",
    "record/message.rs": "bad_input dead_letters envelopes fifo keys metrics producer",
    "record/raw.rs": "bad_input events",
    "report.rs": "invalid_settings logs metrics",
    "store/dynamodb/errors.rs": "store_suite store_trouble",
    "store/dynamodb/layout.rs": "start store_suite",
    "store/data.rs": "idempotency_run recorded",
    "store/dynamodb/mod.rs": "guides namesakes no_secrets start store_suite",
    "store/dynamodb/statements.rs": "store_suite",
    "store/dynamodb/table.rs": "store_suite",
    "store/dynamodb/table_client.rs": "store_suite",
    "store/dynamodb/transaction.rs": "store_suite",
    "store/dynamodb/updates.rs": "store_suite",
    "store/dynamodb/writes/check.rs": "store_suite writes",
    "store/dynamodb/writes/error.rs": "writes",
    "store/dynamodb/writes/mod.rs": "guides no_secrets testing_writes writes",
    "store/dynamodb/writes/write.rs": "guides no_secrets testing_writes writes",
    "store/error.rs": "guides no_secrets store_suite store_trouble",
    "store/item.rs": "protocol_decisions store_suite stored_values",
    "store/memory.rs": "store_suite",
    "store/mod.rs": "namesakes start",
    # Files of sqs-once-postgres.
    "config.rs": "errors",
    "errors.rs": "abandoned crashes errors",
    "expired.rs": "expired",
    "iam.rs": "errors",
    "lib.rs": "errors expired transactions",
    "pool.rs": "abandoned crashes errors",
    "rows.rs": "round_trips slices values",
    "statements.rs": "round_trips slices transactions values",
    "store.rs": "abandoned errors round_trips slices transactions",
    "tls.rs": "errors",
    "transaction.rs": "transactions work",
    "values.rs": "values",
}
# Modules of `tests/all` that others use.
HELPERS = "claims histories orders relay support"
# The files that the tests of another package exercise.
TESTED_BY = {"store/dynamodb/operate.rs": "sqs-once-operate"}
# The remaining mutants run under all tests except these, which are slow or do not test the library's decisions.
SLOW = ["exactly_once::killed", "guides", "hostile_code", "no_secrets", "without_sqs"]
WITHOUT_SLOW = [word for name in SLOW for word in ("--skip", f"{name}::")]
# The slowest of the closest tests. It runs only for mutants that survive the others.
SLOWEST_NEXT_TO = ["--skip", "exactly_once::killed::", "--skip", "store_suite::conformance::"]
# The default features leave it out: no test could catch its mutants.
NOT_COMPILED = "**/store/no_dynamodb.rs"


class Mutation(Run):
    name = "mutants"
    what = "the library with one expression changed, under the fast tests, by cargo-mutants"
    takes = "30 min to 3 h a module"
    units = {
        **{module: Unit({"files": f"{SOURCES}/{module}/**"}, [f"{SOURCES}/{module}"]) for module in MODULES},
        "report": Unit({"files": f"{SOURCES}/report.rs"}, [f"{SOURCES}/report.rs"]),
        "postgres": Unit({"files": f"{POSTGRES}/**"}, [POSTGRES]),
    }

    def state(self, unit):
        """The tree hash of the module, without the tests: new tests do not change that a mutant was caught."""
        [path] = self.units[unit].covers
        return output("git", "rev-parse", f"HEAD:{path}")[:12]

    def parts(self, unit, arguments):
        """Slices of the files, followed by the mutants that survive the tests closest to their file."""
        mutants = output(*self.command(unit, arguments["files"], "--list")).splitlines()
        files = Counter(PLACE.match(mutant)[1].rpartition("/src/")[2] for mutant in mutants)
        slices = [
            f"{file.replace('/', '~')}~{number}~{-(-count // SLICE)}"
            for file, count in files.items()
            for number in range(-(-count // SLICE))
        ]
        return [*slices, f"survivors-{commit()[:12]}"]

    def part(self, unit, arguments, part, done):
        target = "--test=all" if unit != "postgres" else "--tests"
        if part.startswith("survivors"):
            left = [name for one in done.values() for name in one.get("MissedMutant", [])]
            return self.judged_again(unit, arguments["files"], left, target)
        *file, number, count = part.split("~")
        file = "/".join(file)
        [sources] = self.units[unit].covers
        path = f"{sources.partition('/src')[0]}/src/{file}"
        shard = ["--shard", f"{number}/{count}", "--sharding", "slice"]
        if file in TESTED_BY:
            # The run without a mutant has the tests of both packages.
            return self.judged(unit, path, [*shard, f"--test-package={TESTED_BY[file]}"], target, WITHOUT_SLOW)
        return self.judged(unit, path, shard, target, SLOWEST_NEXT_TO, NEXT_TO.get(file) or NEXT_TO.get(unit))

    def judged_again(self, unit, files, left, target):
        """Runs the remaining mutants under the module's own tests, then under all fast tests."""
        found = {"seconds": 0}
        everything = target if unit == "postgres" else f"{target} --lib"
        for near, target in {NEXT_TO.get(unit): target, None: everything}.items():
            if left:
                chosen = [word for name in left for word in ("--re", f"^{re.escape(name)}$")]
                judged = self.judged(unit, files, chosen, target, WITHOUT_SLOW, near)
                found["seconds"] += judged.pop("seconds")
                # The tool also runs mutants that delete a field, even if they were not chosen.
                judged = {summary: [name for name in names if name in left] for summary, names in judged.items()}
                left = judged.pop("MissedMutant", [])
                for summary, names in judged.items():
                    found.setdefault(summary, []).extend(names)
        return found | {"MissedMutant": left}

    def command(self, unit, files, *options):
        package = "sqs-once-postgres" if unit == "postgres" else "sqs-once"
        tree = worktree(OUT / self.name / "tree", commit())
        program = installed("cargo-mutants", VERSION)
        return [program, "mutants", "--dir", tree, "--package", package, "--file", files, "--exclude", NOT_COMPILED, *options]

    def judged(self, unit, files, chosen, target, options_of_tests, near=None):
        """The names of the chosen mutants, by the result of their tests."""
        out = OUT / self.name / "out"
        options = ["--in-place", "--output", out, "--timeout-multiplier", "4", "--minimum-test-timeout", "120"]
        options += ["--no-times", "--colors", "never", *chosen, *(f"--cargo-arg={one}" for one in target.split())]
        options += ["--", "--", *options_of_tests]
        environment = os.environ | {
            "CARGO_TARGET_DIR": str(OUT / self.name / "build"),
            # The build after one changed line takes most of a mutant's time.
            "CARGO_INCREMENTAL": "1",
            "CARGO_PROFILE_DEV_DEBUG": "0",
        }
        command = self.command(unit, files, *options)
        if near:
            used = "|".join(f"{near} {HELPERS}".split())
            others = re.compile(rf"^(#\[path.*\n)?mod (?!({used});).*\n", re.MULTILINE)
            package = self.units[unit].covers[0].partition("/src")[0]
            tests = OUT / self.name / "tree" / package / "tests/all/main.rs"
            tests.write_text(others.sub("", tests.read_text()))
        status = subprocess.run(command, env=environment, stdout=sys.stderr).returncode
        # 2: mutants were missed. 3: tests timed out. 4: the tests failed without any mutant.
        if status not in (0, 2, 3):
            raise SystemExit(f"FAILED with {status}: {' '.join(map(str, command))}")
        outcomes = json.loads((out / "mutants.out/outcomes.json").read_text())["outcomes"]
        judged = {}
        for outcome in outcomes:
            if outcome["scenario"] != "Baseline":
                judged.setdefault(outcome["summary"], []).append(outcome["scenario"]["Mutant"]["name"])
        judged["seconds"] = sum(phase["duration"] for outcome in outcomes for phase in outcome["phase_results"])
        return judged

    def merged(self, unit, parts):
        *shards, survivors = parts.values()

        def named(summary):
            return [name for shard in shards for name in shard.get(summary, [])]

        return {
            "caught": len(named("CaughtMutant")) + len(survivors.get("CaughtMutant", [])),
            "unviable": len(named("Unviable")),
            "timeouts": named("Timeout") + survivors.get("Timeout", []),
            "survivors": survivors.get("MissedMutant", []),
            "seconds": round(sum(part.get("seconds", 0) for part in parts.values())),
        }

    def show(self, records):
        rows = []
        for module, record in records.items():
            figures = record["figures"]
            kinds = [figures["caught"], len(figures["timeouts"]), len(figures["survivors"]), figures["unviable"]]
            rows.append([f"`{module}`", sum(kinds), *kinds])
        shown = table(["module", "mutants:", "caught:", "timed out:", "survived:", "did not compile:"], rows)
        return f"{shown}\n\n`{KEPT.relative_to(ROOT)}` has the reason for each survivor."

    def problems(self, records):
        reasons = set(kept())
        found = set()
        for record in records.values():
            places = (PLACE.match(survivor).groups() for survivor in record["figures"]["survivors"])
            found |= {f"{file}: {change}" for file, _, change in places}
        file = KEPT.relative_to(ROOT)
        return [
            *(f"{file} gives no reason for the survivor {name!r}" for name in sorted(found - reasons)),
            *(f"{file} gives a reason for {name!r}, which does not survive" for name in sorted(reasons - found)),
        ]


def kept():
    return {one["mutant"]: one["reason"] for one in tomllib.loads(KEPT.read_text()).get("survivor", [])}
