//! One execution environment: a process, and what is told of it.

use super::Observers;
use crate::function::Function;
use crate::launch::Launch;
use crate::local_event::LocalEvent;
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long the record lines of an answered invocation are waited for: they come by another way than the answer.
const LINES_LIMIT: Duration = Duration::from_millis(100);

pub(super) struct Environment {
    pub(super) number: u32,
    /// Which build of the function it runs.
    pub(super) generation: u64,
    pub(super) function: Function,
    /// When the last invocation has its timeout.
    pub(super) times_out_at: Instant,
    observers: Observers,
    /// The messages that record lines have named.
    records: mpsc::UnboundedReceiver<String>,
}

impl Environment {
    /// Starts a process and waits until it asks for its first event; says why if it does not.
    pub(super) async fn start(
        number: u32,
        generation: u64,
        launch: Launch,
        observers: Observers,
    ) -> Result<Self, String> {
        let (named, records) = mpsc::unbounded_channel();
        let (of_lines, of_records) = (observers.clone(), observers.clone());
        let launch = launch
            .on_line(move |line| {
                of_lines.tell(&LocalEvent::Logged {
                    environment: number,
                    line: line.to_owned(),
                });
            })
            .on_record(move |record| {
                // An environment that has ended waits for no record lines.
                let _ = named.send(record.message_id.clone());
                of_records.tell(&LocalEvent::Record {
                    environment: number,
                    record,
                });
            });
        let ended = |reason: String| LocalEvent::EnvironmentEnded {
            environment: number,
            reason,
        };
        observers.tell(&LocalEvent::EnvironmentStarted {
            environment: number,
        });
        let function = match launch.start().await {
            Ok(function) => function,
            Err(error) => {
                let reason = with_causes(&error);
                observers.tell(&ended(reason.clone()));
                return Err(reason);
            }
        };
        if let Err(error) = function.ready().await {
            let reason = with_causes(&error);
            function.stop().await;
            observers.tell(&ended(format!("it did not start: {reason}")));
            return Err(reason);
        }
        Ok(Self {
            number,
            generation,
            function,
            times_out_at: Instant::now(),
            observers,
            records,
        })
    }

    /// Kills the process and waits until it has ended.
    pub(super) async fn end(self, reason: &str) {
        self.function.stop().await;
        self.observers.tell(&LocalEvent::EnvironmentEnded {
            environment: self.number,
            reason: reason.to_owned(),
        });
    }

    /// Waits until the function asks for its next event. As on Lambda, a function that has not at its timeout is ended.
    pub(super) async fn for_next_event(self) -> Option<Self> {
        let left = self.times_out_at.saturating_duration_since(Instant::now());
        if self.function.is_asking_within(left).await {
            return Some(self);
        }
        self.end("the function timed out after its answer: code of a handler still runs")
            .await;
        None
    }

    /// Forgets the record lines of the invocation before.
    pub(super) fn forget_records(&mut self) {
        while self.records.try_recv().is_ok() {}
    }

    /// Waits until a record line has come for each of these messages, for a moment: there may be none.
    pub(super) async fn wait_for_records(&mut self, mut message_ids: Vec<String>) {
        let all = async {
            while !message_ids.is_empty() {
                let Some(named) = self.records.recv().await else {
                    return;
                };
                if let Some(index) = message_ids.iter().position(|id| *id == named) {
                    message_ids.swap_remove(index);
                }
            }
        };
        // That they don't come is as good: nobody has to write any.
        let _ = tokio::time::timeout(LINES_LIMIT, all).await;
    }
}

/// An error and what it is because of, in one line.
pub(super) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}
