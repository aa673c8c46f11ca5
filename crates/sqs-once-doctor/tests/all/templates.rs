//! Reading and editing templates, in addition to the rules' own templates.

use crate::examples;
use sqs_once_doctor::{ReadError, Source};
use std::path::Path;

const BELOW: &str = "visibility-timeout-below-function-timeout";

fn source(text: &str) -> Source {
    // A folder without a manifest.
    Source::new(Path::new("/nowhere/template.yaml"), text)
}

/// The findings, without what only the deployment knows.
fn rules(text: &str) -> Vec<&'static str> {
    let mut findings = source(text).examine().unwrap();
    findings.retain(|finding| !finding.rule.is_unread_part());
    findings.iter().map(|finding| finding.rule.id).collect()
}

/// The text after all fixes.
fn fixed(text: &str) -> String {
    let fixes = source(text).fix().unwrap();
    let fixed = fixes.files.into_iter().next();
    fixed.map_or(text.to_owned(), |(_, text)| text)
}

#[track_caller]
fn assert_finds_but_does_not_fix(text: &str, rule: &str) {
    assert_eq!(rules(text), [rule]);
    assert_eq!(fixed(text), text);
}

/// A consumer whose queue has these properties and causes no other findings.
fn consumer(queue: &str) -> String {
    format!(
        "Parameters:
  Seconds: {{ Type: Number }}
Conditions:
  Fast: !Equals [!Ref Seconds, 1]
Resources:
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 30
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
  OnlyOverTls:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref Orders, !Ref Dead]
      PolicyDocument:
        Statement:
          - Effect: Deny
            Principal: '*'
            Action: sqs:*
            Resource: '*'
            Condition: {{ Bool: {{ aws:SecureTransport: false }} }}
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      RedrivePolicy: {{ deadLetterTargetArn: !ImportValue Dead, maxReceiveCount: 5 }}
{queue}"
    )
}

#[test]
fn each_case_has_its_findings_and_its_fixes_and_no_others() {
    for (name, over, template) in examples::cases() {
        let (case, found) = name.split_once(':').unwrap();
        let mut rules = rules(&template);
        rules.sort_unstable();
        let found: Vec<&str> = found.split_whitespace().collect();
        assert_eq!(rules, found, "{case}");
        let marks = |mark| over.lines().filter_map(move |line| line.strip_prefix(mark));
        let findings = source(&template).examine().unwrap();
        for message in marks("# says: ") {
            let is_said = findings.iter().any(|it| it.message == message);
            assert!(is_said, "{case}: {findings:#?}");
        }
        let fixed = fixed(&template);
        for text in marks("# fixed: ") {
            assert!(fixed.contains(text), "{case}: {fixed}");
        }
        if over.starts_with("# not fixed\n") {
            assert_eq!(fixed, template, "{case}");
        }
        let left = source(&fixed).examine().unwrap();
        assert!(!left.iter().any(|it| it.is_fixable), "{case}: {left:#?}");
    }
}

const JSON: &str = include_str!("../orders.json");

#[test]
fn json_stays_json_as_people_write_it() {
    let found = ["dead-letter-queue-missing", "visibility-timeout-too-short"];
    assert_eq!(rules(JSON), found);
    let fixed = fixed(JSON);
    serde_json::from_str::<serde_json::Value>(&fixed).unwrap();
    assert!(fixed.contains("\"VisibilityTimeout\": 60\n"), "{fixed}");
    let added = "            \"Properties\": {
                \"RedrivePolicy\": {
                  \"maxReceiveCount\": 5,
                  \"deadLetterTargetArn\": {";
    assert!(fixed.contains(added), "{fixed}");
    assert_eq!(rules(&fixed), [""; 0]);
}

#[test]
fn a_fix_keeps_comments_order_and_line_ends() {
    let before = consumer(
        "      # As long as six charges take. # Really.
      VisibilityTimeout: 20   # was 10
      # The end.
Outputs: {} # nothing
",
    );
    let after = before.replace("VisibilityTimeout: 20 ", "VisibilityTimeout: 180 ");
    let name = consumer("      # First.\n      QueueName: orders # its name\n\nOutputs: {}\n");
    let named = name.replace("its name\n", "its name\n      VisibilityTimeout: 180\n");
    for (before, after) in [(before, after), (name, named)] {
        assert_eq!(fixed(&before), after);
        let crlf = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(fixed(&crlf(&before)), crlf(&after));
    }
}

