//! The whole consumer in simulated time, among queues, processes, clocks and networks that fail it.
//!
//! ```
//! use sqs_once_sim::simulation::{Options, replay, run};
//!
//! let options = Options::default();
//! assert!(run(42, &options).violation.is_none());
//! println!("{}", replay(42, &options)); // the same, with its timeline
//! ```
//!
//! A schedule is one to five messages about one to three keys, in one to three processes at a time; once in a while it
//! is a crowd of hundreds. Everything in it follows from its seed: with the same seed and options the timeline is the
//! same, byte for byte.
//!
//! # What is the library's, and what is simulated
//!
//! The consumer is the library's, from the event to the answer: records, keys, lanes, claims, handlers, settlements,
//! deadlines, cache, dead letters. It runs on Tokio's paused time. Simulated is what is around it:
//!
//! - SQS: visibility timeouts, receive counts, redelivery, duplicates of what is out and of what is deleted, two
//!   messages with one key, message groups, the redrive policy, redrive out of the dead-letter queue with new message
//!   ids; in some schedules SQS's own API, with the SDK's client, for dead letters that the consumer sends and for
//!   messages that it keeps away.
//! - Lambda: processes that are warm and keep their consumer, invocations side by side in one process, deadlines, kills
//!   up to a second late, crashes at any time, freezes, answers and deletions that are lost.
//! - Clocks: each process's own, up to 1.9 s off, set forward and back.
//! - The store at the `Store` trait: it decides by `Claim::admitted_by` and `Settlement::admitted_by`, and writes what
//!   `Claim::write` and `Settlement::write` give. It commits `Writes`, and opens transactions as a relational database.
//! - The network between them: every request, the effect's own included, can meet each fault that the report counts,
//!   and what was sent is carried out whatever becomes of the one who sent it.
//!
//! In some campaigns ([`Versions`]) a part of the processes claims as the version before did, in one request for whatever
//! is free.
//!
//! The weather is calm, has a single fault, or is a storm, by seed; in the end it is fair, and every message has to be
//! done then.
//!
//! # Windows
//!
//! An effect that does not commit with its record may happen again. [`Property::RepeatsInWindows`] allows for that where
//! the earlier of the two attempts
//!
//! - was in a process that died before its record was carried out,
//! - was cancelled at the deadline, or by the record's own timeout,
//! - did not hear whether its effect's own request was carried out, and failed,
//! - failed of its own accord after its effect, or
//! - sent its record, and did not hear that it was written;
//!
//! and, where nothing is claimed ([`Way::RecordAfter`]), where it was still under way in another invocation when the later
//! one looked the key up. It is judged at the end, when all has arrived. Each is counted. In calm weather without trouble
//! there is none.
//!
//! # What is not simulated
//!
//! - Retention that ends, items that the table deletes, fingerprints that differ, unknown statuses, envelopes, hooks,
//!   batch handlers: other tests have these.
//! - A process that is frozen neither sends nor hears anything, and its handlers don't move; its timers go off in time,
//!   where a real one's would all go off as it goes on.
//! - Conditions of handlers' own `Writes`, and writes that come apart: a commit is one instant.
//! - At the `Store` trait: anything beneath it. That is what [`Depth::Sdk`] is for.
//! - A request of many keys that comes apart: it is carried out at one instant.

mod campaign;
mod clock;
mod counts;
mod handler;
mod lambda;
mod mutant;
mod network;
mod options;
mod plan;
mod process;
mod property;
mod queue;
mod sdk;
mod sdk_items;
mod sdk_mutants;
mod sqs;
mod store;
mod table;
mod timeline;
mod transaction;
mod witness;
mod world;

use std::fmt;

pub use campaign::Campaign;
pub use counts::Counts;
pub use mutant::Mutant;
pub use options::{Depth, Options, Versions, Way};
pub use property::{Property, Violation};

use world::World;

/// What one schedule came to.
#[derive(Clone, Debug)]
pub struct Told {
    /// Which seed it was made of.
    pub seed: u64,
    /// What happened, and how often.
    pub counts: Counts,
    /// The first property that did not hold.
    pub violation: Option<Violation>,
    /// What happened when, line by line; empty unless asked for.
    pub timeline: Vec<String>,
}

/// The timeline, and the violation that it ends with.
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

/// Runs the schedule of a seed: with the same options it is the same in every run.
///
/// # Panics
/// If there is no memory for a runtime.
pub fn run(seed: u64, options: &Options) -> Told {
    tell(seed, options, false)
}

/// The same with its timeline.
///
/// # Panics
/// If there is no memory for a runtime.
pub fn replay(seed: u64, options: &Options) -> Told {
    tell(seed, options, true)
}

fn tell(seed: u64, options: &Options, records: bool) -> Told {
    // Without a driver for I/O: nothing of the world outside comes in.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .unwrap_or_else(|error| panic!("there is no runtime: {error}"));
    // The SDK's jitter comes from it: it is this thread's alone.
    fastrand::seed(seed);
    runtime.block_on(async {
        let world = World::new(seed, options, records);
        world.run().await;
        let witness = world.witness();
        Told {
            seed,
            counts: witness.counts.clone(),
            violation: witness.violation().cloned(),
            timeline: world.network.timeline().lines(),
        }
    })
}
