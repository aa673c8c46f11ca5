//! The whole consumer in simulated time, among queues, processes, clocks and networks that fail it.

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
mod witness;
mod world;

use std::fmt;

pub use campaign::Campaign;
pub use counts::Counts;
pub use mutant::Mutant;
pub use options::{Depth, Options, Way};
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
