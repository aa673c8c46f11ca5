//! Dead letters and the state of their keys.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::iter;
use std::time::Duration;

use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
use serde_json::value::RawValue;
use sqs_once::BusinessKey;
use sqs_once::key::{Fingerprint, ItemId, Namespace};
use sqs_once::store::{Item, Timestamp};
use sqs_once::unstable::block::Place;
use sqs_once::unstable::{JsonPointer, RESTARTS};
use tokio::time::Instant;

use crate::name::{Joined, ids};
use crate::{BusFailure, DeadLetters, Error, Group, State};

/// Prefix of the attributes that the library adds to dead letters. Producers do not use it.
const ADDED: &str = "sqs-once-";
/// How long the deletion of a message may take.
const DELETION: Duration = Duration::from_secs(2 * 60);
/// How many attributes a message may have.
const MOST_ATTRIBUTES: usize = 10;
const KEY: &str = "sqs-once-key";
const REASON: &str = "sqs-once-reason";
const MESSAGE_ID: &str = "sqs-once-message-id";
const SOURCE: &str = "sqs-once-source-queue";
/// The envelopes around a payload: a field that only its service writes, and the field with the payload.
const ENVELOPES: [[&str; 2]; 3] = [
    ["Type", "Message"],
    ["detail-type", "detail"],
    ["SystemMetadata", "Data"],
];
/// The system attribute of messages that SQS moved.
const MOVED_FROM: &str = "DeadLetterQueueSourceArn";

/// The state of a dead letter's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Standing {
    /// The key is unknown.
    UnknownKey,
    /// The key is known, but no table was read.
    NotLookedUp,
    /// The key has no item: processing never started, or failed before the claim.
    NeverStarted,
    /// A worker is processing the key.
    InProgress,
    /// A worker claimed the key and failed or stopped.
    Failed,
    /// The effect is done. The completion may have expired.
    Completed,
    /// The key was completed for another payload: the message had no effect.
    ///
    /// Also if [`KeyFrom`] found the key and the payloads can't be compared, since the key may be another consumer's: the
    /// completion has no fingerprint, or one of a part of the payload or with a key secret.
    OtherPayload,
    /// The item has content that no consumer writes.
    Unreadable,
}

impl Standing {
    /// The standing of a key with this item.
    pub fn from_item(item: Option<&Item>, now: Timestamp) -> Self {
        match item.map(|item| State::from_item(item, now)) {
            None => Self::NeverStarted,
            Some(State::InProgress) => Self::InProgress,
            Some(State::Lapsed | State::Released) => Self::Failed,
            // Running it again would repeat the effect, even if the completion has expired.
            Some(State::Completed | State::Expired) => Self::Completed,
            Some(State::Unknown) => Self::Unreadable,
        }
    }

    /// The standing's name, for example `never-started`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown-key",
            Self::NotLookedUp => "not-looked-up",
            Self::NeverStarted => "never-started",
            Self::InProgress => "in-progress",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::OtherPayload => "other-payload",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The place of a part of a key in a message.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum PartFrom {
    /// A value of the JSON body.
    Body(JsonPointer),
    /// A message attribute, by its name.
    Attribute(String),
}

/// Finds the key of a message that does not contain its key's ID.
#[derive(Clone, Debug)]
pub struct KeyFrom {
    /// The place of each part of the key, in the order of the parts.
    pub parts: Vec<PartFrom>,
    /// The consumer's namespace.
    pub namespace: Namespace,
}

impl KeyFrom {
    fn ids(&self, message: &Message) -> Option<[ItemId; 2]> {
        let part = |place: &PartFrom| match place {
            PartFrom::Body(at) => {
                let body = message.body()?;
                // A queue behind SNS has the notification, with the message in it.
                let sent = || {
                    at.key_in(JsonPointer::new("/Message").text_in(body)?.as_str())
                        .ok()
                };
                at.key_in(body).ok().or_else(sent)
            }
            PartFrom::Attribute(name) => {
                let value = message.message_attributes()?.get(name)?.string_value()?;
                BusinessKey::new(value).ok()
            }
        };
        let parts: Option<Vec<_>> = self.parts.iter().map(part).collect();
        let key = BusinessKey::new(&Joined(&parts?)).ok()?;
        Some(ids(&key, &self.namespace))
    }
}

/// A received message of a dead-letter queue.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub(crate) message: Message,
    /// When it was received, or earlier.
    received: Instant,
    /// The possible IDs of its key: two if it is unknown whether the consumer uses readable keys.
    pub(crate) ids: Vec<ItemId>,
    /// The state of its key.
    pub standing: Standing,
    bus_failure: Option<BusFailure>,
}

