//! A dead-letter queue in SQS.

use std::collections::HashMap;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{MessageSystemAttributeNameForSends, MessageSystemAttributeValue};

use crate::record::Message;

use super::attributes::{attributes, original};
use super::queue::names;
use super::sqs::{LazyClient, arn_parts, connect, describe};
use super::{BoxError, Cause, DeadLetters, Sending};

pub(super) struct DeadLetterQueue {
    pub(super) client: LazyClient,
    pub(super) url: String,
    /// The name of this Lambda function; `None` outside Lambda.
    pub(super) function: Option<String>,
}

impl DeadLetterQueue {
    fn is_source_of(&self, message: &Message, client: &Client) -> bool {
        let arn = message.queue_arn();
        let Some((arn, [_, _, _, region, ..])) = arn.and_then(|arn| Some((arn, arn_parts(arn)?)))
        else {
            return false;
        };
        // The SDK sends requests to its own region, regardless of the URL's host.
        let own = client.config().region();
        own.is_none_or(|own| own.as_ref() == region) && names(&self.url, arn)
    }
}

impl DeadLetters for DeadLetterQueue {
    /// Sends body, attributes, message group and trace header, and adds attributes about the failure.
    fn send<'a>(&'a self, message: &'a Message, cause: &'a Cause) -> Sending<'a> {
        Box::pin(async move {
            let client = self.client.get(connect).await;
            if self.is_source_of(message, client) {
                return Err(ITSELF.into());
            }
            let is_fifo = self.url.ends_with(".fifo");
            let group = message.group_id();
            let trace = message.system_attribute("AWSTraceHeader");
            let request = client
                .send_message()
                .queue_url(&self.url)
                .message_body(body(message)?)
                .set_message_system_attributes(trace.map(trace_header).transpose()?)
                .set_message_group_id(match group {
                    None if is_fifo => Some(message.id().to_owned()),
                    group => group.map(str::to_owned),
                })
                // The SDK sends a message again if an answer is lost. Within five minutes, a FIFO queue keeps only one
                // copy.
                .set_message_deduplication_id(is_fifo.then(|| match cause.place {
                    Some(place) => place.deduplication_id(message.id()),
                    None => message.id().to_owned(),
                }));
            let own = original(message)?;
            let whole = attributes(message, cause, self.function.as_deref())?;
            let adds = whole.len() > own.len();
            let with = |attributes| request.clone().set_message_attributes(Some(attributes));
            let mut sent = with(whole).send().await;
            // The queue's `MaximumMessageSize` may be smaller than the limit of SQS.
            if adds && sent.as_ref().is_err_and(is_invalid) {
                sent = with(own).send().await;
            }
            let sent = sent.map_err(|error| describe(&error, "sqs:SendMessage"))?;
            sent.message_id().ok_or(UNCONFIRMED)?;
            Ok(())
        })
    }
}

const ITSELF: &str = "SQS_ONCE_DLQ_URL, or the code's `dead_letter_queue`, names the queue that the message came from: \
                      a copy there would come back for ever";

/// Something between the function and SQS may answer in its place.
const UNCONFIRMED: &str = "the answer has no MessageId, so that SQS may not have the message";

/// The error code of SQS for messages that are too long or otherwise invalid.
fn is_invalid(error: &SdkError<SendMessageError>) -> bool {
    error
        .code()
        .is_some_and(|code| code.contains("InvalidParameterValue"))
}

/// Returns the body. A message without a body can't be sent.
pub(super) fn body(message: &Message) -> Result<&str, &'static str> {
    // Redrive still has the body that this process could not read.
    let body = message.body().filter(|body| !body.is_empty());
    body.ok_or("its body could not be read, so that only redrive can move it")
}

type SystemAttributes = HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>;

fn trace_header(header: &str) -> Result<SystemAttributes, BoxError> {
    let value = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value(header)
        .build()?;
    let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
    Ok(HashMap::from([(name, value)]))
}
