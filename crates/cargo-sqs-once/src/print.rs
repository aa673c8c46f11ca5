//! Writes all output for the user.
//!
//! A reader may close the pipe at any time (`| head`), which is not an error.

use crate::error::Error;
use serde_json::{Map, Value, json};
use sqs_once_local::{BatchResponse, OUTCOMES, Report, Row};
use std::collections::BTreeMap;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Writes the result and a line feed.
pub(crate) fn result(result: &[u8]) -> Result<(), Error> {
    one_result(result).map(drop)
}

/// Writes one of several results. Returns whether the reader is still there.
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

/// Prints a line of the function's log, dimmed on a terminal. Converts a JSON log line to text.
pub(crate) fn log_line(line: &str) {
    let line = one_line(&log_text(line).unwrap_or_else(|| line.to_owned()));
    if is_coloured() {
        to_stderr(&format!("\x1b[2m{line}\x1b[0m\n"));
    } else {
        to_stderr(&format!("{line}\n"));
    }
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
            // The message id is enough to find the record in the table.
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

/// How a line is highlighted.
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

/// Prints a line to standard error.
pub(crate) fn styled_note(style: Style, text: &str) {
    to_stderr(&format!("{}\n", style.on(text, is_coloured())));
}

/// Prints one line of several to standard output.
pub(crate) fn record(text: &str, style: Style) -> io::Result<()> {
    let coloured = io::stdout().is_terminal() && may_colour();
    line(&style.on(text, coloured))
}

/// Prints a line to standard output unchanged.
pub(crate) fn line(text: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    writeln!(stdout, "{text}").and_then(|()| stdout.flush())
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

/// Prints the function's response, which should be JSON.
pub(crate) fn answer(answer: &[u8]) -> Result<(), Error> {
    result(escaped(&String::from_utf8_lossy(answer)).as_bytes())
}

/// Prints a note to standard error.
#[cfg(feature = "aws")]
pub(crate) fn note(text: &str) {
    to_stderr(&format!("{}\n", lines(text)));
}

/// Prints a question. The answer follows on the same line.
#[cfg(feature = "aws")]
pub(crate) fn question(text: &str) {
    to_stderr(&one_line(text));
}

/// Prints one line for each record, and what Lambda would do now.
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
            outcome_in_words(&row.outcome),
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

/// Prints the table as one line of JSON.
pub(crate) fn json(report: &Report, response: &BatchResponse) {
    let mut summary = Map::new();
    summary.insert("records".to_owned(), report.rows.len().into());
    summary.extend(OUTCOMES.map(|outcome| (outcome.to_owned(), report.count(outcome).into())));
    let document = json!({
        "records": report.rows,
        "summary": summary,
        "batch_item_failures": response.failures(),
    });
    to_stderr(&format!("{}\n", json_line(&document)));
}

/// Formats the counts, such as `3 records: 2 processed, 1 duplicate`.
fn summary(report: &Report) -> String {
    let mut counts = BTreeMap::new();
    for row in &report.rows {
        *counts.entry(row.outcome.as_str()).or_default() += 1;
    }
    let counts = in_words(&counts);
    let records = match report.rows.len() {
        1 => "1 record".to_owned(),
        count => format!("{count} records"),
    };
    if counts.is_empty() {
        records
    } else {
        format!("{records}: {counts}")
    }
}

/// Formats counts of outcomes in the order of [`OUTCOMES`], such as `2 processed, 1 duplicate`.
pub(crate) fn in_words(counts: &BTreeMap<&str, usize>) -> String {
    let mut counts: Vec<_> = counts.iter().filter(|(_, count)| **count > 0).collect();
    let place = |outcome: &&str| OUTCOMES.iter().position(|known| known == outcome);
    counts.sort_by_key(|(outcome, _)| place(outcome).unwrap_or(OUTCOMES.len()));
    let counts = counts
        .iter()
        .map(|(outcome, count)| format!("{count} {}", outcome_in_words(outcome)));
    counts.collect::<Vec<_>>().join(", ")
}

/// Formats an outcome, such as `in progress`.
pub(crate) fn outcome_in_words(outcome: &str) -> String {
    one_line(outcome).replace('_', " ")
}

/// Describes what Lambda does with the messages after this response.
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
fn lines(text: &str) -> String {
    let lines = text.split('\n').map(one_line);
    lines.collect::<Vec<_>>().join("\n")
}

/// Prints an error, its causes, and a hint.
pub(crate) fn error(error: &Error) {
    let mut text = format!("error: {}\n", lines(&error.to_string()));
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!("  because: {}\n", lines(&cause.to_string())));
        source = cause.source();
    }
    if let Some(help) = error.help() {
        text.push_str(&format!("  help: {help}\n"));
    }
    to_stderr(&text);
}

/// Prints why clap refused the arguments. Without colours, because clap's coloured text contains the arguments
/// unescaped.
pub(crate) fn usage(error: &clap::Error) {
    to_stderr(&lines(&error.render().to_string()));
}

fn to_stderr(text: &str) {
    bytes_to_stderr(text.as_bytes());
}

/// Writes to standard error. Ignores errors, because it can't report them elsewhere.
pub(crate) fn bytes_to_stderr(bytes: &[u8]) {
    let _ = io::stderr().lock().write_all(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character that is unsafe for a terminal, and its neighbours in Unicode.
    const UNSAFE: &str = "\u{0}\t\n\r\u{1b}\u{7f}\u{80}\u{9b}\u{9f}\u{61c}\u{200e}\u{200f}\u{202a}\u{202e}\u{2066}\u{2069}";

    #[test]
    fn json_escapes_what_is_unsafe_and_parses_back_to_the_same_value() {
        let document = json!({ UNSAFE: [UNSAFE, "é \u{a0} \u{2065} \u{1f600} \\u202e \" \\"] });
        let compact = json_line(&document);
        let pretty = escaped(&format!("{document:#}"));
        let spaced = escaped(&format!("{document:#}").replace('\n', "\r\n\t"));
        for written in [compact, pretty, spaced] {
            let acts = written
                .chars()
                .find(|char| is_unsafe(*char) && *char != '\n');
            assert_eq!(acts, None, "{written:?}");
            assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), document);
        }
    }

    #[test]
    fn a_text_keeps_its_line_feeds_and_nothing_else_that_is_unsafe() {
        assert_eq!(lines("a\u{1b}[2J\nb\u{202e}\u{9b}c é"), "a [2J\nb  c é");
        assert_eq!(one_line(UNSAFE).trim(), "");
    }
}
