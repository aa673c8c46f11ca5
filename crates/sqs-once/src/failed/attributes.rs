//! The message attributes of a dead letter: its own attributes, and as many added ones as fit.

use std::collections::HashMap;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;

use crate::record::Message;

use super::{BoxError, Cause};

type Attributes = HashMap<String, MessageAttributeValue>;

/// SQS's limits for one message: its attributes, and the bytes of its body and attributes without system attributes.
pub(crate) const MAX_ATTRIBUTES: usize = 10;
const MAX_SIZE: usize = 1024 * 1024;
/// The longest reason and the longest chain, in bytes.
const MAX_REASON: usize = 1024;
const MAX_CHAIN: usize = 16 * 1024;

const TEXT: &str = "String";
const PREFIX: &str = "sqs-once-";

struct Added {
    name: &'static str,
    value: Option<String>,
    /// The longest length of the value; `None` for a value that must not be shortened.
    shorten_to: Option<usize>,
}

/// Returns the message's own attributes and the added ones, of which the first are left out last.
pub(super) fn attributes(
    message: &Message,
    cause: &Cause,
    function: Option<&str>,
) -> Result<Attributes, BoxError> {
    let mut attributes = original(message)?;
    let body = message.body().map_or(0, str::len);
    let used: usize = attributes
        .iter()
        .map(|(name, value)| size(name, value))
        .sum();
    let mut room = MAX_SIZE.saturating_sub(body + used);
    for Added {
        name,
        value,
        shorten_to,
    } in added(message, cause, function)
    {
        if attributes.len() == MAX_ATTRIBUTES {
            break;
        }
        let Some(value) = value else { continue };
        let mut value = accepted(&value);
        let left = room.saturating_sub(name.len() + TEXT.len());
        if let Some(limit) = shorten_to {
            value = shortened(value, limit.min(left));
        }
        if value.is_empty() || value.len() > left {
            continue;
        }
        let value = MessageAttributeValue::builder()
            .data_type(TEXT)
            .string_value(value)
            .build()?;
        room -= size(name, &value);
        attributes.insert(name.to_owned(), value);
    }
    Ok(attributes)
}

fn added(message: &Message, cause: &Cause, function: Option<&str>) -> [Added; 8] {
    let whole = |name, value| Added {
        name,
        value,
        shorten_to: None,
    };
    let key = cause.key.as_ref().map(|id| id.as_str().to_owned());
    let receive_count = message.receive_count().map(|count| count.to_string());
    let first_received = message.first_received_at();
    // A chain that equals the reason would only take up space.
    let says_more = cause.chain != cause.reason || cause.reason.len() > MAX_REASON;
    [
        Added {
            name: "sqs-once-reason",
            value: Some(cause.reason.clone()),
            shorten_to: Some(MAX_REASON),
        },
        // Consumers of several queues may share a dead-letter queue.
        whole(
            "sqs-once-source-queue",
            message.queue_arn().map(str::to_owned),
        ),
        // Operators find the key's item by this attribute.
        whole("sqs-once-key", key),
        whole("sqs-once-message-id", Some(message.id().to_owned())),
        whole("sqs-once-receive-count", receive_count),
        whole(
            "sqs-once-first-received",
            first_received.map(|moment| moment.as_millis().to_string()),
        ),
        whole("sqs-once-function", function.map(str::to_owned)),
        Added {
            name: "sqs-once-error-chain",
            value: says_more.then(|| cause.chain.clone()),
            shorten_to: Some(MAX_CHAIN),
        },
    ]
}

/// Returns the message's own attributes, unchanged. Drops the attributes that an earlier move added.
pub(super) fn original(message: &Message) -> Result<Attributes, BoxError> {
    let own = message
        .attributes()
        .filter(|(name, _)| !name.starts_with(PREFIX));
    own.map(|(name, attribute)| {
        let binary = attribute.binary_value.as_ref();
        let value = MessageAttributeValue::builder()
            .set_data_type(attribute.data_type.clone())
            .set_string_value(attribute.string_value.clone())
            .set_binary_value(binary.map(|value| Blob::new(value.0.clone())))
            .build()?;
        Ok((name.to_owned(), value))
    })
    .collect()
}

fn size(name: &str, value: &MessageAttributeValue) -> usize {
    let text = value.string_value().map_or(0, str::len);
    let binary = value.binary_value().map_or(0, |value| value.as_ref().len());
    name.len() + value.data_type().len() + text + binary
}

/// Replaces every character that SQS refuses. SQS accepts the characters of XML.
pub(crate) fn accepted(text: &str) -> String {
    let is_accepted = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars()
        .map(|c| if is_accepted(c) { c } else { '\u{fffd}' })
        .collect()
}

/// Returns at most `limit` bytes of a text, with a mark if it was cut. Returns nothing if only the mark would fit.
fn shortened(mut text: String, limit: usize) -> String {
    const CUT: char = '…';
    if text.len() <= limit {
        return text;
    }
    let end = text.floor_char_boundary(limit.saturating_sub(CUT.len_utf8()));
    text.truncate(end);
    if end > 0 {
        text.push(CUT);
    }
    text
}
