//! The content of an invocation's log lines, and the lines that each level writes.

use std::collections::BTreeSet;
use std::fs;

use crate::guides::files;
use crate::support::process::{Process, is_logging};
use crate::support::{OpenedBy, assert_contains, invoke, values};
use lambda_runtime::Context;
use serde_json::{Value, json};
use sqs_once::body::Opened;
use sqs_once::store::MemoryStore;
use sqs_once::telemetry::{Outcome, Telemetry};
use sqs_once::testing::{Event, Record};
use sqs_once::{Consumer, HandlerError, Router};

const RUN: &str = "in_a_process_that_handles_two_batches";
const WARNS: &str = "TEST_WARNS";

async fn pay(order: Value) -> Result<(), HandlerError> {
    if std::env::var_os(WARNS).is_some() {
        tracing::warn!("the handler speaks");
    }
    tracing::info!(step = "charge", "said by the handler");
    tracing::debug!("said in detail");
    crate::support::pay(order).await
}

#[tokio::test]
async fn in_a_process_that_handles_two_batches() {
    if !is_logging().await {
        return;
    }
    let mut handler = values().call(pay).namespace("payments");
    if std::env::var_os(WARNS).is_some() {
        let envelope = OpenedBy(|_| {
            tracing::warn!("the envelope speaks");
            Ok(Opened::untouched())
        });
        handler = handler.envelope(envelope);
        handler = handler.on_failure(async |_| Err("the pager is away".into()));
    }
    let mut consumer = match std::env::var_os("ROUTED") {
        Some(_) => {
            let routes = Router::by_attribute("correlation-id");
            let routes = routes.route("checkout-7", handler.clone());
            Consumer::new(routes.fallback(handler.namespace("others")))
        }
        None => Consumer::new(handler),
    };
    consumer = consumer.store(MemoryStore::new());
    if std::env::var_os("SET_BY_CODE").is_some() {
        let telemetry = Telemetry::new().service("by code");
        let telemetry = telemetry.record_level(Outcome::Processed, tracing::Level::DEBUG);
        consumer = consumer.telemetry(telemetry);
    }
    for request_id in ["r-1", "r-2"] {
        let failing = Record::json(&json!({ "id": "o-2", "does": "fail" }));
        let failing = failing.attribute("correlation-id", "checkout-7");
        let mut records = [Record::json(&json!({ "id": "o-1" })), failing];
        if std::env::var_os("ROUTED").is_some() {
            let [one, other] = records;
            records = [one.fifo("a"), other.fifo("b")];
        }
        let event = Event::new(records);
        let trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=53995c3f42cd8ad8;Sampled=1";
        let mut context = Context::default();
        context.request_id = request_id.to_owned();
        context.xray_trace_id = Some(trace.to_owned());
        invoke(&consumer, &event, context).await;
    }
    std::process::exit(0);
}

fn lines(variables: &[(&str, &str)]) -> Vec<Value> {
    let lines = Process::start(module_path!(), RUN, variables).rest();
    let lines = lines.iter().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

fn said<'a>(lines: &'a [Value], message: &str) -> Vec<&'a Value> {
    let said = lines.iter().filter(|line| line["message"] == message);
    said.collect()
}

