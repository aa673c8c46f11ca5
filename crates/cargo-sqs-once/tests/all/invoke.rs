//! Runs `cargo sqs-once invoke` as a user does, on a project that cargo really builds.

use crate::project::{Project, Run, TEMPLATE, event};
use serde_json::{Value, json};
use std::io::Write;
use std::process::Stdio;

impl Project {
    fn invoke(&self, arguments: &[&str]) -> Run {
        Run::of(self.command("invoke", arguments))
    }

    /// Invokes with `event` on standard input.
    fn send(&self, event: &str, arguments: &[&str]) -> Run {
        let mut command = self.command("invoke", &[&["-"], arguments].concat());
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(event.as_bytes()).unwrap();
        drop(stdin);
        Run::ended(child.wait_with_output().unwrap())
    }
}

impl Run {
    /// The table on standard error.
    fn table(&self) -> Value {
        serde_json::from_str(&self.stderr).unwrap()
    }
}

#[test]
fn another_package_may_have_a_binary_of_the_same_name() {
    let project = Project::new();
    let other = "fn main() { unreachable!(\"this is not the function\") }";
    project.write("lambda_runtime/src/bin/payments.rs", other);
    let run = project.send(&event(&[("m-1", "good")]), &[]);
    run.assert_done();
    assert_eq!(run.stdout, "{\"batchItemFailures\":[]}\n");
}

#[test]
fn stdout_is_the_response_and_stderr_ends_in_the_table() {
    let project = Project::new();
    project.event(&[("m-1", ""), ("poison", ""), ("silent", "")]);
    let run = project.invoke(&["event.json"]);
    run.assert_done();
    let failures = r#"[{"itemIdentifier":"poison"},{"itemIdentifier":"silent"}]"#;
    let response = format!("{{\"batchItemFailures\":{failures}}}\n");
    assert_eq!(run.stdout, response);
    let table = "
message id  outcome             time  reason
m-1         processed         1.2 ms
poison      terminal          1.2 ms  not an order
silent      failed                    no log line

3 messages: 1 processed, 1 failed, 1 terminal
2 batch item failures: these go back to the queue, Lambda deletes the other 1
";
    assert!(run.stderr.ends_with(table), "{}", run.stderr);
    run.says("\nnamespace: from-the-template\n");
    assert!(!run.stderr.contains('\x1b'), "a colour without a terminal");
}

#[test]
fn the_table_names_the_routes_of_a_router() {
    let project = Project::new();
    let records = event(&[("m-1 to OrderPlaced", ""), ("poison", "")]);
    let run = project.send(&records, &[]);
    run.says(
        "
message id          route        outcome             time  reason
m-1 to OrderPlaced  OrderPlaced  processed         1.2 ms
poison                           terminal          1.2 ms  not an order
",
    );
    let table = project.send(&records, &["--format=json"]).table();
    assert_eq!(table["records"][0]["route"], "OrderPlaced");
}

