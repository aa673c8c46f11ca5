//! Environment variables with the library's prefix that it does not know.

use std::collections::BTreeSet;

use crate::support::process::has;
use crate::support::{Log, Order, assert_contains, orders};
use sqs_once::store::MemoryStore;
use sqs_once::{ConfigError, Consumer, DynamoDbStore, Handler};

fn charging() -> Handler {
    orders().call(async |_: Order| {})
}

async fn start(handler: Handler) -> Result<(), ConfigError> {
    let consumer = Consumer::new(handler).store(MemoryStore::new());
    consumer.init().await
}

#[tokio::test]
async fn unknown_variables_are_warned_about_once_with_the_variable_that_they_stand_for() {
    let variables = [
        ("SQS_ONCE_RETENTON", "1d"),
        ("SQS_ONCE_DLQ", crate::support::DLQ),
        ("SQS_ONCE_METRICS_NAMESPACE", "orders"),
        ("SQS_ONCE_OF_OUR_OWN", "text"),
        ("SQS_ONCE_SERVICE", "orders"),
        ("ONCE_RETENTION", "1d"),
    ];
    if !has!(&variables) {
        return;
    }
    let log = Log::capture();
    for _ in 0..2 {
        start(charging().namespace("orders")).await.unwrap();
    }
    let mut lines = log.take("sqs_once::env");
    lines.sort_by_key(|line| line["variable"].clone());
    let shown = lines.iter().map(|line| {
        assert_eq!(line["level"], "WARN");
        (&*line["variable"], line.get("meant").map(|meant| &**meant))
    });
    let of_metrics = Some("POWERTOOLS_METRICS_NAMESPACE");
    let expected = [
        ("SQS_ONCE_DLQ", Some("SQS_ONCE_DLQ_URL")),
        ("SQS_ONCE_METRICS_NAMESPACE", of_metrics),
        ("SQS_ONCE_OF_OUR_OWN", None),
        ("SQS_ONCE_RETENTON", Some("SQS_ONCE_RETENTION")),
    ];
    assert_eq!(shown.collect::<Vec<_>>(), expected);
}

#[test]
fn a_store_in_memory_on_lambda_is_a_warning() {
    let is_on_lambda = has!(&[("AWS_LAMBDA_FUNCTION_NAME", "orders")]);
    let log = Log::capture();
    MemoryStore::new();
    let lines = log.take("sqs_once::store::memory");
    let levels: Vec<_> = lines.iter().map(|line| &*line["level"]).collect();
    assert_eq!(levels, ["WARN"][..usize::from(is_on_lambda)]);
}

#[tokio::test]
async fn a_missing_variable_names_the_misspelling_that_is_set() {
    let variables = [
        ("SQS_ONCE_TABLE_NAME", "keys"),
        ("SQS_ONCE_NAMESAPCE", "orders"),
    ];
    if !has!(&variables) {
        return;
    }
    let refusal = start(charging()).await.unwrap_err();
    assert_eq!(refusal.setting(), "SQS_ONCE_NAMESPACE");
    let said = "is not set, but the unknown SQS_ONCE_NAMESAPCE is";
    assert_contains!(refusal.to_string(), said);
    let refusal = DynamoDbStore::from_env().await.unwrap_err();
    let said = "SQS_ONCE_TABLE is not set, but the unknown SQS_ONCE_TABLE_NAME is";
    assert_contains!(refusal.to_string(), said);
}

#[test]
fn the_options_page_names_the_variables_that_are_known_and_no_others() {
    let known = include_str!("../../src/variables.rs").lines();
    let known = known.filter_map(|line| line.trim().strip_prefix('"')?.strip_suffix("\","));
    let known: BTreeSet<_> = known.collect();
    let page = include_str!("../../docs/options.md").split("SQS_ONCE_");
    let is_of_name = |c: char| c.is_ascii_uppercase() || c == '_';
    let named = page
        .skip(1)
        .map(|rest| rest.split(|c| !is_of_name(c)).next().unwrap());
    // The prefix alone stands for all of them.
    let named: BTreeSet<_> = named.filter(|name| !name.is_empty()).collect();
    assert_eq!(named, known);
}
