//! Shows events as they happen, as lines for people or as JSON.

use super::args::DevArgs;
use super::pace::Pace;
use crate::print::{self, Style};
use anyhow::{Context, Result};
use serde_json::json;
use sqs_once_local::{Answer, LocalEvent, Observer, PollerControls, RecordLine};
use std::collections::HashMap;
use std::io::{self, ErrorKind, IsTerminal};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

const TALLY: &str = "over 20 lines a second: a tally replaces them until it is slower; the page shows each message, \
                     and a pipe, such as `| cat`, gets the lines";
/// The most ids to name in a line.
const IDS_IN_A_LINE: usize = 3;

/// Shows events on a separate thread, so that their source never waits for a terminal.
pub(crate) struct Show {
    sender: mpsc::Sender<Told>,
    thread: JoinHandle<Shown>,
}

enum Told {
    Happened(SystemTime, LocalEvent),
    /// The poller to stop if the reader closes standard output.
    Controls(PollerControls),
    End,
}

impl Show {
    pub(crate) fn start(args: &DevArgs, dead_letters: Option<String>) -> Self {
        let json = args.format.is_json();
        // A file or another program gets every line.
        let is_read_live = !json && io::stdout().is_terminal();
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut shown = Shown {
                dead_letters,
                pace: is_read_live.then(Pace::default),
                ..Shown::default()
            };
            let mut controls = None;
            let mut next = receiver.recv().ok();
            while let Some(told) = next {
                match told {
                    Told::End => break,
                    Told::Controls(given) => controls = Some(given),
                    Told::Happened(at, happening) if json => {
                        shown.count(&happening);
                        shown.write(|| print::line(as_json(at, &happening)));
                    }
                    Told::Happened(at, happening) => {
                        let lines = shown.lines(at, &happening);
                        lines.into_iter().for_each(|line| shown.print(line));
                    }
                }
                if let (Some(_), Some(controls)) = (&shown.unwritten, &controls) {
                    controls.stop();
                }
                next = receiver.try_recv().ok();
                if next.is_none() {
                    // The tally is drawn when it is up to date.
                    shown.draw_tally();
                    next = receiver.recv().ok();
                }
            }
            shown
        });
        Self { sender, thread }
    }

    /// Returns an observer that shows events.
    pub(crate) fn observer(&self) -> Observer {
        let sender = self.sender.clone();
        Arc::new(move |at, happening: &LocalEvent| {
            // The thread has ended after `end`.
            let _ = sender.send(Told::Happened(at, happening.clone()));
        })
    }

    /// Sets the poller to stop if the reader closes standard output.
    pub(crate) fn controls(&self, controls: PollerControls) {
        // Fails only if the thread has panicked.
        let _ = self.sender.send(Told::Controls(controls));
    }

    /// Waits until all events so far are shown.
    pub(crate) fn end(self) -> Shown {
        // Fails only if the thread has panicked.
        let _ = self.sender.send(Told::End);
        self.thread.join().unwrap_or_default()
    }
}

/// A line to print.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    /// A message's, for standard output.
    Record(Style, String),
    Note(Style, String),
    /// A line that the function logged.
    Logged(String),
}

/// The state of what was shown.
#[derive(Default)]
pub(crate) struct Shown {
    dead_letters: Option<String>,
    counts: HashMap<String, u64>,
    /// How many messages have moved to the dead-letter queue.
    dead: u64,
    /// The pace of the lines, if a tally may replace them.
    pace: Option<Pace>,
    /// The time of the last event.
    at: Option<SystemTime>,
    /// For each environment, the messages of its in-flight invocation that have no record line yet.
    unnamed: HashMap<u32, Vec<String>>,
    /// For each environment, the outcomes counted from its last answer alone. A late record line replaces them.
    silent: HashMap<u32, Vec<(String, &'static str)>>,
    /// The width of the longest route so far.
    routes: usize,
    /// The error that ended writing to standard output.
    unwritten: Option<io::Error>,
}

impl Shown {
    /// Writes to standard output, unless an earlier write failed.
    fn write(&mut self, write: impl FnOnce() -> io::Result<()>) {
        if self.unwritten.is_none() {
            self.unwritten = write().err();
        }
    }

