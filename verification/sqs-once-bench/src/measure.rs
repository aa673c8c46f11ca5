//! The measurement. For every shape, all contenders take turns in several rounds, so other load on the machine affects
//! all of them equally.

use std::collections::BTreeMap;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail};
use serde::Serialize;

use crate::contender::{Contender, Program};
use crate::process::{Orders, Process};
use crate::report::Results;
use crate::shape::Shape;
use crate::table::{LATENCY, Latency, Table};

/// The duration of a turn, which has at least one batch and at most [`MOST_BATCHES`].
const TURN: Duration = Duration::from_millis(300);
const MOST_BATCHES: usize = 100;
/// Batches that would take longer than this are skipped.
const LONGEST: Duration = Duration::from_secs(30);

/// A contender's results for a shape.
#[derive(Clone, Debug, Serialize)]
pub struct Cell {
    /// The contender's name.
    pub contender: &'static str,
    /// The shape's name.
    pub shape: &'static str,
    /// The median latency of a turn's batches, in milliseconds.
    pub latency_ms: Spread,
    /// The process's CPU time per record, in microseconds.
    pub cpu_us: Spread,
    /// The process's peak memory, in MB, including the warm-up.
    pub memory_mb: Option<f64>,
    /// Requests per record.
    pub requests: f64,
}

/// A contender's cold starts.
#[derive(Clone, Debug, Serialize)]
pub struct ColdStart {
    /// The contender's name.
    pub contender: &'static str,
    /// The name of the share of a core that the process got; `None` for whole cores.
    pub share: Option<&'static str>,
    /// The time from the process's start to its first answer, in milliseconds.
    pub latency_ms: Spread,
    /// The CPU time of the process until that answer, in milliseconds.
    pub cpu_ms: Option<Spread>,
}

/// The median, minimum and maximum of some values.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Spread {
    /// The median.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl Spread {
    /// Computes the spread of values in any order. `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Some(Self {
            median: *values.get(values.len() / 2)?,
            min: *values.first()?,
            max: *values.last()?,
        })
    }
}

/// Two columns of a table: the median, and the range.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { median, min, max } = self;
        write!(f, "{median:.2} | {min:.2} – {max:.2}")
    }
}

/// Measures these contenders for these shapes. Small shapes should come first: the time of a small batch predicts that
/// of a larger one. Each contender has `rounds` turns for a shape. The failure of a contender is an entry of the results.
/// Calls `say` with the name of the next measurement.
pub fn measure(
    contenders: &[(Contender, Program)],
    shapes: &[Shape],
    rounds: usize,
    say: impl Fn(&str),
) -> Result<Results> {
    let table = Table::start(LATENCY).context("no loopback port can be had")?;
    let mut results = Results::new(rounds);
    for shape in &Shape::cold_starts() {
        say(shape.name);
        cold_starts(contenders, shape, rounds, &table, &mut results);
    }
    // The time per record in the last batch of new keys.
    let mut per_record = BTreeMap::new();
    for shape in shapes {
        say(shape.name);
        table.clear();
        table.set_latency(Latency {
            statement: LATENCY.statement + shape.statement,
            ..LATENCY
        });
        let mut turns = Vec::new();
        for (contender, program) in those(contenders, shape) {
            let expected: Option<Duration> = per_record.get(contender.name).copied();
            let expected = expected.unwrap_or_default() * u32::try_from(shape.records).unwrap_or(1);
            let expected = expected.div_f64(shape.share.map_or(1.0, |share| share.cores));
            if expected > LONGEST {
                results.skip(contender, shape, expected);
                continue;
            }
            match Turns::start(contender, program, shape, &table.endpoint()) {
                Ok(started) => turns.push(started),
                Err(error) => results.fail(contender, shape, &error),
            }
        }
        for _ in 0..rounds {
            turns.iter_mut().for_each(|turn| turn.take(&table));
        }
        for turn in turns {
            let contender = turn.contender;
            match turn.end(&table) {
                Ok(cell) => {
                    if shape.has_only_new_keys() {
                        let whole = Duration::from_secs_f64(cell.latency_ms.median / 1000.0);
                        per_record.insert(cell.contender, whole / shape.records as u32);
                    }
                    results.cells.push(cell);
                }
                Err(error) => results.fail(contender, shape, &error),
            }
        }
    }
    Ok(results)
}

/// The contenders that are measured for a shape.
fn those<'a>(
    contenders: &'a [(Contender, Program)],
    shape: &'a Shape,
) -> impl Iterator<Item = &'a (Contender, Program)> {
    let those = contenders.iter();
    those.filter(|(contender, _)| shape.is_for(contender))
}

