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
    """Checks the promises of the inventory's deployment, including those of `check_both`."""
    table_name, queue_name, dlq_name, group_name = check_both(template, "IdempotencyTable")
    tables = of_type(template, "DynamoDB::Table")
    assert tables["OutboxTable"]["TimeToLiveSpecification"] == {"AttributeName": "expires_at", "Enabled": True}
    assert tables["OutboxTable"]["StreamSpecification"] == {"StreamViewType": "NEW_IMAGE"}
    put = {"dynamodb:PutItem"}
    assert granted(template) == {
        arn(table_name): {"dynamodb:UpdateItem", "dynamodb:BatchGetItem"},
        arn("OrdersTable"): put,
        arn("OutboxTable"): put,
        arn("StockTable"): {"dynamodb:UpdateItem"},
        arn(queue_name): POLLING,
        arn(dlq_name): {"sqs:SendMessage"},
        arn(group_name): {"logs:CreateLogStream", "logs:PutLogEvents"},
    }, granted(template)


def check_both(template, table_name):
    """Checks the promises of both deployments, one per line."""
    resources = template["Resources"]
    function_name, function = only(template, "Lambda::Function")
    _, mapping = only(template, "Lambda::EventSourceMapping")
    table = of_type(template, "DynamoDB::Table")[table_name]
    role_name, role = only(template, "IAM::Role")
    group_name, group = only(template, "Logs::LogGroup")
    queues = of_type(template, "SQS::Queue")
    assert len(queues) == 2, f"a source queue and a dead-letter queue, not {list(queues)}"
    ((queue_name, queue),) = ((name, queue) for name, queue in queues.items() if "RedrivePolicy" in queue)
    ((dlq_name, dlq),) = ((name, queue) for name, queue in queues.items() if "RedrivePolicy" not in queue)

    # The function.
    assert function["Runtime"] == "provided.al2023"
    assert function["Role"] == {"Fn::GetAtt": [role_name, "Arn"]}
    assert function["LoggingConfig"]["LogFormat"] == "JSON"
    assert function["LoggingConfig"]["LogGroup"] == {"Ref": group_name}
    assert "ReservedConcurrentExecutions" not in function, "throttled deliveries count towards the dead-letter queue"
    variables = function["Environment"]["Variables"]
    assert variables["SQS_ONCE_TABLE"] == {"Ref": table_name}
    assert variables["SQS_ONCE_DLQ_URL"] == {"Ref": dlq_name}

    # The event source mapping.
    assert mapping["EventSourceArn"] == {"Fn::GetAtt": [queue_name, "Arn"]}
    assert mapping["FunctionName"] == {"Ref": function_name}
    assert mapping["FunctionResponseTypes"] == ["ReportBatchItemFailures"]
    assert 1 <= mapping["BatchSize"] <= 10_000
    window = mapping["MaximumBatchingWindowInSeconds"]
    assert mapping["BatchSize"] <= 10 or window >= 1, "more than 10 records a batch need a batching window"
    assert 2 <= mapping["ScalingConfig"]["MaximumConcurrency"] <= 1000

    # The queues.
    assert queue["VisibilityTimeout"] >= 6 * function["Timeout"] + window
    assert queue["RedrivePolicy"]["deadLetterTargetArn"] == {"Fn::GetAtt": [dlq_name, "Arn"]}
    assert queue["RedrivePolicy"]["maxReceiveCount"] == 5
    assert dlq["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["MessageRetentionPeriod"] < dlq["MessageRetentionPeriod"]
    assert all(queue["SqsManagedSseEnabled"] is True for queue in queues.values())
    check_transport(template)

    # The tables.
    assert table["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert table["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "S"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiration", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    for name, one in of_type(template, "DynamoDB::Table").items():
        assert one["BillingMode"] == "PAY_PER_REQUEST", name
        assert one["DeletionProtectionEnabled"] is True, name
    for name in (*of_type(template, "DynamoDB::Table"), dlq_name):
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            assert resources[name].get(policy) == "Retain", f"{name} must have {policy}: Retain"

    assert "ManagedPolicyArns" not in role
    assert group["RetentionInDays"] > 0
    return table_name, queue_name, dlq_name, group_name


def check_transport(template):
    """Checks that each queue denies unencrypted requests. Returns the policy's other statements."""
    names = list(of_type(template, "SQS::Queue"))
    policy = only(template, "SQS::QueuePolicy")[1]
    assert policy["Queues"] == [{"Ref": name} for name in names]
    denied, *others = policy["PolicyDocument"]["Statement"]
    assert (denied["Effect"], denied["Principal"], denied["Action"]) == ("Deny", "*", "sqs:*")
    assert denied["Resource"] == [{"Fn::GetAtt": [name, "Arn"]} for name in names]
    assert denied["Condition"] == {"Bool": {"aws:SecureTransport": "false"}}
    return others


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
    """Checks the promises of the orders' deployment, including those of `check_both`."""
    only_table, _ = only(template, "DynamoDB::Table")
    table_name, queue_name, dlq_name, group_name = check_both(template, only_table)
    function_name, function = only(template, "Lambda::Function")
    assert function["Architectures"] == [{"Ref": "Architecture"}]
    assert template["Parameters"]["Architecture"]["Default"] == "arm64"
    assert function["TracingConfig"] == {"Mode": "Active"}
    queues = of_type(template, "SQS::Queue")
    queue, dlq = queues[queue_name], queues[dlq_name]
    assert dlq["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    (source,) = dlq["RedriveAllowPolicy"]["sourceQueueArns"]
    name_in_arn = source["Fn::Sub"].rpartition(":sqs:${AWS::Region}:${AWS::AccountId}:")[2]
    assert queue["QueueName"] == {"Fn::Sub": name_in_arn}, "the redrive policy names another queue"

    # The role allows only these actions on these resources.
    assert granted(template) == {
        arn(table_name): {
            "dynamodb:PartiQLInsert",
            "dynamodb:PartiQLUpdate",
            "dynamodb:UpdateItem",
            "dynamodb:BatchGetItem",
        },
        arn(queue_name): POLLING,
        arn(dlq_name): {"sqs:SendMessage"},
        arn(group_name): {"logs:CreateLogStream", "logs:PutLogEvents"},
        '"*"': {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
    }, granted(template)

    # Monitoring.
    alarms = {
        (alarm["Namespace"], alarm["MetricName"], json.dumps(alarm["Dimensions"][0]["Value"])): alarm
        for alarm in of_type(template, "CloudWatch::Alarm").values()
        if "MetricName" in alarm
    }
    dead = alarms["AWS/SQS", "ApproximateNumberOfMessagesVisible", arn(dlq_name, "QueueName")]
    assert (dead["ComparisonOperator"], dead["Threshold"]) == ("GreaterThanThreshold", 0)
    assert ("AWS/SQS", "ApproximateAgeOfOldestMessage", arn(queue_name, "QueueName")) in alarms
    assert ("AWS/Lambda", "Throttles", json.dumps({"Ref": function_name})) in alarms
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
