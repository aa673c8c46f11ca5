"""Tests the local SQS with boto3: every operation, invalid requests, and their exceptions. Each test leaves the queues
empty."""

import hashlib
import json

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local import AWS_ENV, built, ready, run_tests

ARN = "arn:aws:sqs:eu-central-1:123456789012:"
NAMES = ("orders", "orders-dead", "orders-dead.fifo", "orders.fifo", "by-content.fifo", "slow")
TENANT = {"DataType": "String", "StringValue": "acmé"}
ATTRIBUTES = {
    "tenant": TENANT,
    "cents": {"DataType": "Number.int", "StringValue": "1200"},
    "picture": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
HEADER = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
# Their digests, as the SQS developer guide defines them. AWS's other SDKs check them.
ATTRIBUTES_MD5, HEADER_MD5 = "bf6d36c3585e88a5ba59efa9be14a9c9", "62a56dd927315f2b2e12832b84617ea5"


@pytest.fixture(scope="module")
def sqs():
    with ready([built("examples/sqs")], env=AWS_ENV) as (child, endpoint):
        yield boto3.client("sqs", endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1}))
        child.kill()
        assert child.stdout.read() == "", "it said more than its endpoint"


@pytest.fixture(scope="module")
def url(sqs):
    """The URL of each queue."""
    return {name: sqs.get_queue_url(QueueName=name)["QueueUrl"] for name in NAMES}


@pytest.fixture
def receive(sqs, url):
    def receive(queue, **options):
        options = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "AttributeNames": ["All"], **options}
        return sqs.receive_message(QueueUrl=url[queue], **options).get("Messages", [])

    return receive


@pytest.fixture
def delete(sqs, url):
    return lambda queue, message: sqs.delete_message(QueueUrl=url[queue], ReceiptHandle=message["ReceiptHandle"])


@pytest.fixture
def count(sqs, url):
    def count(what="ApproximateNumberOfMessages"):
        answer = sqs.get_queue_attributes(QueueUrl=url["orders"], AttributeNames=[what])
        return int(answer["Attributes"][what])

    return count


def test_queues_are_found(sqs, url):
    assert sqs.list_queues(QueueNamePrefix="orders")["QueueUrls"] == [url[name] for name in NAMES[:4]]
    pages = sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 4})
    assert [len(page["QueueUrls"]) for page in pages] == [4, 2]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url["orders-dead"])["queueUrls"] == [url["orders"]]
    attributes = sqs.get_queue_attributes(QueueUrl=url["orders"], AttributeNames=["All"])["Attributes"]
    assert attributes["QueueArn"] == ARN + "orders"
    assert json.loads(attributes["RedrivePolicy"]) == {"deadLetterTargetArn": ARN + "orders-dead", "maxReceiveCount": 2}
    fifo = sqs.get_queue_attributes(QueueUrl=url["by-content.fifo"], AttributeNames=["All"])["Attributes"]
    assert (fifo["FifoQueue"], fifo["ContentBasedDeduplication"]) == ("true", "true")


