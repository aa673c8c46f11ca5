"""Tests large messages with Amazon's Extended Client Library for Python, on the stand-in for AWS, in both directions."""

import json
import os
import subprocess
from uuid import uuid4

import botocore.session
from sqs_extended_client import SQSExtendedClientSession

from local import AWS_ENV, LOOPBACK_ONLY_ENV, OUT, aws, built

BUCKET = "large-messages"
PREFIX = "orders/"
QUEUE_ARN = "arn:aws:sqs:us-east-1:000000000000:orders"
PATIENCE = 60
TEXT = {"DataType": "String", "StringValue": "s:order-7"}


class Both:
    """The consumer and producer of this library, and the clients of the Python library."""

    def __init__(self, cloud):
        self.program = built("examples/large_messages")
        self.env = {**AWS_ENV, **LOOPBACK_ONLY_ENV, "AWS_ENDPOINT_URL": cloud.url,
                    "SQS_ONCE_LARGE_MESSAGES": f"{QUEUE_ARN}={BUCKET}/{PREFIX}*"}
        # The library creates its S3 client by itself.
        os.environ["AWS_ENDPOINT_URL"] = cloud.url
        # Importing the library replaces boto3's session, so that boto3's own clients would follow pointers too.
        self.plain = botocore.session.get_session().create_client("sqs")
        self.s3 = cloud.client("s3")
        self.s3.create_bucket(Bucket=BUCKET)
        self.queue = self.plain.create_queue(QueueName="orders")["QueueUrl"]
        session = SQSExtendedClientSession(region_name=AWS_ENV["AWS_REGION"])
        self.extended = session.client("sqs")
        self.extended.large_payload_support = BUCKET

    def run(self, text, *arguments):
        command = [self.program, *arguments]
        ran = subprocess.run(command, input=text, env={**os.environ, **self.env}, capture_output=True, text=True,
                             timeout=PATIENCE)
        assert ran.returncode == 0, ran
        return ran.stdout

    def objects(self):
        return [it["Key"] for it in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", [])]

    def delete_objects(self):
        for key in self.objects():
            self.s3.delete_object(Bucket=BUCKET, Key=key)

    def handle(self):
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
        answer = json.loads(self.run(json.dumps({"Records": [record]}), "handle"))
        self.plain.delete_message(QueueUrl=self.queue, ReceiptHandle=message["ReceiptHandle"])
        return answer

    def python_sends(self, body, key):
        attributes = {"business-key": dict(TEXT), "S3Key": {"DataType": "String", "StringValue": key}}
        self.extended.send_message(QueueUrl=self.queue, MessageBody=body, MessageAttributes=attributes)

    def check_python_sends_and_rust_handles(self):
        for legacy in (False, True):
            self.extended.use_legacy_attribute = legacy
            for body in ("é" * 200_000, "small"):
                self.python_sends(body, f"{PREFIX}{uuid4()}")
                assert len(self.objects()) == (body != "small"), self.objects()
                answer = self.handle()
                assert answer == {"failed": [], "bodies": [body]}, (legacy, answer["failed"], len(answer["bodies"]))
                self.delete_objects()
        self.extended.use_legacy_attribute = False

    def check_a_body_elsewhere_fails_its_message(self):
        self.python_sends("x" * 300_000, f"refunds/{uuid4()}")
        answer = self.handle()
        assert len(answer["failed"]) == 1 and answer["bodies"] == [], answer
        self.delete_objects()

    def check_rust_sends_and_python_receives(self):
        for body in ("é" * 200_000, "small"):
            self.run(body, "send", self.queue, BUCKET, PREFIX)
            assert len(self.objects()) == (body != "small"), self.objects()
            received = self.extended.receive_message(QueueUrl=self.queue, MessageAttributeNames=["All"])
            (message,) = received["Messages"]
            assert message["Body"] == body
            assert message["MessageAttributes"] == {"business-key": TEXT}, message["MessageAttributes"]
            # SQS's own handle is what follows the last `-`.
            handle = message["ReceiptHandle"].rpartition("-..s3Key..-")[2]
            self.plain.delete_message(QueueUrl=self.queue, ReceiptHandle=handle)
            self.delete_objects()

    def check_rust_sends_and_rust_handles(self):
        body = "x" * 300_000
        self.run(body, "send", self.queue, BUCKET, PREFIX)
        assert self.handle() == {"failed": [], "bodies": [body]}
        self.delete_objects()

    def check_a_body_that_is_missing_fails_its_message(self):
        self.run("x" * 300_000, "send", self.queue, BUCKET, PREFIX)
        self.delete_objects()
        answer = self.handle()
        assert len(answer["failed"]) == 1 and answer["bodies"] == [], answer


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    with aws(OUT / "large-messages.log") as cloud:
        both = Both(cloud)
        checks = [name for name in vars(Both) if name.startswith("check_")]
        for name in checks:
            getattr(both, name)()
            print(name.removeprefix("check_").replace("_", " "))
    assert len(checks) > 3


if __name__ == "__main__":
    main()
