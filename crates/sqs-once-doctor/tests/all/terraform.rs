//! Plans in the JSON of `terraform show -json`.

use crate::examples::OF_PLANS;
use serde_json::{Value, json};
use sqs_once_doctor::{Finding, Source};
use std::path::{Path, PathBuf};

fn plan(name: &str) -> Source {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    Source::read(&folder.join(format!("{name}.json"))).unwrap()
}

/// Checks the findings of a plan: the rule and the resource of each.
#[track_caller]
fn assert_finds(name: &str, expected: &[&str]) {
    let findings = plan(name).examine().unwrap();
    // Only the apply knows some values.
    let found = findings.iter().filter(|it| !it.rule.is_unread_part());
    let found = found.map(|it| format!("{} {}", it.rule.id, it.place.resource));
    let mut found: Vec<_> = found.collect();
    found.sort();
    assert_eq!(found, expected, "{name}");
}

/// The rules of the findings in a changed plan.
fn rules_of_changed(name: &str, from: &str, to: &str) -> Vec<&'static str> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/plans/{name}.json"));
    let text = std::fs::read_to_string(&file).unwrap();
    let changed = text.replace(from, to);
    assert_ne!(changed, text);
    let findings = Source::new(&file, changed).examine().unwrap();
    findings.iter().map(|it| it.rule.id).collect()
}

#[test]
fn a_plan_has_its_findings_and_no_others() {
    // Only the apply knows the ARNs.
    assert_finds("good", &[]);
    // The configuration has the references.
    let bad = [
        "dead-letter-alarm-wrong-metric aws_cloudwatch_metric_alarm.dead",
        "dead-letter-retention-too-short aws_sqs_queue.dead",
        "partial-batch-response-missing aws_lambda_event_source_mapping.orders",
        "permission-missing aws_lambda_function.charge",
        "permission-wildcard aws_iam_role_policy.charge",
        "queue-accepts-plain-http aws_sqs_queue.dead",
        "queue-accepts-plain-http aws_sqs_queue.orders",
        "reserved-concurrency-without-maximum aws_lambda_function.charge",
        "ttl-missing aws_dynamodb_table.keys",
        "visibility-timeout-too-short aws_sqs_queue.orders",
    ];
    assert_finds("bad", &bad);
    // The provider fills in later what the configuration omits.
    let new = [
        "dead-letter-queue-missing aws_sqs_queue.charge",
        "permission-missing aws_lambda_function.charge",
        "queue-accepts-plain-http aws_sqs_queue.charge",
    ];
    assert_finds("new", &new);
    // An earlier apply created the resources, so their ARNs are known.
    assert_finds("known", &["max-receive-count-too-low aws_sqs_queue.orders"]);
    // A module has several instances, and a variable has an unknown value.
    let below = "visibility-timeout-below-function-timeout";
    let of_module = format!("{below} module.consumer.aws_sqs_queue.orders[\"us\"]");
    assert_finds("modules", &[&of_module]);
}

#[test]
fn a_role_is_recognised_though_its_function_has_the_same_name() {
    let basic = "service-role/AWSLambdaBasicExecutionRole";
    let poller = "service-role/AWSLambdaSQSQueueExecutionRole";
    let found = ["dead-letter-queue-missing", "queue-accepts-plain-http"];
    assert_eq!(rules_of_changed("new", basic, poller), found);
}

#[test]
fn a_queues_policy_is_its_own_or_a_resource() {
    for queue in ["orders-dead", "orders"] {
        let arn = format!("Resource\\\": \\\"arn:aws:sqs:eu-central-1:123456789012:{queue}\\");
        let other = "Resource\\\": \\\"arn:aws:sqs:eu-central-1:1:other\\";
        let found = rules_of_changed("known", &arn, other);
        assert!(found.contains(&"queue-accepts-plain-http"), "{queue}");
    }
}

#[test]
fn the_snippets_are_of_terraforms_language() {
    let findings = plan("bad").examine().unwrap();
    let mut all = findings.iter();
    let visibility = all.find(|it| it.rule.id == "visibility-timeout-too-short");
    let snippet = "# aws_sqs_queue.orders\nvisibility_timeout_seconds = 180";
    assert_eq!(visibility.unwrap().snippet, snippet);
    let is_for_plan = |it: &Finding| !it.is_fixable && it.place.position.is_none();
    assert!(findings.iter().all(is_for_plan));
}

/// A subscriber of an event bus in a plan with these actions, and what it says of its start.
fn subscriber(actions: &[&str], start: &str) -> Vec<String> {
    let resource = |kind: &str, values: Value| {
        json!({
            "address": format!("{kind}.orders"), "mode": "managed", "type": kind, "name": "orders", "values": values,
        })
    };
    let queue = "arn:aws:sqs:eu-central-1:111122223333:orders";
    let subscriber = json!({
        "starting_position": start,
        "invoke_configuration": {"target_arn": queue, "role_arn": "arn:aws:iam::111122223333:role/bus"},
        "on_failure_configuration": {"arn": "arn:aws:sqs:eu-central-1:111122223333:failures"},
    });
    let resources = [
        resource("aws_sqs_queue", json!({"arn": queue})),
        resource("awscc_eventsv2_subscriber", subscriber),
    ];
    let change = json!({"actions": actions, "after_unknown": {}});
    let plan = json!({
        "planned_values": {"root_module": {"resources": resources}},
        "resource_changes": [{"address": "awscc_eventsv2_subscriber.orders", "change": change}],
    });
    let source = Source::new(Path::new("plan.json"), plan.to_string());
    let findings = source.examine().unwrap().into_iter();
    // Its role is elsewhere.
    let findings = findings.filter(|it| !it.rule.is_unread_part());
    let finding = |it: Finding| format!("{} {}", it.rule.id, it.place.resource);
    findings.map(finding).collect()
}

