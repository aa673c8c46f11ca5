//! What a run is to be.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// How the function works.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It claims the key first; its effect is elsewhere, in a ledger.
    ClaimFirst,
    /// The same behind a FIFO queue: a message group's orders are handled in their order.
    Fifo,
    /// Its effect commits with the record of the key.
    Transactional,
    /// It works and then records: what it promises is less.
    RecordAfter,
    /// It records nothing: as if there were no such library.
    Unprotected,
}

const NAMES: [(Way, &str); 5] = [
    (Way::ClaimFirst, "claim-first"),
    (Way::Fifo, "fifo"),
    (Way::Transactional, "transactional"),
    (Way::RecordAfter, "record-after"),
    (Way::Unprotected, "unprotected"),
];

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES.iter().find(|(way, _)| way == self);
        f.write_str(name.map_or("", |(_, name)| name))
    }
}

impl Way {
    /// Whether a key is claimed before its handler runs, so that fences grow and no two handlers have it at once.
    pub(crate) fn claims(self) -> bool {
        matches!(self, Self::ClaimFirst | Self::Fifo)
    }
}

/// A name that is none of a way.
#[derive(Debug, thiserror::Error)]
#[error("there are the ways claim-first, fifo, transactional, record-after and unprotected")]
pub struct NoWay;

impl FromStr for Way {
    type Err = NoWay;

    fn from_str(text: &str) -> Result<Self, NoWay> {
        let way = NAMES.iter().find(|(_, name)| *name == text);
        way.map(|(way, _)| *way).ok_or(NoWay)
    }
}

/// A run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// How the function works.
    pub way: Way,
    /// The executable whose `main` calls [`worker::run`](crate::worker::run) where it finds a Runtime API.
    pub function: PathBuf,
    /// How many messages are sent; every sixth is a copy of an order that is sent anyway.
    pub messages: usize,
    /// How many processes are killed.
    pub kills: usize,
    /// How many execution environments there are.
    pub environments: usize,
    /// How many of a thousand requests of the function go wrong on their way.
    pub faults_in_thousand: usize,
    /// What decides what goes wrong and when, as far as the run decides it.
    pub seed: u64,
    /// How long nothing may happen before the run is given up.
    pub patience: Duration,
}

impl Plan {
    /// The function's timeout, which a process does not survive.
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);
    /// The queue's visibility timeout: longer than a lease, so that a delivery after a kill finds it lapsed.
    pub(crate) const VISIBILITY: Duration = Duration::from_secs(5);
    /// `SQS_ONCE_LEASE_MARGIN`.
    pub(crate) const LEASE_MARGIN: &str = "1s";
    pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;
    pub(crate) const BATCH_SIZE: usize = 10;
    /// One order in so many can't be handled.
    pub(crate) const SPOILT: usize = 100;

    /// How many message groups there are in a FIFO queue.
    const GROUPS: usize = 37;
    /// How many orders of a message group are sent one after the other, so that a batch has several of them.
    const RUN: usize = 5;

    /// An order's message group. In a group the orders are sent by their numbers.
    pub(crate) fn group(order: usize) -> usize {
        order / Self::RUN % Self::GROUPS
    }

    /// The names of the queue and its dead-letter queue.
    pub(crate) fn queues(&self) -> (&'static str, &'static str) {
        match self.way {
            Way::Fifo => ("orders.fifo", "orders-dead-letters.fifo"),
            _ => ("orders", "orders-dead-letters"),
        }
    }

    /// How many orders the messages are.
    pub(crate) fn orders(&self) -> usize {
        self.messages - self.messages / 6
    }
}