/// Measures the time from the start of the process to its first answer.
fn cold_starts(
    contenders: &[(Contender, Program)],
    shape: &Shape,
    rounds: usize,
    table: &Table,
    results: &mut Results,
) {
    let mut orders = Orders::default();
    let mut times: BTreeMap<_, (Vec<f64>, Vec<f64>)> = BTreeMap::new();
    for _ in 0..rounds {
        for (contender, program) in those(contenders, shape) {
            let (event, _) = orders.event(&[], shape.records);
            let started = Process::start(contender, program, shape, &table.endpoint());
            match started.and_then(|mut process| process.first_answer(&event)) {
                Ok((took, cpu)) => {
                    let (times, cpus) = times.entry(contender.name).or_default();
                    times.push(millis(took));
                    cpus.extend(cpu.map(millis));
                }
                Err(error) => results.fail(contender, shape, &error),
            }
        }
    }
    results
        .cold_starts
        .extend(times.into_iter().filter_map(|(contender, (times, cpus))| {
            Some(ColdStart {
                contender,
                share: shape.share.map(|share| share.name),
                latency_ms: Spread::of(times)?,
                cpu_ms: Spread::of(cpus),
            })
        }));
}

/// A contender's turns for a shape.
struct Turns<'a> {
    contender: &'a Contender,
    shape: &'a Shape,
    process: Process,
    orders: Orders,
    /// Orders that it has completed, which are sent again as duplicates.
    known: Vec<u64>,
    batches: usize,
    latencies: Vec<f64>,
    cpu: Vec<f64>,
    measured: usize,
    requests: u64,
    failure: Option<Error>,
}

impl<'a> Turns<'a> {
    fn start(
        contender: &'a Contender,
        program: &Program,
        shape: &'a Shape,
        endpoint: &str,
    ) -> Result<Self> {
        let mut process = Process::start(contender, program, shape, endpoint)?;
        let mut orders = Orders::default();
        let mut known = Vec::new();
        if shape.duplicates > 0 {
            let (event, completed) = orders.event(&[], shape.duplicates);
            process.invoke(&event)?;
            known = completed;
        }
        let begun = Instant::now();
        let last = loop {
            let latency = process.invoke(&orders.event(&known, shape.fresh()).0)?;
            if begun.elapsed() > contender.warm_up() {
                break latency;
            }
        };
        let fit = TURN.as_nanos() / last.as_nanos().max(1);
        Ok(Self {
            contender,
            shape,
            process,
            orders,
            known,
            batches: usize::try_from(fit)
                .unwrap_or(MOST_BATCHES)
                .clamp(1, MOST_BATCHES),
            latencies: Vec::new(),
            cpu: Vec::new(),
            measured: 0,
            requests: 0,
            failure: None,
        })
    }

    fn take(&mut self, table: &Table) {
        if self.failure.is_none() {
            self.failure = self.try_take(table).err();
        }
    }

    fn try_take(&mut self, table: &Table) -> Result<()> {
        self.process.wait_until_idle()?;
        let (counts, cpu) = (table.counts(), self.process.cpu());
        let mut latencies = Vec::with_capacity(self.batches);
        for batch in 0..self.batches {
            self.rest(batch);
            let (event, _) = self.orders.event(&self.known, self.shape.fresh());
            latencies.push(millis(self.process.invoke(&event)?));
        }
        self.process.wait_until_idle()?;
        let used = self
            .process
            .cpu()
            .zip(cpu)
            .map(|(after, before)| after - before);
        let records = self.batches * self.shape.records;
        self.cpu
            .extend(used.map(|used| used.as_secs_f64() * 1e6 / records as f64));
        self.latencies
            .extend(Spread::of(latencies).map(|spread| spread.median));
        self.measured += self.batches;
        self.requests += table.counts().since(&counts).total();
        Ok(())
    }

    /// Lets a process on a share of a core rest before a batch, as between two events of a queue that is not full.
    /// Otherwise its latency would only be its CPU time divided by its share. The pauses differ, so that batches begin at
    /// every point of a period of the quota.
    fn rest(&self, batch: usize) {
        if self.shape.share.is_some() {
            thread::sleep(Duration::from_millis(20 + (7 * batch as u64) % 20));
        }
    }

    fn end(self, table: &Table) -> Result<Cell> {
        if let Some(failure) = self.failure {
            return Err(failure);
        }
        let (sent, completed) = (self.orders.sent(), table.completed(&self.contender.table()));
        let (latency_ms, cpu_us) = match (Spread::of(self.latencies), Spread::of(self.cpu)) {
            (Some(latency), Some(cpu)) if sent == completed => (latency, cpu),
            _ => bail!(
                "{} completed {completed} orders of {sent}: it does not do what the others do",
                self.contender.name
            ),
        };
        let records = (self.measured * self.shape.records) as f64;
        Ok(Cell {
            contender: self.contender.name,
            shape: self.shape.name,
            latency_ms,
            cpu_us,
            memory_mb: self.process.peak_memory().map(|bytes| bytes as f64 / 1e6),
            requests: self.requests as f64 / records,
        })
    }
}

fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1000.0
}
