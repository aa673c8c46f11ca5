//! Decoders, which turn a message's text into its payload.

use std::io::{ErrorKind, Read};

use base64::Engine;
use base64::alphabet::{STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::MultiGzDecoder;
use thiserror::Error;

use super::Message;

/// Decodes a message's text to its payload.
///
/// | decoder | the body is | the payload |
/// |---|---|---|
/// | [`Json`](crate::body::Json) (the default) | JSON | any `T: DeserializeOwned` |
/// | [`Text`] | any text | `String` |
/// | [`Base64`] | base64 | `Vec<u8>` |
/// | [`Gzip`] | base64 of gzip | that of another decoder |
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
    #[error("the body is not base64")]
    NotBase64,
    /// The body is not gzip of UTF-8 text, or its text is longer than 16 MiB.
    #[error("the body is not gzip: {problem}")]
    NotGzip {
        /// The problem, without any value of the body.
        problem: &'static str,
    },
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

/// A decoder for base64. The payload is the decoded bytes. SQS carries only text, so producers send binary formats as
/// base64. Both alphabets are accepted (`+/` and `-_`), with or without padding and line breaks.
#[derive(Clone, Copy, Debug)]
pub struct Base64;

impl Decode<Vec<u8>> for Base64 {
    fn decode(&self, body: &str, _: &Message) -> Result<Vec<u8>, DecodeError> {
        from_base64(body).ok_or(DecodeError::NotBase64)
    }
}

/// Decodes base64 of either alphabet. The error of the base64 library would show a byte of the text.
pub(super) fn from_base64(text: &str) -> Option<Vec<u8>> {
    const UNPADDED: GeneralPurposeConfig =
        GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    const PLAIN: GeneralPurpose = GeneralPurpose::new(&STANDARD, UNPADDED);
    const URL: GeneralPurpose = GeneralPurpose::new(&URL_SAFE, UNPADDED);
    let decoded = PLAIN.decode(text).or_else(|_| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.retain(|byte| !byte.is_ascii_whitespace());
        PLAIN.decode(&bytes).or_else(|_| URL.decode(&bytes))
    });
    decoded.ok()
}

/// A decoder for gzip in base64, with which producers send bodies that exceed SQS's limit of 1 MiB. It passes the text
/// inside to another decoder. A text of more than 16 MiB is refused, because a short body can expand to a thousand times
/// its length.
///
/// Up to 200 decoded messages of a batch wait for their handlers, even with a lower
/// [`concurrency`](crate::Consumer::concurrency), and all messages of a batch handler. If their texts are large, choose a
/// smaller `BatchSize`.
///
/// ```
/// use serde::Deserialize;
/// use sqs_once::Handler;
/// use sqs_once::body::{Gzip, Json};
///
/// #[derive(Deserialize)]
/// struct Order {
///     id: String,
/// }
///
/// let handler = Handler::decode(Gzip(Json))
///     .key(|order: &Order| order.id.clone())
///     .call(async |order: Order| {});
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gzip<D>(pub D);

/// The longest text inside [`Gzip`], in bytes.
const LONGEST_TEXT: usize = 16 * 1024 * 1024;

impl<T, D: Decode<T>> Decode<T> for Gzip<D> {
    fn decode(&self, body: &str, message: &Message) -> Result<T, DecodeError> {
        let bytes = from_base64(body).ok_or(DecodeError::NotBase64)?;
        let wrong = |problem| DecodeError::NotGzip { problem };
        let mut text = String::new();
        let longest = LONGEST_TEXT as u64 + 1;
        let read = MultiGzDecoder::new(&*bytes)
            .take(longest)
            .read_to_string(&mut text);
        match read {
            Ok(_) if text.len() > LONGEST_TEXT => Err(wrong("its text is longer than 16 MiB")),
            Ok(_) => self.0.decode(&text, message),
            Err(error) if error.kind() == ErrorKind::InvalidData => {
                Err(wrong("its text is not UTF-8, or the data is broken"))
            }
            Err(_) => Err(wrong("the data is broken")),
        }
    }
}
