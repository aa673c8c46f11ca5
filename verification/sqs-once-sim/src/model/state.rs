//! A state of the model: the table, the queue, the workers, and the requests in flight.
//!
//! All times are in ticks from now, so states that differ only in age are equal.

use std::fmt;

use super::config::{Config, Trouble};

/// The maximum number of keys.
pub const KEYS: usize = 2;

/// The `receive`th delivery of a message. It is also the owner of the delivery's claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// The message's number.
    pub message: u8,
    /// 1 for its first delivery.
    pub receive: u8,
}

impl Delivery {
    /// A bit that is unique among all deliveries of a model.
    pub fn bit(self) -> u32 {
        1 << (self.message * 8 + self.receive)
    }
}

/// The item of a key, without the attributes that are the same in every item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// Whether the effect is recorded.
    pub completed: bool,
    /// When the owner's lease ends; `None` after a release or a completion.
    pub lease: Option<i8>,
    /// The delivery that owns the item.
    pub owner: Delivery,
}

/// The fence that a claim in flight has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Saw {
    /// No item.
    Nothing,
    /// An item whose fence is still the key's fence.
    Current,
    /// An item whose fence has been replaced.
    Stale,
}

/// A request to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Claims the key, by the worker's clock.
    Claim {
        /// The time of the claim.
        now: i8,
        /// When its lease ends.
        lease: i8,
        /// What the claim replaces.
        seen: Saw,
    },
    /// Looks the key up, by the worker's clock.
    Read {
        /// The time of the lookup.
        now: i8,
    },
    /// Opens a transaction that contains the claim.
    Begin {
        /// The time of the claim.
        now: i8,
        /// When its lease ends.
        lease: i8,
    },
    /// Completes the claim after the effect.
    Complete,
    /// Releases the claim.
    Release,
    /// Records the effect without a claim.
    Record {
        /// The time of the recording.
        now: i8,
    },
    /// Commits effect and record together.
    Commit {
        /// The time of the recording.
        now: i8,
    },
    /// Completes the claim in the open transaction, and commits the transaction.
    CommitTransaction,
}

/// A request in flight. The store carries it out at any later time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// The delivery that sent it.
    pub owner: Delivery,
    /// The operation.
    pub ask: Ask,
    /// Whether its sender still waits for the answer.
    pub awaited: bool,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// Visible in the queue.
    Visible,
    /// Hidden for this many ticks.
    Away(u8),
    /// Acknowledged and deleted.
    Acknowledged,
    /// In the dead-letter queue.
    Dead,
}

/// A message in the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Where it is.
    pub place: Place,
    /// How often SQS delivered it.
    pub receives: u8,
}

impl Message {
    /// Whether the message is acknowledged or a dead letter.
    pub fn is_over(&self) -> bool {
        matches!(self.place, Place::Acknowledged | Place::Dead)
    }
}

/// The result of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// Not ended yet.
    Open,
    /// Will be acknowledged.
    Done,
    /// Failed: the message becomes visible again after this many ticks.
    Failed(u8),
}

/// The current work of a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Waiting for a batch.
    Idle,
    /// Waiting for the answer that decides whether its first open record may run.
    Asking,
    /// Running that record's handler.
    Running,
    /// Waiting for the answer to the record's settlement.
    Settling,
    /// Every record has ended, but Lambda has no answer yet.
    Answering,
}

/// A worker and its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// How many ticks the worker's clock is ahead.
    pub skew: i8,
    /// The worker's current work.
    pub stage: Stage,
    /// Ticks until the invocation's deadline; negative after it.
    pub left: i8,
    /// The records, in order, each with its result.
    pub batch: [Option<(Delivery, End)>; 2],
}

impl Worker {
    /// A worker that waits for a batch.
    pub fn idle(skew: i8) -> Self {
        Self {
            skew,
            stage: Stage::Idle,
            left: 0,
            batch: [None; 2],
        }
    }

    /// The record that the worker is handling: the first open one.
    pub fn current(&self) -> Option<Delivery> {
        let mut records = self.batch.iter().flatten();
        records.find_map(|(delivery, end)| (*end == End::Open).then_some(*delivery))
    }

    /// Whether the worker runs a handler or settles its record.
    pub fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Settling)
    }
}

