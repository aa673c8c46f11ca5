//! Counts the instructions of a record and of a cold start with callgrind, and compares them with the counts in
//! `instructions.json`. Unlike times, counts hardly depend on the machine and its load.
//!
//! The counted binary is the deployed one: the example function `orders`, built by `cargo lambda build --release`.
//! Without a payments service, its handler only writes a log line. The environment is like Lambda's: JSON logs at level
//! INFO, and metrics.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};

use crate::contender::{self, Contender, Program};
use crate::process::{Orders, Process};
use crate::shape::Shape;
use crate::table::{LATENCY, Table};

/// By how many percent a record's count may exceed the recorded one. On an idle machine, repeated counts of one binary
/// differ by less than 1 percent.
const TOLERANCE: u64 = 2;

/// The same for a cold start. A machine that stalls makes it open more connections.
const TOLERANCE_OF_COLD_START: u64 = 11;

/// How often a count that exceeds the recorded one is taken. The smallest counts.
const ATTEMPTS: usize = 6;

/// A root certificate, and how many copies of it the function reads: about as many roots as Lambda's Linux has. Parsing
/// them is a large part of a cold start, and the machine's own roots change with its packages.
const ROOT: &str = include_str!("root.pem");
const ROOTS: usize = 140;

/// The command that records counts.
const RECORD: &str = "`cargo run -p sqs-once-bench -- --instructions --record`";

/// A count: its name, the kind of its records and their number in a batch, the number of batches before the counted ones,
/// which open connections and grow buffers, and the number of counted ones.
type Case = (&'static str, Kind, usize, usize, usize);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// From the start of the process to its end, with one batch.
    ColdStart,
    New,
    Duplicate,
    Failing,
}

const CASES: [Case; 6] = [
    ("cold start with 10 new keys", Kind::ColdStart, 10, 0, 1),
    ("record, 10 new keys in a batch", Kind::New, 10, 3, 40),
    ("record, 100 new keys in a batch", Kind::New, 100, 2, 10),
    ("record, 1000 new keys in a batch", Kind::New, 1000, 1, 4),
    (
        "record, 100 duplicates in a batch",
        Kind::Duplicate,
        100,
        2,
        10,
    ),
    (
        "record, 100 that fail in a batch",
        Kind::Failing,
        100,
        2,
        10,
    ),
];

#[derive(Debug, Serialize, Deserialize)]
struct Recorded {
    note: String,
    /// The tools that the counts depend on, from [`tools`].
    counted_with: String,
    instructions: BTreeMap<String, u64>,
}

/// Counts and compares with the recorded counts. Returns one line per count, and whether all counts hold.
pub fn check() -> Result<(Vec<String>, bool)> {
    let not_checked = |why| Ok((vec![format!("NOT CHECKED: {why}")], true));
    let tools = match valgrind() {
        Ok(valgrind) => tools(&valgrind)?,
        Err(error) => return not_checked(format!("valgrind is not installed: {error:#}")),
    };
    let recorded: Recorded =
        serde_json::from_slice(&fs::read(file())?).context("the recorded counts can't be read")?;
    if recorded.counted_with != tools {
        let counted_with = recorded.counted_with;
        return not_checked(format!("counted with {counted_with}, this is {tools}"));
    }
    let counter = Counter::new()?;
    let mut lines = Vec::new();
    let mut all_hold = true;
    for case in CASES {
        let recorded = recorded.instructions.get(case.0).copied();
        let mut count = counter.count(case)?;
        // A machine that stalls raises a count, by up to 5 percent: entries that would share a request miss each other.
        for _ in 1..ATTEMPTS {
            if !exceeds(case.1, count, recorded) {
                break;
            }
            count = count.min(counter.count(case)?);
        }
        all_hold &= !exceeds(case.1, count, recorded);
        lines.push(verdict(case, count, recorded));
    }
    if !all_hold {
        lines.push(format!(
            "Make it cheaper. If it is worth its cost, record the counts by {RECORD}, in a commit of its own that gives the reason."
        ));
    }
    Ok((lines, all_hold))
}

/// Counts and records the counts. Returns one line per count.
pub fn record() -> Result<Vec<String>> {
    let counted_with = tools(&valgrind().context("valgrind is not installed")?)?;
    let counter = Counter::new()?;
    let mut instructions = BTreeMap::new();
    for case in CASES {
        instructions.insert(case.0.to_owned(), counter.count(case)?);
    }
    let lines = instructions.iter();
    let lines = lines.map(|(name, count)| format!("{name}: {count} instructions"));
    let lines = lines.collect();
    let recorded = Recorded {
        note: format!(
            "Written by {RECORD}. A count that rises needs a commit of its own that gives the reason."
        ),
        counted_with,
        instructions,
    };
    let json = serde_json::to_string_pretty(&recorded)?;
    fs::write(file(), json + "\n")?;
    Ok(lines)
}

fn tolerance(kind: Kind) -> u64 {
    match kind {
        Kind::ColdStart => TOLERANCE_OF_COLD_START,
        Kind::New | Kind::Duplicate | Kind::Failing => TOLERANCE,
    }
}

fn exceeds(kind: Kind, count: u64, recorded: Option<u64>) -> bool {
    recorded.is_none_or(|recorded| count * 100 > recorded * (100 + tolerance(kind)))
}

fn verdict((name, kind, ..): Case, count: u64, recorded: Option<u64>) -> String {
    let Some(old) = recorded else {
        return format!("BROKEN {name}: {count} instructions, nothing is recorded");
    };
    let percent = (count as f64 / old as f64 - 1.0) * 100.0;
    let line = format!("{name}: {count} instructions, recorded {old} ({percent:+.1} %)");
    if exceeds(kind, count, recorded) {
        format!("BROKEN {line}")
    } else if count * 100 < old * (100 - tolerance(kind)) {
        format!("holds  {line}; record that it fell: {RECORD}")
    } else {
        format!("holds  {line}")
    }
}

