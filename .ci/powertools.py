"""Tests a consumer of this library and a function with Powertools for Python on one table, and the ids of all codecs.
`powertools_items.rs` tests how a consumer treats the items of Python and of earlier versions.

`python3 .ci/powertools.py --write` makes the vectors of the Rust tests anew.
"""

import json
import random
import sys
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from types import SimpleNamespace

import boto3
import pytest
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent_function
from aws_lambda_powertools.utilities.idempotency.exceptions import IdempotencyAlreadyInProgressError, IdempotencyValidationError
from botocore.config import Config

import npm
from local import OUT, ROOT, built, ready, run_tests, wait_until

sys.path.insert(0, str(ROOT / ".ci" / "powertools"))
import vectors  # noqa: E402

VECTORS = ROOT / "crates" / "sqs-once" / "tests" / "all" / "powertools_vectors.json"
ITEMS = VECTORS.with_name("powertools_items.json")
TABLE = "idempotency"
PATIENCE = 60
LEASE = "in_progress_expiration"
DONE = {"by": "python"}


def fails():
    raise ValueError


class Rust:
    """The consumer, which also serves the table."""

    def __init__(self, child, endpoint):
        self._child, self.endpoint = child, endpoint
        self._answers, self._lock = [], threading.Lock()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        for line in self._child.stdout:
            answer = SimpleNamespace(**json.loads(line))
            self._answers[answer.call].set_result(answer)

    def _send(self, **line):
        with self._lock:
            self._answers.append(Future())
            self._child.stdin.write(json.dumps({"call": len(self._answers) - 1, **line}) + "\n")
            return self._answers[-1]

    def start(self, *keys, timeout=20.0, work=0.0, end="done"):
        """Sends a batch to the consumer. Returns a future of the answer."""
        return self._send(keys=keys, timeout_ms=int(timeout * 1000), work_ms=int(work * 1000), end=end)

    def run(self, *keys, **options):
        """Returns the keys that ran and the keys that failed."""
        answer = self.start(*keys, **options).result(PATIENCE)
        return answer.ran, answer.failed

    def renews(self, item, lease):
        """Renews the lease of the claim that wrote this item. Returns whether the store wrote the lease."""
        renewal = self._send(id=item["id"]["S"], owner=item["owner"]["S"], lease_ms=int(lease * 1000))
        return renewal.result(PATIENCE).renewed


class Python:
    """A function with Powertools, as a user writes it."""

    def __init__(self, endpoint):
        options = Config(max_pool_connections=50)
        self.table = boto3.client("dynamodb", endpoint_url=endpoint, config=options)

    def item(self, key):
        case = {"data": {"k": key}, "expression": "k", "prefix": vectors.PREFIX}
        (item_id,) = vectors.python([case])
        return self.table.get_item(TableName=TABLE, Key={"id": {"S": item_id}}, ConsistentRead=True).get("Item", {})

    def is_working_on(self, key):
        return self.item(key).get("status") == {"S": "INPROGRESS"}

    def run(self, key, work=lambda: DONE, remaining=20.0, has_context=True, **config):
        """Runs the function. Returns whether the work ran, and the function's result."""
        ran = []
        config = IdempotencyConfig(event_key_jmespath="order_id", **config)
        if has_context:
            context = SimpleNamespace(get_remaining_time_in_millis=lambda: int(remaining * 1000))
            config.register_lambda_context(context)
        layer = DynamoDBPersistenceLayer(TABLE, boto3_client=self.table)

        @idempotent_function(data_keyword_argument="order", config=config, persistence_store=layer, key_prefix=vectors.PREFIX)
        def process_order(order):
            ran.append(order["order_id"])
            return work()

        result = process_order(order={"order_id": key})
        return bool(ran), result


@pytest.fixture(scope="module")
def rust():
    with open(OUT / "powertools.log", "w") as log:
        with ready([built("examples/shared_table")], stderr=log) as (child, endpoint):
            yield Rust(child, endpoint)


@pytest.fixture(scope="module")
def python(rust):
    return Python(rust.endpoint)


@pytest.fixture
def late(python):
    """Starts Python's work on a key. Returns the work's future, and a function that lets the work go on."""
    with ThreadPoolExecutor(1) as pool:

        def start(key, work=lambda: DONE, **options):
            go = threading.Event()
            running = pool.submit(python.run, key, work=lambda: go.wait(PATIENCE) and work(), **options)
            wait_until("Python's claim", lambda: python.is_working_on(key), PATIENCE)
            return running, go.set

        yield start


def made_vectors():
    packages = ROOT / "verification" / "sqs-once-bench" / "peers" / "typescript"
    return vectors.make(npm.installed(packages, OUT / "powertools"))


def test_the_ids_in_the_rust_tests_are_what_the_libraries_make():
    assert json.loads(VECTORS.read_text()) == made_vectors(), "python3 .ci/powertools.py --write"


@pytest.mark.parametrize(
    ("case", "result", "options"),
    [
        ("plain", {"ok": True}, {}),
        ("no result", None, {}),
        ("no context", {"ok": True}, {"has_context": False}),
        ("validated", {"ok": True}, {"payload_validation_jmespath": "order_id"}),
    ],
)
def test_the_last_recorded_items_in_the_rust_tests_are_what_this_version_writes(python, case, result, options):
    def fixed(item):
        """The item without its id, and with the lengths of the times."""
        times = {name: len(item.pop(name)["N"]) for name in ("expiration", LEASE) if name in item}
        return {**item, **times, "id": None}

    during = []
    python.run(case, lambda: during.append(python.item(case)) or result, **options)
    items = json.loads(ITEMS.read_text())
    recorded = [it for it in items if it["by"].startswith("aws-lambda-powertools ") and it["case"] == case][-1]
    assert fixed(during[0]) == fixed(recorded["in_progress"])
    assert fixed(python.item(case)) == fixed(recorded["completed"])


