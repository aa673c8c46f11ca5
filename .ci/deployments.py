"""Brings deployments into one form, so that those of SAM, CDK and Terraform can be compared property by property.

The form is `{role: {property: value}}`. A role is what a resource is for, such as `DeadLetterQueue`, because each tool
names its resources itself. Properties have CloudFormation's names. A reference to a resource is the text
`${role.attribute}`. Policies belong to the queue or role to which they apply.
"""

import json
import re

REGION, ACCOUNT, PARTITION = "us-east-1", "123456789012", "aws"
# The attribute that `Ref` returns, and that Terraform calls `id`.
REF = {
    "AWS::DynamoDB::Table": "Name",
    "AWS::IAM::Role": "Name",
    "AWS::Lambda::Function": "Name",
    "AWS::Lambda::LayerVersion": "Arn",
    "AWS::Logs::LogGroup": "Name",
    "AWS::SNS::Topic": "Arn",
    "AWS::SQS::Queue": "Url",
}
# Other names of attributes.
ATTRIBUTES = {"QueueName": "Name", "QueueUrl": "Url", "TopicArn": "Arn", "TopicName": "Name"}
# The property that names a resource. AWS or the tool chooses a name where it is missing.
NAMES = {
    "AWS::CloudWatch::Alarm": "AlarmName",
    "AWS::DynamoDB::Table": "TableName",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::Lambda::LayerVersion": "LayerName",
    "AWS::Logs::LogGroup": "LogGroupName",
    "AWS::SNS::Topic": "TopicName",
    "AWS::SQS::Queue": "QueueName",
}
TABLES = {"id": "IdempotencyTable", "order_id": "OrdersTable", "article": "StockTable"}
NO_VALUE = object()
# Properties that mean the same as their absence.
DEFAULTS = [("FifoQueue", False), ("FifoTopic", False), ("ReturnData", True)]

# Other settings than the defaults: a line of SAM's template, an argument of Terraform's module, and a property of CDK's
# construct. In addition, the deployment has this name and this processor.
OTHER_SETTINGS = [
    ("Timeout: 100", "timeout_seconds = 100", "timeout: Duration.seconds(100)"),
    ("MemorySize: 512", "memory_mb = 512", "memorySize: 512"),
    ("BatchSize: 7", "batch_size = 7", "batchSize: 7"),
    ("MaximumConcurrency: 3", "maximum_concurrency = 3", "maxConcurrency: 3"),
]
OTHER_NAME, OTHER_ARCHITECTURE = "other", "x86_64"
# The projects that are compared with these settings. The values computed from them also depend on the kind of queue.
OTHER_PROJECTS = ["new-standard-sqs-elsewhere", "new-fifo-sqs-dynamodb"]

# Terraform's resource types.
TYPES = {
    "aws_cloudwatch_dashboard": "AWS::CloudWatch::Dashboard",
    "aws_cloudwatch_log_group": "AWS::Logs::LogGroup",
    "aws_cloudwatch_metric_alarm": "AWS::CloudWatch::Alarm",
    "aws_dynamodb_table": "AWS::DynamoDB::Table",
    "aws_iam_role": "AWS::IAM::Role",
    "aws_iam_role_policy": "AWS::IAM::Policy",
    "aws_lambda_event_source_mapping": "AWS::Lambda::EventSourceMapping",
    "aws_lambda_function": "AWS::Lambda::Function",
    "aws_lambda_layer_version": "AWS::Lambda::LayerVersion",
    "aws_sns_topic": "AWS::SNS::Topic",
    "aws_sns_topic_subscription": "AWS::SNS::Subscription",
    "aws_sqs_queue": "AWS::SQS::Queue",
    "aws_sqs_queue_policy": "AWS::SQS::QueuePolicy",
    "aws_sqs_queue_redrive_allow_policy": "AWS::SQS::QueuePolicy",
}
# The properties of Terraform's arguments and blocks. Others have the same words: `memory_size` is `MemorySize`.
PROPERTIES = {
    "aws_cloudwatch_log_group": {"name": "LogGroupName"},
    "aws_cloudwatch_metric_alarm": {"metric_query": "Metrics"},
    "aws_dynamodb_table": {
        "name": "TableName",
        "hash_key": "KeySchema",
        "attribute": "AttributeDefinitions",
        "ttl": "TimeToLiveSpecification",
        "point_in_time_recovery": "PointInTimeRecoverySpecification",
    },
    "aws_iam_role": {"assume_role_policy": "AssumeRolePolicyDocument"},
    "aws_iam_role_policy": {"policy": "PolicyDocument", "role": "Roles"},
    "aws_lambda_layer_version": {"skip_destroy": "Retain"},
    "aws_sns_topic": {"name": "TopicName"},
    "aws_sqs_queue": {
        "name": "QueueName",
        "visibility_timeout_seconds": "VisibilityTimeout",
        "message_retention_seconds": "MessageRetentionPeriod",
    },
    "aws_sqs_queue_policy": {"policy": "PolicyDocument", "queue_url": "Queues"},
    "aws_sqs_queue_redrive_allow_policy": {"queue_url": "Queues"},
}
# The properties that CloudFormation writes in another form, with the function that makes it from an argument's value.
FORMS = {
    "AssumeRolePolicyDocument": json.loads,
    "AttributeDefinitions": lambda blocks: [{"AttributeName": it["name"], "AttributeType": it["type"]} for it in blocks],
    "Dimensions": lambda values: [{"Name": name, "Value": value} for name, value in values.items()],
    "Environment": lambda blocks: {"Variables": blocks[0]["variables"]},
    "KeySchema": lambda key: [{"AttributeName": key, "KeyType": "HASH"}],
    "Metrics": lambda blocks: [_query(it) for it in blocks],
    "PointInTimeRecoverySpecification": lambda blocks: {"PointInTimeRecoveryEnabled": blocks[0]["enabled"]},
    "PolicyDocument": json.loads,
    "Queues": lambda url: [url],
    "RedriveAllowPolicy": json.loads,
    "RedrivePolicy": json.loads,
    "Roles": lambda name: [name],
}


