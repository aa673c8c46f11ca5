//! What people call a key.

use sqs_once::BusinessKey;
use sqs_once::key::KeyError;
use sqs_once::key::{ItemId, KeyPart, KeyWriter, Namespace};
use thiserror::Error;

/// A key as people write it: its parts, one a word, or the id of its item as a table or a log line shows it.
///
/// A part is text. `42` may also be the integer, and `true` the boolean: both are looked for. A kind in front
/// says which it is, as it does in the ids of readable keys: `s:42` is text, `i:42` an integer, `b:true` a
/// boolean, and `x:00ff` bytes.
///
/// One word alone that looks like an id is one: `payments#` and twelve hexadecimal digits or more, or a key
/// that can be read, such as `payments#s:order-42`. With its kind in front it is text all the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyName {
    /// What each part may be.
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
    /// An integer beyond that.
    Large(u128),
    /// A boolean.
    Boolean(bool),
    /// Bytes.
    Bytes(Vec<u8>),
}

/// What was written is no key.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum NameError {
    /// No word at all.
    #[error("there is no key")]
    Nothing,
    /// The value does not fit its kind.
    #[error("`{word}` is not {expected}; text that starts like this is written `s:{word}`")]
    Part {
        /// What was written.
        word: String,
        /// What it should be.
        expected: &'static str,
    },
    /// Each word that may be two things doubles the keys it may be.
    #[error("a key has at most {} parts", KeyName::MOST_PARTS)]
    TooManyParts,
}

impl KeyName {
    /// The most parts that a key has here. A tuple of a consumer's has no more.
    pub const MOST_PARTS: usize = 6;

    /// Reads words.
    ///
    /// # Errors
    /// [`NameError`] when there are none or too many, or one has a kind and a value that is not of it.
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

    /// The keys that these parts may be; none for an id.
    ///
    /// # Errors
    /// [`KeyError`] when a part is empty, or the key too long.
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
        keys.iter()
            .map(|key| BusinessKey::new(&Joined(key)))
            .collect()
    }
}

/// The ids that a key has in a namespace: by its hash, and as it can be read.
pub(crate) fn ids(key: &BusinessKey, namespace: &Namespace) -> [ItemId; 2] {
    [false, true].map(|readable| namespace.clone().readable_keys(readable).item_id(key))
}

/// Whether a word is an id, or the start of one that stands in a log line.
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
    /// What a word may be.
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
                // Written as an integer is written: `042` and `+42` are text.
                let number = integer(word).filter(|number| number.digits() == word);
                let boolean = word.parse().ok().map(Self::Boolean);
                return Ok([text].into_iter().chain(number).chain(boolean).collect());
            }
        };
        Ok(vec![part])
    }

    fn digits(&self) -> String {
        match self {
            Self::Integer(number) => number.to_string(),
            Self::Large(number) => number.to_string(),
            _ => String::new(),
        }
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

struct Joined<'a>(&'a [&'a Part]);

impl KeyPart for Joined<'_> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        self.0.iter().try_for_each(|part| part.write(key))
    }
}