impl DeadLetter {
    pub(crate) fn new(message: Message, received: Instant, key_from: Option<&KeyFrom>) -> Self {
        let mut letter = Self {
            message,
            received,
            ids: Vec::new(),
            standing: Standing::UnknownKey,
            bus_failure: None,
        };
        // Of a consumer that handles such records, one is a message like any other.
        if !letter.is_moved_by_sqs() && letter.added(REASON).is_none() {
            letter.bus_failure = BusFailure::from_body(letter.body());
        }
        letter.ids = match letter.own_id() {
            Some(id) => vec![ItemId::from_stored(id)],
            None => {
                let ids = key_from.and_then(|from| from.ids(&letter.message));
                ids.into_iter().flatten().collect()
            }
        };
        if !letter.ids.is_empty() {
            letter.standing = Standing::NotLookedUp;
        }
        letter
    }

    /// Whether SQS hides it from other receivers for long enough to delete it.
    pub(crate) fn is_held(&self) -> bool {
        self.received.elapsed() + DELETION < DeadLetters::HOLD
    }

    /// The message ID in this queue. Other queues may use a different ID.
    pub fn id(&self) -> &str {
        self.message.message_id().unwrap_or_default()
    }

    /// The body.
    pub fn body(&self) -> &str {
        self.message.body().unwrap_or_default()
    }

    /// The ID of its key's item, if known. If two forms are possible and neither has an item, the hashed one.
    pub fn key(&self) -> Option<&ItemId> {
        self.ids.first()
    }

    /// The reason that a consumer attached, or that an event bus reports.
    pub fn reason(&self) -> Option<&str> {
        let of_bus = self.bus_failure.as_ref();
        let of_bus = of_bus.map(|failure| failure.reason.as_str());
        self.added(REASON).or(of_bus)
    }

    /// What the message is if an event bus sent it to report on events that it did not deliver.
    pub fn bus_failure(&self) -> Option<&BusFailure> {
        self.bus_failure.as_ref()
    }

    /// The group of messages with the same cause.
    pub fn group(&self) -> Group {
        Group::of(self)
    }

    /// The ID of its key's item that a consumer attached.
    fn own_id(&self) -> Option<&str> {
        // A longer value is not an ID, and DynamoDB would reject the whole read.
        let is_id = |id: &&str| id.len() <= ItemId::MAX_READABLE_LEN;
        self.added(KEY).filter(is_id)
    }

    /// Whether its key, completed for the payload with this fingerprint, was completed for this message.
    pub(crate) fn is_done(&self, completed: Option<&Fingerprint>) -> bool {
        let is_same = |payload: String| Some(&Fingerprint::from_body(&payload)) == completed;
        match (self.own_id(), self.reason()) {
            (_, Some(reason)) if reason.starts_with("payload mismatch:") => false,
            (Some(_), _) => true,
            // The key is only looked for, and may be one of another route or consumer.
            (None, _) => self.payloads().any(is_same),
        }
    }

    /// What may be its payload: the body, or the content of its envelope.
    fn payloads(&self) -> impl Iterator<Item = String> {
        let fields: BTreeMap<String, &RawValue> =
            serde_json::from_str(self.body()).unwrap_or_default();
        let inside = ENVELOPES.into_iter().filter_map(move |[own, payload]| {
            let payload = fields.get(payload).filter(|_| fields.contains_key(own))?;
            // SNS writes the payload as text.
            let text = serde_json::from_str(payload.get());
            Some(text.unwrap_or_else(|_| payload.get().to_owned()))
        });
        iter::once(self.body().to_owned()).chain(inside)
    }