def role_of(kind, properties):
    """What a resource of a CloudFormation type is for."""
    if kind == "AWS::SQS::Queue":
        return "Queue" if "RedrivePolicy" in properties else "DeadLetterQueue"
    if kind == "AWS::DynamoDB::Table":
        (key,) = (key["AttributeName"] for key in properties["KeySchema"])
        return TABLES[key]
    if kind == "AWS::CloudWatch::Alarm":
        metrics = [query["MetricStat"]["Metric"] for query in properties.get("Metrics", []) if "MetricStat" in query]
        return "Alarm of " + " and ".join(sorted(metric["MetricName"] for metric in metrics or [properties]))
    return kind.rpartition("::")[2]


def of_cloudformation(template, stack, parameters=None):
    """The form of a CloudFormation template, for a stack's name and for parameters that replace the defaults."""
    given = {
        "AWS::Region": REGION,
        "AWS::AccountId": ACCOUNT,
        "AWS::Partition": PARTITION,
        "AWS::StackName": stack,
        "AWS::URLSuffix": "amazonaws.com",
        "AWS::NoValue": NO_VALUE,
    }
    for name, parameter in template.get("Parameters", {}).items():
        value = (parameters or {}).get(name, parameter.get("Default"))
        is_list = parameter["Type"].startswith(("List<", "CommaDelimitedList"))
        given[name] = value.split(",") if is_list else value
    kinds = {name: resource["Type"] for name, resource in template["Resources"].items()}
    roles = {name: role_of(it["Type"], it.get("Properties", {})) for name, it in template["Resources"].items()}
    resolve = _resolver(given, template.get("Conditions", {}), roles, kinds)
    found = []
    for resource in template["Resources"].values():
        if "Condition" not in resource or resolve({"Condition": resource["Condition"]}):
            retain = {"Retain": resource.get("DeletionPolicy") == "Retain"}
            found.append((resource["Type"], {**resolve(resource.get("Properties", {})), **retain}))
    return _form(found, {name: resolve(output["Value"]) for name, output in template.get("Outputs", {}).items()})


