//! A dead-letter queue in SQS.

use std::collections::HashMap;
use std::error::Error;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{MessageSystemAttributeNameForSends, MessageSystemAttributeValue};
use futures_util::future::BoxFuture;

use crate::config::process_env;
use crate::record::Message;

use super::attributes::attributes;
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
}

impl DeadLetters for DeadLetterQueue {
    /// Keeps body, attributes, message group and trace header, and adds what there is to know.
    fn send<'a>(
        &'a self,
        message: &'a Message,
        cause: &'a Cause,
    ) -> BoxFuture<'a, Result<(), Box<dyn Error + Send + Sync>>> {
        Box::pin(async move {
            let body = body(message)?;
            let is_fifo = self.url.ends_with(".fifo");
            let group = message.group_id();
            let trace = message.system_attribute("AWSTraceHeader");
            self.client
                .send_message()
                .queue_url(&self.url)
                .message_body(body)
                .set_message_attributes(Some(attributes(message, cause, self.function.as_deref())?))
                .set_message_system_attributes(trace.map(trace_header).transpose()?)
                .set_message_group_id(match group {
                    None if is_fifo => Some(message.id().to_owned()),
                    group => group.map(str::to_owned),
                })
                // The same message may be sent again when an answer is lost; within five minutes a
                // FIFO queue keeps only one of them.
                .set_message_deduplication_id(is_fifo.then(|| message.id().to_owned()))
                .send()
                .await
                .map_err(|error| said(&error, "sqs:SendMessage"))?;
            Ok(())
        })
    }
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
