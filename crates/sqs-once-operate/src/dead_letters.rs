//! Dead-letter queues: receiving, releasing, sending and deleting messages.

use std::collections::HashMap;
use std::time::Duration;

use aws_sdk_sqs::Client;
use aws_sdk_sqs::error::ProvideErrorMetadata as _;
use aws_sdk_sqs::types::{
    ChangeMessageVisibilityBatchRequestEntry, MessageSystemAttributeName,
    MessageSystemAttributeNameForSends, MessageSystemAttributeValue, QueueAttributeName,
};
use sqs_once::key::ItemId;
use sqs_once::store::{Item, StoreErrorKind, Timestamp};
use tokio::time::Instant;

use crate::letter::{DeadLetter, KeyFrom, Standing};
use crate::{Error, Keys};

/// The most messages that one SQS request returns or accepts.
pub(crate) const BATCH: usize = 10;
/// How long a receive request waits for messages. A request without waiting may miss messages that are in the queue.
const WAIT: Duration = Duration::from_secs(1);

/// A dead-letter queue and the table with its messages' keys.
#[derive(Clone, Debug)]
pub struct DeadLetters {
    client: Client,
    url: String,
    keys: Option<Keys>,
    key_from: Option<KeyFrom>,
    restarts: bool,
}

impl DeadLetters {
    /// The visibility timeout of received messages. If this program ends without releasing a message, SQS delivers it
    /// again after this time.
    pub const HOLD: Duration = Duration::from_secs(15 * 60);

    /// The queue with this URL. Without `keys`, no table is read.
    pub fn new(client: Client, url: impl Into<String>, keys: Option<Keys>) -> Self {
        Self {
            client,
            url: without_slash(&url.into()).to_owned(),
            keys,
            key_from: None,
            restarts: false,
        }
    }

    /// The queue with this name in the account of the credentials.
    ///
    /// # Errors
    /// [`Error::Queue`] if the queue does not exist or SQS does not answer.
    pub async fn named(client: Client, name: &str, keys: Option<Keys>) -> Result<Self, Error> {
        let url = url_of(&client, name).await?;
        Ok(Self::new(client, url, keys))
    }

    /// Sets how to find the key of a message without a key attribute.
    #[must_use]
    pub fn key_from(mut self, key_from: Option<KeyFrom>) -> Self {
        self.key_from = key_from;
        self
    }

    /// Sets whether a redriven message starts another execution, after the one that it started has ended. Default: no.
    #[must_use]
    pub fn restarting(mut self, restarts: bool) -> Self {
        self.restarts = restarts;
        self
    }

    pub(crate) fn keys(&self) -> Option<&Keys> {
        self.keys.as_ref()
    }

    /// The queue's URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Whether it is a FIFO queue.
    pub fn is_fifo(&self) -> bool {
        self.url.ends_with(".fifo")
    }

    /// Whether `url` is this queue's URL. SQS uses more than one host name.
    pub(crate) fn is_at(&self, url: &str) -> bool {
        let account_and_name = |url| str::rsplit(url, '/').take(2);
        account_and_name(url).eq(account_and_name(&self.url))
    }

    /// The approximate number of messages in the queue, and how many of them are in flight.
    ///
    /// # Errors
    /// [`Error::Queue`] if SQS does not answer.
    pub async fn count(&self) -> Result<(u64, u64), Error> {
        let visible = QueueAttributeName::ApproximateNumberOfMessages;
        let hidden = QueueAttributeName::ApproximateNumberOfMessagesNotVisible;
        let request = self.client.get_queue_attributes().queue_url(&self.url);
        let request = request.set_attribute_names(Some(vec![visible.clone(), hidden.clone()]));
        let answer = request.send().await;
        let answer = answer.map_err(Error::of_sqs("sqs:GetQueueAttributes"))?;
        let number = |name| answer.attributes()?.get(&name)?.parse::<u64>().ok();
        let hidden = number(hidden).unwrap_or(0);
        Ok((number(visible).unwrap_or(0) + hidden, hidden))
    }