    /// Whether every write to standard output succeeded.
    pub(crate) fn is_read(&self) -> bool {
        self.unwritten.is_none()
    }

    /// Returns a write error, unless the reader closed standard output.
    pub(crate) fn written(&mut self) -> Result<()> {
        let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
        let error = self.unwritten.take_if(|error| !is_closed(error));
        error.map_or(Ok(()), Err).context(print::UNWRITTEN)
    }

    /// Formats the counts, such as `12 messages: 10 processed, 2 duplicate`.
    pub(crate) fn summary(&self) -> String {
        let counts = self.counts.iter();
        let counts = counts.map(|(name, count)| (&**name, *count)).collect();
        match self.counts.values().sum() {
            0_u64 => "no messages".to_owned(),
            _ => print::summary(&counts),
        }
    }

    fn print(&mut self, line: Line) {
        match line {
            Line::Record(style, text) => self.write(|| print::record(&text, style)),
            Line::Note(style, text) => print::styled_note(style, &text),
            Line::Logged(line) => print::log_line(&line),
        }
    }

    /// Draws the tally, if it replaces the lines at the moment.
    fn draw_tally(&mut self) {
        if self.pace.as_ref().is_some_and(Pace::is_high) {
            let tally = self.tally();
            self.write(|| print::tally(&tally));
        }
    }

    /// Formats the tally, such as `12:00:00.000  12 messages: 10 processed, 2 terminal; 2 dead letters`.
    fn tally(&self) -> String {
        let time = self.at.map(time_of_day).unwrap_or_default();
        let dead = match self.dead {
            0 => String::new(),
            dead => format!("; {}", print::counted(dead, "dead letter", "dead letters")),
        };
        format!("{time}  {}{dead}", self.summary())
    }

    /// Counts outcomes. After an answer, returns the messages that no record line has named.
    fn count(&mut self, happening: &LocalEvent) -> Vec<(String, &'static str)> {
        match happening {
            LocalEvent::Invoked {
                environment,
                message_ids,
                ..
            } => {
                self.unnamed.insert(*environment, message_ids.clone());
            }
            LocalEvent::Record {
                environment,
                record,
            } => {
                *self.counts.entry(record.outcome.clone()).or_default() += 1;
                let route = record.route.as_deref().unwrap_or_default();
                self.routes = self.routes.max(route.chars().count());
                let unnamed = self.unnamed.entry(*environment).or_default();
                let silent = self.silent.entry(*environment).or_default();
                let id = &record.message_id;
                if let Some(index) = unnamed.iter().position(|unnamed| unnamed == id) {
                    unnamed.remove(index);
                } else if let Some(index) = silent.iter().position(|(silent, _)| silent == id) {
                    let (_, outcome) = silent.swap_remove(index);
                    *self.counts.entry(outcome.to_owned()).or_default() -= 1;
                }
            }
            LocalEvent::Answered {
                environment,
                answer,
                ..
            } => {
                let unnamed = self.unnamed.remove(environment).unwrap_or_default();
                let with_outcome = |id: String| match answer {
                    Answer::Read { failures } if !failures.contains(&id) => (id, "acknowledged"),
                    _ => (id, "failed"),
                };
                let silent: Vec<_> = unnamed.into_iter().map(with_outcome).collect();
                for (_, outcome) in &silent {
                    *self.counts.entry((*outcome).to_owned()).or_default() += 1;
                }
                self.silent.insert(*environment, silent.clone());
                return silent;
            }
            LocalEvent::DeadLettered { .. } => self.dead += 1,
            LocalEvent::Sent { queue, .. } if Some(queue) == self.dead_letters.as_ref() => {
                self.dead += 1;
            }
            _ => {}
        }
        Vec::new()
    }

