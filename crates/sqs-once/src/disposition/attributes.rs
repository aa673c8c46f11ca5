//! The message attributes of a dead letter: its own, and what is added as far as there is room.

use std::collections::HashMap;
use std::error::Error;

use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::MessageAttributeValue;

use crate::record::Message;

use super::Cause;

type Attributes = HashMap<String, MessageAttributeValue>;

/// SQS's limits for one message: its attributes, and the bytes of its body and attributes together.
/// System attributes such as the trace header don't count.
pub(crate) const MAX_ATTRIBUTES: usize = 10;
const MAX_SIZE: usize = 1024 * 1024;
/// The most bytes that are sent of a reason and of a chain.
const MAX_REASON: usize = 1024;
const MAX_CHAIN: usize = 16 * 1024;

const TEXT: &str = "String";
const PREFIX: &str = "sqs-once-";

/// The attributes that are added to a message.
struct Added {
    name: &'static str,
    value: Option<String>,
    /// How long the value may be; `None` for one that is whole or not there.
    shorten_to: Option<usize>,
}

/// The message's own attributes and those that are added: the first of them first, so that the reason
/// is the last to be left out.
pub(super) fn attributes(
    message: &Message,
    cause: &Cause,
    function: Option<&str>,
) -> Result<Attributes, Box<dyn Error + Send + Sync>> {
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

fn added(message: &Message, cause: &Cause, function: Option<&str>) -> [Added; 7] {
    let whole = |name, value| Added {
        name,
        value,
        shorten_to: None,
    };
    let key = cause.key.as_ref().map(|id| id.as_str().to_owned());
    let receive_count = message.receive_count().map(|count| count.to_string());
    let first_received = message.first_received_at();
    // A chain without more information than the reason would only take room.
    let says_more = cause.chain != cause.reason || cause.reason.len() > MAX_REASON;
    [
        Added {
            name: "sqs-once-reason",
            value: Some(cause.reason.clone()),
            shorten_to: Some(MAX_REASON),
        },
        // Who looks after dead letters finds the key's item by it.
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

/// The message's own attributes, as they came. What an earlier move added is about that move, and
/// gives way.
pub(super) fn original(message: &Message) -> Result<Attributes, Box<dyn Error + Send + Sync>> {
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

/// Text with every character that SQS refuses replaced. It takes those of XML.
pub(crate) fn accepted(text: &str) -> String {
    let is_accepted = |c: char| matches!(c, '\t' | '\n' | '\r' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..);
    text.chars()
        .map(|c| if is_accepted(c) { c } else { '\u{fffd}' })
        .collect()
}

/// At most `limit` bytes of a text, with a mark where it was cut; nothing where only the mark has room.
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
