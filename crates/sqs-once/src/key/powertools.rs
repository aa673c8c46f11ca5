//! Ids of Powertools for AWS Lambda.

use std::fmt::Write;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::de::IgnoredAny;

use crate::error::ConfigError;

use super::readable::{Part, parts};
use super::{BusinessKey, ItemId, KeyCodec, KeyError, hex};

/// The largest integer that a JavaScript number holds exactly.
const LARGEST_EXACT: i128 = (1 << 53) - 1;
/// The maximum size of a prefix, which a `#` and an MD5 follow.
const LONGEST_PREFIX: usize = ItemId::MAX_READABLE_LEN - 33;

/// The ids of one of the libraries: a prefix, and the MD5 of the key as that library encodes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Powertools {
    language: Language,
    prefix: Arc<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Language {
    Python,
    TypeScript,
    Java,
    DotNet,
}

/// The ids of Powertools for AWS Lambda with its default hash, MD5. `prefix` is the part before the `#` of the ids in
/// the table: copy it from there.
impl KeyCodec {
    /// Creates the codec of Powertools for Python. The prefix is `key_prefix`, or else
    /// `{function}.{module}.{qualified name}`.
    ///
    /// A prefix has 1 to 991 bytes and is not blank: an id with its hash has at most 1024 bytes. With any other prefix,
    /// the consumer fails at `init`. The same holds for the three other libraries.
    pub fn powertools_python(prefix: &str) -> Self {
        Self::of_language(Language::Python, prefix)
    }

    /// Creates the codec of Powertools for TypeScript. The prefix is `keyPrefix`, or else the function's name.
    pub fn powertools_typescript(prefix: &str) -> Self {
        Self::of_language(Language::TypeScript, prefix)
    }

    /// Creates the codec of Powertools for Java. The prefix is `{function}.{method}`. As in Powertools, text and an
    /// integer with the same digits have the same id.
    pub fn powertools_java(prefix: &str) -> Self {
        Self::of_language(Language::Java, prefix)
    }

    /// Creates the codec of Powertools for .NET, from version 2 on. The prefix is `KeyPrefix`, or else
    /// `{function}.{method}`. As in Powertools, text and an integer with the same digits have the same id.
    pub fn powertools_dotnet(prefix: &str) -> Self {
        Self::of_language(Language::DotNet, prefix)
    }

    fn of_language(language: Language, prefix: &str) -> Self {
        Self::powertools(Powertools {
            language,
            prefix: prefix.into(),
        })
    }
}

impl Powertools {
    pub(super) fn prefix(&self) -> &str {
        &self.prefix
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !self.prefix.trim().is_empty() && self.prefix.len() <= LONGEST_PREFIX {
            return Ok(());
        }
        Err(ConfigError::invalid(
            "the key codec",
            format!("has a prefix of {} bytes", self.prefix.len()),
            format!("1 to {LONGEST_PREFIX} bytes that are not all blank"),
        ))
    }

    pub(super) fn item_id(&self, key: &BusinessKey) -> Result<ItemId, KeyError> {
        let language = self.language;
        let parts = parts(&key.encoded).ok_or_else(|| language.unwritable("unknown parts"))?;
        let hash = md5::compute(language.written(&parts)?).0;
        let hash = match language {
            Language::TypeScript => STANDARD.encode(hash),
            _ => hex(&hash),
        };
        Ok(ItemId::from_stored([&*self.prefix, "#", &hash].concat()))
    }
}

impl Language {
    fn written(self, parts: &[Part<'_>]) -> Result<String, KeyError> {
        let mut written = String::new();
        if let [part] = parts {
            self.write_single(part, &mut written)?;
            return Ok(written);
        }
        written.push('[');
        for (place, part) in parts.iter().enumerate() {
            match (place, self) {
                (0, _) => {}
                (_, Self::Python) => written.push_str(", "),
                _ => written.push(','),
            }
            self.json(part, &mut written)?;
        }
        written.push(']');
        Ok(written)
    }

    fn write_single(self, part: &Part<'_>, written: &mut String) -> Result<(), KeyError> {
        match (self, part) {
            (Self::DotNet, Part::Boolean(true)) => written.push_str("True"),
            (Self::DotNet, Part::Boolean(false)) => written.push_str("False"),
            // Text that is a number is hashed unchanged.
            (Self::DotNet, Part::Text(text)) if !is_number(text) => {
                written.push_str(self.unread(text)?);
            }
            (Self::Java | Self::DotNet, Part::Text(text)) => written.push_str(text),
            _ => self.json(part, written)?,
        }
        Ok(())
    }

    fn json(self, part: &Part<'_>, written: &mut String) -> Result<(), KeyError> {
        match part {
            Part::Text(text) if self == Self::DotNet => self.text(self.unread(text)?, written),
            Part::Text(text) => self.text(text, written),
            Part::Integer(digits) => written.push_str(self.exact(digits)?),
            Part::Boolean(value) => written.push_str(if *value { "true" } else { "false" }),
            Part::Bytes(_) => return Err(self.unwritable("bytes")),
        }
        Ok(())
    }

    fn text(self, text: &str, written: &mut String) {
        written.push('"');
        for char in text.chars() {
            let short = match char {
                '"' if self != Self::DotNet => Some('"'),
                '\\' => Some('\\'),
                '\u{8}' => Some('b'),
                '\t' => Some('t'),
                '\n' => Some('n'),
                '\u{c}' => Some('f'),
                '\r' => Some('r'),
                _ => None,
            };
            match short {
                Some(short) => written.extend(['\\', short]),
                None if self.escapes(char) => {
                    for unit in char.encode_utf16(&mut [0; 2]) {
                        let _ = match self {
                            Self::Python | Self::TypeScript => write!(written, "\\u{unit:04x}"),
                            Self::Java | Self::DotNet => write!(written, "\\u{unit:04X}"),
                        };
                    }
                }
                None => written.push(char),
            }
        }
        written.push('"');
    }

    fn escapes(self, char: char) -> bool {
        let is_printable = matches!(char, ' '..='~');
        match self {
            Self::Python => !is_printable,
            Self::TypeScript | Self::Java => char < ' ',
            // .NET also escapes characters that could end a string in a web page.
            Self::DotNet => !is_printable || "\"&'+<>`".contains(char),
        }
    }

    /// Refuses integers that JavaScript rounds, because different keys would have the same id.
    fn exact(self, digits: &str) -> Result<&str, KeyError> {
        let is_exact = |number: i128| number.unsigned_abs() <= LARGEST_EXACT.unsigned_abs();
        match self {
            Self::TypeScript if !digits.parse().is_ok_and(is_exact) => {
                Err(self.unwritable("an integer beyond 2^53 - 1"))
            }
            _ => Ok(digits),
        }
    }

    /// Refuses text that the library's JMESPath would parse as JSON.
    fn unread(self, text: &str) -> Result<&str, KeyError> {
        match serde_json::from_str::<IgnoredAny>(text) {
            Ok(_) => Err(self.unwritable("text that is JSON itself")),
            Err(_) => Ok(text),
        }
    }

    fn unwritable(self, found: &'static str) -> KeyError {
        KeyError::Unwritable {
            found,
            codec: match self {
                Self::Python => "Powertools for Python",
                Self::TypeScript => "Powertools for TypeScript",
                Self::Java => "Powertools for Java",
                Self::DotNet => "Powertools for .NET",
            },
        }
    }
}

/// Returns whether the text is a JSON number without white space.
fn is_number(text: &str) -> bool {
    let is_bare = text
        .bytes()
        .all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    is_bare && serde_json::from_str::<IgnoredAny>(text).is_ok()
}
