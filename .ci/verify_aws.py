"""Runs `cargo sqs-once verify-aws` on stand-ins for AWS and DynamoDB: to its end, interrupted, and killed. Each time,
everything that it created is deleted, and nothing else."""

import contextlib
import os
import platform
import re
import signal
import subprocess
import threading
import zipfile

import boto3
from botocore.exceptions import ClientError

from local import AWS_ENV, OUT, aws, built
from new import FOLDER, run

# The project that the command would build with cargo-lambda. `.ci/new.py` has created and tested it.
PROJECT = "new-standard-sqs-dynamodb"
MESSAGES = 300
PREFIX = "sqs-once-verify-"
# Resources of another owner, one with a name that a run could have given.
OTHERS = ("orders", PREFIX + "0123abcd")


def bootstrap():
    """Builds the function for this machine, and zips it as cargo-lambda does. Returns the zip's path."""
    run(["cargo", "build", "--quiet", f"--package={PROJECT}"])
    path = OUT / "bootstrap.zip"
    entry = zipfile.ZipInfo("bootstrap")
    entry.external_attr = 0o755 << 16
    entry.compress_type = zipfile.ZIP_DEFLATED
    with zipfile.ZipFile(path, "w", compresslevel=1) as file:
        file.writestr(entry, (FOLDER / "target" / "debug" / PROJECT).read_bytes())
    return path


class Account:
    """The stand-in's resources."""

    def __init__(self, cloud, dynamodb):
        self.cloud, self.dynamodb = cloud, dynamodb
        names = ("sqs", "iam", "lambda", "logs")
        self.sqs, self.iam, self.functions, self.logs = (cloud.client(name) for name in names)

    def names(self):
        """The names of all resources of the kinds that the command creates."""
        queues = self.sqs.list_queues().get("QueueUrls", [])
        return sorted(
            [f"table {name}" for name in self.dynamodb.list_tables()["TableNames"]]
            + [f"queue {url.rsplit('/')[-1]}" for url in queues]
            + [f"role {role['RoleName']}" for role in self.iam.list_roles()["Roles"]]
            + [f"function {one['FunctionName']}" for one in self.functions.list_functions()["Functions"]]
            + [f"mapping {one['UUID']}" for one in self.functions.list_event_source_mappings()["EventSourceMappings"]]
            + [f"log group {group['logGroupName']}" for group in self.logs.describe_log_groups()["logGroups"]]
        )

    def add_others(self):
        """Creates resources that no run may touch. Some have the names of a run but not its tag."""
        for name in OTHERS:
            self.sqs.create_queue(QueueName=name)
            self.logs.create_log_group(logGroupName=f"/aws/lambda/{name}")
            self.iam.create_role(RoleName=name, Path="/sqs-once-verify/", AssumeRolePolicyDocument="{}")
            self.dynamodb.create_table(
                TableName=name,
                KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
                AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
                BillingMode="PAY_PER_REQUEST",
            )

    def deliver_again_at_once(self, stop):
        """Shortens the visibility timeout of a run's queue as soon as the first messages are handled. Only the second ones
        are retried, and the run would wait a minute each time."""
        while not stop.wait(0.5):
            for url in self.sqs.list_queues(QueueNamePrefix=PREFIX).get("QueueUrls", []):
                prefix = url.rsplit("/")[-1]
                # The queue, or the table of orders, may not exist yet or any more.
                with contextlib.suppress(ClientError):
                    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
                    counts = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
                    orders = self.dynamodb.scan(TableName=f"{prefix}-orders", Limit=1)["Count"]
                    if orders and not any(map(int, counts.values())):
                        self.sqs.set_queue_attributes(QueueUrl=url, Attributes={"VisibilityTimeout": "1"})


