//! A state of the model: the table, the queue, the workers, and what is on its way between them.
//!
//! Times are ticks from now, so that states that differ in their age alone are one.

use std::fmt;

use super::config::{Config, Trouble};

/// How many keys there are at most.
pub const KEYS: usize = 2;

/// The `receive`th delivery of a message; the protocol's owner, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Delivery {
    /// Which message.
    pub message: u8,
    /// 1 for its first delivery.
    pub receive: u8,
}

impl Delivery {
    /// One of its own among all deliveries of a model.
    pub fn bit(self) -> u32 {
        1 << (self.message * 8 + self.receive)
    }
}

/// A key's item, but for what is the same in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Item {
    /// Whether its effect is recorded.
    pub completed: bool,
    /// Until when its owner may work; `None` for a claim that was released, and once it is completed.
    pub lease: Option<i8>,
    /// Whose it is.
    pub owner: Delivery,
}

/// What a claim on its way has seen of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Saw {
    /// No item.
    Nothing,
    /// An item with the fence that the key still has.
    Current,
    /// An item with a fence that the key has no more.
    Stale,
}

/// What a worker asks of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask {
    /// Claim the key, by the worker's clock.
    Claim {
        /// The time of the claim.
        now: i8,
        /// Until when it holds.
        lease: i8,
        /// What it takes the place of.
        seen: Saw,
    },
    /// Look the key up, by the worker's clock.
    Read {
        /// The time of the look-up.
        now: i8,
    },
    /// Open a transaction with the claim in it.
    Begin {
        /// The time of the claim.
        now: i8,
        /// Until when it holds.
        lease: i8,
    },
    /// The effect is done.
    Complete,
    /// The claim is given up.
    Release,
    /// The effect is done, without a claim.
    Record {
        /// The time of the recording.
        now: i8,
    },
    /// Effect and record, at once.
    Commit {
        /// The time of the recording.
        now: i8,
    },
    /// Complete the claim in the open transaction, and commit all of it.
    CommitTransaction,
}

/// A request on its way. It is carried out at some time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Request {
    /// Whose.
    pub owner: Delivery,
    /// What it asks for.
    pub ask: Ask,
    /// Whether its sender still waits for the answer.
    pub awaited: bool,
}

/// Where a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Place {
    /// In the queue, to be delivered.
    Visible,
    /// Delivered, or kept away; comes back in as many ticks.
    Away(u8),
    /// Acknowledged and deleted.
    Acknowledged,
    /// In the dead-letter queue.
    Dead,
}

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Message {
    /// Where it is.
    pub place: Place,
    /// How often it was delivered.
    pub receives: u8,
}

impl Message {
    /// Whether nothing has to happen to it any more.
    pub fn is_over(&self) -> bool {
        matches!(self.place, Place::Acknowledged | Place::Dead)
    }
}

/// How a record of a batch ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It has not.
    Open,
    /// It will be acknowledged.
    Done,
    /// It goes back to the queue, and stays away for as many ticks.
    Failed(u8),
}

/// What a worker is at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stage {
    /// Nothing.
    Idle,
    /// It waits to hear whether its first open record may run.
    Asking,
    /// That record's handler runs.
    Running,
    /// It waits to hear whether the record's end is recorded.
    Settling,
    /// Every record has ended, and Lambda doesn't know yet.
    Answering,
}

/// A worker and its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Worker {
    /// How many ticks its clock is ahead.
    pub skew: i8,
    /// What it is at.
    pub stage: Stage,
    /// Ticks to its invocation's deadline; negative beyond it.
    pub left: i8,
    /// The records, in order.
    pub batch: [Option<(Delivery, End)>; 2],
}

impl Worker {
    /// One that waits for a batch.
    pub fn idle(skew: i8) -> Self {
        Self {
            skew,
            stage: Stage::Idle,
            left: 0,
            batch: [None; 2],
        }
    }

    /// The record that it is at.
    pub fn current(&self) -> Option<Delivery> {
        let mut records = self.batch.iter().flatten();
        records.find_map(|(delivery, end)| (*end == End::Open).then_some(*delivery))
    }

    /// Whether a handler runs, or has run and that is not recorded.
    pub fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Settling)
    }
}

/// What happened to a key, as nobody in the system can know it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Account {
    /// How often its effect happened.
    pub effects: u8,
    /// How often a worker ended between an effect and its record.
    pub windows: u8,
    /// Whose claims were written while copies of them are on their way: a bit for each delivery.
    pub claimed: u32,
}

/// What must never happen, seen at the step at which it does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Seen {
    /// A completion or a release changed another owner's item.
    pub stale_write: bool,
    /// A claim that was given up is written once more.
    pub claim_came_back: bool,
    /// A claim was refused by its own copy.
    pub refused_by_itself: bool,
    /// A claim did not get a larger fence than the one before.
    pub fence_stood: bool,
    /// A handler started for a key that was recorded before it asked.
    pub started_after_record: bool,
    /// A message's effect came before that of one before it in its group.
    pub out_of_order: bool,
}

/// All of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    /// The table.
    pub items: [Option<Item>; KEYS],
    /// What stands for a key in its open transaction, and locks it.
    pub open: [Option<Item>; KEYS],
    /// The queue.
    pub messages: Vec<Message>,
    /// The workers, in a canonical order: nothing else knows their numbers.
    pub workers: [Worker; 3],
    /// What is on its way to the store, sorted.
    pub requests: Vec<Request>,
    /// What happened to each key.
    pub accounts: [Account; KEYS],
    /// What happened that must not.
    pub seen: Seen,
    /// What may still go wrong.
    pub trouble: Trouble,
}

impl World {
    /// Before the first delivery.
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

    /// Gives states that can't be told apart from within one form.
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
        // A lease that lapsed before every moment at which somebody may compare it has merely lapsed.
        let moments = requests.iter().filter_map(|one| one.ask.earliest());
        let earliest = moments.chain(self.workers.iter().map(|one| one.skew)).min();
        let lapsed = earliest.unwrap_or(0) - 1;
        for item in self.items.iter_mut().chain(&mut self.open).flatten() {
            item.lease = item.lease.map(|lease| lease.max(lapsed));
        }
    }

    /// The worker that is at a delivery.
    pub fn worker_at(&self, delivery: Delivery) -> Option<usize> {
        let at = |worker: &Worker| worker.current() == Some(delivery);
        self.workers.iter().position(at)
    }
}

impl Ask {
    /// The earliest moment that the request carries.
    fn earliest(&self) -> Option<i8> {
        match *self {
            Self::Claim { now, lease, .. } | Self::Begin { now, lease } => Some(now.min(lease)),
            Self::Read { now } | Self::Record { now } | Self::Commit { now } => Some(now),
            Self::Complete | Self::Release | Self::CommitTransaction => None,
        }
    }

    /// The same request a tick later.
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
