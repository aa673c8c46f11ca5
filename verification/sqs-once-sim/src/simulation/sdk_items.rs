//! Reads the witness's view of items from DynamoDB's tables.

use dynamodb_for_tests::{Item as Attributes, Tables, Value};
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Fence, Item, Owner, Status};
use sqs_once::time::Timestamp;

use super::sdk::{EFFECTS, KEYS};

/// The item of a key.
pub(super) fn item(tables: &Tables, id: &ItemId) -> Option<Item> {
    let attributes = with(tables, KEYS, id.as_str())?;
    let text = |name: &str| match attributes.get(name) {
        Some(Value::S(text)) => Some(text.as_str()),
        _ => None,
    };
    let number = |name: &str| number(attributes, name);
    Some({
        let mut item = Item::new(
            id.clone(),
            match text("status")? {
                "INPROGRESS" => Status::InProgress,
                "COMPLETED" => Status::Completed,
                other => Status::Unknown(other.to_owned()),
            },
        );
        item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
        item.expiration = number("expiration").map(Timestamp::from_secs);
        item.fingerprint = text("validation").map(Fingerprint::from_stored);
        item.data = text("data").map(Into::into);
        item.owner = text("owner").and_then(|owner| Owner::from_stored(owner).ok());
        item.fence = number("fence").map(Fence::from_stored);
        item
    })
}

/// How often the effect that commits with a key's record has happened.
pub(super) fn happened(tables: &Tables, key: usize) -> u64 {
    let effect = with(tables, EFFECTS, &format!("k{key}"));
    effect
        .and_then(|effect| number(effect, "times"))
        .unwrap_or_default()
}

fn with<'a>(tables: &'a Tables, table: &str, id: &str) -> Option<&'a Attributes> {
    let mut items = tables.items(table);
    items.find(|item| matches!(item.get("id"), Some(Value::S(found)) if found == id))
}

fn number(attributes: &Attributes, name: &str) -> Option<u64> {
    match attributes.get(name) {
        Some(Value::N(number)) => number.to_string().parse().ok(),
        _ => None,
    }
}
