#!/usr/bin/env python3
# /// script
# requires-python = ">=3.11"
# dependencies = ["boto3"]
# ///
"""Tries sqs-once on your AWS account, and deletes all that it made.

It builds the transactional project of `cargo sqs-once new`, deploys it with `sam deploy` for a standard and for a FIFO
queue, sends orders with copies, poison and failures, waits for all retries, and checks every effect. It measures latency,
cold starts and cost, prints a report, and deletes its stacks, also after Ctrl-C or an error.

It costs cents for 10,000 messages, and asks first. Credentials are those that boto3 finds, such as those in the
environment. Use an account without production data. It needs cargo-sqs-once, cargo-lambda and the SAM CLI on the PATH.
"""

import argparse
import collections
import datetime
import json
import os
import re
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

TAG = "sqs-once-verify"
FEWEST = 100
# Few, because transactions that update one article's item at the same time refuse each other.
PER_ARTICLE = 20
PER_GROUP = 10
TIMEOUT, WINDOW, DELIVERIES, MEMORY_MB = 10, 1, 5, 256
# The least that AWS recommends: six times the function's timeout, and the window.
VISIBILITY = 6 * TIMEOUT + WINDOW
# Seconds: how long a queue may take to become empty, and how long CloudWatch lags.
EMPTY, LAG = 3600, 180
# What the project's template protects, this deletes. Shorter timeouts make the retries come sooner.
CHANGES = [
    ("DeletionPolicy: Retain", "DeletionPolicy: Delete"),
    ("UpdateReplacePolicy: Retain", "UpdateReplacePolicy: Delete"),
    ("DeletionProtectionEnabled: true", "DeletionProtectionEnabled: false"),
    ("CodeUri: .", "CodeUri: function"),
    ("Timeout: 30", f"Timeout: {TIMEOUT}"),
    (r"VisibilityTimeout: 18[01]", f"VisibilityTimeout: {VISIBILITY}"),
]
SUITE = """
  SuiteTable:
    Type: AWS::DynamoDB::Table
    Properties:
      BillingMode: PAY_PER_REQUEST
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
      KeySchema: [{ AttributeName: id, KeyType: HASH }]

Outputs:
"""
# Dollars in us-east-1, on demand, November 2026, without any free tier.
GB_SECOND = {"arm64": 0.0000133334, "x86_64": 0.0000166667}
PRICES = {
    "DynamoDB write units": 0.625e-6,
    "DynamoDB read units": 0.125e-6,
    "Lambda invocations": 0.20e-6,
    "Lambda seconds billed": None,
    "SQS requests": 0.40e-6,
    "bytes of log": 0.50e-9,
}
# Six write units, a read and 512 bytes of log for each delivery, of which some are retries, and half a second for five.
DOLLARS_A_MESSAGE = 0.6e-5


class Fault(Exception):
    """Something that stops the run, in words for the report."""


def note(text):
    print(text, file=sys.stderr, flush=True)


@dataclass
class Messages:
    """Waves of messages to one queue, each a body with its group. A wave needs the effects of the wave before it."""

    waves: list = field(default_factory=lambda: [[], [], []])
    # The article and the pieces of each order that must be stored, and the bodies that must reach the dead-letter queue.
    orders: dict = field(default_factory=dict)
    poison: list = field(default_factory=list)
    copies: int = 0
    # Messages that fail until SQS moves them, or until their article is mended.
    failing: int = 0

    def count(self):
        return sum(map(len, self.waves))

    def reserved(self):
        articles = {article for article, _ in self.orders.values()}
        return {name: sum(pieces for article, pieces in self.orders.values() if article == name) for name in articles}


def body(order_id, article, pieces):
    return json.dumps({"order_id": order_id, "customer_id": "c-7", "article": article, "pieces": pieces})