class Command:
    """The command as a user runs it, apart from the function, which is built already."""

    def __init__(self, env, zipped):
        machine = platform.machine().replace("aarch64", "arm64")
        options = [f"--zip={zipped}", f"--architecture={machine}", "--cold-starts=2", "--metrics-timeout=0s"]
        self._command, self._env = [built("cargo-sqs-once"), "verify-aws", "--yes"], env
        self._options = options

    def start(self, *options, report):
        command = [*self._command, *self._options, f"--messages={MESSAGES}", f"--report={report}", *options]
        return subprocess.Popen(command, env={**os.environ, **self._env}, stderr=subprocess.PIPE, text=True)

    def clean(self):
        """Runs `--clean`, and returns what it says."""
        command = [*self._command, "--clean"]
        return subprocess.run(command, env={**os.environ, **self._env}, stdout=subprocess.PIPE, check=True, text=True).stdout


def reach(child, text):
    """Shows the command's notes until one contains `text`."""
    for line in child.stderr:
        print(line, end="", flush=True)
        if text in line:
            return
    raise SystemExit(f"the command ended with {child.wait()} before {text!r}")


def end(child):
    """Shows the rest of the command's notes, and returns them with its exit status."""
    rest = child.stderr.read()
    print(rest, end="", flush=True)
    return child.wait(), rest


def complete(command, account, before):
    """A complete run keeps every promise, writes the report and leaves nothing."""
    stop = threading.Event()
    impatient = threading.Thread(target=account.deliver_again_at_once, args=[stop])
    impatient.start()
    report = OUT / "verify-aws-report.md"
    report.unlink(missing_ok=True)
    try:
        status, _ = end(command.start(report=report))
    finally:
        stop.set()
        impatient.join()
    text = report.read_text()
    assert status == 0, text
    assert "**Every promise was kept.**" in text
    assert text.count("- kept: ") == 5
    assert f"- {MESSAGES} messages: " in text
    assert "Init Duration` that Lambda reports: not available" in text, "the stand-in reports none"
    assert not re.search(r"\b\d{12}\b", text), "an account id"
    assert account.names() == before, account.names()
    print("a complete run leaves nothing")


def interrupted(command, account, before, at):
    """After Ctrl-C, a run deletes what it has created so far, and nothing else."""
    report = OUT / "interrupted.md"
    child = command.start(report=report)
    reach(child, at)
    child.send_signal(signal.SIGINT)
    status, said = end(child)
    assert status == 1 and "error: interrupted" in said, (status, said)
    assert not report.exists()
    assert account.names() == before, account.names()
    print(f"a run that is interrupted at {at!r} leaves nothing")


def killed(command, account, before):
    """`--clean` finds what a killed run left, by names and tags, and deletes nothing else."""
    child = command.start(report=OUT / "killed.md")
    reach(child, "testing the store")
    child.kill()
    child.wait()
    left = set(account.names()) - set(before)
    kinds = {name.rsplit(" ", 1)[0] for name in left}
    assert kinds == {"table", "queue", "role", "log group", "function", "mapping"}, left
    said = command.clean()
    assert said == "deleted 9 resources\n", said
    assert account.names() == before, account.names()
    assert command.clean() == "earlier runs left nothing in us-east-1\n"
    print("what a killed run left is found and deleted")


def main():
    with contextlib.ExitStack() as stack:
        # The example serves a DynamoDB on loopback until its input ends.
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        table = stack.enter_context(subprocess.Popen([built("examples/shared_table")], env=AWS_ENV, **pipes))
        stack.callback(table.stdin.close)
        endpoint = table.stdout.readline().strip()
        # Functions inherit it.
        os.environ["AWS_ENDPOINT_URL_DYNAMODB"] = endpoint
        cloud = stack.enter_context(aws(OUT / "verify-aws.log"))
        account = Account(cloud, boto3.client("dynamodb", endpoint_url=endpoint))
        account.add_others()
        before = account.names()
        command = Command(cloud.env, bootstrap())
        complete(command, account, before)
        interrupted(command, account, before, "creating the tables")
        interrupted(command, account, before, "testing the store")
        killed(command, account, before)


if __name__ == "__main__":
    main()
