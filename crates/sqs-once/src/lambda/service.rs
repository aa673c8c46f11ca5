//! The consumer as a service for Lambda's events.

use std::collections::HashSet;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::{Context as Invocation, LambdaEvent};
use tower_service::Service;
use tracing::Instrument;

use crate::consumer::{Consumer, EventError};
use crate::handler::Running;
use crate::record::Message;
use crate::report::Report;
#[cfg(feature = "opentelemetry")]
use crate::telemetry::spans;

use super::event::LenientEvent;

type Answer = Pin<Box<dyn Future<Output = Result<SqsBatchResponse, EventError>> + Send>>;

/// The reports of a batch's messages with their ids, in the event's order.
pub(crate) type Reports = Vec<(Arc<str>, Report)>;

impl Consumer {
    pub(crate) async fn handle(
        &self,
        event: LenientEvent,
        invocation: Invocation,
    ) -> Result<Reports, EventError> {
        let LenientEvent { messages, is_bare } = event;
        if is_bare && !self.is_pipe_target() {
            return Err(EventError::NoRecords);
        }
        if invocation.deadline == 0 {
            return Err(EventError::NoDeadline);
        }
        if let Some(index) = messages.iter().position(|message| message.id().is_empty()) {
            return Err(EventError::NoMessageId { index });
        }
        let ids: Vec<_> = messages.iter().map(Message::shared_id).collect();
        let identity = self.identity().await?;
        let cold_start = identity.is_cold_start();
        let span = identity.span(&invocation, cold_start);
        #[cfg(feature = "opentelemetry")]
        spans::batch_began(&span, &messages, &invocation, cold_start);
        let processed = self.process(messages, invocation, cold_start);
        let entries = processed.instrument(span.clone()).await?;
        #[cfg(feature = "opentelemetry")]
        spans::batch_ended(&span, &entries);
        let reports = entries.into_iter().map(|entry| entry.report);
        Ok(ids.into_iter().zip(reports).collect())
    }

    pub(crate) fn answer(&self, reports: &Reports) -> Result<SqsBatchResponse, EventError> {
        let mut reported = HashSet::new();
        let mut response = SqsBatchResponse::default();
        for (id, report) in reports {
            if !report.is_acknowledged() && reported.insert(id) {
                response.add_failure(&**id);
            }
        }
        Ok(response)
    }

    pub(super) fn respond(&self, event: LenientEvent, invocation: Invocation) -> Answer {
        let consumer = self.clone();
        let answer = async move {
            let reports = consumer.handle(event, invocation).await?;
            consumer.answer(&reports)
        };
        Box::pin(async move {
            if Running::current().is_some() {
                return answer.await;
            }
            // A runtime other than `run` requests the next event as soon as it has the answer.
            let running = Running::default();
            let answered = running.clone().scope(answer).await;
            running.ended().await;
            answered
        })
    }
}

/// Answers an event with the messages to retry. Never returns an answer that Lambda could mistake for success.
impl Service<LambdaEvent<SqsEvent>> for Consumer {
    type Response = SqsBatchResponse;
    type Error = EventError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EventError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<SqsEvent>) -> Answer {
        self.respond(event.payload.into(), event.context)
    }
}
