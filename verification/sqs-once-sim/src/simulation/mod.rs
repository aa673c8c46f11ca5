//! The whole consumer in simulated time, with queues, processes, clocks and networks that fail.
//!
//! ```
//! use sqs_once_sim::simulation::{Options, replay, run};
//!
//! let options = Options::default();
//! assert!(run(42, &options).violation.is_none());
//! println!("{}", replay(42, &options)); // the same, with its timeline
//! ```
//!
//! A schedule has one to five messages with one to three keys, and one to three processes at a time. Once in a while it
//! has hundreds of messages. Its seed determines everything: the same seed and options give the same timeline, byte for
//! byte.
//!
//! # The library's part and the simulated part
//!
//! The consumer is the library's, from the event to the answer: records, keys, lanes, claims, handlers, settlements,
//! deadlines, cache, dead letters. It runs on Tokio's paused time. Its surroundings are simulated:
//!
//! - SQS: visibility timeouts, receive counts, redelivery, duplicates of messages that are in flight or deleted, two
//!   messages with one key, message groups, the redrive policy, and redrive out of the dead-letter queue with new
//!   message ids. Some schedules also have SQS's own API, with the SDK's client, for dead letters that the consumer
//!   sends and for messages whose visibility timeout it extends.
//! - Lambda: warm processes that keep their consumer, concurrent invocations in one process, deadlines, kills
//!   up to a second late, crashes at any time, freezes, lost answers and lost deletions.
//! - Clocks: each process has its own, up to 1.9 s off, and it may jump forwards or backwards.
//! - The store at the `Store` trait: it decides by `Claim::admitted_by` and `Settlement::admitted_by`, and writes the
//!   items of `Claim::write` and `Settlement::write`. It commits `Writes`, and opens transactions like a relational
//!   database.
//! - Routes: some schedules have a router of two routes, which may record in different ways. Each key has the text of a key
//!   of the other route, and every property holds for each.
//! - Layers: some schedules have one, which passes records on, and may fail a record before or after its handler.
//! - Decoders: some schedules have one that waits for each payload, and may fail a record before its key is known.
//! - Processes after a timeout: in half of the schedules, each process ends at the timeout, is frozen and thawed later, or
//!   lives on, with the same probability. It may lose its network then. Code that lives on keeps its keys by the engine's own
//!   renewals. The engine's watchdog is a thread of `run`: a simulated one ends the process by the same rule.
//! - Frozen processes: the wall clock runs on. In some freezes the monotonic clock stops, too, at any moment of an
//!   invocation. All processes share Tokio's clock, so the deadline of such a batch is later by the length of the freeze.
//! - An operator, in some schedules at the `Store` trait, who forgets keys with the item of `Change::Forget`: completed and
//!   lapsed ones, and sometimes one in progress.
//! - Fingerprints of several schemes, in some schedules: some messages have one more field, or some processes compare
//!   declared fields. In others, messages with one key have different payloads. An operator drops the dead letters whose
//!   key was completed for another payload.
//! - Batch handlers, in some schedules without routes: one call for all records, which fail one by one or together.
//! - Hooks, in some schedules, which may fail or never end.
//! - Retention that ends, in some schedules, and a table that deletes expired items at any time after that, whatever their
//!   status.
//! - PostgreSQL's rules at the `Store` trait, in all schedules with transactions and in others: a transaction contains the
//!   claims of one record or of a batch, locks their rows, and ends with its connection or at its time limit by the server's
//!   clock. The row that refuses a write is read after it, when it may have changed. Nothing sends a request again below the
//!   consumer. Expired rows stay longer, and those with a live lease or in a transaction stay.
//! - The network between them: every request, the effect's own included, can meet each fault that the report counts.
//!   Unless a fault loses it, a request that was sent is carried out even if its sender dies.
//!
//! In some campaigns ([`Versions`]) some processes claim as the previous version did: one request claims any free key.
//! In others, processes use different ids for the same keys, as during a change of the namespace or of the key secret.
//!
//! The seed chooses the weather: calm, a single fault, or a storm. It always becomes fair in the end, and then every
//! message must finish.
//!
//! # Windows
//!
//! An effect that does not commit with its record may happen again. [`Property::RepeatsInWindows`] allows this if
//! the earlier of the two attempts
//!
//! - was in a process that died before its record was carried out,
//! - was cancelled at the deadline, or by the record's own timeout,
//! - failed because its effect's own request got no answer,
//! - failed for another reason after its effect,
//! - sent its record, and got no answer that it was written, or
//! - was admitted before an operator forgot the key or its record expired, and the later one after that;
//!
//! and, if nothing is claimed ([`Way::RecordAfter`]), if the earlier attempt was still running in another invocation
//! when the later one looked the key up. The simulation judges repeats at the end, when every request has arrived, and
//! counts each of them. In calm weather without trouble there are no repeats.
//!
//! # Not simulated
//!
//! - Unknown statuses and envelopes: other tests cover these.
//! - Deletion of expired items beneath the SDK.
//! - `key forget` beneath the SDK or between versions with different ids.
//! - Late timers in a frozen process. It neither sends nor receives anything, and its handlers stop, but its timers other than
//!   the deadline fire in time; the timers of a real process would all fire when it continues.
//! - The instructions that a process executes between its thaw and its watchdog's look at the clock: the simulated one looks
//!   first.
//! - Conditions of handlers' own `Writes`, and writes that are split: a commit is one instant.
//! - At the `Store` trait: everything beneath it. [`Depth::Sdk`] covers that.
//! - A request of many keys that is split: it is carried out at one instant.

