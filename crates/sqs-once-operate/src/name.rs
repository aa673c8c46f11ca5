//! Keys as users write them.

use sqs_once::BusinessKey;
use sqs_once::key::{ItemId, KeyError, KeyPart, KeyWriter, Namespace};
use std::fmt;
use thiserror::Error;

/// A key as users write it: one word for each part, or the ID of its item as in the table or a log line.
///
/// A part is text. `42` may also be an integer and `true` a boolean, so the search covers both. A prefix selects the
/// kind, as in the IDs of readable keys: `s:42` is text, `i:42` an integer, `b:true` a boolean, and `x:00ff` bytes.
///
/// A single word may be an ID: `payments#` followed by at least twelve hexadecimal digits, or a readable key such as
/// `payments#s:order-42`. With a kind prefix, it is text.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum KeyName {
    /// The possible values of each part.
    Parts(Vec<Vec<Part>>),
    /// An id, or the start of one.
    Id(String),
}

/// A part of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text.
    Text(String),
    /// An integer.
    Integer(i128),
    /// An integer above `i128::MAX`.
    Large(u128),
    /// A boolean.
    Boolean(bool),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// The words do not name a key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// There are no words.
    #[error("a key needs at least one part")]
    Nothing,
    /// The value does not match its kind.
    #[error("`{word}` is not {expected}; text that starts like this is written `s:{word}`")]
    Part {
        /// The word.
        word: String,
        /// The expected form.
        expected: &'static str,
    },
    /// There are too many parts. Each ambiguous word doubles the number of possible keys.
    #[error("a key has at most {} parts", KeyName::MOST_PARTS)]
    TooManyParts,
}

impl KeyName {
    /// The most parts in a key, which is also the longest tuple that a consumer accepts as a key.
    pub const MOST_PARTS: usize = 6;

    /// Parses words.
    ///
    /// # Errors
    /// [`NameError`] if there are no words or too many, or if a value does not match its kind.
    pub fn read<W: AsRef<str>>(words: &[W]) -> Result<Self, NameError> {
        match words {
            [] => Err(NameError::Nothing),
            [word] if is_id(word.as_ref()) => Ok(Self::Id(word.as_ref().to_owned())),
            _ if words.len() > Self::MOST_PARTS => Err(NameError::TooManyParts),
            _ => {
                let parts = words.iter().map(|word| Part::read(word.as_ref()));
                Ok(Self::Parts(parts.collect::<Result<_, _>>()?))
            }
        }
    }

    /// The keys that the parts may mean. Empty for an ID.
    ///
    /// # Errors
    /// [`KeyError`] if a part is empty or a key is too long.
    pub fn keys(&self) -> Result<Vec<BusinessKey>, KeyError> {
        let Self::Parts(parts) = self else {
            return Ok(Vec::new());
        };
        let mut keys: Vec<Vec<&Part>> = vec![Vec::new()];
        for choices in parts {
            let longer = keys.iter().flat_map(|key| {
                let with = |choice| key.iter().copied().chain([choice]).collect();
                choices.iter().map(with)
            });
            keys = longer.collect();
        }
        let keys = keys.iter().map(|key| BusinessKey::new(&Joined(key)));
        keys.collect()
    }
}

/// How the words were read: `tenant-7 (text), 42 (text or integer)`.
impl fmt::Display for KeyName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = match self {
            Self::Id(id) => return formatter.write_str(id),
            Self::Parts(parts) => parts,
        };
        for (index, choices) in parts.iter().enumerate() {
            let kinds: Vec<&str> = choices.iter().map(Part::kind).collect();
            let separator = if index == 0 { "" } else { ", " };
            let word = choices.first().map(Part::to_string).unwrap_or_default();
            write!(formatter, "{separator}{word} ({})", kinds.join(" or "))?;
        }
        Ok(())
    }
}

impl fmt::Display for Part {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => formatter.write_str(text),
            Self::Integer(number) => number.fmt(formatter),
            Self::Large(number) => number.fmt(formatter),
            Self::Boolean(value) => value.fmt(formatter),
            Self::Bytes(bytes) => bytes
                .iter()
                .try_for_each(|byte| write!(formatter, "{byte:02x}")),
        }
    }
}

/// The two IDs of a key in a namespace: hashed and readable.
pub(crate) fn ids(key: &BusinessKey, namespace: &Namespace) -> [ItemId; 2] {
    [false, true].map(|readable| namespace.clone().readable_keys(readable).item_id(key))
}

/// Whether a word is an ID, or the start of an ID from a log line.
fn is_id(word: &str) -> bool {
    let Some((namespace, key)) = word.split_once('#') else {
        return false;
    };
    let is_hash = key.len() >= 12 && key.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_readable = has_kind(key) && key.len() > 2;
    !namespace.is_empty() && !has_kind(word) && (is_hash || is_readable)
}

fn has_kind(word: &str) -> bool {
    matches!(word.as_bytes(), [b's' | b'i' | b'b' | b'x', b':', ..])
}

impl Part {
    fn kind(&self) -> &'static str {
        match self {
            Self::Text(_) => "text",
            Self::Integer(_) | Self::Large(_) => "integer",
            Self::Boolean(_) => "boolean",
            Self::Bytes(_) => "bytes",
        }
    }

    /// The possible values of a word.
    fn read(word: &str) -> Result<Vec<Self>, NameError> {
        let wrong = |expected| NameError::Part {
            word: word.to_owned(),
            expected,
        };
        let part = match word.split_once(':') {
            Some(("s", text)) => Self::Text(text.to_owned()),
            Some(("i", digits)) => integer(digits).ok_or_else(|| wrong("an integer"))?,
            Some(("b", "true")) => Self::Boolean(true),
            Some(("b", "false")) => Self::Boolean(false),
            Some(("b", _)) => return Err(wrong("true or false")),
            Some(("x", digits)) => {
                let bytes = bytes(digits).ok_or_else(|| wrong("pairs of hexadecimal digits"))?;
                Self::Bytes(bytes)
            }
            _ => {
                let text = Self::Text(word.to_owned());
                // Only the canonical form is an integer: `042` and `+42` are text.
                let number = integer(word).filter(|number| match number {
                    Self::Integer(number) => number.to_string() == word,
                    Self::Large(number) => number.to_string() == word,
                    _ => false,
                });
                let boolean = word.parse().ok().map(Self::Boolean);
                return Ok([text].into_iter().chain(number).chain(boolean).collect());
            }
        };
        Ok(vec![part])
    }
}

fn integer(digits: &str) -> Option<Part> {
    let number = digits.parse().ok().map(Part::Integer);
    number.or_else(|| digits.parse().ok().map(Part::Large))
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    if !is_hex || !digits.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..digits.len()).step_by(2);
    let bytes = pairs.map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok());
    bytes.collect()
}

impl KeyPart for Part {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        match self {
            Self::Text(text) => text.write(key),
            Self::Integer(number) => number.write(key),
            Self::Large(number) => number.write(key),
            Self::Boolean(value) => value.write(key),
            Self::Bytes(bytes) => bytes.write(key),
        }
    }
}

/// A key of these parts.
pub(crate) struct Joined<'a, P>(pub(crate) &'a [P]);

impl<P: KeyPart> KeyPart for Joined<'_, P> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        self.0.iter().try_for_each(|part| part.write(key))
    }
}