#[test]
fn a_plan_that_deletes_a_subscriber_before_it_creates_it_anew_is_found() {
    let replaced = format!("{OF_PLANS} awscc_eventsv2_subscriber.orders");
    assert_eq!(subscriber(&["delete", "create"], "LATEST"), [replaced]);
    // The new one reads what the old one missed, or is there first.
    assert_eq!(subscriber(&["delete", "create"], "POINT_IN_TIME"), [""; 0]);
    assert_eq!(subscriber(&["create", "delete"], "LATEST"), [""; 0]);
    assert_eq!(subscriber(&["update"], "LATEST"), [""; 0]);
}

fn configuration(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/configurations");
    folder.join(name)
}

/// Checks the findings of a configuration: the rule, the resource, and the line of its block.
#[track_caller]
fn assert_finds_in_configuration(name: &str, expected: &[&str]) {
    let findings = Source::read(&configuration(name))
        .unwrap()
        .examine()
        .unwrap();
    let found = findings.iter().map(|it| {
        let line = it.place.position.map_or(0, |(line, _)| line.get());
        format!("{line} {} {}", it.rule.id, it.place.resource)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{name}");
}

#[test]
fn a_configuration_has_its_findings_at_their_lines() {
    assert_finds_in_configuration("good", &[]);
    let bad = [
        "6 queue-accepts-plain-http aws_sqs_queue.orders",
        "6 visibility-timeout-too-short aws_sqs_queue.orders",
        "11 dead-letter-retention-too-short aws_sqs_queue.dead",
        "11 queue-accepts-plain-http aws_sqs_queue.dead",
        "17 dead-letter-alarm-wrong-metric aws_cloudwatch_metric_alarm.dead",
        "27 table-not-protected aws_dynamodb_table.keys",
        "27 ttl-missing aws_dynamodb_table.keys",
        "36 permission-wildcard aws_iam_role_policy.charge",
        "47 dead-letter-url-wrong aws_lambda_function.charge",
        // To poll the queue, to delay its messages, and to send to the dead-letter queue.
        "47 permission-missing aws_lambda_function.charge",
        "47 permission-missing aws_lambda_function.charge",
        "47 permission-missing aws_lambda_function.charge",
        "64 maximum-concurrency-above-reserved aws_lambda_event_source_mapping.orders",
        "64 partial-batch-response-missing aws_lambda_event_source_mapping.orders",
    ];
    assert_finds_in_configuration("bad", &bad);
}

#[test]
fn what_only_the_deployment_of_a_configuration_knows_is_named_and_never_a_finding() {
    let unread = [
        "14 part-not-examined module.queue",
        "20 part-not-examined aws_sqs_queue.more",
        // Its role, its table and its dead-letter queue.
        "25 part-not-examined aws_lambda_function.charge",
        "25 part-not-examined aws_lambda_function.charge",
        "25 part-not-examined aws_lambda_function.charge",
        "36 part-not-examined aws_lambda_event_source_mapping.orders",
        "42 part-not-examined aws_sns_topic_subscription.orders",
        "48 part-not-examined aws_s3_bucket_notification.orders",
        "60 part-not-examined aws_pipes_pipe.orders",
    ];
    assert_finds_in_configuration("unread", &unread);
}

#[test]
fn a_file_of_a_configuration_stands_for_its_folder() {
    let file = configuration("bad").join("main.tf");
    let source = Source::read(&file).unwrap();
    let findings = source.examine().unwrap().len();
    assert!(findings > 10);
    // The doctor writes no Terraform.
    let fixes = source.fix().unwrap();
    assert_eq!((fixes.left.len(), fixes.files.len()), (findings, 0));
}

#[test]
fn a_configuration_that_is_not_valid_names_its_file() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(
        folder.path().join("main.tf"),
        "resource \"aws_sqs_queue\" {",
    )
    .unwrap();
    let error = Source::read(folder.path()).unwrap().examine().unwrap_err();
    assert!(
        error.to_string().ends_with("main.tf is not valid HCL"),
        "{error}"
    );
}

#[test]
fn a_folder_may_be_of_opentofu_of_json_or_of_cdk() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    let queue = "resource \"aws_sqs_queue\" \"orders\" {}";
    let template = "{\"Resources\": {\"A\": {\"Type\": \"AWS::SQS::Queue\"}}}";
    write("tofu/main.tofu", queue);
    write("tofu/main.tf", "resource {");
    write("json/main.tf.json", "{}");
    write("one/A.template.json", template);
    write("two/A.template.json", template);
    write("two/B.template.json", template);
    write("app/cdk.json", "{}");
    let examine = |name: &str| Source::read(&folder.path().join(name))?.examine();
    assert_eq!(examine("tofu").unwrap().len(), 0);
    assert_eq!(examine("one").unwrap().len(), 0);
    let [unread] = &examine("json").unwrap()[..] else {
        panic!("one note")
    };
    assert_eq!(unread.message, "main.tf.json was not examined.");
    for (name, advice) in [
        ("two", "two/B.template.json"),
        ("app", "npx cdk synth"),
        ("", "name the template, the plan or the folder"),
    ] {
        let error = examine(name).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
}
