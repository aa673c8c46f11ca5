//! Renews the leases of claims whose code runs on after its invocation.

use std::slice;
use std::time::Duration;

use futures_util::stream::{StreamExt, iter};
use tokio::time::{Instant, sleep};
use tracing::field::display;
use tracing::warn;

use crate::key::ItemId;
use crate::store::{Answers, Owner, Settled, Settlement, Settling, StoreError};
use crate::time::Timestamp;

use super::deadline::{Deadline, answers_until};
use super::driver::{Driver, first_of};

/// How long a lease is after its renewal. A process that dies keeps its keys for so long.
const RENEWED: Duration = Duration::from_secs(10);
/// The pause after a renewal without an answer, and the shortest wait for one.
const PAUSE: Duration = Duration::from_millis(200);
/// The longest time between two looks at clock and code: the clock may be set, or the process frozen.
const PERIOD: Duration = Duration::from_millis(500);
/// How long after the end of an invocation leases are renewed. Code that never returns must not hold its key for ever.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// How long after the end of a claim's own lease its last renewal lapses, at the latest.
pub(super) const LAST_RENEWED: Duration = LONGEST.saturating_add(RENEWED);
/// The most requests in flight. Each renews one claim: that needs no permission that a claim does not need.
const IN_FLIGHT: usize = 32;

impl Deadline {
    /// When code must have ended whose lease was not renewed. The rest of the lease is for clocks that differ.
    pub(crate) fn code_ends_by(&self) -> Timestamp {
        self.left(1, RENEWED)
    }
}

impl Driver {
    /// Renews the leases of claims while their code runs, from the end of their invocation on. Ends with the last code, when
    /// every claim is lost, or after [`LONGEST`]. `running` returns the claims whose code runs. `renewed` receives the time
    /// by which code without another renewal must have ended.
    pub(crate) async fn renew(
        &self,
        deadline: Deadline,
        running: impl Fn() -> Vec<(ItemId, Owner)>,
        renewed: impl Fn(Timestamp),
    ) {
        // Lambda ends most processes before the first renewal. No renewal makes a lease shorter.
        let mut ends_by = deadline.code_ends_by();
        let mut renew_at = deadline.left(2, RENEWED);
        let (mut lost, mut log) = (Vec::new(), Log(""));
        loop {
            let (now, mut claims) = loop {
                let (now, claims) = (self.clock.now(), running());
                if claims.is_empty() {
                    return;
                }
                if now >= renew_at {
                    break (now, claims);
                }
                sleep(renew_at.since(now).min(PERIOD)).await;
            };
            claims.retain(|(_, owner)| !lost.contains(owner));
            if claims.is_empty() {
                return;
            }
            if now >= deadline.ends_at() + LONGEST {
                return log.note(&claims, "15 minutes are over, and its leases lapse", None);
            }
            let limit = (ends_by.since(now) / 3).max(PAUSE);
            let answers = self.renew_once(&claims, now + RENEWED, limit).await;
            let mut failure = None;
            for ((_, owner), answer) in claims.iter().zip(answers) {
                match answer {
                    Ok(Settled::Written) => {}
                    Ok(Settled::Refused(_)) => lost.push(*owner),
                    Err(error) => failure = Some(error),
                }
            }
            renew_at = match failure {
                None => now + RENEWED / 3,
                Some(_) => self.clock.now() + PAUSE,
            };
            let what = match failure {
                _ if !lost.is_empty() => "another worker has one of its keys",
                None => {
                    ends_by = now + RENEWED * 2 / 3;
                    renewed(ends_by);
                    "its leases are renewed"
                }
                Some(_) if self.clock.now() < ends_by => "a lease is not renewed yet",
                Some(_) => "its leases lapse",
            };
            log.note(&claims, what, failure.as_ref());
        }
    }

    async fn renew_once(
        &self,
        claims: &[(ItemId, Owner)],
        lease_until: Timestamp,
        limit: Duration,
    ) -> Answers<Settled> {
        let until = Instant::now() + limit;
        let renewal = |(id, owner): &(ItemId, Owner)| {
            Settlement::new(id.clone(), *owner, Settling::renew(lease_until))
        };
        let renewals: Vec<_> = claims.iter().map(renewal).collect();
        let requests = iter(renewals).map(|renewal| async move {
            let request = self.store.settle(slice::from_ref(&renewal));
            first_of(answers_until(until, 1, request).await)
        });
        requests.buffered(IN_FLIGHT).collect().await
    }
}

/// The last line about the code.
struct Log(&'static str);

impl Log {
    /// Logs what holds for these claims, if it is new.
    fn note(&mut self, claims: &[(ItemId, Owner)], what: &'static str, error: Option<&StoreError>) {
        if self.0 != what {
            let (keys, error) = (claims.len(), error.map(display));
            warn!(target: "sqs_once::lease", keys, error, "code runs on after the end of its invocation: {what}");
            self.0 = what;
        }
    }
}
