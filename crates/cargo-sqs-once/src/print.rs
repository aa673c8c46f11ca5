//! Writes all output for the user.
//!
//! A reader may close the pipe at any time (`| head`), which is not an error.

use crate::error;
use anyhow::{Context, Error, Result};
use serde_json::{Map, Value, json};
use sqs_once_local::{BatchResponse, OUTCOMES, RecordLine, Report};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

pub(crate) const UNWRITTEN: &str = "the result can't be written";

/// Writes the result and a line feed.
pub(crate) fn result(result: impl AsRef<[u8]>) -> Result<()> {
    one_result(result).map(drop)
}

pub(crate) fn json(document: &Value) -> Result<()> {
    result(json_line(document))
}

/// Writes one of several results. Returns whether the reader is still there.
pub(crate) fn one_result(result: impl AsRef<[u8]>) -> Result<bool> {
    match line(result) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context(UNWRITTEN),
        written => Ok(written.is_ok()),
    }
}

/// Whether the terminal's last line is a tally.
static IS_TALLY: AtomicBool = AtomicBool::new(false);

/// Moves to the start of the terminal's last line and erases it.
const ERASE: &str = "\r\x1b[K";

/// Writes a tally as the terminal's last line, which the next output replaces. A long one is cut off, since only one row
/// can be replaced.
pub(crate) fn tally(text: &str) -> io::Result<()> {
    IS_TALLY.store(true, Ordering::Relaxed);
    let mut stdout = io::stdout().lock();
    write!(stdout, "{ERASE}\x1b[?7l{}\x1b[?7h", one_line(text))?;
    stdout.flush()
}

fn erase_tally() -> io::Result<()> {
    if IS_TALLY.swap(false, Ordering::Relaxed) {
        let mut stdout = io::stdout().lock();
        stdout.write_all(ERASE.as_bytes())?;
        stdout.flush()?;
    }
    Ok(())
}

/// Writes a line to standard output unchanged.
pub(crate) fn line(text: impl AsRef<[u8]>) -> io::Result<()> {
    erase_tally()?;
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref())?;
    stdout.write_all(b"\n")?;
    stdout.flush()
}

/// Prints a line of the function's log, dimmed on a terminal. Converts a JSON log line to text.
pub(crate) fn log_line(line: &str) {
    let text = log_text(line);
    styled_note(Style::Dim, text.as_deref().unwrap_or(line));
}

