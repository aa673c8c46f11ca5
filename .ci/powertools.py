"""Tests a consumer of this library and a function with Powertools for Python on one table, and the ids of all codecs.

`python3 .ci/powertools.py --write` makes the vectors of the tests anew, and `--write-items` their items: it fetches
versions of Powertools whose items differ, with pip and npm.
"""

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import boto3
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)
from aws_lambda_powertools.utilities.idempotency.exceptions import (
    IdempotencyAlreadyInProgressError,
    IdempotencyValidationError,
)
from botocore.config import Config

from local import AWS_ENV, OUT, ROOT, built

sys.path.insert(0, str(ROOT / ".ci" / "powertools"))
import vectors  # noqa: E402

HERE = ROOT / ".ci" / "powertools"
VECTORS = ROOT / "crates" / "sqs-once" / "tests" / "all" / "powertools_vectors.json"
ITEMS = VECTORS.with_name("powertools_items.json")
# The versions before and after each change of the item's content.
PYTHONS = ("1.25.10", "1.31.1", "3.37.0")
TYPESCRIPTS = ("1.18.0", "2.1.1", "2.2.0", "2.35.0")
PACKAGES = ROOT / "verification" / "sqs-once-bench" / "peers" / "typescript"
TABLE = "idempotency"
PREFIX = vectors.PREFIX
PATIENCE = 60


class Killed(BaseException):
    """An exception that `except Exception` does not catch: the function neither completes nor deletes its record."""


