"""Transforms the templates like AWS, lints the results, and checks what linters miss."""

import json
import re
import subprocess

import samtranslator.translator.transform as sam
from samcli.yamlhelper import yaml_parse

from local import AWS_ENV, OUT, ROOT


class NoManagedPolicies:
    """A loader without policies. The templates' roles are explicit, so the transformation needs no AWS policies."""

    def load(self):
        return {}


def transform(path="template.yaml"):
    """Transforms one of our SAM templates into a CloudFormation template."""
    template = yaml_parse((ROOT / path).read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            # `sam package` would upload it first.
            resource["Properties"]["CodeUri"] = "s3://bucket/function.zip"
        elif resource["Type"] == "AWS::Serverless::LayerVersion":
            resource["Properties"]["ContentUri"] = "s3://bucket/layer.zip"
    return sam.transform(template, {"AWS::Region": AWS_ENV["AWS_REGION"]}, NoManagedPolicies())


def of_type(template, kind):
    """The properties of all resources of a type, by logical id."""
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == f"AWS::{kind}"
    }


def only(template, kind):
    """The logical id and the properties of the only resource of a type."""
    ((name, properties),) = of_type(template, kind).items()
    return name, properties


def check_inventory(template):
    """The role allows only these actions on these resources, and nobody deletes the data by mistake."""
    check_kept(template)
    outbox = of_type(template, "DynamoDB::Table")["OutboxTable"]
    assert outbox["StreamSpecification"] == {"StreamViewType": "NEW_IMAGE"}
    put = {"dynamodb:PutItem"}
    assert granted(template) == {
        arn("IdempotencyTable"): {"dynamodb:UpdateItem", "dynamodb:BatchGetItem"},
        arn("OrdersTable"): put,
        arn("OutboxTable"): put,
        arn("StockTable"): {"dynamodb:UpdateItem"},
        **polled(template),
    }, granted(template)


