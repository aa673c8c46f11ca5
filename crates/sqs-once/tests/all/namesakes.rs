//! Two handlers with one namespace in one process.

use crate::support::process::passes;
use crate::support::stores::Altered;
use crate::support::{Order, assert_contains, orders};
use sqs_once::store::Store;
use sqs_once::{ConfigError, Consumer, MemoryStore};

/// A table with this name.
fn table(name: &'static str) -> impl Store {
    Altered::new(MemoryStore::new()).named(name)
}

async fn charge(_: Order) {}
async fn refund(_: Order) {}

fn charging() -> Consumer {
    orders().handler(charge)
}

fn refunding() -> Consumer {
    orders().handler(refund)
}

async fn start(consumer: Consumer, name: &'static str) -> Result<(), ConfigError> {
    let consumer = consumer.namespace("orders").store(table(name));
    consumer.init().await
}

/// Whether this process plays the test's part on Lambda. If not, starts one that does.
fn is_on_lambda(test: &str) -> bool {
    const PART: &str = "SQS_ONCE_TEST_NAMESAKES";
    if std::env::var_os(PART).is_some() {
        return true;
    }
    let variables = [(PART, "1"), ("AWS_LAMBDA_FUNCTION_NAME", "orders")];
    passes(module_path!(), test, &variables);
    false
}

#[tokio::test]
async fn on_lambda_two_handlers_of_one_table_and_namespace_refuse_to_start() {
    let test = "on_lambda_two_handlers_of_one_table_and_namespace_refuse_to_start";
    if !is_on_lambda(test) {
        return;
    }
    start(charging(), "orders").await.unwrap();
    let refusal = start(refunding(), "orders").await.unwrap_err();
    assert_eq!(refusal.variable(), "the setting `namespace`");
    let refusal = refusal.to_string();
    assert_contains!(refusal, "\"orders\"", "::charge`", "::refund`");
    assert_contains!(refusal, "a namespace for each");
    // Their ids would differ, but not their tokens.
    let readable = start(refunding().readable_keys(true), "orders").await;
    assert_eq!(readable.unwrap_err().to_string(), refusal);
    // The first consumer continues, and can start again.
    start(charging(), "orders").await.unwrap();
}

#[tokio::test]
async fn on_lambda_consumers_of_one_handler_of_two_tables_or_of_two_namespaces_start() {
    let test = "on_lambda_consumers_of_one_handler_of_two_tables_or_of_two_namespaces_start";
    if !is_on_lambda(test) {
        return;
    }
    let clone = charging();
    for consumer in [charging(), clone.clone(), clone] {
        start(consumer.concurrency(3), "orders").await.unwrap();
    }
    start(refunding(), "refunds").await.unwrap();
    let other = refunding().namespace("refunds").store(table("orders"));
    other.init().await.unwrap();
    // A store without an identity.
    for consumer in [charging(), refunding()] {
        let consumer = consumer.namespace("orders").store(MemoryStore::new());
        consumer.init().await.unwrap();
    }
}

#[tokio::test]
async fn elsewhere_a_process_may_have_as_many_handlers_for_a_namespace_as_it_likes() {
    start(charging(), "orders").await.unwrap();
    start(refunding(), "orders").await.unwrap();
}
