//! One execution environment: a process and the events that observers receive about it.

use crate::function::Function;
use crate::launch::Launch;
use crate::local_event::{LocalEvent, Observers};
use std::error::Error;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::Instant;

/// How long to wait for the record lines of an answered invocation. They arrive through the process's output,
/// separately from the answer.
const LINES_LIMIT: Duration = Duration::from_millis(100);

pub(super) struct Environment {
    pub(super) number: u32,
    /// The build of the function that this environment runs.
    pub(super) generation: u64,
    pub(super) function: Function,
    /// When the last invocation times out.
    pub(super) times_out_at: Instant,
    /// The messages of the last invocation.
    pub(super) message_ids: Vec<String>,
    observers: Observers,
    /// The message ids of the record lines read so far.
    records: mpsc::UnboundedReceiver<String>,
}

impl Environment {
    /// Starts a process and waits until it asks for its first event. Returns the reason if it does not.
    pub(super) async fn start(
        number: u32,
        generation: u64,
        launch: Launch,
        observers: Observers,
    ) -> Result<Self, String> {
        let (named, records) = mpsc::unbounded_channel();
        let (for_lines, for_records) = (observers.clone(), observers.clone());
        let launch = launch
            .on_line(move |line| {
                for_lines.tell_now(&LocalEvent::Logged {
                    environment: number,
                    line: line.to_owned(),
                });
            })
            .on_record(move |record| {
                // The receiver is gone once the environment has ended.
                let _ = named.send(record.message_id.clone());
                for_records.tell_now(&LocalEvent::Record {
                    environment: number,
                    record,
                });
            });
        let ended = |reason| LocalEvent::EnvironmentEnded {
            environment: number,
            reason,
        };
        observers.tell_now(&LocalEvent::EnvironmentStarted {
            environment: number,
        });
        let function = launch.start().await.map_err(|error| {
            let reason = with_causes(&error);
            observers.tell_now(&ended(reason.clone()));
            reason
        })?;
        if let Err(error) = function.ready().await {
            let reason = with_causes(&error);
            function.stop().await;
            observers.tell_now(&ended(format!("it did not start: {reason}")));
            return Err(reason);
        }
        Ok(Self {
            number,
            generation,
            function,
            times_out_at: Instant::now(),
            message_ids: Vec::new(),
            observers,
            records,
        })
    }

    pub(super) async fn end(self, reason: &str) {
        self.function.stop().await;
        self.observers.tell_now(&LocalEvent::EnvironmentEnded {
            environment: self.number,
            reason: reason.to_owned(),
        });
    }

    /// Waits until the function asks for its next event. Returns whether it has by its timeout.
    pub(super) async fn is_asking_in_time(&self) -> bool {
        let left = self.times_out_at.saturating_duration_since(Instant::now());
        self.function.is_asking_within(left).await
    }

    /// Discards the record lines of the previous invocation.
    pub(super) fn forget_records(&mut self) {
        while self.records.try_recv().is_ok() {}
    }

    /// Waits briefly for a record line for each of these messages. Functions need not write any.
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
        // A timeout is fine: not every function writes record lines.
        let _ = tokio::time::timeout(LINES_LIMIT, all).await;
    }
}

/// Formats an error and its sources on one line.
pub(super) fn with_causes(error: &(dyn Error + 'static)) -> String {
    let errors = std::iter::successors(Some(error), |error| (**error).source());
    let texts: Vec<_> = errors.map(ToString::to_string).collect();
    texts.join(": ")
}
