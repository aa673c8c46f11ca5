//! What redelivered, hopeless and forgotten orders leave in the tables.

use serde_json::{Value, json};
use sqs_once_local::RecordLine;

use crate::bench::{Bench, TIMEOUT, order, samples};

fn outcomes(lines: &[RecordLine]) -> Vec<&str> {
    lines.iter().map(|line| line.outcome.as_str()).collect()
}

#[tokio::test]
async fn whatever_is_delivered_again_changes_neither_stock_nor_orders_nor_outbox() {
    let bench = Bench::new().await;
    for expected in ["processed", "duplicate", "duplicate"] {
        let (failures, lines) = bench.run(&samples()).await;
        assert_eq!(failures, [""; 0]);
        assert_eq!(outcomes(&lines), [expected; 3], "{lines:?}");
        bench.assert_once(expected);
    }

    // The same order under another message id, as a producer sends it that has lost an answer.
    let (failures, lines) = bench.run(&order("o-2003", "kettle", 1)).await;
    assert_eq!(failures, [""; 0]);
    assert_eq!(outcomes(&lines), ["duplicate"]);
    assert_eq!(bench.stock("kettle"), Some(10 - 1));
}

#[tokio::test]
async fn the_outbox_holds_the_message_as_it_is_to_be_sent() {
    let bench = Bench::new().await;
    bench.run(&order("o-1", "mug-blue", 2)).await;
    let key = json!({ "id": { "S": "o-1" } });
    let message = bench.dynamodb.item("OutboxTable", key).unwrap().unwrap();
    assert_eq!(message["kind"]["S"], "stock-reserved");
    let body: Value = serde_json::from_str(message["body"]["S"].as_str().unwrap()).unwrap();
    let expected = json!({
        "order_id": "o-1", "customer_id": "c-7", "article": "mug-blue", "pieces": 2,
    });
    assert_eq!(body, expected);
}

#[tokio::test]
async fn an_order_that_the_stock_can_not_fill_is_terminal_and_writes_nothing() {
    let bench = Bench::new().await;
    let eight = order("o-1", "mug-blue", 8);
    assert_eq!(bench.run(&eight).await.0, [""; 0]);

    // More than is left, and more than there ever was of an article that is not listed.
    for event in [order("o-2", "mug-blue", 3), order("o-3", "kettle", 11)] {
        let (failures, lines) = bench.run(&event).await;
        assert_eq!(failures, event.message_ids());
        assert_eq!(outcomes(&lines), ["terminal"]);
        let reason = lines[0].reason.as_deref().unwrap();
        assert!(
            reason.contains("write 1 (update of table `StockTable`)"),
            "{reason}"
        );
    }
    assert_eq!(bench.stock("mug-blue"), Some(2));
    assert_eq!(bench.stock("kettle"), None);
    assert_eq!(bench.all("OrdersTable", "order_id"), ["o-1"]);
    assert_eq!(bench.all("OutboxTable", "id"), ["o-1"]);

    // Once there are pieces, the same message is reserved.
    let more = json!({ "article": { "S": "mug-blue" }, "pieces": { "N": "3" } });
    bench.dynamodb.put_item("StockTable", more).unwrap();
    let (failures, _) = bench.run(&order("o-2", "mug-blue", 3)).await;
    assert_eq!(failures, [""; 0]);
    assert_eq!(bench.stock("mug-blue"), Some(0));
}

#[tokio::test]
async fn an_order_whose_key_is_forgotten_is_not_reserved_again() {
    let bench = Bench::new().await;
    let event = order("o-1", "mug-blue", 2);
    bench.run(&event).await;
    let table = bench.template.table(bench.template.function(None)).unwrap();
    for item in bench.dynamodb.items(&table.name).unwrap() {
        let mut forgotten = item.clone();
        forgotten["expiration"] = json!({ "N": "1" });
        bench.dynamodb.put_item(&table.name, forgotten).unwrap();
    }
    let (failures, lines) = bench.run(&event).await;
    assert_eq!(failures, event.message_ids());
    assert_eq!(outcomes(&lines), ["terminal"]);
    assert_eq!(bench.stock("mug-blue"), Some(8));
    assert_eq!(bench.all("OutboxTable", "id"), ["o-1"]);
}

#[tokio::test]
async fn a_table_without_a_name_keeps_the_function_from_starting() {
    let bench = Bench::new().await;
    for (variable, value, expected) in [
        ("OUTBOX_TABLE", "", "the name of a DynamoDB table"),
        ("INITIAL_STOCK", "many", "pieces of an article"),
    ] {
        let function = bench.launch().env(variable, value).start().await.unwrap();
        let answer = function.invoke(samples().payload(), TIMEOUT).await;
        let said = format!("{:?}", answer.unwrap_err());
        assert!(said.contains(variable) && said.contains(expected), "{said}");
    }
}
