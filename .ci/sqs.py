"""Tests the local SQS with boto3: every operation, invalid requests, and their exceptions. Each test leaves the queues
empty."""

import hashlib
import json

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from local import built, ready, run_tests

ARN = "arn:aws:sqs:eu-central-1:123456789012:"
NAMES = ("orders", "orders-dead", "orders-dead.fifo", "orders.fifo", "by-content.fifo", "slow")
ATTRIBUTES = {
    "tenant": {"DataType": "String", "StringValue": "acmé"},
    "cents": {"DataType": "Number.int", "StringValue": "1200"},
    "picture": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
}
HEADER = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988-bd862e3fe1be46a994272793"}}
# Their digests, as the SQS developer guide defines them. AWS's other SDKs check them.
ATTRIBUTES_MD5, HEADER_MD5 = "bf6d36c3585e88a5ba59efa9be14a9c9", "62a56dd927315f2b2e12832b84617ea5"


@pytest.fixture(scope="module")
def resource():
    with ready([built("examples/sqs")]) as (child, endpoint):
        yield boto3.resource("sqs", endpoint_url=endpoint, config=Config(retries={"total_max_attempts": 1}))
        child.kill()
        assert child.stdout.read() == "", "it said more than its endpoint"


@pytest.fixture(scope="module")
def sqs(resource):
    return resource.meta.client


@pytest.fixture(scope="module")
def queues(resource):
    return {name: resource.get_queue_by_name(QueueName=name) for name in NAMES}


def receive(queue, **options):
    options = {"MaxNumberOfMessages": 10, "MessageAttributeNames": ["All"], "AttributeNames": ["All"], **options}
    return queue.receive_messages(**options)


def count(queue, state=""):
    queue.reload()
    return int(queue.attributes[f"ApproximateNumberOfMessages{state}"])


def test_queues_are_found(sqs, resource, queues):
    found = [queue.url for queue in resource.queues.filter(QueueNamePrefix="orders")]
    assert found == [queues[name].url for name in NAMES[:4]]
    pages = sqs.get_paginator("list_queues").paginate(PaginationConfig={"PageSize": 4})
    assert [len(page["QueueUrls"]) for page in pages] == [4, 2]
    assert list(queues["orders-dead"].dead_letter_source_queues.all()) == [queues["orders"]]
    attributes, fifo = queues["orders"].attributes, queues["by-content.fifo"].attributes
    assert attributes["QueueArn"] == ARN + "orders"
    assert json.loads(attributes["RedrivePolicy"]) == {"deadLetterTargetArn": ARN + "orders-dead", "maxReceiveCount": 2}
    assert (fifo["FifoQueue"], fifo["ContentBasedDeduplication"]) == ("true", "true")


def test_a_message_comes_and_goes(sqs, queues):
    orders, body = queues["orders"], "héllo \U0001f600"
    sent = orders.send_message(
        MessageBody=body, MessageGroupId="fair", MessageAttributes=ATTRIBUTES, MessageSystemAttributes=HEADER
    )
    assert sent["MD5OfMessageBody"] == hashlib.md5(body.encode()).hexdigest()
    assert (sent["MD5OfMessageAttributes"], sent["MD5OfMessageSystemAttributes"]) == (ATTRIBUTES_MD5, HEADER_MD5)
    (message,) = receive(orders, WaitTimeSeconds=1)
    assert (message.message_id, message.body) == (sent["MessageId"], body)
    assert (message.message_attributes, message.md5_of_message_attributes) == (ATTRIBUTES, ATTRIBUTES_MD5)
    assert message.attributes["MessageGroupId"] == "fair"
    assert message.attributes["ApproximateReceiveCount"] == "1"
    assert count(orders, "NotVisible") == 1
    message.change_visibility(VisibilityTimeout=0)
    with pytest.raises(sqs.exceptions.MessageNotInflight):
        message.change_visibility(VisibilityTimeout=0)
    (again,) = receive(orders, MessageAttributeNames=["cen.*", "ten"], AttributeNames=["SentTimestamp"])
    assert (list(again.message_attributes), list(again.attributes)) == (["cents"], ["SentTimestamp"])
    again.delete()
    assert count(orders) == 0


