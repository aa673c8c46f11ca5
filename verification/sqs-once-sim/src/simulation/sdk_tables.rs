//! DynamoDB's tables beneath the SDK: dynoxide in memory, without its server.
//!
//! `sqs-once-sim --depth sdk --seeds 3000` runs 230 to 280 schedules per second of CPU on them.

use std::collections::HashMap;

use dynoxide::Database;
use dynoxide::actions::get_item::GetItemRequest;
use dynoxide::types::AttributeValue;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value as Json, json};
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Fence, Item, Owner, Status, Timestamp};

/// The table of the keys, and the table of the effects that commit with the records.
pub(super) const KEYS: &str = "keys";
pub(super) const EFFECTS: &str = "effects";

type Attributes = HashMap<String, AttributeValue>;

/// The tables of one schedule. A schedule has its own database, so it meets no items and no client request tokens of
/// another one.
pub(super) struct Tables(Database);

pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: String,
}

impl Tables {
    pub(super) fn new() -> Self {
        let database = Database::memory().unwrap_or_else(|error| unreachable!("{error}"));
        for table in [KEYS, EFFECTS] {
            let description = json!({
                "TableName": table,
                "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
                "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
                "BillingMode": "PAY_PER_REQUEST",
            });
            let created = answer(description, |request| database.create_table(request));
            assert_eq!(created.status, 200, "{}", created.body);
        }
        Self(database)
    }

    /// Carries out one of the operations that the store and the handlers' writes use.
    pub(super) fn carry_out(&self, operation: &str, body: Json) -> Answer {
        let Self(database) = self;
        match operation {
            "BatchExecuteStatement" => {
                answer(body, |request| database.batch_execute_statement(request))
            }
            "BatchGetItem" => answer(body, |request| database.batch_get_item(request)),
            "TransactWriteItems" => answer(body, |request| database.transact_write_items(request)),
            "UpdateItem" => answer(body, |request| database.update_item(request)),
            _ => Answer {
                status: 400,
                body: json!({"__type": "UnknownOperationException"}).to_string(),
            },
        }
    }

    pub(super) fn item(&self, id: &ItemId) -> Option<Item> {
        let attributes = self.get(KEYS, id.as_str())?;
        let text = |name: &str| match attributes.get(name) {
            Some(AttributeValue::S(text)) => Some(text.as_str()),
            _ => None,
        };
        let number = |name: &str| number(&attributes, name);
        let status = match text("status")? {
            "INPROGRESS" => Status::InProgress,
            "COMPLETED" => Status::Completed,
            other => Status::Unknown(other.to_owned()),
        };
        let mut item = Item::new(id.clone(), status);
        item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
        item.expiration = number("expiration").map(Timestamp::from_secs);
        item.fingerprint = text("validation").map(Fingerprint::from_stored);
        item.data = text("data").map(Into::into);
        item.owner = text("owner").and_then(Owner::from_stored);
        item.fence = number("fence").map(Fence::from_stored);
        Some(item)
    }

    /// How often the effect that commits with a key's record has happened.
    pub(super) fn happened(&self, key: usize) -> u64 {
        let effect = self.get(EFFECTS, &format!("k{key}"));
        let times = effect.and_then(|effect| number(&effect, "times"));
        times.unwrap_or_default()
    }

    fn get(&self, table: &str, id: &str) -> Option<Attributes> {
        let request = GetItemRequest {
            table_name: table.to_owned(),
            key: HashMap::from([("id".to_owned(), AttributeValue::S(id.to_owned()))]),
            ..GetItemRequest::default()
        };
        let got = self.0.get_item(request);
        got.unwrap_or_else(|error| unreachable!("{error}")).item
    }
}

fn number(attributes: &Attributes, name: &str) -> Option<u64> {
    match attributes.get(name) {
        Some(AttributeValue::N(number)) => number.parse().ok(),
        _ => None,
    }
}

/// Reads a request, carries it out, and writes its answer.
fn answer<R: DeserializeOwned, A: Serialize>(
    body: Json,
    carry_out: impl FnOnce(R) -> dynoxide::Result<A>,
) -> Answer {
    let answer = match serde_json::from_value(body) {
        Ok(request) => carry_out(request).map(|answer| json!(answer).to_string()),
        Err(error) => {
            let body = json!({"__type": "ValidationException", "message": error.to_string()});
            return Answer {
                status: 400,
                body: body.to_string(),
            };
        }
    };
    match answer {
        Ok(body) => Answer { status: 200, body },
        Err(error) => Answer {
            status: error.status_code(),
            body: error.to_json(),
        },
    }
}