mod campaign;
mod clock;
mod consumer;
mod counts;
mod decoder;
mod handler;
mod hook;
mod ids;
mod lambda;
mod layer;
mod mutant;
mod network;
mod operator;
mod options;
mod plan;
mod process;
mod property;
mod queue;
mod sdk;
mod sdk_mutants;
mod sdk_tables;
mod sqs;
mod store;
mod table;
mod timeline;
mod transaction;
mod watchdog;
mod wire;
mod witness;
mod world;

use std::fmt;

pub use crate::way::Way;
pub use campaign::Campaign;
pub use counts::Counts;
pub use mutant::Mutant;
pub use network::Fault;
pub use options::{Depth, Options, Versions};
pub use property::{Property, Violation};

use world::World;

/// The result of one schedule.
#[derive(Clone, Debug)]
pub struct Told {
    /// The seed of the schedule.
    pub seed: u64,
    /// The counts of its events.
    pub counts: Counts,
    /// The first violation, if any.
    pub violation: Option<Violation>,
    /// The events in order, one per line; empty unless recorded.
    pub timeline: Vec<String>,
}

/// The timeline, followed by the violation.
impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.timeline
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))?;
        match &self.violation {
            Some(violation) => writeln!(f, "seed {}: {violation}", self.seed),
            None => writeln!(f, "seed {}: every property holds", self.seed),
        }
    }
}

/// Runs the schedule of a seed. The same seed and options give the same result in every run.
///
/// # Panics
/// If the Tokio runtime cannot be created.
pub fn run(seed: u64, options: &Options) -> Told {
    tell(seed, options, false)
}

/// Runs the same schedule, and records its timeline.
///
/// # Panics
/// If the Tokio runtime cannot be created.
pub fn replay(seed: u64, options: &Options) -> Told {
    tell(seed, options, true)
}

fn tell(seed: u64, options: &Options, records: bool) -> Told {
    // Without an I/O driver, no outside event can interfere.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("there is no runtime: {error}"));
    // The SDK's jitter comes from this generator, which belongs to this thread alone.
    fastrand::seed(seed);
    runtime.block_on(async {
        let world = World::new(seed, options, records);
        world.run().await;
        let witness = world.witness();
        Told {
            seed,
            counts: witness.counts.clone(),
            violation: witness.violation.clone(),
            timeline: world.network.timeline().lines(),
        }
    })
}