def test_batches(queues):
    def batch(operation, *entries):
        """The ids that succeeded, and the codes of the others."""
        answer = operation(Entries=[{"Id": id, **entry} for id, entry in zip("abc", entries)])
        assert all(entry["SenderFault"] for entry in answer["Failed"])
        return [entry["Id"] for entry in answer["Successful"]], [entry["Code"] for entry in answer["Failed"]]

    orders, later = queues["orders"], {"MessageBody": "later", "DelaySeconds": 900}
    entries = {"MessageBody": "one", "MessageAttributes": ATTRIBUTES}, {"MessageBody": "\x01"}, later
    assert batch(orders.send_messages, *entries) == (["a", "c"], ["InvalidMessageContents"])
    assert count(orders, "Delayed") == 1
    (message,) = receive(orders)
    assert message.md5_of_message_attributes == ATTRIBUTES_MD5
    receipt = {"ReceiptHandle": message.receipt_handle}
    changes = {**receipt, "VisibilityTimeout": 60}, {**receipt, "VisibilityTimeout": 43_201}
    assert batch(orders.change_message_visibility_batch, *changes) == (["a"], ["InvalidParameterValue"])
    deleted = batch(orders.delete_messages, receipt, {"ReceiptHandle": "garbage"})
    assert deleted == (["a"], ["ReceiptHandleIsInvalid"])
    orders.purge()
    assert count(orders, "Delayed") == 0


def test_fifo(queues):
    def send(queue, body, **options):
        return queue.send_message(MessageBody=body, MessageGroupId="a", **options)

    fifo, by_content = queues["orders.fifo"], queues["by-content.fifo"]
    first = send(fifo, "1", MessageDeduplicationId="d-1")
    second = send(fifo, "2", MessageDeduplicationId="d-2")
    again = send(fifo, "3", MessageDeduplicationId="d-1")
    assert int(first["SequenceNumber"]) < int(second["SequenceNumber"])
    assert (again["MessageId"], again["SequenceNumber"]) == (first["MessageId"], first["SequenceNumber"])
    (one,) = receive(fifo, MaxNumberOfMessages=1)
    assert receive(fifo) == [], "its message group has one in flight"
    one.delete()
    (two,) = receive(fifo)
    assert [one.body, two.body] == ["1", "2"]
    assert two.attributes["SequenceNumber"] == second["SequenceNumber"]
    two.delete()
    send(by_content, "same")
    send(by_content, "same")
    (same,) = receive(by_content)
    assert same.attributes["MessageDeduplicationId"] == hashlib.sha256(b"same").hexdigest()
    same.delete()


def test_dead_letters_and_their_redrive(sqs, queues):
    orders, dead_letters, source = queues["orders"], queues["orders-dead"], {"SourceArn": ARN + "orders-dead"}
    orders.send_message(MessageBody="poison", MessageAttributes=ATTRIBUTES)
    for _ in range(2):
        (message,) = receive(orders, VisibilityTimeout=0)
    assert receive(orders) == []
    (dead,) = receive(dead_letters, VisibilityTimeout=0)
    assert dead.message_id == message.message_id
    assert dead.attributes["DeadLetterQueueSourceArn"] == ARN + "orders"
    assert sqs.start_message_move_task(**source)["TaskHandle"]
    (task,) = sqs.list_message_move_tasks(**source, MaxResults=10)["Results"]
    assert (task["Status"], task["ApproximateNumberOfMessagesMoved"]) == ("COMPLETED", 1)
    (back,) = receive(orders)
    assert back.message_id != dead.message_id
    assert (back.body, back.message_attributes) == ("poison", ATTRIBUTES)
    assert back.attributes["ApproximateReceiveCount"] == "1"
    back.delete()

    for body in ("1", "2", "3"):
        dead_letters.send_message(MessageBody=body)
    sqs.start_message_move_task(**source)
    (task,) = sqs.list_message_move_tasks(**source)["Results"]
    assert (task["Status"], task["FailureReason"]) == ("FAILED", "CouldNotDetermineMessageSource")
    to = {**source, "DestinationArn": ARN + "orders"}
    slow = sqs.start_message_move_task(**to, MaxNumberOfMessagesPerSecond=1)
    with pytest.raises(sqs.exceptions.UnsupportedOperation):
        sqs.start_message_move_task(**to)
    cancelled = sqs.cancel_message_move_task(TaskHandle=slow["TaskHandle"])
    assert cancelled["ApproximateNumberOfMessagesMoved"] < 3
    orders.purge()
    dead_letters.purge()


ENTRY = {"Id": "a", "MessageBody": "x"}
HALVES = [{"Id": id, "MessageBody": "x" * (512 * 1024 + 1)} for id in "ab"]


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
        ("TooManyEntriesInBatchRequest", "send_message_batch", "orders", {"Entries": [{**ENTRY, "Id": n} for n in "abcdefghijk"]}),
        ("BatchRequestTooLong", "send_message_batch", "orders", {"Entries": HALVES}),
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
def test_errors(sqs, queues, error, operation, queue, options):
    if queue:
        options = {"QueueUrl": queues["orders"].url.replace("orders", queue), **options}
    expected = getattr(sqs.exceptions, error, ClientError)
    with pytest.raises(expected) as refused:
        getattr(sqs, operation)(**options)
    assert expected is not ClientError or refused.value.response["Error"]["Code"] == error


if __name__ == "__main__":
    run_tests(__file__)
