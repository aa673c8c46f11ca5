//! The consumer as a service of Lambda's events.

use std::collections::HashSet;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use aws_lambda_events::event::sqs::{SqsBatchResponse, SqsEvent};
use lambda_runtime::LambdaEvent;
use tower_service::Service;

use crate::batch::Report;
use crate::consumer::Consumer;
use crate::time::Timestamp;

use super::event::{self, EventError, LenientEvent};

type Answer = Pin<Box<dyn Future<Output = Result<SqsBatchResponse, EventError>> + Send>>;

/// What became of a batch's records, with their message ids, in the event's order.
pub(crate) type Reports = Vec<(String, Report)>;

impl Consumer {
    /// Handles an event, record by record.
    pub(crate) async fn handle(&self, event: LambdaEvent<SqsEvent>) -> Result<Reports, EventError> {
        let (event, context) = event.into_parts();
        if context.deadline == 0 {
            return Err(EventError::NoDeadline);
        }
        let messages = event::messages(event)?;
        let ids: Vec<_> = messages
            .iter()
            .map(|message| message.id().to_owned())
            .collect();
        let ends_at = Timestamp::from_millis(context.deadline);
        let reports = self.process(messages, ends_at).await?;
        Ok(ids.into_iter().zip(reports).collect())
    }

    /// What Lambda is told of it.
    pub(crate) fn answer(&self, reports: &Reports) -> Result<SqsBatchResponse, EventError> {
        let nothing_done = reports.iter().all(|(_, report)| !report.acknowledged);
        let tried = reports.iter().any(|(_, report)| report.has_failed());
        if self.raises_on_total_failure() && nothing_done && tried {
            let records = reports.len();
            return Err(EventError::EveryRecordFailed { records });
        }

        let mut reported = HashSet::new();
        let mut response = SqsBatchResponse::default();
        for (id, report) in reports {
            if !report.acknowledged && reported.insert(id) {
                response.add_failure(id.clone());
            }
        }
        Ok(response)
    }
}

/// Answers an event with the records to retry, never with anything that Lambda takes for success.
impl Service<LambdaEvent<SqsEvent>> for Consumer {
    type Response = SqsBatchResponse;
    type Error = EventError;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), EventError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, event: LambdaEvent<SqsEvent>) -> Answer {
        let consumer = self.clone();
        Box::pin(async move { consumer.answer(&consumer.handle(event).await?) })
    }
}

/// The consumer under [`run`](super::run()): reads events record by record.
#[derive(Clone)]
pub(super) struct Lenient(pub(super) Consumer);

impl Service<LambdaEvent<LenientEvent>> for Lenient {
    type Response = SqsBatchResponse;
    type Error = EventError;
    type Future = Answer;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), EventError>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, event: LambdaEvent<LenientEvent>) -> Answer {
        let LambdaEvent {
            payload, context, ..
        } = event;
        self.0.call(LambdaEvent::new(payload.0, context))
    }
}
