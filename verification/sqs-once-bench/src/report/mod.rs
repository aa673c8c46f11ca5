//! The results and their formats.

mod cost;
mod goals;
mod growth;
mod terminal;

use std::time::{Duration, SystemTime};

use anyhow::Error;
use serde::Serialize;

pub use terminal::text;

use crate::contender::Contender;
use crate::machine;
use crate::measure::{Cell, ColdStart};
use crate::shape::Shape;
use crate::table::LATENCY;
use crate::units::Consumption;

/// The highest load per core at which the machine counts as idle.
const MOST_LOAD: f64 = 0.3;

/// All results, and the machine.
#[derive(Debug, Serialize)]
pub struct Results {
    /// The name of the processors.
    pub machine: String,
    /// The number of processors.
    pub cores: usize,
    /// The time of the measurement, in seconds since the Unix epoch.
    pub at: u64,
    /// The average number of processes that wanted a CPU during the minute before the benchmark.
    pub load_before: Option<f64>,
    /// The same for the last minute of the measurement, including the benchmark itself.
    pub load_after: Option<f64>,
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
    pub skipped: Vec<Skipped>,
    /// Measurements that failed.
    pub failures: Vec<String>,
}

/// A batch that would take too long.
#[derive(Debug, Serialize)]
pub struct Skipped {
    /// The contender.
    pub contender: &'static str,
    /// The batch.
    pub shape: &'static str,
    /// How long the batch would take, in seconds.
    pub expected_s: f64,
}

impl Results {
    /// No results yet, on this machine.
    pub fn new(rounds: usize) -> Self {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        Self {
            machine: machine::processors(),
            cores: machine::cores(),
            at: since_epoch.map_or(0, |duration| duration.as_secs()),
            load_before: None,
            load_after: None,
            request_latency_us: LATENCY.request.as_micros(),
            statement_latency_us: LATENCY.statement.as_micros(),
            rounds,
            cells: Vec::new(),
            cold_starts: Vec::new(),
            consumptions: Vec::new(),
            skipped: Vec::new(),
            failures: Vec::new(),
        }
    }

    pub(crate) fn skip(&mut self, contender: &Contender, shape: &Shape, expected: Duration) {
        self.skipped.push(Skipped {
            contender: contender.name,
            shape: shape.name,
            expected_s: expected.as_secs_f64(),
        });
    }

    pub(crate) fn fail(&mut self, contender: &Contender, shape: &Shape, error: &Error) {
        self.failures
            .push(format!("{}, {}: {error:#}", contender.title, shape.name));
    }

    /// Notes a contender that cannot be run.
    pub fn missing(&mut self, contender: &Contender, error: &Error) {
        let failure = format!("MISSING: {}: {error:#}", contender.title);
        self.failures.push(failure);
    }

    /// Whether the machine had other load, so times are longer than necessary.
    fn is_busy(&self) -> bool {
        self.load_before
            .is_some_and(|load| load > MOST_LOAD * self.cores as f64)
    }

    fn cell(&self, contender: &str, shape: &str) -> Option<&Cell> {
        let mut cells = self.cells.iter();
        cells.find(|cell| cell.contender == contender && cell.shape == shape)
    }

    fn cold_start(&self, contender: &str, share: Option<&str>) -> Option<&ColdStart> {
        let mut all = self.cold_starts.iter();
        all.find(|one| one.contender == contender && one.share == share)
    }

    /// The results of a shape, in the contenders' order, each with its title.
    fn cells_of(&self, shape: &Shape) -> Vec<(&'static str, &Cell)> {
        let contenders = Contender::all().into_iter();
        contenders
            .filter_map(|contender| Some((contender.title, self.cell(contender.name, shape.name)?)))
            .collect()
    }

    /// The ratio of a cell's latency to the latency of `other`.
    fn latency_ratio(&self, cell: &Cell, other: &str) -> Option<f64> {
        let other = self.cell(other, cell.shape)?;
        Some(cell.latency_ms.median / other.latency_ms.median)
    }
}

/// All results as JSON, with the figures derived from them.
pub fn json(results: &Results) -> serde_json::Result<String> {
    #[derive(Serialize)]
    struct All<'a> {
        #[serde(flatten)]
        results: &'a Results,
        is_busy: bool,
        goals: Vec<goals::Goal>,
        growth: Vec<growth::Growth>,
        record_costs: Vec<cost::RecordCost>,
        message_costs: Vec<cost::MessageCost>,
    }
    serde_json::to_string_pretty(&All {
        results,
        is_busy: results.is_busy(),
        goals: goals::goals(results),
        growth: growth::growth(results),
        record_costs: cost::record_costs(results),
        message_costs: cost::message_costs(results),
    })
}

fn title(name: &str) -> &'static str {
    let mut all = Contender::all().into_iter();
    all.find(|one| one.name == name).map_or("", |one| one.title)
}

/// A number with three significant digits, or with all digits before its decimal point.
fn short(number: f64) -> String {
    digits(number, 3)
}

/// A number with this many significant digits, or with all digits before its decimal point.
fn digits(number: f64, count: i32) -> String {
    if number == 0.0 {
        return "0".to_owned();
    }
    let before_point = number.abs().log10().floor() as i32;
    let after_point = (count - 1 - before_point).clamp(0, 9) as usize;
    let text = format!("{number:.after_point$}");
    if number.abs() < 1.0 {
        // Trailing zeros of a small number carry no information: 0.08 requests.
        return text.trim_end_matches('0').trim_end_matches('.').to_owned();
    }
    text
}
