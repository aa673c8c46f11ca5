//! Runs `cargo sqs-once dlq blocks` and `dlq unblock` as a user does.

use crate::project::{Run, Runs};
use crate::support::{Log, Table, on_table};
use serde_json::{Value, json};
use sqs_once::store::Timestamp;
use sqs_once::unstable::block::{Block, item_id};

const QUEUE: &str = "arn:aws:sqs:eu-central-1:123456789012:steps.fifo";
const RETURNS: &str = "arn:aws:sqs:eu-central-1:123456789012:returns.fifo";

/// The block of a group with two messages.
fn item(queue: &str, group: &str) -> Value {
    let block = Block::begin(None, (queue, group), Timestamp::now());
    let block = serde_json::to_string(&block.with("m-1").with("m-2")).unwrap();
    json!({
        "id": {"S": item_id(queue, group).as_str()}, "status": {"S": "INPROGRESS"},
        "owner": {"S": "000102030405060708090a0b0c0d0e0f"}, "fence": {"N": "7"},
        "in_progress_expiration": {"N": "0"}, "expiration": {"N": "253402300799"},
        "validation": {"S": block},
    })
}

async fn with(groups: &[(&str, &str)]) -> Table {
    let items = groups.iter().map(|(queue, group)| item(queue, group));
    Table::with("dlq", items).await
}

#[tokio::test(flavor = "multi_thread")]
async fn blocked_groups_are_listed_and_are_no_keys() {
    let table = with(&[(QUEUE, "order-7")]).await;
    let item_before = table.item(item_id(QUEUE, "order-7").as_str());
    let run = table.done(&["blocks"]);
    run.shows("steps.fifo");
    run.shows("order-7\n");
    let row = table.done(&["blocks", "--format=json"]).one();
    assert_eq!(row["group"], "order-7");
    assert_eq!((&row["waiting"], &row["ended"]), (&json!(2), &json!(0)));
    let keys = on_table(&table.dynamodb, &["key", "list"]);
    Run::of(keys).says("no such keys");
    let id = item_id(QUEUE, "order-7");
    for action in [&["show"][..], &["forget", "--yes"], &["complete", "--yes"]] {
        for name in [id.as_str(), &id.as_str()[..20]] {
            let key = [&["key"], action, &[name]].concat();
            let run = Run::of(on_table(&table.dynamodb, &key));
            run.assert_failed_with("use `cargo sqs-once dlq blocks`");
        }
    }
    assert_eq!(table.item(id.as_str()), item_before);
    // A consumer may have this namespace.
    let key = format!("block#{}", "0".repeat(64));
    table.put(json!({"id": {"S": key}, "status": {"S": "COMPLETED"}}));
    Run::of(on_table(
        &table.dynamodb,
        &["key", "list", "--namespace", "block"],
    ))
    .shows(&key);
    let none = with(&[]).await.done(&["blocks"]);
    none.says("no message group waits behind a dead letter");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_is_unblocked_after_a_question_and_the_change_is_logged() {
    let table = with(&[(QUEUE, "order-7"), (RETURNS, "order-7"), (QUEUE, "o-8")]).await;
    table.fails(&["unblock", "o-9"], "`dlq blocks` lists those that do");
    table.fails(&["unblock", "order-7"], "pick one with --source-queue");
    let asked = table.asked(&["unblock", "o-8"]).answer("n\n");
    asked.assert_failed_with("nothing was changed");
    asked.says("waiting");

    let log = Log::new();
    let arguments = [
        "unblock",
        "order-7",
        "--source-queue",
        QUEUE,
        "--yes",
        "--log",
    ];
    let run = table.done(&[&arguments[..], &[log.name()]].concat());
    assert_eq!(run.stdout, "unblocked order-7\n");
    let [line] = log.lines().try_into().unwrap();
    assert_eq!(line["action"], "unblock");
    assert_eq!(line["after"]["waiting"], 0);
    let left = table.done(&["blocks", "--format=json"]).json();
    assert_eq!(left.len(), 2);
    // A worker that has seen the block before writes nothing by it.
    let after = table.item(item_id(QUEUE, "order-7").as_str());
    assert_eq!(after["fence"]["N"], "8");
}