    /// The URL of the one queue that has this dead-letter queue.
    ///
    /// # Errors
    /// [`Error::Sources`] if no queue or several queues have it, [`Error::Queue`] if SQS does not answer.
    pub async fn source(&self) -> Result<String, Error> {
        let request = self.client.list_dead_letter_source_queues();
        let answer = request.queue_url(&self.url).send().await;
        let answer = answer.map_err(Error::of_sqs("sqs:ListDeadLetterSourceQueues"))?;
        match <[String; 1]>::try_from(answer.queue_urls) {
            Ok([url]) => Ok(url),
            Err(found) => Err(Error::Sources { found }),
        }
    }

    /// The URL of another queue, which may be given by URL or by name.
    ///
    /// # Errors
    /// [`Error::Queue`] if the queue does not exist or SQS does not answer.
    pub async fn other(&self, queue: &str) -> Result<String, Error> {
        if queue.starts_with("https://") || queue.starts_with("http://") {
            return Ok(queue.to_owned());
        }
        url_of(&self.client, queue).await
    }

    /// Receives up to ten messages and reads their keys' items. The messages are invisible to other receivers for
    /// [`HOLD`](Self::HOLD). An empty result means that the queue is empty or the remaining messages are in flight.
    ///
    /// # Errors
    /// [`Error::Queue`] if SQS does not answer. If the table does not answer, the messages are released first.
    pub async fn receive(&self) -> Result<Vec<DeadLetter>, Error> {
        let request = self
            .client
            .receive_message()
            .queue_url(&self.url)
            .max_number_of_messages(BATCH as i32)
            .visibility_timeout(Self::HOLD.as_secs() as i32)
            .wait_time_seconds(WAIT.as_secs() as i32)
            .message_attribute_names("All")
            .message_system_attribute_names(MessageSystemAttributeName::All);
        let received = Instant::now();
        let answer = request.send().await;
        let answer = answer.map_err(Error::of_sqs("sqs:ReceiveMessage"))?;
        let messages = answer.messages.unwrap_or_default().into_iter();
        let mut letters: Vec<_> = messages
            .map(|message| DeadLetter::new(message, received, self.key_from.as_ref()))
            .collect();
        if let Err(error) = self.look_up(&mut letters).await {
            // Report the first error, which is the cause.
            let _ = self.put_back(letters.iter().map(DeadLetter::receipt)).await;
            return Err(error);
        }
        Ok(letters)
    }

    async fn look_up(&self, letters: &mut [DeadLetter]) -> Result<(), Error> {
        let Some(keys) = &self.keys else {
            return Ok(());
        };
        let mut ids: Vec<ItemId> = letters.iter().flat_map(|one| one.ids.clone()).collect();
        // DynamoDB rejects a read with duplicate keys.
        ids.sort();
        ids.dedup();
        let now = Timestamp::now();
        let mut known = HashMap::new();
        for (id, answer) in ids.iter().zip(keys.read_each(&ids).await) {
            let item = match answer {
                Ok(None) => continue,
                Ok(item) => item,
                // One unreadable item must not hide the others.
                Err(error) if error.kind() == StoreErrorKind::BadItem => None,
                Err(error) => return Err(error.into()),
            };
            known.insert(id, item);
        }
        for letter in letters {
            if letter.ids.is_empty() {
                continue;
            }
            let standing = |item: &Item| match Standing::from_item(Some(item), now) {
                Standing::Completed if !letter.is_done(item.fingerprint.as_ref()) => {
                    Standing::OtherPayload
                }
                standing => standing,
            };
            let found = letter.ids.iter().filter_map(|id| {
                let item = known.get(id)?.as_ref();
                Some((id.clone(), item.map_or(Standing::Unreadable, standing)))
            });
            // The consumer may have switched to readable ids. A completion under either ID counts.
            let found = found.max_by_key(|(_, standing)| *standing == Standing::Completed);
            letter.standing = Standing::NeverStarted;
            if let Some((id, standing)) = found {
                (letter.ids, letter.standing) = (vec![id], standing);
            }
        }
        Ok(())
    }