def make_messages(count, fifo):
    """At least `FEWEST` messages. A tenth repeats an order next to it, and a tenth an order that was handled. Of a hundred,
    one is no order, one is for no pieces, one conflicts with a handled order, one fails in each delivery, and one fails
    until its article is mended.

    >>> one = make_messages(1000, fifo=False)
    >>> one.count(), len(one.orders), len(one.poison), one.copies, one.failing
    (1000, 760, 40, 200, 20)
    """
    count = max(count, FEWEST)
    tenth, hundredth = count // 10, count // 100
    whole = count - 2 * tenth - 5 * hundredth
    articles = -(-whole // PER_ARTICLE)
    messages = Messages(copies=2 * tenth, failing=2 * hundredth)
    first, second, third = messages.waves

    def poison(wave, text, group):
        messages.poison.append(text)
        wave.append((text, group))

    for n in range(whole):
        name, article, pieces, group = f"o-{n}", f"article-{n % articles}", n % 7 + 1, f"g-{n // PER_GROUP}"
        messages.orders[name] = (article, pieces)
        order = (body(name, article, pieces), group)
        first += [order] * (2 if n < tenth else 1)
        if hundredth <= n < hundredth + tenth:
            second.append(order)
        if n >= hundredth:
            continue
        # Groups of their own: SQS counts the deliveries of all that is behind a failing message.
        poison(first, f"not an order: {n}", f"none-{n}")
        poison(first, body(f"empty-{n}", article, 0), f"empty-{n}")
        poison(second, body(name, article, pieces + 1000), group)
        poison(second, body(f"stuck-{n}", "stuck", n + 1), f"behind-{n}")
        messages.orders[f"mended-{n}"] = ("mended", n + 1)
        second.append((body(f"mended-{n}", "mended", n + 1), f"mended-{n}"))
    if fifo:
        # One order in the group of each failing message, which is in flight when they are sent.
        for n in range(hundredth):
            messages.orders[f"behind-{n}"] = ("behind", n + 1)
            third.append((body(f"behind-{n}", "behind", n + 1), f"behind-{n}"))
    return messages


def differences(expected, found, unit):
    """Whether both are the same, and their count or the first differences.

    >>> differences({"a": 1}, {"a": 1}, "orders")
    (True, '1 orders')
    >>> differences({"a": 1, "b": 2}, {"b": 3, "c": 4}, "orders")
    (False, '3 of 2 orders differ: `a` is missing; `b` has 3, not 2; `c` is too much')
    """
    faults = [
        f"`{key}` is missing" if key not in found else f"`{key}` has {found[key]}, not {value}"
        for key, value in expected.items()
        if key not in found or found[key] != value
    ] + [f"`{key}` is too much" for key in found if key not in expected]
    if not faults:
        return True, f"{len(expected)} {unit}"
    return False, f"{len(faults)} of {len(expected)} {unit} differ: {'; '.join(faults[:5])}"


def judge(messages, orders, reserved, completed, dead):
    """The promises about effects, each with whether it was kept and what was found.

    >>> one = make_messages(100, fifo=True)
    >>> right = [one.orders, one.reserved(), len(one.orders), dict.fromkeys(one.poison, 1)]
    >>> [kept for _, kept, _ in judge(one, *right)]
    [True, True, True, True]
    >>> lost = {name: order for name, order in one.orders.items() if name != "o-1"}
    >>> twice = {**one.reserved(), "article-0": 1 + one.reserved()["article-0"]}
    >>> [kept for _, kept, _ in judge(one, lost, twice, 0, {})]
    [False, False, False, False]
    >>> judge(one, *right[:3], dict.fromkeys(one.poison, 2))[3][2]
    '4 messages; 4 of them more than once'
    """
    kept, found = differences(dict.fromkeys(messages.poison), dict.fromkeys(dead), "messages")
    more = sum(dead.values()) - len(dead)
    # SQS and the function both promise to deliver at least once.
    found += f"; {more} of them more than once" if kept and more else ""
    return [
        ("each order is stored with its own content", *differences(messages.orders, orders, "orders")),
        ("each article's reserved pieces are exactly the sum of its orders",
            *differences(messages.reserved(), reserved, "articles")),
        ("exactly the keys of the orders are completed", completed == len(messages.orders), f"{completed} keys"),
        ("exactly the poison and what always fails is in the dead-letter queue", kept, found),
    ]


def judge_order(groups, lines, slack=2):
    """Whether the messages of each group ended in the order in which they were sent, by the function's log lines, which are
    message ids with times and outcomes. A failing message ends with its last failure. The clocks of two environments may
    differ by `slack` seconds.

    >>> groups = {"a": ["m1", "m2"], "b": ["m3"]}
    >>> lines = [("m1", 1, "failed"), ("m1", 60, "failed"), ("m2", 70, "processed"), ("m3", 1, "processed")]
    >>> judge_order(groups, lines)[1:]
    (True, '3 messages in 2 groups')
    >>> judge_order(groups, lines + [("m2", 5, "processed")])[1:]
    (False, '1 of 2 groups: a')
    >>> judge_order(groups, lines[:3])[1:]
    (False, 'no log line of 1 messages')
    """
    ends = {}
    for message, at, outcome in sorted(lines, key=lambda line: line[1]):
        if ends.get(message, (0, "failed"))[1] == "failed":
            ends[message] = (at, outcome)
    promise = "the messages of each FIFO group end in order, behind a failing one only when it is dead"
    all_sent = [message for group in groups.values() for message in group]
    if missing := sum(message not in ends for message in all_sent):
        return promise, False, f"no log line of {missing} messages"
    times = {name: [ends[message][0] for message in group] for name, group in groups.items()}
    wrong = [name for name, at in times.items() if any(later < one - slack for one, later in zip(at, at[1:]))]
    if wrong:
        return promise, False, f"{len(wrong)} of {len(groups)} groups: {', '.join(wrong[:5])}"
    return promise, True, f"{len(all_sent)} messages in {len(groups)} groups"


class Account:
    def __init__(self, region):
        self.session, self.region = boto3.Session(region_name=region), region
        self.client = self.session.client
        self.id = self.client("sts").get_caller_identity()["Account"]

    def stacks(self, prefix=f"{TAG}-"):
        """The stacks that runs made, by their names and tags."""
        pages = self.client("cloudformation").get_paginator("describe_stacks").paginate()
        all_stacks = [stack for page in pages for stack in page["Stacks"] if stack["StackName"].startswith(prefix)]
        return [stack["StackName"] for stack in all_stacks if TAG in {tag["Key"] for tag in stack.get("Tags", [])}]

    def delete(self, stacks):
        """Deletes stacks with all that is in them. Returns what is left, with the reason."""
        cloudformation, left = self.client("cloudformation"), []
        for stack in stacks:
            for one in cloudformation.describe_stack_resources(StackName=stack)["StackResources"]:
                if one["ResourceType"] == "AWS::S3::Bucket" and "PhysicalResourceId" in one:
                    self.session.resource("s3").Bucket(one["PhysicalResourceId"]).objects.all().delete()
            cloudformation.delete_stack(StackName=stack)
        for stack in stacks:
            try:
                cloudformation.get_waiter("stack_delete_complete").wait(StackName=stack)
            except BotoCoreError as error:
                left.append(f"the stack {stack} ({error})")
        return left

    def bucket(self, name):
        """Makes a stack with a bucket for the function's code. Returns the bucket's name."""
        cloudformation = self.client("cloudformation")
        template = {"Resources": {"Code": {"Type": "AWS::S3::Bucket"}}}
        tags = [{"Key": TAG, "Value": name}]
        cloudformation.create_stack(StackName=name, TemplateBody=json.dumps(template), Tags=tags)
        cloudformation.get_waiter("stack_create_complete").wait(StackName=name)
        return cloudformation.describe_stack_resources(StackName=name)["StackResources"][0]["PhysicalResourceId"]


class Stack:
    """One deployment: a queue, its dead-letter queue, the function and its tables."""

    def __init__(self, account, name, fifo):
        self.account, self.name, self.fifo = account, name, fifo
        self.sqs, self.dynamodb = account.client("sqs"), account.session.resource("dynamodb")
        self.requests = 0
        self.groups = collections.defaultdict(list)

    def template(self, folder):
        """Creates the project, and writes its changed template beside the function."""
        options = ["--effect", "dynamodb", *(["--fifo"] if self.fifo else [])]
        project = "verify-fifo" if self.fifo else "verify-orders"
        run(["cargo", "sqs-once", "new", project, *options], folder)
        text = (folder / project / "template.yaml").read_text()
        for before, after in CHANGES:
            text, hits = re.subn(f"{before}$", after, text, flags=re.MULTILINE)
            if not hits:
                raise Fault(f"the template of `cargo sqs-once new` has no `{before}`: this script is for another version")
        self.path = folder / f"{project}.yaml"
        self.path.write_text(text.replace("\nOutputs:\n", SUITE, 1))
        return project

    def deploy(self, bucket, architecture):
        run([
            "sam", "deploy", "--template-file", str(self.path), "--stack-name", self.name, "--region", self.account.region,
            "--s3-bucket", bucket, "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset", "--no-progressbar",
            "--tags", f"{TAG}={self.name}", "--parameter-overrides", f"Architecture={architecture}",
        ], self.path.parent)
        cloudformation = self.account.client("cloudformation")
        outputs = cloudformation.describe_stacks(StackName=self.name)["Stacks"][0]["Outputs"]
        self.outputs = {one["OutputKey"]: one["OutputValue"] for one in outputs}
        resources = cloudformation.describe_stack_resources(StackName=self.name)["StackResources"]
        self.ids = {one["LogicalResourceId"]: one["PhysicalResourceId"] for one in resources}

    def rows(self, name):
        pages = self.dynamodb.meta.client.get_paginator("scan").paginate(TableName=self.ids[name], ConsistentRead=True)
        return [row for page in pages for row in page["Items"]]

    def send(self, wave):
        for start in range(0, len(wave), 10):
            part, self.requests = wave[start : start + 10], self.requests + 1
            entries = [{"Id": str(place), "MessageBody": text} for place, (text, _) in enumerate(part)]
            for entry, (_, group) in zip(entries, part):
                entry |= {"MessageGroupId": group, "MessageDeduplicationId": secrets.token_hex(16)} if self.fifo else {}
            answer = self.sqs.send_message_batch(QueueUrl=self.outputs["QueueUrl"], Entries=entries)
            if failed := answer.get("Failed"):
                raise Fault(f"SQS refuses a message: {failed[0]['Code']}: {failed[0].get('Message')}")
            for sent in sorted(answer["Successful"], key=lambda sent: int(sent["Id"])):
                self.groups[part[int(sent["Id"])][1]].append(sent["MessageId"])

    def until_empty(self):
        """Waits until each message is handled, or in the dead-letter queue. The counts are approximate."""
        zeros, deadline = 0, time.monotonic() + EMPTY
        while zeros < 3:
            time.sleep(2)
            self.requests += 1
            names = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]
            counts = self.sqs.get_queue_attributes(QueueUrl=self.outputs["QueueUrl"], AttributeNames=names)["Attributes"]
            zeros = 0 if any(int(count) for count in counts.values()) else zeros + 1
            if time.monotonic() > deadline:
                raise Fault(f"the queue is not empty within {EMPTY} s: the function may be failing, see its log")

    def traffic(self, messages):
        """Sends all messages. Two articles refuse reservations, so that their orders fail when they commit."""
        first, second, third = messages.waves
        for article in ("stuck", "mended"):
            self.dynamodb.Table(self.ids["StockTable"]).put_item(Item={"article": article, "reserved": "no number"})
        note(f"{self.name}: sending {messages.count()} messages, and waiting for all retries")
        self.send(first)
        self.until_empty()
        self.send(second)
        time.sleep(VISIBILITY + 5)
        self.dynamodb.Table(self.ids["StockTable"]).delete_item(Key={"article": "mended"})
        self.send(third)
        self.until_empty()

    def dead(self, expected):
        """The bodies in the dead-letter queue, and how often each is there."""
        bodies, nothing = {}, 0
        # With fewer than expected, a longer look tells a loss from a delay.
        while nothing < (3 if len(bodies) >= expected else 30):
            self.requests += 1
            answer = self.sqs.receive_message(
                QueueUrl=self.outputs["DeadLetterQueueUrl"], MaxNumberOfMessages=10, VisibilityTimeout=900, WaitTimeSeconds=1
            )
            received = answer.get("Messages", [])
            bodies |= {message["MessageId"]: message["Body"] for message in received}
            nothing = 0 if received else nothing + 1
        return collections.Counter(bodies.values())

    def checks(self, messages):
        stock = {row["article"]: row["reserved"] for row in self.rows("StockTable") if row["article"] != "stuck"}
        orders = {row["order_id"]: (row["article"], row["pieces"]) for row in self.rows("OrdersTable")}
        completed = sum(row.get("status") == "COMPLETED" for row in self.rows("IdempotencyTable"))
        return judge(messages, orders, stock, completed, self.dead(len(messages.poison)))

    def cold_starts(self, count):
        """Replaces the function's environments: Lambda starts new ones after a change of a variable."""
        functions, name = self.account.client("lambda"), self.outputs["FunctionName"]
        variables = functions.get_function_configuration(FunctionName=name)["Environment"]["Variables"]
        for n in range(count):
            changed = {"Variables": {**variables, "COLD_START": str(n)}}
            functions.update_function_configuration(FunctionName=name, Environment=changed)
            functions.get_waiter("function_updated_v2").wait(FunctionName=name)
            functions.invoke(FunctionName=name, Payload=b'{"Records": []}')

    def logged(self):
        """Lambda's reports, and the lines of records: message ids with times and outcomes. Waits until all are there."""
        pages = self.account.client("logs").get_paginator("filter_log_events")
        sent, deadline = {message for group in self.groups.values() for message in group}, time.monotonic() + LAG
        while True:
            events = [event for page in pages.paginate(logGroupName=self.ids["FunctionLogGroup"]) for event in page["events"]]
            reports, lines = read(events)
            if sent <= {line[0] for line in lines} or time.monotonic() > deadline:
                return reports, lines
            time.sleep(5)