fn file() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("instructions.json")
}

fn said(command: &str, argument: &str) -> Result<String> {
    let said = contender::run(Command::new(command).arg(argument))?;
    Ok(said.trim().to_owned())
}

/// Valgrind's version. In CI, root installs it first.
fn valgrind() -> Result<String> {
    said("valgrind", "--version").or_else(|error| {
        if env::var("CI").is_ok_and(|ci| ci == "true") && said("id", "-u")? == "0" {
            contender::run(Command::new("apt-get").arg("update"))?;
            contender::run(Command::new("apt-get").args(["install", "--yes", "valgrind"]))?;
            return said("valgrind", "--version");
        }
        Err(error)
    })
}

/// The tools that the counts depend on.
fn tools(valgrind: &str) -> Result<String> {
    let (rustc, libc) = (said("rustc", "-V")?, said("getconf", "GNU_LIBC_VERSION")?);
    let arch = env::consts::ARCH;
    Ok(format!("{rustc}, {arch}, {valgrind}, {libc}"))
}

struct Counter {
    program: Program,
    contender: Contender,
    table: Table,
    output: PathBuf,
}

impl Counter {
    fn new() -> Result<Self> {
        let workspace = contender::workspace()?;
        let lambda = workspace.join("lambda");
        let mut cargo = contender::cargo();
        cargo.args(["lambda", "build", "--release", "--package", "orders"]);
        cargo.arg("--lambda-dir").arg(&lambda);
        contender::run(cargo.current_dir(contender::repository()))?;
        let roots = workspace.join("roots.pem");
        fs::write(&roots, ROOT.repeat(ROOTS))?;
        let roots = format!("SSL_CERT_FILE={}", roots.display());
        let output = workspace.join("callgrind.out");
        let to = format!("--callgrind-out-file={}", output.display());
        let mut args: Vec<PathBuf> = [
            "AWS_LAMBDA_LOG_LEVEL=INFO",
            &roots,
            // Several worker threads would share the work in a way that depends on time.
            "TOKIO_WORKER_THREADS=1",
            "valgrind",
            "--quiet",
            "--tool=callgrind",
            "--cache-sim=no",
            "--branch-sim=no",
            &to,
        ]
        .map(PathBuf::from)
        .into();
        args.push(lambda.join("orders/bootstrap"));
        Ok(Self {
            program: Program {
                path: "env".into(),
                args,
            },
            contender: Contender::ours(),
            table: Table::start(LATENCY)?,
            output,
        })
    }

    /// The instructions per record of the counted batches, or of the whole cold start.
    fn count(&self, case: Case) -> Result<u64> {
        let (_, kind, records, before, counted) = case;
        let all = self.total(case, before + counted)?;
        if kind == Kind::ColdStart {
            return Ok(all);
        }
        let before = self.total(case, before)?;
        Ok(all.saturating_sub(before) / (counted * records) as u64)
    }

    /// The instructions of a process that handles this many batches, from its start to its end.
    fn total(&self, (_, kind, records, ..): Case, batches: usize) -> Result<u64> {
        self.table.clear();
        let (shape, endpoint) = (Shape::cold(), self.table.endpoint());
        let mut process = Process::start(&self.contender, &self.program, &shape, &endpoint)?;
        let mut orders = Orders::default();
        let mut new = || orders.event(&[], records);
        let known = new();
        if kind == Kind::Duplicate {
            process.invoke(&known.0)?;
        }
        for _ in 0..batches {
            match kind {
                Kind::ColdStart | Kind::New => process.invoke(&new().0)?,
                Kind::Duplicate => process.invoke(&known.0)?,
                Kind::Failing => process.invoke_failing(&refused(&new().0), records)?,
            };
        }
        process.wait_until_idle()?;
        process.end()?;
        let output = fs::read_to_string(&self.output)?;
        let mut lines = output.lines();
        let total = lines.find_map(|line| line.strip_prefix("summary:")?.trim().parse().ok());
        total.context("callgrind wrote no total")
    }
}

/// The same orders in a currency that `orders` refuses as terminal.
fn refused(event: &[u8]) -> Arc<[u8]> {
    let event = String::from_utf8_lossy(event).replace("EUR", "eur");
    event.into_bytes().into()
}

#[cfg(test)]
mod tests {
    use super::{Kind, exceeds, verdict};

    #[test]
    fn a_count_may_exceed_the_recorded_one_by_2_percent_and_one_that_falls_by_more_is_to_be_recorded()
     {
        for (kind, count, recorded, is_too_much, is_to_be_recorded) in [
            (Kind::New, 1020, Some(1000), false, false),
            (Kind::New, 1021, Some(1000), true, false),
            (Kind::New, 980, Some(1000), false, false),
            (Kind::New, 979, Some(1000), false, true),
            (Kind::New, 1, None, true, false),
            (Kind::ColdStart, 1110, Some(1000), false, false),
            (Kind::ColdStart, 1111, Some(1000), true, false),
        ] {
            assert_eq!(
                exceeds(kind, count, recorded),
                is_too_much,
                "{count} {recorded:?}"
            );
            let line = verdict(("record", kind, 1, 0, 1), count, recorded);
            assert_eq!(line.starts_with("BROKEN"), is_too_much, "{line}");
            assert_eq!(line.contains("--record"), is_to_be_recorded, "{line}");
        }
    }
}
