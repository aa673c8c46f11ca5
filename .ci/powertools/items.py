"""Writes the items of this version of Powertools for Python as lines of JSON, during an invocation and after it.

`python3 .ci/powertools.py --write-items` runs it with each version that the tests know.
"""

import json
import time
from importlib.metadata import version
from types import SimpleNamespace

import boto3
from aws_lambda_powertools.utilities.idempotency import DynamoDBPersistenceLayer, IdempotencyConfig, idempotent

TABLE = "idempotency"
table = boto3.client("dynamodb")


def item(seen):
    items = table.scan(TableName=TABLE, ConsistentRead=True)["Items"]
    (new,) = [item for item in items if item["id"]["S"] not in seen]
    return new


def case(name, result, has_context=True, **config):
    seen = {item["id"]["S"] for item in table.scan(TableName=TABLE, ConsistentRead=True)["Items"]}
    during = {}

    @idempotent(
        config=IdempotencyConfig(event_key_jmespath="order_id", **config),
        persistence_store=DynamoDBPersistenceLayer(TABLE),
    )
    def handler(event, context):
        during["item"] = item(seen)
        return result

    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 20_000, function_name="orders")
    at = time.time()
    handler({"order_id": name}, context if has_context else None)
    by = f"aws-lambda-powertools {version('aws-lambda-powertools')}"
    items = {"in_progress": during["item"], "completed": item(seen)}
    print(json.dumps({"by": by, "case": name, "at_ms": int(at * 1000), **items}))


case("plain", {"ok": True})
case("no result", None)
case("no context", {"ok": True}, has_context=False)
case("validated", {"ok": True}, payload_validation_jmespath="order_id")