def read(events):
    """Lambda's reports and the lines of records among a log's events.

    >>> read([{"message": '{"message_id": "m1", "outcome": "processed"}', "timestamp": 2000}, {"message": "START"}])
    ([], [('m1', 2.0, 'processed')])
    """
    reports, lines = [], []
    for event in events:
        line = json.loads(event["message"]) if event["message"].startswith("{") else {}
        if line.get("type") == "platform.report":
            reports.append(line["record"]["metrics"])
        elif "message_id" in line and "outcome" in line:
            lines.append((line["message_id"], event["timestamp"] / 1000, line["outcome"]))
    return reports, lines


def run(command, folder):
    """Runs a command with its output on standard error. Its folder of builds is the project's own."""
    note(f"$ {' '.join(command)}")
    env = {name: value for name, value in os.environ.items() if name != "CARGO_TARGET_DIR"}
    try:
        status = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=sys.stderr, env=env).returncode
    except FileNotFoundError as error:
        raise Fault(f"{command[0]} is not installed") from error
    if status:
        raise Fault(f"`{' '.join(command[:3])}` failed with {status}: see its output above")


def build(args, folder, project):
    """Puts the function's executable where the templates expect it."""
    place = folder / "function" / "bootstrap"
    place.parent.mkdir()
    if args.bootstrap:
        shutil.copy(args.bootstrap, place)
    else:
        flag = "--arm64" if args.architecture == "arm64" else "--x86-64"
        run(["cargo", "lambda", "build", "--release", flag, "--lambda-dir", str(folder / "built")], folder / project)
        shutil.copy(folder / "built" / project / "bootstrap", place)
    place.chmod(0o755)


