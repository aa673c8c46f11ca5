//! A dead-letter queue in SQS.

use std::collections::HashMap;
use std::error::Error;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::{ProvideErrorMetadata, SdkError};
use aws_sdk_sqs::operation::send_message::SendMessageError;
use aws_sdk_sqs::types::{MessageSystemAttributeNameForSends, MessageSystemAttributeValue};
use futures_util::future::BoxFuture;

use crate::env::process_env;
use crate::record::Message;

use super::attributes::{attributes, original};
use super::sqs::said;
use super::{Cause, DeadLetters};

pub(super) struct DeadLetterQueue {
    client: Client,
    url: String,
    /// The Lambda function that gives records up; none outside Lambda.
    function: Option<String>,
}

impl DeadLetterQueue {
    pub(super) fn new(client: Client, url: String) -> Self {
        Self {
            client,
            url,
            function: process_env("AWS_LAMBDA_FUNCTION_NAME"),
        }
    }

    /// Whether the message came from this very queue.
    fn is_source_of(&self, message: &Message) -> bool {
        let mut parts = message.queue_arn().unwrap_or_default().split(':').skip(3);
        let (Some(region), Some(account), Some(name)) = (parts.next(), parts.next(), parts.next())
        else {
            return false;
        };
        // The SDK sends requests to its own region, whatever the host of the URL is.
        let own = self.client.config().region();
        own.is_none_or(|own| own.as_ref() == region) && place(&self.url) == Some((account, name))
    }
}

impl DeadLetters for DeadLetterQueue {
    /// Keeps body, attributes, message group and trace header, and adds what there is to know.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        cause: &'a Cause,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            if self.is_source_of(message) {
                return Err(ITSELF.into());
            }
            let is_fifo = self.url.ends_with(".fifo");
            let group = message.group_id();
            let trace = message.system_attribute("AWSTraceHeader");
            let request = self
                .client
                .send_message()
                .queue_url(&self.url)
                .message_body(body(message)?)
                .set_message_system_attributes(trace.map(trace_header).transpose()?)
                .set_message_group_id(match group {
                    None if is_fifo => Some(message.id().to_owned()),
                    group => group.map(str::to_owned),
                })
                // The same message may be sent again when an answer is lost; within five minutes a
                // FIFO queue keeps only one of them.
                .set_message_deduplication_id(is_fifo.then(|| message.id().to_owned()));
            let own = original(message)?;
            let whole = attributes(message, cause, self.function.as_deref())?;
            let adds = whole.len() > own.len();
            let with = |attributes| request.clone().set_message_attributes(Some(attributes));
            let mut sent = with(whole).send().await;
            // The queue's own `MaximumMessageSize` may leave less room than SQS does.
            if adds && sent.as_ref().is_err_and(is_invalid) {
                sent = with(own).send().await;
            }
            sent.map_err(|error| said(&error, "sqs:SendMessage"))?;
            Ok(())
        })
    }
}

const ITSELF: &str = "SQS_ONCE_DLQ_URL, or the code's `dead_letter_queue`, names the queue that the message came from: \
                      a copy there would come back for ever";

/// The error code of SQS for a message that is too long, and for other invalid messages.
fn is_invalid(error: &SdkError<SendMessageError>) -> bool {
    error
        .code()
        .is_some_and(|code| code.contains("InvalidParameterValue"))
}

/// Account and name of the queue at a URL: the end of its path.
pub(super) fn place(url: &str) -> Option<(&str, &str)> {
    let (rest, name) = url.trim_end_matches('/').rsplit_once('/')?;
    let (_, account) = rest.rsplit_once('/')?;
    Some((account, name))
}

/// The body, without which there is nothing to send.
pub(super) fn body(message: &Message) -> Result<&str, &'static str> {
    // Redrive still has the body that could not be read here.
    let body = message.body().filter(|body| !body.is_empty());
    body.ok_or("its body could not be read, so that only redrive can move it")
}

type SystemAttributes = HashMap<MessageSystemAttributeNameForSends, MessageSystemAttributeValue>;

fn trace_header(header: &str) -> Result<SystemAttributes, Box<dyn Error + Send + Sync>> {
    let value = MessageSystemAttributeValue::builder()
        .data_type("String")
        .string_value(header)
        .build()?;
    let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
    Ok(HashMap::from([(name, value)]))
}
