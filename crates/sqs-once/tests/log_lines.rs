//! What the lines of an invocation say, and which of them are written.

#![allow(clippy::unwrap_used, reason = "a test")]

#[path = "support/process.rs"]
mod process;

use std::time::{Duration, SystemTime};

use aws_lambda_events::event::sqs::SqsEvent;
use lambda_runtime::{Context, LambdaEvent};
use process::{Process, is_logging};
use serde_json::{Value, json};
use sqs_once::testing::{Event, Record};
use sqs_once::{HandlerError, MemoryStore, Outcome, Timestamp};
use tower_service::Service;

const RUN: &str = "in_a_process_that_handles_two_batches";
const JSON: (&str, &str) = ("AWS_LAMBDA_LOG_FORMAT", "JSON");

async fn pay(order: Value) -> Result<(), HandlerError> {
    tracing::info!(step = "charge", "said by the handler");
    tracing::debug!("said in detail");
    match order["fails"].as_bool() {
        Some(true) => Err("declined".into()),
        _ => Ok(()),
    }
}

#[tokio::test]
async fn in_a_process_that_handles_two_batches() {
    if !is_logging().await {
        return;
    }
    let mut consumer = sqs_once::consumer::<Value>()
        .key(|order: &Value| order["id"].as_str().map(str::to_owned))
        .namespace("payments")
        .store(MemoryStore::new())
        .handler(pay);
    if std::env::var_os("SET_BY_CODE").is_some() {
        consumer = consumer
            .service("by code")
            .record_level(Outcome::Processed, tracing::Level::DEBUG);
    }
    for request_id in ["r-1", "r-2"] {
        let event = Event::of([
            Record::json(&json!({ "id": "o-1" })),
            Record::json(&json!({ "id": "o-2", "fails": true })),
        ]);
        let mut context = Context::default();
        let in_a_minute = SystemTime::now() + Duration::from_secs(60);
        context.deadline = Timestamp::from(in_a_minute).as_millis();
        context.request_id = request_id.to_owned();
        context.xray_trace_id = Some(
            "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1".to_owned(),
        );
        let event: SqsEvent = serde_json::from_str(event.as_json()).unwrap();
        consumer
            .call(LambdaEvent::new(event, context))
            .await
            .unwrap();
    }
    std::process::exit(0);
}

/// The lines of a run with these variables.
fn lines(variables: &[(&str, &str)]) -> Vec<Value> {
    let variables: Vec<_> = variables.iter().copied().chain([JSON]).collect();
    let lines = Process::with(RUN, &variables).rest();
    lines
        .iter()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn said<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    lines
        .iter()
        .filter(|line| line["message"] == message)
        .collect()
}

#[test]
fn every_line_of_an_invocation_says_service_request_trace_and_cold_start() {
    let lines = lines(&[]);
    let of_invocations: Vec<_> = lines
        .iter()
        .filter(|line| !line["message_id"].is_null())
        .collect();
    // Each record's own line, and what the handler said of those that it ran for.
    assert_eq!(of_invocations.len(), 2 + 2 + 2 + 1, "{lines:#?}");
    for line in of_invocations {
        assert_eq!(line["service"], "payments", "{line}");
        assert_eq!(
            line["xray_trace_id"], "1-5759e988-bd862e3fe1be46a994272793",
            "{line}"
        );
        let is_first = line["function_request_id"] == "r-1";
        assert!(is_first || line["function_request_id"] == "r-2", "{line}");
        assert_eq!(line["cold_start"], is_first, "{line}");
    }
    let handlers = said(&lines, "said by the handler");
    assert_eq!(handlers[0]["step"], "charge");
    assert!(
        handlers[0]["key"]
            .as_str()
            .unwrap()
            .starts_with("payments#")
    );
}

#[test]
fn an_environment_made_ready_ahead_of_time_has_no_cold_start() {
    let lines = lines(&[("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency")]);
    let handlers = said(&lines, "said by the handler");
    assert!(
        handlers.iter().all(|line| line["cold_start"] == false),
        "{lines:#?}"
    );
}

#[test]
fn the_service_is_ours_then_powertools_then_the_namespace() {
    let service = |variables: &[(&str, &str)]| lines(variables).pop().unwrap()["service"].clone();
    let powertools = ("POWERTOOLS_SERVICE_NAME", "powertools");
    assert_eq!(service(&[powertools]), "powertools");
    assert_eq!(service(&[powertools, ("SQS_ONCE_SERVICE", "ours")]), "ours");
    let all = [
        powertools,
        ("SQS_ONCE_SERVICE", "ours"),
        ("SET_BY_CODE", "1"),
    ];
    assert_eq!(service(&all), "by code");
}

#[test]
fn the_level_of_a_records_line_is_chosen_by_its_outcome() {
    let levels = ("SQS_ONCE_RECORD_LEVELS", "duplicate=debug, failed=ERROR");
    let lines = lines(&[levels]);
    assert_eq!(said(&lines, "record processed")[0]["level"], "INFO");
    assert_eq!(said(&lines, "record failed")[0]["level"], "ERROR");
    assert_eq!(said(&lines, "record duplicate").len(), 0, "{lines:#?}");
}

#[test]
fn what_the_code_says_of_levels_wins_over_the_environment() {
    let all_errors = ("SQS_ONCE_RECORD_LEVELS", "processed=error");
    let lines = lines(&[all_errors, ("SET_BY_CODE", "1")]);
    assert_eq!(said(&lines, "record processed").len(), 0, "{lines:#?}");
    assert_eq!(said(&lines, "record failed")[0]["level"], "WARN");
}

#[test]
fn a_sampled_invocation_says_everything_from_debug_on() {
    for variable in ["SQS_ONCE_LOG_SAMPLE_RATE", "POWERTOOLS_LOGGER_SAMPLE_RATE"] {
        assert_eq!(said(&lines(&[(variable, "1")]), "said in detail").len(), 3);
        assert_eq!(said(&lines(&[(variable, "0")]), "said in detail").len(), 0);
    }
    assert_eq!(said(&lines(&[]), "said in detail").len(), 0);
}

#[test]
fn sampling_leaves_alone_what_is_not_of_a_sampled_invocation() {
    let all = lines(&[("SQS_ONCE_LOG_SAMPLE_RATE", "1")]);
    let outside = all
        .iter()
        .filter(|line| line["function_request_id"].is_null());
    for line in outside {
        assert!(
            line["level"] == "ERROR" || line["level"] == "WARN" || line["level"] == "INFO",
            "{line}"
        );
    }
}

#[test]
fn a_setting_that_cant_be_read_is_named() {
    for (variable, value) in [
        ("SQS_ONCE_RECORD_LEVELS", "processed"),
        ("SQS_ONCE_RECORD_LEVELS", "done=info"),
        ("SQS_ONCE_RECORD_LEVELS", "processed=loud"),
        ("SQS_ONCE_LOG_SAMPLE_RATE", "1.5"),
        ("POWERTOOLS_LOGGER_SAMPLE_RATE", "often"),
    ] {
        let mut process = Process::with(RUN, &[JSON, (variable, value)]);
        let line: Value = serde_json::from_str(&process.line()).unwrap();
        let error = line["error"].as_str().unwrap();
        assert!(
            error.starts_with(variable) && error.contains(value),
            "{error}"
        );
    }
}
