//! Attribute values, and how they compare.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::number::Number;

/// The attributes of an item, or of a key. Items share the names.
pub type Item = BTreeMap<Arc<str>, Value>;

/// A value, read and written as DynamoDB's JSON has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Value {
    /// Text.
    S(String),
    /// A number.
    N(Number),
    /// Bytes.
    B(Bytes),
    /// A truth value.
    #[serde(rename = "BOOL")]
    Bool(bool),
    /// Nothing.
    #[serde(rename = "NULL")]
    Null(bool),
    /// A list.
    L(Vec<Value>),
    /// A map.
    M(Item),
    /// A set of texts.
    #[serde(rename = "SS")]
    Texts(Set<String>),
    /// A set of numbers.
    #[serde(rename = "NS")]
    Numbers(Set<Number>),
    /// A set of bytes.
    #[serde(rename = "BS")]
    Blobs(Set<Bytes>),
}

/// Bytes, in base64 on their way.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Bytes(pub Vec<u8>);

/// A set, which is neither empty nor says anything twice.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Set<T: Ord>(pub BTreeSet<T>);

/// What a list or a map takes in an item, apart from what is in it, and what each entry takes on top.
const DOCUMENT: usize = 3;
const ENTRY: usize = 1;

impl Value {
    /// The name of its type, such as `S`.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::S(_) => "S",
            Self::N(_) => "N",
            Self::B(_) => "B",
            Self::Bool(_) => "BOOL",
            Self::Null(_) => "NULL",
            Self::L(_) => "L",
            Self::M(_) => "M",
            Self::Texts(_) => "SS",
            Self::Numbers(_) => "NS",
            Self::Blobs(_) => "BS",
        }
    }

    /// Whether values of its type have an order.
    pub(crate) fn is_ordered(&self) -> bool {
        matches!(self, Self::S(_) | Self::N(_) | Self::B(_))
    }

    /// The order of two values; none where their type is not the same, or has none.
    pub(crate) fn order(&self, other: &Self) -> Option<Ordering> {
        let is_same = self.type_name() == other.type_name() && self.is_ordered();
        is_same.then(|| self.cmp(other))
    }

    /// How many bytes of an item it takes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::S(text) => text.len(),
            Self::N(number) => number.size(),
            Self::B(Bytes(bytes)) => bytes.len(),
            Self::Bool(_) | Self::Null(_) => 1,
            Self::L(list) => DOCUMENT + list.iter().map(|one| ENTRY + one.size()).sum::<usize>(),
            Self::M(map) => DOCUMENT + ENTRY * map.len() + item_size(map),
            Self::Texts(set) => set.0.iter().map(String::len).sum(),
            Self::Numbers(set) => set.0.iter().map(|number| number.size()).sum(),
            Self::Blobs(set) => set.0.iter().map(|bytes| bytes.0.len()).sum(),
        }
    }

    /// What the function `size` says of it, if anything.
    pub(crate) fn measured(&self) -> Option<usize> {
        match self {
            Self::S(text) => Some(text.encode_utf16().count()),
            Self::B(Bytes(bytes)) => Some(bytes.len()),
            Self::L(list) => Some(list.len()),
            Self::M(map) => Some(map.len()),
            Self::Texts(set) => Some(set.0.len()),
            Self::Numbers(set) => Some(set.0.len()),
            Self::Blobs(set) => Some(set.0.len()),
            Self::N(_) | Self::Bool(_) | Self::Null(_) => None,
        }
    }

    /// What the function `contains` says.
    pub(crate) fn contains(&self, part: &Self) -> bool {
        match (self, part) {
            (Self::S(text), Self::S(part)) => text.contains(part.as_str()),
            (Self::B(Bytes(bytes)), Self::B(Bytes(part))) => {
                part.is_empty() || bytes.windows(part.len()).any(|window| window == part)
            }
            (Self::Texts(set), Self::S(part)) => set.0.contains(part),
            (Self::Numbers(set), Self::N(part)) => set.0.contains(part),
            (Self::Blobs(set), Self::B(part)) => set.0.contains(part),
            (Self::L(list), part) => list.contains(part),
            _ => false,
        }
    }

    /// What the function `begins_with` says.
    pub(crate) fn begins_with(&self, start: &Self) -> bool {
        match (self, start) {
            (Self::S(text), Self::S(start)) => text.starts_with(start.as_str()),
            (Self::B(Bytes(bytes)), Self::B(Bytes(start))) => bytes.starts_with(start),
            _ => false,
        }
    }
}

/// How many bytes an item takes: its names and its values.
pub(crate) fn item_size(item: &Item) -> usize {
    let sizes = item.iter().map(|(name, value)| name.len() + value.size());
    sizes.sum()
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(&self.0))
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
        let bytes = STANDARD.decode(text.as_bytes());
        bytes.map(Self).map_err(D::Error::custom)
    }
}

impl<'de, T: Ord + Deserialize<'de>> Deserialize<'de> for Set<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let members = Vec::<T>::deserialize(deserializer)?;
        let count = members.len();
        let set: BTreeSet<T> = members.into_iter().collect();
        if count == 0 {
            return Err(D::Error::custom("An set may not be empty"));
        }
        if set.len() < count {
            return Err(D::Error::custom("Input collection contains duplicates"));
        }
        Ok(Self(set))
    }
}
