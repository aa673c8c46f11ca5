//! Shows events as they happen, as lines for people or as JSON.

use crate::error::Error;
use crate::print::{self, Style};
use serde_json::{Value, json};
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
                        shown.write(|| print::line(&as_json(at, &happening)));
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
    counts: HashMap<String, usize>,
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
    pub(crate) fn written(&mut self) -> Result<(), Error> {
        let is_closed = |error: &io::Error| error.kind() == ErrorKind::BrokenPipe;
        match self.unwritten.take_if(|error| !is_closed(error)) {
            Some(error) => Err(Error::Output(error)),
            None => Ok(()),
        }
    }

    /// Formats the counts, such as `12 records: 10 processed, 2 duplicate`.
    pub(crate) fn summary(&self) -> String {
        let counts = self.counts.iter();
        let counts = print::in_words(&counts.map(|(name, count)| (&**name, *count)).collect());
        match self.counts.values().sum() {
            0 => "no records".to_owned(),
            1 => format!("1 record: {counts}"),
            all => format!("{all} records: {counts}"),
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
                if let Some(index) = unnamed.iter().position(|id| *id == record.message_id) {
                    unnamed.remove(index);
                } else if let Some(index) =
                    silent.iter().position(|(id, _)| *id == record.message_id)
                {
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
                let outcome = |id: &String| match answer {
                    Answer::Read { failures } if !failures.contains(id) => "acknowledged",
                    _ => "failed",
                };
                let silent = unnamed.into_iter().map(|id| (outcome(&id), id));
                let silent: Vec<_> = silent.map(|(outcome, id)| (id, outcome)).collect();
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
        let note = |style, text: &str| {
            print::styled_note(style, &format!("{time}  {text}"));
        };
        match happening {
            LocalEvent::Record {
                environment,
                record,
            } => self
                .write(|| print::record(&row(&time, *environment, record), style(&record.outcome))),
            LocalEvent::Logged { line, .. } => print::log_line(line),
            LocalEvent::Answered {
                environment,
                answer,
                ..
            } => {
                let reason = match answer {
                    Answer::Failed { reason } => reason.as_str(),
                    _ => "no record line",
                };
                if let Answer::Failed { reason } = answer {
                    let text = format!("#{environment}  the whole batch comes back: {reason}");
                    note(Style::Bad, &text);
                }
                for (message_id, outcome) in silent {
                    let record = RecordLine {
                        message_id,
                        outcome: outcome.to_owned(),
                        duration_ms: None,
                        reason: Some(reason.to_owned()),
                        key: None,
                        receive_count: None,
                    };
                    self.write(|| {
                        print::record(&row(&time, *environment, &record), style(outcome))
                    });
                }
            }
            LocalEvent::Sent {
                queue, message_id, ..
            } if Some(queue) == self.dead_letters.as_ref() => note(
                Style::Bad,
                &format!("{message_id}  dead letter: sent to {queue}"),
            ),
            LocalEvent::Sent {
                queue, message_id, ..
            } => note(Style::Dim, &format!("{message_id}  sent to {queue}")),
            LocalEvent::DeadLettered { to, message_id, .. } => note(
                Style::Bad,
                &format!("{message_id}  dead letter: received too often, moved to {to}"),
            ),
            LocalEvent::Redriven {
                to,
                message_id,
                new_message_id,
                ..
            } => note(
                Style::Plain,
                &format!("{message_id}  redriven to {to} as {new_message_id}"),
            ),
            LocalEvent::Expired { queue, message_id } => note(
                Style::Bad,
                &format!("{message_id}  is gone: {queue} keeps messages no longer"),
            ),
            LocalEvent::Purged { queue } => note(Style::Plain, &format!("{queue} was purged")),
            LocalEvent::EnvironmentStarted { environment } => {
                note(Style::Dim, &format!("#{environment}  environment started"))
            }
            LocalEvent::EnvironmentEnded {
                environment,
                reason,
            } => note(
                Style::Dim,
                &format!("#{environment}  environment ended: {reason}"),
            ),
            LocalEvent::Fault { what, message_ids } => note(
                Style::Fault,
                &format!("fault: {what}: {}", some(message_ids)),
            ),
            _ => {}
        }
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
    let millis = at
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let (hours, minutes) = (millis / 3_600_000 % 24, millis / 60_000 % 60);
    let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
    format!("{hours:02}:{minutes:02}:{seconds:02}.{millis:03}")
}

/// Formats the event as one JSON object, with the time in milliseconds since 1970.
fn as_json(at: SystemTime, happening: &LocalEvent) -> String {
    let millis = at
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_millis();
    let mut object = json!({"at": u64::try_from(millis).unwrap_or(u64::MAX)});
    // These fields always convert: their names are strings, and their values are types that JSON has.
    if let (Some(object), Ok(Value::Object(fields))) =
        (object.as_object_mut(), serde_json::to_value(happening))
    {
        object.extend(fields);
    }
    print::json_line(&object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn a_record_is_a_line() {
        let record = RecordLine {
            message_id: "m-1".to_owned(),
            outcome: "in_progress".to_owned(),
            duration_ms: Some(12.34),
            reason: Some("another owner".to_owned()),
            key: None,
            receive_count: Some(2),
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
        shown.count(&LocalEvent::Invoked {
            environment: 1,
            request_id: "r".to_owned(),
            queue: "q".to_owned(),
            message_ids: ids.to_vec(),
        });
        let record = RecordLine {
            message_id: "m-2".to_owned(),
            outcome: "processed".to_owned(),
            duration_ms: None,
            reason: None,
            key: None,
            receive_count: None,
        };
        shown.count(&LocalEvent::Record {
            environment: 1,
            record,
        });
        let silent = shown.count(&LocalEvent::Answered {
            environment: 1,
            request_id: "r".to_owned(),
            answer: Answer::Read {
                failures: vec!["m-3".to_owned()],
            },
        });
        let expected = [("m-1", "acknowledged"), ("m-3", "failed")];
        assert_eq!(
            silent,
            expected.map(|(id, outcome)| (id.to_owned(), outcome))
        );
        let summary = "3 records: 1 processed, 1 failed, 1 acknowledged";
        assert_eq!(shown.summary(), summary);
        let late = RecordLine {
            message_id: "m-1".to_owned(),
            outcome: "processed".to_owned(),
            duration_ms: None,
            reason: None,
            key: None,
            receive_count: None,
        };
        shown.count(&LocalEvent::Record {
            environment: 1,
            record: late,
        });
        assert_eq!(shown.summary(), "3 records: 2 processed, 1 failed");
    }

    #[test]
    fn json_says_when_and_what() {
        let at = UNIX_EPOCH + Duration::from_millis(5);
        let happening = LocalEvent::EnvironmentStarted { environment: 1 };
        let expected = json!({"at": 5, "happened": "environment_started", "environment": 1});
        let line: Value = serde_json::from_str(&as_json(at, &happening)).unwrap();
        assert_eq!(line, expected);
    }
}
