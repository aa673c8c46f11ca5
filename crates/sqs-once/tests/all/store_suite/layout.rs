//! Tables with other keys and names: rejected layouts, and a layout for the table in the environment.

use serde_json::json;
use sqs_once::DynamoDbStore;
use sqs_once::conformance::Fixture;
use sqs_once::key::ItemId;
use sqs_once::store::{MemoryStore, Store, TableLayout};
use sqs_once_local::{KeyAttribute, TableDescription};
use std::time::Duration;

use crate::store_suite::support::{
    NAMES, OnDynamoDb, TABLE, client, is_written, new_claims, output, process_with_table, store_at,
};
use crate::support::assert_contains;
use crate::support::dynamodb::local;

/// The error for a layout. No server listens at the store's endpoint.
fn refusal(layout: TableLayout) -> Option<String> {
    let laid_out = store_at("http://127.0.0.1:9").layout(layout);
    laid_out.err().map(|error| error.to_string())
}

#[test]
fn a_name_that_could_be_mistaken_in_a_statement_is_refused_wherever_it_is_given() {
    let signs = " '\"\\,{}?=\n\0".chars();
    let with_signs = signs.map(|sign| format!("status{sign}"));
    let others = ["", " ", "#id", ":me", "größe"].map(str::to_owned);
    let large = ["status\"=? WHERE \"id\"=? --".to_owned(), "x".repeat(256)];
    let refused: Vec<_> = with_signs.chain(others).chain(large).collect();
    for (setting, _, set) in NAMES {
        for name in refused.clone() {
            let layout = TableLayout::default().partition_value("p").sort_key("sk");
            let layout = set(layout, &name);
            let expected = format!(
                "the table layout's `{setting}` is {name:?}: expected 1 to 255 ASCII letters, digits, `_`, `-` and `.`"
            );
            assert_eq!(refusal(layout), Some(expected));
        }
    }
}

#[test]
fn a_name_that_two_attributes_have_is_refused_whichever_they_are() {
    for (first, _, set_first) in NAMES {
        for (second, _, set_second) in NAMES {
            if first == second {
                continue;
            }
            let layout = TableLayout::default().partition_value("p").sort_key("sk");
            let layout = set_second(set_first(layout, "same"), "same");
            let refusal = refusal(layout);
            let both = [(first, second), (second, first)];
            let expected = both.map(|(one, other)| format!("the table layout's `{one}` and `{other}` are both \"same\": expected different names"));
            let is_said = refusal.is_some_and(|it| expected.contains(&it));
            assert!(is_said, "{first}, {second}");
        }
    }
    // A default name may go to another attribute.
    let swapped = TableLayout::default().data("owner").owner("data");
    assert_eq!(refusal(swapped), None);
    let taken = TableLayout::default().data("owner");
    assert!(refusal(taken).is_some_and(|it| it.ends_with("expected different names")));
}

#[test]
fn stores_of_one_table_have_one_identity_and_of_another_table_or_layout_another() {
    let store = || store_at("http://127.0.0.1:9");
    let client = client("http://127.0.0.1:9", Duration::from_secs(1));
    let another_table = DynamoDbStore::new(client, "another");
    let another_layout = store().layout(TableLayout::default().partition_key("pk"));
    let identity = store().identity();
    assert!(identity.as_deref().is_some_and(|it| it.contains(TABLE)));
    assert_eq!(identity, store().identity());
    assert_ne!(identity, another_table.identity());
    assert_ne!(identity, another_layout.unwrap().identity());
    assert_eq!(MemoryStore::new().identity(), None);
}

#[test]
fn a_sort_key_needs_a_partition_value_outside_a_function_which_needs_one_and_fits_into_a_partition_key()
 {
    let refusal_of_key = refusal(TableLayout::default().sort_key("sk")).unwrap();
    assert_contains!(refusal_of_key, "AWS_LAMBDA_FUNCTION_NAME");
    let alone = TableLayout::default().partition_value("p");
    let said = "the table layout has a `partition_value` but no `sort_key`";
    assert!(refusal(alone).is_some_and(|it| it.starts_with(said)));
    for (len, fits) in [(0, false), (1, true), (2048, true), (2049, false)] {
        let value = "p".repeat(len);
        let layout = TableLayout::default().sort_key("sk").partition_value(value);
        let expected = (!fits).then(|| {
            format!("the table layout's `partition_value` has {len} bytes: expected 1 to 2048")
        });
        assert_eq!(refusal(layout), expected);
    }
}

#[tokio::test]
async fn the_longest_readable_key_fits_into_a_partition_key_and_into_a_sort_key() {
    let (simple, sorted) = (OnDynamoDb::start(), OnDynamoDb::with_other_layout());
    for (table, longest_fits) in [(simple.await, true), (sorted.await, false)] {
        for (len, fits) in [(ItemId::MAX_READABLE_LEN, true), (1025, longest_fits)] {
            let mut claims = new_claims(2);
            claims[1].id = ItemId::from_stored("k".repeat(len));
            let claimed = table.store().claim(&claims).await;
            assert_eq!(claimed[1].is_ok(), fits, "{len} bytes: {claimed:?}");
        }
    }
}

/// Runs this test again in a process with a function's environment.
#[tokio::test]
async fn the_table_of_the_environment_is_laid_out_by_the_code() {
    if std::env::var_os("SQS_ONCE_TABLE").is_some() {
        let layout = TableLayout::default().sort_key("sk").status("state");
        let store = DynamoDbStore::from_env().await.unwrap();
        let store = store.layout(layout).unwrap();
        let claimed = store.claim(&new_claims(1)).await;
        assert!(is_written(&claimed[0]));
        return;
    }
    let table = TableDescription {
        name: "shared".to_owned(),
        sort_key: Some(KeyAttribute::string("sk")),
        ..TableDescription::default()
    };
    let local = local(&table).await;
    let test = "the_table_of_the_environment_is_laid_out_by_the_code";
    let mut function = process_with_table(module_path!(), test, &local.endpoint());
    function
        .env("SQS_ONCE_TABLE", &table.name)
        .env("AWS_LAMBDA_FUNCTION_NAME", "orders");
    let ended = output(function).await;
    assert!(ended.status.success(), "{ended:?}");
    let items = local.items(&table.name).unwrap();
    assert_eq!(items.len(), 1);
    assert_eq!(items[0]["id"], json!({"S": "idempotency#orders"}));
    assert!(items[0]["sk"]["S"].as_str().unwrap().starts_with("tests#"));
    assert_eq!(items[0]["state"], json!({"S": "INPROGRESS"}));
}
