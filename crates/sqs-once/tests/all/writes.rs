//! `Writes`: the checks before the request, and the consumer's use of them.

// Not in `support`, since the other tests need no embedded DynamoDB.

use std::collections::HashMap;

use crate::support::dynamodb::DynamoDb;
use crate::support::{Bench, Order, event};
use serde::Serialize;
use sqs_once::aws_sdk_dynamodb::primitives::Blob;
use sqs_once::aws_sdk_dynamodb::types::{
    AttributeDefinition, AttributeValue, BillingMode, ConditionCheck, Delete, KeySchemaElement,
    KeyType, Put, ScalarAttributeType, Update,
};
use sqs_once::handler::IntoOutcome;
use sqs_once::policy::{Disposition, Mode};
use sqs_once::store::{Conflict, WritesError};
use sqs_once::{Consumer, DynamoDbStore, HandlerError, Writes, consumer};
use sqs_once_local::TableDescription;

/// 4 MB minus 4 KiB.
const MOST_BYTES: usize = 4_190_208;

type Attributes = HashMap<String, AttributeValue>;

fn text(value: &str) -> AttributeValue {
    AttributeValue::S(value.to_owned())
}

fn number(value: &str) -> AttributeValue {
    AttributeValue::N(value.to_owned())
}

fn attributes<const N: usize>(all: [(&str, AttributeValue); N]) -> Attributes {
    let all = all.map(|(name, value)| (name.to_owned(), value));
    all.into()
}

fn put<const N: usize>(table: &str, item: [(&str, AttributeValue); N]) -> Put {
    let put = Put::builder().table_name(table);
    put.set_item(Some(attributes(item))).build().unwrap()
}

fn update<const N: usize>(table: &str, key: [(&str, AttributeValue); N]) -> Update {
    let update = Update::builder().table_name(table);
    let update = update.set_key(Some(attributes(key)));
    update.update_expression("REMOVE a").build().unwrap()
}

fn delete<const N: usize>(table: &str, key: [(&str, AttributeValue); N]) -> Delete {
    let delete = Delete::builder().table_name(table);
    delete.set_key(Some(attributes(key))).build().unwrap()
}

fn check<const N: usize>(table: &str, key: [(&str, AttributeValue); N]) -> ConditionCheck {
    let check = ConditionCheck::builder().table_name(table);
    let check = check.set_key(Some(attributes(key)));
    check.condition_expression("a = b").build().unwrap()
}

/// The error for writes that cannot be sent.
fn refused(writes: Writes) -> String {
    let error = writes.into_outcome().unwrap_err();
    assert!(error.is_terminal(), "{error}");
    error.to_string()
}

fn accepted(writes: Writes) {
    writes.into_outcome().unwrap();
}

#[test]
fn a_transaction_takes_ninety_nine_writes() {
    let some = |count: usize| {
        let ids = (0..count).map(|id| id.to_string());
        ids.fold(Writes::new(), |writes, id| {
            writes.put_item(put("orders", [("id", text(&id))]))
        })
    };
    accepted(some(99));
    let said = "100 writes: a transaction takes 99 beside the record of its key";
    assert_eq!(refused(some(100)), said);
}

#[test]
fn a_transaction_takes_four_megabytes_with_what_is_recorded() {
    let filled = |bytes: usize| {
        let item = [("id", text("o-1")), ("body", text(&"x".repeat(bytes)))];
        Writes::new().put_item(put("orders", item))
    };
    let most = MOST_BYTES - "id".len() - "o-1".len() - "body".len();
    accepted(filled(most));
    let said = format!(
        "the writes have {} bytes together: a transaction takes {MOST_BYTES} beside the record of its key",
        MOST_BYTES + 1
    );
    assert_eq!(refused(filled(most + 1)), said);
    accepted(filled(most - 2).recording(&1).recording(&10));
    assert_eq!(refused(filled(most - 1).recording(&10)), said);
}

