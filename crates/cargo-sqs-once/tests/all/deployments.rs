//! Runs `cargo sqs-once dev` and `invoke` with each form of deployment in place of a SAM template.

use crate::project::{Project, Run};
use serde_json::{Value, json};
use std::fs;

const TERRAFORM: &str = r#"
resource "aws_dynamodb_table" "keys" {
  name     = "terraform-keys"
  hash_key = "id"
  attribute {
    name = "id"
    type = "S"
  }
}

resource "aws_sqs_queue" "orders" {
  name           = "terraform-orders"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 2 })
}

resource "aws_sqs_queue" "dead" {
  name = "terraform-dead"
}

resource "aws_lambda_function" "payments" {
  function_name = "payments"
  timeout       = 11
  environment {
    variables = {
      SQS_ONCE_NAMESPACE = "terraform"
      SQS_ONCE_TABLE     = aws_dynamodb_table.keys.name
      SQS_ONCE_DLQ_URL   = aws_sqs_queue.dead.url
    }
  }
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn        = aws_sqs_queue.orders.arn
  function_name           = aws_lambda_function.payments.arn
  function_response_types = ["ReportBatchItemFailures"]
}
"#;

/// A stack as `cdk synth` writes it.
fn stack() -> Value {
    let arn_of = |id: &str| json!({"Fn::GetAtt": [id, "Arn"]});
    let redrive = json!({"deadLetterTargetArn": arn_of("Dead"), "maxReceiveCount": 2});
    let variables = json!({
        "SQS_ONCE_NAMESPACE": "cdk",
        "SQS_ONCE_TABLE": {"Ref": "Keys"},
        "SQS_ONCE_DLQ_URL": {"Ref": "Dead"},
    });
    let resource = |kind: &str, properties: Value| json!({"Type": kind, "Properties": properties});
    json!({"Resources": {
        "Keys": resource("AWS::DynamoDB::Table", json!({
            "TableName": "cdk-keys",
            "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
            "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
        })),
        "Orders": resource("AWS::SQS::Queue", json!({"QueueName": "cdk-orders", "RedrivePolicy": redrive})),
        "Dead": resource("AWS::SQS::Queue", json!({"QueueName": "cdk-dead"})),
        "Function": resource("AWS::Lambda::Function", json!({"Timeout": 12, "Environment": {"Variables": variables}})),
        "Mapping": resource("AWS::Lambda::EventSourceMapping", json!({
            "EventSourceArn": arn_of("Orders"),
            "FunctionName": {"Ref": "Function"},
            "FunctionResponseTypes": ["ReportBatchItemFailures"],
        })),
    }})
}

/// The plan for new resources, as `terraform show -json` writes it. It omits the values that only AWS knows.
fn plan() -> Value {
    let mut planned = Vec::new();
    let mut configured = Vec::new();
    let mut changes = Vec::new();
    let mut add = |kind: &str, name: &str, values: Value, unknown: Value, references: Value| {
        let address = format!("{kind}.{name}");
        let named = json!({"address": address, "mode": "managed", "type": kind, "name": name});
        let with = |key: &str, value: &Value| {
            let mut resource = named.clone();
            resource[key] = value.clone();
            resource
        };
        planned.push(with("values", &values));
        configured.push(with("expressions", &references));
        changes.push(with(
            "change",
            &json!({"actions": ["create"], "after_unknown": unknown}),
        ));
    };
    let table = |name: &str, key: &str| {
        let attribute = json!([{"name": key, "type": "S"}]);
        json!({"name": name, "hash_key": key, "range_key": null, "attribute": attribute})
    };
    let of_aws = json!({"arn": true, "id": true, "url": true});
    let keys = table("plan-keys", "id");
    add(
        "aws_dynamodb_table",
        "keys",
        keys,
        json!({"arn": true}),
        json!({}),
    );
    let orders = table("plan-orders", "order_id");
    add(
        "aws_dynamodb_table",
        "orders",
        orders,
        json!({"arn": true}),
        json!({}),
    );
    let dead = json!({"references": ["aws_sqs_queue.dead.arn", "aws_sqs_queue.dead"]});
    add(
        "aws_sqs_queue",
        "orders",
        json!({"name": "plan-orders"}),
        json!({"arn": true, "id": true, "url": true, "redrive_policy": true}),
        json!({"redrive_policy": dead}),
    );
    add(
        "aws_sqs_queue",
        "dead",
        json!({"name": "plan-dead"}),
        of_aws,
        json!({}),
    );
    let variables = json!({"SQS_ONCE_NAMESPACE": "plan", "SQS_ONCE_TABLE": "plan-keys"});
    add(
        "aws_lambda_function",
        "payments",
        json!({"function_name": "payments", "timeout": 13, "environment": [{"variables": variables}]}),
        json!({"arn": true, "environment": [{"variables": {"SQS_ONCE_DLQ_URL": true}}]}),
        json!({"environment": [{"variables": {"references": ["aws_sqs_queue.dead.url", "aws_sqs_queue.dead"]}}]}),
    );
    add(
        "aws_lambda_event_source_mapping",
        "orders",
        json!({"function_response_types": ["ReportBatchItemFailures"]}),
        json!({"event_source_arn": true, "function_name": true}),
        json!({
            "event_source_arn": {"references": ["aws_sqs_queue.orders.arn", "aws_sqs_queue.orders"]},
            "function_name": {"references": ["aws_lambda_function.payments.arn", "aws_lambda_function.payments"]},
        }),
    );
    json!({
        "planned_values": {"root_module": {"resources": planned}},
        "resource_changes": changes,
        "configuration": {"root_module": {"resources": configured}},
    })
}

#[test]
fn queue_timeout_environment_and_table_are_found_in_every_form() {
    let project = Project::new();
    fs::remove_file(project.folder.path().join("template.yaml")).unwrap();
    project.event(&[("m-1", "good")]);
    // A Terraform configuration comes before CDK's output, and a plan is only read if it is named.
    for (file, text, form, timeout, named) in [
        (
            "cdk/cdk.out/payments.template.json",
            stack().to_string(),
            "cdk",
            12,
            &[][..],
        ),
        (
            "terraform/main.tf",
            TERRAFORM.to_owned(),
            "terraform",
            11,
            &[],
        ),
        (
            "plan.json",
            plan().to_string(),
            "plan",
            13,
            &["--template", "plan.json"],
        ),
    ] {
        project.write(file, &text);
        let always = ["--send", "event.json", "--until-empty"];
        let dev = Run::of(project.command("dev", &[&always, named].concat()));
        dev.assert_done();
        dev.says(&format!("polling {form}-orders: "));
        dev.says(&format!(
            ", timeout {timeout}s\ndead letters: {form}-dead\n"
        ));
        dev.says(&format!("namespace: {form}\n"));
        // The other forms have other tables, so the message is new in each.
        dev.shows(" processed ");

        // The table still has the message, and the database has a table of this name.
        let invoke = Run::of(project.command("invoke", &[&["event.json"], named].concat()));
        invoke.assert_done();
        invoke.says(&format!("namespace: {form}\n"));
        invoke.says("1 record: 1 duplicate");
    }
}
