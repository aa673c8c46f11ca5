//! Retries of requests to the store, above the SDK's own.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use crate::store::{StoreError, StoreErrorKind};

use super::settle::{PendingSettlement, Sent};

/// The most attempts to claim a key that is free again after each refusal.
const TRIES: usize = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(25);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// Whether and when one claim or one settlement is sent again.
pub(crate) struct Retries {
    until: Instant,
    /// How often it is sent, at most, if an error follows each time.
    tries: usize,
    /// How often in a row the key was free again after it refused the claim.
    free: usize,
    /// The pause before the next retry. It doubles each time, up to one second.
    next: Duration,
}

/// The pause before a retry.
pub(crate) struct Pause {
    longest: Duration,
    until: Instant,
}

impl Retries {
    pub(crate) fn new(until: Instant) -> Self {
        Self {
            until,
            tries: usize::MAX,
            free: 0,
            next: FIRST_PAUSE,
        }
    }

    pub(crate) fn at_most(self, tries: usize) -> Self {
        Self { tries, ..self }
    }

    /// Ends the retries earlier.
    pub(crate) fn end_within(&mut self, longest: Duration) {
        let until = Instant::now().checked_add(longest);
        self.until = until.map_or(self.until, |until| until.min(self.until));
    }

    /// Returns the answer to a claim, or `None` if it is sent again at once, because its key is free again.
    pub(crate) fn decided<T>(
        &mut self,
        answer: Result<Option<T>, StoreError>,
    ) -> Option<Result<T, StoreError>> {
        let decided = answer.transpose();
        if decided.is_none() && self.at_once() {
            return None;
        }
        self.free = 0;
        Some(decided.unwrap_or_else(|| Err(contended())))
    }

    /// Returns whether a claim is sent again at once, because its key is free again.
    pub(crate) fn at_once(&mut self) -> bool {
        self.free += 1;
        self.free < TRIES
    }

    /// Returns the pause after an answer, or `None` if it is not a transient error or the pause could end too late.
    pub(crate) fn after_error<T>(&mut self, answer: &Result<T, StoreError>) -> Option<Pause> {
        let error = answer.as_ref().err()?;
        self.tries -= 1;
        let may_help = self.tries > 0 && error.is_transient();
        (may_help && Instant::now() + self.next < self.until).then(|| self.pause())
    }

    /// Returns the pause while another worker has the key, or `None` if the time is over.
    pub(crate) fn while_held(&mut self) -> Option<Pause> {
        (Instant::now() < self.until).then(|| self.pause())
    }

    fn pause(&mut self) -> Pause {
        let (longest, until) = (self.next, self.until);
        self.next = (self.next * 2).min(LONGEST_PAUSE);
        Pause { longest, until }
    }

    /// Sends a settlement until it is answered. `send` also returns random bits for a pause.
    pub(crate) async fn settle<S>(
        mut self,
        mut ending: PendingSettlement,
        send: impl Fn(PendingSettlement) -> S,
    ) -> Sent
    where
        S: Future<Output = (Sent, u128)>,
    {
        let commits_work = ending.commits_work();
        let mut unanswered = None;
        loop {
            let (mut sent, bits) = send(ending).await;
            if let Err(error) = &sent.answer
                && commits_work
            {
                match (error.kind(), &unanswered) {
                    (StoreErrorKind::Unanswered, _) => unanswered = Some(error.clone()),
                    // Only the store itself can refuse the work for good.
                    (StoreErrorKind::Other, _) | (_, None) => {}
                    // It does not tell whether the earlier copy was carried out.
                    (_, Some(earlier)) => sent.answer = Err(earlier.clone()),
                }
            }
            match (self.after_error(&sent.answer), sent) {
                (
                    Some(pause),
                    Sent {
                        again: Some(again), ..
                    },
                ) => {
                    pause.ends(bits).await;
                    ending = again;
                }
                (_, sent) => return sent,
            }
        }
    }
}

impl Pause {
    /// Waits for a random time between half of the pause and all of it, so that workers that were throttled together do not
    /// retry together.
    pub(crate) async fn ends(self, bits: u128) {
        let half = self.longest / 2;
        let nanos = u128::max(half.as_nanos(), 1);
        let extra = u64::try_from(bits % nanos).unwrap_or(0);
        let ends_at = Instant::now() + half + Duration::from_nanos(extra);
        sleep_until(ends_at.min(self.until)).await;
    }
}

/// The error for a key that was free again after each of [`TRIES`] attempts to claim it.
pub(crate) fn contended() -> StoreError {
    StoreError::new(
        StoreErrorKind::Throttled,
        "other workers claim and release this key faster than it can be claimed",
    )
}