def test_what_rust_completed_is_a_duplicate_in_python_with_what_rust_recorded(rust, python):
    assert rust.run("b") == (["b"], [])
    assert python.run("b") == (False, {"by": "rust"})


def test_a_completion_without_data_is_none_in_python(rust, python):
    rust.run("b2")
    without = {"UpdateExpression": "REMOVE #data", "ExpressionAttributeNames": {"#data": "data"}}
    python.table.update_item(TableName=TABLE, Key={"id": python.item("b2")["id"]}, **without)
    assert python.run("b2") == (False, None)


def test_what_rust_works_on_is_refused_in_python(rust, python):
    running = rust.start("d", work=2)
    wait_until("Rust's claim", lambda: python.is_working_on("d"), PATIENCE)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        python.run("d")
    assert running.result(PATIENCE).ran == ["d"]
    assert python.run("d") == (False, {"by": "rust"})


def test_a_lapsed_lease_of_rust_is_taken_over_by_python(rust, python):
    assert rust.run("g", timeout=3, work=PATIENCE, end="dies") == (["g"], ["g"])
    with pytest.raises(IdempotencyAlreadyInProgressError):
        python.run("g")
    time.sleep(4.1)
    assert python.run("g") == (True, DONE)
    assert rust.run("g") == ([], [])


def test_a_lease_that_rust_renewed_is_alive_in_python_until_it_lapses(rust, python):
    def lapsed(item):
        return time.time() * 1000 > int(item[LEASE]["N"])

    assert rust.run("n", timeout=3, work=PATIENCE, end="dies") == (["n"], ["n"])
    claim = python.item("n")
    assert rust.renews(claim, lease=8)
    renewed = python.item("n")
    assert int(claim[LEASE]["N"]) < int(renewed[LEASE]["N"])
    assert {**renewed, LEASE: claim[LEASE]} == claim, "only the lease changed"
    wait_until("the end of the first lease", lambda: lapsed(claim), PATIENCE)
    with pytest.raises(IdempotencyAlreadyInProgressError):
        python.run("n")
    wait_until("the end of the renewed lease", lambda: lapsed(renewed), PATIENCE)
    assert python.run("n") == (True, DONE)
    completed = python.item("n")
    assert not rust.renews(claim, lease=8), "Python owns the key"
    assert python.item("n") == completed


def test_what_failed_in_python_runs_in_rust_at_once(rust, python):
    with pytest.raises(ValueError):
        python.run("h", fails)
    assert rust.run("h") == (["h"], [])


def test_what_failed_in_rust_runs_in_python_at_once(rust, python):
    assert rust.run("i", end="fails") == (["i"], ["i"])
    assert python.run("i") == (True, DONE)


def test_payload_validation_of_python_refuses_what_rust_completed(rust, python):
    # docs/migrate-powertools.md says so.
    rust.run("j")
    with pytest.raises(IdempotencyValidationError):
        python.run("j", payload_validation_jmespath="order_id")
    # In the other order, Rust compares no payload.
    assert python.run("k", payload_validation_jmespath="order_id") == (True, DONE)
    assert rust.run("k") == ([], [])


@pytest.mark.parametrize("seed", range(3))
def test_a_race_for_every_key_has_one_winner(rust, python, seed):
    chance, keys, ran = random.Random(seed), [f"race-{seed}-{number}" for number in range(40)], []

    def in_python(left):
        while left:
            key = left.pop(0)
            try:
                if python.run(key, lambda: time.sleep(0.01))[0]:
                    ran.append((key, "python"))
            except IdempotencyAlreadyInProgressError:
                left.append(key)

    def in_rust(left):
        while left:
            done, failed = rust.run(*left[:8], work=0.01)
            ran.extend((key, "rust") for key in done)
            left = left[8:] + failed

    with ThreadPoolExecutor(8) as pool:
        sides = [pool.submit(side, chance.sample(keys, len(keys))) for side in (in_python, in_rust) for _ in range(4)]
        for side in sides:
            side.result(4 * PATIENCE)
    assert sorted(key for key, _ in ran) == sorted(keys)
    assert {side for _, side in ran} == {"python", "rust"}, "there was no race"


# Two documented limits (docs/migrate-powertools.md): Python's completion and its deletion have no condition.
def test_the_limit_a_late_python_completes_what_is_not_its_own_any_more(rust, python, late):
    running, go = late("l", remaining=1)
    wait_until("Rust's turn", lambda: rust.run("l") == (["l"], []), PATIENCE)
    taken_over = python.item("l")
    assert "rust" in taken_over["data"]["S"] and taken_over["fence"] == {"N": "1"}
    go()
    assert running.result(PATIENCE) == (True, DONE)
    assert "python" in python.item("l")["data"]["S"]


def test_the_limit_a_late_python_that_fails_deletes_the_claim_of_another(rust, python, late):
    running, go = late("m", fails, remaining=1)
    time.sleep(1.1)
    in_rust = rust.start("m", work=3)
    wait_until("Rust's claim", lambda: "owner" in python.item("m"), PATIENCE)
    go()
    assert isinstance(running.exception(PATIENCE), ValueError)
    assert python.item("m") == {}, "deleted, though Rust is at work"
    answer = in_rust.result(PATIENCE)
    # Rust reports the record as failed, because its effect was not recorded. The message is redelivered.
    assert (answer.ran, answer.failed) == (["m"], ["m"])


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        VECTORS.write_text(vectors.text(made_vectors()))
    else:
        run_tests(__file__)
