"""Transforms template.yaml as AWS would, lints the result, and asserts what linters overlook."""

import json
import subprocess

import samtranslator.translator.transform as sam
from samcli.yamlhelper import yaml_parse

from local import AWS_ENV, OUT, ROOT


class NoManagedPolicies:
    """The template's role is explicit, so the transformation has no AWS policy to look up."""

    def load(self):
        return {}


def transform():
    """The CloudFormation template that SAM makes of template.yaml, as resources by logical id."""
    template = yaml_parse((ROOT / "template.yaml").read_text())
    for resource in template["Resources"].values():
        if resource["Type"] == "AWS::Serverless::Function":
            # `sam package` would have uploaded it.
            resource["Properties"]["CodeUri"] = "s3://bucket/orders.zip"
    return sam.transform(template, {"AWS::Region": AWS_ENV["AWS_REGION"]}, NoManagedPolicies())


def of_type(template, kind):
    """The properties of all resources of a type, by logical id."""
    return {
        name: resource["Properties"]
        for name, resource in template["Resources"].items()
        if resource["Type"] == f"AWS::{kind}"
    }


def only(template, kind):
    """The one resource of a type."""
    ((name, properties),) = of_type(template, kind).items()
    return name, properties


def check(template):
    """Asserts the deployment's promises, one a line."""
    resources = template["Resources"]
    function_name, function = only(template, "Lambda::Function")
    _, mapping = only(template, "Lambda::EventSourceMapping")
    table_name, table = only(template, "DynamoDB::Table")
    role_name, role = only(template, "IAM::Role")
    group_name, group = only(template, "Logs::LogGroup")
    queues = of_type(template, "SQS::Queue")
    assert len(queues) == 2, f"a source queue and a dead-letter queue, not {list(queues)}"
    ((queue_name, queue),) = ((name, queue) for name, queue in queues.items() if "RedrivePolicy" in queue)
    ((dlq_name, dlq),) = ((name, queue) for name, queue in queues.items() if "RedrivePolicy" not in queue)

    # The function.
    assert function["Runtime"] == "provided.al2023"
    assert function["Architectures"] == [{"Ref": "Architecture"}]
    assert template["Parameters"]["Architecture"]["Default"] == "arm64"
    assert function["Role"] == {"Fn::GetAtt": [role_name, "Arn"]}
    assert function["TracingConfig"] == {"Mode": "Active"}
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
    assert dlq["RedriveAllowPolicy"]["redrivePermission"] == "byQueue"
    (source,) = dlq["RedriveAllowPolicy"]["sourceQueueArns"]
    name_in_arn = source["Fn::Sub"].rpartition(":sqs:${AWS::Region}:${AWS::AccountId}:")[2]
    assert queue["QueueName"] == {"Fn::Sub": name_in_arn}, "the redrive policy names another queue"
    assert dlq["MessageRetentionPeriod"] == 14 * 24 * 3600
    assert queue["MessageRetentionPeriod"] < dlq["MessageRetentionPeriod"]
    assert all(queue["SqsManagedSseEnabled"] is True for queue in queues.values())

    # The table.
    assert table["BillingMode"] == "PAY_PER_REQUEST"
    assert table["KeySchema"] == [{"AttributeName": "id", "KeyType": "HASH"}]
    assert table["AttributeDefinitions"] == [{"AttributeName": "id", "AttributeType": "S"}]
    assert table["TimeToLiveSpecification"] == {"AttributeName": "expiration", "Enabled": True}
    assert table["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}
    for name in (table_name, dlq_name):
        for policy in ("DeletionPolicy", "UpdateReplacePolicy"):
            assert resources[name].get(policy) == "Retain", f"{name} must have {policy}: Retain"

    # The role: these actions on these resources, and nothing else.
    assert "ManagedPolicyArns" not in role
    granted = {}
    for policy in role["Policies"]:
        for statement in policy["PolicyDocument"]["Statement"]:
            assert statement["Effect"] == "Allow"
            target = json.dumps(statement["Resource"])
            granted.setdefault(target, set()).update(as_list(statement["Action"]))
    assert granted == {
        arn(table_name): {
            "dynamodb:PartiQLInsert",
            "dynamodb:PartiQLUpdate",
            "dynamodb:UpdateItem",
            "dynamodb:BatchGetItem",
        },
        arn(queue_name): {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ChangeMessageVisibility",
        },
        arn(dlq_name): {"sqs:SendMessage"},
        arn(group_name): {"logs:CreateLogStream", "logs:PutLogEvents"},
        '"*"': {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
    }, granted

    # Watching it.
    assert group["RetentionInDays"] > 0
    alarms = {
        (alarm["Namespace"], alarm["MetricName"], json.dumps(alarm["Dimensions"][0]["Value"])): alarm
        for alarm in of_type(template, "CloudWatch::Alarm").values()
    }
    dead = alarms["AWS/SQS", "ApproximateNumberOfMessagesVisible", arn(dlq_name, "QueueName")]
    assert (dead["ComparisonOperator"], dead["Threshold"]) == ("GreaterThanThreshold", 0)
    assert ("AWS/SQS", "ApproximateAgeOfOldestMessage", arn(queue_name, "QueueName")) in alarms
    assert ("AWS/Lambda", "Throttles", json.dumps({"Ref": function_name})) in alarms


def as_list(value):
    return value if isinstance(value, list) else [value]


def arn(name, attribute="Arn"):
    return json.dumps({"Fn::GetAtt": [name, attribute]})


def main():
    template = transform()
    path = OUT / "template.transformed.json"
    path.write_text(json.dumps(template, indent=2))
    subprocess.run(["cfn-lint", "--regions", AWS_ENV["AWS_REGION"], "--", str(path)], check=True)
    check(template)
    print(f"{len(template['Resources'])} resources, as they should be")


if __name__ == "__main__":
    main()