class Rust:
    """The consumer, which also serves the table."""

    def __init__(self, program, log):
        self._child = subprocess.Popen(
            [program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, env=AWS_ENV
        )
        self.endpoint = self._child.stdout.readline().strip()
        self._answers, self._lock = {}, threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            answer = json.loads(line)
            self._answers[answer["call"]].set_result(SimpleNamespace(**answer))

    def _send(self, **line):
        with self._lock:
            call = len(self._answers)
            answer = self._answers[call] = Future()
            self._child.stdin.write(json.dumps({"call": call, **line}) + "\n")
            self._child.stdin.flush()
        return answer

    def start(self, *keys, timeout=20.0, work=0.0, end="done"):
        """Sends a batch to the consumer. Returns a future of the answer."""
        return self._send(keys=keys, timeout_ms=int(timeout * 1000), work_ms=int(work * 1000), end=end)

    def renews(self, item, lease):
        """Renews the lease of the claim that wrote this item. Returns whether the store wrote the lease."""
        renewal = self._send(id=item["id"]["S"], owner=item["owner"]["S"], lease_ms=int(lease * 1000))
        return renewal.result(PATIENCE).renewed

    def run(self, *keys, **options):
        return self.start(*keys, **options).result(PATIENCE)

    def stop(self):
        self._child.stdin.close()
        self._child.wait(PATIENCE)


class Python:
    """A function with Powertools, as a user writes it."""

    def __init__(self, endpoint):
        session = boto3.Session(region_name="eu-central-1", aws_access_key_id="local", aws_secret_access_key="local")
        options = Config(max_pool_connections=50)
        self.table = session.client("dynamodb", endpoint_url=endpoint, config=options)

    def item(self, key):
        case = {"data": {"k": key}, "expression": "k", "prefix": PREFIX}
        (item_id,) = vectors.python([case])
        return self.table.get_item(TableName=TABLE, Key={"id": {"S": item_id}}, ConsistentRead=True).get("Item")

    def run(self, key, work=lambda: {"by": "python"}, remaining=20.0, has_context=True, **config):
        """Runs the function. Returns whether the work ran, and the function's result."""
        ran = []
        config = IdempotencyConfig(event_key_jmespath="order_id", **config)
        if has_context:
            context = SimpleNamespace(get_remaining_time_in_millis=lambda: int(remaining * 1000))
            config.register_lambda_context(context)
        layer = DynamoDBPersistenceLayer(TABLE, boto3_client=self.table)

        @idempotent_function(
            data_keyword_argument="order", config=config, persistence_store=layer, key_prefix=PREFIX
        )
        def process_order(order):
            ran.append(order["order_id"])
            return work()

        result = process_order(order={"order_id": key})
        return SimpleNamespace(ran=bool(ran), result=result)


def until(what, condition):
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"{what}: not within {PATIENCE} s"
        time.sleep(0.02)


def status(item):
    return item and item["status"]["S"]


class Sharing:
    """The checks. Each uses different keys."""

    def __init__(self, rust, python):
        self.rust, self.python = rust, python

    def in_progress_in_python(self, key):
        """Makes Python work on a key until the event is set."""
        done = threading.Event()
        pool = ThreadPoolExecutor(1)
        running = pool.submit(self.python.run, key, work=lambda: done.wait(PATIENCE) and {"by": "python"})
        until("Python's claim", lambda: status(self.python.item(key)) == "INPROGRESS")
        return done, running

    def check_what_python_completed_is_a_duplicate_in_rust(self):
        assert self.python.run("a").ran
        answer = self.rust.run("a")
        assert (answer.ran, answer.failed) == ([], []), answer

    def check_what_rust_completed_is_a_duplicate_in_python_with_what_rust_recorded(self):
        answer = self.rust.run("b")
        assert (answer.ran, answer.failed) == (["b"], []), answer
        again = self.python.run("b")
        assert (again.ran, again.result) == (False, {"by": "rust"}), again

    def check_a_completion_without_data_is_none_in_python(self):
        self.rust.run("b2")
        self.python.table.update_item(
            TableName=TABLE,
            Key={"id": self.python.item("b2")["id"]},
            UpdateExpression="REMOVE #data",
            ExpressionAttributeNames={"#data": "data"},
        )
        again = self.python.run("b2")
        assert (again.ran, again.result) == (False, None), again

    def check_what_python_works_on_goes_back_in_rust(self):
        done, running = self.in_progress_in_python("c")
        answer = self.rust.run("c")
        assert (answer.ran, answer.failed) == ([], ["c"]), answer
        done.set()
        assert running.result(PATIENCE).ran
        answer = self.rust.run("c")
        assert (answer.ran, answer.failed) == ([], []), answer

    def check_what_rust_works_on_is_refused_in_python(self):
        running = self.rust.start("d", work=2)
        until("Rust's claim", lambda: status(self.python.item("d")) == "INPROGRESS")
        try:
            self.python.run("d")
        except IdempotencyAlreadyInProgressError:
            pass
        else:
            raise AssertionError("Python ran a key that Rust was working on")
        assert running.result(PATIENCE).ran == ["d"]
        assert not self.python.run("d").ran

    def check_a_claim_of_python_that_names_no_lease_is_kept_until_it_expires(self):
        def dies():
            raise Killed

        try:
            self.python.run("e", work=dies, has_context=False, expires_after_seconds=3)
        except Killed:
            pass
        assert "in_progress_expiration" not in self.python.item("e")
        assert self.rust.run("e").failed == ["e"]
        until("Rust's turn", lambda: self.rust.run("e").ran == ["e"])
        assert self.python.item("e")["fence"]["N"] == "1"

    def check_a_lapsed_lease_of_python_is_taken_over_by_rust(self):
        def dies():
            raise Killed

        try:
            self.python.run("f", work=dies, remaining=1)
        except Killed:
            pass
        assert self.rust.run("f").failed == ["f"], "its lease is alive"
        until("Rust's turn", lambda: self.rust.run("f").ran == ["f"])
        assert not self.python.run("f").ran

    def check_a_lapsed_lease_of_rust_is_taken_over_by_python(self):
        died = self.rust.run("g", timeout=3, work=PATIENCE, end="dies")
        assert died.ran == ["g"], died
        try:
            self.python.run("g")
        except IdempotencyAlreadyInProgressError:
            pass
        else:
            raise AssertionError("its lease is alive")
        time.sleep(4.1)
        assert self.python.run("g").ran
        answer = self.rust.run("g")
        assert (answer.ran, answer.failed) == ([], []), answer

    def check_a_lease_that_rust_renewed_is_alive_in_python_until_it_lapses(self):
        died = self.rust.run("n", timeout=3, work=PATIENCE, end="dies")
        assert died.ran == ["n"], died
        claim = self.python.item("n")
        assert self.rust.renews(claim, lease=8)
        renewed = self.python.item("n")
        lease = "in_progress_expiration"
        assert int(claim[lease]["N"]) < int(renewed[lease]["N"]), (claim, renewed)
        assert {**renewed, lease: claim[lease]} == claim, "only the lease changed"
        until("the end of the first lease", lambda: time.time() * 1000 > int(claim[lease]["N"]))
        try:
            self.python.run("n")
        except IdempotencyAlreadyInProgressError:
            pass
        else:
            raise AssertionError("its renewed lease is alive")
        until("the end of the renewed lease", lambda: time.time() * 1000 > int(renewed[lease]["N"]))
        assert self.python.run("n").ran
        completed = self.python.item("n")
        assert not self.rust.renews(claim, lease=8), "Python owns the key"
        assert self.python.item("n") == completed

    def check_what_failed_in_python_runs_in_rust_at_once(self):
        def fails():
            raise ValueError("no luck")

        try:
            self.python.run("h", work=fails)
        except ValueError:
            pass
        assert self.rust.run("h").ran == ["h"]

    def check_what_failed_in_rust_runs_in_python_at_once(self):
        answer = self.rust.run("i", end="fails")
        assert (answer.ran, answer.failed) == (["i"], ["i"]), answer
        assert self.python.run("i").ran

    def check_payload_validation_of_python_refuses_what_rust_completed(self):
        self.rust.run("j")
        try:
            self.python.run("j", payload_validation_jmespath="order_id")
        except IdempotencyValidationError:
            pass
        else:
            raise AssertionError("docs/migrate-powertools.md says otherwise")
        # In the other order, Rust compares no payload.
        assert self.python.run("k", payload_validation_jmespath="order_id").ran
        answer = self.rust.run("k")
        assert (answer.ran, answer.failed) == ([], []), answer

    def check_a_race_for_every_key_has_one_winner(self):
        for seed in range(3):
            self.race(random.Random(seed), [f"race-{seed}-{number}" for number in range(40)])

    def race(self, chance, keys):
        ran, lock = [], threading.Lock()

        def shuffled():
            return chance.sample(keys, len(keys))

        def in_python(left):
            while left:
                key = left.pop(0)
                try:
                    if self.python.run(key, work=lambda: time.sleep(0.01)).ran:
                        with lock:
                            ran.append((key, "python"))
                except IdempotencyAlreadyInProgressError:
                    left.append(key)

        def in_rust(left):
            while left:
                batch, left = left[:8], left[8:]
                answer = self.rust.run(*batch, work=0.01)
                with lock:
                    ran.extend((key, "rust") for key in answer.ran)
                left += answer.failed

        with ThreadPoolExecutor(8) as pool:
            sides = [pool.submit(side, shuffled()) for side in (in_python, in_rust) for _ in range(4)]
            for side in sides:
                side.result(4 * PATIENCE)
        assert sorted(key for key, _ in ran) == sorted(keys), sorted(ran)
        assert {side for _, side in ran} == {"python", "rust"}, "there was no race"

    def check_the_limit_a_late_python_completes_what_is_not_its_own_any_more(self):
        # A documented limit (docs/migrate-powertools.md): Python's completion has no condition.
        done = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(
                self.python.run, "l", work=lambda: done.wait(PATIENCE) and {"by": "python"}, remaining=1
            )
            until("Python's claim", lambda: self.python.item("l"))
            until("Rust's turn", lambda: self.rust.run("l").ran == ["l"])
            assert "rust" in self.python.item("l")["data"]["S"]
            done.set()
            assert late.result(PATIENCE).ran
        assert "python" in self.python.item("l")["data"]["S"]

    def check_the_limit_a_late_python_that_fails_deletes_the_claim_of_another(self):
        done = threading.Event()

        def fails():
            done.wait(PATIENCE)
            raise ValueError("no luck")

        with ThreadPoolExecutor(1) as pool:
            late = pool.submit(self.python.run, "m", work=fails, remaining=1)
            until("Python's claim", lambda: self.python.item("m"))
            time.sleep(1.1)
            running = self.rust.start("m", work=3)
            until("Rust's claim", lambda: "owner" in (self.python.item("m") or {}))
            done.set()
            assert isinstance(late.exception(PATIENCE), ValueError)
        assert self.python.item("m") is None, "deleted, though Rust is at work"
        answer = running.result(PATIENCE)
        # Rust reports the record as failed, because its effect was not recorded. The message is redelivered.
        assert (answer.ran, answer.failed) == (["m"], ["m"]), answer


def install():
    """Installs Powertools for TypeScript with npm if it is missing."""
    folder = OUT / "powertools"
    lock = (PACKAGES / "package-lock.json").read_bytes()
    done = folder / "done"
    if not (done.exists() and done.read_bytes() == lock):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("package.json", "package-lock.json"):
            shutil.copy(PACKAGES / name, folder)
        npm = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]
        subprocess.run(npm, cwd=folder, check=True)
        done.write_bytes(lock)
    return folder