def consumed(account, stacks, since):
    """The units and bytes that CloudWatch counted. It lags by minutes."""
    time.sleep(LAG)
    cloudwatch, now = account.client("cloudwatch"), datetime.datetime.now(datetime.UTC)

    def sums(namespace, metric, dimension, values):
        options = {"StartTime": since, "EndTime": now, "Period": 300, "Statistics": ["Sum"], "Namespace": namespace}
        of = [[{"Name": dimension, "Value": value}] for value in values]
        found = [cloudwatch.get_metric_statistics(MetricName=metric, Dimensions=one, **options)["Datapoints"] for one in of]
        return sum(point["Sum"] for points in found for point in points) if any(found) else None

    tables = [identity for stack in stacks for name, identity in stack.ids.items() if name.endswith("Table")]
    return {
        "DynamoDB write units": sums("AWS/DynamoDB", "ConsumedWriteCapacityUnits", "TableName", tables),
        "DynamoDB read units": sums("AWS/DynamoDB", "ConsumedReadCapacityUnits", "TableName", tables),
        "bytes of log": sums("AWS/Logs", "IncomingBytes", "LogGroupName", [it.ids["FunctionLogGroup"] for it in stacks]),
    }


def dollars(usage, architecture):
    """The price of each known line."""
    prices = {**PRICES, "Lambda seconds billed": GB_SECOND[architecture] * MEMORY_MB / 1024}
    return {what: round(amount * prices[what], 6) for what, amount in usage.items() if amount is not None}


