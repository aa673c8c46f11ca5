//! The documented names of an item's attributes, independently of the store.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::key::{Fingerprint, ItemId};
use crate::store::{Fence, Item, Owner, Status};
use crate::time::Timestamp;

/// Writes an item of DynamoDB by the documented names of its attributes. For a [`Fixture`](super::Fixture) whose store keeps
/// its items in such a table.
pub fn to_attributes(item: Item) -> HashMap<String, AttributeValue> {
    let text = |value: &str| AttributeValue::S(value.to_owned());
    let number = |value: u64| AttributeValue::N(value.to_string());
    let status = match &item.status {
        Status::InProgress => "INPROGRESS",
        Status::Completed => "COMPLETED",
        Status::Unknown(status) => status,
    };
    let lease = item.lease_until.map(|at| number(at.as_millis()));
    let all = [
        ("id", Some(text(item.id.as_str()))),
        ("status", Some(text(status))),
        ("in_progress_expiration", lease),
        ("expiration", item.expiration.map(|at| number(at.as_secs()))),
        ("validation", item.fingerprint.map(|it| text(it.as_str()))),
        ("data", item.data.map(|data| text(&data))),
        ("owner", item.owner.map(|owner| text(&owner.to_string()))),
        ("fence", item.fence.map(|fence| number(fence.get()))),
    ];
    let all = all.into_iter();
    all.filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
}

/// Reads an item of DynamoDB by the documented names of its attributes. `None` if an attribute has another name or type.
pub fn from_attributes(attributes: &HashMap<String, AttributeValue>) -> Option<Item> {
    let text = |name| attributes.get(name).and_then(|value| value.as_s().ok());
    let number = |name: &str| attributes.get(name)?.as_n().ok()?.parse::<u64>().ok();
    let status = match text("status")?.as_str() {
        "INPROGRESS" => Status::InProgress,
        "COMPLETED" => Status::Completed,
        other => Status::Unknown(other.to_owned()),
    };
    let mut item = Item::new(ItemId::from_stored(text("id")?.clone()), status);
    item.fingerprint = text("validation").cloned().map(Fingerprint::from_stored);
    item.data = text("data").map(|data| data.as_str().into());
    item.owner = text("owner").and_then(|owner| Owner::from_stored(owner));
    item.lease_until = number("in_progress_expiration").map(Timestamp::from_millis);
    item.expiration = number("expiration").map(Timestamp::from_secs);
    item.fence = number("fence").map(Fence::from_stored);
    // Nothing may be lost: the item must write the same attributes.
    (to_attributes(item.clone()) == *attributes).then_some(item)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_item_with_another_attribute_or_type_is_refused() {
        let bare = Item::new(ItemId::from_stored("k#1".to_owned()), Status::InProgress);
        let mut more = to_attributes(bare.clone());
        more.insert("other".to_owned(), AttributeValue::S(String::new()));
        assert_eq!(from_attributes(&more), None);
        let mut mistyped = to_attributes(bare);
        mistyped.insert("fence".to_owned(), AttributeValue::S("1".to_owned()));
        assert_eq!(from_attributes(&mistyped), None);
    }
}
