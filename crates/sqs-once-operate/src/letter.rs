//! A dead letter, and where the work for it stands.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_sqs::types::{Message, MessageAttributeValue, MessageSystemAttributeName};
use sqs_once::BusinessKey;
use sqs_once::key::JsonPointer;
use sqs_once::key::{ItemId, Namespace};
use sqs_once::store::Item;
use sqs_once::time::Timestamp;

use crate::State;
use crate::name::ids;

/// What the library adds to the dead letters that it sends; nothing of a message's own begins so.
pub(crate) const ADDED: &str = "sqs-once-";
const KEY: &str = "sqs-once-key";
const REASON: &str = "sqs-once-reason";
const MESSAGE_ID: &str = "sqs-once-message-id";

/// Where the work for a dead letter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Standing {
    /// Its key is not known, or no table was asked.
    UnknownKey,
    /// Nothing is known of its key: the work has never started, or failed before the key was claimed.
    NeverStarted,
    /// Somebody is working on its key.
    InProgress,
    /// Its key was claimed, and the attempt failed or died.
    Failed,
    /// Its effect is done, be the record past its expiry or not.
    Completed,
    /// The table has something under its key that no consumer writes.
    Unreadable,
}

impl Standing {
    /// The standing of a key whose item is this.
    pub fn from_item(item: Option<&Item>, now: Timestamp) -> Self {
        match item.map(|item| State::from_item(item, now)) {
            None => Self::NeverStarted,
            Some(State::InProgress) => Self::InProgress,
            Some(State::Lapsed | State::Released) => Self::Failed,
            // Its effect would happen once more.
            Some(State::Completed | State::Expired) => Self::Completed,
            Some(State::Unknown) => Self::Unreadable,
        }
    }

    /// Its name in one word, such as `never-started`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::UnknownKey => "unknown-key",
            Self::NeverStarted => "never-started",
            Self::InProgress => "in-progress",
            Self::Failed => "failed",
            Self::Completed => "completed",
            Self::Unreadable => "unreadable",
        }
    }
}

impl fmt::Display for Standing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How the key of a message is found that does not say its own: at places in its body's JSON.
#[derive(Clone, Debug)]
pub struct KeyFrom {
    /// One place for each part of the key.
    pub pointers: Vec<JsonPointer>,
    /// The consumer's namespace.
    pub namespace: Namespace,
}

impl KeyFrom {
    fn ids(&self, body: &str) -> Option<[ItemId; 2]> {
        let parts: Result<Vec<_>, _> = self.pointers.iter().map(|at| at.key_in(body)).collect();
        let key = BusinessKey::new(&Joined(parts.ok()?)).ok()?;
        Some(ids(&key, &self.namespace))
    }
}

struct Joined(Vec<BusinessKey>);

impl sqs_once::key::KeyPart for Joined {
    fn write(&self, key: &mut sqs_once::key::KeyWriter) -> Result<(), sqs_once::key::KeyError> {
        self.0.iter().try_for_each(|part| part.write(key))
    }
}

/// A message in a dead-letter queue, received.
#[derive(Clone, Debug)]
pub struct DeadLetter {
    pub(crate) message: Message,
    /// The ids that its key may have: one, or two where it is not known whether they are readable.
    pub(crate) ids: Vec<ItemId>,
    /// Where the work for it stands.
    pub standing: Standing,
}

impl DeadLetter {
    pub(crate) fn new(message: Message, key_from: Option<&KeyFrom>) -> Self {
        let mut letter = Self {
            message,
            ids: Vec::new(),
            standing: Standing::UnknownKey,
        };
        // What is longer is no id, and DynamoDB would refuse to look for it and all others.
        let says = letter
            .added(KEY)
            .filter(|id| id.len() <= ItemId::MAX_READABLE_LEN);
        letter.ids = match (says, key_from) {
            (Some(id), _) => vec![ItemId::from_stored(id)],
            (None, Some(from)) => {
                let ids = from.ids(letter.body());
                ids.map_or_else(Vec::new, Vec::from)
            }
            (None, None) => Vec::new(),
        };
        letter
    }

    /// The message id, which it has in this queue only.
    pub fn id(&self) -> &str {
        self.message.message_id().unwrap_or_default()
    }

    /// The body.
    pub fn body(&self) -> &str {
        self.message.body().unwrap_or_default()
    }

    /// The id of its key's item, if it is known; where it may have two forms and neither has an item, the hashed
    /// one.
    pub fn key(&self) -> Option<&ItemId> {
        self.ids.first()
    }

    /// Why it is here, where a consumer has said so.
    pub fn reason(&self) -> Option<&str> {
        self.added(REASON)
    }

    /// The message id that it had in the queue that it comes from, as far as that is known.
    pub(crate) fn id_before(&self) -> &str {
        self.added(MESSAGE_ID).unwrap_or_else(|| self.id())
    }

    /// What a consumer has added. Of what SQS itself has moved here, the attributes are the producer's, who
    /// may write anything.
    fn added(&self, name: &str) -> Option<&str> {
        if self.system("DeadLetterQueueSourceArn").is_some() {
            return None;
        }
        let attributes = self.message.message_attributes()?;
        attributes.get(name)?.string_value()
    }

    /// All of its message attributes.
    pub fn attributes(&self) -> impl Iterator<Item = (&String, &MessageAttributeValue)> {
        self.message.message_attributes().into_iter().flatten()
    }

    /// Those that it was first sent with.
    pub(crate) fn own_attributes(&self) -> HashMap<String, MessageAttributeValue> {
        let own = self
            .attributes()
            .filter(|(name, _)| !name.starts_with(ADDED));
        own.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }

    /// An attribute that SQS has set, by the name that SQS gives it, such as `SentTimestamp`.
    pub fn system(&self, name: &str) -> Option<&str> {
        let attributes = self.message.attributes()?;
        let name = MessageSystemAttributeName::from(name);
        attributes.get(&name).map(String::as_str)
    }

    /// When it was sent: to this queue, or to its source where the redrive policy has moved it.
    pub fn sent_at(&self) -> Option<Timestamp> {
        let millis = self.system("SentTimestamp")?.parse().ok()?;
        Some(Timestamp::from_millis(millis))
    }

    pub(crate) fn receipt(&self) -> &str {
        self.message.receipt_handle().unwrap_or_default()
    }
}
