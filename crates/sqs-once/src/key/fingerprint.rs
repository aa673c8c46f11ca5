//! The payload fingerprint: tells whether two messages with one key say the same.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{HexDigest, KeyError, KeyPart, KeyWriter};

/// A hash of a message's payload, kept with its key: a second message with the same key and another
/// fingerprint is not a duplicate but a mix-up.
///
/// For JSON, neither white space nor the order of an object's fields counts. Numbers count by their
/// text, so that two large integers never become one float. Anything else is hashed as it is.
///
/// ```
/// use sqs_once::key::Fingerprint;
///
/// assert_eq!(
///     Fingerprint::of_body(r#"{"id": 1, "total": 2}"#),
///     Fingerprint::of_body(r#"{"total":2,"id":1}"#),
/// );
/// assert_ne!(
///     Fingerprint::of_body(r#"{"id":18446744073709551616}"#),
///     Fingerprint::of_body(r#"{"id":18446744073709551617}"#),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Arc<str>);

impl Fingerprint {
    /// The fingerprint of a message body.
    pub fn of_body(body: &str) -> Self {
        let mut hash = Sha256::new();
        match serde_json::from_str::<&RawValue>(body) {
            Ok(json) => canonical(json.get(), 0, &mut hash),
            Err(_) => hash.update(body.as_bytes()),
        }
        Self(HexDigest::end(hash).as_str().into())
    }

    /// The fingerprint of a part of a payload. Other than in a key, `None` and empty text are values
    /// like any other, and the length does not matter.
    ///
    /// # Errors
    /// What `part` itself says: [`KeyError::Extractor`] when it is an `Err`.
    pub fn new<K: KeyPart + ?Sized>(part: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::for_fingerprint();
        part.write(&mut writer)?;
        Ok(Self(HexDigest::of(writer.encoded()).as_str().into()))
    }

    /// Takes a fingerprint as it stands in the table.
    pub fn from_stored(fingerprint: impl Into<Arc<str>>) -> Self {
        Self(fingerprint.into())
    }

    /// The fingerprint as it stands in the table: 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Other than a plain `Cow`, it borrows what needs no unescaping inside of a map, too.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Below this depth a value is hashed as it stands: each level is read once more, and the stack is
/// finite.
const MAX_DEPTH: usize = 16;

/// Feeds the canonical form of one JSON value, given as its text.
fn canonical(json: &str, depth: usize, hash: &mut Sha256) {
    let json = json.trim();
    match json.as_bytes().first() {
        _ if depth == MAX_DEPTH => {}
        Some(b'{') => {
            if let Ok(fields) = serde_json::from_str::<BTreeMap<Text<'_>, &RawValue>>(json) {
                hash.update(b"{");
                for (Text(name), value) in fields {
                    text(&name, hash);
                    canonical(value.get(), depth + 1, hash);
                }
                return hash.update(b"}");
            }
        }
        Some(b'[') => {
            if let Ok(values) = serde_json::from_str::<Vec<&RawValue>>(json) {
                hash.update(b"[");
                for value in values {
                    canonical(value.get(), depth + 1, hash);
                }
                return hash.update(b"]");
            }
        }
        Some(b'"') => {
            if let Ok(Text(unescaped)) = serde_json::from_str(json) {
                return text(&unescaped, hash);
            }
        }
        _ => {}
    }
    hash.update(b"=");
    hash.update((json.len() as u64).to_be_bytes());
    hash.update(json.as_bytes());
}

fn text(text: &str, hash: &mut Sha256) {
    hash.update(b"\"");
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
