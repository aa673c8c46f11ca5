//! Items of several versions of Powertools, and how a consumer treats them. They were recorded during and after an
//! invocation, by the versions whose items differ. `.ci/powertools.py` compares the last ones of Python with today's.

use std::collections::BTreeSet;

use serde::Deserialize;
use serde_json::{Value, json};

use sqs_once::key::KeyCodec;
use sqs_once::unstable::Simulated;
use sqs_once::{Consumer, Handler};
use sqs_once_local::{LocalDynamoDb, TableDescription};

use crate::support::{At, Seen, deliver_until, dynamodb, failures};

const ITEMS: &str = include_str!("powertools_items.json");
const SECOND: u64 = 1000;
/// The remaining time of the recorded functions.
const REMAINING: u64 = 20 * SECOND;

#[derive(Debug, PartialEq)]
enum End {
    Duplicate,
    InProgress,
    Runs,
}

/// A recorded invocation.
#[derive(Deserialize)]
struct Recorded {
    by: String,
    #[serde(rename = "case")]
    key: String,
    #[serde(rename = "at_ms")]
    at: u64,
    in_progress: Value,
    completed: Value,
}

fn recorded() -> Vec<Recorded> {
    serde_json::from_str(ITEMS).unwrap()
}

/// The whole second at which an item expires, in milliseconds.
fn expires(item: &Value) -> u64 {
    let written = item["expiration"]["N"].as_str().unwrap();
    let (seconds, fraction) = written.split_once('.').unwrap_or((written, ""));
    let seconds: u64 = seconds.parse().unwrap();
    (seconds + u64::from(!fraction.is_empty())) * SECOND
}

/// A table with one item.
struct Table {
    dynamodb: LocalDynamoDb,
    recorded: Recorded,
}

impl Table {
    async fn new(recorded: Recorded) -> Self {
        let dynamodb = dynamodb::local(&TableDescription::default()).await;
        Self { dynamodb, recorded }
    }

    fn codec(&self) -> KeyCodec {
        let id = self.recorded.completed["id"]["S"].as_str().unwrap();
        let (prefix, _) = id.split_once('#').unwrap();
        match self.recorded.by.contains("idempotency") {
            true => KeyCodec::powertools_typescript(prefix),
            false => KeyCodec::powertools_python(prefix),
        }
    }

    /// The outcome at time `now` of a message with the item's key, alone or in a batch with others.
    async fn end(&self, now: u64, others: &[&str]) -> End {
        let (ran, notes) = Seen::pair();
        let keyed = Handler::json::<String>().key(|key: &String| key.clone());
        let handler = keyed.call(notes.of(|key: String| key)).namespace("orders");
        let consumer = Consumer::new(handler.ids(self.codec()))
            .store(dynamodb::store(&self.dynamodb.endpoint()))
            .with_clock(At(now));
        let keys = others.iter().copied().chain([&*self.recorded.key]);
        let records = keys.map(|key| json!({ "messageId": key, "body": json!(key).to_string() }));
        let response = deliver_until(now + 30 * SECOND, &consumer, records).await;
        let is_retried = failures(&response.unwrap()).contains(&self.recorded.key);
        match (ran.all().contains(&self.recorded.key), is_retried) {
            (true, false) => End::Runs,
            (false, true) => End::InProgress,
            (false, false) => End::Duplicate,
            (true, true) => panic!("it ran and failed"),
        }
    }

    /// Alone and in a batch, since the requests differ.
    async fn ends(&self, item: &Value, now: u64, expected: End) {
        for others in [&[][..], &["another", "a third"]] {
            let name = TableDescription::default().name;
            self.dynamodb.put_item(&name, item.clone()).unwrap();
            let end = self.end(now, others).await;
            let Recorded { by, key, at, .. } = &self.recorded;
            assert_eq!(end, expected, "{by}, {key}, {} ms later: {item}", now - at);
        }
    }
}

#[test]
fn the_items_are_of_every_form_that_the_libraries_have_written() {
    let form = |item: &Value| {
        let fields = item.as_object().unwrap().iter();
        let fields = fields.map(|(name, value)| {
            let (kind, value) = value.as_object().unwrap().iter().next().unwrap();
            let is_fraction = kind == "N" && value.as_str().unwrap().contains('.');
            format!("{name} {kind}{}", if is_fraction { "." } else { "" })
        });
        fields.collect::<Vec<_>>().join(", ")
    };
    let items = recorded()
        .into_iter()
        .flat_map(|one| [one.in_progress, one.completed]);
    let forms: BTreeSet<_> = items.map(|item| form(&item)).collect();
    let dates = ["expiration N.", "expiration N,"];
    for part in dates.into_iter().chain(["data S", "data M", "data NULL"]) {
        assert!(forms.iter().any(|form| form.contains(part)), "{forms:#?}");
    }
    assert!(forms.len() >= 16, "{forms:#?}");
}

#[tokio::test]
async fn what_any_version_completed_is_a_duplicate_until_it_expires() {
    for recorded in recorded() {
        let table = Table::new(recorded).await;
        let (item, at) = (&table.recorded.completed, table.recorded.at);
        table.ends(item, at + SECOND, End::Duplicate).await;
        table.ends(item, at + 2 * REMAINING, End::Duplicate).await;
        table.ends(item, expires(item) - 1, End::Duplicate).await;
        table.ends(item, expires(item) + SECOND, End::Runs).await;
    }
}

#[tokio::test]
async fn what_any_version_works_on_goes_back_until_its_lease_ends_or_else_until_it_expires() {
    for recorded in recorded() {
        let table = Table::new(recorded).await;
        let (item, at) = (&table.recorded.in_progress, table.recorded.at);
        table.ends(item, at + SECOND, End::InProgress).await;
        let lapsed = at + REMAINING + SECOND;
        match &item["in_progress_expiration"] {
            Value::Null => table.ends(item, lapsed, End::InProgress).await,
            _ => table.ends(item, lapsed, End::Runs).await,
        }
        table.ends(item, expires(item) + SECOND, End::Runs).await;
    }
}