#[test]
fn every_line_of_an_invocation_says_service_request_trace_and_cold_start() {
    let lines = lines(&[]);
    let of_invocations = lines.iter().filter(|line| !line["message_id"].is_null());
    // Each record's own line, and the handler's lines.
    assert_eq!(of_invocations.clone().count(), 2 + 2 + 2 + 1, "{lines:#?}");
    let trace = "1-5759e988-bd862e3fe1be46a994272793";
    for line in of_invocations {
        assert_eq!(line["service"], "payments", "{line}");
        let is_first = line["function_request_id"] == "r-1";
        assert!(is_first || line["function_request_id"] == "r-2", "{line}");
        if line["target"] == "sqs_once::record" {
            // A message's own line leaves these out: they would be a fifth of the log.
            assert!(line["xray_trace_id"].is_null() && line["cold_start"].is_null());
            continue;
        }
        assert_eq!(line["xray_trace_id"], trace, "{line}");
        assert_eq!(line["cold_start"], is_first, "{line}");
    }
    let handlers = said(&lines, "said by the handler");
    assert_eq!(handlers[0]["step"], "charge");
    let key = handlers[0]["key"].as_str().unwrap();
    assert!(key.starts_with("payments#"));
    // An environment that is made ready ahead of time has no cold start.
    let ready = ("AWS_LAMBDA_INITIALIZATION_TYPE", "provisioned-concurrency");
    let lines = self::lines(&[ready]);
    let mut handlers = said(&lines, "said by the handler").into_iter();
    assert!(handlers.all(|line| line["cold_start"] == false));
}

#[test]
fn the_service_is_ours_then_powertools_then_the_namespace() {
    let service = |variables: &[(&str, &str)]| lines(variables).pop().unwrap()["service"].clone();
    let powertools = ("POWERTOOLS_SERVICE_NAME", "powertools");
    assert_eq!(service(&[powertools]), "powertools");
    assert_eq!(service(&[powertools, ("SQS_ONCE_SERVICE", "ours")]), "ours");
    let ours = ("SQS_ONCE_SERVICE", "ours");
    let by_code = service(&[powertools, ours, ("SET_BY_CODE", "1")]);
    assert_eq!(by_code, "by code");
}

#[test]
fn the_level_of_a_records_line_is_chosen_by_its_outcome_and_the_code_wins() {
    let levels = ("SQS_ONCE_RECORD_LEVELS", "duplicate=debug, failed=ERROR");
    let set = lines(&[levels]);
    assert_eq!(said(&set, "message processed")[0]["level"], "INFO");
    assert_eq!(said(&set, "message failed")[0]["level"], "ERROR");
    assert_eq!(said(&set, "message duplicate").len(), 0, "{set:#?}");

    let all_errors = ("SQS_ONCE_RECORD_LEVELS", "processed=error");
    let by_code = lines(&[all_errors, ("SET_BY_CODE", "1")]);
    assert_eq!(said(&by_code, "message processed").len(), 0, "{by_code:#?}");
    assert_eq!(said(&by_code, "message failed")[0]["level"], "WARN");
}

#[test]
fn a_sampled_invocation_and_nothing_outside_of_it_says_everything_from_debug_on() {
    let rate = |rate| lines(&[("POWERTOOLS_LOGGER_SAMPLE_RATE", rate)]);
    let sampled = rate("1");
    assert_eq!(said(&sampled, "said in detail").len(), 3);
    let mut outside = sampled
        .iter()
        .filter(|line| line["function_request_id"].is_null());
    assert!(outside.all(|line| line["level"] != "DEBUG" && line["level"] != "TRACE"));
    assert_eq!(said(&rate("0"), "said in detail").len(), 0);
    assert_eq!(said(&lines(&[]), "said in detail").len(), 0);
}

#[test]
fn whatever_is_logged_of_a_record_names_it_at_every_level() {
    let lines = lines(&[(WARNS, "1"), ("AWS_LAMBDA_LOG_LEVEL", "WARN")]);
    assert!(lines.iter().all(|line| line["level"] != "INFO"));
    let last = |message: &str| said(&lines, message).pop().unwrap();
    let of_hook = "a failure hook failed, which changes nothing";
    for line in [last("the handler speaks"), last(of_hook)] {
        assert_eq!(line["function_request_id"], "r-2");
        assert_eq!(line["message_id"], "m-2");
        assert_eq!(line["correlation_id"], "checkout-7");
        assert!(line["key"].as_str().unwrap().starts_with("payments#"));
    }
    // The consumer has not parsed the envelope yet.
    assert_eq!(last("the envelope speaks")["message_id"], "m-2");
}

