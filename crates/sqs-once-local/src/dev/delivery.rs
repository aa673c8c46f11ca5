//! Delivers a batch: invokes an execution environment and applies the response to the messages.

use super::Observers;
use super::environment::{Environment, with_causes};
use super::faults::Fate;
use super::settings::PollerSettings;
use super::warm::Warm;
use crate::local_event::{Answer, LocalEvent};
use crate::queue::{Received, Source, event};
use crate::response::BatchResponse;
use crate::runtime_api::InvokeError;
use axum::body::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use uuid::Uuid;

/// The state that all deliveries share.
pub(super) struct Shared<S> {
    pub(super) source: S,
    pub(super) arn: String,
    pub(super) settings: PollerSettings,
    pub(super) observers: Observers,
    pub(super) fate: Fate,
    pub(super) warm: Warm,
    /// Copies of messages to deliver while their first delivery is still in flight.
    pub(super) copies: Mutex<VecDeque<Vec<Received>>>,
}

/// A message of a batch.
pub(super) struct Item {
    pub(super) received: Received,
    /// Whether to deliver the message a second time after it succeeds.
    pub(super) again: bool,
}

impl<S: Source> Shared<S> {
    pub(super) fn copies(&self) -> MutexGuard<'_, VecDeque<Vec<Received>>> {
        self.copies.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn queue(&self) -> &str {
        self.arn.rsplit(':').next().unwrap_or_default()
    }

    /// Reports an injected fault to the observers.
    pub(super) fn done_to(&self, what: &str, message_ids: Vec<String>) {
        self.observers.tell(&LocalEvent::Fault {
            what: what.to_owned(),
            message_ids,
        });
    }

    /// Invokes an environment with a batch, then deletes the messages that succeeded.
    pub(super) async fn deliver(
        &self,
        environment: Environment,
        mut batch: Vec<Item>,
    ) -> Result<(), S::Error> {
        let mut environment = Some(environment);
        while let Some(one) = environment.take() {
            let messages: Vec<_> = batch.iter().map(|item| item.received.clone()).collect();
            let (left, answer) = self.invoke(one, &messages).await;
            environment = left;
            let Answer::Read { failures } = answer else {
                break;
            };
            let succeeded = |item: &Item| !failures.contains(&item.received.message.id);
            let (again, done): (Vec<_>, Vec<_>) = batch
                .into_iter()
                .filter(succeeded)
                .partition(|item| item.again);
            let done: Vec<_> = done.into_iter().map(|item| item.received).collect();
            self.source.delete(&done).await?;
            if again.is_empty() {
                break;
            }
            environment = match environment {
                Some(environment) => environment.for_next_event().await,
                None => None,
            };
            batch = again.iter().map(|item| copy(&item.received)).collect();
            let copied = batch.iter().map(|item| item.received.message.id.clone());
            self.done_to("delivered again after its success", copied.collect());
        }
        if let Some(environment) = environment
            && let Some(environment) = environment.for_next_event().await
        {
            self.warm.put(environment);
        }
        Ok(())
    }

    /// Invokes the function. Returns the environment if it can be reused, and how Lambda interprets the response.
    async fn invoke(
        &self,
        mut environment: Environment,
        messages: &[Received],
    ) -> (Option<Environment>, Answer) {
        let message_ids: Vec<_> = messages.iter().map(|one| one.message.id.clone()).collect();
        if let Some(delay) = self.fate.delay() {
            self.done_to(&format!("started {delay:.1?} late"), message_ids.clone());
            tokio::time::sleep(delay).await;
        }
        let number = environment.number;
        let request_id = Uuid::new_v4().to_string();
        self.observers.tell(&LocalEvent::Invoked {
            environment: number,
            request_id: request_id.clone(),
            queue: self.queue().to_owned(),
            message_ids: message_ids.clone(),
        });
        environment.forget_records();
        let started = Instant::now();
        environment.times_out_at = tokio::time::Instant::now() + self.settings.timeout;
        let payload = event(messages, &self.arn);
        let answered = tokio::select! {
            biased;
            answer = environment.function.invoke_as(&request_id, payload, self.settings.timeout) => Some(answer),
            () = sleep_or_never(self.fate.kill_after()) => None,
        };
        self.fate.took(started.elapsed());
        let (left, answer) = match answered {
            None => {
                self.done_to("its process was killed", message_ids);
                environment
                    .end("killed by a fault that was asked for")
                    .await;
                (
                    None,
                    failed("the process was killed by a fault that was asked for"),
                )
            }
            Some(Ok(_)) if self.fate.drops_response() => {
                environment.wait_for_records(message_ids.clone()).await;
                self.done_to("its answer was lost", message_ids);
                (
                    Some(environment),
                    failed("the answer was lost by a fault that was asked for"),
                )
            }
            Some(Ok(answer)) => {
                environment.wait_for_records(message_ids.clone()).await;
                (Some(environment), self.read(&answer, &message_ids))
            }
            Some(Err(error)) => {
                let reason = with_causes(&error);
                (after(environment, &error, &reason).await, failed(&reason))
            }
        };
        self.observers.tell(&LocalEvent::Answered {
            environment: number,
            request_id,
            answer: answer.clone(),
        });
        (left, answer)
    }

    fn read(&self, answer: &Bytes, message_ids: &[String]) -> Answer {
        if !self.settings.reports_failures {
            return Answer::Read {
                failures: Vec::new(),
            };
        }
        match BatchResponse::parse(answer, message_ids) {
            Ok(response) => Answer::Read {
                failures: response.failures().to_vec(),
            },
            Err(error) => failed(&with_causes(&error)),
        }
    }
}

/// Returns the environment if it survives a failed invocation; ends it otherwise.
async fn after(environment: Environment, error: &InvokeError, reason: &str) -> Option<Environment> {
    match error {
        InvokeError::Function(_) | InvokeError::AnswerTooLarge { .. } => Some(environment),
        _ => {
            environment.end(reason).await;
            None
        }
    }
}

/// The next delivery of the same message, with its receive count raised by one.
pub(super) fn copy(received: &Received) -> Item {
    Item {
        received: Received {
            receive_count: received.receive_count + 1,
            ..received.clone()
        },
        again: false,
    }
}

fn failed(reason: &str) -> Answer {
    Answer::Failed {
        reason: reason.to_owned(),
    }
}

async fn sleep_or_never(time: Option<Duration>) {
    match time {
        Some(time) => tokio::time::sleep(time).await,
        None => std::future::pending().await,
    }
}
