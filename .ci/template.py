"""Transforms the templates like AWS, lints the results, and checks what linters miss."""

import json
import re
import subprocess
from types import SimpleNamespace

import samtranslator.translator.transform as sam
from samcli.yamlhelper import yaml_parse

from local import AWS_ENV, OUT, ROOT


def transform(path="template.yaml"):
    """Transforms one of our SAM templates into a CloudFormation template."""
    template = yaml_parse((ROOT / path).read_text())
    for resource in template["Resources"].values():
        # `sam package` would upload them first.
        for name in {"CodeUri", "ContentUri"} & resource["Properties"].keys():
            resource["Properties"][name] = "s3://bucket/file.zip"
    # The templates' roles are explicit, so the transformation needs no AWS policies.
    return sam.transform(template, {"AWS::Region": AWS_ENV["AWS_REGION"]}, SimpleNamespace(load=dict))


def of_type(template, kind):
    """The properties of all resources of a type, by logical id."""
    return {name: it["Properties"] for name, it in template["Resources"].items() if it["Type"] == f"AWS::{kind}"}


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


def check_kept(template):
    """Checks what the doctor's rules leave out: tables and dead letters survive a deleted stack."""
    tables = of_type(template, "DynamoDB::Table")
    assert {table["BillingMode"] for table in tables.values()} <= {"PAY_PER_REQUEST"}
    keys = tables.get("IdempotencyTable")
    assert not keys or keys["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    dead_letters = [name for name, queue in of_type(template, "SQS::Queue").items() if "RedrivePolicy" not in queue]
    for name in [*tables, *dead_letters]:
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            assert template["Resources"][name].get(policy) == "Retain", f"{name} must have {policy}: Retain"


def source(template):
    """The logical id and the properties of the queue that the function polls."""
    ((name, queue),) = [(name, it) for name, it in of_type(template, "SQS::Queue").items() if "RedrivePolicy" in it]
    return name, queue


def polled(template):
    """What a role needs to poll a queue, to send its dead letters, and to log."""
    queue, _ = source(template)
    (dlq,) = of_type(template, "SQS::Queue").keys() - {queue}
    polling = {"sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes", "sqs:ChangeMessageVisibility"}
    logging = {"logs:CreateLogStream", "logs:PutLogEvents"}
    return {arn(queue): polling, arn(dlq): {"sqs:SendMessage"}, arn(only(template, "Logs::LogGroup")[0]): logging}


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


def check_own_metrics(template):
    """Checks that the function writes our metrics in the alarms and the dashboard. Returns the alarms' metrics."""
    service = only(template, "Lambda::Function")[1]["Environment"]["Variables"]["SQS_ONCE_SERVICE"]
    alarms = of_type(template, "CloudWatch::Alarm")
    alarmed = set()
    for alarm in alarms.values():
        metrics = [query["MetricStat"]["Metric"] for query in alarm.get("Metrics", []) if "MetricStat" in query]
        for metric in metrics or [alarm]:
            if metric["Namespace"] == "sqs-once":
                assert metric["Dimensions"] == [{"Name": "service", "Value": service}], metric
                alarmed.add(metric["MetricName"])
    check_thresholds(alarms, source(template)[1])
    text, names = only(template, "CloudWatch::Dashboard")[1]["DashboardBody"]["Fn::Sub"]
    assert names["Service"] == service
    used = set(re.findall(r"\$\{(\w+)\}", text))
    assert used == set(names), f"the dashboard uses {used}, and is given {set(names)}"
    widgets = [widget["properties"] for widget in json.loads(text)["widgets"] if widget["type"] == "metric"]
    ours = [names for widget in widgets for names in written_out(widget["metrics"]) if names[0] == "sqs-once"]
    assert all(names[2:] == ["service", "${Service}"] for names in ours), ours
    unknown = alarmed.union(names[1] for names in ours) - documented_metrics().keys()
    assert not unknown, unknown
    return alarmed


def check_thresholds(alarms, queue):
    """Checks that two alarms fire before the first record is dead: on errors of the store, and while every record fails
    or every process dies."""
    (silence,) = [alarm for alarm in alarms.values() if alarm.get("MetricName") == "StoreErrors"]
    receives, invisible = queue["RedrivePolicy"]["maxReceiveCount"], queue["VisibilityTimeout"]
    check_silence(silence["DatapointsToAlarm"], silence["Period"] * silence["EvaluationPeriods"], receives, invisible)
    # CDK adds to the names.
    (failures,) = [alarm for name, alarm in alarms.items() if "EverythingFailsAlarm" in name]
    result, *metrics = failures["Metrics"]
    (period,) = {metric["MetricStat"]["Period"] for metric in metrics}
    assert invisible <= period, "a period can be without a delivery"
    assert period * failures["EvaluationPeriods"] < receives * invisible
    assert (failures["ComparisonOperator"], failures["TreatMissingData"]) == ("GreaterThanThreshold", "notBreaching")

    def fires(**values):
        # CloudWatch counts a missing metric as 0, and drops a division by zero.
        try:
            return eval(result["Expression"], {metric["Id"]: 0 for metric in metrics} | values) > failures["Threshold"]
        except ZeroDivisionError:
            return False

    assert fires(failed=1) and fires(terminal=1) and fires(errors=1) and fires(failed=7, terminal=2, errors=1)
    assert not fires() and not fires(processed=1) and not fires(processed=1, failed=9, terminal=9, errors=9)


def check_silence(needed, seen, receives, invisible):
    """Checks that the alarm on errors of the store fires before a single message is dead, which causes one request to the
    table per delivery."""
    assert needed <= receives, "one message alone would be dead before the alarm"
    assert (needed - 1) * invisible < seen, "its deliveries are too far apart for the alarm"


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
