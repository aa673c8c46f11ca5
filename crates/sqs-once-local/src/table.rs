//! Describes a DynamoDB table: its name, keys and time to live.

use std::fmt;

/// A DynamoDB table: its name, its keys, and its time-to-live attribute.
///
/// The default is the table that `sqs-once` documents. It is named `sqs-once`, with the string partition key `id`, no
/// sort key, and time to live on `expiration`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableDescription {
    /// The table's name.
    pub name: String,
    /// The partition (`HASH`) key.
    pub partition_key: KeyAttribute,
    /// The sort (`RANGE`) key, if there is one.
    pub sort_key: Option<KeyAttribute>,
    /// The attribute that holds an item's expiry in epoch seconds, if time to live is enabled.
    pub ttl_attribute: Option<String>,
}

impl Default for TableDescription {
    fn default() -> Self {
        Self {
            name: "sqs-once".to_owned(),
            partition_key: KeyAttribute::string("id"),
            sort_key: None,
            ttl_attribute: Some("expiration".to_owned()),
        }
    }
}

impl TableDescription {
    /// The keys in words, such as `id (S)` or `pk (S), sk (N)`.
    pub(crate) fn keys(&self) -> String {
        match &self.sort_key {
            None => self.partition_key.to_string(),
            Some(sort_key) => format!("{}, {sort_key}", self.partition_key),
        }
    }
}

/// A key attribute: its name and its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyAttribute {
    /// The attribute's name.
    pub name: String,
    /// The attribute's type.
    pub kind: KeyType,
}

impl KeyAttribute {
    /// A key attribute that holds a string.
    pub fn string(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            kind: KeyType::S,
        }
    }
}

impl fmt::Display for KeyAttribute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.name, self.kind.as_str())
    }
}

/// The types of key attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyType {
    /// A string.
    S,
    /// A number.
    N,
    /// Binary data.
    B,
}

impl KeyType {
    /// The type's name in the DynamoDB API: `S`, `N` or `B`.
    pub fn as_str(self) -> &'static str {
        match self {
            KeyType::S => "S",
            KeyType::N => "N",
            KeyType::B => "B",
        }
    }

    /// Parses the type's name in the DynamoDB API.
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        let kinds = [KeyType::S, KeyType::N, KeyType::B];
        kinds.into_iter().find(|kind| kind.as_str() == name)
    }
}
