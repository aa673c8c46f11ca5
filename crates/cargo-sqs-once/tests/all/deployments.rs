//! Runs `cargo sqs-once dev` and `invoke` with each form of deployment in place of a SAM template.

use crate::project::{Project, Run};
use serde_json::{Value, json};

const TERRAFORM: &str = r#"
resource "aws_dynamodb_table" "keys" {
  name     = "tf-keys"
  hash_key = "id"
  attribute {
    name = "id"
    type = "S"
  }
}

resource "aws_sqs_queue" "orders" {
  name           = "tf-orders"
  redrive_policy = jsonencode({ deadLetterTargetArn = aws_sqs_queue.dead.arn, maxReceiveCount = 2 })
}

resource "aws_sqs_queue" "dead" {
  name = "tf-dead"
}

resource "aws_lambda_function" "payments" {
  function_name = "payments"
  timeout       = 11
  environment {
    variables = {
      SQS_ONCE_NAMESPACE = "tf"
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

/// A plan of Terraform, with a namespace and the type of the table's key.
fn plan() -> String {
    let plan = include_str!("../../../sqs-once-doctor/tests/plans/good.json");
    let key = r#""hash_key": "id""#;
    let typed = format!(r#"{key}, "attribute": [{{"name": "id", "type": "S"}}]"#);
    let plan = plan.replace(key, &typed);
    plan.replace(r#""RUST_LOG": "info""#, r#""SQS_ONCE_NAMESPACE": "plan""#)
}

#[test]
fn queue_timeout_environment_and_table_are_found_in_every_form() {
    let project = Project::new();
    project.remove("template.yaml");
    project.event(&[("m-1", "good")]);
    let named = ["--template", "plan.json"];
    let (cdk, stack) = ("cdk/cdk.out/payments.template.json", stack().to_string());
    let terraform = TERRAFORM.to_owned();
    // A Terraform configuration comes before CDK's output, and a plan is only read if it is named.
    for (file, text, [form, queue, dead], timeout, named) in [
        (cdk, stack, ["cdk", "cdk-orders", "cdk-dead"], 12, &[][..]),
        (
            "terraform/main.tf",
            terraform,
            ["tf", "tf-orders", "tf-dead"],
            11,
            &[],
        ),
        (
            "plan.json",
            plan(),
            ["plan", "orders", "orders-dead"],
            30,
            &named,
        ),
    ] {
        project.write(file, &text);
        let always = ["--send", "event.json", "--until-empty"];
        let dev = Run::of(project.command("dev", &[&always, named].concat()));
        dev.assert_done();
        dev.says(&format!("polling {queue}: "));
        dev.says(&format!(", timeout {timeout}s\ndead letters: {dead}\n"));
        dev.says(&format!("namespace: {form}\n"));
        // The other forms have other tables, so the message is new in each.
        dev.shows(" processed ");

        // The table still has the message, and the database has a table of this name.
        let invoke = Run::of(project.command("invoke", &[&["event.json"], named].concat()));
        invoke.assert_done();
        invoke.says(&format!("namespace: {form}\n"));
        invoke.says("1 message: 1 duplicate");
    }
}
