"""Mutation testing of the library, module by module. cargo-mutants lists the mutants, and `switch` puts them into one build.

Each mutant runs under the tests that reach it, until one fails: first under the likely ones, each in a process of its own, and
then under the others in one process. A test decides only if it also fails in a process of its own. cargo-mutants itself builds
and tests the few mutants that have no place behind a switch, such as those of constants.
"""

import contextlib
import itertools
import json
import os
import re
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from .run import OUT, ROOT, Run, Unit, commit, installed, output, table, worktree

VERSION = "27.1.0"
# The number of mutants in a part, which takes a few minutes.
SLICE = 25
# Mutants and tests that run at once.
AT_ONCE = 2
MODULES = ("batch", "breaker", "failed", "handler", "idempotency", "key", "once", "record", "store")
SOURCES = "crates/sqs-once/src"
POSTGRES = "crates/sqs-once-postgres/src"
# The survivors that are accepted, each with a reason.
KEPT = ROOT / "verification/survivors.toml"
# The format `file:line:column: mutation`.
PLACE = re.compile(r"^(\S+?):(\d+):\d+: (.*)$")
# Tests that are slow or do not test the library's decisions.
SLOW = ("exactly_once::killed::", "guides::", "hostile_code::", "no_secrets::", "without_sqs::")
# The seconds of a test, at most, without any mutant, and of one that runs alone before the others run together.
LONGEST, FAST = 20, 1
# These tests run alone first: as many that caught the last mutants, and as many that reach the least.
LIKELY = 6
# The seconds after which a test counts as hanging. If a batch makes no progress, it ends at its deadline before that, and the
# test fails.
DEADLINE = 45
# Tests that run at once in one process. Many of them wait.
THREADS = 6
# The seconds of one process with many tests. Those that have not ended then run alone.
TOGETHER = 90
# A line of a test that has ended.
ENDED = re.compile(r"^test (\S+)(?: - should panic)? \.\.\. (\w+)")
# The default features leave it out: no test could catch its mutants.
NOT_COMPILED = "**/store/no_dynamodb.rs"
# The targets with the tests.
TARGETS = ("--lib", "--test=all")
# More than any test needs. A mutant that collects without end must not take the memory of the machine.
MEMORY = 6 << 30


