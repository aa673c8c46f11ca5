//! A state of the model: the table, the queue, the workers, and the requests in flight.
//!
//! All times are in ticks from now, so states that differ only in age are equal.

use std::fmt;

use super::config::{Config, Trouble};
use super::fence::{First, Mark, Young};
use super::request::{Ask, Request};
use super::version::Version;

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

    /// The owner of an item of another library.
    pub(super) const FOREIGN: Self = Self {
        message: 1,
        receive: 0,
    };

    /// The owner of this delivery's claim under the other id. A message has four deliveries at most.
    pub(super) fn taker(self) -> Self {
        Self {
            receive: self.receive + 4,
            ..self
        }
    }

    /// Whether it is one, and not an operator, another library, or the owner of a claim that was released at once.
    pub(super) fn is_real(self) -> bool {
        (1..=4).contains(&self.receive)
    }

    /// A bit that is unique among all deliveries of a model, and the owners of their claims.
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
    /// [`Mark::FIXED`] in a model without ages.
    pub(super) fence: Option<Mark>,
    /// Set if the key may be older than its fence tells. No worker sees this.
    pub(super) young: Option<Young>,
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
    /// Its token is too old: the message is a dead letter.
    Terminal,
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

/// What distinguishes idle workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Role {
    /// How many ticks the worker's clock is ahead.
    pub(super) skew: i8,
    pub(super) version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Worker {
    pub(super) role: Role,
    pub(super) stage: Stage,
    /// Ticks until the invocation's deadline; negative after it.
    pub(super) left: i8,
    /// The records, in order, each with its result.
    pub(super) batch: [Option<(Delivery, End)>; 2],
}

impl Worker {
    pub(super) fn idle(role: Role) -> Self {
        Self {
            role,
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
    /// When a handler ran first, since an operator forgot the key.
    pub(super) first: First,
    /// Since when no attempt counts as older, because an operator forgot all items of the key.
    pub(super) anew: Option<i8>,
    /// The deliveries whose workers had asked when the key was forgotten, one bit each.
    pub(super) meanwhile: u32,
    /// The largest fence that a handler received.
    pub(super) given: Option<Mark>,
    /// The last delivery whose handler started, if keys have two ids.
    pub(super) holder: Option<Delivery>,
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
    /// A claim did not raise the fence, or a handler did not receive a larger one than the last.
    pub(super) fence_stood: bool,
    /// A handler ran with a token that was too old, or a worker made its key younger than it is.
    pub(super) old_token: bool,
    /// After an operator forgot a key, an attempt counted as older than that.
    pub(super) kept_age: bool,
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
    pub(super) workers: Vec<Worker>,
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
        let foreign = Item {
            completed: false,
            lease: Some(0),
            owner: Delivery::FOREIGN,
            fence: None,
            young: None,
        };
        let roles = config.skews.iter().zip(&config.versions);
        let workers = roles.map(|(&skew, &version)| Worker::idle(Role { skew, version }));
        let mut world = Self {
            items: [None; KEYS],
            open: [None; KEYS],
            messages: vec![message; config.keys.len()],
            workers: workers.collect(),
            requests: Vec::new(),
            accounts: [Account::default(); KEYS],
            seen: Seen::default(),
            trouble: config.trouble,
        };
        if config.is_of_unknown_age {
            world.items[0] = Some(foreign);
            world.accounts[0].first = First::Unknown;
        }
        world.canonicalize();
        world
    }

    /// Maps states that no worker can distinguish to one form.
    pub(super) fn canonicalize(&mut self) {
        self.workers.sort_unstable();
        self.requests.sort_unstable();
        let requests = &self.requests;
        let claimants = requests.iter().filter_map(Request::claimant);
        let on_their_way = claimants.fold(0, |all, one| all | one.bit());
        let workers = || self.workers.iter();
        let asking = workers().filter(|one| one.stage == Stage::Asking);
        let asking = asking.filter_map(Worker::current);
        let asking = asking.fold(0, |all, one| all | one.bit());
        for account in &mut self.accounts {
            account.spent &= on_their_way;
            account.meanwhile &= asking;
        }
        // A lease that ended before every time that a claim may compare is simply over: how long ago does not matter.
        let earliest_of = |mut ask: Ask| ask.times().map(|time| *time).min();
        let moments = requests.iter().filter_map(|one| earliest_of(one.ask));
        let earliest = moments.chain(workers().map(|one| one.role.skew)).min();
        // A lease that is carried over may have lapsed. It is compared with the claim's.
        let carried = workers().filter(|one| one.role.version.also_reads);
        let carried = carried.map(|one| one.role.skew + one.left).min();
        let lapsed = earliest.unwrap_or(0).min(carried.unwrap_or(0)) - 1;
        for item in self.items.iter_mut().chain(&mut self.open).flatten() {
            item.lease = item.lease.map(|lease| lease.max(lapsed));
        }
    }

    /// A tick passes for fences and ages.
    pub(super) fn grow_older(&mut self) {
        for item in self.items.iter_mut().flatten() {
            item.fence.iter_mut().for_each(Mark::pass_tick);
            if let Some(young) = &mut item.young {
                young.since -= 1;
            }
        }
        for request in &mut self.requests {
            request.ask.marks().for_each(Mark::pass_tick);
        }
        for account in &mut self.accounts {
            account.anew = account.anew.map(|anew| anew - 1);
            account.given.iter_mut().for_each(Mark::pass_tick);
            if let First::At(first) = &mut account.first {
                *first -= 1;
            }
        }
    }

    /// The index of the worker that handles this delivery.
    pub(super) fn worker_at(&self, delivery: Delivery) -> Option<usize> {
        let at = |worker: &Worker| worker.current() == Some(delivery);
        self.workers.iter().position(at)
    }
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "to a clock ahead by {}", self.skew)?;
        match (self.version.own, self.version.also_reads) {
            (0, false) => Ok(()),
            (own, false) => write!(f, ", which claims k{own}"),
            (own, true) => write!(f, ", which claims k{own} and also reads k{}", 1 - own),
        }
    }
}

impl fmt::Display for Delivery {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::OPERATOR => f.write_str("the operator"),
            Self::FOREIGN => f.write_str("another library"),
            Self { message, receive } if !self.is_real() => {
                write!(f, "m{message}#{}, over the other id", receive - 4)
            }
            Self { message, receive } => write!(f, "m{message}#{receive}"),
        }
    }
}