#[test]
fn a_fix_that_would_change_anything_else_is_not_made() {
    let condition = consumer("      VisibilityTimeout: !If [Fast, 10, 10]\n");
    assert_finds_but_does_not_fix(&condition, BELOW);
    let aliased = consumer("      VisibilityTimeout: *seconds\n");
    let aliased = aliased.replace("Type: Number", "Type: Number, Default: &seconds 10");
    assert_finds_but_does_not_fix(&aliased, BELOW);
    let shared = consumer("      VisibilityTimeout: 10\n").replace(
        "Queue\n    Properties:\n",
        "Queue\n    Properties: &properties\n",
    ) + "  Others:\n    Type: AWS::SQS::Queue\n    Properties: *properties\n";
    assert_finds_but_does_not_fix(&shared, BELOW);
}

#[test]
fn functions_that_may_answer_anything_are_not_told_to_report_failures_by_a_fix() {
    let reports = "            FunctionResponseTypes: [ReportBatchItemFailures]\n";
    let python = consumer("      VisibilityTimeout: 180\n")
        .replace(reports, "")
        .replace("      Timeout", "      Runtime: python3.13\n      Timeout");
    assert_finds_but_does_not_fix(&python, "partial-batch-response-missing");
}

#[test]
fn a_fix_has_the_condition_of_what_it_is_for_and_grants_nothing_for_a_wrong_variable() {
    let fixed = fixed(&examples::conditional());
    // Each of 16 cases is judged.
    assert_eq!(rules(&fixed), [""; 0], "{fixed}");
    for n in 1..=4 {
        // The function, its queue and its policy, and then the dead-letter queue, its policy and its alarm.
        let conditional = fixed.matches(&format!("Condition: C{n}\n")).count();
        let url = format!("SQS_ONCE_DLQ_URL: !Ref Orders{n}DeadLetterQueue");
        assert_eq!((conditional, fixed.contains(&url)), (6, true), "{fixed}");
    }
    assert_eq!(fixed.matches("sqs:SendMessage").count(), 4, "{fixed}");
}

#[test]
fn a_text_that_is_not_a_deployment_is_an_error() {
    for text in ["", "a: 1"] {
        let refused = source(text).examine();
        assert!(matches!(refused, Err(ReadError::NoResources)), "{text}");
    }
    assert!(matches!(source("a: [").examine(), Err(ReadError::Yaml(_))));
    let deep = format!("Resources: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(source(&deep).examine().is_err());
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..40 {
        bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
    }
    assert!(matches!(source(&bomb).examine(), Err(ReadError::TooLarge)));
}

#[test]
fn a_key_that_is_twice_in_a_mapping_is_an_error_with_both_lines() {
    for (text, key, first, second) in [
        (
            "Resources:\n  Orders:\n    A: 30\n    B: 0\n    A: 180\n",
            "A",
            3,
            5,
        ),
        ("{\"Resources\": {\"A\": {},\n \"A\": {}}}", "A", 1, 2),
    ] {
        let refused = source(text).examine().unwrap_err().to_string();
        let expected =
            format!("`{key}` is on line {first} and again on line {second}: remove one of the two");
        assert_eq!(refused, expected);
    }
}

#[test]
fn a_serverless_configuration_names_the_template_to_examine_instead() {
    let text = "service: orders
provider: { name: aws, runtime: provided.al2023 }
functions:
  charge: { handler: charge, events: [{ sqs: arn:aws:sqs:eu-central-1:123456789012:orders }] }
resources:
  Resources:
    Orders: { Type: AWS::SQS::Queue }
";
    let refused = source(text).examine().unwrap_err().to_string();
    let template = "cargo sqs-once doctor .serverless/cloudformation-template-update-stack.json";
    assert!(refused.contains(template), "{refused}");
}

#[test]
fn what_a_merge_key_brings_in_is_not_missing() {
    let template = consumer("      VisibilityTimeout: 180").replace(
        "            FunctionResponseTypes: [ReportBatchItemFailures]",
        "            <<: *defaults",
    );
    let template = format!(
        "Metadata:\n  Defaults: &defaults\n    FunctionResponseTypes: [ReportBatchItemFailures]\n{template}"
    );
    assert_eq!(rules(&template), [""; 0]);
}

#[test]
fn a_byte_order_mark_stays_in_front() {
    let template = format!("\u{feff}{}", consumer("      VisibilityTimeout: 60"));
    let expected = template.replace("Timeout: 60", "Timeout: 180");
    assert_eq!(fixed(&template), expected);
}
