//! Runs many schedules on several threads.

use std::fmt;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use super::{Counts, Options, Told, replay, run};

/// How many seeds a thread takes at a time.
const SLICE: u64 = 64;

/// The result of many schedules.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The seeds to run.
    pub seeds: Range<u64>,
    /// The options of the simulation.
    pub options: Options,
    /// The events and faults of all schedules.
    pub counts: Counts,
    /// The schedule with the smallest seed that violates a property, with its timeline.
    pub failure: Option<Told>,
    /// The duration of the campaign.
    pub took: Duration,
}

impl Campaign {
    /// Runs the schedules of these seeds until one violates a property.
    ///
    /// # Panics
    /// If a second run of a seed does not show the same violation: a seed must reproduce its schedule.
    pub fn run(seeds: Range<u64>, options: Options, threads: usize) -> Self {
        let begun = Instant::now();
        let next = AtomicU64::new(seeds.start);
        let failed = AtomicBool::new(false);
        let work = || {
            let (mut counts, mut failure) = (Counts::default(), None::<u64>);
            while !failed.load(Ordering::Relaxed) {
                let first = next.fetch_add(SLICE, Ordering::Relaxed);
                let slice = first..(first + SLICE).min(seeds.end);
                if slice.is_empty() {
                    break;
                }
                for seed in slice {
                    let told = run(seed, &options);
                    counts += &told.counts;
                    if told.violation.is_some() {
                        failure.get_or_insert(seed);
                        failed.store(true, Ordering::Relaxed);
                    }
                }
            }
            (counts, failure)
        };
        let parts: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
            threads
                .into_iter()
                .map(thread::ScopedJoinHandle::join)
                .collect()
        });
        let (mut counts, mut first) = (Counts::default(), None::<u64>);
        for part in parts {
            // A panic of the simulation itself is not a violation.
            let (more, failure) = part.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            counts += &more;
            first = first.into_iter().chain(failure).min();
        }
        Self {
            seeds,
            options,
            counts,
            failure: first.map(|seed| {
                let told = replay(seed, &options);
                assert!(
                    told.violation.is_some(),
                    "seed {seed} is not the same again"
                );
                told
            }),
            took: begun.elapsed(),
        }
    }
}

/// A Markdown report, with the timeline of the failed schedule.
impl fmt::Display for Campaign {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seeds, options, counts) = (&self.seeds, &self.options, &self.counts);
        let rate = counts.schedules() as f64 / self.took.as_secs_f64();
        writeln!(f, "Seeds {} to {}, {options:?}", seeds.start, seeds.end - 1)?;
        writeln!(
            f,
            "{} schedules in {:.0?}, {rate:.0} a second\n",
            counts.schedules(),
            self.took
        )?;
        writeln!(f, "{counts}")?;
        match &self.failure {
            Some(told) => write!(f, "{told}"),
            None => writeln!(f, "No property was violated."),
        }
    }
}