def check_kept(template):
    """Checks what the doctor's rules leave out: tables and dead letters survive a deleted stack."""
    kept = [name for name, queue in of_type(template, "SQS::Queue").items() if "RedrivePolicy" not in queue]
    for name, table in of_type(template, "DynamoDB::Table").items():
        assert table["BillingMode"] == "PAY_PER_REQUEST", name
        kept.append(name)
    keys = of_type(template, "DynamoDB::Table").get("IdempotencyTable")
    assert not keys or keys["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    for name in kept:
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            assert template["Resources"][name].get(policy) == "Retain", f"{name} must have {policy}: Retain"


def polled(template):
    """What a role needs to poll a queue, to send its dead letters, and to log."""
    queues = of_type(template, "SQS::Queue")
    group, _ = only(template, "Logs::LogGroup")
    (queue,) = (name for name, it in queues.items() if "RedrivePolicy" in it)
    (dlq,) = queues.keys() - {queue}
    return {arn(queue): POLLING, arn(dlq): {"sqs:SendMessage"}, arn(group): {"logs:CreateLogStream", "logs:PutLogEvents"}}


POLLING = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"}


def granted(template):
    """The actions that the role allows, by resource."""
    _, role = only(template, "IAM::Role")
    actions = {}
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            for target in as_list(statement["Resource"]):
                actions.setdefault(json.dumps(target), set()).update(as_list(statement["Action"]))
    return actions


def check_orders(template):
    """The role allows only these actions on these resources, and the alarms and the dashboard show these metrics."""
    check_kept(template)
    table, _ = only(template, "DynamoDB::Table")
    assert granted(template) == {
        arn(table): {"dynamodb:PartiQLInsert", "dynamodb:PartiQLUpdate", "dynamodb:UpdateItem", "dynamodb:BatchGetItem"},
        '"*"': {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
        **polled(template),
    }, granted(template)
    alarmed = {alarm.get("MetricName") for alarm in of_type(template, "CloudWatch::Alarm").values()}
    assert {"ApproximateNumberOfMessagesVisible", "ApproximateAgeOfOldestMessage", "Throttles"} <= alarmed, alarmed
    expected = {"Processed", "Failed", "Terminal", "LeaseLost", "PayloadMismatch", "StoreErrors", "Duplicates", "BreakerOpened"}
    assert expected <= check_own_metrics(template)


def check_own_metrics(template):
    """Checks that the function writes our metrics in the alarms and the dashboard. Returns the alarms' metrics."""
    _, function = only(template, "Lambda::Function")
    service = function["Environment"]["Variables"]["SQS_ONCE_SERVICE"]
    alarmed = set()
    for alarm in of_type(template, "CloudWatch::Alarm").values():
        metrics = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
        for metric in metrics or [alarm]:
            if metric["Namespace"] == "sqs-once":
                assert metric["Dimensions"] == [{"Name": "service", "Value": service}], metric
                alarmed.add(metric["MetricName"])
    (silence,) = [a for a in of_type(template, "CloudWatch::Alarm").values() if a.get("MetricName") == "StoreErrors"]
    (queue,) = [q for q in of_type(template, "SQS::Queue").values() if "RedrivePolicy" in q]
    needed, seen = silence["DatapointsToAlarm"], silence["Period"] * silence["EvaluationPeriods"]
    # A single message causes one request to the table per delivery.
    assert needed <= queue["RedrivePolicy"]["maxReceiveCount"], "one message alone would be dead before the alarm"
    assert (needed - 1) * queue["VisibilityTimeout"] < seen, "its deliveries are too far apart for the alarm"
    check_failures_alarm(of_type(template, "CloudWatch::Alarm")["EverythingFailsAlarm"], queue)
    _, dashboard = only(template, "CloudWatch::Dashboard")
    text, names = dashboard["DashboardBody"]["Fn::Sub"]
    assert names["Service"] == service
    widgets = json.loads(text)["widgets"]
    shown = {
        (namespace, metric, dimension, value)
        for widget in widgets
        if widget["type"] == "metric"
        for namespace, metric, dimension, value in written_out(widget["properties"]["metrics"])
    }
    ours = {metric for namespace, metric, *rest in shown if namespace == "sqs-once" and rest == ["service", "${Service}"]}
    assert len(ours) == sum(namespace == "sqs-once" for namespace, *_ in shown), shown
    assert alarmed | ours <= set(documented_metrics()), (alarmed | ours) - set(documented_metrics())
    used = set(re.findall(r"\$\{(\w+)\}", text))
    assert used == set(names), f"the dashboard uses {used}, and is given {set(names)}"
    return alarmed


def check_failures_alarm(alarm, queue):
    """Checks that the alarm fires while every record fails or every process dies, before the first record is dead."""
    result, *metrics = alarm["Metrics"]
    (period,) = {metric["MetricStat"]["Period"] for metric in metrics}
    seconds = period * alarm["EvaluationPeriods"]
    assert queue["VisibilityTimeout"] <= period, "a period can be without a delivery"
    assert seconds < queue["RedrivePolicy"]["maxReceiveCount"] * queue["VisibilityTimeout"]
    assert (alarm["ComparisonOperator"], alarm["TreatMissingData"]) == ("GreaterThanThreshold", "notBreaching")

    def fires(**values):
        # CloudWatch counts a missing metric as 0, and drops a division by zero.
        try:
            return eval(result["Expression"], {metric["Id"]: 0 for metric in metrics} | values) > alarm["Threshold"]
        except ZeroDivisionError:
            return False

    assert fires(failed=1) and fires(terminal=1) and fires(errors=1) and fires(failed=7, terminal=2, errors=1)
    assert not fires() and not fires(processed=1) and not fires(processed=1, failed=9, terminal=9, errors=9)


def documented_metrics():
    """The unit of every metric in docs/metrics.md, by name."""
    rows = re.findall(r"^\| (`.+?) \| (\w+) \|", (ROOT / "docs" / "metrics.md").read_text(), re.MULTILINE)
    return {name: unit for names, unit in rows for name in re.findall(r"`(\w+)`", names)}


def written_out(metrics):
    """A widget's metrics, with each `.` and `...` replaced by the values of the previous metric."""
    before = []
    for metric in metrics:
        names = [part for part in metric if isinstance(part, str)]
        if names[:1] == ["..."]:
            names = before[: len(before) - len(names) + 1] + names[1:]
        names = [before[place] if name == "." else name for place, name in enumerate(names)]
        if names:
            yield names
            before = names


def as_list(value):
    return value if isinstance(value, list) else [value]


def arn(name, attribute="Arn"):
    return json.dumps({"Fn::GetAtt": [name, attribute]})


def main():
    for path, name, check in (
        ("template.yaml", "template", check_orders),
        ("examples/inventory/template.yaml", "inventory", check_inventory),
    ):
        template = transform(path)
        transformed = OUT / f"{name}.transformed.json"
        transformed.write_text(json.dumps(template, indent=2))
        subprocess.run(["cfn-lint", "--regions", AWS_ENV["AWS_REGION"], "--", str(transformed)], check=True)
        check(template)
        print(f"{path}: {len(template['Resources'])} resources, as they should be")


if __name__ == "__main__":
    main()