class Mutation(Run):
    name = "mutants"
    what = "the library with one expression changed, under the tests that reach it"
    takes = "10 to 60 min a module"
    units = {
        **{module: Unit({"files": f"{SOURCES}/{module}/**"}, [f"{SOURCES}/{module}"]) for module in MODULES},
        "report": Unit({"files": f"{SOURCES}/report.rs"}, [f"{SOURCES}/report.rs"]),
        "postgres": Unit({"files": f"{POSTGRES}/**"}, [POSTGRES]),
    }
    tree = OUT / name / "tree"
    # The tests that caught mutants, the last one first.
    killers = []

    def state(self, unit):
        """The tree hash of the module, without the tests: new tests do not change that a mutant was caught."""
        [path] = self.units[unit].covers
        return output("git", "rev-parse", f"HEAD:{path}")[:12]

    def parts(self, unit, arguments):
        """Slices of the mutants, those without a place behind the switch, and those that no earlier test caught."""
        count = len(self.listed(unit))
        slices = [f"{first}..{min(first + SLICE, count)}" for first in range(0, count, SLICE)]
        return [*slices, "alone", f"survivors-{commit()[:12]}"]

    def listed(self, unit):
        """The mutants by name, in the order of the sources."""
        worktree(self.tree, commit())
        mutants = json.loads(output(*self.command(unit, "--list", "--json")))
        return {mutant["name"]: mutant for mutant in mutants}

    def part(self, unit, arguments, part, done):
        older = [one["judged"].items() for one in done.values() if one["commit"] != commit()]
        chosen = [name for judged in older for name, (summary, _) in judged if summary in ("MissedMutant", "Timeout")]
        if part.startswith("survivors") and not chosen:
            return {"commit": commit(), "seconds": 0, "judged": {}}
        build, began = self.build(unit), time.monotonic()
        if part == "alone":
            chosen = build["alone"]
        elif not part.startswith("survivors"):
            first, end = map(int, part.split(".."))
            chosen = [name for name in list(build["numbers"])[first:end] if name not in build["alone"]]
        behind = [name for name in chosen if name not in build["alone"]]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            judged = dict(zip(behind, pool.map(lambda name: self.judged(build, name), behind)))
        if alone := [name for name in chosen if name in build["alone"]]:
            judged |= self.judged_alone(unit, alone)
        return {"commit": commit(), "seconds": round(time.monotonic() - began), "judged": judged}

    def judged(self, build, name):
        """A mutant's summary in the words of cargo-mutants, and the test that ended it."""
        if name in build["unviable"]:
            return "Unviable", None
        number = build["numbers"][name]
        tests = [(len(reached), seconds, test) for test, (seconds, reached) in build["tests"].items() if number in reached]
        seconds = {test: seconds for _, seconds, test in sorted(tests)}
        # Neighbours often end by the same test. Otherwise, the test that reaches the least is the most likely one.
        fast = [test for test in seconds if seconds[test] <= FAST]
        likely = [test for test in self.killers if test in fast][:LIKELY]
        likely += [test for test in fast if test not in likely][:LIKELY]
        others = [test for test in seconds if test not in likely]
        for test in itertools.chain(likely, doubtful(others, str(number))):
            status = run_test(test, 10 * seconds[test] + DEADLINE, str(number))
            if status != 0:
                self.killers = [test, *(one for one in self.killers if one != test)][:100]
                return "Timeout" if status is None else "CaughtMutant", test
        return "MissedMutant", None

    def build(self, unit):
        """The unit's tests with all its mutants: how long each takes, and the mutants that it reaches."""
        kept = OUT / self.name / "build.json"
        known = json.loads(kept.read_text()) if kept.exists() else {}
        if known.get("of") == [unit, commit()]:
            return known
        kept.unlink(missing_ok=True)
        mutants = self.listed(unit)

        def cargo():
            command = ["cargo", "test", *package(unit), "--all-features", *TARGETS, "--no-run", "--message-format=json"]
            done = subprocess.run(command, cwd=self.tree, env=environment(), stdout=subprocess.PIPE, text=True)
            return done.returncode, [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]

        # Its parser is installed only for this run.
        from .switch import switched

        library = self.tree / self.units[unit].covers[0].partition("/src")[0] / "src/lib.rs"
        messages, unviable, alone = switched(self.tree, library, list(mutants.values()), cargo)
        # Tests that read the sources find them as they are.
        worktree(self.tree, commit())
        programs = [message for message in messages if message.get("executable")]
        tests = [test for program in programs for test in fast_tests(program)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            reached = dict(zip(tests, pool.map(recorded, tests)))
        names = list(mutants)
        build = {
            "of": [unit, commit()],
            "numbers": {name: number for number, name in enumerate(names)},
            "unviable": [names[number] for number in sorted(unviable)],
            "alone": [names[number] for number in sorted(alone)],
            "tests": {test: (seconds, numbers) for test, (seconds, numbers) in reached.items() if seconds <= LONGEST},
        }
        kept.write_text(json.dumps(build))
        return build

    def command(self, unit, *options):
        files = ["--file", self.units[unit].arguments["files"], "--exclude", NOT_COMPILED]
        return [installed("cargo-mutants", VERSION), "mutants", "--dir", self.tree, *package(unit), *files, *options]

    def judged_alone(self, unit, names):
        """The summaries of mutants that cargo-mutants builds one by one, under the tests that are not slow."""
        (OUT / self.name / "build.json").unlink()
        out = OUT / self.name / "out"
        options = ["--in-place", "--output", out, "--timeout-multiplier", "4", "--minimum-test-timeout", "120"]
        options += ["--no-times", "--colors", "never", "--all-features", *(f"--cargo-arg={one}" for one in TARGETS)]
        options += [word for name in names for word in ("--re", f"^{re.escape(name)}$")]
        command = self.command(unit, *options, "--", "--", *(word for name in SLOW for word in ("--skip", name)))
        status = subprocess.run(command, env=environment(), stdout=sys.stderr).returncode
        # 2: mutants were missed. 3: tests timed out. 4: the tests failed without any mutant.
        if status not in (0, 2, 3):
            raise SystemExit(f"FAILED with {status}: {' '.join(map(str, command))}")
        outcomes = json.loads((out / "mutants.out/outcomes.json").read_text())["outcomes"]
        judged = {one["scenario"]["Mutant"]["name"]: one["summary"] for one in outcomes if one["scenario"] != "Baseline"}
        # The tool also runs mutants that delete a field, even if they were not chosen.
        return {name: (judged[name], None) for name in names}

    def merged(self, unit, parts):
        judged = {}
        for part in parts.values():
            judged |= {name: summary for name, (summary, _) in part["judged"].items()}
        named = {kind: [name for name in judged if judged[name] == kind] for kind in sorted(set(judged.values()))}
        return {
            "caught": len(named.get("CaughtMutant", [])),
            "unviable": len(named.get("Unviable", [])),
            "timeouts": named.get("Timeout", []),
            "survivors": named.get("MissedMutant", []),
            "seconds": sum(part["seconds"] for part in parts.values()),
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


def package(unit):
    return ["--package", "sqs-once-postgres" if unit == "postgres" else "sqs-once"]


def environment():
    # The build after one changed line takes most of the time of a mutant that is built alone.
    own = {"CARGO_TARGET_DIR": str(OUT / "mutants/build"), "CARGO_INCREMENTAL": "1", "CARGO_PROFILE_DEV_DEBUG": "0"}
    return os.environ | own


def fast_tests(message):
    """The tests of a program that cargo has built, each as its folder, its program and its name."""
    folder = Path(message["manifest_path"]).parent
    listed = output(message["executable"], "--list", "--format=terse").splitlines()
    names = [line.removesuffix(": test") for line in listed if line.endswith(": test")]
    return [f"{folder} {message['executable']} {name}" for name in names if not name.startswith(SLOW)]


def recorded(test):
    """The seconds of a test without any mutant, and the mutants that it reaches."""
    with tempfile.NamedTemporaryFile() as file:
        began = time.monotonic()
        if run_test(test, 600, file.name) != 0:
            raise SystemExit(f"FAILED without any mutant: {test}")
        seconds = time.monotonic() - began
        return round(seconds, 3), sorted({int(number) for number in file.read().split()})


def doubtful(tests, mutant):
    """The tests that do not pass when all run in one process: the one that fails first, and then those that had not ended."""
    for start, same in itertools.groupby(sorted(tests), key=lambda test: test.split(" ")[:2]):
        names = [test.split(" ")[2] for test in same]
        with started(*start, names, mutant, subprocess.PIPE) as process:
            alarm = threading.Timer(TOGETHER, ended, [process])
            alarm.start()
            for name, status in (match.groups() for match in map(ENDED.match, process.stdout) if match):
                names.remove(name)
                if status == "FAILED":
                    names.insert(0, name)
                    break
            alarm.cancel()
        yield from (" ".join([*start, name]) for name in names)


def run_test(test, limit, mutant):
    """The status of one test in a process of its own, or `None` if it takes longer than the limit."""
    folder, program, name = test.split(" ")
    with started(folder, program, [name], mutant, subprocess.DEVNULL) as process:
        try:
            return process.wait(limit)
        except subprocess.TimeoutExpired:
            return None


@contextlib.contextmanager
def started(folder, program, names, mutant, stdout):
    """A process that runs tests of one program. The mutant is a number, or a file for the numbers of those that are reached."""
    with subprocess.Popen(
        [program, "--exact", f"--test-threads={THREADS}", *names],
        cwd=folder,
        env=os.environ | {"CARGO_MANIFEST_DIR": folder, "PROPTEST_RNG_SEED": "1", "MUTANT": mutant},
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY)),
    ) as process:
        try:
            yield process
        finally:
            ended(process)


def ended(process):
    """Ends the tests that still run, and what they have started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def kept():
    return {one["mutant"]: one["reason"] for one in tomllib.loads(KEPT.read_text()).get("survivor", [])}
