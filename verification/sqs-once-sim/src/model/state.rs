//! A state of the model: the table, the queue, the workers, and the requests in flight.
//!
//! All times are in ticks from now, so states that differ only in age are equal.

use std::fmt;

use super::config::{Config, Trouble};

pub(super) const KEYS: usize = 2;

/// The `receive`th delivery of a message. It is also the owner of the delivery's claims.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Delivery {
    pub(super) message: u8,
    /// 1 for its first delivery.
    pub(super) receive: u8,
}

impl Delivery {
    /// The owner of a forgotten key. No message has it.
    pub(super) const OPERATOR: Self = Self {
        message: 0,
        receive: 0,
    };

    /// A bit that is unique among all deliveries of a model.
    pub(super) fn bit(self) -> u32 {
        1 << (self.message * 8 + self.receive)
    }
}

/// The item of a key, without the attributes that are the same in every item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Item {
    /// Whether the effect is recorded.
    pub(super) completed: bool,
    /// When the owner's lease ends; `None` after a release or a completion.
    pub(super) lease: Option<i8>,
    pub(super) owner: Delivery,
}

/// The fence that a claim in flight has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Saw {
    Nothing,
    /// An item whose fence is still the key's fence.
    Current,
    /// An item whose fence has been replaced.
    Stale,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Ask {
    Claim {
        now: i8,
        lease: i8,
        seen: Saw,
    },
    Read {
        now: i8,
    },
    /// Opens a transaction that contains the claim.
    Begin {
        now: i8,
        lease: i8,
    },
    Complete,
    Release,
    Renew {
        lease: i8,
    },
    Record {
        now: i8,
    },
    Commit {
        now: i8,
    },
    /// Completes the claim in the open transaction, and commits the transaction.
    CommitTransaction,
}

/// A request in flight. The store carries it out at any later time, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Request {
    pub(super) owner: Delivery,
    pub(super) ask: Ask,
    /// Whether its sender still waits for the answer.
    pub(super) awaited: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Place {
    Visible,
    /// Hidden for this many ticks.
    Away(u8),
    Acknowledged,
    Dead,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Message {
    pub(super) place: Place,
    pub(super) receives: u8,
}

impl Message {
    /// Whether the message is acknowledged or a dead letter.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.place, Place::Acknowledged | Place::Dead)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum End {
    Open,
    Done,
    /// Failed: the message becomes visible again after this many ticks.
    Failed(u8),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Stage {
    Idle,
    /// Waiting for the answer that decides whether its first open record may run.
    Asking,
    Running,
    Settling,
    /// Every record has ended, but Lambda has no answer yet.
    Answering,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Worker {
    /// How many ticks the worker's clock is ahead.
    pub(super) skew: i8,
    pub(super) stage: Stage,
    /// Ticks until the invocation's deadline; negative after it.
    pub(super) left: i8,
    /// The records, in order, each with its result.
    pub(super) batch: [Option<(Delivery, End)>; 2],
}

impl Worker {
    pub(super) fn idle(skew: i8) -> Self {
        Self {
            skew,
            stage: Stage::Idle,
            left: 0,
            batch: [None; 2],
        }
    }

    /// The record that the worker is handling: the first open one.
    pub(super) fn current(&self) -> Option<Delivery> {
        let mut records = self.batch.iter().flatten();
        records.find_map(|(delivery, end)| (*end == End::Open).then_some(*delivery))
    }

    /// Whether the worker runs a handler or settles its record.
    pub(super) fn is_at_work(&self) -> bool {
        matches!(self.stage, Stage::Running | Stage::Settling)
    }
}

/// The true history of a key, which no worker can see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Account {
    /// How often the effect happened.
    pub(super) effects: u8,
    /// How often a worker stopped between an effect and its record.
    pub(super) windows: u8,
    /// The deliveries of which no late claim in flight may be written, one bit each: one was written before, or an
    /// operator forgot the key after the worker had abandoned it.
    pub(super) spent: u32,
    /// The deliveries from which an operator took the key, one bit each.
    pub(super) forgotten: u32,
}

impl Account {
    /// Whether an operator took the key from this delivery.
    pub(super) fn has_forgotten(&self, delivery: Delivery) -> bool {
        self.forgotten & delivery.bit() != 0
    }

    /// How often the effect may happen, apart from windows: once, and once more for each delivery that was forgotten.
    pub(super) fn allowed(&self) -> u32 {
        1 + self.forgotten.count_ones()
    }
}

/// Events that must never happen, noted in the step that causes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Seen {
    /// A completion, a release or a renewal changed an item that was another owner's, or forgotten.
    pub(super) stale_write: bool,
    /// A claim that its owner had settled or abandoned was written again, or renewed.
    pub(super) claim_came_back: bool,
    /// A claim was refused by its own copy.
    pub(super) refused_by_itself: bool,
    /// A claim did not raise the fence.
    pub(super) fence_stood: bool,
    /// A handler started for a key that was recorded before the handler's worker asked.
    pub(super) started_after_record: bool,
    /// A message's effect came before the effect of an earlier message of its group.
    pub(super) out_of_order: bool,
}

/// The whole state.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    /// The table: the item of each key.
    pub(super) items: [Option<Item>; KEYS],
    /// The item of each key in the open transaction that locks the key.
    pub(super) open: [Option<Item>; KEYS],
    pub(super) messages: Vec<Message>,
    /// The workers, in canonical order. Their numbers mean nothing.
    pub(super) workers: [Worker; 3],
    /// The requests in flight, sorted.
    pub(super) requests: Vec<Request>,
    /// What happened to each key.
    pub(super) accounts: [Account; KEYS],
    /// The forbidden events so far.
    pub(super) seen: Seen,
    /// The trouble that may still happen.
    pub(super) trouble: Trouble,
}

