//! The stand-in for DynamoDB decides like DynamoDB: it passes the tests that every store must pass.

use std::time::{Duration, Instant};

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::put_item::PutItemError;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementRequest, ReturnValuesOnConditionCheckFailure,
};
use sqs_once::DynamoDbStore;
use sqs_once::conformance::{self, Fixture};
use sqs_once::key::ItemId;
use sqs_once::store::{Claim, Claimed, Item, Settled, Settlement, Store, StoreFuture};
use sqs_once_bench::table::{Latency, Table, Units};
use sqs_once_bench::units::client;

const TABLE: &str = "bench-tests";

struct StandIn {
    table: Table,
    client: Client,
    store: WithoutTransactions,
}

/// The store's claims, settlements and reads. No contender commits a transaction, so the stand-in has none.
struct WithoutTransactions(DynamoDbStore);

impl Store for WithoutTransactions {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        self.0.claim(claims)
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        self.0.settle(settlements)
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        self.0.read(ids)
    }
}

impl StandIn {
    fn start() -> Self {
        let table = Table::start(Latency::default()).unwrap();
        let client = client(&table);
        let store = WithoutTransactions(DynamoDbStore::new(client.clone(), TABLE));
        Self {
            table,
            client,
            store,
        }
    }
}

impl Fixture for StandIn {
    fn store(&self) -> &dyn Store {
        &self.store
    }

    async fn plant(&self, item: Item) {
        let put = self.client.put_item().table_name(TABLE);
        let put = put.set_item(Some(sqs_once::unstable::to_attributes(item)));
        put.send().await.unwrap();
    }

    async fn peek(&self, id: &ItemId) -> Option<Item> {
        let mut found = self.store.read(std::slice::from_ref(id)).await;
        found.remove(0).unwrap()
    }

    async fn delete(&self, id: &ItemId) {
        let delete = self.client.delete_item().table_name(TABLE);
        delete.key("id", text(id.as_str())).send().await.unwrap();
    }
}

fn text(text: &str) -> AttributeValue {
    AttributeValue::S(text.to_owned())
}

#[tokio::test]
async fn the_stand_in_passes_the_conformance_suite() {
    conformance::run(&StandIn::start()).await;
}

#[tokio::test]
async fn a_peer_s_claim_over_an_item_is_refused_with_it_until_it_has_expired() {
    let stand_in = StandIn::start();
    // The request of Powertools, with its time as a fraction of seconds.
    let claim = async |now: &str| {
        let number = |number: &str| AttributeValue::N(number.to_owned());
        let put = stand_in.client.put_item().table_name(TABLE);
        put.item("id", text("order-1"))
            .item("status", text("INPROGRESS"))
            .item("expiration", number("1000"))
            .condition_expression(
                "attribute_not_exists(#id) OR #expiry < :now OR (#status = :inprogress AND \
                 attribute_exists(#in_progress_expiry) AND #in_progress_expiry < :now_in_millis)",
            )
            .expression_attribute_names("#id", "id")
            .expression_attribute_names("#expiry", "expiration")
            .expression_attribute_names("#status", "status")
            .expression_attribute_names("#in_progress_expiry", "in_progress_expiration")
            .expression_attribute_values(":now", number(now))
            .expression_attribute_values(":now_in_millis", number("900000"))
            .expression_attribute_values(":inprogress", text("INPROGRESS"))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .send()
            .await
    };
    claim("900.25").await.unwrap();
    let refused = claim("999.75").await.unwrap_err().into_service_error();
    let PutItemError::ConditionalCheckFailedException(refused) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(refused.item().unwrap()["status"], text("INPROGRESS"));
    claim("1000.25").await.unwrap();
}

#[tokio::test]
async fn what_the_stand_in_does_not_understand_is_an_error_and_changes_nothing() {
    let stand_in = StandIn::start();
    for condition in [
        "size(#id) > :one",
        "#id",
        "attribute_not_exists(#id",
        "a = :none",
    ] {
        let put = stand_in.client.put_item().table_name(TABLE);
        let put = put
            .item("id", text("order-1"))
            .condition_expression(condition);
        let put = put.expression_attribute_names("#id", "id");
        put.send().await.unwrap_err();
    }
    let id = ItemId::from_stored("order-1");
    assert_eq!(stand_in.peek(&id).await, None);
}

/// Inserts this many orders in one request.
async fn insert(stand_in: &StandIn, orders: usize) {
    let statements = (0..orders).map(|order| {
        BatchStatementRequest::builder()
            .statement(format!(
                "INSERT INTO \"{TABLE}\" VALUE {{'id': ?, 'status': ?}}"
            ))
            .parameters(text(&format!("order-{order}")))
            .parameters(text("COMPLETED"))
            .build()
            .unwrap()
    });
    let batch = stand_in.client.batch_execute_statement();
    batch
        .set_statements(Some(statements.collect()))
        .send()
        .await
        .unwrap();
}

#[tokio::test]
async fn requests_and_completed_items_are_counted() {
    let stand_in = StandIn::start();
    insert(&stand_in, 3).await;
    let counts = stand_in.table.counts();
    assert_eq!(counts.total(), 1);
    assert_eq!(counts.requests["BatchExecuteStatement"], 1);
    assert_eq!(stand_in.table.completed(TABLE), 3);
}

#[tokio::test]
async fn a_write_consumes_a_unit_refused_or_not_and_a_read_one_for_each_key() {
    let stand_in = StandIn::start();
    let consumed = || stand_in.table.counts().units;
    let put = async || {
        let put = stand_in.client.put_item().table_name(TABLE);
        let put = put
            .item("id", text("order-1"))
            .condition_expression("attribute_not_exists(id)");
        put.send().await
    };
    put().await.unwrap();
    put().await.unwrap_err();
    let (write, read) = (2.0, 0.0);
    assert_eq!(consumed(), Units { write, read });

    // Keys without an item cost as much.
    let ids = ["order-1", "order-2"].map(ItemId::from_stored);
    // Ignores the result, because the items lack sqs-once's attributes.
    let _ = stand_in.store.read(&ids).await;
    assert_eq!(consumed(), Units { write, read: 2.0 });
}

/// This test runs in real time, because the stand-in sleeps in threads of its own. A sleep is never too short, so the
/// machine's load cannot make this test fail.
#[tokio::test]
async fn no_answer_comes_before_its_latency() {
    let stand_in = StandIn::start();
    let latency = Latency {
        request: Duration::from_millis(50),
        statement: Duration::from_millis(100),
    };
    stand_in.table.set_latency(latency);
    let begun = Instant::now();
    let id = ItemId::from_stored("nothing");
    assert_eq!(stand_in.peek(&id).await, None);
    assert!(begun.elapsed() >= latency.request);

    let begun = Instant::now();
    insert(&stand_in, 3).await;
    assert!(begun.elapsed() >= latency.request + 3 * latency.statement);
}