/// A function without SQS answers with whatever it likes.
#[test]
fn a_raw_event_is_sent_unchanged_and_the_answer_is_not_judged() {
    let project = Project::new();
    let event = r#"{"detail-type": "answer with text", "Records": "of another kind"}"#;
    let run = project.send(event, &["--raw"]);
    run.assert_done();
    assert_eq!(run.stdout, "\"done\"\n");
    assert!(!run.stderr.contains("message id"), "{}", run.stderr);
    let failing = project.send(r#"{"detail": "error"}"#, &["--raw"]);
    failing.assert_failed_with("which table?");
}

#[test]
fn a_second_run_remembers_the_first_until_it_is_reset() {
    let project = Project::new();
    let event = event(&[("m-1", "good"), ("m-2", "good")]);
    let run = |arguments: &[&str]| {
        let run = project.send(&event, &[&["--format=json"], arguments].concat());
        let summary = &run.table()["summary"];
        assert_eq!(summary["records"], 2, "{summary}");
        (summary["processed"].clone(), summary["duplicate"].clone())
    };
    assert_eq!(run(&[]), (json!(2), json!(0)));
    assert_eq!(run(&[]), (json!(0), json!(2)));
    assert_eq!(run(&["--reset"]), (json!(2), json!(0)));
}

#[test]
fn json_is_the_table_and_nothing_else() {
    let project = Project::new();
    let run = project.send(&event(&[("m-1", ""), ("poison", "")]), &["--format=json"]);
    let response = r#"{"batchItemFailures":[{"itemIdentifier":"poison"}]}"#;
    assert_eq!(run.stdout, format!("{response}\n"));
    assert_eq!(
        run.table(),
        json!({
            "records": [
                {"message_id": "m-1", "outcome": "processed", "duration_ms": 1.25, "reason": null, "route": null, "key": null},
                {"message_id": "poison", "outcome": "terminal", "duration_ms": 1.25, "reason": "not an\norder", "route": null, "key": null},
            ],
            "summary": {"records": 2, "processed": 1, "duplicate": 0, "ignored": 0, "in_progress": 0, "failed": 0, "terminal": 1, "acknowledged": 0},
            "batch_item_failures": ["poison"],
        })
    );
}

#[test]
fn bare_bodies_and_empty_batches_are_events_too() {
    let project = Project::new();
    let run = project.send("{\"order_id\": 1}\n{\"order_id\": 2}\n", &[]);
    run.says("\n2 messages: 2 processed\n");
    run.says("no batch item failures: Lambda deletes all 2 from the queue");

    let run = project.send(r#"{"Records": []}"#, &[]);
    assert_eq!(run.stdout, "{\"batchItemFailures\":[]}\n");
    let end = "\n0 messages\nno batch item failures\n";
    assert!(run.stderr.ends_with(end), "{}", run.stderr);
}

#[test]
fn a_function_that_does_not_answer_properly_is_named_for_what_it_did() {
    let project = Project::new();

    let run = project.send("crash", &[]);
    run.assert_failed_with("error: the function ended before it answered: exit status: 3");
    run.says("out of cheese");
    assert_eq!(run.stdout, "");

    let late = "error: the function timed out: no answer within 200ms\n  help: --timeout";
    let error = "error: the function answered with an error: NoTable: which table?";
    for (event, arguments, message) in [
        ("crash", &["--format=json"][..], "out of cheese"),
        ("hang", &["--timeout", "200ms"], late),
        ("error", &[], error),
    ] {
        project.send(event, arguments).assert_failed_with(message);
    }

    let run = project.send("answer with text", &[]);
    run.assert_failed_with("error: Lambda would not accept the function's answer");
    assert_eq!(run.stdout, "\"done\"\n");
}

#[test]
fn an_answer_is_the_same_json_with_what_is_unsafe_escaped() {
    let project = Project::new();
    let run = project.send("answer with controls", &[]);
    run.assert_done();
    let written = "{ \n \"batchItemFailures\": [],\n \"note\": \"\\u009b31m\\u202e\" \n}\n";
    assert_eq!(run.stdout, written);
    let answer: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(answer["note"], "\u{9b}31m\u{202e}");
}

#[test]
fn the_function_can_postpone_a_message_and_send_it_to_the_dead_letter_queue() {
    let project = Project::new();
    let message = json!({"messageId": "m-1", "receiptHandle": "r-1", "body": "postpone, give up"});
    let event = message.to_string();
    let run = project.send(&event, &[]);
    run.assert_done();
    run.says(r#"{"Successful":[{"Id":"0"}]}"#);
    run.says("given up: HTTP/1.1 200 OK");
    run.says("\nsent to Dead: 1\n");

    // Without a template, the shell names the dead-letter queue.
    project.remove("template.yaml");
    project.write("event.json", &event);
    let mut command = project.command("invoke", &["event.json"]);
    let failed = "https://sqs.eu-central-1.amazonaws.com/1/failed";
    command.env("SQS_ONCE_NAMESPACE", "");
    Run::of(command.env("SQS_ONCE_DLQ_URL", failed)).says("\nsent to failed: 1\n");
}

#[test]
fn a_variable_of_the_shell_wins_over_the_templates_but_its_credentials_do_not_reach_the_function() {
    let project = Project::new();
    project.event(&[]);
    let mut command = project.command("invoke", &["event.json"]);
    command
        .env("SQS_ONCE_NAMESPACE", "from-the-shell")
        .env("SQS_ONCE_TABLE", "a-real-table")
        .env("AWS_ACCESS_KEY_ID", "a-real-key")
        .env("AWS_PROFILE", "production");
    let run = Run::of(command);
    run.says("namespace: from-the-shell");
    run.says("\nkey id: local\nprofile: None\n");
}

#[test]
fn without_a_template_the_only_stack_in_cdks_output_is_read() {
    let project = Project::new();
    let stack = |namespace: &str| {
        let variables = json!({ "SQS_ONCE_NAMESPACE": namespace });
        let function = json!({
            "Type": "AWS::Lambda::Function",
            "Properties": { "Environment": { "Variables": variables } },
        });
        json!({ "Resources": { "Function": function } }).to_string()
    };
    let read = |namespace: &str| {
        let run = project.send(&event(&[("m-1", "good")]), &[]);
        run.stderr.contains(&format!("namespace: {namespace}\n"))
    };
    project.write("cdk/cdk.out/payments.template.json", &stack("from-cdk"));
    project.write("cdk/cdk.out/more.nested.template.json", "{}");
    assert!(read("from-the-template"));
    project.remove("template.yaml");
    assert!(read("from-cdk"));
    // Which of two stacks has the function is unknown.
    project.write("cdk/cdk.out/other.template.json", "{}");
    assert!(!read("from-cdk"));
}

#[test]
fn the_template_of_the_current_folder_comes_before_that_of_the_workspace() {
    let project = Project::new();
    project.event(&[]);
    let own = TEMPLATE.replace("from-the-template", "from-the-folder");
    project.write("src/template.yaml", &own);
    let mut command = project.command("invoke", &["../event.json"]);
    let run = Run::of(command.current_dir(project.path("src")));
    run.says("namespace: from-the-folder");
}

#[test]
fn of_several_functions_one_must_be_picked_or_named_by_the_template() {
    let project = Project::new();
    project.write("src/bin/refunds.rs", "fn main() { std::process::exit(9) }");
    let several = "error: the workspace has several Lambda functions: pick one with --function";
    project.send("{}", &[]).assert_failed_with(several);
    let refunds = project.send("{}", &["--function", "refunds"]);
    refunds.assert_failed_with("exit status: 9");

    let own = "    Properties:\n      Timeout";
    let binary = "    Metadata: { BuildProperties: { Binary: refunds } }\n";
    let named = TEMPLATE.replace(own, &format!("{binary}{own}"));
    project.write("template.yaml", &named);
    project.send("{}", &[]).assert_failed_with("exit status: 9");
}

#[test]
fn a_function_that_does_not_build_is_an_error_with_the_compilers_words() {
    let project = Project::new();
    project.write("src/main.rs", "fn main() { nonsense }");
    for arguments in [&[][..], &["--format=json"]] {
        let run = project.send("{}", arguments);
        run.assert_failed_with("error: the function `payments` does not build");
        run.says("cannot find value `nonsense`");
    }
}

#[test]
fn tables_of_the_template_are_made_and_one_whose_keys_have_changed_needs_a_reset() {
    let project = Project::new();
    let event = event(&[]);
    let stock = "
  Stock:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema: [{ AttributeName: sku, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: sku, AttributeType: S }]
";
    // The function may write to other tables.
    let two = format!("{TEMPLATE}{stock}");
    for (template, from, to) in [(TEMPLATE, "id", "pk"), (&two, "sku", "article")] {
        let [from, to] = [from, to].map(|name| format!("AttributeName: {name}"));
        project.write("template.yaml", template);
        project.send(&event, &["--reset"]).assert_done();
        project.write("template.yaml", &template.replace(&from, &to));
        let help = "help: --reset starts with an empty database";
        project.send(&event, &[]).assert_failed_with(help);
        project.send(&event, &["--reset"]).assert_done();
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let project = Project::new();
    project.event(&[("m-1", "good")]);
    let mut command = project.command("invoke", &["event.json", "--format=json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn what_the_template_sets_and_this_machine_cannot_is_said_at_the_start_and_if_the_function_does_not_start()
 {
    let project = Project::new();
    let (head, resources) = TEMPLATE.split_once("Resources:").unwrap();
    let set = "          SQS_ONCE_TABLE:";
    let with = format!("          PAYMENTS_URL: !Ref PaymentsUrl\n{set}");
    let parameters = "Parameters: { PaymentsUrl: { Type: String } }\nResources:";
    let template = format!("{head}{parameters}{}", resources.replace(set, &with));
    project.write("template.yaml", &template);
    project.event(&[]);
    let unset = "PAYMENTS_URL is not set, because the parameter `PaymentsUrl` has no default";
    let run = project.invoke(&["event.json"]);
    run.assert_done();
    run.says(unset);

    let mut command = project.command("invoke", &["event.json"]);
    let own = "http://127.0.0.1:1";
    command.env("AWS_ENDPOINT_URL_S3", own);
    let run = Run::of(command.env("PAYMENTS_URL", ""));
    let advice = "where nothing listens; unset it";
    run.says(&format!(
        "AWS_ENDPOINT_URL_S3 is the shell's: {own}, {advice}\n"
    ));
    run.says(&format!("\ns3: {own}\n"));
    assert!(!run.stderr.contains("PAYMENTS_URL"), "{}", run.stderr);

    project.write("src/main.rs", "fn main() { std::process::exit(9) }");
    let run = project.invoke(&["event.json", "--format=json"]);
    run.assert_failed_with("error: the function did not start\n  because: ");
    run.says("exit status: 9");
    run.says(&format!("  help: {unset}"));
    assert!(!run.stderr.contains("claims stay"), "nothing was claimed");
}