/// The size of an item in bytes, as DynamoDB counts it.
fn size(item: Attributes) -> usize {
    let too_large = [("id", text(&"x".repeat(MOST_BYTES)))];
    let update = Update::builder()
        .table_name("stock")
        .key("id", text("a-7"))
        .update_expression("SET a = :a")
        .set_expression_attribute_values(Some(item))
        .build()
        .unwrap();
    let writes = Writes::new()
        .put_item(put("orders", too_large))
        .update(update);
    let said = refused(writes);
    let bytes: usize = said.split(' ').nth(3).unwrap().parse().unwrap();
    bytes - MOST_BYTES - "id".len() - "id".len() - "a-7".len()
}

#[test]
fn every_type_counts_as_dynamodb_counts_it() {
    let blob = || Blob::new([0; 5]);
    for (value, bytes) in [
        (text("eur €"), 7),
        (number("1234"), 3),
        (number("-12345"), 5),
        (AttributeValue::B(blob()), 5),
        (AttributeValue::Bool(true), 1),
        (AttributeValue::Null(true), 1),
        (AttributeValue::Ss(vec!["ab".into(), "c".into()]), 3),
        (AttributeValue::Ns(vec!["12".into(), "3".into()]), 4),
        (AttributeValue::Bs(vec![blob(), blob()]), 10),
        (AttributeValue::L(vec![]), 3),
        (AttributeValue::L(vec![text("ab"), text("c")]), 3 + 2 + 3),
        (
            AttributeValue::M(attributes([("name", text("ab"))])),
            3 + 1 + 4 + 2,
        ),
    ] {
        let shown = format!("{value:?}");
        assert_eq!(size(attributes([(":a", value)])), bytes, "{shown}");
    }
}

#[test]
fn two_writes_to_one_item_are_named() {
    let key = || [("id", text("o-1"))];
    let item = || [("id", text("o-1")), ("total", number("7"))];
    let pair = [("pk", text("o")), ("sk", text("1"))];
    let row = [("pk", text("o")), ("sk", text("1")), ("a", text("b"))];
    let writes = Writes::new;
    for (writes, first, second) in [
        (
            writes()
                .update(update("orders", key()))
                .delete(delete("orders", key())),
            "write 0 (update of table `orders`)",
            "write 1 (delete from table `orders`)",
        ),
        (
            writes()
                .check(check("orders", key()))
                .put_item(put("orders", item())),
            "write 0 (check of table `orders`)",
            "write 1 (put into table `orders`)",
        ),
        (
            writes()
                .put_item(put("orders", row))
                .update(update("orders", pair)),
            "write 0 (put into table `orders`)",
            "write 1 (update of table `orders`)",
        ),
        (
            // Another write to that table shows its key.
            writes()
                .put_item(put("orders", item()))
                .update(update("orders", [("id", text("o-2"))]))
                .put_item(put("orders", key())),
            "write 0 (put into table `orders`)",
            "write 2 (put into table `orders`)",
        ),
        (
            writes()
                .put_item(put("orders", item()))
                .put_item(put("orders", item())),
            "write 0 (put into table `orders`)",
            "write 1 (put into table `orders`)",
        ),
    ] {
        let said = refused(writes);
        let expected = format!("{first} and {second} are of the same item");
        assert!(said.starts_with(&expected), "{said}");
        assert!(!said.contains("o-1"), "{said}");
    }
}

#[test]
fn writes_to_different_items_are_none_to_one() {
    let key = |id: &str| [("id", text(id))];
    accepted(
        Writes::new()
            .put_item(put("orders", key("o-1")))
            .put_item(put("invoices", key("o-1")))
            .update(update("stock", key("o-1")))
            .update(update("orders", key("o-2")))
            .check(check("orders", key("o-3")))
            .delete(delete("orders", [("id", number("1"))])),
    );
    let keyless = |total: &str| [("total", number(total))];
    accepted(
        Writes::new()
            .put_item(put("orders", keyless("7")))
            .put_item(put("orders", keyless("8")))
            .update(update("orders", key("o-1"))),
    );
    let of = |sk: &str| [("pk", text("o")), ("sk", text(sk))];
    accepted(
        Writes::new()
            .put_item(put("orders", of("1")))
            .put_item(put("orders", of("2")))
            .update(update("orders", of("3"))),
    );
}

