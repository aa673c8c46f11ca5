//! What names an item in a table.

use crate::error::ApiError;
use crate::value::{Bytes, Item, Value};

/// The most bytes of a partition key and of a sort key.
const LONGEST: [usize; 2] = [2048, 1024];

/// The key of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The partition key, and the sort key if there is one.
    attributes: Vec<(String, KeyType)>,
}

/// The type of a key's attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Text.
    S,
    /// A number.
    N,
    /// Bytes.
    B,
}

/// The values of a key.
pub(crate) type ItemKey = Vec<Value>;

impl Schema {
    /// A partition key, and no sort key.
    pub fn partition_key(name: impl Into<String>, of: KeyType) -> Self {
        Self {
            attributes: vec![(name.into(), of)],
        }
    }

    /// With a sort key as well.
    #[must_use]
    pub fn sort_key(mut self, name: impl Into<String>, of: KeyType) -> Self {
        self.attributes.truncate(1);
        self.attributes.push((name.into(), of));
        self
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.attributes.iter().map(|(name, _)| name.as_str())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.names().any(|key| key == name)
    }

    /// The key of a whole item.
    pub(crate) fn of_item(&self, item: &Item) -> Result<ItemKey, ApiError> {
        self.values(item, |name, of, found| {
            let invalid = "One or more parameter values were invalid";
            match found {
                None => format!("{invalid}: Missing the key {name} in the item"),
                Some(found) => format!(
                    "{invalid}: Type mismatch for key {name} expected: {of:?} actual: {}",
                    found.type_name()
                ),
            }
        })
    }

    /// The key of a request that names an item by it.
    pub(crate) fn of_key(&self, key: &Item) -> Result<ItemKey, ApiError> {
        let wrong = "The provided key element does not match the schema";
        if key.len() != self.attributes.len() {
            return Err(ApiError::of_item(wrong));
        }
        self.values(key, |_, _, _| wrong.to_owned())
    }

    fn values(
        &self,
        attributes: &Item,
        wrong: impl Fn(&str, KeyType, Option<&Value>) -> String,
    ) -> Result<ItemKey, ApiError> {
        let values = self.attributes.iter().zip(LONGEST);
        let values = values.map(|((name, of), longest)| {
            let found = attributes.get(name.as_str());
            let size = match (of, found) {
                (KeyType::S, Some(Value::S(text))) => text.len(),
                (KeyType::B, Some(Value::B(Bytes(bytes)))) => bytes.len(),
                (KeyType::N, Some(Value::N(_))) => 1,
                _ => return Err(ApiError::of_item(wrong(name, *of, found))),
            };
            match found {
                _ if size > longest => Err(ApiError::of_item(format!(
                    "One or more parameter values were invalid: Size of key {name} has exceeded the maximum size limit of {longest} bytes"
                ))),
                Some(value) if size > 0 => Ok(value.clone()),
                _ => Err(ApiError::validation(format!(
                    "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty value. Key: {name}"
                ))),
            }
        });
        values.collect()
    }
}
