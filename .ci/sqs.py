"""Tests the local SQS with boto3: every operation, its invalid requests, and their exceptions."""

import hashlib
import json
import struct
import threading
from pathlib import Path

import boto3
from botocore.config import Config
from botocore.exceptions import ClientError

from local import AWS_ENV, OUT, built, process, wait_until

ARN = "arn:aws:sqs:eu-central-1:123456789012:"
ATTRIBUTES = {
    "tenant": {"DataType": "String", "StringValue": "acmé"},
    "cents": {"DataType": "Number.int", "StringValue": "1200"},
    "picture": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}


def md5_of(attributes):
    """The digest of message attributes, as defined in the SQS developer guide."""
    digest = hashlib.md5()

    def add(value):
        digest.update(struct.pack(">I", len(value)) + value)

    for name, attribute in sorted(attributes.items()):
        add(name.encode())
        add(attribute["DataType"].encode())
        digest.update(b"\x02" if "BinaryValue" in attribute else b"\x01")
        add(attribute.get("BinaryValue") or attribute["StringValue"].encode())
    return digest.hexdigest()


class Boto3:
    """The checks with boto3. Each starts and ends with empty queues."""

    def __init__(self, url):
        session = boto3.Session(region_name="eu-central-1", aws_access_key_id="local", aws_secret_access_key="local")
        options = {"endpoint_url": url, "config": Config(retries={"total_max_attempts": 1})}
        self.sqs = session.client("sqs", **options)
        self.resource = session.resource("sqs", **options)
        self.errors = self.sqs.exceptions
        self.url = {name: self.sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in (
            "orders", "orders-dead", "orders.fifo", "orders-dead.fifo", "by-content.fifo", "slow")}

    def receive(self, queue, **options):
        options = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "AttributeNames": ["All"], **options}
        return self.sqs.receive_message(QueueUrl=self.url[queue], **options).get("Messages", [])

    def delete(self, queue, messages):
        for message in messages:
            self.sqs.delete_message(QueueUrl=self.url[queue], ReceiptHandle=message["ReceiptHandle"])

    def count(self, queue, what="ApproximateNumberOfMessages"):
        answer = self.sqs.get_queue_attributes(QueueUrl=self.url[queue], AttributeNames=[what])
        return int(answer["Attributes"][what])

    def refused(self, exception, operation, **options):
        """Asserts that the operation raises this exception, or a `ClientError` with this code."""
        try:
            getattr(self.sqs, operation)(**options)
        except ClientError as error:
            if isinstance(exception, str):
                assert error.response["Error"]["Code"] == exception, error
            else:
                assert type(error) is exception, (exception, error)
        else:
            raise AssertionError(f"{operation} was not refused: {options}")

    def check_queues_are_found(self):
        listed = self.sqs.list_queues(QueueNamePrefix="orders")["QueueUrls"]
        names = ("orders", "orders-dead", "orders-dead.fifo", "orders.fifo")
        assert listed == [self.url[name] for name in names], listed
        pages = self.sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 4})
        assert [len(page["QueueUrls"]) for page in pages] == [4, 2]
        sources = self.sqs.list_dead_letter_source_queues(QueueUrl=self.url["orders-dead"])["queueUrls"]
        assert sources == [self.url["orders"]], sources
        attributes = self.sqs.get_queue_attributes(QueueUrl=self.url["orders"], AttributeNames=["All"])["Attributes"]
        assert attributes["QueueArn"] == ARN + "orders"
        policy = {"deadLetterTargetArn": ARN + "orders-dead", "maxReceiveCount": 2}
        assert json.loads(attributes["RedrivePolicy"]) == policy
        fifo = self.resource.get_queue_by_name(QueueName="by-content.fifo").attributes
        assert (fifo["FifoQueue"], fifo["ContentBasedDeduplication"]) == ("true", "true")

    def check_a_message_comes_and_goes(self):
        body = "héllo \U0001f600"
        header = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
        sent = self.sqs.send_message(
            QueueUrl=self.url["orders"], MessageBody=body, MessageGroupId="fair",
            MessageAttributes=ATTRIBUTES, MessageSystemAttributes=header,
        )
        assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
        assert sent["MD5OfMessageAttributes"] == md5_of(ATTRIBUTES)
        assert sent["MD5OfMessageSystemAttributes"] == md5_of(header)
        (message,) = self.receive("orders", WaitTimeSeconds=1)
        assert (message["MessageId"], message["Body"]) == (sent["MessageId"], body)
        assert message["MessageAttributes"] == ATTRIBUTES
        assert message["MD5OfMessageAttributes"] == md5_of(ATTRIBUTES)
        assert message["Attributes"]["MessageGroupId"] == "fair"
        assert message["Attributes"]["ApproximateReceiveCount"] == "1"
        assert self.count("orders", "ApproximateNumberOfMessagesNotVisible") == 1
        receipt = {"QueueUrl": self.url["orders"], "ReceiptHandle": message["ReceiptHandle"]}
        self.sqs.change_message_visibility(**receipt, VisibilityTimeout=0)
        change = {"operation": "change_message_visibility", **receipt, "VisibilityTimeout": 0}
        self.refused(self.errors.MessageNotInflight, **change)
        (again,) = self.receive("orders", MessageAttributeNames=["cen.*", "ten"], AttributeNames=["SentTimestamp"])
        assert list(again["MessageAttributes"]) == ["cents"]
        assert list(again["Attributes"]) == ["SentTimestamp"]
        self.delete("orders", [again])
        assert self.count("orders") == 0

    def check_batches(self):
        queue = self.resource.Queue(self.url["orders"])
        answer = queue.send_messages(Entries=[
            {"Id": "a", "MessageBody": "one", "MessageAttributes": ATTRIBUTES},
            {"Id": "b", "MessageBody": "\x01"},
            {"Id": "c", "MessageBody": "later", "DelaySeconds": 900},
        ])
        assert [entry["Id"] for entry in answer["Successful"]] == ["a", "c"]
        assert answer["Successful"][0]["MD5OfMessageAttributes"] == md5_of(ATTRIBUTES)
        ((failed),) = answer["Failed"]
        assert (failed["Id"], failed["Code"], failed["SenderFault"]) == ("b", "InvalidMessageContents", True), failed
        assert self.count("orders", "ApproximateNumberOfMessagesDelayed") == 1
        (message,) = queue.receive_messages(MaxNumberOfMessages=10)
        changed = queue.change_message_visibility_batch(Entries=[
            {"Id": "a", "ReceiptHandle": message.receipt_handle, "VisibilityTimeout": 60},
            {"Id": "b", "ReceiptHandle": message.receipt_handle, "VisibilityTimeout": 43_201},
        ])
        assert [entry["Id"] for entry in changed["Successful"]] == ["a"]
        assert [entry["Code"] for entry in changed["Failed"]] == ["InvalidParameterValue"]
        deleted = queue.delete_messages(Entries=[
            {"Id": "a", "ReceiptHandle": message.receipt_handle},
            {"Id": "b", "ReceiptHandle": "garbage"},
        ])
        assert [entry["Id"] for entry in deleted["Successful"]] == ["a"]
        assert [entry["Code"] for entry in deleted["Failed"]] == ["ReceiptHandleIsInvalid"]
        queue.purge()
        assert self.count("orders", "ApproximateNumberOfMessagesDelayed") == 0

    def check_fifo(self):
        def send(queue, body, **options):
            return self.sqs.send_message(QueueUrl=self.url[queue], MessageBody=body, MessageGroupId="a", **options)

        first = send("orders.fifo", "1", MessageDeduplicationId="d-1")
        second = send("orders.fifo", "2", MessageDeduplicationId="d-2")
        again = send("orders.fifo", "3", MessageDeduplicationId="d-1")
        assert int(first["SequenceNumber"]) < int(second["SequenceNumber"])
        assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
        (one,) = self.receive("orders.fifo", MaxNumberOfMessages=1)
        assert self.receive("orders.fifo") == [], "its message group has one in flight"
        self.delete("orders.fifo", [one])
        (two,) = self.receive("orders.fifo")
        assert [one["Body"], two["Body"]] == ["1", "2"]
        assert two["Attributes"]["SequenceNumber"] == second["SequenceNumber"]
        self.delete("orders.fifo", [two])
        send("by-content.fifo", "same")
        send("by-content.fifo", "same")
        (same,) = self.receive("by-content.fifo")
        assert same["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"same").hexdigest()
        self.delete("by-content.fifo", [same])

    def check_long_polling(self):
        received = []
        waiting = threading.Thread(target=lambda: received.extend(self.receive("orders", WaitTimeSeconds=20)))
        waiting.start()
        self.sqs.send_message(QueueUrl=self.url["orders"], MessageBody="awaited")
        waiting.join(15)
        assert [message["Body"] for message in received] == ["awaited"]
        self.delete("orders", received)

    def check_dead_letters_and_their_redrive(self):
        self.sqs.send_message(QueueUrl=self.url["orders"], MessageBody="poison", MessageAttributes=ATTRIBUTES)
        for _ in range(2):
            (message,) = self.receive("orders", VisibilityTimeout=0)
        assert self.receive("orders") == []
        (dead,) = self.receive("orders-dead", VisibilityTimeout=0)
        assert dead["MessageId"] == message["MessageId"]
        assert dead["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "orders"
        source = {"SourceArn": ARN + "orders-dead"}
        assert self.sqs.start_message_move_task(**source)["TaskHandle"]
        (task,) = self.sqs.list_message_move_tasks(**source, MaxResults=10)["Results"]
        assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1), task
        (back,) = self.receive("orders")
        assert back["MessageId"] != dead["MessageId"]
        assert (back["Body"], back["MessageAttributes"]) == ("poison", ATTRIBUTES)
        assert back["Attributes"]["ApproximateReceiveCount"] == "1"
        self.delete("orders", [back])

        for body in ("1", "2", "3"):
            self.sqs.send_message(QueueUrl=self.url["orders-dead"], MessageBody=body)
        self.sqs.start_message_move_task(**source)
        (task,) = self.sqs.list_message_move_tasks(**source)["Results"]
        assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource"), task
        to = {**source, "DestinationArn": ARN + "orders"}
        slow = self.sqs.start_message_move_task(**to, MaxNumberOfMessagesPerSecond=1)
        self.refused(self.errors.UnsupportedOperation, "start_message_move_task", **to)
        moved = self.sqs.cancel_message_move_task(TaskHandle=slow["TaskHandle"])["ApproximateNumberOfMessagesMoved"]
        assert moved < 3, moved
        self.refused(self.errors.ResourceNotFoundException, "cancel_message_move_task", TaskHandle="unknown")
        for queue in ("orders", "orders-dead"):
            self.sqs.purge_queue(QueueUrl=self.url[queue])

    def check_errors(self):
        orders, fifo = {"QueueUrl": self.url["orders"]}, {"QueueUrl": self.url["orders.fifo"]}
        nowhere = {"QueueUrl": self.url["orders"] + "-nowhere"}
        entry = {"Id": "a", "MessageBody": "x"}
        half = "x" * (512 * 1024 + 1)
        errors = self.errors
        for exception, operation, options in (
            (errors.QueueDoesNotExist, "get_queue_url", {"QueueName": "nowhere"}),
            (errors.QueueDoesNotExist, "send_message", {**nowhere, "MessageBody": "x"}),
            (errors.QueueDoesNotExist, "send_message_batch", {**nowhere, "Entries": [entry]}),
            (errors.QueueDoesNotExist, "receive_message", nowhere),
            (errors.QueueDoesNotExist, "delete_message", {**nowhere, "ReceiptHandle": "x"}),
            (errors.QueueDoesNotExist, "purge_queue", nowhere),
            (errors.QueueDoesNotExist, "get_queue_attributes", nowhere),
            (errors.ReceiptHandleIsInvalid, "delete_message", {**orders, "ReceiptHandle": "garbage"}),
            (errors.InvalidMessageContents, "send_message", {**orders, "MessageBody": "\x00"}),
            (errors.InvalidAttributeName, "get_queue_attributes", {**orders, "AttributeNames": ["Unknown"]}),
            (errors.EmptyBatchRequest, "send_message_batch", {**orders, "Entries": []}),
            (errors.BatchEntryIdsNotDistinct, "send_message_batch", {**orders, "Entries": [entry, entry]}),
            (errors.InvalidBatchEntryId, "send_message_batch", {**orders, "Entries": [{**entry, "Id": "a.b"}]}),
            (errors.TooManyEntriesInBatchRequest, "send_message_batch",
                {**orders, "Entries": [{**entry, "Id": str(n)} for n in range(11)]}),
            (errors.BatchRequestTooLong, "send_message_batch",
                {**orders, "Entries": [{"Id": str(n), "MessageBody": half} for n in range(2)]}),
            (errors.ResourceNotFoundException, "start_message_move_task", {"SourceArn": ARN + "nowhere"}),
            ("InvalidParameterValue", "start_message_move_task", {"SourceArn": ARN + "orders"}),
            ("InvalidParameterValue", "receive_message", {**orders, "MaxNumberOfMessages": 11}),
            ("InvalidParameterValue", "receive_message", {**orders, "WaitTimeSeconds": 21}),
            ("InvalidParameterValue", "send_message", {**orders, "MessageBody": "x", "DelaySeconds": 901}),
            ("InvalidParameterValue", "send_message", {**fifo, "MessageBody": "x", "MessageGroupId": "a"}),
            ("MissingParameter", "send_message", {**fifo, "MessageBody": "x"}),
            ("MissingParameter", "send_message", {**orders, "MessageBody": ""}),
            ("InvalidAction", "create_queue", {"QueueName": "another"}),
        ):
            self.refused(exception, operation, **options)


def main():
    OUT.mkdir(parents=True, exist_ok=True)
    log = OUT / "sqs.log"
    with process([built("examples/sqs")], log, AWS_ENV) as child:
        wait_until("the local SQS", lambda: Path(log).read_text().startswith("http"), 60, alive=child)
        url = Path(log).read_text().strip()
        checks = Boto3(url)
        names = sorted(name for name in vars(Boto3) if name.startswith("check_"))
        for name in names:
            getattr(checks, name)()
        assert child.poll() is None, "it ended"
        assert Path(log).read_text().strip() == url, "it said more than its endpoint"
    print(f"boto3 is answered: {len(names)} checks")


if __name__ == "__main__":
    main()