    /// Counts the event and returns its lines. At a high pace, lines about messages are left out.
    fn lines(&mut self, at: SystemTime, happening: &LocalEvent) -> Vec<Line> {
        let silent = self.count(happening);
        let mut lines = self.all_lines(at, happening, silent);
        let is_rare = matches!(
            happening,
            LocalEvent::EnvironmentStarted { .. }
                | LocalEvent::EnvironmentEnded { .. }
                | LocalEvent::Purged { .. }
        );
        self.at = Some(at);
        let Some(pace) = self.pace.as_mut().filter(|_| !is_rare) else {
            return lines;
        };
        let was_high = pace.is_high();
        pace.add(lines.len(), at);
        match (was_high, pace.is_high()) {
            (false, false) => {}
            (true, true) => lines.clear(),
            (false, true) => lines = vec![Line::Note(Style::Dim, TALLY.to_owned())],
            (true, false) => lines.insert(0, Line::Note(Style::Dim, self.tally())),
        }
        lines
    }

    fn all_lines(
        &self,
        at: SystemTime,
        happening: &LocalEvent,
        silent: Vec<(String, &'static str)>,
    ) -> Vec<Line> {
        let time = time_of_day(at);
        let note = |style, text: &str| Line::Note(style, format!("{time}  {text}"));
        let (style, text) = match happening {
            LocalEvent::Record {
                environment,
                record,
            } => return vec![row(&time, *environment, record, self.routes)],
            LocalEvent::Logged { line, .. } => return vec![Line::Logged(line.clone())],
            LocalEvent::Answered {
                environment,
                answer,
                ..
            } => {
                let mut lines = Vec::new();
                let reason = match answer {
                    Answer::Failed { reason } => {
                        let text = format!(
                            "#{environment}  the whole batch returns to the queue: {reason}"
                        );
                        lines.push(note(Style::Bad, &text));
                        reason.as_str()
                    }
                    _ => "no log line",
                };
                lines.extend(silent.into_iter().map(|(message_id, outcome)| {
                    let record = record(message_id, outcome, Some(reason));
                    row(&time, *environment, &record, self.routes)
                }));
                return lines;
            }
            LocalEvent::Sent {
                queue,
                message_id,
                attributes,
                ..
            } => match Some(queue) == self.dead_letters.as_ref() {
                true => {
                    // The function's copy has another id than its message.
                    let original = attributes.get("sqs-once-message-id");
                    let original = original.and_then(|id| id["StringValue"].as_str());
                    let original = original.unwrap_or(message_id);
                    let text = format!("{original}  dead letter: sent to {queue} as {message_id}");
                    (Style::Bad, text)
                }
                false => (Style::Dim, format!("{message_id}  sent to {queue}")),
            },
            LocalEvent::DeadLettered { to, message_id, .. } => {
                let text = format!("{message_id}  dead letter: received too often, moved to {to}");
                (Style::Bad, text)
            }
            LocalEvent::Redriven {
                to,
                message_id,
                new_message_id,
                ..
            } => {
                let text = format!("{message_id}  redriven to {to} as {new_message_id}");
                (Style::Plain, text)
            }
            LocalEvent::Expired { queue, message_id } => {
                let text = format!("{message_id}  expired: {queue} does not keep messages longer");
                (Style::Bad, text)
            }
            LocalEvent::Purged { queue } => (Style::Plain, format!("{queue} was purged")),
            LocalEvent::EnvironmentStarted { environment } => {
                (Style::Dim, format!("#{environment}  environment started"))
            }
            LocalEvent::EnvironmentEnded {
                environment,
                reason,
            } => {
                let text = format!("#{environment}  environment ended: {reason}");
                (Style::Dim, text)
            }
            LocalEvent::Fault { what, message_ids } => {
                let text = format!("fault: {what}: {}", some(message_ids));
                (Style::Fault, text)
            }
            _ => return Vec::new(),
        };
        vec![note(style, &text)]
    }
}

/// A record line with this outcome.
fn record(message_id: String, outcome: &str, reason: Option<&str>) -> RecordLine {
    RecordLine {
        message_id,
        outcome: outcome.to_owned(),
        reason: reason.map(str::to_owned),
        ..RecordLine::default()
    }
}

/// Formats ids, such as `m-1, m-2, m-3 and 7 more`.
fn some(ids: &[String]) -> String {
    let shown = ids[..ids.len().min(IDS_IN_A_LINE)].join(", ");
    match ids.len().saturating_sub(IDS_IN_A_LINE) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// Formats a row. `routes` is the width of the column of routes, which only the messages of a router have.
fn row(time: &str, environment: u32, record: &RecordLine, routes: usize) -> Line {
    let duration = record.duration_ms.map(|ms| format!("{ms:.1} ms"));
    let received = record.receive_count.map(|count| format!("{count}×"));
    let route = record.route.as_deref().unwrap_or_default();
    let route = match routes {
        0 => String::new(),
        width => format!("  {route:width$}"),
    };
    let text = format!(
        "{time}  #{environment:<3} {}{}  {:12} {:>10}  {:>3}  {}",
        record.message_id,
        route,
        print::outcome_in_words(&record.outcome),
        duration.unwrap_or_default(),
        received.unwrap_or_default(),
        record.reason.as_deref().unwrap_or_default(),
    );
    Line::Record(style(&record.outcome), text.trim_end().to_owned())
}

fn style(outcome: &str) -> Style {
    match outcome {
        "processed" => Style::Good,
        "failed" | "terminal" => Style::Bad,
        _ => Style::Plain,
    }
}

/// Formats a time of day, such as `14:03:59.123`, in UTC like Lambda's logs.
fn time_of_day(at: SystemTime) -> String {
    let millis = millis(at);
    let (hours, minutes) = (millis / 3_600_000 % 24, millis / 60_000 % 60);
    let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// The milliseconds since 1970.
fn millis(at: SystemTime) -> u64 {
    let since = at.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Formats the event as one JSON object, with the time in milliseconds since 1970.
fn as_json(at: SystemTime, happening: &LocalEvent) -> String {
    let mut line = json!(happening);
    line["at"] = millis(at).into();
    print::json_line(&line)
}

#[cfg(test)]
mod tests {
    use super::super::pace::MOST;
    use super::*;
    use serde_json::{Map, json};
    use std::time::Duration;

    #[test]
    fn a_record_is_a_line() {
        let record = RecordLine {
            duration_ms: Some(12.34),
            receive_count: Some(2),
            ..record("m-1".to_owned(), "in_progress", Some("another owner"))
        };
        let routed = RecordLine {
            route: Some("OrderPlaced".to_owned()),
            ..record.clone()
        };
        let at = UNIX_EPOCH + Duration::from_millis(86_400_000 + 3_723_004);
        // A message without a route keeps its columns below.
        for (record, routes, column) in [
            (&record, 0, ""),
            (&routed, 11, "OrderPlaced  "),
            (&record, 11, "             "),
        ] {
            let start = format!("01:02:03.004  #1   m-1  {column}");
            let text = format!("{start}in progress     12.3 ms   2×  another owner");
            let expected = Line::Record(Style::Plain, text);
            assert_eq!(row(&time_of_day(at), 1, record, routes), expected);
        }
    }

    fn processed(number: u64) -> LocalEvent {
        LocalEvent::Record {
            environment: 1,
            record: record(format!("m-{number}"), "processed", None),
        }
    }

    #[test]
    fn a_dead_letter_that_the_function_sent_has_the_id_of_its_message() {
        let mut shown = Shown {
            dead_letters: Some("dead".to_owned()),
            ..Shown::default()
        };
        let original = json!({ "DataType": "String", "StringValue": "m-1" });
        let sent = LocalEvent::Sent {
            queue: "dead".to_owned(),
            message_id: "copy".to_owned(),
            body: "{}".to_owned(),
            attributes: Map::from_iter([("sqs-once-message-id".to_owned(), original)]),
            group_id: None,
            visible_at: UNIX_EPOCH,
        };
        let text = "00:00:00.000  m-1  dead letter: sent to dead as copy".to_owned();
        let expected = [Line::Note(Style::Bad, text)];
        assert_eq!(shown.lines(UNIX_EPOCH, &sent), expected);
    }

    #[test]
    fn at_a_high_pace_a_tally_replaces_the_lines_until_it_is_slower() {
        let mut shown = Shown {
            pace: Some(Pace::default()),
            dead_letters: Some("dead".to_owned()),
            ..Shown::default()
        };
        // 100 messages a second, of which the lines of the first are shown.
        let at = |number: u64| UNIX_EPOCH + Duration::from_millis(10 * number);
        let lines = (0..1000).map(|number| shown.lines(at(number), &processed(number)));
        let lines: Vec<_> = lines.flatten().collect();
        assert_eq!(lines.len(), MOST + 1);
        assert_eq!(lines[MOST], Line::Note(Style::Dim, TALLY.to_owned()));
        assert_eq!(shown.tally(), "00:00:09.990  1000 messages: 1000 processed");

        // Rare events keep their lines, and the tally counts dead letters.
        let started = LocalEvent::EnvironmentStarted { environment: 2 };
        assert_eq!(shown.lines(at(1000), &started).len(), 1);
        let dead = LocalEvent::DeadLettered {
            queue: "orders".to_owned(),
            to: "dead".to_owned(),
            message_id: "m-1".to_owned(),
        };
        assert_eq!(shown.lines(at(1000), &dead), []);
        let tally = "00:00:10.000  1000 messages: 1000 processed; 1 dead letter";
        assert_eq!(shown.tally(), tally);

        // Six seconds later, the lines are back, below the last tally.
        let [Line::Note(_, last), Line::Record(_, text)] =
            &shown.lines(at(1600), &processed(1000))[..]
        else {
            panic!("the lines are not back");
        };
        assert!(last.contains("1001 messages"), "{last}");
        assert!(text.contains("m-1000"), "{text}");
    }

    #[test]
    fn a_short_burst_a_slow_stream_and_what_is_not_for_a_terminal_have_all_their_lines() {
        let (burst, terminal) = (MOST as u64, Some(Pace::default));
        for (pace, events, pause) in [(terminal, burst, 0), (terminal, 1000, 1), (None, 1000, 0)] {
            let mut shown = Shown {
                pace: pace.map(|pace| pace()),
                ..Shown::default()
            };
            let at = |number| UNIX_EPOCH + Duration::from_secs(number * pause);
            let lines = (0..events).flat_map(|number| shown.lines(at(number), &processed(number)));
            assert_eq!(lines.count() as u64, events);
        }
    }

    #[test]
    fn records_without_a_line_are_what_the_answer_says() {
        let mut shown = Shown::default();
        let ids = ["m-1", "m-2", "m-3"].map(str::to_owned);
        let processed = |id: &str| LocalEvent::Record {
            environment: 1,
            record: record(id.to_owned(), "processed", None),
        };
        shown.count(&LocalEvent::Invoked {
            environment: 1,
            request_id: "r".to_owned(),
            queue: "q".to_owned(),
            message_ids: ids.to_vec(),
        });
        shown.count(&processed("m-2"));
        let silent = shown.count(&LocalEvent::Answered {
            environment: 1,
            request_id: "r".to_owned(),
            answer: Answer::Read {
                failures: vec!["m-3".to_owned()],
            },
        });
        let expected = [("m-1", "acknowledged"), ("m-3", "failed")];
        let expected = expected.map(|(id, outcome)| (id.to_owned(), outcome));
        assert_eq!(silent, expected);
        let summary = "3 messages: 1 processed, 1 failed, 1 acknowledged";
        assert_eq!(shown.summary(), summary);
        shown.count(&processed("m-1"));
        assert_eq!(shown.summary(), "3 messages: 2 processed, 1 failed");
    }
}