#[test]
fn writes_that_name_nothing_are_refused() {
    let nameless = Writes::new().put_item(put("", [("id", text("o-1"))]));
    assert_eq!(
        refused(nameless),
        "write 0 (put into table ``) names no table"
    );
    let keyless = Writes::new().update(update("stock", []));
    assert_eq!(
        refused(keyless),
        "write 0 (update of table `stock`) has no key"
    );
    let ruled = Writes::new().delete(delete("stock", [("id", text("a-7"))]));
    let said = "`on_conflict` is set for write 1, but there are 1 writes, counted from 0";
    let ruled = ruled.on_conflict(1, |_| Disposition::Terminal);
    assert_eq!(refused(ruled), said);
}

#[derive(Serialize)]
struct Reservation {
    id: String,
    pieces: u32,
    note: Option<String>,
}

#[test]
fn a_value_of_the_handlers_own_is_put_with_its_fields() {
    let table = "orders".to_owned();
    let reservation = Reservation {
        id: "o-1".to_owned(),
        pieces: 2,
        note: None,
    };
    let writes = Writes::new().put(&table, &reservation).unwrap();
    assert_eq!((writes.len(), writes.is_empty()), (1, false));
    let put = writes.items()[0].put().unwrap();
    assert_eq!(put.table_name(), "orders");
    let expected = [
        ("id", text("o-1")),
        ("pieces", number("2")),
        ("note", AttributeValue::Null(true)),
    ];
    assert_eq!(*put.item(), attributes(expected));
}

#[test]
fn a_value_that_is_no_item_is_an_error_that_names_the_write() {
    let error = Writes::new().put("orders", &"o-1").unwrap_err();
    assert!(matches!(error, WritesError::NotAnItem { .. }));
    let error = HandlerError::from(error);
    assert!(!error.is_terminal(), "the handler says what it means");
    let said = "write 0 (put into table `orders`): the value is not an item";
    assert!(error.chain().starts_with(said), "{}", error.chain());
}

#[test]
fn writes_show_nothing_of_what_is_in_them() {
    let writes = Writes::new()
        .put_item(put("orders", [("id", text("secret"))]))
        .delete(delete("carts", [("id", text("secret"))]))
        .on_conflict(0, |_| Disposition::Terminal)
        .recording(&"secret");
    let shown = format!("{writes:?}");
    assert!(!shown.contains("secret"), "{shown}");
    for part in ["put into table", "orders", "delete from table", "carts"] {
        assert!(shown.contains(part), "{shown}");
    }
}

/// A consumer that takes each order's total from the stock, with its DynamoDB.
struct Warehouse {
    bench: Bench,
    dynamodb: DynamoDb,
}

impl Warehouse {
    async fn with_stock(pieces: &str) -> Self {
        let warehouse = Self {
            bench: Bench::new(),
            dynamodb: DynamoDb::start(TableDescription::default()),
        };
        let key = AttributeDefinition::builder().attribute_name("id");
        let key = key.attribute_type(ScalarAttributeType::S).build().unwrap();
        let schema = KeySchemaElement::builder().attribute_name("id");
        let schema = schema.key_type(KeyType::Hash).build().unwrap();
        let create = warehouse.dynamodb.client().create_table();
        let create = create.table_name("stock").attribute_definitions(key);
        let create = create.key_schema(schema);
        let create = create.billing_mode(BillingMode::PayPerRequest);
        create.send().await.unwrap();
        warehouse.put_stock(pieces).await;
        warehouse
    }

