"""Runs `cargo lambda watch`, and `cargo lambda invoke` twice with the sample batch: the second call charges nothing."""

import json
import os
import signal
import subprocess

from local import OUT, ROOT, Payments, aws, free_port, listens, process, wait_until
from template import only, transform

EVENT = ROOT / "events" / "orders.json"


def expected():
    """The orders in the sample batch, and the message ids without a valid order."""
    orders, unusable = set(), set()
    for record in json.loads(EVENT.read_text())["Records"]:
        try:
            orders.add(json.loads(record["body"])["order_id"])
        except (ValueError, KeyError, TypeError):
            unusable.add(record["messageId"])
    assert orders, f"{EVENT.name} holds no order"
    return orders, unusable


def main():
    orders, unusable = expected()
    with aws(OUT / "watch-aws.log") as cloud, Payments() as payments:
        table = only(transform(), "DynamoDB::Table")[1]
        cloud.client("dynamodb").create_table(
            TableName="orders", **{name: table[name] for name in ("BillingMode", "AttributeDefinitions", "KeySchema")}
        )
        env = {**cloud.env, "SQS_ONCE_TABLE": "orders", "PAYMENTS_URL": payments.url}
        port = free_port()
        address = ["--invoke-address", "127.0.0.1", "--invoke-port", str(port)]
        # An interrupt makes it stop its functions, which run in sessions of their own.
        watch = ["cargo", "lambda", "watch", "--ignore-changes", *address]
        with process(watch, OUT / "watch.log", env, stop=signal.SIGINT, cwd=ROOT) as child:
            wait_until("cargo lambda watch", lambda: listens(port), 60, alive=child)
            for run in ("first", "second"):
                # The first call builds the function.
                invoke = ["cargo", "lambda", "invoke", "orders", "--data-file", str(EVENT), *address]
                answer = subprocess.run(
                    invoke, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True, timeout=900, check=True
                ).stdout
                failed = {failure["itemIdentifier"] for failure in json.loads(answer)["batchItemFailures"]}
                assert failed == unusable, f"{run} run: expected {unusable} to fail, not {failed}"
                charges = {order: len(keys) for order, keys in payments.charges.items()}
                assert charges == dict.fromkeys(orders, 1), f"{run} run: each order once, not {charges}"
    print(f"{len(orders)} orders, each charged once in two runs")


if __name__ == "__main__":
    main()
