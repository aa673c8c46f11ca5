//! Decoders, which turn a message's text into its payload.

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use serde::de::DeserializeOwned;
use serde_json::error::Category;
use thiserror::Error;

use super::Message;

/// Decodes a message's text to its payload.
///
/// | decoder | the body is | the payload |
/// |---|---|---|
/// | [`Json`] (the default) | JSON | any `T: DeserializeOwned` |
/// | [`Text`] | any text | `String` |
/// | [`Base64`] | base64 | `Vec<u8>` |
///
/// A body that can't be decoded makes only its own message terminal, and its key is never claimed. A decoder that panics
/// has the same effect. A decoder that has to wait, for example for an object in S3, implements
/// [`AsyncDecode`](crate::body::AsyncDecode).
///
/// You can write your own decoder, here for a binary format such as Protobuf or Avro:
///
/// ```
/// use sqs_once::body::{Base64, Decode, DecodeError};
/// use sqs_once::extract::Message;
/// # /// Like the output of a Protobuf compiler.
/// # pub struct OrderPlaced { pub order_id: u64 }
/// # #[derive(Debug)] pub struct Broken;
/// # impl OrderPlaced {
/// #     fn decode(bytes: &[u8]) -> Result<Self, Broken> {
/// #         let bytes = bytes.try_into().map_err(|_| Broken)?;
/// #         Ok(Self { order_id: u64::from_be_bytes(bytes) })
/// #     }
/// # }
///
/// struct Protobuf;
///
/// impl Decode<OrderPlaced> for Protobuf {
///     fn decode(&self, body: &str, message: &Message) -> Result<OrderPlaced, DecodeError> {
///         let bytes = Base64.decode(body, message)?;
///         OrderPlaced::decode(&bytes).map_err(|_| DecodeError::other("it is not an OrderPlaced"))
///     }
/// }
///
/// let handler = sqs_once::Handler::decode(Protobuf)
///     .key(|order: &OrderPlaced| order.order_id)
///     .call(async |order: OrderPlaced| {});
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not decode a message's body to `{T}`",
    label = "not a decoder for this payload",
    note = "`Json` decodes to any type that implements `serde::Deserialize`, `Text` to `String`, `Base64` to `Vec<u8>`",
    note = "for another format, implement `sqs_once::body::Decode<{T}>`"
)]
pub trait Decode<T>: Send + Sync + 'static {
    /// Decodes the payload in `body`. If the handler has an envelope, `body` is the text inside it.
    ///
    /// # Errors
    /// [`DecodeError`] if the body is not a valid payload. The message is terminal, because a redelivery can't help.
    fn decode(&self, body: &str, message: &Message) -> Result<T, DecodeError>;
}

/// The error for a body that can't be decoded. It is logged and added to the dead letter. It shows the position and the
/// problem, but no value of the body.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum DecodeError {
    /// The body is not JSON.
    #[error("the body is not JSON: error at line {line} column {column}")]
    NotJson {
        /// The line of the error, counted from 1.
        line: usize,
        /// The column of the error, counted from 1.
        column: usize,
    },
    /// The body is JSON but does not fit the payload type.
    #[error("the body does not fit the payload type: {problem} at line {line} column {column}")]
    WrongShape {
        /// The problem, without any value of the body.
        problem: String,
        /// The line of the problem, counted from 1.
        line: usize,
        /// The column of the problem, counted from 1.
        column: usize,
    },
    /// The envelope around the payload can't be opened.
    #[error("the {envelope} envelope can't be opened: {problem}")]
    Envelope {
        /// The envelope's name.
        envelope: &'static str,
        /// The problem, without any value of the body.
        problem: String,
    },
    /// The body is not base64.
    #[error("the body is not base64 of the standard alphabet")]
    NotBase64,
    /// A custom decoder returned an error.
    #[error("the body could not be decoded: {0}")]
    Other(String),
}

impl DecodeError {
    /// Creates the error of an envelope from its name and its problem.
    pub fn envelope(envelope: &'static str, problem: impl Into<String>) -> Self {
        let problem = problem.into();
        Self::Envelope { envelope, problem }
    }

    /// Creates an error with a text of your own. The text is logged, so omit values of the body.
    pub fn other(problem: impl Into<String>) -> Self {
        Self::Other(problem.into())
    }
}

/// A decoder for JSON, which uses the payload type's `Deserialize`.
#[derive(Clone, Copy, Debug)]
pub struct Json;

impl<T: DeserializeOwned> Decode<T> for Json {
    fn decode(&self, body: &str, _: &Message) -> Result<T, DecodeError> {
        serde_json::from_str(body).map_err(|error| {
            let (line, column) = (error.line(), error.column());
            match error.classify() {
                Category::Data => DecodeError::WrongShape {
                    problem: without_values(&error.to_string()),
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

/// A decoder that returns the body's text.
///
/// ```
/// use sqs_once::body::Text;
/// use sqs_once::key::MessageKey;
///
/// let handler = sqs_once::Handler::decode(Text)
///     .key(MessageKey::attribute("order-id"))
///     .call(async |line: String| {});
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Text;

impl Decode<String> for Text {
    fn decode(&self, body: &str, _: &Message) -> Result<String, DecodeError> {
        Ok(body.to_owned())
    }
}

/// A decoder for base64 of the standard alphabet, with or without padding. The payload is the decoded bytes. SQS
/// carries only text, so producers send binary formats as base64.
#[derive(Clone, Copy, Debug)]
pub struct Base64;

const STANDARD_ALPHABET: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

impl Decode<Vec<u8>> for Base64 {
    fn decode(&self, body: &str, _: &Message) -> Result<Vec<u8>, DecodeError> {
        // The error of the base64 library would show a byte of the body.
        STANDARD_ALPHABET
            .decode(body)
            .map_err(|_| DecodeError::NotBase64)
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
