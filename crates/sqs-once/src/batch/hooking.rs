//! The user's hooks at the end of records. A hook after a success or a duplicate can fail its record; a hook after a
//! failure changes nothing.

use std::collections::VecDeque;
use std::num::NonZeroUsize;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, timeout_at};
use tracing::{Instrument, Span, warn};

use crate::handler::{Done, HandlerFuture, Running};
use crate::report::{Outcome, Report};

use super::handling::{Failure, Handling};
use super::hooks::{Hook, Hooks, RecordEnd};

/// A record whose hook has ended.
pub(super) struct Hooked {
    pub(super) record: usize,
    /// What the record came to before its hook.
    pub(super) report: Report,
    pub(super) result: Result<(), Failure>,
}

struct Call<'a> {
    record: usize,
    hook: &'a Hook,
    end: RecordEnd,
    span: Span,
}

pub(super) struct Hooking<'a> {
    hooks: &'a Hooks,
    limit: NonZeroUsize,
    running_of_batch: Running,
    /// From here on none is polled.
    until: Instant,
    waiting: VecDeque<Call<'a>>,
    running: FuturesUnordered<BoxFuture<'a, Hooked>>,
}

impl<'a> Hooking<'a> {
    /// `limit` is how many hooks run at once.
    pub(super) fn new(
        hooks: &'a Hooks,
        limit: NonZeroUsize,
        running_of_batch: Running,
        until: Instant,
    ) -> Self {
        Self {
            hooks,
            limit,
            running_of_batch,
            until,
            waiting: VecDeque::new(),
            running: FuturesUnordered::new(),
        }
    }

    /// The hook for records that end so.
    pub(super) fn of(&self, outcome: Outcome) -> Option<&'a Hook> {
        match outcome {
            Outcome::Processed => self.hooks.success.as_ref(),
            Outcome::Duplicate => self.hooks.duplicate.as_ref(),
            Outcome::Failed | Outcome::Terminal => self.hooks.failure.as_ref(),
            Outcome::Ignored | Outcome::InProgress => None,
        }
    }

    pub(super) fn push(&mut self, record: usize, hook: &'a Hook, end: RecordEnd, span: Span) {
        self.waiting.push_back(Call {
            record,
            hook,
            end,
            span,
        });
        self.start();
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running.is_empty()
    }

    /// The next hook that ends, where it decides its record's outcome; pending for ever when there is
    /// none.
    pub(super) async fn next(&mut self) -> Option<Hooked> {
        let Some(hooked) = self.running.next().await else {
            return std::future::pending().await;
        };
        self.start();
        (!hooked.report.has_failed()).then_some(hooked)
    }

    fn start(&mut self) {
        while self.running.len() < self.limit.get() {
            let Some(call) = self.waiting.pop_front() else {
                return;
            };
            let Call {
                record,
                hook,
                end,
                span,
            } = call;
            let until = self.until;
            let report = end.report().clone();
            let call = move |_: Instant| -> HandlerFuture {
                let hook = hook(end);
                Box::pin(async move { hook.await.map(|()| Done::default()) })
            };
            let running = self.running_of_batch.part();
            let handling = Handling::new(call, running.clone(), until, None);
            let hooked = async move {
                let ended = timeout_at(until, running.scope(handling)).await;
                let result = ended.unwrap_or(Err(Failure::Deadline)).map(|_| ());
                if let (true, Err(failure)) = (report.has_failed(), &result) {
                    warn!(
                        reason = failure.to_string(),
                        "a failure hook failed, which changes nothing"
                    );
                }
                Hooked {
                    record,
                    report,
                    result,
                }
            };
            self.running.push(Box::pin(hooked.instrument(span)));
        }
    }
}