    /// Makes messages visible again at once.
    pub(crate) async fn put_back<'a>(
        &self,
        receipts: impl Iterator<Item = &'a str>,
    ) -> Result<(), Error> {
        const ACTION: &str = "sqs:ChangeMessageVisibility";
        let receipts: Vec<_> = receipts.collect();
        for chunk in receipts.chunks(BATCH) {
            let entries = chunk.iter().enumerate().map(|(at, receipt)| {
                ChangeMessageVisibilityBatchRequestEntry::builder()
                    .id(at.to_string())
                    .receipt_handle(*receipt)
                    .visibility_timeout(0)
                    .build()
            });
            let entries = entries.collect::<Result<Vec<_>, _>>();
            let entries = entries.map_err(|error| Error::unexpected(ACTION, error))?;
            let request = self.client.change_message_visibility_batch();
            let request = request.queue_url(&self.url).set_entries(Some(entries));
            // SQS rejects messages that are no longer in flight. They are visible already.
            let answer = request.send().await;
            answer.map_err(Error::of_sqs(ACTION))?;
        }
        Ok(())
    }

    /// Sends a copy to another queue and returns its message ID. The copy has the body, the message's own attributes,
    /// the message group and the trace header, but no attributes that a consumer added about the failure.
    pub(crate) async fn send(&self, letter: &DeadLetter, to: &str) -> Result<String, Error> {
        let is_fifo = to.ends_with(".fifo");
        let group = letter.system("MessageGroupId");
        let trace = letter.system("AWSTraceHeader").map(|header| {
            let name = MessageSystemAttributeNameForSends::AwsTraceHeader;
            let value = MessageSystemAttributeValue::builder().data_type("String");
            let value = value.string_value(header).build();
            value.map(|value| HashMap::from([(name, value)]))
        });
        let trace = trace.transpose();
        let trace = trace.map_err(|error| Error::unexpected("sqs:SendMessage", error))?;
        // The original deduplication ID would not work: SQS accepts such a copy within five minutes of the first send
        // but does not deliver it. The copy's ID depends only on the message. If an interrupted run starts again within
        // five minutes, SQS discards the second copy.
        let deduplication = is_fifo.then(|| match letter.place() {
            Some(place) => place.deduplication_id(letter.id()),
            None => format!("redrive-{}", letter.id()),
        });
        let attributes = match self.restarts {
            true => letter.restarting_attributes()?,
            false => letter.own_attributes(),
        };
        let request = self
            .client
            .send_message()
            .queue_url(to)
            .message_body(letter.body())
            .set_message_attributes(Some(attributes))
            .set_message_system_attributes(trace)
            .set_message_group_id(match group {
                None if is_fifo => Some(letter.id().to_owned()),
                group => group.map(str::to_owned),
            })
            .set_message_deduplication_id(deduplication);
        let answer = request.send().await;
        let answer = answer.map_err(|error| match error.code() {
            Some(code)
                if code.contains("InvalidParameterValue")
                    || code.contains("InvalidMessageContents") =>
            {
                Error::Refused {
                    id: letter.id().to_owned(),
                    reason: error.message().unwrap_or(code).to_owned(),
                }
            }
            _ => Error::of_sqs("sqs:SendMessage")(error),
        })?;
        answer.message_id.ok_or_else(|| {
            let advice =
                "something answers in the place of SQS: check the network and AWS_ENDPOINT_URL_SQS";
            Error::queue("sqs:SendMessage", advice, "the answer has no MessageId")
        })
    }

    pub(crate) async fn delete(&self, letter: &DeadLetter) -> Result<(), Error> {
        let request = self.client.delete_message().queue_url(&self.url);
        let answer = request.receipt_handle(letter.receipt()).send().await;
        answer.map_err(Error::of_sqs("sqs:DeleteMessage"))?;
        Ok(())
    }
}

/// A queue's URL as SQS writes it, by whose end a FIFO queue is recognised.
pub(crate) fn without_slash(url: &str) -> &str {
    url.trim_end_matches('/')
}

async fn url_of(client: &Client, name: &str) -> Result<String, Error> {
    let answer = client.get_queue_url().queue_name(name).send().await;
    let answer = answer.map_err(Error::of_sqs("sqs:GetQueueUrl"))?;
    answer
        .queue_url
        .ok_or_else(|| Error::unexpected("sqs:GetQueueUrl", "the answer has no URL"))
}
