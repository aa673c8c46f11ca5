//! Items as DynamoDB holds them. The names are those of Powertools for AWS Lambda; `owner` and
//! `fence` are added.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::key::{Fingerprint, ItemId};
use crate::store::item::whole_secs;
use crate::store::{Fence, Item, Owner, Status, StoreError, StoreErrorKind};
use crate::time::Timestamp;

pub(super) const ID: &str = "id";
pub(super) const STATUS: &str = "status";
pub(super) const LEASE: &str = "in_progress_expiration";
pub(super) const EXPIRATION: &str = "expiration";
pub(super) const FINGERPRINT: &str = "validation";
pub(super) const DATA: &str = "data";
pub(super) const OWNER: &str = "owner";
pub(super) const FENCE: &str = "fence";

pub(super) const IN_PROGRESS: &str = "INPROGRESS";
pub(super) const COMPLETED: &str = "COMPLETED";

pub(super) type Attributes = HashMap<String, AttributeValue>;

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn expiration(at: Timestamp) -> AttributeValue {
    number(whole_secs(at).as_secs())
}

/// Reads an item. An attribute of the wrong type is an error and not an absent one: taking it for
/// absent could free a key that somebody owns.
pub(super) fn item(attributes: &Attributes) -> Result<Item, StoreError> {
    let text = |name| optional(attributes, name, |value| value.as_s().ok().cloned());
    let number = |name| {
        optional(attributes, name, |value| {
            value.as_n().ok()?.parse::<u64>().ok()
        })
    };
    let owner = |value: &AttributeValue| Owner::from_stored(value.as_s().ok()?).ok();
    Ok(Item {
        id: ItemId::from_stored(text(ID)?.ok_or_else(|| bad(ID))?),
        status: match text(STATUS)?.ok_or_else(|| bad(STATUS))? {
            status if status == IN_PROGRESS => Status::InProgress,
            status if status == COMPLETED => Status::Completed,
            status => Status::Unknown(status),
        },
        lease_until: number(LEASE)?.map(Timestamp::from_millis),
        expiration: number(EXPIRATION)?.map(Timestamp::from_secs),
        fingerprint: text(FINGERPRINT)?
            // Powertools writes an empty one when it validates no payload.
            .filter(|fingerprint| !fingerprint.is_empty())
            .map(Fingerprint::from_stored),
        data: optional(attributes, DATA, |value| Some(data(value)))?,
        owner: optional(attributes, OWNER, owner)?,
        fence: number(FENCE)?.map(Fence::from_stored),
    })
}

fn optional<T>(
    attributes: &Attributes,
    name: &str,
    read: impl Fn(&AttributeValue) -> Option<T>,
) -> Result<Option<T>, StoreError> {
    attributes
        .get(name)
        .filter(|value| !value.is_null())
        .map(|value| read(value).ok_or_else(|| bad(name)))
        .transpose()
}

/// Powertools records data as text, or as a document.
fn data(value: &AttributeValue) -> std::sync::Arc<str> {
    match value {
        AttributeValue::S(text) => text.as_str().into(),
        document => format!("{document:?}").into(),
    }
}

fn bad(name: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::BadItem,
        format!("the attribute `{name}` is missing or has another type than expected"),
    )
}
