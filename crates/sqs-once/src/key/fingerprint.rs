//! Payload fingerprints, which show whether two messages with the same key have the same content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{HexDigest, KeyError, KeyPart, KeyWriter};

/// A hash of a message's payload, stored with its key. Two messages with the same key and different fingerprints are
/// different events that share a key by mistake.
///
/// For JSON, white space and the order of an object's fields do not matter. Numbers are compared as text, so that two
/// large integers never become the same float. Other bodies are hashed byte for byte.
///
/// ```
/// use sqs_once::key::Fingerprint;
///
/// assert_eq!(
///     Fingerprint::from_body(r#"{"id": 1, "total": 2}"#),
///     Fingerprint::from_body(r#"{"total":2,"id":1}"#),
/// );
/// assert_ne!(
///     Fingerprint::from_body(r#"{"id":18446744073709551616}"#),
///     Fingerprint::from_body(r#"{"id":18446744073709551617}"#),
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(Arc<str>);

impl Fingerprint {
    /// Returns the fingerprint of a message body.
    pub fn from_body(body: &str) -> Self {
        let mut hash = Sha256::new();
        // Most bodies are an object, which is valid JSON if its fields can be read.
        match serde_json::from_str(body) {
            Ok(fields) => object(fields, 0, &mut hash),
            Err(_) => match serde_json::from_str::<&RawValue>(body) {
                Ok(json) => canonical(json.get(), 0, &mut hash),
                Err(_) => hash.update(body.as_bytes()),
            },
        }
        Self(HexDigest::end(hash).as_str().into())
    }

    /// Returns the fingerprint of a part of a payload. Unlike a key part, it may be `None` or empty text, and has no
    /// maximum length.
    ///
    /// # Errors
    /// The error of `part`: [`KeyError::Extractor`] if it is an `Err`.
    pub fn new<K: KeyPart + ?Sized>(part: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::for_fingerprint();
        part.write(&mut writer)?;
        Ok(Self(HexDigest::of(writer.encoded()).as_str().into()))
    }

    /// Reads a fingerprint as stored in the table.
    pub fn from_stored(fingerprint: impl Into<Arc<str>>) -> Self {
        Self(fingerprint.into())
    }

    /// Returns the fingerprint as stored in the table: 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A text that borrows from the input if it needs no unescaping. A plain `Cow` as a map's key would always be owned.
#[derive(Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

type Fields<'a> = BTreeMap<Text<'a>, &'a RawValue>;

/// Values below this depth are hashed unchanged, because each level is parsed again and uses the stack.
const MAX_DEPTH: usize = 16;

/// Hashes the canonical form of one JSON value.
fn canonical(json: &str, depth: usize, hash: &mut Sha256) {
    let json = json.trim();
    match json.as_bytes().first() {
        _ if depth == MAX_DEPTH => {}
        Some(b'{') => {
            if let Ok(fields) = serde_json::from_str(json) {
                return object(fields, depth, hash);
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

fn object(fields: Fields<'_>, depth: usize, hash: &mut Sha256) {
    hash.update(b"{");
    for (Text(name), value) in fields {
        text(&name, hash);
        canonical(value.get(), depth + 1, hash);
    }
    hash.update(b"}");
}

fn text(text: &str, hash: &mut Sha256) {
    hash.update(b"\"");
    hash.update((text.len() as u64).to_be_bytes());
    hash.update(text.as_bytes());
}
