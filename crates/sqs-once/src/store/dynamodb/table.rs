//! Items as DynamoDB stores them.

use std::collections::HashMap;
use std::iter;

use aws_sdk_dynamodb::types::AttributeValue;

use crate::key::{Fingerprint, ItemId};
use crate::store::item::whole_secs;
use crate::store::{Fence, Item, Owner, Status, StoreError, StoreErrorKind};
use crate::time::Timestamp;

use crate::error::ConfigError;

use super::layout::{TableKey, TableLayout};
use super::statements::Texts;

pub(super) const IN_PROGRESS: &str = "INPROGRESS";
pub(super) const COMPLETED: &str = "COMPLETED";

pub(super) type Attributes = HashMap<String, AttributeValue>;

#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) name: String,
    pub(super) key: TableKey,
    pub(super) names: TableLayout,
    pub(super) texts: Texts,
}

impl Table {
    pub(super) fn new(name: String, layout: TableLayout) -> Result<Self, ConfigError> {
        Ok(Self::with_key(name, layout.key()?, layout))
    }

    pub(super) fn by_default(name: String) -> Self {
        let names = TableLayout::default();
        let partition = names.partition_key.clone();
        Self::with_key(name, TableKey::Simple { partition }, names)
    }

    fn with_key(name: String, key: TableKey, names: TableLayout) -> Self {
        Self {
            texts: Texts::new(&name, &key, &names),
            name,
            key,
            names,
        }
    }

    pub(super) fn key_of(&self, id: &ItemId) -> Attributes {
        let names = self.key.names().map(str::to_owned);
        names.zip(self.key.values(id)).collect()
    }

    pub(super) fn id_name(&self) -> &str {
        match &self.key {
            TableKey::Simple { partition: id } | TableKey::Composite { sort: id, .. } => id,
        }
    }

    /// Reads the item id from the attributes of an item or of a key.
    pub(super) fn stored_id(&self, attributes: &Attributes) -> Option<ItemId> {
        let id = attributes.get(self.id_name())?.as_s().ok()?;
        Some(ItemId::from_stored(id.as_str()))
    }

    /// Reads an item. An attribute of the wrong type is an error: treating it as absent could free a key that another
    /// worker owns.
    pub(super) fn item(&self, attributes: &Attributes) -> Result<Item, StoreError> {
        let names = &self.names;
        let text = |name| optional(attributes, name, |value| value.as_s().ok().cloned());
        let number = |name| {
            optional(attributes, name, |value| {
                value.as_n().ok()?.parse::<u64>().ok()
            })
        };
        let owner = |value: &AttributeValue| Owner::from_stored(value.as_s().ok()?);
        let id = self.stored_id(attributes);
        let status = match text(&names.status)?.ok_or_else(|| bad(&names.status))? {
            status if status == IN_PROGRESS => Status::InProgress,
            status if status == COMPLETED => Status::Completed,
            status => Status::Unknown(status),
        };
        let mut item = Item::new(id.ok_or_else(|| bad(self.id_name()))?, status);
        item.lease_until = number(&names.lease)?.map(Timestamp::from_millis);
        item.expiration = optional(attributes, &names.expiration, |value| {
            rounded_up(value.as_n().ok()?)
        })?
        .map(Timestamp::from_secs);
        item.fingerprint = text(&names.fingerprint)?
            // Powertools writes an empty fingerprint if it validates no payload.
            .filter(|fingerprint| !fingerprint.is_empty())
            .map(Fingerprint::from_stored);
        // Powertools for TypeScript stores a document, which this library never writes.
        item.data = attributes
            .get(&names.data)
            .and_then(|value| value.as_s().ok())
            .map(|data| data.as_str().into());
        item.owner = optional(attributes, &names.owner, owner)?;
        item.fence = number(&names.fence)?.map(Fence::from_stored);
        Ok(item)
    }
}

impl TableKey {
    pub(super) fn names(&self) -> impl Iterator<Item = &str> {
        let (first, second) = match self {
            Self::Simple { partition } => (partition, None),
            Self::Composite {
                partition, sort, ..
            } => (partition, Some(sort)),
        };
        iter::once(first).chain(second).map(String::as_str)
    }

    /// Returns the values of the key attributes, in the order of `names`.
    pub(super) fn values(&self, id: &ItemId) -> impl Iterator<Item = AttributeValue> {
        let partition = match self {
            Self::Simple { .. } => None,
            Self::Composite { value, .. } => Some(text(value)),
        };
        partition.into_iter().chain([text(id.as_str())])
    }
}

pub(super) fn text(value: impl Into<String>) -> AttributeValue {
    AttributeValue::S(value.into())
}

pub(super) fn number(value: u64) -> AttributeValue {
    AttributeValue::N(value.to_string())
}

pub(super) fn expiration(at: Timestamp) -> AttributeValue {
    number(whole_secs(at).as_secs())
}

/// Rounds a number up to a whole one. Powertools for TypeScript wrote fractions of a second before 2.2; rounded down,
/// an item would expire too early.
fn rounded_up(number: &str) -> Option<u64> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let whole: u64 = whole.parse().ok()?;
    if !fraction.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let has_fraction = fraction.bytes().any(|digit| digit != b'0');
    whole.checked_add(has_fraction.into())
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
