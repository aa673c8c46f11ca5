//! Everything the user sees.
//!
//! Whoever reads may stop reading at any time (`| head`): a closed pipe is no error.

use crate::error::Error;
use serde_json::{Map, Value, json};
use sqs_once_local::{BatchResponse, Outcome, Report, Row};
use std::io::{self, ErrorKind, IsTerminal, Write};

/// What was asked for, such as the function's response exactly as it came, and a line feed.
pub(crate) fn result(result: &[u8]) -> Result<(), Error> {
    one_result(result).map(drop)
}

/// The same, of which more may follow. Says whether somebody reads on.
pub(crate) fn one_result(result: &[u8]) -> Result<bool, Error> {
    let mut stdout = io::stdout().lock();
    let written = stdout
        .write_all(result)
        .and_then(|()| stdout.write_all(b"\n"))
        .and_then(|()| stdout.flush());
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(Error::Output(error)),
        written => Ok(written.is_ok()),
    }
}

/// A line of the function's own log, dimmed on a terminal. What is JSON for Lambda is put as text.
pub(crate) fn log_line(line: &str) {
    let line = one_line(&log_text(line).unwrap_or_else(|| line.to_owned()));
    if is_coloured() {
        to_stderr(&format!("\x1b[2m{line}\x1b[0m\n"));
    } else {
        to_stderr(&format!("{line}\n"));
    }
}

/// Such as `INFO charged amount_cents=1299 currency=EUR`; `None` for a line that is no JSON log line.
fn log_text(line: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let mut text = format!(
        "{} {}",
        fields.get("level")?.as_str()?,
        fields.get("message")?.as_str()?
    );
    for (name, value) in &fields {
        // When and in which invocation it was said does not matter here.
        let is_shown = match &**name {
            "level" | "message" | "timestamp" | "target" => false,
            "service" | "function_request_id" | "xray_trace_id" | "cold_start" => false,
            // The message id is what the table names a record by.
            "key" | "correlation_id" => !fields.contains_key("message_id"),
            _ => true,
        };
        if !is_shown {
            continue;
        }
        match value.as_str() {
            Some(value) => text.push_str(&format!(" {name}={value}")),
            None => text.push_str(&format!(" {name}={value}")),
        }
    }
    Some(text)
}

fn is_coloured() -> bool {
    io::stderr().is_terminal() && may_colour()
}

fn may_colour() -> bool {
    std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a line stands out.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    Plain,
    Dim,
    Good,
    Bad,
    Fault,
}

impl Style {
    fn on(self, text: &str, coloured: bool) -> String {
        let text = one_line(text);
        let code = match self {
            Style::Plain => return text,
            Style::Dim => "2",
            Style::Good => "32",
            Style::Bad => "31",
            Style::Fault => "35",
        };
        if coloured {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text
        }
    }
}

/// A line beside the result.
pub(crate) fn styled_note(style: Style, text: &str) {
    to_stderr(&format!("{}\n", style.on(text, is_coloured())));
}

/// A line of the result, of which more follow.
pub(crate) fn record(text: &str, style: Style) -> io::Result<()> {
    let coloured = io::stdout().is_terminal() && may_colour();
    line(&style.on(text, coloured))
}

/// The same without anything done to it.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush())
}

/// A document as one line that writes nothing to a terminal but text: JSON itself escapes only the control
/// characters of ASCII.
pub(crate) fn json_line(document: &Value) -> String {
    let mut line = String::new();
    for char in document.to_string().chars() {
        if char.is_control() {
            line.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            line.push(char);
        }
    }
    line
}

/// Something beside the result.
#[cfg(feature = "aws")]
pub(crate) fn note(text: &str) {
    to_stderr(&format!("{text}\n"));
}

/// What is asked, and answered on the same line.
#[cfg(feature = "aws")]
pub(crate) fn question(text: &str) {
    to_stderr(text);
}

/// One line a record, and what Lambda would do now.
pub(crate) fn table(report: &Report, response: &BatchResponse) {
    let width = report
        .rows
        .iter()
        .map(|row| row.message_id.chars().count())
        .max()
        .unwrap_or(0);
    let width = width.max("message id".len());
    let mut text = format!(
        "\n{:width$}  {:12}  {:>10}  reason\n",
        "message id", "outcome", "time"
    );
    for row in &report.rows {
        let line = format!(
            "{:width$}  {:12}  {:>10}  {}",
            one_line(&row.message_id),
            row.outcome,
            row.duration_ms
                .map(|ms| format!("{ms:.1} ms"))
                .unwrap_or_default(),
            one_line(row.reason.as_deref().unwrap_or_default()),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text.push_str(&format!(
        "\n{}\n{}\n",
        summary(report),
        consequence(&report.rows, response)
    ));
    to_stderr(&text);
}

/// The table as one line of JSON.
pub(crate) fn json(report: &Report, response: &BatchResponse) {
    let count = |outcome| report.count(outcome);
    let document = json!({
        "records": report.rows,
        "summary": {
            "records": report.rows.len(),
            "processed": count(Outcome::Processed),
            "duplicate": count(Outcome::Duplicate),
            "ignored": count(Outcome::Ignored),
            "in_progress": count(Outcome::InProgress),
            "failed": count(Outcome::Failed),
            "terminal": count(Outcome::Terminal),
            "acknowledged": count(Outcome::Acknowledged),
        },
        "batch_item_failures": response.failures(),
    });
    to_stderr(&format!("{document}\n"));
}

/// Such as `3 records: 2 processed, 1 duplicate`.
fn summary(report: &Report) -> String {
    let counts: Vec<String> = Outcome::ALL
        .into_iter()
        .map(|outcome| (report.count(outcome), outcome))
        .filter(|(count, _)| *count > 0)
        .map(|(count, outcome)| format!("{count} {outcome}"))
        .collect();
    let records = match report.rows.len() {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    };
    if counts.is_empty() {
        records
    } else {
        format!("{records}: {}", counts.join(", "))
    }
}

/// What Lambda does with the messages after this response.
fn consequence(rows: &[Row], response: &BatchResponse) -> String {
    let returned = rows
        .iter()
        .filter(|row| response.failures().contains(&row.message_id))
        .count();
    let deleted = rows.len() - returned;
    match (response.failures().len(), deleted) {
        (0, 0) => "no batch item failures".to_owned(),
        (0, 1) => "no batch item failures: Lambda deletes it from the queue".to_owned(),
        (0, all) => format!("no batch item failures: Lambda deletes all {all} from the queue"),
        (1, 0) => "1 batch item failure: it goes back to the queue".to_owned(),
        (1, rest) => format!(
            "1 batch item failure: it goes back to the queue, Lambda deletes the other {rest}"
        ),
        (failures, 0) => format!("{failures} batch item failures: these go back to the queue"),
        (failures, rest) => {
            format!(
                "{failures} batch item failures: these go back to the queue, Lambda deletes the other {rest}"
            )
        }
    }
}

/// A text that can't break its line, nor write to the terminal anything but text.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|char| if char.is_control() { ' ' } else { char })
        .collect()
}

/// What went wrong, why, and what to do about it.
pub(crate) fn error(error: &Error) {
    let mut text = format!("error: {error}\n");
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!("  because: {cause}\n"));
        source = cause.source();
    }
    if let Some(help) = error.help() {
        text.push_str(&format!("  help: {help}\n"));
    }
    to_stderr(&text);
}

fn to_stderr(text: &str) {
    bytes_to_stderr(text.as_bytes());
}

/// Writes to standard error; if nobody reads it, there is nobody left to tell.
pub(crate) fn bytes_to_stderr(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}
