//! Shows events as they happen, as lines for people or as JSON.

use crate::print::{self, Style};
use anyhow::{Context, Result};
use serde::Serialize;
use serde_json::json;
use sqs_once_local::{Answer, LocalEvent, Observer, PollerControls, RecordLine};
use std::collections::HashMap;
use std::io::{self, ErrorKind};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{SystemTime, UNIX_EPOCH};

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
    pub(crate) fn start(json: bool, dead_letters: Option<String>) -> Self {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::spawn(move || {
            let mut shown = Shown {
                dead_letters,
                ..Shown::default()
            };
            let mut controls = None;
            for told in receiver {
                match told {
                    Told::End => break,
                    Told::Controls(given) => controls = Some(given),
                    Told::Happened(at, happening) if json => {
                        shown.count(&happening);
                        shown.write(|| print::line(as_json(at, &happening)));
                    }
                    Told::Happened(at, happening) => shown.tell(at, &happening),
                }
                if let (Some(_), Some(controls)) = (&shown.unwritten, &controls) {
                    controls.stop();
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

/// The state of what was shown.
#[derive(Default)]
pub(crate) struct Shown {
    dead_letters: Option<String>,
    counts: HashMap<String, u64>,
    /// For each environment, the messages of its in-flight invocation that have no record line yet.
    unnamed: HashMap<u32, Vec<String>>,
    /// For each environment, the outcomes counted from its last answer alone. A late record line replaces them.
    silent: HashMap<u32, Vec<(String, &'static str)>>,
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

    /// Formats the counts, such as `12 records: 10 processed, 2 duplicate`.
    pub(crate) fn summary(&self) -> String {
        let counts = self.counts.iter();
        let counts = counts.map(|(name, count)| (&**name, *count)).collect();
        match self.counts.values().sum() {
            0_u64 => "no records".to_owned(),
            _ => print::summary(&counts),
        }
    }

    /// Counts outcomes. After an answer, returns the records that no record line has named.
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
            _ => {}
        }
        Vec::new()
    }

    /// Prints a line for the event, if it has one.
    fn tell(&mut self, at: SystemTime, happening: &LocalEvent) {
        let silent = self.count(happening);
        let time = time_of_day(at);
        let note = |style, text: &str| print::styled_note(style, &format!("{time}  {text}"));
        let (style, text) = match happening {
            LocalEvent::Record {
                environment,
                record,
            } => return self.row(&time, *environment, record),
            LocalEvent::Logged { line, .. } => return print::log_line(line),
            LocalEvent::Answered {
                environment,
                answer,
                ..
            } => {
                let reason = match answer {
                    Answer::Failed { reason } => {
                        let text = format!(
                            "#{environment}  the whole batch returns to the queue: {reason}"
                        );
                        note(Style::Bad, &text);
                        reason.as_str()
                    }
                    _ => "no record line",
                };
                for (message_id, outcome) in silent {
                    let record = record(message_id, outcome, Some(reason));
                    self.row(&time, *environment, &record);
                }
                return;
            }
            LocalEvent::Sent {
                queue, message_id, ..
            } => match Some(queue) == self.dead_letters.as_ref() {
                true => {
                    let text = format!("{message_id}  dead letter: sent to {queue}");
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
            _ => return,
        };
        note(style, &text);
    }

    /// Prints a record's line.
    fn row(&mut self, time: &str, environment: u32, record: &RecordLine) {
        let style = style(&record.outcome);
        self.write(|| print::record(&row(time, environment, record), style));
    }
}

/// A record line with this outcome.
fn record(message_id: String, outcome: &str, reason: Option<&str>) -> RecordLine {
    RecordLine {
        message_id,
        outcome: outcome.to_owned(),
        duration_ms: None,
        reason: reason.map(str::to_owned),
        key: None,
        receive_count: None,
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

fn row(time: &str, environment: u32, record: &RecordLine) -> String {
    let duration = record.duration_ms.map(|ms| format!("{ms:.1} ms"));
    let received = record.receive_count.map(|count| format!("{count}×"));
    let text = format!(
        "{time}  #{environment:<3} {}  {:12} {:>10}  {:>3}  {}",
        record.message_id,
        print::outcome_in_words(&record.outcome),
        duration.unwrap_or_default(),
        received.unwrap_or_default(),
        record.reason.as_deref().unwrap_or_default(),
    );
    text.trim_end().to_owned()
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
    #[derive(Serialize)]
    struct Line<'a> {
        at: u64,
        #[serde(flatten)]
        happening: &'a LocalEvent,
    }
    let at = millis(at);
    print::json_line(&json!(Line { at, happening }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_record_is_a_line() {
        let record = RecordLine {
            duration_ms: Some(12.34),
            receive_count: Some(2),
            ..record("m-1".to_owned(), "in_progress", Some("another owner"))
        };
        let at = UNIX_EPOCH + Duration::from_millis(86_400_000 + 3_723_004);
        assert_eq!(
            row(&time_of_day(at), 1, &record),
            "01:02:03.004  #1   m-1  in progress     12.3 ms   2×  another owner"
        );
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
        let summary = "3 records: 1 processed, 1 failed, 1 acknowledged";
        assert_eq!(shown.summary(), summary);
        shown.count(&processed("m-1"));
        assert_eq!(shown.summary(), "3 records: 2 processed, 1 failed");
    }
}
