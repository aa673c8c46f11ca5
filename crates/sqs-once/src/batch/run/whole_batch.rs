//! A batch handler's call: it gets all records at once, when each is either claimed or has ended.

use std::collections::{BTreeMap, HashMap, HashSet};

use tokio::time::Instant;
use tracing::{Instrument, error_span};

use crate::guarded::caught;
use crate::handler::{BatchCall, BatchParts, Done, HandlerError, Work};
use crate::report::Report;

use super::super::handling::{Failure, Handling};
use super::ending::BEHIND_FAILED;
use super::{Finished, Run, Startable, timed};

pub(super) const TOO_LATE: &str = "its key could not be claimed in half of the batch's time";
const BEHIND_UNDECIDED: &str =
    "an earlier record of its message group was not decided in half of the batch's time";
const OUT_OF_ORDER: &str = "it succeeded behind a record of its message group that failed";

/// The one call that gets all records of a batch.
pub(super) struct Together<'a> {
    /// None once it is made.
    call: Option<BatchCall<'a, ()>>,
    /// From here on no key is asked for again.
    pub(super) claims_until: Instant,
    /// Whether the call is made without what is still undecided.
    pub(super) claims_over: bool,
}

impl<'a> Together<'a> {
    /// The claims may take half of the time that is left, so that the handler has the other half.
    pub(super) fn new(call: BatchCall<'a, ()>, cancel_at: Instant) -> Self {
        let now = Instant::now();
        Self {
            call: Some(call),
            claims_until: now + cancel_at.saturating_duration_since(now) / 2,
            claims_over: false,
        }
    }

    /// When the time for claims ends; none once it is over.
    pub(super) fn claims_until(&self) -> Option<Instant> {
        (!self.claims_over).then_some(self.claims_until)
    }
}

impl Run<'_> {
    /// Returns what is not asked for yet when the time for claims is over.
    pub(super) fn return_unclaimed(&mut self) {
        let Some(together) = &mut self.together else {
            return;
        };
        if !together.claims_over && Instant::now() >= together.claims_until {
            together.claims_over = true;
            for record in self.lanes.drain() {
                self.end(record, Report::untried(TOO_LATE));
            }
        }
    }

    /// Makes the call, once nothing is undecided any more or the time for that is over. A claimer that has
    /// nothing to do was asked for all there is.
    pub(super) fn start_together(&mut self) {
        let is_decided = self.claimer.is_idle() && self.is_order_decided();
        let claims_over = self.together.as_ref().is_some_and(|call| call.claims_over);
        if !is_decided && !claims_over {
            return;
        }
        let startables = self.take_startables();
        if startables.is_empty() {
            return;
        }
        let Some(batch_call) = self
            .together
            .as_mut()
            .and_then(|together| together.call.take())
        else {
            return;
        };
        let mut claims = Vec::with_capacity(startables.len());
        let mut records = Vec::with_capacity(startables.len());
        for mut startable in startables {
            if let Some(Work::Join(payload)) = startable.work.take() {
                let record = startable.record;
                let (owned, parts) = self.hand_over(startable);
                claims.push((record, owned));
                records.push((payload, parts));
            }
        }
        let span = error_span!("batch", records = records.len());
        let call = move |cancelled_at| {
            let state = ();
            batch_call(
                records,
                BatchParts {
                    cancelled_at,
                    state,
                },
            )
        };
        let limit = self.engine.record_timeout;
        let running = self.running.part();
        let handling = Handling::new(call, running.clone(), self.deadline.cancel_at, limit);
        let ledger = self.ledger;
        let finished = async move {
            let finished = |((record, owned), result)| Finished {
                record,
                owned,
                result,
            };
            match timed(ledger, running.scope(handling)).await {
                Ok(results) => {
                    let results = results.into_iter().map(told);
                    claims.into_iter().zip(results).map(finished).collect()
                }
                Err(failure) => {
                    let failures = std::iter::repeat_with(|| Err(failure.clone()));
                    claims.into_iter().zip(failures).map(finished).collect()
                }
            }
        };
        self.calls.push(Box::pin(finished.instrument(span)));
    }

    /// Whether every record has ended, is claimed, or follows a claimed one. Until then a pending dead letter or a hook may
    /// stop a group.
    fn is_order_decided(&self) -> bool {
        !self.ledger.is_fifo()
            || self.ledger.open() == self.claimed.len() + self.records.followers()
    }

    /// The claimed records, in the batch's order. No record of a FIFO message group runs after one that stops its group, or
    /// may stop it.
    fn take_startables(&mut self) -> Vec<Startable> {
        let claimed = std::mem::take(&mut self.claimed).into_iter();
        let mut claimed: BTreeMap<_, _> = claimed.map(|one| (one.record, one)).collect();
        if !self.ledger.is_fifo() {
            return claimed.into_values().collect();
        }
        let ledger = self.ledger;
        // Ends the rest of each stopped group.
        let mut stopped = HashMap::new();
        for (record, message) in ledger.messages().iter().enumerate() {
            let group = message.group_id();
            if let Some(report) = ledger.outcome(record) {
                if !self.group_goes_on(&report) {
                    let behind = Report::untried(BEHIND_FAILED).wait(report.wait);
                    stopped.entry(group).or_insert(behind);
                }
            } else if let Some(report) = stopped.get(&group) {
                if let Some(behind) = claimed.remove(&record) {
                    self.release(behind.owned.as_ref().map(|owned| &owned.claim));
                    self.end(record, report.clone());
                }
            } else if !claimed.contains_key(&self.records.leader_of(record)) {
                stopped.insert(group, Report::untried(BEHIND_UNDECIDED));
            }
        }
        claimed.into_values().collect()
    }

    /// Ends the records of a call, in their order.
    pub(super) fn finished_together(&mut self, finished: Vec<Finished>) {
        let messages = self.ledger.messages();
        let mut failed = HashSet::new();
        for one in finished {
            let group = messages[one.record].group_id();
            if one.result.is_err() {
                failed.insert(group);
            } else if self.ledger.is_fifo() && failed.contains(&group) {
                let warnings = &mut self.records[one.record].warnings;
                warnings.push(OUT_OF_ORDER.to_owned());
            }
            self.finished(one);
        }
    }
}

/// What the handler said of one record. An error's text is the user's code, and may panic.
fn told(result: Result<Done, HandlerError>) -> Result<Done, Failure> {
    result.map_err(|error| {
        caught(move || Failure::of(&error)).unwrap_or_else(|reason| Failure::Panic { reason })
    })
}