def row(name, times):
    """A row of a table of times: their count, median and 99th percentile.

    >>> row("x", range(1, 201)), row("x", [])
    ('| x | 200 | 100.0 ms | 198.0 ms |', '| x | 0 | not available | not available |')
    """
    times = sorted(times)
    shown = [f"{times[max(0, -(-len(times) * percent // 100) - 1)]:.1f} ms" if times else "not available" for percent in (50, 99)]
    return f"| {name} | {len(times)} | {' | '.join(shown)} |"


def report(args, facts, left):
    """The report in Markdown, without account ids."""
    stopped, checks = facts.get("stopped"), facts.get("checks", [])
    broken = [check for check in checks if not check[1]]
    verdict = ("The run stopped early." if stopped else "Not every promise was kept." if broken
               else "Something could not be deleted." if left else "Every promise was kept.")
    lines = ["# sqs-once on AWS", "", f"**{verdict}**", ""]
    lines += [f"It stopped because: {stopped}", ""] if stopped else []
    lines += [f"- in {args.region}, on {args.architecture}, at {facts['started']:%Y-%m-%dT%H:%M:%SZ}"]
    lines += [f"- {name} queue: {it.count()} messages: {len(it.orders)} orders, {it.copies} copies, {len(it.poison)} for the "
              f"dead-letter queue; {it.failing} fail and are delivered again" for name, it in facts["messages"].items()]
    lines += ["", "## Promises", ""]
    lines += [f"- {'kept' if kept else '**broken**'}: {promise} ({found})" for promise, kept, found in checks] or ["None was checked."]
    if not args.checkout:
        lines += ["", "The conformance suite did not run on a table: that needs `--checkout`."]
    lines += ["", "## Latency", "", "| | times | p50 | p99 |", "|---|---:|---:|---:|"]
    lines += [row(name, times) for name, times in facts.get("times", {}).items()]
    lines += ["", "## Cost", "", "At the prices of us-east-1, without a free tier.", "", "| | used | |", "|---|---:|---:|"]
    prices = dollars(facts["used"], args.architecture)
    lines += [f"| {what} | {facts['used'][what]:.0f} | ${prices[what]:.4f} |" if what in prices else
              f"| {what} | not available | |" for what in PRICES]
    lines += [f"| **sum of what is known** | | ${sum(prices.values()):.4f} |", ""]
    lines += ["The SQS requests are those of this script, without those of Lambda's pollers.", "", "## Deletion", ""]
    lines += [f"These are left: {'; '.join(left)}." if left else "Everything that the run made is deleted.", ""]
    return not (stopped or broken or left), re.sub(r"(?<!\d)\d{12}(?!\d)", "ACCOUNT", "\n".join(lines))


