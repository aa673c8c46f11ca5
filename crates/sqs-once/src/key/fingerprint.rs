//! Payload fingerprints, which show whether two messages with the same key have the same content.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde_json::value::RawValue;
use sha2::{Digest, Sha256};

use super::{HexDigest, KeyError, KeyPart, KeyWriter, hex};

/// A hash of a message's payload, stored with its key. Two messages with the same key and different fingerprints are
/// different events that share a key by mistake.
///
/// For JSON, white space and the order of an object's fields do not matter. Numbers are compared as text, so that two
/// large integers never become the same float. Other bodies are hashed byte for byte.
///
/// A fingerprint names its scheme: what it covers, and the version of the hash. The scheme of a whole body includes the
/// names of its top-level fields. Fingerprints of different schemes don't tell whether the content is the same.
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

/// The scheme of a whole body. The names of its top-level fields follow, as a hash: a producer that adds a field starts
/// another scheme.
const BODY: &str = "body1-";
/// The scheme of a part of the payload. The expression of an attribute follows, as a hash.
const FIELDS: &str = "fields1";
const FIELDS_OF: &str = "fields1-";

/// What two fingerprints tell about the payloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Payloads {
    Same,
    Different,
    /// The fingerprints have different schemes.
    Unknown,
}

impl Fingerprint {
    /// Returns the fingerprint of a message body.
    pub fn from_body(body: &str) -> Self {
        let mut hash = Sha256::new();
        let mut names = Names::default();
        // Most bodies are an object, which is valid JSON if its fields can be read.
        match serde_json::from_str::<Fields<'_>>(body) {
            Ok(fields) => {
                fields.keys().for_each(|field| names.add(&field.0));
                object(fields, 0, &mut hash);
            }
            Err(_) => match serde_json::from_str::<&RawValue>(body) {
                Ok(json) => canonical(json.get(), 0, &mut hash),
                Err(_) => hash.update(body.as_bytes()),
            },
        }
        Self::of_scheme([BODY, &names.hex()], &HexDigest::end(hash))
    }

    /// Returns the fingerprint of a part of a payload. Unlike a key part, it may be `None` or empty text, and has no
    /// maximum length.
    ///
    /// # Errors
    /// The error of `part`: [`KeyError::Extractor`] if it is an `Err`.
    pub fn new<K: KeyPart + ?Sized>(part: &K) -> Result<Self, KeyError> {
        Self::of_part([FIELDS, ""], part)
    }

    /// Returns the fingerprint of the part that `expression`, the text in an attribute, takes from a payload.
    pub(crate) fn declared<K: KeyPart + ?Sized>(
        expression: &str,
        part: &K,
    ) -> Result<Self, KeyError> {
        let mut names = Names::default();
        names.add(expression);
        Self::of_part([FIELDS_OF, &names.hex()], part)
    }

    fn of_part<K: KeyPart + ?Sized>(scheme: [&str; 2], part: &K) -> Result<Self, KeyError> {
        let mut writer = KeyWriter::for_fingerprint();
        part.write(&mut writer)?;
        Ok(Self::of_scheme(scheme, &HexDigest::of(writer.encoded())))
    }

    fn of_scheme([kind, names]: [&str; 2], digest: &HexDigest) -> Self {
        Self([kind, names, ":", digest.as_str()].concat().into())
    }

    /// Returns the fingerprint with scheme and digest hashed by `hash`. It has a scheme of its own.
    pub(super) fn hashed(&self, hash: impl Fn(&[&[u8]]) -> HexDigest) -> Self {
        let scheme = self.scheme();
        let names = hash(&[b"sqs-once fingerprint scheme ", scheme.as_bytes()]);
        let kind = scheme.split('-').next().unwrap_or_default();
        let digest = hash(&[b"sqs-once fingerprint ", self.0.as_bytes()]);
        Self::of_scheme([kind, &["-", &names.as_str()[..8]].concat()], &digest)
    }

    /// Compares the payloads of two messages with one key. Payloads without a fingerprint count as the same.
    pub(crate) fn compare(one: Option<&Self>, other: Option<&Self>) -> Payloads {
        match (one, other) {
            (Some(one), Some(other)) if one.scheme() != other.scheme() => Payloads::Unknown,
            (Some(one), Some(other)) if one != other => Payloads::Different,
            _ => Payloads::Same,
        }
    }

    fn scheme(&self) -> &str {
        self.0.rsplit_once(':').map_or("", |(scheme, _)| scheme)
    }

    /// Reads a fingerprint as stored in the table.
    pub fn from_stored(fingerprint: impl Into<Arc<str>>) -> Self {
        Self(fingerprint.into())
    }

    /// Returns the fingerprint as stored in the table: its scheme, a colon, and 64 hexadecimal digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A short hash of names, FNV-1a. It only tells schemes apart; equal hashes of different names mean that payloads are
/// compared.
struct Names(u32);

impl Default for Names {
    fn default() -> Self {
        Self(0x811c_9dc5)
    }
}

impl Names {
    fn add(&mut self, name: &str) {
        // No name contains this byte, so it ends each one.
        for byte in name.bytes().chain([0xff]) {
            self.0 = (self.0 ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }

    fn hex(&self) -> String {
        hex(&self.0.to_be_bytes())
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
