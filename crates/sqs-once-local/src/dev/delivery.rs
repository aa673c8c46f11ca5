//! Delivers a batch: invokes an execution environment and applies the response to the messages.

use super::environment::{Environment, with_causes};
use super::environments::Environments;
use super::faults::FaultSource;
use super::settings::PollerSettings;
use crate::local_event::{Answer, LocalEvent, Observers};
use crate::message::{Received, queue_name};
use crate::queue::{Source, event};
use crate::response::BatchResponse;
use crate::runtime_api::InvokeError;
use axum::body::Bytes;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use uuid::Uuid;

pub(super) struct Shared<S> {
    pub(super) source: S,
    pub(super) arn: String,
    pub(super) settings: PollerSettings,
    pub(super) observers: Observers,
    pub(super) faults: FaultSource,
    pub(super) environments: Environments,
    /// Copies of messages to deliver while their first delivery is still in flight.
    pub(super) copies: Mutex<VecDeque<Vec<Received>>>,
}

pub(super) struct Item {
    pub(super) received: Received,
    /// Whether to deliver the message a second time after it succeeds.
    pub(super) again: bool,
}

impl<S: Source> Shared<S> {
    pub(super) fn report_fault(&self, what: &str, message_ids: Vec<String>) {
        self.observers.tell_now(&LocalEvent::Fault {
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
                Some(environment) => self.wait_for_next_event(environment).await,
                None => None,
            };
            batch = again.iter().map(|item| copy(&item.received)).collect();
            let copied = batch.iter().map(|item| item.received.message.id.clone());
            self.report_fault("delivered again after its success", copied.collect());
        }
        if let Some(environment) = environment
            && let Some(environment) = self.wait_for_next_event(environment).await
        {
            self.environments.put(environment);
        }
        Ok(())
    }

    /// Waits until the function asks for its next event, as Lambda does until the timeout.
    async fn wait_for_next_event(&self, environment: Environment) -> Option<Environment> {
        if environment.is_asking_in_time().await {
            return Some(environment);
        }
        let reason = "the function timed out after its answer: code of a handler still runs";
        self.timed_out(environment, reason).await;
        None
    }

    /// Ends an environment, or lets it live on for a requested fault.
    async fn timed_out(&self, environment: Environment, reason: &str) {
        if self.faults.outlives() {
            let message_ids = environment.message_ids.clone();
            self.report_fault("its process outlived its timeout", message_ids);
            self.environments.put(environment);
        } else {
            environment.end(reason).await;
        }
    }

    /// Invokes the function. Returns the environment if it can be reused, and how Lambda interprets the response.
    async fn invoke(
        &self,
        mut environment: Environment,
        messages: &[Received],
    ) -> (Option<Environment>, Answer) {
        let message_ids: Vec<_> = messages.iter().map(|one| one.message.id.clone()).collect();
        if let Some(delay) = self.faults.delay() {
            self.report_fault(&format!("started {delay:.1?} late"), message_ids.clone());
            tokio::time::sleep(delay).await;
        }
        let number = environment.number;
        let request_id = Uuid::new_v4().to_string();
        self.observers.tell_now(&LocalEvent::Invoked {
            environment: number,
            request_id: request_id.clone(),
            queue: queue_name(&self.arn).to_owned(),
            message_ids: message_ids.clone(),
        });
        environment.message_ids.clone_from(&message_ids);
        environment.forget_records();
        let started = Instant::now();
        environment.times_out_at = tokio::time::Instant::now() + self.settings.timeout;
        let payload = event(messages, &self.arn);
        let answered = tokio::select! {
            biased;
            answer = environment.function.invoke_as(&request_id, payload, self.settings.timeout) => Some(answer),
            () = sleep_or_never(self.faults.kill_after()) => None,
        };
        self.faults.took(started.elapsed());
        let (left, answer) = match answered {
            None => {
                self.report_fault("its process was killed", message_ids);
                let reason = "killed by --fault kill";
                environment.end(reason).await;
                (None, failed(reason))
            }
            Some(Ok(_)) if self.faults.drops_response() => {
                environment.wait_for_records(message_ids.clone()).await;
                self.report_fault("its answer was lost", message_ids);
                let answer = failed("answer lost by --fault drop-response");
                (Some(environment), answer)
            }
            Some(Ok(answer)) => {
                environment.wait_for_records(message_ids.clone()).await;
                (Some(environment), self.read(&answer, &message_ids))
            }
            Some(Err(error @ InvokeError::TimedOut { .. })) => {
                let reason = with_causes(&error);
                self.timed_out(environment, &reason).await;
                (None, failed(&reason))
            }
            Some(Err(error)) => {
                let reason = with_causes(&error);
                // Lambda reuses an environment that has answered.
                let has_answered = matches!(
                    error,
                    InvokeError::Function(_) | InvokeError::AnswerTooLarge { .. }
                );
                let left = if has_answered {
                    Some(environment)
                } else {
                    environment.end(&reason).await;
                    None
                };
                (left, failed(&reason))
            }
        };
        self.observers.tell_now(&LocalEvent::Answered {
            environment: number,
            request_id,
            answer: answer.clone(),
        });
        (left, answer)
    }

    fn read(&self, answer: &Bytes, message_ids: &[String]) -> Answer {
        let failures = match BatchResponse::parse(answer, message_ids) {
            _ if !self.settings.reports_failures => Vec::new(),
            Ok(response) => response.failures().to_vec(),
            Err(error) => return failed(&with_causes(&error)),
        };
        Answer::Read { failures }
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
