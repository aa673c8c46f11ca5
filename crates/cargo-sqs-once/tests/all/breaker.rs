//! Runs `cargo sqs-once breaker` as a user does, on a table in an embedded DynamoDB.

use crate::project::{Run, Runs};
use crate::support::{Log, Table, on_table};
use serde_json::{Value, json};
use sqs_once_local::{KeyAttribute, LocalDynamoDb, REGION, TableDescription};
use std::time::SystemTime;

const OWNER: &str = "000102030405060708090a0b0c0d0e0f";
const MINUTE: u64 = 60;
const DAY: u64 = 24 * 60 * MINUTE;
const FENCE: u64 = 1_790_000_000_000;

/// The time in seconds since 1970.
fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs()
}

/// The item of a breaker as a worker writes it: the outage began ten minutes ago.
fn item(name: &str, status: &str, lease_until: u64) -> Value {
    let kept_until = now() - 10 * MINUTE + 60 * DAY;
    json!({
        "id": {"S": format!("breaker#{name}")}, "status": {"S": status}, "owner": {"S": OWNER},
        "fence": {"N": FENCE.to_string()},
        "in_progress_expiration": {"N": (lease_until * 1000).to_string()},
        "expiration": {"N": kept_until.to_string()},
    })
}

fn open(name: &str) -> Value {
    item(name, "INPROGRESS", now() + 5 * MINUTE)
}

fn half_open(name: &str) -> Value {
    item(name, "INPROGRESS", now() - 1)
}

fn number(item: &Value, attribute: &str) -> u64 {
    item[attribute]["N"].as_str().unwrap().parse().unwrap()
}

async fn with(items: impl IntoIterator<Item = Value>) -> Table {
    Table::with("breaker", items).await
}

impl Table {
    fn breaker_item(&self, name: &str) -> Value {
        self.item(&format!("breaker#{name}"))
    }