#[test]
fn an_empty_filter_is_none() {
    assert_eq!(lines(&[("RUST_LOG", "")]).len(), lines(&[]).len());
}

#[test]
fn a_setting_that_cant_be_read_is_named() {
    for (variable, value) in [
        ("SQS_ONCE_RECORD_LEVELS", "processed"),
        ("SQS_ONCE_RECORD_LEVELS", "done=info"),
        ("SQS_ONCE_RECORD_LEVELS", "processed=loud"),
        ("POWERTOOLS_LOGGER_SAMPLE_RATE", "1.5"),
        ("POWERTOOLS_LOGGER_SAMPLE_RATE", "often"),
    ] {
        let mut process = Process::start(module_path!(), RUN, &[(variable, value)]);
        let line: Value = serde_json::from_str(&process.line()).unwrap();
        let error = line["error"].as_str().unwrap();
        assert!(error.starts_with(variable), "{error}");
        assert_contains!(error, value);
    }
}

const OBSERVABILITY: &str = include_str!("../../../../docs/observability.md");
const METRICS: &str = include_str!("../../../../docs/metrics.md");
const OPERATIONS: &str = include_str!("../../../../docs/operations.md");

/// The names in the first column of a guide's first table with this heading.
fn documented(guide: &str, heading: &str) -> BTreeSet<String> {
    let (_, rows) = guide.split_once(&format!("| {heading} |")).unwrap();
    let rows = rows.lines().skip(2).take_while(|row| row.starts_with('|'));
    let names = rows.flat_map(|row| row.split('|').nth(1).unwrap().split(','));
    let names = names.map(|name| name.trim().trim_matches('`').to_owned());
    names.collect()
}

#[test]
fn a_records_line_has_the_fields_that_the_guide_names_and_no_others() {
    let lines = lines(&[("ROUTED", "1")]);
    let ends = lines
        .iter()
        .filter(|line| line["target"] == "sqs_once::record");
    let fields = ends.flat_map(|line| line.as_object().unwrap().keys().cloned());
    let mut fields: BTreeSet<_> = fields.collect();
    fields.extend(["xray_trace_id", "cold_start"].map(str::to_owned));
    assert_eq!(fields, documented(OBSERVABILITY, "field"));
}

#[test]
fn the_queries_ask_for_fields_and_words_that_there_are() {
    // Words of the query language.
    const WORDS: &str = "as bin by count count_distinct desc fields filter h in ispresent like limit m max pct sort stats sum and";
    let mut known = documented(OBSERVABILITY, "field");
    known.extend(documented(METRICS, "metric"));
    // Fields of the warning about the visibility timeout.
    known.extend(["records", "visibility_timeout_ms"].map(str::to_owned));
    let sources = files("src".as_ref(), "rs").into_iter();
    let sources = sources.map(|file| fs::read_to_string(file).unwrap());
    let sources: String = sources.collect();

    let (_, queries) = OPERATIONS.split_once("## Queries").unwrap();
    let queries: Vec<_> = queries.split("```text\n").skip(1).collect();
    assert!(queries.len() > 5);
    for query in queries {
        let (query, _) = query.split_once("```").unwrap();
        let quoted = query.split('"').skip(1).step_by(2);
        // The other texts are an example key and an example request.
        for text in quoted.filter(|text| !text.contains(char::is_numeric)) {
            assert!(sources.contains(text), "nobody says {text:?}");
        }
        let code: String = query.split('"').step_by(2).collect();
        let names = code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let names = names.map(|name| name.trim_start_matches(char::is_numeric));
        let names: Vec<_> = names.filter(|name| !name.is_empty()).collect();
        for name in &names {
            let is_word = WORDS.split(' ').any(|word| word == *name);
            let is_named_here = names.windows(2).any(|pair| pair == ["as", name]);
            let is_known = is_word || is_named_here || known.contains(*name);
            assert!(is_known, "{name} in {query}");
        }
    }
}
