//! The user's hooks, and the end of a record that they receive.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span, warn};

use crate::handler::{CallFuture, HandlerError, IdempotencyToken, Running};
use crate::idempotency::Until;
use crate::record::Message;
use crate::report::{Code, Outcome, Report};

use super::error_rules::ErrorRules;
use super::handling::{Failure, Handling};

pub(crate) type Hook = Arc<dyn Fn(RecordEnd) -> CallFuture<()> + Send + Sync>;

#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) done: Option<Hook>,
    pub(crate) failure: Option<Hook>,
}

impl Hooks {
    /// Returns the hooks of a route: its own, then those of its router.
    pub(crate) fn within(&self, router: &Self) -> Self {
        let or = |own: &Option<Hook>, outer: &Option<Hook>| own.clone().or_else(|| outer.clone());
        Self {
            done: or(&self.done, &router.done),
            failure: or(&self.failure, &router.failure),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.done.is_none() && self.failure.is_none()
    }

    pub(super) fn hook_for(&self, outcome: Outcome) -> Option<&Hook> {
        match outcome {
            Outcome::Processed | Outcome::Duplicate => self.done.as_ref(),
            Outcome::Failed | Outcome::Terminal => self.failure.as_ref(),
            Outcome::Ignored | Outcome::InProgress => None,
        }
    }
}

pub(super) struct HookCall<'a> {
    pub(super) hook: &'a Hook,
    pub(super) end: RecordEnd,
    pub(super) span: Span,
    pub(super) errors: &'a ErrorRules,
}

impl HookCall<'_> {
    /// A hook after a success or a duplicate can fail its record; a hook after a failure changes nothing.
    pub(super) async fn run(self, running: Running, until: Until<'_>) -> Result<(), Failure> {
        let (hook, end) = (self.hook, self.end);
        let has_failed = end.report.has_failed();
        let handling = Handling::new(
            move |_: Instant| hook(end),
            running.clone(),
            until,
            None,
            self.errors,
        );
        let hooked = async move {
            let ended = timeout_at(until.at, running.scope(handling)).await;
            let result = ended.unwrap_or(Err(Failure::Deadline));
            if let (true, Err(failure)) = (has_failed, &result) {
                warn!(
                    reason = failure.to_string(),
                    "a failure hook failed, which changes nothing"
                );
            }
            result
        };
        hooked.instrument(self.span).await
    }
}

pub(crate) fn hook<F, Fut>(hook: F) -> Hook
where
    F: Fn(RecordEnd) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), HandlerError>> + Send + 'static,
{
    Arc::new(move |end| Box::pin(hook(end)))
}

/// The end of a message: the argument of the hooks [`on_done`](crate::Handler::on_done) and
/// [`on_failure`](crate::Handler::on_failure).
#[derive(Clone)]
pub struct RecordEnd {
    pub(super) message: Arc<Message>,
    pub(super) token: Option<IdempotencyToken>,
    pub(super) report: Report,
    pub(super) data: Option<Arc<str>>,
}

impl RecordEnd {
    /// Returns the message.
    pub fn message(&self) -> &Message {
        &self.message
    }

    /// Returns the outcome of the message, as in the log.
    pub fn outcome(&self) -> Outcome {
        self.report.outcome()
    }

    /// Returns whether the message leaves its queue, because its effect is done or it was moved to the dead-letter queue.
    pub fn is_acknowledged(&self) -> bool {
        self.report.is_acknowledged()
    }

    /// Returns the reason of the outcome, as in the log; `None` without a reason.
    pub fn reason(&self) -> Option<&str> {
        self.report.reason()
    }

    /// Returns the code of the reason, as in the log, such as `lease-lost`; `None` without a reason. The
    /// [guide](crate::guide::troubleshooting) lists them.
    pub fn code(&self) -> Option<&'static str> {
        self.report.code().map(Code::as_str)
    }

    /// Returns the token that the handler of this event receives; `None` for a message without a usable key.
    pub fn token(&self) -> Option<&IdempotencyToken> {
        self.token.as_ref()
    }

    /// Returns the value of the key's [completion](crate::Completion), or `None` if the handler returned none.
    ///
    /// # Errors
    /// If the stored JSON is not a `T`, for example after a change of the type.
    pub fn completion<T: DeserializeOwned>(&self) -> Result<Option<T>, HandlerError> {
        let data = self.data.as_deref().map(serde_json::from_str);
        data.transpose().map_err(|_| HandlerError::from(MISFIT))
    }
}

/// serde's own error quotes the value, and a hook's error is logged with its sources.
const MISFIT: &str = "the value in the completion does not fit the type that the hook reads: an earlier version may \
     have stored another type";

/// Omits the completion's value.
impl fmt::Debug for RecordEnd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecordEnd")
            .field("message", &self.message)
            .field("token", &self.token)
            .field("report", &self.report)
            .finish_non_exhaustive()
    }
}
