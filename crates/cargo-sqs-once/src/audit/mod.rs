//! `cargo sqs-once audit`: judges what a function's log and table say by the guarantees.

mod history;
mod lines;
mod names;
mod shown;
mod table;

use crate::cli::Format;
use crate::print;
use anyhow::{Context, Result};
use clap::Args;
use history::Histories;
use indicatif::{ProgressBar, ProgressStyle};
use lines::Lines;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;
use table::Table;

/// Judge a function's log, and its table, by the guarantees
///
/// Reads the lines that the consumer logs at the end of each message, in any order: JSON or text, what `aws logs` and the
/// console print, and their `.gz`. For each guarantee, it counts what holds, what is violated, and what the files can't
/// decide. It sends no request.
///
/// The log names a key by twelve digits of its hash, so two effects of one key are certain only if they are of one
/// message, or if the table confirms the key.
///
/// Exits with 1 if a guarantee is violated.
#[derive(Args)]
#[command(after_help = "\
Examples:
  The log of a day:
    aws logs filter-log-events --log-group-name /aws/lambda/orders --start-time 1790000000000 > day.json
    cargo sqs-once audit --logs day.json

  With the table, from an export to S3 or a scan:
    aws dynamodb scan --table-name orders-keys > keys.json
    cargo sqs-once audit --logs day.json.gz night.json.gz --table keys.json

  The effects that another library's function logged:
    cargo sqs-once audit --events effects.csv")]
pub(crate) struct AuditArgs {
    /// Files of the function's log
    #[arg(long, value_name = "FILE", num_args = 1.., required_unless_present = "events")]
    logs: Vec<PathBuf>,

    /// Files of the table: an export in DynamoDB JSON, or the output of `aws dynamodb scan`
    #[arg(long, value_name = "FILE", num_args = 1..)]
    table: Vec<PathBuf>,

    /// Files with lines such as `2026-09-21T14:13:20Z,order-42,effect`, or `…,duplicate`
    #[arg(long, value_name = "FILE", num_args = 1.., conflicts_with_all = ["logs", "table"])]
    events: Vec<PathBuf>,

    /// How long the consumer keeps the completion of a key, such as 400days
    ///
    /// Without it, 28 days are assumed, or what the table's items show, and effects that are farther apart are not judged.
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    retention: Option<Duration>,

    /// The form of the result
    #[arg(long, value_enum, default_value_t)]
    format: Format,
}

pub(crate) fn audit(arguments: &AuditArgs) -> Result<ExitCode> {
    let files = || {
        let all = [&arguments.logs, &arguments.table, &arguments.events];
        all.into_iter().flatten()
    };
    let bar = bar(files())?;
    let mut lines = Lines::default();
    for path in &arguments.logs {
        lines.read_log(path, &bar)?;
    }
    for path in &arguments.events {
        lines.read_events(path, &bar)?;
    }
    let mut table = Table::default();
    for path in &arguments.table {
        table.read(path, &mut lines.names, &bar)?;
    }
    bar.finish_and_clear();
    let table = (!arguments.table.is_empty()).then_some(table);
    let judged = Histories::judge(&mut lines, table, arguments.retention);
    print::result(match arguments.format.is_json() {
        true => print::escaped(&format!("{:#}", shown::json(&lines, &judged))),
        false => shown::text(&lines, &judged),
    })?;
    Ok(match judged.is_violated() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// A bar for the bytes of all files. It is shown on a terminal only.
fn bar<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<ProgressBar> {
    let sizes = files.map(|path| Ok(fs::metadata(path).with_context(|| unread(path))?.len()));
    let bytes = sizes.sum::<Result<u64>>()?;
    let style = ProgressStyle::with_template("{bytes} of {total_bytes} {wide_bar} {eta}")?;
    Ok(ProgressBar::new(bytes).with_style(style))
}

fn unread(path: &Path) -> String {
    format!("{} can't be read", path.display())
}
