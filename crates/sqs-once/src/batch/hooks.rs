//! What the user wants to be called for when a record ends.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::handler::{HandlerError, IdempotencyToken};
use crate::record::Message;
use crate::report::{Outcome, Report};

type HookFuture = Pin<Box<dyn Future<Output = Result<(), HandlerError>> + Send>>;

pub(crate) type Hook = Arc<dyn Fn(RecordEnd) -> HookFuture + Send + Sync>;

/// The hooks of a consumer, where it has any.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) success: Option<Hook>,
    pub(crate) duplicate: Option<Hook>,
    pub(crate) failure: Option<Hook>,
}

pub(crate) fn hook<F, Fut>(hook: F) -> Hook
where
    F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    Arc::new(move |end| Box::pin(hook(end)))
}

/// How a record ended: what the hooks [`on_success`](crate::Consumer::on_success),
/// [`on_duplicate`](crate::Consumer::on_duplicate) and [`on_failure`](crate::Consumer::on_failure)
/// get.
#[derive(Clone)]
pub struct RecordEnd {
    message: Arc<Message>,
    token: Option<IdempotencyToken>,
    report: Report,
    data: Option<Arc<str>>,
}

impl RecordEnd {
    pub(super) fn new(
        message: Arc<Message>,
        token: Option<IdempotencyToken>,
        report: Report,
        data: Option<Arc<str>>,
    ) -> Self {
        Self {
            message,
            token,
            report,
            data,
        }
    }

    pub(super) fn report(&self) -> &Report {
        &self.report
    }

    /// The message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// What the record came to.
    pub fn outcome(&self) -> Outcome {
        self.report.outcome
    }

    /// Whether the message leaves its queue: its effect is done, or it was moved to the dead-letter
    /// queue.
    pub fn is_acknowledged(&self) -> bool {
        self.report.acknowledged
    }

    /// The reason of the outcome, as in the log; `None` without a reason.
    pub fn reason(&self) -> Option<&str> {
        self.report.reason.as_deref()
    }

    /// The token that the event's handler gets; `None` for a record without a usable key.
    pub fn token(&self) -> Option<&IdempotencyToken> {
        self.token.as_ref()
    }

    /// What the handler [recorded](crate::Recorded) with its success; `None` when it recorded nothing.
    ///
    /// # Errors
    /// If the recorded JSON is not a `T`, for example after a change of the type.
    pub fn recorded<T: DeserializeOwned>(&self) -> Result<Option<T>, InvalidRecord> {
        let data = self.data.as_deref().map(serde_json::from_str);
        data.transpose().map_err(|_| InvalidRecord(()))
    }
}

/// The recorded value has another type. The error has no source, because serde's error quotes the value and a hook's error
/// is logged with its sources.
#[derive(Debug, thiserror::Error)]
#[error(
    "what is recorded for the key has another type than asked for: read older results as they were written"
)]
pub struct InvalidRecord(());

/// Shows nothing of what was recorded.
impl fmt::Debug for RecordEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordEnd")
            .field("message", &self.message)
            .field("token", &self.token)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}