    /// Whether SQS itself moved the message here, because it was received too often.
    pub fn is_moved_by_sqs(&self) -> bool {
        self.system(MOVED_FROM).is_some()
    }

    /// The ARN of the queue that the message came from, if known. SQS and the consumers attach it when they move a message.
    pub fn source_arn(&self) -> Option<&str> {
        self.system(MOVED_FROM).or_else(|| self.added(SOURCE))
    }

    /// Its place behind the dead letters of its message group, if its queue keeps order.
    pub(crate) fn place(&self) -> Option<Place> {
        // Also of a message that SQS has moved meanwhile: consumers trust it in their queue, too.
        Place::from_deduplication_id(self.system("MessageDeduplicationId")?)
    }

    /// The message group that waits for this message, because its queue keeps order. After an unblock it does not.
    pub fn waiting_group(&self) -> Option<&str> {
        self.place().and_then(|_| self.system("MessageGroupId"))
    }

    /// The name of the queue that the message came from, if known.
    pub fn source(&self) -> Option<&str> {
        self.source_arn()?.rsplit(':').next()
    }

    /// The message ID in its source queue, if known. A consumer leaves the attribute out if the message has no room for it,
    /// but in a FIFO queue the deduplication ID ends with the ID, too.
    pub(crate) fn id_before(&self) -> Option<&str> {
        if self.is_moved_by_sqs() {
            return Some(self.id());
        }
        let deduplication = || self.system("MessageDeduplicationId")?.rsplit(':').next();
        self.added(MESSAGE_ID).or_else(deduplication)
    }

    /// An attribute that a consumer added. A message that SQS moved has only its producer's attributes, which are not
    /// trusted.
    fn added(&self, name: &str) -> Option<&str> {
        if self.is_moved_by_sqs() {
            return None;
        }
        let attributes = self.message.message_attributes()?;
        attributes.get(name)?.string_value()
    }

    /// All of its message attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&String, &MessageAttributeValue)> {
        self.message.message_attributes().into_iter().flatten()
    }

    pub(crate) fn own_attributes(&self) -> HashMap<String, MessageAttributeValue> {
        let own = self
            .attributes()
            .filter(|(name, _)| !name.starts_with(ADDED));
        let own = own.map(|(name, value)| (name.clone(), value.clone()));
        own.collect()
    }

    /// Its own attributes. Its consumer starts another execution by them if it has found the last one ended, and not with a
    /// success.
    pub(crate) fn restarting_attributes(
        &self,
    ) -> Result<HashMap<String, MessageAttributeValue>, Error> {
        let mut attributes = self.own_attributes();
        match self.reason() {
            Some(reason) if reason.starts_with("the execution ") && reason.contains(" ended ") => {}
            // Its consumer had no room for a reason, and it may be this one.
            None if attributes.len() >= MOST_ATTRIBUTES && !self.is_moved_by_sqs() => {
                return Err(Error::NoRoomToRestart {
                    id: self.id().to_owned(),
                });
            }
            _ => return Ok(attributes),
        }
        let restarts = attributes.get(RESTARTS).and_then(|it| it.string_value());
        let restarts: u64 = restarts.and_then(|it| it.parse().ok()).unwrap_or(0);
        let value = MessageAttributeValue::builder().data_type("Number");
        let value = value.string_value((restarts + 1).to_string()).build();
        let value = value.map_err(|error| Error::unexpected("sqs:SendMessage", error))?;
        attributes.insert(RESTARTS.to_owned(), value);
        Ok(attributes)
    }

    /// An attribute that SQS sets, by SQS's name, for example `SentTimestamp`.
    pub fn system(&self, name: &str) -> Option<&str> {
        let attributes = self.message.attributes()?;
        let name = MessageSystemAttributeName::from(name);
        attributes.get(&name).map(String::as_str)
    }

    /// When the message was sent: to this queue, or to its source queue if SQS moved it.
    pub fn sent_at(&self) -> Option<Timestamp> {
        let millis = self.system("SentTimestamp")?.parse().ok()?;
        Some(Timestamp::from_millis(millis))
    }

    pub(crate) fn receipt(&self) -> &str {
        self.message.receipt_handle().unwrap_or_default()
    }
}
