//! Validates message attributes, and computes their size and the digest that SDKs check.

use super::refused::Refused;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

const MOST: usize = 10;

/// An attribute in a request. Other kinds of values are ignored, as in SQS.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Attribute {
    data_type: Option<String>,
    string_value: Option<String>,
    binary_value: Option<String>,
}

pub(super) type Attributes = BTreeMap<String, Attribute>;

/// Validates attributes and converts them to the form in which a message keeps them.
pub(super) fn checked(attributes: Attributes) -> Result<Map<String, Value>, Refused> {
    if attributes.len() > MOST {
        let text = format!(
            "Number of message attributes [{}] exceeds the allowed maximum [{MOST}].",
            attributes.len()
        );
        return Err(Refused::new("InvalidParameterValue", text));
    }
    let checked = attributes.into_iter().map(|(name, attribute)| {
        let value = attribute.checked(&name)?;
        Ok((name, value))
    });
    checked.collect()
}

impl Attribute {
    pub(super) fn text(&self) -> Option<&str> {
        self.string_value.as_deref()
    }

    /// The size in bytes of the type and the value, which count towards the message's size.
    pub(super) fn size(&self) -> usize {
        let binary = self.binary_value.as_ref().map(|text| STANDARD.decode(text));
        let binary = binary.map_or(0, |bytes| bytes.map_or(0, |bytes| bytes.len()));
        let texts = [&self.data_type, &self.string_value];
        texts.into_iter().flatten().map(String::len).sum::<usize>() + binary
    }

    fn checked(self, name: &str) -> Result<Value, Refused> {
        let invalid = |what: &str| {
            let text = format!("The message attribute '{name}' {what}.");
            Refused::new("InvalidParameterValue", text)
        };
        if !is_name(name) {
            return Err(invalid("has an invalid name"));
        }
        let data_type = self.data_type.unwrap_or_default();
        let base = data_type.split('.').next().unwrap_or_default();
        if data_type.len() > 256 || data_type.ends_with('.') {
            return Err(invalid("has an invalid message attribute type"));
        }
        match (base, self.string_value, self.binary_value) {
            ("String" | "Number", Some(text), None) if !text.is_empty() => {
                if base == "Number" && text.trim().parse::<f64>().is_err() {
                    return Err(invalid("is no number"));
                }
                if !text.chars().all(is_allowed) {
                    return Err(invalid("has a character that is not allowed"));
                }
                Ok(json!({"DataType": data_type, "StringValue": text}))
            }
            ("Binary", None, Some(text)) if !text.is_empty() => {
                if STANDARD.decode(&text).is_err() {
                    return Err(invalid("has a value that is not base64"));
                }
                Ok(json!({"DataType": data_type, "BinaryValue": text}))
            }
            ("String" | "Number" | "Binary", ..) => {
                Err(invalid("must contain a non-empty value of its type"))
            }
            _ => Err(invalid(
                "has a type that is none of String, Number and Binary",
            )),
        }
    }
}

fn is_name(name: &str) -> bool {
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    let lower = name.to_ascii_lowercase();
    (1..=256).contains(&name.len())
        && name.bytes().all(allowed)
        && !name.split('.').any(str::is_empty)
        && !lower.starts_with("aws.")
        && !lower.starts_with("amazon.")
}

/// Whether SQS accepts a character in a body or a value.
pub(super) fn is_allowed(char: char) -> bool {
    matches!(char, '\t' | '\n' | '\r' | ' '..='\u{fffd}' | '\u{10000}'..)
}

/// The digest of the attributes, which SDKs compare with their own. `None` if there are no attributes.
pub(super) fn md5(attributes: &Map<String, Value>) -> Option<String> {
    if attributes.is_empty() {
        return None;
    }
    let mut names: Vec<_> = attributes.keys().collect();
    names.sort_unstable();
    let mut digested = Vec::new();
    // The transport type of a value is 1 for text and 2 for binary.
    let mut add = |transport: Option<u8>, bytes: &[u8]| {
        digested.extend(transport);
        let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
        digested.extend(length.to_be_bytes());
        digested.extend(bytes);
    };
    for name in names {
        let text = |field: &str| attributes[name][field].as_str().unwrap_or_default();
        add(None, name.as_bytes());
        add(None, text("DataType").as_bytes());
        match text("DataType").starts_with("Binary") {
            true => add(
                Some(2),
                &STANDARD.decode(text("BinaryValue")).unwrap_or_default(),
            ),
            false => add(Some(1), text("StringValue").as_bytes()),
        }
    }
    Some(format!("{:x}", md5::compute(digested)))
}