    fn state(&self, name: &str) -> Value {
        let mut shown = self.done(&["show", name, "--format=json"]).one();
        assert_eq!(shown["name"], name);
        shown["state"].take()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breaker_is_shown_as_workers_see_it() {
    let (closed, odd) = (item("c", "COMPLETED", 0), item("d", "ODD", 0));
    let table = with([open("a"), half_open("b"), closed, odd]).await;
    let states = ["a", "b", "c", "d", "e"].map(|name| table.state(name));
    assert_eq!(states, ["open", "half-open", "closed", "unknown", "closed"]);
    let run = table.run(&["show", "a"]);
    run.shows("dependency  a\n");
    run.shows("state       open: messages that depend on it return to the queue\n");
    run.shows(", 10m");
    run.shows(&format!("fence       {FENCE}\n"));
    table.fails(&["show", "a b"], "\"a b\" is not a dependency's name");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_breakers_of_a_table_are_listed_and_no_keys() {
    let mut unreadable = open("b.2_c");
    unreadable["fence"] = json!({"S": "?"});
    let mut key = item("c", "COMPLETED", 0);
    key["id"] = json!({"S": format!("breaker#{}", "0".repeat(64))});
    let mut other = key.clone();
    other["id"] = json!({"S": "payments#s:breaker#d"});
    let table = with([open("a"), unreadable, key, other]).await;
    let run = table.done(&["show", "--format=json"]);
    let mut listed = run.json();
    listed.sort_by_key(|one| one["name"].to_string());
    let states: Vec<_> = listed.iter().map(|one| &one["state"]).collect();
    assert_eq!(states, ["open", "unreadable"]);
    let run = table.run(&["show"]);
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
    run.says("state        since");
    let run = with([]).await.done(&["show"]);
    run.says("no breaker was ever opened in this table");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_breaker_opens_for_a_time_and_closes_and_opens_again() {
    let table = with([]).await;
    let log = Log::new();
    let logged = ["payments", "--yes", "--log", log.name()];
    let run = table.done(&[&["open", "--for", "2h"], &logged[..]].concat());
    run.shows("opened payments until 2");
    let opened = table.breaker_item("payments");
    assert_eq!(opened["status"]["S"], "INPROGRESS");
    let until = number(&opened, "in_progress_expiration") / 1000;
    assert!((now() + 119 * MINUTE..=now() + 120 * MINUTE).contains(&until));
    let since = number(&opened, "expiration") - 60 * DAY;
    assert!((now() - MINUTE..=now() + 1).contains(&since));

    let run = table.done(&[&["close"], &logged[..]].concat());
    assert_eq!(run.stdout, "closed payments\n");
    let closed = table.breaker_item("payments");
    assert_eq!(closed["status"]["S"], "COMPLETED");
    assert_eq!(closed["fence"], opened["fence"]);
    // It can open again at once.
    assert!(number(&closed, "expiration") <= now() - 60);
    let run = table.done(&["close", "payments"]);
    run.says("nothing had to be changed");

    table.done(&["open", "payments", "--for", "1m", "--yes"]);
    let again = table.breaker_item("payments");
    assert_eq!(number(&again, "fence"), number(&opened, "fence") + 1);
    assert_eq!(table.state("payments"), "open");

    let [opened, closed] = log.lines().try_into().unwrap();
    assert_eq!(opened["action"], "open");
    assert_eq!(opened["id"], "breaker#payments");
    assert_eq!(opened["before"], Value::Null);
    assert_eq!(opened["after"]["state"], "open");
    assert_eq!(closed["action"], "close");
    assert_eq!(closed["before"], opened["after"]);
    assert_eq!(closed["after"]["state"], "closed");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_breaker_is_extended_or_shortened_and_keeps_the_start_of_its_outage() {
    for before in [open("payments"), half_open("payments")] {
        for (time, secs) in [("1m", MINUTE), ("3h", 180 * MINUTE)] {
            let table = with([before.clone()]).await;
            table.done(&["open", "payments", "--for", time, "--yes"]);
            let after = table.breaker_item("payments");
            let until = number(&after, "in_progress_expiration") / 1000;
            assert!((now() + secs - 30..=now() + secs).contains(&until));
            assert_eq!(number(&after, "fence"), FENCE + 1);
            assert_eq!(after["expiration"], before["expiration"]);
            assert_ne!(after["owner"], before["owner"]);
        }
    }
    let table = with([]).await;
    let run = table.run(&["open", "payments", "--for", "0s", "--yes"]);
    run.assert_refused_with("`breaker close` closes it");
    let run = table.run(&["open", "payments"]);
    run.assert_refused_with("--for");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_asks_and_names_its_place() {
    let table = with([open("payments")]).await;
    let before = table.breaker_item("payments");
    let open = ["open", "payments", "--for", "90m"];
    for (arguments, question) in [
        (&["close", "payments"][..], "Close payments?"),
        (&open, "Open payments for 1h 30m?"),
    ] {
        let run = table.asked(arguments).answer("n\n");
        run.assert_failed_with("nothing was changed");
        run.says("state       open");
        run.says(&format!("table sqs-once, {REGION}, "));
        run.says(question);
    }
    assert_eq!(table.breaker_item("payments"), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_table_of_any_layout_has_breakers() {
    let dynamodb = LocalDynamoDb::memory().await.unwrap();
    let description = TableDescription {
        name: "shared".to_owned(),
        partition_key: KeyAttribute::string("pk"),
        sort_key: Some(KeyAttribute::string("sk")),
        ..TableDescription::default()
    };
    dynamodb.create_table(&description).unwrap();
    let layout = "--table shared --attribute id=pk --attribute sort_key=sk --partition-value idempotency \
                  --attribute owner=lock_owner";
    let layout: Vec<_> = layout.split_whitespace().collect();
    let run = |arguments: &[&str]| {
        let arguments = [&["breaker"], arguments, &layout].concat();
        let run = Run::of(on_table(&dynamodb, &arguments));
        run.assert_done();
        run
    };
    run(&["open", "payments", "--for", "2h", "--yes"]);
    let key = json!({"pk": {"S": "idempotency"}, "sk": {"S": "breaker#payments"}});
    let item = dynamodb.item("shared", key).unwrap().unwrap();
    assert!(item["lock_owner"]["S"].is_string());
    let listed = run(&["show", "--format=json"]).one();
    assert_eq!(listed["name"], "payments");
    assert_eq!(listed["state"], "open");
    run(&["close", "payments", "--yes"]);
}