def test_a_message_comes_and_goes(sqs, url, receive, delete, count):
    body = "héllo \U0001f600"
    sent = sqs.send_message(
        QueueUrl=url["orders"], MessageBody=body, MessageGroupId="fair",
        MessageAttributes=ATTRIBUTES, MessageSystemAttributes=HEADER,
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert (sent["MD5OfMessageAttributes"], sent["MD5OfMessageSystemAttributes"]) == (ATTRIBUTES_MD5, HEADER_MD5)
    (message,) = receive("orders", WaitTimeSeconds=1)
    assert (message["MessageId"], message["Body"]) == (sent["MessageId"], body)
    assert (message["MessageAttributes"], message["MD5OfMessageAttributes"]) == (ATTRIBUTES, ATTRIBUTES_MD5)
    assert message["Attributes"]["MessageGroupId"] == "fair"
    assert message["Attributes"]["ApproximateReceiveCount"] == "1"
    assert count("ApproximateNumberOfMessagesNotVisible") == 1
    change = {"QueueUrl": url["orders"], "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0}
    sqs.change_message_visibility(**change)
    with pytest.raises(sqs.exceptions.MessageNotInflight):
        sqs.change_message_visibility(**change)
    (again,) = receive("orders", MessageAttributeNames=["cen.*", "ten"], AttributeNames=["SentTimestamp"])
    assert (list(again["MessageAttributes"]), list(again["Attributes"])) == (["cents"], ["SentTimestamp"])
    delete("orders", again)
    assert count() == 0


def test_batches(sqs, url, receive, count):
    def batch(operation, *entries):
        """The ids that succeeded, and the codes of the others."""
        answer = operation(QueueUrl=url["orders"], Entries=[{"Id": id, **entry} for id, entry in zip("abc", entries)])
        assert all(entry["SenderFault"] for entry in answer["Failed"])
        return [entry["Id"] for entry in answer["Successful"]], [entry["Code"] for entry in answer["Failed"]]

    later = {"MessageBody": "later", "DelaySeconds": 900}
    entries = {"MessageBody": "one", "MessageAttributes": ATTRIBUTES}, {"MessageBody": "\x01"}, later
    assert batch(sqs.send_message_batch, *entries) == (["a", "c"], ["InvalidMessageContents"])
    assert count("ApproximateNumberOfMessagesDelayed") == 1
    (message,) = receive("orders")
    assert message["MD5OfMessageAttributes"] == ATTRIBUTES_MD5
    receipt = {"ReceiptHandle": message["ReceiptHandle"]}
    changes = {**receipt, "VisibilityTimeout": 60}, {**receipt, "VisibilityTimeout": 43_201}
    assert batch(sqs.change_message_visibility_batch, *changes) == (["a"], ["InvalidParameterValue"])
    deleted = batch(sqs.delete_message_batch, receipt, {"ReceiptHandle": "garbage"})
    assert deleted == (["a"], ["ReceiptHandleIsInvalid"])
    sqs.purge_queue(QueueUrl=url["orders"])
    assert count("ApproximateNumberOfMessagesDelayed") == 0


def test_fifo(sqs, url, receive, delete):
    def send(queue, body, **options):
        return sqs.send_message(QueueUrl=url[queue], MessageBody=body, MessageGroupId="a", **options)

    first = send("orders.fifo", "1", MessageDeduplicationId="d-1")
    second = send("orders.fifo", "2", MessageDeduplicationId="d-2")
    again = send("orders.fifo", "3", MessageDeduplicationId="d-1")
    assert int(first["SequenceNumber"]) < int(second["SequenceNumber"])
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    (one,) = receive("orders.fifo", MaxNumberOfMessages=1)
    assert receive("orders.fifo") == [], "its message group has one in flight"
    delete("orders.fifo", one)
    (two,) = receive("orders.fifo")
    assert [one["Body"], two["Body"]] == ["1", "2"]
    assert two["Attributes"]["SequenceNumber"] == second["SequenceNumber"]
    delete("orders.fifo", two)
    send("by-content.fifo", "same")
    send("by-content.fifo", "same")
    (same,) = receive("by-content.fifo")
    assert same["Attributes"]["MessageDeduplicationId"] == hashlib.sha256(b"same").hexdigest()
    delete("by-content.fifo", same)


def test_dead_letters_and_their_redrive(sqs, url, receive, delete):
    sqs.send_message(QueueUrl=url["orders"], MessageBody="poison", MessageAttributes=ATTRIBUTES)
    for _ in range(2):
        (message,) = receive("orders", VisibilityTimeout=0)
    assert receive("orders") == []
    (dead,) = receive("orders-dead", VisibilityTimeout=0)
    assert dead["MessageId"] == message["MessageId"]
    assert dead["Attributes"]["DeadLetterQueueSourceArn"] == ARN + "orders"
    source = {"SourceArn": ARN + "orders-dead"}
    assert sqs.start_message_move_task(**source)["TaskHandle"]
    (task,) = sqs.list_message_move_tasks(**source, MaxResults=10)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    (back,) = receive("orders")
    assert back["MessageId"] != dead["MessageId"]
    assert (back["Body"], back["MessageAttributes"]) == ("poison", ATTRIBUTES)
    assert back["Attributes"]["ApproximateReceiveCount"] == "1"
    delete("orders", back)


def test_a_redrive_fails_and_is_cancelled(sqs, url):
    source = {"SourceArn": ARN + "orders-dead"}
    for body in ("1", "2", "3"):
        sqs.send_message(QueueUrl=url["orders-dead"], MessageBody=body)
    sqs.start_message_move_task(**source)
    (task,) = sqs.list_message_move_tasks(**source)["Results"]
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    to = {**source, "DestinationArn": ARN + "orders"}
    slow = sqs.start_message_move_task(**to, MaxNumberOfMessagesPerSecond=1)
    with pytest.raises(sqs.exceptions.UnsupportedOperation):
        sqs.start_message_move_task(**to)
    cancelled = sqs.cancel_message_move_task(TaskHandle=slow["TaskHandle"])
    assert cancelled["ApproximateNumberOfMessagesMoved"] < 3
    for queue in ("orders", "orders-dead"):
        sqs.purge_queue(QueueUrl=url[queue])


ENTRY = {"Id": "a", "MessageBody": "x"}
HALF = "x" * (512 * 1024 + 1)


# Without an exception of its own, an error has only a code.
@pytest.mark.parametrize(
    ("error", "operation", "queue", "options"),
    [
        ("QueueDoesNotExist", "send_message", "nowhere", {"MessageBody": "x"}),
        ("QueueDoesNotExist", "send_message_batch", "nowhere", {"Entries": [ENTRY]}),
        ("QueueDoesNotExist", "receive_message", "nowhere", {}),
        ("QueueDoesNotExist", "delete_message", "nowhere", {"ReceiptHandle": "x"}),
        ("QueueDoesNotExist", "purge_queue", "nowhere", {}),
        ("QueueDoesNotExist", "get_queue_attributes", "nowhere", {}),
        ("QueueDoesNotExist", "get_queue_url", None, {"QueueName": "nowhere"}),
        ("ReceiptHandleIsInvalid", "delete_message", "orders", {"ReceiptHandle": "garbage"}),
        ("InvalidMessageContents", "send_message", "orders", {"MessageBody": "\x00"}),
        ("InvalidAttributeName", "get_queue_attributes", "orders", {"AttributeNames": ["Unknown"]}),
        ("EmptyBatchRequest", "send_message_batch", "orders", {"Entries": []}),
        ("BatchEntryIdsNotDistinct", "send_message_batch", "orders", {"Entries": [ENTRY, ENTRY]}),
        ("InvalidBatchEntryId", "send_message_batch", "orders", {"Entries": [{**ENTRY, "Id": "a.b"}]}),
        ("TooManyEntriesInBatchRequest", "send_message_batch", "orders",
            {"Entries": [{**ENTRY, "Id": str(n)} for n in range(11)]}),
        ("BatchRequestTooLong", "send_message_batch", "orders",
            {"Entries": [{"Id": str(n), "MessageBody": HALF} for n in range(2)]}),
        ("ResourceNotFoundException", "start_message_move_task", None, {"SourceArn": ARN + "nowhere"}),
        ("ResourceNotFoundException", "cancel_message_move_task", None, {"TaskHandle": "unknown"}),
        ("InvalidParameterValue", "start_message_move_task", None, {"SourceArn": ARN + "orders"}),
        ("InvalidParameterValue", "receive_message", "orders", {"MaxNumberOfMessages": 11}),
        ("InvalidParameterValue", "receive_message", "orders", {"WaitTimeSeconds": 21}),
        ("InvalidParameterValue", "send_message", "orders", {"MessageBody": "x", "DelaySeconds": 901}),
        ("InvalidParameterValue", "send_message", "orders.fifo", {"MessageBody": "x", "MessageGroupId": "a"}),
        ("MissingParameter", "send_message", "orders.fifo", {"MessageBody": "x"}),
        ("MissingParameter", "send_message", "orders", {"MessageBody": ""}),
        ("InvalidAction", "create_queue", None, {"QueueName": "another"}),
    ],
)
def test_errors(sqs, url, error, operation, queue, options):
    if queue:
        options = {"QueueUrl": url.get(queue, url["orders"] + "-nowhere"), **options}
    expected = getattr(sqs.exceptions, error, ClientError)
    with pytest.raises(expected) as refused:
        getattr(sqs, operation)(**options)
    assert expected is not ClientError or refused.value.response["Error"]["Code"] == error


if __name__ == "__main__":
    run_tests(__file__)
