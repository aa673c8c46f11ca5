//! Items as DynamoDB holds them.

use std::collections::HashMap;
use std::fmt::Display;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::key::{Fingerprint, ItemId};
use crate::store::item::whole_secs;
use crate::store::{Fence, Item, Owner, Status, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use super::layout::{LayoutError, TableKey, TableLayout};

pub(super) const IN_PROGRESS: &str = "INPROGRESS";
pub(super) const COMPLETED: &str = "COMPLETED";

pub(super) type Attributes = HashMap<String, AttributeValue>;

/// A table: its name, its key, and the names of its attributes.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    key: TableKey,
    pub(super) names: TableLayout,
}

impl Table {
    pub(super) fn new(name: String, layout: TableLayout) -> Result<Self, LayoutError> {
        Ok(Self {
            name,
            key: layout.key()?,
            names: layout,
        })
    }

    /// A table with the default layout.
    pub(super) fn by_default(name: String) -> Self {
        let names = TableLayout::default();
        Self {
            name,
            key: TableKey::Simple {
                partition: names.partition_key.clone(),
            },
            names,
        }
    }

    /// The attributes that name an item, the partition key first.
    pub(super) fn key_of(&self, id: &ItemId) -> Vec<(&str, AttributeValue)> {
        let id = text(id.as_str());
        match &self.key {
            TableKey::Simple { partition } => vec![(partition, id)],
            TableKey::Composite {
                partition,
                value,
                sort,
            } => vec![(partition, text(value)), (sort, id)],
        }
    }

    /// The attribute that holds the item id.
    pub(super) fn id_name(&self) -> &str {
        match &self.key {
            TableKey::Simple { partition: id } | TableKey::Composite { sort: id, .. } => id,
        }
    }

    /// The item id of an item, or of a key.
    pub(super) fn stored_id(&self, attributes: &Attributes) -> Option<ItemId> {
        let id = attributes.get(self.id_name())?.as_s().ok()?;
        Some(ItemId::from_stored(id.as_str()))
    }

    /// Reads an item. An attribute of the wrong type is an error and not an absent one: taking it for
    /// absent could free a key that somebody owns.
    pub(super) fn item(&self, attributes: &Attributes) -> Result<Item, StoreError> {
        let names = &self.names;
        let text = |name| optional(attributes, name, |value| value.as_s().ok().cloned());
        let number = |name| {
            optional(attributes, name, |value| {
                value.as_n().ok()?.parse::<u64>().ok()
            })
        };
        let owner = |value: &AttributeValue| Owner::from_stored(value.as_s().ok()?).ok();
        Ok(Item {
            id: self
                .stored_id(attributes)
                .ok_or_else(|| bad(self.id_name()))?,
            status: match text(&names.status)?.ok_or_else(|| bad(&names.status))? {
                status if status == IN_PROGRESS => Status::InProgress,
                status if status == COMPLETED => Status::Completed,
                status => Status::Unknown(status),
            },
            lease_until: number(&names.lease)?.map(Timestamp::from_millis),
            expiration: number(&names.expiration)?.map(Timestamp::from_secs),
            fingerprint: text(&names.fingerprint)?
                // Powertools writes an empty one when it validates no payload.
                .filter(|fingerprint| !fingerprint.is_empty())
                .map(Fingerprint::from_stored),
            // Powertools for TypeScript records a document, which is nothing that this library wrote.
            data: attributes
                .get(&names.data)
                .and_then(|value| value.as_s().ok())
                .map(|data| data.as_str().into()),
            owner: optional(attributes, &names.owner, owner)?,
            fence: number(&names.fence)?.map(Fence::from_stored),
        })
    }
}

/// Named values as the SDK wants them.
pub(super) fn owned(named: Vec<(&str, AttributeValue)>) -> Attributes {
    let owned = named
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value));
    owned.collect()
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: impl Display) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn expiration(at: Timestamp) -> AttributeValue {
    number(whole_secs(at).as_secs())
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

fn bad(name: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::BadItem,
        format!("the attribute `{name}` is missing or has another type than expected"),
    )
}
