//! A queue at any SQS endpoint, polled with the user's own AWS settings.

use anyhow::{Context, Result};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, Region};
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, DeleteMessageBatchRequestEntry, Message,
    MessageAttributeValue, MessageSystemAttributeName, QueueAttributeName,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sqs_once_local::{Launch, LocalEvent, NewMessage, Observer, REGION, Received, Source};
use sqs_once_operate::Error;
use std::collections::HashMap;
use std::num::NonZeroU32;
use std::time::{Duration, SystemTime};

/// The most entries in a batch request.
const ENTRIES: usize = 10;
/// The longest wait that SQS allows.
const LONGEST_WAIT: Duration = Duration::from_secs(20);
const DEFAULT_VISIBILITY: Duration = Duration::from_secs(30);

pub(crate) struct RemoteQueue {
    client: Client,
    url: String,
    arn: String,
    visibility_timeout: Duration,
    /// The queue's endpoint, if it is on this machine. The function's own SQS calls go there as well.
    loopback: Option<String>,
    observer: Observer,
}

impl RemoteQueue {
    /// Connects to the queue at this URL. A URL on this machine is its own endpoint and needs no credentials.
    pub(crate) async fn connect(
        url: &str,
        given: Option<&str>,
        observer: Observer,
    ) -> Result<Self> {
        let loopback = loopback(url);
        let config = match &loopback {
            Some(endpoint) => {
                let shared = sqs_once_operate::sdk_config(None, Some(REGION)).await?;
                aws_sdk_sqs::config::Builder::from(&shared)
                    .endpoint_url(endpoint)
                    .region(Region::from_static(REGION))
                    .credentials_provider(Credentials::new("local", "local", None, None, "dev"))
                    .build()
            }
            None => {
                let region = region(url, given)?;
                let shared = sqs_once_operate::sdk_config(None, Some(region)).await?;
                let mut config = aws_sdk_sqs::config::Builder::from(&shared);
                if std::env::var_os("AWS_ENDPOINT_URL_SQS").is_none() {
                    config.set_endpoint_url(endpoint(url));
                }
                config.build()
            }
        };
        let mut queue = Self {
            client: Client::from_conf(config),
            url: url.to_owned(),
            arn: String::new(),
            visibility_timeout: DEFAULT_VISIBILITY,
            loopback,
            observer,
        };
        let names = [
            QueueAttributeName::QueueArn,
            QueueAttributeName::VisibilityTimeout,
        ];
        let mut attributes = queue.attributes(&names).await?;
        let arn = attributes.remove(&names[0]);
        let no_arn = || Error::unexpected("sqs:GetQueueAttributes", "the answer has no ARN");
        queue.arn = arn.ok_or_else(no_arn)?;
        let seconds = attributes.get(&names[1]);
        if let Some(seconds) = seconds.and_then(|seconds| seconds.parse().ok()) {
            queue.visibility_timeout = Duration::from_secs(seconds);
        }
        Ok(queue)
    }

    /// Points the function's own SQS calls at the queue's endpoint if that is on this machine. They never leave this
    /// machine.
    pub(crate) fn for_function(&self, launch: Launch) -> Launch {
        match &self.loopback {
            Some(endpoint) => launch.env("AWS_ENDPOINT_URL_SQS", endpoint),
            None => launch,
        }
    }

    async fn attributes(
        &self,
        names: &[QueueAttributeName],
    ) -> Result<HashMap<QueueAttributeName, String>, Error> {
        let request = self.client.get_queue_attributes().queue_url(&self.url);
        let request = request.set_attribute_names(Some(names.to_vec()));
        let answer = request.send().await;
        let answer = answer.map_err(Error::of_sqs("sqs:GetQueueAttributes"))?;
        Ok(answer.attributes.unwrap_or_default())
    }

    fn tell(&self, happening: &LocalEvent) {
        (self.observer)(SystemTime::now(), happening);
    }

    /// Reports a received message. On the first receive, first reports that it was sent.
    fn tell_received(&self, received: &Received) {
        let message = &received.message;
        let (queue, message_id) = (self.name().to_owned(), message.id.clone());
        if received.receive_count <= 1 {
            self.tell(&LocalEvent::Sent {
                queue: queue.clone(),
                message_id: message_id.clone(),
                body: message.body.clone(),
                attributes: message.attributes.clone(),
                group_id: message.group_id.clone(),
                visible_at: received.sent_at,
            });
        }
        self.tell(&LocalEvent::Received {
            queue,
            message_id,
            receive_count: received.receive_count,
            visible_at: SystemTime::now() + self.visibility_timeout,
        });
    }

    fn name(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or(&self.arn)
    }
}

impl Source for RemoteQueue {
    type Error = Error;

    fn arn(&self) -> String {
        self.arn.clone()
    }

