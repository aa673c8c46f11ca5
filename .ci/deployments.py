"""Brings deployments into one form, so that those of SAM, CDK and Terraform can be compared property by property.

The form is `{role: {property: value}}`. A role is what a resource is for, such as `DeadLetterQueue`, because each tool
names its resources itself. Properties have CloudFormation's names. A reference to a resource is the text
`${role.attribute}`. Policies belong to the queue or role to which they apply.
"""

import json
import re

REGION, ACCOUNT, PARTITION = "us-east-1", "123456789012", "aws"
# What `Ref` returns for each type.
REF = {
    "AWS::DynamoDB::Table": "Name",
    "AWS::IAM::Role": "Name",
    "AWS::Lambda::Function": "Name",
    "AWS::Lambda::LayerVersion": "Arn",
    "AWS::Logs::LogGroup": "Name",
    "AWS::SNS::Topic": "Arn",
    "AWS::SQS::Queue": "Url",
}
# What CloudFormation's attributes are called here, where that differs.
ATTRIBUTES = {"QueueName": "Name", "QueueUrl": "Url", "TopicArn": "Arn", "TopicName": "Name"}
TABLES = {"id": "IdempotencyTable", "order_id": "OrdersTable", "article": "StockTable"}
NO_VALUE = object()


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


def _form(found, outputs):
    """The form of resources, each with its type and its properties in CloudFormation's names."""
    form = {"Outputs": outputs}
    policies = []
    for kind, properties in found:
        if kind in ("AWS::SQS::QueuePolicy", "AWS::IAM::Policy"):
            policies.append(properties)
            continue
        role = role_of(kind, properties)
        assert role not in form, f"two resources are {role}"
        form[role] = properties
    role = form["Role"]
    role["Statements"] = [it for policy in role.pop("Policies", []) for it in statements_of(policy)]
    for policy in policies:
        statements = statements_of(policy)
        for name in policy.get("Queues", []):
            queue = re.fullmatch(r"\$\{(\w+)\.Url\}", name)[1]
            # A queue's policy can only apply to this queue.
            own = f"${{{queue}.Arn}}"
            of_it = [{**it, "Resource": [own]} for it in statements if own in it["Resource"]]
            form[queue].setdefault("Statements", []).extend(of_it)
        for name in policy.get("Roles", []):
            assert name == "${Role.Name}", name
            role["Statements"] += statements
    # The dead-letter queue may only be able to name its source queue before that exists.
    name = form["Queue"].get("QueueName")
    arn = f"arn:{PARTITION}:sqs:{REGION}:{ACCOUNT}:{name}"
    return {role: _canonical(properties, {arn: "${Queue.Arn}"}) for role, properties in form.items()}


def _canonical(value, texts, name=None):
    """The value without order and notations that mean nothing to AWS."""
    match value:
        case {"Version": _, "Statement": _}:
            return statements_of({"PolicyDocument": value})
        case dict():
            return {key: _canonical(it, texts, key) for key, it in value.items()}
        case list():
            values = [_canonical(it, texts) for it in value]
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
        case str():
            return texts.get(value, value)
    return value


def statements_of(policy):
    """The statements of a policy's document, each with lists of actions and resources."""
    document = policy["PolicyDocument"]
    assert document["Version"] == "2012-10-17", document
    many = ("Action", "Resource")
    statements = as_list(document["Statement"])
    return [{**it, **{key: sorted(as_list(it[key])) for key in many if key in it}} for it in statements]


def as_list(value):
    """A value that AWS accepts alone or in a list."""
    return value if isinstance(value, list) else [value]


def differences(expected, found):
    """One line for each property that differs between two forms."""
    lines = []

    def compare(path, one, other):
        if isinstance(one, dict) and isinstance(other, dict):
            for key in sorted({*one, *other}):
                compare([*path, key], one.get(key), other.get(key))
        elif one != other:
            shown = (json.dumps(it, sort_keys=True) for it in (one, other))
            lines.append(f"{'.'.join(path)}: {' is '.join(shown)}")

    compare([], expected, found)
    return lines
