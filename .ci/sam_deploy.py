"""Builds the real template with `sam build`, deploys it with `sam deploy`, and tests it through its queue."""

import json
import os
import platform
import subprocess
import tomllib

from samcli.yamlhelper import yaml_dump, yaml_parse

from local import AWS_ENV, LOOPBACK_ONLY_ENV, OUT, ROOT, Payments, aws, built, wait_until

STACK = tomllib.loads((ROOT / "samconfig.toml").read_text())["default"]["global"]["parameters"]["stack_name"]
LOG = OUT / "deploy-aws.log"
# This machine's architecture, because the stand-in for AWS runs the function as a process.
OVERRIDES = [f"Architecture={dict(x86_64='x86_64', aarch64='arm64')[platform.machine()]}"]


def sam(command, *options, env):
    subprocess.run(
        ["sam", command, *options],
        cwd=ROOT,
        env={**os.environ, **AWS_ENV, **LOOPBACK_ONLY_ENV, **env},
        stdin=subprocess.DEVNULL,
        timeout=1200,
        check=True,
    )


def leave_out_metric_math():
    """Removes alarms with metric math from the built template, because the stand-in for CloudFormation cannot create them."""
    path = ROOT / ".aws-sam" / "build" / "template.yaml"
    template = yaml_parse(path.read_text())
    resources = template["Resources"]
    computed = [name for name, resource in resources.items() if "Metrics" in resource.get("Properties", {})]
    assert computed == ["EverythingFailsAlarm", "DuplicatesAlarm"], computed
    for name in computed:
        del resources[name]
    path.write_text(yaml_dump(template))


def order(order_id, amount_cents=1299):
    """A message body as the producer sends it."""
    return json.dumps(
        {"order_id": order_id, "customer_id": "c-7", "amount_cents": amount_cents, "currency": "EUR"}
    )


class Queue:
    """A queue, as its clients see it."""

    def __init__(self, sqs, url):
        self._sqs, self.url = sqs, url

    def send(self, bodies):
        for start in range(0, len(bodies), 10):
            entries = [{"Id": str(i), "MessageBody": body} for i, body in enumerate(bodies[start : start + 10])]
            answer = self._sqs.send_message_batch(QueueUrl=self.url, Entries=entries)
            assert not answer.get("Failed"), answer

    def count(self):
        """The number of messages, including messages in flight."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        attributes = self._sqs.get_queue_attributes(QueueUrl=self.url, AttributeNames=names)["Attributes"]
        return sum(int(attributes[name]) for name in names)

    def take(self):
        """Receives and deletes all visible messages."""
        bodies = []
        while messages := self._sqs.receive_message(QueueUrl=self.url, MaxNumberOfMessages=10).get("Messages"):
            for message in messages:
                bodies.append(message["Body"])
                self._sqs.delete_message(QueueUrl=self.url, ReceiptHandle=message["ReceiptHandle"])
        return bodies


def deploy(cloud, payments_url):
    """Deploys the stack and returns its outputs."""
    overrides = ["--parameter-overrides", *OVERRIDES, f"PaymentsUrl={payments_url}"]
    sam("deploy", "--no-confirm-changeset", *overrides, env=cloud.env)
    (stack,) = cloud.client("cloudformation").describe_stacks(StackName=STACK)["Stacks"]
    return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}


def good_poison_and_resent(queue, dlq, payments):
    """Good orders are charged once and deleted. Poison messages reach the dead-letter queue."""
    good = [f"o-{number}" for number in range(1, 31)]
    poison = ['{"order_id": "o-poison", "amount_', order("o-declined")]
    # A declined card is terminal.
    payments.answers["o-declined"] = [402]
    queue.send([order(order_id) for order_id in good] + poison)
    wait_until("every good order charged", lambda: set(good) <= set(payments.charges), 120)
    wait_until("the source queue empty", lambda: queue.count() == 0, 120)
    assert sorted(dlq.take()) == sorted(poison), "exactly the poison messages are in the dead-letter queue"

    queue.send([order(order_id) for order_id in good])
    wait_until("the resent orders handled", lambda: queue.count() == 0, 120)
    charges = {order_id: len(keys) for order_id, keys in payments.charges.items()}
    assert charges == dict.fromkeys(good, 1), f"each good order once, not {charges}"
    assert len(payments.refusals["o-declined"]) == 1, "a declined charge is not tried again"
    assert dlq.count() == 0
    print(f"{len(good)} orders sent twice and charged once; {len(poison)} poison messages set aside")


def retries(sqs, queue, dlq, payments):
    """A temporary failure is retried with the same idempotency key. After a permanent one, SQS redrives the message."""
    # The template's three minutes would delay every redelivery.
    sqs.set_queue_attributes(QueueUrl=queue.url, Attributes={"VisibilityTimeout": "1"})
    payments.answers |= {"o-flaky": [503, 201], "o-broken": [500]}
    queue.send([order("o-flaky"), order("o-broken")])
    wait_until("the flaky order charged", lambda: payments.charges.get("o-flaky"), 120)
    wait_until("the broken order redriven", lambda: dlq.count() == 1 and queue.count() == 0, 120)
    (redriven,) = dlq.take()
    assert json.loads(redriven)["order_id"] == "o-broken"
    assert payments.charges["o-flaky"] == payments.refusals["o-flaky"], "the retry had another idempotency key"
    assert "o-broken" not in payments.charges
    assert len(payments.refusals["o-broken"]) == 5, "maxReceiveCount deliveries, each with one attempt"
    print("a flaky order charged on its second delivery; a broken one redriven after its fifth")


def audited(cloud, payments):
    """By the function's own log and table, no charged order had two effects, and each duplicate came after one."""
    dynamodb = cloud.client("dynamodb")
    (table,) = dynamodb.list_tables()["TableNames"]
    keys = OUT / "deploy-keys.json"
    keys.write_text(json.dumps({"Items": dynamodb.scan(TableName=table)["Items"]}))
    audit = [built("cargo-sqs-once"), "audit", "--logs", LOG, "--table", keys, "--format", "json"]
    judged = json.loads(subprocess.run(audit, check=True, stdout=subprocess.PIPE).stdout)
    once, after_effect, *_ = judged["verdicts"]
    assert judged["effects"] == len(payments.charges), judged
    # Attempts of the flaky and the broken order failed, and their lines do not tell whether after a charge.
    (unknown,) = once["not_judged"]
    assert (once["holds"], unknown["count"]) == (judged["effects"] - 1, 2), judged
    assert after_effect["holds"] == judged["outcomes"]["duplicate"] > 0, judged
    assert judged["table"]["lapsed_claims"] == [] and judged["unread_lines"] == 0, judged
    print(f"the audit of {judged['lines']} lines agrees")


def main():
    sam("validate", "--lint", env={})
    sam("build", "--parameter-overrides", *OVERRIDES, env={})
    leave_out_metric_math()
    with Payments() as payments, aws(LOG) as cloud:
        outputs = deploy(cloud, payments.url)
        sqs = cloud.client("sqs")
        queue, dlq = Queue(sqs, outputs["QueueUrl"]), Queue(sqs, outputs["DeadLetterQueueUrl"])
        good_poison_and_resent(queue, dlq, payments)
        retries(sqs, queue, dlq, payments)
        audited(cloud, payments)


if __name__ == "__main__":
    main()
