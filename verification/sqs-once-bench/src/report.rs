//! The results: Markdown and JSON.

use std::fmt::{self, Display, Formatter};
use std::time::Duration;

use anyhow::Error;
use serde::Serialize;

use crate::contender::Contender;
use crate::machine;
use crate::measure::{Cell, ColdStart};
use crate::shape::Shape;
use crate::table::LATENCY;
use crate::units::Consumption;

/// All results, and the machine.
#[derive(Debug, Default, Serialize)]
pub struct Results {
    /// The name of the processors.
    pub machine: String,
    /// The number of processors.
    pub cores: usize,
    /// The average number of processes that wanted a CPU during the minute before the benchmark.
    pub load_before: Option<f64>,
    /// The stand-in's latency for each request, in microseconds.
    pub request_latency_us: u128,
    /// Its latency for each statement, in microseconds.
    pub statement_latency_us: u128,
    /// How many turns each contender had.
    pub rounds: usize,
    /// The results.
    pub cells: Vec<Cell>,
    /// Cold starts: from a process's start to its first answer, for 10 new keys.
    pub cold_starts: Vec<ColdStart>,
    /// What each kind of record consumes with sqs-once.
    pub consumptions: Vec<Consumption>,
    /// Measurements that were skipped because they would take too long.
    pub skipped: Vec<String>,
    /// Measurements that failed.
    pub failures: Vec<String>,
}

impl Results {
    /// No results yet, on this machine.
    pub fn new(rounds: usize) -> Self {
        Self {
            machine: machine::processors(),
            cores: machine::cores(),
            request_latency_us: LATENCY.request.as_micros(),
            statement_latency_us: LATENCY.statement.as_micros(),
            rounds,
            ..Self::default()
        }
    }

    pub(crate) fn skip(&mut self, contender: &Contender, shape: &Shape, expected: Duration) {
        let (contender, shape) = (contender.title, shape.name);
        self.skipped
            .push(format!("{contender}, {shape}: {expected:.0?} a batch"));
    }

    pub(crate) fn fail(&mut self, contender: &Contender, shape: &Shape, error: &Error) {
        self.failures
            .push(format!("{}, {}: {error:#}", contender.title, shape.name));
    }
}

/// A table in Markdown, followed by what was skipped or failed.
impl Display for Results {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let load = self.load_before.unwrap_or(f64::NAN);
        writeln!(f, "{}; load before {load:.2}\n", self.machine)?;
        writeln!(
            f,
            "| batch | contender | p50, ms | range | CPU, µs a message | requests a message | MB |"
        )?;
        writeln!(f, "|---|---|---:|---|---:|---:|---:|")?;
        for cell in &self.cells {
            writeln!(
                f,
                "| {} | {} | {} | {:.1} | {:.2} | {:.1} |",
                cell.shape,
                cell.contender,
                cell.latency_ms,
                cell.cpu_us.median,
                cell.requests,
                cell.memory_mb.unwrap_or(f64::NAN),
            )?;
        }
        writeln!(f, "\n| cold start | contender | ms | range |")?;
        writeln!(f, "|---|---|---:|---|")?;
        for start in &self.cold_starts {
            let share = start.share.unwrap_or("whole cores");
            writeln!(
                f,
                "| {share} | {} | {} |",
                start.contender, start.latency_ms
            )?;
        }
        writeln!(f)?;
        let mut skipped = self.skipped.iter();
        skipped.try_for_each(|skipped| writeln!(f, "left out: {skipped}"))?;
        let mut failures = self.failures.iter();
        failures.try_for_each(|failure| writeln!(f, "{failure}"))
    }
}
