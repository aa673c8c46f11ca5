//! JSON bodies, and reasons that show no value of them.

use std::fmt;

use serde::de::{DeserializeOwned, Deserializer, Error as _, SeqAccess, Unexpected, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::error::Category;

use super::{Decode, DecodeError, Message};

/// A decoder for JSON, which uses the payload type's `Deserialize`.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, body: &str, _: &Message) -> Result<T, DecodeError> {
        from_json(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            match error.classify() {
                Category::Data => DecodeError::WrongShape {
                    problem: without_values(&error.to_string()) + envelope_around(body),
                    line,
                    column,
                },
                Category::Io | Category::Syntax | Category::Eof => {
                    DecodeError::NotJson { line, column }
                }
            }
        })
    }
}

/// Deserializes a body. serde would take a list for a struct, and fill in the fields in the list's order.
fn from_json<T: DeserializeOwned>(body: &str) -> serde_json::Result<T> {
    if !body.trim_start().starts_with('[') {
        return serde_json::from_str(body);
    }
    let mut json = serde_json::Deserializer::from_str(body);
    let payload = T::deserialize(List(&mut json))?;
    json.end()?;
    Ok(payload)
}

/// The name by which serde_json knows its `RawValue`.
const RAW_VALUE: &str = "$serde_json::private::RawValue";

/// A body that is a list. It is every type's own affair what it makes of it, except for a struct.
struct List<D>(D);

impl<'de, D: Deserializer<'de>> Deserializer<'de> for List<D> {
    type Error = D::Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.0.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        visitor.visit_some(self)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        match name == RAW_VALUE {
            true => self.0.deserialize_newtype_struct(name, visitor),
            false => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_enum(name, variants, visitor)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.0.deserialize_seq(NoList(visitor))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map identifier ignored_any
    }
}

/// Refuses a list where a struct is expected.
struct NoList<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for NoList<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, _: A) -> Result<V::Value, A::Error> {
        Err(A::Error::invalid_type(Unexpected::Seq, &self))
    }
}

/// Names the envelope that a body which does not fit seems to have.
fn envelope_around(body: &str) -> &'static str {
    let has = |names: [&str; 2]| names.iter().all(|name| body.contains(name));
    if has(["\"TopicArn\"", "\"Message\""]) {
        " (it looks like an SNS notification: declare `envelope = Sns`)"
    } else if has(["\"detail-type\"", "\"detail\""]) {
        " (it looks like an EventBridge event: declare `envelope = EventBridge`)"
    } else {
        ""
    }
}

/// Removes values from a message of serde. serde quotes the value that it found, and a payload type's own messages may
/// contain it anywhere. The result keeps the kind of value, what was expected, or the name of a field of the payload
/// type.
fn without_values(message: &str) -> String {
    const KINDS: [&str; 17] = [
        "boolean",
        "integer",
        "floating point",
        "character",
        "string",
        "byte array",
        "unit value",
        "Option value",
        "newtype struct",
        "sequence",
        "map",
        "enum",
        "unit variant",
        "newtype variant",
        "tuple variant",
        "struct variant",
        "null",
    ];
    // Use the last occurrence, because a value may contain the same text.
    let split = message.rsplit_once(" at line ");
    let message = split.map_or(message, |(message, _)| message);
    if let Some((what @ ("missing field" | "duplicate field"), name)) = message.split_once(" `")
        && let Some(name) = name.strip_suffix('`')
        && name
            .chars()
            .all(|c| c.is_alphanumeric() || c == '_' || c == '-')
    {
        return format!("{what} `{name}`");
    }
    if let Some((what @ ("invalid type" | "invalid value"), found)) = message.split_once(": ")
        && let Some((_, expected)) = found.rsplit_once(", expected ")
        && let Some(kind) = found.split(['`', '"', ',']).next().map(str::trim)
        && KINDS.contains(&kind)
    {
        return format!("{what}: {kind}, expected {expected}");
    }
    match message.split(" `").next() {
        Some(what @ ("unknown field" | "unknown variant")) => what.to_owned(),
        _ => "the payload type rejects a value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::super::RawRecord;
    use super::*;

    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Order {
        #[serde(rename = "total")]
        _total: u64,
    }

    fn problem<T: DeserializeOwned + std::fmt::Debug>(body: &str) -> String {
        let message = Message::new(RawRecord::default(), None);
        let decoded = Decode::<T>::decode(&Json, body, &message);
        decoded.unwrap_err().to_string()
    }

    #[test]
    fn a_reason_tells_what_does_not_fit_and_never_shows_a_value() {
        for (body, expected) in [
            (
                r#"{"total": "4111 1111, expected nothing"}"#,
                "invalid type: string, expected u64 at line 1 column 39",
            ),
            (
                r#"{"total": "1, expected 4111 1111 at line 1 column 1"}"#,
                "invalid type: string, expected u64 at line 1 column 52",
            ),
            ("{}", "missing field `total` at line 1 column 2"),
            (r#"{"secret": 1}"#, "unknown field at line 1 column 9"),
        ] {
            let expected = format!("the body does not fit the payload type: {expected}");
            assert_eq!(problem::<Order>(body), expected);
        }
        let expected = "the body is not JSON: error at line 1 column 1";
        assert_eq!(problem::<Order>("secret"), expected);
    }

    /// A payload type whose error message quotes the value.
    #[derive(Debug, Deserialize)]
    #[serde(try_from = "String")]
    struct Card;

    impl TryFrom<String> for Card {
        type Error = String;

        fn try_from(card: String) -> Result<Self, String> {
            Err(card)
        }
    }

    #[test]
    fn a_payload_types_own_words_are_left_out_however_they_look() {
        for words in [
            "invalid card number 4111 1111",
            "invalid value: 4111 1111, expected a card",
            "missing field `x` in 4111 1111",
            "unknown variant 4111 1111",
            "4111 1111",
        ] {
            let problem = problem::<Card>(&serde_json::to_string(words).unwrap());
            assert!(!problem.contains("4111"), "{problem}");
        }
    }
}
