//! The source queue, which hides returned messages for a while.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::types::{ChangeMessageVisibilityBatchRequestEntry, QueueAttributeName};
use futures_util::future::BoxFuture;
use futures_util::stream::{self, StreamExt};
use tracing::{debug, warn};

use crate::env::process_env;
use crate::random::Random;
use crate::record::Message;
use crate::time::{Clock, Timestamp};

use super::sqs::said;
use super::{Backoff, Visibility};

/// The limit of SQS for a request, and the number of requests in flight.
const ENTRIES: usize = 10;
const REQUESTS: usize = 8;
/// The longest a message may be invisible, counted from its receipt: 12 hours, less a minute for the
/// request's way. SQS refuses what is longer.
const LONGEST: Duration = Duration::from_secs(12 * 60 * 60 - 60);
/// A message that was delivered before does not tell when it was received this time: Lambda had it for
/// its batching window (5 min at most) and its own retries before the function did.
const BEFORE_THE_FUNCTION: Duration = Duration::from_secs(15 * 60);

type Entry = ChangeMessageVisibilityBatchRequestEntry;

pub(super) struct SourceQueue {
    client: Client,
    /// The queue's URL, where the message's ARN is not to be asked.
    url: Option<String>,
    /// Where SQS is, if not at its usual place.
    endpoint: Option<String>,
    backoff: Option<Backoff>,
    clock: Arc<dyn Clock>,
    random: Arc<dyn Random>,
}

impl SourceQueue {
    pub(super) fn new(
        client: Client,
        url: Option<String>,
        backoff: Option<Backoff>,
        clock: Arc<dyn Clock>,
        random: Arc<dyn Random>,
    ) -> Self {
        let endpoint = ["AWS_ENDPOINT_URL_SQS", "AWS_ENDPOINT_URL"];
        Self {
            client,
            url,
            endpoint: endpoint.into_iter().find_map(process_env),
            backoff,
            clock,
            random,
        }
    }

    fn url_of(&self, message: &Message) -> Option<String> {
        let from_arn = || url_from_arn(message.queue_arn()?, self.endpoint.as_deref());
        self.url.clone().or_else(from_arn)
    }

    /// A message's queue and its entry in the request; `None` if the event lacks the queue or the receipt handle.
    fn entry(&self, message: &Message, wait: Duration, now: Timestamp) -> Option<(String, Entry)> {
        let url = self.url_of(message)?;
        let entry = Entry::builder()
            .id("")
            .receipt_handle(message.receipt_handle()?)
            .visibility_timeout(visibility_timeout(message, wait, now))
            .build();
        Some((url, entry.ok()?))
    }

    /// Sends one request; how many entries came to nothing, and why.
    async fn change(&self, url: &str, mut entries: Vec<Entry>) -> Option<(usize, String)> {
        for (at, entry) in entries.iter_mut().enumerate() {
            entry.id = at.to_string();
        }
        let count = entries.len();
        let request = self.client.change_message_visibility_batch();
        match request
            .queue_url(url)
            .set_entries(Some(entries))
            .send()
            .await
        {
            Ok(answer) => {
                let first = answer.failed().first()?;
                // Its message would quote the receipt handle.
                Some((
                    answer.failed().len(),
                    format!("SQS answered {}", first.code()),
                ))
            }
            Err(error) => Some((count, said(&error, "sqs:ChangeMessageVisibility"))),
        }
    }
}

impl Visibility for SourceQueue {
    fn backoff(&self, message: &Message) -> Option<Duration> {
        let receive_count = message.receive_count().unwrap_or(1);
        Some(self.backoff?.after(receive_count, self.random.bits()))
    }

