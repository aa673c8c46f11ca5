//! Runs `cargo sqs-once invoke` as a user does, on a project that cargo really builds.

use crate::project::{Project, Run};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Command, Stdio};

const TEMPLATE: &str = "
Resources:
  Idempotency:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
  Payments:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 60
      Environment:
        Variables:
          SQS_ONCE_NAMESPACE: from-the-template
          SQS_ONCE_TABLE: !Ref Idempotency
";

impl Project {
    fn invoke(&self, arguments: &[&str]) -> Run {
        Run::of(self.command("invoke", arguments).output().unwrap())
    }

    /// Invokes with `event` on standard input.
    fn send(&self, event: &str, arguments: &[&str]) -> Run {
        let mut command = self.command("invoke", &[&["-"], arguments].concat());
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(event.as_bytes())
            .unwrap();
        Run::of(child.wait_with_output().unwrap())
    }
}

/// An SQS event. Each record starts with its message id, where the function expects it.
fn event(records: &[(&str, &str)]) -> String {
    let records: Vec<String> = records
        .iter()
        .map(|(id, body)| format!(r#"{{"messageId":{},"body":{}}}"#, json!(id), json!(body)))
        .collect();
    format!(r#"{{"Records":[{}]}}"#, records.join(","))
}

#[test]
fn another_package_may_have_a_binary_of_the_same_name() {
    let project = Project::new(TEMPLATE);
    project.write(
        "lambda_runtime/src/bin/payments.rs",
        "fn main() { unreachable!(\"this is not the function\") }",
    );
    let run = project.send(&event(&[("m-1", "good")]), &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(run.stdout, "{\"batchItemFailures\":[]}\n");
}

#[test]
fn stdout_is_the_response_and_stderr_ends_in_the_table() {
    let project = Project::new(TEMPLATE);
    project.write(
        "event.json",
        &event(&[("m-1", "good"), ("m-2", "poison"), ("m-3", "say nothing")]),
    );
    let run = project.invoke(&["event.json"]);

    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "{\"batchItemFailures\":[{\"itemIdentifier\":\"m-2\"},{\"itemIdentifier\":\"m-3\"}]}\n"
    );
    let table = "
message id  outcome             time  reason
m-1         processed         1.2 ms
m-2         terminal          1.2 ms  not an order
m-3         failed                    no record line

3 records: 1 processed, 1 failed, 1 terminal
2 batch item failures: these go back to the queue, Lambda deletes the other 1
";
    assert!(run.stderr.ends_with(table), "{}", run.stderr);
    assert!(
        run.stderr.contains("\nnamespace: from-the-template\n"),
        "{}",
        run.stderr
    );
    assert!(
        !run.stderr.contains('\x1b'),
        "no colour where there is no terminal"
    );
}

#[test]
fn a_second_run_remembers_the_first_until_it_is_reset() {
    let project = Project::new(TEMPLATE);
    let event = event(&[("m-1", "good"), ("m-2", "good")]);
    let outcomes = |run: Run| {
        let table: Value = serde_json::from_str(&run.stderr).unwrap();
        table["summary"].clone()
    };
    let summary = |processed: u8, duplicate: u8| json!({"records": 2, "processed": processed, "duplicate": duplicate, "ignored": 0, "in_progress": 0, "failed": 0, "terminal": 0, "acknowledged": 0});
    assert_eq!(outcomes(project.send(&event, &["--json"])), summary(2, 0));
    assert_eq!(outcomes(project.send(&event, &["--json"])), summary(0, 2));
    assert_eq!(
        outcomes(project.send(&event, &["--json", "--reset"])),
        summary(2, 0)
    );
}

#[test]
fn json_is_the_table_and_nothing_else() {
    let project = Project::new(TEMPLATE);
    let run = project.send(&event(&[("m-1", "good"), ("m-2", "poison")]), &["--json"]);
    assert_eq!(
        run.stdout,
        "{\"batchItemFailures\":[{\"itemIdentifier\":\"m-2\"}]}\n"
    );
    let table: Value = serde_json::from_str(&run.stderr).unwrap();
    assert_eq!(
        table,
        json!({
            "records": [
                {"message_id": "m-1", "outcome": "processed", "duration_ms": 1.25, "reason": null, "key": null},
                {"message_id": "m-2", "outcome": "terminal", "duration_ms": 1.25, "reason": "not an\norder", "key": null},
            ],
            "summary": {"records": 2, "processed": 1, "duplicate": 0, "ignored": 0, "in_progress": 0, "failed": 0, "terminal": 1, "acknowledged": 0},
            "batch_item_failures": ["m-2"],
        })
    );
}

#[test]
fn bare_bodies_and_empty_batches_are_events_too() {
    let project = Project::new(TEMPLATE);
    let run = project.send("{\"order_id\": 1}\n{\"order_id\": 2}\n", &[]);
    assert!(
        run.stderr.contains("\n2 records: 2 processed\n"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("no batch item failures: Lambda deletes all 2 from the queue")
    );

    let run = project.send(r#"{"Records": []}"#, &[]);
    assert_eq!(run.stdout, "{\"batchItemFailures\":[]}\n");
    assert!(
        run.stderr
            .ends_with("\n0 records\nno batch item failures\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_function_that_does_not_answer_properly_is_named_for_what_it_did() {
    let project = Project::new(TEMPLATE);

    let run = project.send("crash", &[]);
    run.assert_failed_with("error: the function ended before it answered: exit status: 3");
    assert!(run.stderr.contains("out of cheese"), "{}", run.stderr);
    assert_eq!(run.stdout, "");

    let run = project.send("crash", &["--json"]);
    run.assert_failed_with("out of cheese");

    project
        .send("hang", &["--timeout", "200ms"])
        .assert_failed_with(
            "error: the function timed out: no answer within 200ms\n  help: --timeout",
        );
    project
        .send("error", &[])
        .assert_failed_with("error: the function answered with an error: NoTable: which table?");

    let run = project.send("answer with text", &[]);
    run.assert_failed_with("error: Lambda would not accept the function's answer");
    assert_eq!(run.stdout, "\"done\"\n");
}

#[test]
fn an_answer_is_the_same_json_with_what_is_unsafe_escaped() {
    let project = Project::new(TEMPLATE);
    let run = project.send("answer with controls", &[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        run.stdout,
        "{ \n \"batchItemFailures\": [],\n \"note\": \"\\u009b31m\\u202e\" \n}\n"
    );
    let answer: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["note"], "\u{9b}31m\u{202e}");
}

#[test]
fn a_variable_of_the_shell_wins_over_the_templates() {
    let project = Project::new(TEMPLATE);
    project.write("event.json", &event(&[]));
    let run = project
        .command("invoke", &["event.json"])
        .env("SQS_ONCE_NAMESPACE", "from-the-shell")
        .env("SQS_ONCE_TABLE", "a-real-table")
        .output()
        .unwrap();
    let run = Run::of(run);
    assert!(
        run.stderr.contains("namespace: from-the-shell"),
        "{}",
        run.stderr
    );
}

#[test]
fn the_shells_credentials_do_not_reach_the_function() {
    let project = Project::new(TEMPLATE);
    project.write("event.json", &event(&[]));
    let run = project
        .command("invoke", &["event.json"])
        .env("AWS_ACCESS_KEY_ID", "a-real-key")
        .env("AWS_PROFILE", "production")
        .output()
        .unwrap();
    let run = Run::of(run);
    assert!(
        run.stderr.contains("\nkey id: local\nprofile: None\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn mistakes_are_found_before_anything_is_built() {
    let project = Project::new(TEMPLATE);
    project
        .invoke(&["nowhere.json"])
        .assert_failed_with("error: the event nowhere.json can't be read");
    project
        .send("{\"Records\": [", &[])
        .assert_failed_with("error: the event looks like JSON but is not valid JSON");
    project
        .send("{}", &["--function", "refunds"])
        .assert_failed_with(
            "error: the workspace has no binary called `refunds`; it has: payments",
        );
    project
        .send("{}", &["--template", "nowhere.yaml"])
        .assert_failed_with("error: nowhere.yaml can't be read");
    assert!(!project.folder.path().join("target").exists());
}

#[test]
fn of_several_functions_one_must_be_picked_or_named_by_the_template() {
    let project = Project::new(TEMPLATE);
    project.write("src/bin/refunds.rs", "fn main() { std::process::exit(9) }");
    project.send("{}", &[]).assert_failed_with(
        "error: the workspace has several Lambda functions: pick one with --function",
    );
    project
        .send("{}", &["--function", "refunds"])
        .assert_failed_with("exit status: 9");

    let named = TEMPLATE.replace(
        "    Properties:\n      Timeout",
        "    Metadata: { BuildProperties: { Binary: refunds } }\n    Properties:\n      Timeout",
    );
    project.write("template.yaml", &named);
    project.send("{}", &[]).assert_failed_with("exit status: 9");
}

#[test]
fn a_function_that_does_not_build_is_an_error_with_the_compilers_words() {
    let project = Project::new(TEMPLATE);
    project.write("src/main.rs", "fn main() { nonsense }");
    for arguments in [&[][..], &["--json"]] {
        let run = project.send("{}", arguments);
        run.assert_failed_with("error: the function `payments` does not build");
        assert!(
            run.stderr.contains("cannot find value `nonsense`"),
            "{}",
            run.stderr
        );
    }
}

#[test]
fn a_table_whose_keys_have_changed_is_an_error_that_a_reset_cures() {
    let project = Project::new(TEMPLATE);
    let event = event(&[]);
    assert_eq!(project.send(&event, &[]).status, Some(0));
    project.write(
        "template.yaml",
        &TEMPLATE.replace("AttributeName: id", "AttributeName: pk"),
    );
    project
        .send(&event, &[])
        .assert_failed_with("help: --reset starts with an empty database");
    assert_eq!(project.send(&event, &["--reset"]).status, Some(0));
}

#[test]
fn every_table_of_the_template_is_made() {
    let project = Project::new(TEMPLATE);
    let with_stock = |key: &str| {
        let stock = "
  Stock:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema: [{ AttributeName: KEY, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: KEY, AttributeType: S }]
";
        format!("{TEMPLATE}{}", stock.replace("KEY", key))
    };
    project.write("template.yaml", &with_stock("article"));
    assert_eq!(project.send(&event(&[]), &[]).status, Some(0));
    // The table exists with other keys.
    project.write("template.yaml", &with_stock("sku"));
    project
        .send(&event(&[]), &[])
        .assert_failed_with("help: --reset starts with an empty database");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = Project::new(TEMPLATE);
    project.write("event.json", &event(&[("m-1", "good")]));
    let mut child = project
        .command("invoke", &["event.json", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn the_word_that_cargo_adds_is_accepted() {
    let project = Project::new(TEMPLATE);
    let output = Command::new(env!("CARGO_BIN_EXE_cargo-sqs-once"))
        .args(["sqs-once", "invoke", "nowhere.json"])
        .current_dir(project.folder.path())
        .output()
        .unwrap();
    Run::of(output).assert_failed_with("the event nowhere.json can't be read");
}