def _resolver(given, conditions, roles, kinds):
    """The function that evaluates the intrinsic functions in a value."""

    def attribute(name, attribute):
        attribute = ATTRIBUTES.get(attribute, attribute)
        # CloudFormation's ARN of a log group includes its streams.
        suffix = ":*" if (kinds[name], attribute) == ("AWS::Logs::LogGroup", "Arn") else ""
        return f"${{{roles[name]}.{attribute}}}{suffix}"

    def reference(name):
        return given[name] if name in given else attribute(name, REF[kinds[name]])

    def substitute(text, names):
        def value(found):
            name = found[1]
            if name in names:
                return str(resolve(names[name]))
            return str(attribute(*name.split(".", 1)) if "." in name else reference(name))

        return re.sub(r"\$\{([\w:.]+)\}", value, text)

    def resolve(value):
        if isinstance(value, list):
            return [it for it in map(resolve, value) if it is not NO_VALUE]
        if not isinstance(value, dict):
            return value
        match list(value.items()):
            case [("Ref", name)]:
                return reference(name)
            case [("Condition", str(name))]:
                return resolve(conditions[name])
            case [("Fn::GetAtt", str(name))]:
                return attribute(*name.split(".", 1))
            case [("Fn::GetAtt", [name, of])]:
                return attribute(name, of)
            case [("Fn::Sub", str(text))]:
                return substitute(text, {})
            case [("Fn::Sub", [text, names])]:
                return substitute(text, names)
            case [("Fn::Join", [separator, parts])]:
                return separator.join(resolve(parts))
            case [("Fn::Split", [separator, text])]:
                return resolve(text).split(separator)
            case [("Fn::Select", [index, values])]:
                return resolve(values)[int(index)]
            case [("Fn::If", [condition, yes, no])]:
                return resolve(yes if resolve(conditions[condition]) else no)
            case [("Fn::Not", [condition])]:
                return not resolve(condition)
            case [("Fn::Equals", [one, other])]:
                return resolve(one) == resolve(other)
            case [("Fn::And", conditions_)]:
                return all(map(resolve, conditions_))
            case [("Fn::Or", conditions_)]:
                return any(map(resolve, conditions_))
            case [(str(function), argument)] if function.startswith("Fn::"):
                raise SystemExit(f"this check does not evaluate {function} {argument}")
        resolved = {name: resolve(it) for name, it in value.items()}
        return {name: it for name, it in resolved.items() if it is not NO_VALUE}

    return resolve


def of_terraform(plan, retained):
    """The form of an evaluated Terraform configuration. `retained` names the resources with `prevent_destroy`, which a plan
    does not have, as `TYPE.NAME`. A value that only AWS knows, such as a queue's ARN, must be the text `${ADDRESS.arn}`."""
    found, roles = [], {}
    for resource in _resources(plan["planned_values"]["root_module"]):
        address, kind = resource["address"], TYPES[resource["type"]]
        # A plan also has attributes that are not arguments. A prefix only helps AWS to choose a name.
        computed = {name: f"${{{address}.{name}}}" for name in ("arn", "id", "url", "invoke_arn")}
        given = {name: it for name, it in resource["values"].items() if it not in (None, [], computed.get(name))}
        given.pop("name_prefix", None)
        renamed = PROPERTIES.get(resource["type"], {})
        properties = {"Retain": f"{resource['type']}.{resource['name']}" in retained}
        properties |= _properties(given, renamed)
        found.append((kind, properties))
        if kind not in ("AWS::SQS::QueuePolicy", "AWS::IAM::Policy"):
            roles[address] = (role_of(kind, properties), REF.get(kind))

    def reference(found):
        address, _, name = found[1].rpartition(".")
        if address in roles:
            role, identity = roles[address]
            return f"${{{role}.{identity if name == 'id' else name.title()}}}"
        return {"region": REGION, "account_id": ACCOUNT, "partition": PARTITION}.get(name, found[0])

    text = re.sub(r"\$\{((?:[\w.]|\[[^\]]*\])+)\}", reference, json.dumps(found))
    return _form(json.loads(text), {})


def _resources(module):
    """The resources of a module in a plan, and of the modules that it calls."""
    yield from module.get("resources", [])
    for child in module.get("child_modules", []):
        yield from _resources(child)


def _properties(arguments, renamed):
    """The properties that arguments and blocks are in CloudFormation."""
    properties = {}
    for name, value in arguments.items():
        name = renamed.get(name) or "".join(map(str.capitalize, name.split("_")))
        match value:
            case _ if name in FORMS:
                value = FORMS[name](value)
            case [dict(block)]:
                value = _properties(block, {})
        properties[name] = value
    return properties


def _query(block):
    """One of an alarm's `Metrics`."""
    query = _properties({"return_data": False, **block}, {})
    if metric := query.pop("Metric", None):
        query["MetricStat"] = {"Period": metric.pop("Period"), "Stat": metric.pop("Stat"), "Metric": metric}
    return query