    fn postpone<'a>(&'a self, waits: Vec<(&'a Message, Duration)>) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let now = self.clock.now();
            let mut queues: BTreeMap<String, Vec<Entry>> = BTreeMap::new();
            for (message, wait) in waits {
                if let Some((url, entry)) = self.entry(message, wait, now) {
                    queues.entry(url).or_default().push(entry);
                }
            }
            let requests: Vec<_> = queues
                .iter()
                .flat_map(|(url, entries)| entries.chunks(ENTRIES).map(move |chunk| (url, chunk)))
                .map(|(url, entries)| self.change(url, entries.to_vec()))
                .collect();
            let failures: Vec<_> = stream::iter(requests)
                .buffered(REQUESTS)
                .filter_map(std::future::ready)
                .collect()
                .await;
            if let Some((_, error)) = failures.first() {
                let records: usize = failures.iter().map(|(records, _)| records).sum();
                warn!(
                    records,
                    error,
                    "records come back when the queue's visibility timeout ends, not when they should"
                );
            }
        })
    }

    fn timeout<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Option<Duration>> {
        Box::pin(async move {
            let asked = self.client.get_queue_attributes();
            let answer = asked
                .queue_url(self.url_of(message)?)
                .attribute_names(QueueAttributeName::VisibilityTimeout)
                .send()
                .await;
            match answer {
                Ok(answer) => {
                    let attributes = answer.attributes()?;
                    let seconds = attributes.get(&QueueAttributeName::VisibilityTimeout)?;
                    seconds.parse().ok().map(Duration::from_secs)
                }
                Err(error) => {
                    debug!(
                        error = said(&error, "sqs:GetQueueAttributes"),
                        "the queue does not say its visibility timeout"
                    );
                    None
                }
            }
        })
    }
}

/// Whole seconds, rounded up, as far as SQS allows.
fn visibility_timeout(message: &Message, wait: Duration, now: Timestamp) -> i32 {
    let received = message.first_received_at();
    let invisible = match (message.receive_count(), received) {
        (Some(1), Some(received)) => now.since(received),
        _ => BEFORE_THE_FUNCTION,
    };
    let longest = LONGEST.saturating_sub(invisible).as_secs();
    let secs = wait
        .as_secs()
        .saturating_add(u64::from(wait.subsec_nanos() > 0));
    i32::try_from(secs.min(longest)).unwrap_or(i32::MAX)
}

/// `arn:aws:sqs:eu-central-1:123456789012:orders` has the URL
/// `https://sqs.eu-central-1.amazonaws.com/123456789012/orders`.
fn url_from_arn(arn: &str, endpoint: Option<&str>) -> Option<String> {
    let mut parts = arn.split(':');
    if parts.next()? != "arn" {
        return None;
    }
    let partition = parts.next()?;
    if parts.next()? != "sqs" {
        return None;
    }
    let (region, account, name) = (parts.next()?, parts.next()?, parts.next()?);
    let endpoint = match endpoint {
        Some(endpoint) => endpoint.trim_end_matches('/').to_owned(),
        None if partition == "aws-cn" => format!("https://sqs.{region}.amazonaws.com.cn"),
        None => format!("https://sqs.{region}.amazonaws.com"),
    };
    Some(format!("{endpoint}/{account}/{name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_queues_url_follows_from_its_arn() {
        for (arn, endpoint, url) in [
            (
                "arn:aws:sqs:eu-central-1:123456789012:orders.fifo",
                None,
                Some("https://sqs.eu-central-1.amazonaws.com/123456789012/orders.fifo"),
            ),
            (
                "arn:aws-cn:sqs:cn-north-1:123456789012:orders",
                None,
                Some("https://sqs.cn-north-1.amazonaws.com.cn/123456789012/orders"),
            ),
            (
                "arn:aws:sqs:eu-central-1:123456789012:orders",
                Some("http://localhost:4566/"),
                Some("http://localhost:4566/123456789012/orders"),
            ),
            ("arn:aws:sns:eu-central-1:123456789012:orders", None, None),
            ("orders", None, None),
        ] {
            assert_eq!(url_from_arn(arn, endpoint).as_deref(), url, "{arn}");
        }
    }
}
