//! The block of a FIFO message group: the item that keeps the group's order behind a dead letter.
//!
//! A group is blocked from the moment at which one of its messages becomes a dead letter. This message has the first place
//! in the block, and each later message of the group gets the next one and goes behind it into the dead-letter queue. A
//! message that comes back may run when all places before its own have ended. When all have, the block is lifted.
//!
//! The item is a claim whose lease has lapsed: the next write replaces exactly the item that its sender saw, and raises the
//! fence. So each change is a comparison with the last one, in any store. The block itself is the claim's fingerprint.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::key::{Fingerprint, HexDigest, ItemId};
use crate::record::Message;
use crate::store::{Claim, Item, Owner, RELEASED, Seen};
use crate::time::Timestamp;

/// The start of every block's id.
pub const PREFIX: &str = "block#";

/// The start of a deduplication id that tells a place.
const PLACE: &str = "sqs-once:";

/// The end of the year 9999: a block that stands does not expire.
const NEVER: Timestamp = Timestamp::from_secs(253_402_300_799);

/// How long the table keeps the item of a lifted block.
const KEPT: Duration = Duration::from_secs(60 * 24 * 60 * 60);

/// The most messages of a FIFO queue in a batch. So at most as many of a group can have a place and be in their own queue
/// still, because their move or its answer was lost.
const BATCH: usize = 10;

/// Returns the id of a group's block. No key has this id: a key's id ends in 64 hexadecimal digits, or contains a `:`.
pub fn item_id(queue_arn: &str, group: &str) -> ItemId {
    ItemId::from_stored(format!(
        "{PREFIX}{}",
        &hash(queue_arn, group).as_str()[..32]
    ))
}

/// Returns the name of a message's group for the log, if its queue is FIFO: the first twelve digits in its block's id.
pub(crate) fn short_group(message: &Message) -> Option<String> {
    let (queue, group) = (message.queue_arn()?, message.group_id()?);
    message
        .is_fifo()
        .then(|| hash(queue, group).as_str()[..12].to_owned())
}

fn hash(queue_arn: &str, group: &str) -> HexDigest {
    HexDigest::of(format!("{queue_arn}\n{group}").as_bytes())
}

/// The state of a group that is blocked, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
// A version that knows less must not write less.
#[serde(deny_unknown_fields)]
pub struct Block {
    /// The ARN of the queue.
    pub queue: String,
    /// The message group.
    pub group: String,
    /// Tells it from earlier and later blocks of the group: when it began, in milliseconds since the Unix epoch, or more.
    pub number: u64,
    /// When its first message became a dead letter, in milliseconds since the Unix epoch.
    pub since: u64,
    /// How many places it has given.
    pub places: u64,
    /// How many of them have ended, without those that were dropped out of turn.
    pub ended: u64,
    /// The places after those, whose messages an operator has dropped.
    pub dropped: Vec<u64>,
    /// The messages that got the last places, and their places.
    pub recent: Vec<(String, u64)>,
}

/// The place of a message in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block's number.
    pub block: u64,
    /// Counted from 0.
    pub place: u64,
}

/// Whether a message of a group may run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Its group is not blocked, or all before it have ended.
    Runs,
    /// It goes behind the dead letters of its group.
    Behind,
}

impl Place {
    /// Reads the place from the deduplication id of a message that was moved, or came back.
    pub fn from_deduplication_id(text: &str) -> Option<Self> {
        let mut parts = text.strip_prefix(PLACE)?.split(':');
        let mut number = || parts.next()?.parse().ok();
        Some(Self {
            block: number()?,
            place: number()?,
        })
    }

    /// Returns the deduplication id under which the message with this id is sent to another queue. SQS drops a second copy
    /// of it for five minutes.
    #[cfg_attr(
        not(any(feature = "sqs", feature = "unstable")),
        expect(dead_code, reason = "only with SQS a message moves")
    )]
    pub fn deduplication_id(self, message_id: &str) -> String {
        format!("{PLACE}{self}:{message_id}")
    }

    pub(crate) fn of(message: &Message) -> Option<Self> {
        Self::from_deduplication_id(message.system_attribute("MessageDeduplicationId")?)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.block, self.place)
    }
}

impl Block {
    /// Reads an item. `None` if no version writes it: nobody can tell whether the group is blocked.
    pub fn from_item(item: &Item) -> Option<Self> {
        serde_json::from_str(item.fingerprint.as_ref()?.as_str()).ok()
    }

    /// Returns the claim that replaces the item that was `seen` by this block.
    pub fn claim(&self, owner: Owner, now: Timestamp, seen: Seen) -> Claim {
        let expiration = if self.stands() { NEVER } else { now + KEPT };
        let id = item_id(&self.queue, &self.group);
        let mut claim = Claim::new(id, owner, now, RELEASED, expiration);
        claim.fingerprint = serde_json::to_string(self)
            .ok()
            .map(Fingerprint::from_stored);
        claim.seen = seen;
        claim
    }

    /// Returns whether the group is blocked.
    pub fn stands(&self) -> bool {
        self.ended < self.places
    }

    /// Returns the place of a message: the one that it came back with, or that it got before it could be moved.
    pub fn place_of(&self, place: Option<Place>, message_id: &str) -> Option<u64> {
        let own = place.filter(|place| place.block == self.number);
        let recent = || self.recent.iter().find(|(id, _)| id == message_id);
        own.map(|own| own.place).or_else(|| Some(recent()?.1))
    }

    /// Returns whether a message of the group may run, which came back with a place, could not be moved, or came from its
    /// producer.
    pub fn turn(block: Option<&Self>, place: Option<Place>, message_id: &str) -> Turn {
        let Some(block) = block.filter(|block| block.stands()) else {
            return Turn::Runs;
        };
        match block.place_of(place, message_id) {
            // One before its turn has ended already, and is a duplicate.
            Some(own) if own <= block.ended => Turn::Runs,
            _ => Turn::Behind,
        }
    }

    /// Returns a block of this group, after one that is over.
    pub fn begin(before: Option<&Self>, (queue, group): (&str, &str), now: Timestamp) -> Self {
        let since = now.as_millis();
        let next = before.map_or(0, |before| before.number.saturating_add(1));
        Self {
            queue: queue.to_owned(),
            group: group.to_owned(),
            // The table may have deleted an earlier block.
            number: next.max(since),
            since,
            places: 0,
            ended: 0,
            dropped: Vec::new(),
            recent: Vec::new(),
        }
    }

    /// Returns the block in which a message has the next place.
    #[must_use]
    pub fn with(mut self, message_id: &str) -> Self {
        self.recent.push((message_id.to_owned(), self.places));
        let old = self.recent.len().saturating_sub(BATCH);
        self.recent.drain(..old);
        self.places += 1;
        self
    }

    /// Returns the block after the end of a place. `None` if that changes nothing.
    pub fn after_end(&self, place: u64) -> Option<Self> {
        if place < self.ended || place >= self.places || self.dropped.contains(&place) {
            return None;
        }
        let mut block = self.clone();
        block.dropped.push(place);
        while let Some(at) = block.dropped.iter().position(|it| *it == block.ended) {
            block.dropped.swap_remove(at);
            block.ended += 1;
        }
        Some(block)
    }
}