    async fn receive(&self, most: NonZeroU32, wait: Duration) -> Result<Vec<Received>, Error> {
        let most = most.get().min(10).cast_signed();
        let wait = wait.min(LONGEST_WAIT).as_secs_f64().ceil() as i32;
        let request = self.client.receive_message().queue_url(&self.url);
        let request = request
            .max_number_of_messages(most)
            .wait_time_seconds(wait)
            .message_system_attribute_names(MessageSystemAttributeName::All)
            .message_attribute_names("All");
        let answer = request.send().await;
        let answer = answer.map_err(Error::of_sqs("sqs:ReceiveMessage"))?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        let received: Vec<_> = messages.map(received).collect();
        received.iter().for_each(|one| self.tell_received(one));
        Ok(received)
    }

    async fn delete(&self, messages: &[Received]) -> Result<(), Error> {
        const ACTION: &str = "sqs:DeleteMessage";
        for some in messages.chunks(ENTRIES) {
            let entry = |(index, message): (usize, &Received)| {
                DeleteMessageBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(&message.receipt_handle)
                    .build()
            };
            let entries: Result<Vec<_>, _> = some.iter().enumerate().map(entry).collect();
            let entries = entries.map_err(|error| Error::unexpected(ACTION, error))?;
            let request = self.client.delete_message_batch().queue_url(&self.url);
            let answer = request.set_entries(Some(entries)).send().await;
            let answer = answer.map_err(Error::of_sqs(ACTION))?;
            // SQS redelivers messages that could not be deleted.
            for done in answer.successful {
                let index: Option<usize> = done.id.parse().ok();
                if let Some(message) = index.and_then(|index| some.get(index)) {
                    self.tell(&LocalEvent::Deleted {
                        queue: self.name().to_owned(),
                        message_id: message.message.id.clone(),
                    });
                }
            }
        }
        Ok(())
    }

    async fn give_back(&self, messages: &[Received]) -> Result<(), Error> {
        const ACTION: &str = "sqs:ChangeMessageVisibility";
        for some in messages.chunks(ENTRIES) {
            let entry = |(index, message): (usize, &Received)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(index.to_string())
                    .receipt_handle(&message.receipt_handle)
                    .visibility_timeout(0)
                    .build()
            };
            let entries: Result<Vec<_>, _> = some.iter().enumerate().map(entry).collect();
            let entries = entries.map_err(|error| Error::unexpected(ACTION, error))?;
            let request = self.client.change_message_visibility_batch();
            let request = request.queue_url(&self.url).set_entries(Some(entries));
            // Messages that could not be released return after their visibility timeout.
            request.send().await.map_err(Error::of_sqs(ACTION))?;
        }
        Ok(())
    }

    async fn is_empty(&self) -> Result<bool, Error> {
        let names = [
            QueueAttributeName::ApproximateNumberOfMessages,
            QueueAttributeName::ApproximateNumberOfMessagesNotVisible,
            QueueAttributeName::ApproximateNumberOfMessagesDelayed,
        ];
        let attributes = self.attributes(&names).await?;
        Ok(attributes.values().all(|count| count == "0"))
    }
}

/// The endpoint of a URL on this machine.
fn loopback(url: &str) -> Option<String> {
    let rest = url.strip_prefix("http://")?;
    let authority = rest.split('/').next()?;
    let host = authority
        .rsplit_once(':')
        .map_or(authority, |(host, _)| host);
    matches!(host, "localhost" | "127.0.0.1" | "[::1]").then(|| format!("http://{authority}"))
}

/// The DNS suffixes of AWS's partitions in the SDK's endpoint rules.
const SUFFIXES: &str = "
    amazonaws.com amazonaws.com.cn amazonaws.eu api.amazonwebservices.com.cn api.amazonwebservices.eu api.aws
    api.aws.hci.ic.gov api.aws.ic.gov api.aws.scloud api.cloud-aws.adc-e.uk c2s.ic.gov cloud.adc-e.uk csp.hci.ic.gov
    sc2s.sgov.gov";

/// The endpoint of a URL: its own host, such as that of a VPC endpoint. The legacy hosts do not know every request.
fn endpoint(url: &str) -> Option<String> {
    let (end, _) = url.match_indices('/').nth(2)?;
    let endpoint = Some(url[..end].to_owned());
    endpoint.filter(|endpoint| !endpoint.ends_with("queue.amazonaws.com"))
}

/// Fails if no region is known for a queue that is not on this machine.
pub(crate) fn check(url: &str, region_given: Option<&str>) -> Result<()> {
    match loopback(url) {
        Some(_) => Ok(()),
        None => region(url, region_given).map(drop),
    }
}

