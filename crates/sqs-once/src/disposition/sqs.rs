//! A dead-letter queue in SQS.

use std::collections::HashMap;
use std::error::Error;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::Builder;
use aws_sdk_sqs::config::retry::RetryPartition;
use aws_sdk_sqs::primitives::Blob;
use aws_sdk_sqs::types::{
    MessageAttributeValue, MessageSystemAttributeNameForSends, MessageSystemAttributeValue,
};
use futures_util::future::BoxFuture;

use crate::aws;
use crate::record::Message;

use super::DeadLetters;

/// SQS's limits for one message, its attributes included.
const MAX_ATTRIBUTES: usize = 10;
const MAX_SIZE: usize = 1024 * 1024;
/// The most bytes of a reason that are sent along.
const MAX_REASON: usize = 4096;

pub(super) struct DeadLetterQueue {
    client: Client,
    url: String,
}

impl DeadLetterQueue {
    pub(super) async fn from_env(url: String) -> Self {
        let config = Builder::from(aws::config().await)
            .retry_partition(RetryPartition::new("sqs-once"))
            .build();
        Self {
            client: Client::from_conf(config),
            url,
        }
    }
}

impl DeadLetters for DeadLetterQueue {
    /// Keeps body, attributes, message group and trace header. Adds the reason, the original message
    /// id and the receive count as attributes, as far as SQS's limits leave room.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        reason: &'a str,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            let is_fifo = self.url.ends_with(".fifo");
            let group = message.group_id();
            let trace = message.system_attribute("AWSTraceHeader");
            self.client
                .send_message()
                .queue_url(&self.url)
                .message_body(message.body().unwrap_or_default())
                .set_message_attributes(Some(attributes(message, reason)))
                .set_message_system_attributes(trace.map(trace_header).transpose()?)
                .set_message_group_id(match group {
                    None if is_fifo => Some(message.id().to_owned()),
                    group => group.map(str::to_owned),
                })
                // The same message may be sent again when an answer is lost; within five minutes a
                // FIFO queue keeps only one of them.
                .set_message_deduplication_id(is_fifo.then(|| message.id().to_owned()))
                .send()
                .await?;
            Ok(())
        })
    }
}

fn attributes(message: &Message, reason: &str) -> HashMap<String, MessageAttributeValue> {
    let mut attributes = original(message);
    let mut size: usize = message.body().map_or(0, str::len);
    size += attributes
        .iter()
        .map(|(name, value)| name.len() + length(value))
        .sum::<usize>();
    let receive_count = message.receive_count().map(|count| count.to_string());
    let added = [
        ("sqs-once-reason", Some(printable(reason))),
        ("sqs-once-message-id", Some(message.id().to_owned())),
        ("sqs-once-receive-count", receive_count),
    ];
    for (name, value) in added {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            continue;
        };
        let Ok(value) = text(&value) else { continue };
        let more = name.len() + length(&value);
        if attributes.len() < MAX_ATTRIBUTES && size + more <= MAX_SIZE {
            size += more;
            attributes.insert(name.to_owned(), value);
        }
    }
    attributes
}

/// The message's own attributes, as they came.
fn original(message: &Message) -> HashMap<String, MessageAttributeValue> {
    message
        .attributes()
        .filter_map(|(name, attribute)| {
            let binary = attribute.binary_value.as_ref();
            let value = MessageAttributeValue::builder()
                .data_type(attribute.data_type.as_deref()?)
                .set_string_value(attribute.string_value.clone())
                .set_binary_value(binary.map(|value| Blob::new(value.0.clone())))
                .build()
                .ok()?;
            Some((name.to_owned(), value))
        })
        .collect()
}

fn text(value: &str) -> Result<MessageAttributeValue, Box<dyn Error + Send + Sync>> {
    let value = MessageAttributeValue::builder()
        .data_type("String")
        .string_value(value)
        .build()?;
    Ok(value)
}

fn trace_header(
    header: &str,
) -> Result<
    HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>,
    Box<dyn Error + Send + Sync>,
> {
    let value = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value(header)
        .build()?;
    let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
    Ok(HashMap::from([(name, value)]))
}

fn length(value: &MessageAttributeValue) -> usize {
    let text = value.string_value().map_or(0, str::len);
    let binary = value.binary_value().map_or(0, |value| value.as_ref().len());
    value.data_type().len() + text + binary
}

/// SQS takes no control characters in text.
fn printable(reason: &str) -> String {
    let mut printable: String = reason
        .chars()
        .map(|c| {
            if c.is_control() || c > '\u{fffd}' && c < '\u{10000}' {
                ' '
            } else {
                c
            }
        })
        .collect();
    let mut end = printable.len().min(MAX_REASON);
    while !printable.is_char_boundary(end) {
        end -= 1;
    }
    printable.truncate(end);
    printable
}