    async fn put_stock(&self, pieces: &str) {
        let put = self.dynamodb.client().put_item().table_name("stock");
        let put = put.item("id", text("a-7")).item("pieces", number(pieces));
        put.send().await.unwrap();
        self.dynamodb.take_operations();
    }

    async fn stock(&self) -> String {
        let get = self.dynamodb.client().get_item().table_name("stock");
        let item = get.key("id", text("a-7")).send().await.unwrap().item;
        self.dynamodb.take_operations();
        item.unwrap()["pieces"].as_n().unwrap().clone()
    }

    fn consumer(&self, more: fn(Writes) -> Writes) -> Consumer {
        let table = TableDescription::default().name;
        let taking = consumer::<Order>()
            .key(|order: &Order| order.id.clone())
            .handler(move |order: Order| async move {
                let update = Update::builder()
                    .table_name("stock")
                    .key("id", text("a-7"))
                    .update_expression("SET pieces = pieces - :total")
                    .condition_expression("pieces >= :total")
                    .expression_attribute_values(":total", number(&order.total.to_string()))
                    .build()?;
                Ok::<_, HandlerError>(more(Writes::new().update(update)))
            });
        let store = DynamoDbStore::new(self.dynamodb.client(), table);
        self.bench.consumer(taking).store(store)
    }

    /// Handles an order of `total` pieces. Returns the outcome, the reason, and the requests.
    async fn order(&self, consumer: &Consumer, id: &str, total: u64) -> (String, String, String) {
        let body = serde_json::json!({ "id": id, "total": total });
        let record = crate::support::body(&body.to_string());
        self.bench.invoke(consumer, event([record])).await;
        let mut line = self.bench.log.take("sqs_once::record").remove(0);
        let reason = line.remove("reason").unwrap_or_default();
        let requests = self.dynamodb.take_operations().join(" ");
        (line.remove("outcome").unwrap(), reason, requests)
    }
}

fn told(outcome: &str, reason: &str, requests: &str) -> (String, String, String) {
    (outcome.to_owned(), reason.to_owned(), requests.to_owned())
}

const NOT_MET: &str = "write 0 (update of table `stock`): its condition was not met";

