//! The source queue, which hides returned messages for a while.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Once};
use std::time::Duration;

use aws_sdk_sqs::config::endpoint::{DefaultResolver, Params, ResolveEndpoint};
use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, QueueAttributeName};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tokio::time::{Instant, timeout_at};
use tracing::{debug, warn};

use crate::breaker::{Deliveries, QueueLimits};
use crate::env::process_env;
use crate::record::Message;
use crate::time::{Clock, Timestamp};

use super::sqs::{DENIED, LazyClient, arn_parts, connect, describe};
use super::{UNANSWERED, Visibility};

/// SQS's limit of entries per request, and our limit of requests in flight.
const ENTRIES: usize = 10;
const REQUESTS: usize = 8;
/// The longest time that a message may be hidden, counted from its receipt: 12 hours, less a minute for the request to
/// arrive. SQS refuses longer times.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60 - 60);
/// The assumed time from the receipt of a redelivered message to the invocation, because SQS does not report when it
/// redelivered a message. Lambda holds the message for its batching window (5 min at most) and its own retries.
const BEFORE_THE_FUNCTION: Duration = Duration::from_secs(15 * 60);

type Entry = ChangeMessageVisibilityBatchRequestEntry;

/// The queue that messages come from.
pub(super) struct SourceQueue {
    client: LazyClient,
    /// The endpoint of SQS, if not the default.
    endpoint: Option<String>,
    clock: Arc<dyn Clock>,
    /// For the warning about a permission that the role lacks in every batch.
    warned: Once,
}

impl SourceQueue {
    pub(super) fn new(client: LazyClient, clock: Arc<dyn Clock>) -> Self {
        let names = ["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"];
        Self {
            client,
            endpoint: names.into_iter().find_map(process_env),
            clock,
            warned: Once::new(),
        }
    }

    async fn url_of(&self, message: &Message) -> Option<String> {
        url_from_arn(message.queue_arn()?, self.endpoint.as_deref()).await
    }

    /// Sends one request. Returns how many entries failed, and why.
    async fn change(&self, url: &str, mut entries: Vec<Entry>) -> Option<(usize, String)> {
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.id = at.to_string();
        }
        let count = entries.len();
        let client = self.client.get(connect).await;
        let request = client.change_message_visibility_batch();
        let request = request.queue_url(url).set_entries(Some(entries));
        match request.send().await {
            Ok(answer) => {
                let unconfirmed = count.saturating_sub(answer.successful().len());
                // The error's message would quote the receipt handle.
                let code = answer.failed().first().map(|failed| failed.code());
                let error = format!("SQS answered {}", code.unwrap_or("without the messages"));
                (unconfirmed > 0).then_some((unconfirmed, error))
            }
            Err(error) => Some((count, describe(&error, "sqs:ChangeMessageVisibility"))),
        }
    }
}

impl SourceQueue {
    /// Asks the message's queue for attributes.
    async fn attributes(
        &self,
        message: &Message,
        names: &[QueueAttributeName],
    ) -> Result<HashMap<QueueAttributeName, String>, String> {
        let url = self
            .url_of(message)
            .await
            .ok_or("the event has no ARN of a queue")?;
        let client = self.client.get(connect).await;
        let asked = client.get_queue_attributes().queue_url(url);
        let answer = asked.set_attribute_names(Some(names.to_vec())).send().await;
        let answer = answer.map_err(|error| describe(&error, "sqs:GetQueueAttributes"))?;
        Ok(answer.attributes.unwrap_or_default())
    }
}

/// Reads a redrive policy. SQS writes the count as a number, and accepts it as text.
fn max_receive_count(policy: &str) -> Option<u32> {
    let policy: serde_json::Value = serde_json::from_str(policy).ok()?;
    let count = policy.get("maxReceiveCount")?;
    let number = count.as_u64().or_else(|| count.as_str()?.parse().ok())?;
    u32::try_from(number).ok()
}