def items_of(command, folder, log, **env):
    """The items that a version of Powertools writes into a new table."""
    rust = Rust(built("examples/shared_table"), log)
    env = {**os.environ, "AWS_ENDPOINT_URL_DYNAMODB": rust.endpoint, "AWS_LAMBDA_FUNCTION_NAME": "orders", **env}
    try:
        written = subprocess.run(command, cwd=folder, env=env, check=True, text=True, stdout=subprocess.PIPE)
    finally:
        rust.stop()
    return [json.loads(line) for line in written.stdout.splitlines() if line.startswith("{")]


def write_items():
    folder, items = OUT / "powertools-items", []
    shutil.rmtree(folder, ignore_errors=True)
    with open(OUT / "powertools.log", "w", encoding="utf-8") as log:
        for version in PYTHONS:
            target = folder / f"python-{version}"
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", target]
            subprocess.run([*pip, f"aws-lambda-powertools=={version}"], check=True)
            items += items_of([sys.executable, HERE / "items.py"], target, log, PYTHONPATH=str(target))
        for version in TYPESCRIPTS:
            target = folder / f"typescript-{version}"
            target.mkdir(parents=True)
            shutil.copy(HERE / "items.mjs", target)
            names = [f"@aws-lambda-powertools/{name}@{version}" for name in ("commons", "idempotency")]
            names += [f"@aws-sdk/{name}@3.600.0" for name in ("client-dynamodb", "lib-dynamodb")]
            subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "--no-fund", *names], cwd=target, check=True)
            items += items_of(["node", "items.mjs"], target, log)
    text = ",\n".join(json.dumps(item, sort_keys=True) for item in items)
    ITEMS.write_text(f"[\n{text}\n]\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the vectors instead of comparing them")
    parser.add_argument("--write-items", action="store_true", help="write the items that the tests read")
    arguments = parser.parse_args()
    OUT.mkdir(parents=True, exist_ok=True)
    if arguments.write_items:
        write_items()
        return
    made = vectors.make(install())
    if arguments.write:
        VECTORS.write_text(vectors.text(made))
        return
    committed = json.loads(VECTORS.read_text())
    if committed != made:
        raise SystemExit(f"{VECTORS.name} is not what the libraries make: python3 .ci/powertools.py --write")
    print(f"the ids of {len(made['keys'])} keys: as in the tests, by {made['made_by']}")

    program = built("examples/shared_table")
    log = OUT / "powertools.log"
    with open(log, "w", encoding="utf-8") as output:
        rust = Rust(program, output)
    try:
        sharing = Sharing(rust, Python(rust.endpoint))
        checks = sorted(name for name in vars(Sharing) if name.startswith("check_"))
        done = 0
        for name in checks:
            getattr(sharing, name)()
            done += 1
            print(name.removeprefix("check_").replace("_", " "))
    finally:
        rust.stop()
    assert done == len(checks) > 10, "not everything ran"
    print(f"Rust and Python on one table: {done} checks; what Rust said is in {log.name}")


if __name__ == "__main__":
    main()
