//! Two handlers with one namespace in one process, and the variable that names one for the whole process.

use crate::support::process::has;
use crate::support::{Order, TestStore, assert_contains, one, orders};
use sqs_once::consumer::Runnable;
use sqs_once::key::{Ids, ItemId, Namespace};
use sqs_once::store::{MemoryStore, Store};
use sqs_once::testing::Bench;
use sqs_once::{ConfigError, Consumer, Handler, Idempotency, Router};

/// A table with this name.
fn table(name: &'static str) -> impl Store {
    TestStore::default().named(name)
}

async fn charge(_: Order) {}
async fn refund(_: Order) {}

fn charging() -> Handler {
    orders().call(charge)
}

fn refunding() -> Handler {
    orders().call(refund)
}

/// A consumer on the table `orders`.
fn consumer(handler: Handler) -> Consumer {
    Consumer::new(handler).store(table("orders"))
}

async fn start(handler: Handler, name: &'static str) -> Result<(), ConfigError> {
    let consumer = Consumer::new(handler.namespace("orders")).store(table(name));
    consumer.init().await
}

const LAMBDA: (&str, &str) = ("AWS_LAMBDA_FUNCTION_NAME", "orders");

#[tokio::test]
async fn on_lambda_two_handlers_of_one_table_and_namespace_refuse_to_start() {
    if !has!(&[LAMBDA]) {
        return;
    }
    start(charging(), "orders").await.unwrap();
    let refusal = start(refunding(), "orders").await.unwrap_err();
    assert_eq!(refusal.setting(), "the setting `namespace`");
    let refusal = refusal.to_string();
    assert_contains!(refusal, "\"orders\"", "::charge`", "::refund`");
    assert_contains!(refusal, "a namespace for each");
    // Their ids would differ, but not their tokens.
    let readable = start(refunding().ids(Ids::readable()), "orders").await;
    assert_eq!(readable.unwrap_err().to_string(), refusal);
    // The first consumer continues, and can start again.
    start(charging(), "orders").await.unwrap();
}

#[tokio::test]
async fn on_lambda_consumers_of_one_handler_of_two_tables_or_of_two_namespaces_start() {
    if !has!(&[LAMBDA]) {
        return;
    }
    let clone = charging();
    for handler in [charging(), clone.clone(), clone] {
        let consumer = consumer(handler.namespace("orders")).concurrency(3);
        consumer.init().await.unwrap();
    }
    start(refunding(), "refunds").await.unwrap();
    let other = consumer(refunding().namespace("refunds"));
    other.init().await.unwrap();
    // A store without an identity.
    for handler in [charging(), refunding()] {
        let consumer = Consumer::new(handler.namespace("orders")).store(MemoryStore::new());
        consumer.init().await.unwrap();
    }
}

#[tokio::test]
async fn on_lambda_two_handlers_that_read_the_same_namespace_refuse_to_start() {
    if !has!(&[LAMBDA]) {
        return;
    }
    let payments = || Namespace::new("payments").unwrap();
    let ids = || Ids::hashed().also_read(payments());
    let reading = |handler: Handler, own: &str| consumer(handler.namespace(own).ids(ids()));
    reading(charging(), "charges").init().await.unwrap();
    let refunds = reading(refunding(), "refunds");
    let owner = consumer(refunding().namespace("payments"));
    for consumer in [refunds, owner] {
        let refusal = consumer.init().await.unwrap_err().to_string();
        assert_contains!(refusal, "\"payments\"", "::charge`");
        assert_contains!(refusal, "::refund`", "in `ids`");
    }
    // Work without SQS may share a consumer's namespace.
    for (own, starts) in [("charges", true), ("deposits", false)] {
        let work = Handler::work().namespace(own).ids(ids());
        let idempotency = Idempotency::new(work).store(table("orders"));
        assert_eq!(idempotency.init().await.is_ok(), starts, "{own}");
    }
    reading(charging(), "charges").init().await.unwrap();
}

#[tokio::test]
async fn elsewhere_a_process_may_have_as_many_handlers_for_a_namespace_as_it_likes() {
    start(charging(), "orders").await.unwrap();
    start(refunding(), "orders").await.unwrap();
}

const VARIABLE: [(&str, &str); 2] = [LAMBDA, ("SQS_ONCE_NAMESPACE", "of-the-variable")];

#[sqs_once::handler(key = order.id, namespace = "of-the-attribute")]
async fn named(order: Order, item: ItemId) {
    let (namespace, _) = item.as_str().split_once('#').unwrap();
    assert_eq!(namespace, order.id);
}

#[tokio::test]
async fn the_variable_overrides_the_attributes_namespace_and_the_method_overrides_both() {
    let of_attribute = match has!(&VARIABLE) {
        true => "of-the-variable",
        false => "of-the-attribute",
    };
    let by_method = named::handler().namespace("of-the-method");
    for (consumer, namespace) in [
        (named::consumer(), of_attribute),
        (by_method.into_consumer(), "of-the-method"),
    ] {
        let answer = Bench::new(consumer).run(one(namespace)).await;
        answer.assert_processed("m-1");
    }
}

#[tokio::test]
async fn a_router_does_not_start_with_a_namespace_for_the_whole_process() {
    if !has!(&VARIABLE) {
        return;
    }
    let by_method = named::handler().namespace("of-the-method");
    for route in [named::handler(), by_method] {
        let routes = Router::by_attribute("kind").route("one", route);
        let consumer = Consumer::new(routes).store(MemoryStore::new());
        let refusal = consumer.init().await.unwrap_err();
        assert_eq!(refusal.setting(), "SQS_ONCE_NAMESPACE");
        let said = "the code sets the namespace of each route";
        assert_contains!(refusal.to_string(), said);
    }
}

#[tokio::test]
async fn on_lambda_the_variable_names_one_handler_in_any_store() {
    if !has!(&VARIABLE) {
        return;
    }
    let start = async |handler: Handler| {
        let consumer = Consumer::new(handler).store(MemoryStore::new());
        consumer.init().await
    };
    start(named::handler()).await.unwrap();
    start(charging().namespace("charges")).await.unwrap();
    let refusal = start(refunding()).await.unwrap_err().to_string();
    assert_contains!(refusal, "\"of-the-variable\"", "::named`");
    assert_contains!(refusal, "SQS_ONCE_NAMESPACE");
    let once = Idempotency::new(Handler::work()).store(MemoryStore::new());
    let refusal = once.init().await.unwrap_err();
    assert_contains!(refusal.to_string(), "\"of-the-variable\"", "Idempotency`");
    let receipts = Idempotency::new("receipts").store(MemoryStore::new());
    receipts.init().await.unwrap();
}