impl Visibility for SourceQueue {
    fn hide<'a>(&'a self, waits: Vec<(&'a Message, Duration)>, ran: Duration) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let Some((first, _)) = waits.first() else {
                return;
            };
            let Some(url) = self.url_of(first).await else {
                return;
            };
            let now = self.clock.now();
            let entries = waits
                .into_iter()
                .filter_map(|(message, wait)| entry(message, wait, now, ran));
            let entries: Vec<_> = entries.collect();
            let requests: Vec<_> = entries
                .chunks(ENTRIES)
                .map(|entries| self.change(&url, entries.to_vec()))
                .collect();
            let failures: Vec<_> = stream::iter(requests)
                .buffered(REQUESTS)
                .filter_map(std::future::ready)
                .collect()
                .await;
            if let Some((_, error)) = failures.first() {
                let records: usize = failures.iter().map(|(records, _)| records).sum();
                let warn = || {
                    warn!(
                        records,
                        error,
                        "messages come back when the queue's visibility timeout ends, not when they should"
                    );
                };
                match error.contains(DENIED) {
                    true => self.warned.call_once(warn),
                    false => warn(),
                }
            }
        })
    }

    fn timeout<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Option<Duration>> {
        Box::pin(async move {
            let name = QueueAttributeName::VisibilityTimeout;
            match self.attributes(message, slice::from_ref(&name)).await {
                Ok(attributes) => {
                    let seconds = attributes.get(&name)?;
                    seconds.parse().ok().map(Duration::from_secs)
                }
                Err(error) => {
                    debug!(error, "the queue does not say its visibility timeout");
                    None
                }
            }
        })
    }

    fn limits<'a>(
        &'a self,
        message: &'a Message,
        by: Instant,
    ) -> BoxFuture<'a, Option<QueueLimits>> {
        Box::pin(async move {
            use QueueAttributeName::{MessageRetentionPeriod, RedrivePolicy};
            let names = [RedrivePolicy, MessageRetentionPeriod];
            let answer = timeout_at(by, self.attributes(message, &names)).await;
            let answer = answer.unwrap_or_else(|_| Err(UNANSWERED.to_owned()));
            let queue = answer.and_then(|attributes| {
                let seconds = attributes.get(&MessageRetentionPeriod);
                // Every queue has a retention. An answer that lacks it may lack the redrive policy too.
                let retention = seconds.and_then(|seconds| seconds.parse().ok());
                let retention = retention.ok_or("SQS's answer has no MessageRetentionPeriod")?;
                let policy = attributes.get(&RedrivePolicy);
                Ok(QueueLimits {
                    deliveries: match policy {
                        None => Deliveries::Unlimited,
                        Some(policy) => {
                            let count = max_receive_count(policy);
                            Deliveries::AtMost(count.ok_or("SQS's answer has no maxReceiveCount")?)
                        }
                    },
                    retention: Duration::from_secs(retention),
                })
            });
            queue
                .inspect_err(|error| {
                    warn!(
                        queue = message.queue_arn(),
                        error,
                        "the queue's settings are unknown, so that a message's last delivery is not recognised, and \
                         messages are not hidden for the length of an outage: the function's role must allow \
                         sqs:GetQueueAttributes"
                    );
                })
                .ok()
        })
    }
}

/// Returns a message's entry in the request, if the event has its receipt handle.
fn entry(message: &Message, wait: Duration, now: Timestamp, ran: Duration) -> Option<Entry> {
    let entry = Entry::builder()
        .id("")
        .receipt_handle(message.receipt_handle()?)
        .visibility_timeout(visibility_timeout(message, wait, now, ran));
    entry.build().ok()
}

/// Rounds up to whole seconds, within SQS's limit.
fn visibility_timeout(message: &Message, wait: Duration, now: Timestamp, ran: Duration) -> i32 {
    let received = message.first_received_at();
    let invisible = match (message.receive_count(), received) {
        (Some(1), Some(received)) => now.since(received),
        _ => BEFORE_THE_FUNCTION + ran,
    };
    let longest = LONGEST.saturating_sub(invisible).as_secs();
    let secs = wait
        .as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0));
    i32::try_from(secs.min(longest)).unwrap_or(i32::MAX)
}

/// `arn:aws:sqs:eu-central-1:123456789012:orders` has the URL
/// `https://sqs.eu-central-1.amazonaws.com/123456789012/orders`.
async fn url_from_arn(arn: &str, endpoint: Option<&str>) -> Option<String> {
    let ["arn", _, "sqs", region, account, name] = arn_parts(arn)? else {
        return None;
    };
    let endpoint = match endpoint {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None => endpoint_in(region).await?,
    };
    Some(format!("{endpoint}/{account}/{name}"))
}

/// Returns the endpoint of SQS in a region by the rules of the SDK. Each partition has its own domain.
async fn endpoint_in(region: &str) -> Option<String> {
    let params = Params::builder().region(region).build().ok()?;
    let rules = DefaultResolver::new();
    let endpoint = rules.resolve_endpoint(&params).await.ok()?;
    Some(endpoint.url().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_queues_url_follows_from_its_arn_in_each_partition() {
        for (partition, region, domain) in [
            ("aws", "eu-central-1", "amazonaws.com"),
            ("aws-cn", "cn-north-1", "amazonaws.com.cn"),
            ("aws-us-gov", "us-gov-west-1", "amazonaws.com"),
            ("aws-eusc", "eusc-de-east-1", "amazonaws.eu"),
            ("aws-iso", "us-iso-east-1", "c2s.ic.gov"),
            ("aws-iso-b", "us-isob-east-1", "sc2s.sgov.gov"),
            ("aws-iso-e", "eu-isoe-west-1", "cloud.adc-e.uk"),
            ("aws-iso-f", "us-isof-south-1", "csp.hci.ic.gov"),
        ] {
            let arn = format!("arn:{partition}:sqs:{region}:123456789012:orders.fifo");
            let url = format!("https://sqs.{region}.{domain}/123456789012/orders.fifo");
            assert_eq!(url_from_arn(&arn, None).await, Some(url));
        }
    }

    #[tokio::test]
    async fn another_endpoint_replaces_the_regions() {
        let arn = "arn:aws:sqs:eu-central-1:123456789012:orders";
        let url = url_from_arn(arn, Some("http://localhost:4566/")).await;
        assert_eq!(
            url.as_deref(),
            Some("http://localhost:4566/123456789012/orders")
        );
        for arn in ["arn:aws:sns:eu-central-1:123456789012:orders", "orders"] {
            assert_eq!(url_from_arn(arn, None).await, None);
        }
    }
}