def steps(args, account, name, facts, folder):
    """Deploys, checks and measures. Leaves what it found in `facts`, also if it stops early."""
    standard, fifo = stacks = [Stack(account, f"{name}-standard", fifo=False), Stack(account, f"{name}-fifo", fifo=True)]
    project = standard.template(folder)
    fifo.template(folder)
    build(args, folder, project)
    bucket = account.bucket(name)
    for stack in stacks:
        stack.deploy(bucket, args.architecture)
    if args.checkout:
        facts["checks"].append(suite(args, standard.ids["SuiteTable"]))
    for stack, (kind, messages) in zip(stacks, facts["messages"].items()):
        stack.traffic(messages)
        facts["checks"] += [(f"{kind} queue: {promise}", *found) for promise, *found in stack.checks(messages)]
        facts["used"]["SQS requests"] = facts["used"].get("SQS requests", 0) + stack.requests
    standard.cold_starts(args.cold_starts)
    logs = [stack.logged() for stack in stacks]
    facts["checks"].append(judge_order(fifo.groups, logs[1][1]))
    reports = [report for found, _ in logs for report in found]
    facts["times"]["Lambda's duration of a batch"] = [it["durationMs"] for it in reports]
    facts["times"]["Lambda's start of an environment"] = [it["initDurationMs"] for it in reports if "initDurationMs" in it]
    if reports:
        facts["used"]["Lambda invocations"] = len(reports)
        facts["used"]["Lambda seconds billed"] = sum(it["billedDurationMs"] for it in reports) / 1000
    facts["used"] |= consumed(account, stacks, facts["started"])