/// The true history of a key, which no worker can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// How often the effect happened.
    pub effects: u8,
    /// How often a worker stopped between an effect and its record.
    pub windows: u8,
    /// The deliveries whose claim was written while a copy of it is in flight, one bit each.
    pub claimed: u32,
}

/// Events that must never happen, noted in the step that causes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// A completion or a release changed another owner's item.
    pub stale_write: bool,
    /// A claim was written again after its owner had settled it.
    pub claim_came_back: bool,
    /// A claim was refused by its own copy.
    pub refused_by_itself: bool,
    /// A claim did not raise the fence.
    pub fence_stood: bool,
    /// A handler started for a key that was recorded before the handler's worker asked.
    pub started_after_record: bool,
    /// A message's effect came before the effect of an earlier message of its group.
    pub out_of_order: bool,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The table: the item of each key.
    pub items: [Option<Item>; KEYS],
    /// The item of each key in the open transaction that locks the key.
    pub open: [Option<Item>; KEYS],
    /// The queue.
    pub messages: Vec<Message>,
    /// The workers, in canonical order. Their numbers mean nothing.
    pub workers: [Worker; 3],
    /// The requests in flight, sorted.
    pub requests: Vec<Request>,
    /// What happened to each key.
    pub accounts: [Account; KEYS],
    /// The forbidden events so far.
    pub seen: Seen,
    /// The trouble that may still happen.
    pub trouble: Trouble,
}

impl World {
    /// The state before the first delivery.
    pub fn new(config: &Config) -> Self {
        let message = Message {
            place: Place::Visible,
            receives: 0,
        };
        let mut world = Self {
            items: [None; KEYS],
            open: [None; KEYS],
            messages: vec![message; config.keys.len()],
            workers: config.skews.map(Worker::idle),
            requests: Vec::new(),
            accounts: [Account::default(); KEYS],
            seen: Seen::default(),
            trouble: config.trouble,
        };
        world.canonicalize();
        world
    }

    /// Maps states that no worker can distinguish to one form.
    pub fn canonicalize(&mut self) {
        self.workers.sort_unstable();
        self.requests.sort_unstable();
        let requests = &self.requests;
        let claims = requests
            .iter()
            .filter(|one| matches!(one.ask, Ask::Claim { .. }));
        let on_their_way = claims.fold(0, |all, one| all | one.owner.bit());
        for account in &mut self.accounts {
            account.claimed &= on_their_way;
        }
        // A lease that ended before every time that a claim may compare is simply over: how long ago does not matter.
        let moments = requests.iter().filter_map(|one| one.ask.earliest());
        let earliest = moments.chain(self.workers.iter().map(|one| one.skew)).min();
        let lapsed = earliest.unwrap_or(0) - 1;
        for item in self.items.iter_mut().chain(&mut self.open).flatten() {
            item.lease = item.lease.map(|lease| lease.max(lapsed));
        }
    }

    /// The index of the worker that handles this delivery.
    pub fn worker_at(&self, delivery: Delivery) -> Option<usize> {
        let at = |worker: &Worker| worker.current() == Some(delivery);
        self.workers.iter().position(at)
    }
}

impl Ask {
    /// The earliest time that the request contains.
    fn earliest(&self) -> Option<i8> {
        match *self {
            Self::Claim { now, lease, .. } | Self::Begin { now, lease } => Some(now.min(lease)),
            Self::Read { now } | Self::Record { now } | Self::Commit { now } => Some(now),
            Self::Complete | Self::Release | Self::CommitTransaction => None,
        }
    }

    /// The same request one tick later.
    #[must_use]
    pub fn a_tick_later(self) -> Self {
        match self {
            Self::Claim { now, lease, seen } => Self::Claim {
                now: now - 1,
                lease: lease - 1,
                seen,
            },
            Self::Begin { now, lease } => Self::Begin {
                now: now - 1,
                lease: lease - 1,
            },
            Self::Read { now } => Self::Read { now: now - 1 },
            Self::Record { now } => Self::Record { now: now - 1 },
            Self::Commit { now } => Self::Commit { now: now - 1 },
            other => other,
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "m{}#{}", self.message, self.receive)
    }
}
