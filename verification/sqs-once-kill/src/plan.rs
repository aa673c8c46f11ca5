//! The plan of a run.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};

/// How the function works.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Way {
    /// Claims the key first. Its effect goes to another service, the ledger.
    #[default]
    ClaimFirst,
    /// Like `ClaimFirst`, behind a FIFO queue: the orders of a message group are handled in order.
    Fifo,
    /// Commits its effect with the completion of the key.
    Transactional,
    /// Records nothing, as if the library were missing.
    Unprotected,
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

impl Way {
    /// Whether a key is claimed before its handler runs, so that fences grow and at most one handler runs for it.
    pub(crate) fn claims(self) -> bool {
        matches!(self, Self::ClaimFirst | Self::Fifo)
    }
}

/// The name of a value on the command line or in the report.
pub(crate) fn name(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A run of the kill test.
#[derive(Args, Clone, Debug, Default)]
pub struct Plan {
    /// How the function works.
    #[arg(skip)]
    pub way: Way,
    /// The executable whose `main` calls [`worker::run`](crate::worker::run) if it finds a Runtime API.
    #[arg(skip)]
    pub function: PathBuf,
    /// The total number of messages; every sixth is a copy.
    #[arg(long, default_value_t = 100_000)]
    pub messages: usize,
    /// The total number of kills.
    #[arg(long, default_value_t = 1000)]
    pub kills: usize,
    /// The total number of freezes: SIGSTOP, and SIGCONT later.
    #[arg(long, default_value_t = 300)]
    pub freezes: usize,
    /// Of 1,000 orders, how many have code that can't be cancelled and outlives its invocation. The next attempt waits until
    /// a renewed lease has lapsed. Without effect for `transactional`.
    #[arg(long = "outliving", default_value_t = 5)]
    pub outliving_in_thousand: usize,
    /// The number of execution environments.
    #[arg(long, default_value_t = 6)]
    pub environments: usize,
    /// Of 1,000 requests to DynamoDB and SQS, how many fail.
    #[arg(long = "faults", default_value_t = 20)]
    pub faults_in_thousand: usize,
    /// The seed that determines the messages, the faults and the kills.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl Plan {
    /// How long the run may make no progress before it is aborted.
    pub(crate) const PATIENCE: Duration = Duration::from_secs(120);
    pub(crate) const TIMEOUT: Duration = Duration::from_secs(3);
    /// The queue's visibility timeout: longer than a lease, so the lease has lapsed when a message is redelivered after
    /// a kill.
    pub(crate) const VISIBILITY: Duration = Duration::from_secs(5);
    /// `SQS_ONCE_LEASE_MARGIN`.
    pub(crate) const LEASE_MARGIN: &str = "1s";
    pub(crate) const MAX_RECEIVE_COUNT: u32 = 5;
    pub(crate) const BATCH_SIZE: usize = 10;
    /// One order in this many cannot be handled. An odd number, so that each route has such orders.
    pub(crate) const SPOILT: usize = 99;

    const GROUPS: usize = 37;
    /// How many orders of a message group are sent in a row, so that a batch has several of them.
    const RUN: usize = 5;

    /// An order's message group. The orders of a group are sent in the order of their numbers.
    pub(crate) fn group(order: usize) -> usize {
        order / Self::RUN % Self::GROUPS
    }

    /// The names of the queue and of its dead-letter queue.
    pub(crate) fn queues(&self) -> (&'static str, &'static str) {
        match self.way {
            Way::Fifo => ("orders.fifo", "orders-dead-letters.fifo"),
            _ => ("orders", "orders-dead-letters"),
        }
    }

    pub(crate) fn orders(&self) -> usize {
        self.messages - self.messages / 6
    }
}
