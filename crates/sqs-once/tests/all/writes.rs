//! `Writes`: the checks before the request, and the consumer's use of them.

use std::collections::HashMap;

use crate::support::{Bomb, Order, Tested, assert_contains, assert_lacks, handling};
use serde::Serialize;
use sqs_once::Writes;
use sqs_once::handler::IntoOutcome;
use sqs_once::policy::Disposition;
use sqs_once::sdk::dynamodb::primitives::Blob;
use sqs_once::sdk::dynamodb::types::{AttributeValue, ConditionCheck, Delete, Put, Update};

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

fn refused(writes: Writes) -> String {
    let error = writes.into_outcome().unwrap_err();
    assert!(error.is_terminal(), "{error}");
    error.to_string()
}

fn accepted(writes: Writes) {
    let _ = writes.into_outcome().unwrap();
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
    let said = "100 writes: a transaction accepts 99 in addition to the completion of its key";
    assert_eq!(refused(some(100)), said);
}

#[test]
fn a_transaction_takes_four_megabytes_with_the_completions_value() {
    let filled = |bytes: usize| {
        let item = [("id", text("o-1")), ("body", text(&"x".repeat(bytes)))];
        Writes::new().put_item(put("orders", item))
    };
    let most = MOST_BYTES - "id".len() - "o-1".len() - "body".len();
    accepted(filled(most));
    let said = format!(
        "the writes have {} bytes together: a transaction accepts {MOST_BYTES} in addition to the completion of its key",
        MOST_BYTES + 1
    );
    assert_eq!(refused(filled(most + 1)), said);
    accepted(filled(most - 2).completion(&1).completion(&10));
    assert_eq!(refused(filled(most - 1).completion(&10)), said);
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
    let writes = Writes::new().put_item(put("orders", too_large));
    let said = refused(writes.update(update));
    let bytes: usize = said.split(' ').nth(3).unwrap().parse().unwrap();
    bytes - MOST_BYTES - "id".len() - "id".len() - "a-7".len()
}

#[test]
fn every_type_counts_as_dynamodb_counts_it() {
    let blob = || Blob::new([0; 5]);
    let named = ("name", text("ab"));
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
        (AttributeValue::M(attributes([named])), 3 + 1 + 4 + 2),
    ] {
        let shown = format!("{value:?}");
        assert_eq!(size(attributes([(":a", value)])), bytes, "{shown}");
    }
}

#[test]
fn two_writes_to_one_item_are_named() {
    let key = || [("id", text("o-1"))];
    let item = || put("orders", [("id", text("o-1")), ("total", number("7"))]);
    let pair = [("pk", text("o")), ("sk", text("1"))];
    let row = [("pk", text("o")), ("sk", text("1")), ("a", text("b"))];
    let putting = |item: Put| Writes::new().put_item(item);
    let deleted = Writes::new().update(update("orders", key()));
    let deleted = deleted.delete(delete("orders", key()));
    let checked = Writes::new().check(check("orders", key())).put_item(item());
    let updated = putting(put("orders", row)).update(update("orders", pair));
    // Another write to that table shows its key.
    let other = putting(item()).update(update("orders", [("id", text("o-2"))]));
    for (writes, first, at, second) in [
        (deleted, "update of", 1, "delete from"),
        (checked, "check of", 1, "put into"),
        (updated, "put into", 1, "update of"),
        (other.put_item(item()), "put into", 2, "put into"),
        (putting(item()).put_item(item()), "put into", 1, "put into"),
    ] {
        let said = refused(writes);
        let first = format!("write 0 ({first} table `orders`)");
        let second = format!("write {at} ({second} table `orders`)");
        assert_contains!(said, &format!("{first} and {second} change the same item"));
        assert_lacks!(said, "o-1");
    }
}

#[test]
fn writes_to_different_items_are_none_to_one() {
    let key = |id: &str| [("id", text(id))];
    let writes = Writes::new().put_item(put("orders", key("o-1")));
    let writes = writes.put_item(put("invoices", key("o-1")));
    let writes = writes.update(update("stock", key("o-1")));
    let writes = writes.update(update("orders", key("o-2")));
    let writes = writes.check(check("orders", key("o-3")));
    accepted(writes.delete(delete("orders", [("id", number("1"))])));
    let keyless = |total: &str| put("orders", [("total", number(total))]);
    let writes = Writes::new().put_item(keyless("7")).put_item(keyless("8"));
    accepted(writes.update(update("orders", key("o-1"))));
    let of = |sk: &str| [("pk", text("o")), ("sk", text(sk))];
    let writes = Writes::new().put_item(put("orders", of("1")));
    let writes = writes.put_item(put("orders", of("2")));
    accepted(writes.update(update("orders", of("3"))));
}

#[test]
fn writes_that_name_nothing_or_are_no_items_are_refused() {
    let nameless = Writes::new().put_item(put("", [("id", text("o-1"))]));
    let said = "write 0 (put into table ``) names no table";
    assert_eq!(refused(nameless), said);
    let keyless = Writes::new().update(update("stock", []));
    let said = "write 0 (update of table `stock`) has no key";
    assert_eq!(refused(keyless), said);
    let ruled = Writes::new().on_conflict(|_| Disposition::Terminal);
    let ruled = ruled.delete(delete("stock", [("id", text("a-7"))]));
    assert_contains!(refused(ruled), "`on_conflict` stands before all writes");
    let said = "write 0 (put into table `orders`): the value is not an item";
    let no_items = Writes::new().put("orders", &"o-1").put("orders", &"o-2");
    assert_contains!(refused(no_items), said);
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
    let (id, note) = ("o-1".to_owned(), None);
    let reservation = Reservation {
        id,
        pieces: 2,
        note,
    };
    let writes = Writes::new().put(&table, &reservation);
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
fn writes_show_nothing_of_what_is_in_them() {
    let writes = Writes::new()
        .put_item(put("orders", [("id", text("canary"))]))
        .on_conflict(|_| Disposition::Terminal)
        .delete(delete("carts", [("id", text("canary"))]))
        .completion(&"canary");
    let shown = format!("{writes:?}");
    assert_lacks!(shown, "canary");
    assert_contains!(shown, "put into table", "orders");
    assert_contains!(shown, "delete from table", "carts");
}

/// A consumer whose handler returns an update, changed in this way.
fn writing(change: fn(Writes) -> Writes) -> Tested {
    handling(move |order: Order| {
        let update = update("stock", [("id", text(&order.id))]);
        std::future::ready(change(Writes::new().update(update)))
    })
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_means_retry_and_says_so() {
    let bench = writing(|writes| writes.on_conflict(|_| panic!("no idea")));
    bench.store.fail_condition(0, 1);
    assert_eq!(bench.run(["a"]).await, ["m-0"]);
    let said = "write 0 (update of table `stock`): its condition was not met, and the rule for that panicked: no idea";
    bench.assert_ended("failed: condition-not-met", said);
}

#[tokio::test(start_paused = true)]
async fn a_rule_that_panics_when_it_is_dropped_fails_nothing() {
    let bench = writing(|writes| {
        let bomb = Bomb;
        writes.on_conflict(move |_| {
            let _held = &bomb;
            Disposition::Terminal
        })
    });
    assert_eq!(bench.run(["a"]).await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_result_that_can_not_be_kept_is_left_out_and_the_writes_happen() {
    let bench = writing(|writes| writes.completion(&"x".repeat(300 * 1024)));
    assert_eq!(bench.run(["a"]).await, [""; 0]);
    assert_contains!(bench.line()["reason"], "its result was not stored");
    assert_eq!(bench.store.written(), ["stock"]);
}
