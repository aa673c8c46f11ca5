"""Runs `cargo lambda watch`, and `cargo lambda invoke` twice with the sample batch: the second call charges nothing."""

import json
import os
import signal
import subprocess

from local import OUT, ROOT, Payments, aws, free_port, listens, process, wait_until
from template import only, transform

EVENT = ROOT / "events" / "orders.json"


def main():
    orders = {json.loads(record["body"])["order_id"] for record in json.loads(EVENT.read_text())["Records"]}
    with aws(OUT / "watch-aws.log") as cloud, Payments() as payments:
        table = only(transform(), "DynamoDB::Table")[1]
        cloud.client("dynamodb").create_table(
            TableName="orders", **{name: table[name] for name in ("BillingMode", "AttributeDefinitions", "KeySchema")}
        )
        env = {**os.environ, **cloud.env, "SQS_ONCE_TABLE": "orders", "PAYMENTS_URL": payments.url}
        port = free_port()
        address = ["--invoke-address", "127.0.0.1", "--invoke-port", str(port)]
        # An interrupt makes it stop its functions, which run in sessions of their own.
        watch = ["cargo", "lambda", "watch", "--ignore-changes", *address]
        with process(watch, OUT / "watch.log", env, stop=signal.SIGINT, cwd=ROOT) as child:
            wait_until("cargo lambda watch", lambda: listens(port), 60, alive=child)
            for run in ("first", "second"):
                # The first call builds the function.
                invoke = ["cargo", "lambda", "invoke", "orders", "--data-file", str(EVENT), *address]
                done = subprocess.run(invoke, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=900, check=True)
                assert json.loads(done.stdout) == {"batchItemFailures": []}, f"{run} run: {done.stdout}"
                charges = {order: len(keys) for order, keys in payments.charges.items()}
                assert charges == dict.fromkeys(orders, 1), f"{run} run: each order once, not {charges}"
    print(f"{len(orders)} orders, each charged once in two runs")


if __name__ == "__main__":
    main()