#[tokio::test(start_paused = true)]
async fn the_writes_of_a_handler_happen_once_for_a_key() {
    let warehouse = Warehouse::with_stock("5").await;
    let consumer = warehouse.consumer(|writes| writes);
    let first = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(first, told("processed", "", "TransactWriteItems"));
    let again = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(again, told("duplicate", "", "TransactWriteItems"));
    assert_eq!(warehouse.stock().await, "3");
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_whose_condition_is_no_longer_met_is_a_duplicate() {
    let warehouse = Warehouse::with_stock("3").await;
    let consumer = warehouse.consumer(|writes| writes);
    warehouse.order(&consumer, "o-1", 2).await;
    let (outcome, ..) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(outcome, "duplicate");
    assert_eq!(warehouse.stock().await, "1");
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_fails_the_record_which_may_come_again() {
    let warehouse = Warehouse::with_stock("1").await;
    let consumer = warehouse.consumer(|writes| writes);
    let conflict = warehouse.order(&consumer, "o-1", 2).await;
    let requests = "TransactWriteItems BatchGetItem";
    assert_eq!(conflict, told("failed", NOT_MET, requests));
    warehouse.put_stock("2").await;
    let (outcome, ..) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(outcome, "processed");
    assert_eq!(warehouse.stock().await, "0");
}

#[tokio::test(start_paused = true)]
async fn a_rule_says_what_becomes_of_the_message() {
    let warehouse = Warehouse::with_stock("1").await;
    let consumer = warehouse.consumer(|writes| {
        writes.on_conflict(0, |conflict: &Conflict| {
            match (conflict.write().operation(), conflict.write().table()) {
                ("update", "stock") => Disposition::Terminal,
                _ => Disposition::Retry,
            }
        })
    });
    let (outcome, reason, _) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!((&*outcome, &*reason), ("terminal", NOT_MET));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_means_retry_and_says_so() {
    let warehouse = Warehouse::with_stock("1").await;
    let consumer = warehouse.consumer(|writes| writes.on_conflict(0, |_| panic!("no idea")));
    let (outcome, reason, _) = warehouse.order(&consumer, "o-1", 2).await;
    let said = format!("{NOT_MET}, and the rule for that panicked: no idea");
    assert_eq!((&*outcome, &*reason), ("failed", &*said));
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_when_it_is_dropped_fails_nothing() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let warehouse = Warehouse::with_stock("5").await;
    let consumer = warehouse.consumer(|writes| {
        let bomb = Bomb;
        writes.on_conflict(0, move |_| {
            let _held = &bomb;
            Disposition::Terminal
        })
    });
    let (outcome, ..) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(outcome, "processed");
}

#[tokio::test(start_paused = true)]
async fn a_result_is_recorded_with_the_key() {
    let warehouse = Warehouse::with_stock("5").await;
    let consumer = warehouse.consumer(|writes| writes.recording(&["receipt"]));
    warehouse.order(&consumer, "o-1", 2).await;
    let scan = warehouse.dynamodb.client().scan();
    let table = TableDescription::default().name;
    let items = scan.table_name(table).send().await.unwrap().items.unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["data"], text("[\"receipt\"]"));
}

#[tokio::test(start_paused = true)]
async fn a_result_that_can_not_be_kept_is_left_out_and_the_writes_happen() {
    let warehouse = Warehouse::with_stock("5").await;
    let consumer = warehouse.consumer(|writes| writes.recording(&"x".repeat(300 * 1024)));
    let (outcome, reason, _) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!(outcome, "processed");
    assert!(
        reason.starts_with("its result was not recorded"),
        "{reason}"
    );
    assert_eq!(warehouse.stock().await, "3");
}

#[tokio::test(start_paused = true)]
async fn writes_that_can_not_be_sent_are_terminal_and_nothing_is() {
    let warehouse = Warehouse::with_stock("5").await;
    let consumer = warehouse.consumer(|writes| {
        let twice = delete("stock", [("id", text("a-7"))]);
        writes.delete(twice)
    });
    let (outcome, reason, requests) = warehouse.order(&consumer, "o-1", 2).await;
    assert_eq!((&*outcome, &*requests), ("terminal", ""));
    assert!(reason.contains("are of the same item"), "{reason}");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_claimed_first_is_given_back_after_a_conflict() {
    let warehouse = Warehouse::with_stock("1").await;
    let consumer = warehouse.consumer(|writes| writes).mode(Mode::ClaimFirst);
    let conflict = warehouse.order(&consumer, "o-1", 2).await;
    let requests = "UpdateItem TransactWriteItems BatchGetItem UpdateItem";
    assert_eq!(conflict, told("failed", NOT_MET, requests));
    warehouse.put_stock("5").await;
    let second = warehouse.order(&consumer, "o-1", 2).await;
    // The item refuses the first claim, although it is free.
    let requests = "UpdateItem UpdateItem TransactWriteItems";
    assert_eq!(second, told("processed", "", requests));
    assert_eq!(warehouse.stock().await, "3");
}

#[tokio::test(start_paused = true)]
async fn orders_of_a_batch_that_meet_on_an_item_all_take_their_part() {
    let warehouse = Warehouse::with_stock("20").await;
    let consumer = warehouse.consumer(|writes| writes);
    let body = |at: usize| format!("{{\"id\": \"o-{}\", \"total\": 2}}", at % 10);
    let records = (0..20).map(|at| crate::support::body(&body(at)));
    let failed = warehouse.bench.invoke(&consumer, event(records)).await;
    assert!(failed.is_empty(), "{failed:?}");
    let told = warehouse.bench.outcomes();
    let processed = told.iter().filter(|(_, outcome)| outcome == "processed");
    assert_eq!(processed.count(), 10);
    assert_eq!(warehouse.stock().await, "0");
}