def suite(args, table):
    """Runs the conformance suite of stores, of a checkout of sqs-once, on a table."""
    promise = "the table keeps every promise of the conformance suite"
    os.environ |= {"SQS_ONCE_CONFORMANCE_TABLE": table, "AWS_REGION": args.region}
    try:
        run(["cargo", "test", "-p", "sqs-once-operate", "--test", "all", "conformance", "--", "--ignored"], args.checkout)
    except Fault as fault:
        return promise, False, str(fault)
    return promise, True, "all cases"


def arguments():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="A run that was killed deletes nothing. --clean deletes what is left, by names and tags.",
    )
    add = parser.add_argument
    add("--region", required=True, help="the region, such as eu-central-1")
    add("--messages", type=int, default=10_000, help=f"messages to the standard queue, at least {FEWEST} [10000]")
    add("--fifo-messages", type=int, default=500, help=f"messages to the FIFO queue, at least {FEWEST} [500]")
    add("--architecture", choices=sorted(GB_SECOND), default="arm64", help="the processor of the function [arm64]")
    add("--bootstrap", type=Path, metavar="FILE", help="the executable of such a project, built already")
    add("--checkout", type=Path, metavar="FOLDER", help="a checkout of sqs-once, to run the conformance suite on a table")
    add("--cold-starts", type=int, default=5, metavar="TIMES", help="how often to start the function cold [5]")
    add("--report", type=Path, default=Path("verify-aws-report.md"), metavar="FILE", help="the report [verify-aws-report.md]")
    add("--yes", action="store_true", help="don't ask")
    add("--clean", action="store_true", help="delete what earlier runs left, and do nothing else")
    args = parser.parse_args()
    for path in filter(None, (args.bootstrap, args.checkout)):
        if not path.exists():
            parser.error(f"{path} does not exist")
    return args


def ask(question, yes):
    if not yes and input(f"{question} [y/N] ").strip().lower() not in ("y", "yes"):
        raise Fault("nothing was changed")


def clean(account, yes):
    if not (stacks := account.stacks()):
        return print(f"earlier runs left nothing in {account.region}")
    ask(f"Delete the stacks {', '.join(stacks)} in {account.region}, account {account.id}?", yes)
    if left := account.delete(stacks):
        raise Fault(f"these are left: {'; '.join(left)}")
    print(f"deleted {len(stacks)} stacks")


def verify(args, account):
    """Runs everything, and deletes what was made in any case. Returns whether all is well."""
    messages = {"standard": make_messages(args.messages, fifo=False), "FIFO": make_messages(args.fifo_messages, fifo=True)}
    count = sum(it.count() for it in messages.values())
    note(f"This makes 2 stacks, each with 2 queues, 4 tables and a function, and a bucket, and deletes them at the end. It "
         f"sends {count} messages, and takes half an hour. It costs about ${count * DOLLARS_A_MESSAGE:.2f} at the prices of "
         "us-east-1 without a free tier.")
    if others := account.stacks():
        note(f"Other runs left something, or are not done: {', '.join(others)}. If they have ended, --clean deletes it.")
    ask(f"Create all this in {args.region}, account {account.id}?", args.yes)
    name = f"{TAG}-{secrets.token_hex(6)}"
    facts = {"started": datetime.datetime.now(datetime.UTC), "messages": messages, "checks": [], "times": {}, "used": {}}
    try:
        with tempfile.TemporaryDirectory(prefix=TAG) as folder:
            steps(args, account, name, facts, Path(folder).resolve())
    except (Fault, BotoCoreError, ClientError, KeyboardInterrupt) as error:
        facts["stopped"] = str(error) or "interrupted"
    finally:
        note("deleting everything; press Ctrl-C to leave it there")
        left = account.delete(account.stacks(name))
    is_good, text = report(args, facts, left)
    args.report.write_text(text)
    print(text)
    return is_good


def main():
    args = arguments()
    try:
        account = Account(args.region)
        return clean(account, args.yes) if args.clean else not verify(args, account)
    except (Fault, BotoCoreError, ClientError, KeyboardInterrupt, EOFError) as error:
        note(f"error: {str(error) or 'interrupted'}")
        return 1


if __name__ == "__main__":
    sys.exit(main())
