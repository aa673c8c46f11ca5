//! Plans in the JSON of `terraform show -json`.

use sqs_once_doctor::{FixError, Source, WriteError};
use std::path::Path;

fn plan(name: &str) -> Source {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans");
    Source::read(&folder.join(format!("{name}.json"))).unwrap()
}

/// Rule and address of all findings.
fn findings(name: &str) -> Vec<(&'static str, String)> {
    let findings = plan(name).examine().unwrap();
    let mut found: Vec<_> = findings
        .into_iter()
        .map(|finding| (finding.rule.id, finding.place.resource))
        .collect();
    found.sort();
    found
}

#[test]
fn a_sound_plan_has_no_findings_though_the_apply_alone_knows_the_arns() {
    assert_eq!(findings("good"), []);
}

#[test]
fn what_refers_to_what_is_read_from_the_configuration() {
    let found = findings("bad");
    let found: Vec<_> = found
        .iter()
        .map(|(rule, at)| (*rule, at.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (
                "dead-letter-alarm-wrong-metric",
                "aws_cloudwatch_metric_alarm.dead"
            ),
            ("dead-letter-retention-too-short", "aws_sqs_queue.dead"),
            (
                "partial-batch-response-missing",
                "aws_lambda_event_source_mapping.orders"
            ),
            ("permission-missing", "aws_lambda_function.charge"),
            ("permission-wildcard", "aws_iam_role_policy.charge"),
            ("queue-accepts-plain-http", "aws_sqs_queue.dead"),
            ("queue-accepts-plain-http", "aws_sqs_queue.orders"),
            (
                "reserved-concurrency-without-maximum",
                "aws_lambda_function.charge"
            ),
            ("ttl-missing", "aws_dynamodb_table.keys"),
            ("visibility-timeout-too-short", "aws_sqs_queue.orders"),
        ]
    );
}

#[test]
fn what_nobody_gives_is_missing_though_the_provider_fills_it_in_later() {
    let found = findings("new");
    assert_eq!(
        found,
        [
            (
                "dead-letter-queue-missing",
                "aws_sqs_queue.charge".to_owned()
            ),
            (
                "permission-missing",
                "aws_lambda_function.charge".to_owned()
            ),
            (
                "queue-accepts-plain-http",
                "aws_sqs_queue.charge".to_owned()
            ),
        ]
    );
}

#[test]
fn a_role_is_recognised_though_its_function_has_the_same_name() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/new.json");
    let poller = "service-role/AWSLambdaSQSQueueExecutionRole";
    let text = std::fs::read_to_string(&file).unwrap();
    let text = text.replace("service-role/AWSLambdaBasicExecutionRole", poller);
    let findings = Source::new(&file, text).examine().unwrap();
    let found: Vec<&str> = findings.iter().map(|it| it.rule.id).collect();
    assert_eq!(
        found,
        ["dead-letter-queue-missing", "queue-accepts-plain-http"]
    );
}

#[test]
fn what_an_earlier_apply_made_is_known_by_its_arn() {
    let found = findings("known");
    assert_eq!(
        found,
        [(
            "max-receive-count-too-low",
            "aws_sqs_queue.orders".to_owned()
        )]
    );
}

#[test]
fn a_queues_policy_is_its_own_or_a_resource() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/plans/known.json");
    let text = std::fs::read_to_string(&file).unwrap();
    for queue in ["orders-dead", "orders"] {
        let arn = format!("Resource\\\": \\\"arn:aws:sqs:eu-central-1:123456789012:{queue}\\");
        let changed = text.replace(&arn, "Resource\\\": \\\"arn:aws:sqs:eu-central-1:1:other\\");
        assert_ne!(changed, text);
        let findings = Source::new(&file, changed).examine().unwrap();
        let found: Vec<&str> = findings.iter().map(|it| it.rule.id).collect();
        assert!(found.contains(&"queue-accepts-plain-http"), "{queue}");
    }
}

#[test]
fn instances_of_a_module_are_told_apart_and_what_a_variable_brings_in_is_unknown() {
    let found = findings("modules");
    let at = "module.consumer.aws_sqs_queue.orders[\"us\"]".to_owned();
    assert_eq!(found, [("visibility-timeout-below-function-timeout", at)]);
}

#[test]
fn the_snippets_are_of_terraforms_language() {
    let findings = plan("bad").examine().unwrap();
    let visibility = findings
        .iter()
        .find(|it| it.rule.id == "visibility-timeout-too-short")
        .unwrap();
    assert_eq!(
        visibility.snippet,
        "# aws_sqs_queue.orders\nvisibility_timeout_seconds = 180"
    );
    assert!(
        findings
            .iter()
            .all(|finding| !finding.is_fixable && finding.place.position.is_none())
    );
}

#[test]
fn a_plan_is_not_fixed() {
    let refused = plan("bad").fix().unwrap_err();
    assert!(
        matches!(refused, FixError::Write(WriteError::Plan)),
        "{refused}"
    );
}