impl World {
    /// The state before the first delivery.
    pub(super) fn new(config: &Config) -> Self {
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
    pub(super) fn canonicalize(&mut self) {
        self.workers.sort_unstable();
        self.requests.sort_unstable();
        let requests = &self.requests;
        let claims = requests
            .iter()
            .filter(|one| matches!(one.ask, Ask::Claim { .. }));
        let on_their_way = claims.fold(0, |all, one| all | one.owner.bit());
        for account in &mut self.accounts {
            account.spent &= on_their_way;
        }
        // A lease that ended before every time that a claim may compare is simply over: how long ago does not matter.
        let earliest_of = |mut ask: Ask| ask.times().map(|time| *time).min();
        let moments = requests.iter().filter_map(|one| earliest_of(one.ask));
        let earliest = moments.chain(self.workers.iter().map(|one| one.skew)).min();
        let lapsed = earliest.unwrap_or(0) - 1;
        for item in self.items.iter_mut().chain(&mut self.open).flatten() {
            item.lease = item.lease.map(|lease| lease.max(lapsed));
        }
    }

    /// The index of the worker that handles this delivery.
    pub(super) fn worker_at(&self, delivery: Delivery) -> Option<usize> {
        let at = |worker: &Worker| worker.current() == Some(delivery);
        self.workers.iter().position(at)
    }
}

impl Ask {
    /// The times that the request contains.
    pub(super) fn times(&mut self) -> impl Iterator<Item = &mut i8> {
        let times = match self {
            Self::Claim { now, lease, .. } | Self::Begin { now, lease } => [Some(now), Some(lease)],
            Self::Read { now } | Self::Record { now } | Self::Commit { now } => [Some(now), None],
            Self::Renew { lease } => [Some(lease), None],
            Self::Complete | Self::Release | Self::CommitTransaction => [None, None],
        };
        times.into_iter().flatten()
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OPERATOR => f.write_str("the operator"),
            Self { message, receive } => write!(f, "m{message}#{receive}"),
        }
    }
}
