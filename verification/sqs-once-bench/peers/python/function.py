"""Powertools for AWS Lambda (Python): its idempotency and batch utilities, as their documentation shows them.

With BENCH_CONCURRENCY above 1, records run in that many threads, which Powertools leaves to its user.
"""

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor

from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
    idempotent_function,
)

from runtime import run

WORK = int(os.environ["BENCH_HANDLER_MS"]) / 1000
THREADS = int(os.environ["BENCH_CONCURRENCY"])

persistence = DynamoDBPersistenceLayer(table_name=os.environ["BENCH_TABLE"])
config = IdempotencyConfig(
    event_key_jmespath="order_id",
    expires_after_seconds=28 * 24 * 60 * 60,
    use_local_cache=os.environ["BENCH_CACHED"] == "1",
)
processor = BatchProcessor(event_type=EventType.SQS)
threads = ThreadPoolExecutor(THREADS)


@idempotent_function(data_keyword_argument="order", config=config, persistence_store=persistence)
def charge(order: dict) -> None:
    if WORK:
        time.sleep(WORK)


def handle_record(record: SQSRecord) -> None:
    charge(order=json.loads(record.body))


def handle_safely(record: dict) -> dict | None:
    try:
        handle_record(SQSRecord(record))
    except Exception:
        return {"itemIdentifier": record["messageId"]}
    return None


def handler(event: dict, context: object) -> dict:
    config.register_lambda_context(context)
    if THREADS == 1:
        return process_partial_response(
            event=event, record_handler=handle_record, processor=processor, context=context
        )
    failures = threads.map(handle_safely, event["Records"])
    return {"batchItemFailures": [failure for failure in failures if failure]}


run(handler)