def _form(found, outputs):
    """The form of resources, each with its type and its properties in CloudFormation's names."""
    form, policies = {"Outputs": outputs}, []
    names = {}
    for kind, properties in found:
        if kind in ("AWS::SQS::QueuePolicy", "AWS::IAM::Policy"):
            policies.append(properties)
            continue
        role = role_of(kind, properties)
        assert role not in form, f"two resources are {role}"
        form[role] = properties
        names[f"${{{role}.Name}}"] = properties.get(NAMES.get(kind))
    role = form["Role"]
    role["Statements"] = [it for policy in role.pop("Policies", []) for it in statements_of(policy)]
    for policy in policies:
        statements = statements_of(policy) if "PolicyDocument" in policy else []
        for name in policy.get("Queues", []):
            queue = re.fullmatch(r"\$\{(\w+)\.Url\}", name)[1]
            # A queue's policy can only apply to this queue.
            own = f"${{{queue}.Arn}}"
            of_it = [{**it, "Resource": [own]} for it in statements if own in it["Resource"]]
            form[queue].setdefault("Statements", []).extend(of_it)
            if "RedriveAllowPolicy" in policy:
                form[queue]["RedriveAllowPolicy"] = policy["RedriveAllowPolicy"]
        for name in policy.get("Roles", []):
            assert name == "${Role.Name}", name
            role["Statements"] += statements
    form = renamed(form, {name: value for name, value in names.items() if value})
    # A template may write this ARN, because the dead-letter queue refers to the queue before it exists.
    arn = f"arn:{PARTITION}:sqs:{REGION}:{ACCOUNT}:{form['Queue'].get('QueueName')}"
    return {role: _canonical(properties, arn) for role, properties in form.items()}


def renamed(form, names):
    """The form with each reference to a name replaced by the name."""
    text = json.dumps(form)
    for reference, name in names.items():
        text = text.replace(reference, name)
    return json.loads(text)


def _canonical(value, queue_arn, name=None):
    """The value without an order, a notation or a default that means nothing to AWS."""
    match value:
        case {"Version": _, "Statement": _}:
            return statements_of({"PolicyDocument": value})
        case dict():
            values = {key: _canonical(it, queue_arn, key) for key, it in value.items()}
            return {key: it for key, it in values.items() if (key, it) not in DEFAULTS}
        case list():
            values = [_canonical(it, queue_arn) for it in value]
            match name:
                case "Dimensions":
                    return {it["Name"]: it["Value"] for it in values}
                case "Metrics":
                    return {it["Id"]: it for it in values}
                case "Statements":
                    return {it["Sid"]: it for it in values}
            return sorted(values, key=lambda it: json.dumps(it, sort_keys=True))
        case str() if name == "DashboardBody":
            # Its order is the layout.
            return json.loads(value)
        case str() if value == queue_arn:
            return "${Queue.Arn}"
    return value


def statements_of(policy):
    """The statements of a policy's document, with lists of actions, resources and values in conditions."""
    document = policy["PolicyDocument"]
    assert document["Version"] == "2012-10-17", document
    statements = []
    for statement in as_list(document["Statement"]):
        lists = {key: sorted(as_list(statement[key])) for key in ("Action", "Resource") if key in statement}
        conditions = statement.get("Condition", {}).items()
        conditions = {test: {key: as_list(it) for key, it in values.items()} for test, values in conditions}
        statements.append({**statement, **lists, **({"Condition": conditions} if conditions else {})})
    return statements


def as_list(value):
    """A value that AWS accepts alone or in a list."""
    return value if isinstance(value, list) else [value]


def differences(expected, found):
    """One line for each property that differs between two forms. A resource without a name in the expected one may have any
    name in the other."""
    names = {}
    for role, properties in found.items():
        for name in set(NAMES.values()) & set(properties):
            if role in expected and name not in expected[role]:
                names[f"${{{role}.Name}}"] = properties[name]
                expected = {**expected, role: {**expected[role], name: properties[name]}}
    lines = []

    def compare(path, one, other):
        if isinstance(one, dict) and isinstance(other, dict):
            for key in sorted({*one, *other}):
                compare([*path, key], one.get(key), other.get(key))
        elif one != other:
            shown = (json.dumps(it, sort_keys=True) for it in (one, other))
            lines.append(f"{'.'.join(path)}: expected {', found '.join(shown)}")

    compare([], renamed(expected, names), found)
    return lines


def intended(name, expected, found, patterns):
    """The patterns with which the differences between two forms begin. Fails if there are other differences."""
    seen, others = set(), []
    for line in differences(expected, found):
        matching = {pattern for pattern in patterns if re.match(pattern, line)}
        seen |= matching
        if not matching:
            others.append(line)
    assert not others, "\n".join([f"{name}: the deployments make different resources:", *others])
    return seen
