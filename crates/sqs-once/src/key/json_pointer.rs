//! Keys from the body's JSON by a JSON pointer, for any payload type.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::ConfigError;

use super::{BusinessKey, KeyError, KeyPart, KeyWriter};

/// A JSON pointer, compiled.
#[derive(Clone, Debug)]
pub struct JsonPointer {
    /// The names in the path, unescaped.
    path: Result<Vec<String>, ConfigError>,
}

impl JsonPointer {
    /// Returns the key in a body.
    ///
    /// # Errors
    /// [`KeyError`] if the body has no usable key at the pointer.
    pub fn key_in(&self, body: &str) -> Result<BusinessKey, KeyError> {
        BusinessKey::new(&Scalar(self.find(body)?))
    }

    /// Returns the text, or the digits of an integer, or `true` or `false`, in a body.
    pub fn text_in(&self, body: &str) -> Option<String> {
        let json = self.find(body).ok()?;
        match json.as_bytes().first()? {
            b'"' => read(json).ok(),
            b'{' | b'[' | b'n' => None,
            _ => Some(json.to_owned()),
        }
    }

    fn find<'a>(&self, body: &'a str) -> Result<&'a str, KeyError> {
        let mut json: &RawValue = read(body)?;
        let path = self.path.as_ref();
        for name in path.map_err(|error| KeyError::extractor(error.to_string()))? {
            json = inside(json, name)?.ok_or(KeyError::Missing)?;
        }
        Ok(json.get().trim())
    }

    pub(crate) fn check(&self) -> Result<(), ConfigError> {
        self.path.clone().map(|_| ())
    }

    /// Compiles a pointer.
    pub fn new(pointer: &str) -> Self {
        let mut names = pointer.split('/');
        let path = match names.next() {
            Some("") => {
                let names: Option<_> = names.map(unescape).collect();
                names.ok_or("`~0` for a `~`, and `~1` for a `/` in a name")
            }
            _ => Err("a `/` at its beginning, such as `/order/id`"),
        };
        let setting = "the JSON pointer";
        let invalid = |expected| ConfigError::invalid(setting, format!("is {pointer:?}"), expected);
        Self {
            path: path.map_err(invalid),
        }
    }
}

fn unescape(name: &str) -> Option<String> {
    let mut pieces = name.split('~');
    let mut unescaped = pieces.next().unwrap_or_default().to_owned();
    for piece in pieces {
        unescaped.push(match piece.chars().next()? {
            '0' => '~',
            '1' => '/',
            _ => return None,
        });
        unescaped.push_str(&piece[1..]);
    }
    Some(unescaped)
}

/// Returns the value called `name` in an object, or at this index of an array.
fn inside<'a>(json: &'a RawValue, name: &str) -> Result<Option<&'a RawValue>, KeyError> {
    let json = json.get().trim();
    match json.as_bytes().first() {
        Some(b'{') => {
            let mut fields: BTreeMap<Cow<'a, str>, &'a RawValue> = read(json)?;
            Ok(fields.remove(name))
        }
        Some(b'[') => {
            let Some(index) = index(name) else {
                return Ok(None);
            };
            let values: Vec<&'a RawValue> = read(json)?;
            Ok(values.get(index).copied())
        }
        _ => Ok(None),
    }
}

/// Parses an index. The standard allows no signs and no leading zeros.
fn index(name: &str) -> Option<usize> {
    let digits = name.bytes().all(|byte| byte.is_ascii_digit());
    let plain = digits && (name == "0" || !name.starts_with('0'));
    plain.then(|| name.parse().ok())?
}

/// Parses JSON. The error omits serde's message, because it may quote the body and errors are logged.
fn read<'a, J: Deserialize<'a>>(json: &'a str) -> Result<J, KeyError> {
    serde_json::from_str(json).map_err(|_| KeyError::WrongType {
        found: "not valid JSON",
    })
}

struct Scalar<'a>(&'a str);

impl KeyPart for Scalar<'_> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        let wrong = |found| Err(KeyError::WrongType { found });
        match self.0.as_bytes().first() {
            Some(b'"') => read::<String>(self.0)?.write(key),
            Some(b't' | b'f') => (self.0 == "true").write(key),
            Some(b'{') => wrong("an object"),
            Some(b'[') => wrong("an array"),
            Some(b'-' | b'0'..=b'9') if self.0.contains(['.', 'e', 'E']) => {
                wrong("a number with a fraction or an exponent")
            }
            Some(b'-' | b'0'..=b'9') => {
                key.integer(self.0);
                Ok(())
            }
            _ => Err(KeyError::Missing),
        }
    }
}