/// Converts a JSON log line to text, such as `INFO charged amount_cents=1299 currency=EUR`. Returns `None` for any
/// other line.
fn log_text(line: &str) -> Option<String> {
    let fields: Map<String, Value> = serde_json::from_str(line).ok()?;
    let mut text = format!(
        "{} {}",
        fields.get("level")?.as_str()?,
        fields.get("message")?.as_str()?
    );
    for (name, value) in &fields {
        // The time and the invocation of a log line do not matter here.
        let is_shown = match &**name {
            "level" | "message" | "timestamp" | "target" => false,
            "service" | "function_request_id" | "xray_trace_id" | "cold_start" => false,
            // The message id is enough to find the item in the table.
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

/// Whether a stream shows colours: a terminal, unless the user set `NO_COLOR`.
pub(crate) fn is_coloured(stream: &impl IsTerminal) -> bool {
    stream.is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// How a line is highlighted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
        match coloured {
            true => format!("\x1b[{code}m{text}\x1b[0m"),
            false => text,
        }
    }
}

/// Prints a line to standard error.
pub(crate) fn styled_note(style: Style, text: &str) {
    to_stderr(format!("{}\n", style.on(text, is_coloured(&io::stderr()))));
}

/// Prints one line of several to standard output.
pub(crate) fn record(text: &str, style: Style) -> io::Result<()> {
    line(style.on(text, is_coloured(&io::stdout())))
}

/// Formats a document as one line that is safe for a terminal. JSON itself escapes only the control characters of ASCII
/// below DEL. All JSON output goes through this function.
pub(crate) fn json_line(document: &Value) -> String {
    escaped(&document.to_string())
}

/// Escapes JSON so that it is safe for a terminal and keeps its meaning. Line feeds between its parts stay.
pub(crate) fn escaped(json: &str) -> String {
    let mut escaped = String::with_capacity(json.len());
    for char in json.chars() {
        match char {
            '\n' => escaped.push(char),
            // These two characters occur only between the parts of JSON, where an escape would be invalid.
            '\t' | '\r' => escaped.push(' '),
            _ if is_unsafe(char) => escaped.push_str(&format!("\\u{:04x}", u32::from(char))),
            _ => escaped.push(char),
        }
    }
    escaped
}

/// Prints a note to standard error.
pub(crate) fn note(text: &str) {
    to_stderr(format!("{}\n", lines(text)));
}

/// Prints a question. The answer follows on the same line.
#[cfg(feature = "aws")]
pub(crate) fn question(text: &str) {
    to_stderr(one_line(text));
}

/// Prints one line for each message, and what Lambda would do now.
pub(crate) fn table(report: &Report, response: &BatchResponse) {
    let width =
        |texts: &mut dyn Iterator<Item = &str>| texts.map(|text| text.chars().count()).max();
    let ids = width(&mut report.rows.iter().map(|row| &*row.message_id));
    let ids = ids.unwrap_or(0).max("message id".len());
    // Only the messages of a router have routes.
    let routes = width(&mut report.rows.iter().filter_map(|row| row.route.as_deref()));
    let routes = routes.map(|width| width.max("route".len()));
    let route = |name: &str| match routes {
        Some(width) => format!("  {:width$}", one_line(name)),
        None => String::new(),
    };
    let mut text = format!(
        "\n{:ids$}{}  {:12}  {:>10}  reason\n",
        "message id",
        route("route"),
        "outcome",
        "time"
    );
    for row in &report.rows {
        let duration = row.duration_ms.map(|ms| format!("{ms:.1} ms"));
        let line = format!(
            "{:ids$}{}  {:12}  {:>10}  {}",
            one_line(&row.message_id),
            route(row.route.as_deref().unwrap_or_default()),
            outcome_in_words(&row.outcome),
            duration.unwrap_or_default(),
            one_line(row.reason.as_deref().unwrap_or_default()),
        );
        text.push_str(line.trim_end());
        text.push('\n');
    }
    let mut counts = BTreeMap::new();
    for row in &report.rows {
        *counts.entry(row.outcome.as_str()).or_default() += 1;
    }
    let (summary, consequence) = (summary(&counts), consequence(&report.rows, response));
    text.push_str(&format!("\n{summary}\n{consequence}\n"));
    to_stderr(text);
}

pub(crate) fn json_table(report: &Report, response: &BatchResponse) {
    let mut summary = Map::new();
    summary.insert("records".to_owned(), report.rows.len().into());
    summary.extend(OUTCOMES.map(|outcome| (outcome.to_owned(), report.count(outcome).into())));
    let document = json!({
        "records": report.rows,
        "summary": summary,
        "batch_item_failures": response.failures(),
    });
    to_stderr(format!("{}\n", json_line(&document)));
}

/// Formats a count, such as `1 row` or `3 rows`.
pub(crate) fn counted(count: u64, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// Formats counts of outcomes, such as `3 messages: 2 processed, 1 duplicate`.
pub(crate) fn summary(counts: &BTreeMap<&str, u64>) -> String {
    let all = counted(counts.values().sum(), "message", "messages");
    match outcomes(counts) {
        none if none.is_empty() => all,
        outcomes => format!("{all}: {outcomes}"),
    }
}

/// Formats counts of outcomes in the order of [`OUTCOMES`], such as `2 processed, 1 duplicate`.
pub(crate) fn outcomes(counts: &BTreeMap<&str, u64>) -> String {
    let mut counts: Vec<_> = counts.iter().filter(|(_, count)| **count > 0).collect();
    let place = |outcome: &&str| OUTCOMES.iter().position(|known| known == outcome);
    counts.sort_by_key(|(outcome, _)| place(outcome).unwrap_or(OUTCOMES.len()));
    let words = counts.into_iter();
    let words = words.map(|(outcome, count)| format!("{count} {}", outcome_in_words(outcome)));
    words.collect::<Vec<_>>().join(", ")
}

/// Formats an outcome, such as `in progress`.
pub(crate) fn outcome_in_words(outcome: &str) -> String {
    one_line(outcome).replace('_', " ")
}

/// Describes what Lambda does with the messages after this response.
fn consequence(rows: &[RecordLine], response: &BatchResponse) -> String {
    let is_returned = |row: &&RecordLine| response.failures().contains(&row.message_id);
    let deleted = rows.len() - rows.iter().filter(is_returned).count();
    let returned = match response.failures().len() {
        0 => "no batch item failures".to_owned(),
        1 => "1 batch item failure: it goes back to the queue".to_owned(),
        all => format!("{all} batch item failures: these go back to the queue"),
    };
    match (response.failures().len(), deleted) {
        (_, 0) => returned,
        (0, 1) => format!("{returned}: Lambda deletes it from the queue"),
        (0, all) => format!("{returned}: Lambda deletes all {all} from the queue"),
        (_, rest) => format!("{returned}, Lambda deletes the other {rest}"),
    }
}

/// Replaces characters that would break the line or are unsafe for a terminal.
pub(crate) fn one_line(text: &str) -> String {
    text.chars()
        .map(|char| if is_unsafe(char) { ' ' } else { char })
        .collect()
}

/// Whether a character does more on a terminal than show itself. These are control characters, and characters that
/// change the direction of the text around them and so disguise it.
fn is_unsafe(char: char) -> bool {
    let turns = matches!(
        char,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    char.is_control() || turns
}

/// Replaces unsafe characters but keeps line feeds, for text that has its own layout.
pub(crate) fn lines(text: &str) -> String {
    let lines = text.split('\n').map(one_line);
    lines.collect::<Vec<_>>().join("\n")
}

pub(crate) fn error(error: &Error) {
    let mut text = format!("error: {}\n", lines(&error.to_string()));
    for cause in error.chain().skip(1) {
        let cause = lines(&cause.to_string());
        // Many errors of other crates repeat their cause, some of them in one line.
        if !in_one_line(&text).contains(&in_one_line(&cause)) {
            text.push_str(&format!("  because: {cause}\n"));
        }
    }
    if let Some(help) = error::help(error) {
        text.push_str(&format!("  help: {}\n", lines(&help)));
    }
    to_stderr(text);
}

fn in_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Writes to standard error. Ignores errors, because it can't report them elsewhere.
pub(crate) fn to_stderr(text: impl AsRef<[u8]>) {
    let _ = erase_tally();
    let _ = io::stderr().lock().write_all(text.as_ref());
}
