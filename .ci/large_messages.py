"""Tests large messages with Amazon's Extended Client Library for Python, on the stand-in for AWS, in both directions."""

import json
import os
import subprocess
from uuid import uuid4

import boto3
import botocore.session
import pytest
from sqs_extended_client import SQSExtendedClientSession

from local import OUT, aws, built, run_tests

BUCKET = "large-messages"
PREFIX = "orders/"
QUEUE_ARN = "arn:aws:sqs:us-east-1:000000000000:orders"
TEXT = {"DataType": "String", "StringValue": "s:order-7"}
LARGE = "é" * 200_000


class Both:
    """The consumer and producer of this library, and the clients of the Python library."""

    def __init__(self, cloud):
        self.env = os.environ | cloud.env | {"SQS_ONCE_LARGE_MESSAGES": f"{QUEUE_ARN}={BUCKET}/{PREFIX}*"}
        # The library creates its S3 client by itself.
        os.environ["AWS_ENDPOINT_URL"] = cloud.url
        # Importing the library replaces boto3's session, so that boto3's own clients would follow pointers too.
        self.plain = botocore.session.get_session().create_client("sqs")
        self.bucket = boto3.resource("s3").create_bucket(Bucket=BUCKET)
        self.queue = self.plain.create_queue(QueueName="orders")["QueueUrl"]
        self.extended = SQSExtendedClientSession().client("sqs")
        self.extended.large_payload_support = BUCKET

    def rust(self, text, *arguments):
        command = [built("examples/large_messages"), *arguments]
        ran = subprocess.run(command, input=text, env=self.env, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
        return ran.stdout

    def rust_sends(self, body):
        self.bucket.objects.delete()
        self.rust(body, "send", self.queue, BUCKET, PREFIX)
        assert len(list(self.bucket.objects.all())) == (body != "small")

    def python_sends(self, body, prefix):
        self.bucket.objects.delete()
        attributes = {"business-key": dict(TEXT), "S3Key": {"DataType": "String", "StringValue": prefix + str(uuid4())}}
        self.extended.send_message(QueueUrl=self.queue, MessageBody=body, MessageAttributes=attributes)
        assert len(list(self.bucket.objects.all())) == (body != "small")

    def rust_handles(self):
        """Passes the message in the queue to the consumer, as Lambda does. Returns the consumer's answer."""
        (message,) = self.plain.receive_message(QueueUrl=self.queue, MessageAttributeNames=["All"])["Messages"]
        assert len(message["Body"]) < 300, "not a pointer"
        attributes = {
            name: {"dataType": value["DataType"], "stringValue": value["StringValue"]}
            for name, value in message["MessageAttributes"].items()
        }
        record = {
            "messageId": message["MessageId"], "receiptHandle": message["ReceiptHandle"], "body": message["Body"],
            "attributes": {}, "messageAttributes": attributes, "eventSource": "aws:sqs",
            "eventSourceARN": QUEUE_ARN, "awsRegion": "us-east-1",
        }
        self.plain.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        answer = json.loads(self.rust(json.dumps({"Records": [record]}), "handle"))
        return len(answer["failed"]), answer["bodies"]


@pytest.fixture(scope="module")
def both():
    with aws(OUT / "large-messages.log") as cloud:
        yield Both(cloud)


bodies = pytest.mark.parametrize("body", [LARGE, "small"], ids=["large", "small"])


@bodies
@pytest.mark.parametrize("sender", ["Python", "Python in legacy mode", "Rust"])
def test_rust_handles_what_is_sent(both, body, sender):
    both.extended.use_legacy_attribute = sender == "Python in legacy mode"
    if sender == "Rust":
        both.rust_sends(body)
    else:
        both.python_sends(body, PREFIX)
    assert both.rust_handles() == (0, [body])


def test_a_body_elsewhere_fails_its_message(both):
    both.python_sends(LARGE, "refunds/")
    assert both.rust_handles() == (1, [])


@bodies
def test_rust_sends_and_python_receives(both, body):
    both.rust_sends(body)
    (message,) = both.extended.receive_message(QueueUrl=both.queue, MessageAttributeNames=["All"])["Messages"]
    assert (message["Body"], message["MessageAttributes"]) == (body, {"business-key": TEXT})
    # SQS's own handle is what follows the last `-`.
    handle = message["ReceiptHandle"].rpartition("-..s3Key..-")[2]
    both.plain.delete_message(QueueUrl=both.queue, ReceiptHandle=handle)


def test_a_body_that_is_missing_fails_its_message(both):
    both.rust_sends(LARGE)
    both.bucket.objects.delete()
    assert both.rust_handles() == (1, [])


if __name__ == "__main__":
    run_tests(__file__)