/// The given region, or else the one in the host of a queue's URL.
fn region<'a>(url: &'a str, given: Option<&'a str>) -> Result<&'a str> {
    let unknown = || format!("the host of {url} does not name a region: give it with --region");
    given.or_else(|| region_of(url)).with_context(unknown)
}

/// The region in a standard, FIPS, dual-stack or legacy host, or in that of a VPC endpoint.
fn region_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split(['/', ':']).next()?;
    let mut suffixes = SUFFIXES.split_whitespace();
    let labels = suffixes.find_map(|suffix| host.strip_suffix(suffix)?.strip_suffix('.'))?;
    match labels.split('.').collect::<Vec<_>>()[..] {
        ["sqs" | "sqs-fips", region]
        | [_, "sqs" | "sqs-fips", region, "vpce"]
        | [region, "queue"] => Some(region),
        ["queue"] => Some("us-east-1"),
        _ => None,
    }
}

fn received(message: Message) -> Received {
    let system = message.attributes.unwrap_or_default();
    let text = |name: MessageSystemAttributeName| system.get(&name).cloned();
    let number = |name| text(name).and_then(|number| number.parse::<u64>().ok());
    let time = |name| {
        let millis = number(name).unwrap_or_default();
        SystemTime::UNIX_EPOCH + Duration::from_millis(millis)
    };
    let count = number(MessageSystemAttributeName::ApproximateReceiveCount).unwrap_or(1);
    let source = text(MessageSystemAttributeName::DeadLetterQueueSourceArn);
    let attributes = message.message_attributes.unwrap_or_default();
    Received {
        receipt_handle: message.receipt_handle.unwrap_or_default(),
        message: NewMessage {
            attributes: attributes.iter().map(attribute).collect(),
            group_id: text(MessageSystemAttributeName::MessageGroupId),
            deduplication_id: text(MessageSystemAttributeName::MessageDeduplicationId),
            trace_header: text(MessageSystemAttributeName::AwsTraceHeader),
            ..NewMessage::new(
                message.message_id.unwrap_or_default(),
                message.body.unwrap_or_default(),
            )
        },
        receive_count: u32::try_from(count).unwrap_or(u32::MAX),
        sent_at: time(MessageSystemAttributeName::SentTimestamp),
        first_received_at: time(MessageSystemAttributeName::ApproximateFirstReceiveTimestamp),
        sequence_number: number(MessageSystemAttributeName::SequenceNumber).unwrap_or_default(),
        dead_letter_source: source.and_then(|arn| Some(arn.rsplit(':').next()?.to_owned())),
    }
}

/// Converts a message attribute to the SQS API's JSON.
fn attribute((name, value): (&String, &MessageAttributeValue)) -> (String, Value) {
    let blob = value
        .binary_value
        .as_ref()
        .map(|blob| STANDARD.encode(blob));
    let fields = [
        ("DataType", Some(value.data_type.clone())),
        ("StringValue", value.string_value.clone()),
        ("BinaryValue", blob),
    ];
    let fields = fields
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?.into())));
    (name.clone(), Value::Object(fields.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_url_of_this_machine_is_its_own_endpoint() {
        let local = "http://127.0.0.1:4566";
        for (url, endpoint) in [
            ("http://127.0.0.1:4566/123456789012/orders", Some(local)),
            ("http://localhost/q", Some("http://localhost")),
            ("https://sqs.eu-central-1.amazonaws.com/1/orders", None),
            ("http://localhost.example.com/1/q", None),
            ("http://127.0.0.1.example.com:80/1/q", None),
            ("http://user@127.0.0.1:80/1/q", None),
        ] {
            assert_eq!(loopback(url).as_deref(), endpoint, "{url}");
        }
    }

    #[test]
    fn the_region_is_the_urls() {
        let hosts = "
            sqs.eu-west-1.amazonaws.com sqs-fips.eu-west-1.amazonaws.com sqs.eu-west-1.api.aws
            sqs-fips.eu-west-1.api.aws vpce-0a-b1.sqs.eu-west-1.vpce.amazonaws.com eu-west-1.queue.amazonaws.com
            sqs.eu-west-1.amazonaws.com.cn sqs.eu-west-1.amazonaws.eu sqs.eu-west-1.c2s.ic.gov";
        let hosts = hosts.split_whitespace().map(|host| (host, "eu-west-1"));
        for (host, expected) in hosts.chain([("queue.amazonaws.com", "us-east-1")]) {
            let url = format!("https://{host}/1/q");
            assert_eq!(region(&url, None).unwrap(), expected, "{url}");
            assert_eq!(region(&url, Some("given")).unwrap(), "given");
        }
        for host in ["queue.example.com", "sqs.eu-west-1.example.com"] {
            let url = format!("https://{host}/1/q");
            let error = region(&url, None).unwrap_err().to_string();
            assert!(error.contains("--region"), "{error}");
        }
    }
}
