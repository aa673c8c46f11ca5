//! Renews the leases of claims whose code runs on after its invocation.

use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::key::ItemId;
use crate::store::{Owner, Settled, Settlement, Settling};
use crate::time::Timestamp;

use super::deadline::{Deadline, answers_until};
use super::driver::{Driver, all_of};

/// How long a lease is after its renewal. A process that dies keeps its keys for so long.
const RENEWED: Duration = Duration::from_secs(10);
/// The pause after a renewal without an answer, and the longest time between two looks at the clock: it may be set, or the process
/// may be frozen.
const PAUSE: Duration = Duration::from_millis(500);
/// How long after the end of an invocation leases are renewed. Code that never returns must not hold its key for ever.
const LONGEST: Duration = Duration::from_secs(15 * 60);
/// The most renewals in a request.
const IN_A_REQUEST: usize = 25;

impl Driver {
    /// Renews the leases of claims while their code runs, from the end of their invocation on. Ends with the last code, when every
    /// claim is lost, or after [`LONGEST`]. `running` returns the claims whose code runs. `renewed` receives the time by which
    /// code must have ended that has no other renewal.
    pub(crate) async fn renew(
        &self,
        deadline: Deadline,
        running: impl Fn() -> Vec<(ItemId, Owner)>,
        renewed: impl Fn(Timestamp),
    ) {
        // Lambda ends most processes before the first renewal.
        let mut renew_at = deadline.first_renewal();
        let (mut lease_until, mut lost) = (deadline.lease_until, Vec::new());
        let mut log = Log("");
        loop {
            let now = self.wait_until(renew_at).await;
            let mut claims = running();
            claims.retain(|(_, owner)| !lost.contains(owner));
            if claims.is_empty() {
                return;
            }
            if now >= deadline.ends_at() + LONGEST {
                return log.note(&claims, "15 minutes are over, and its leases lapse");
            }
            let lost_before = lost.len();
            let is_answered = self.renew_once(&claims, now + RENEWED, &mut lost).await;
            let ended = self.clock.now();
            if is_answered {
                (lease_until, renew_at) = (now + RENEWED, now + RENEWED / 3);
            } else {
                renew_at = ended + PAUSE;
            }
            if lost.len() > lost_before {
                log.note(&claims, "another worker has one of its keys");
            } else if is_answered {
                renewed(now + RENEWED * 2 / 3);
                log.note(&claims, "its leases are renewed");
            } else if ended >= lease_until {
                log.note(
                    &claims,
                    "its leases lapse, because the store does not answer",
                );
            }
        }
    }

    async fn wait_until(&self, at: Timestamp) -> Timestamp {
        loop {
            let now = self.clock.now();
            if now >= at {
                return now;
            }
            sleep(at.since(now).min(PAUSE)).await;
        }
    }

    /// Returns whether every claim is renewed, or lost for good.
    async fn renew_once(
        &self,
        claims: &[(ItemId, Owner)],
        lease_until: Timestamp,
        lost: &mut Vec<Owner>,
    ) -> bool {
        let mut is_answered = true;
        for claims in claims.chunks(IN_A_REQUEST) {
            let settlements: Vec<_> = claims
                .iter()
                .map(|(id, owner)| {
                    Settlement::new(id.clone(), *owner, Settling::renew(lease_until))
                })
                .collect();
            let request = self.store.settle(&settlements);
            let answers = answers_until(Instant::now() + RENEWED / 3, claims.len(), request).await;
            for ((_, owner), answer) in claims.iter().zip(all_of(claims.len(), answers)) {
                match answer {
                    Ok(Settled::Written) => {}
                    Ok(Settled::Refused(_)) => lost.push(*owner),
                    Err(_) => is_answered = false,
                }
            }
        }
        is_answered
    }
}

/// The last line about the code.
struct Log(&'static str);

impl Log {
    /// Logs what holds for these claims, if it is new.
    fn note(&mut self, claims: &[(ItemId, Owner)], what: &'static str) {
        if self.0 != what {
            let keys = claims.len();
            warn!(target: "sqs_once::lease", keys, "code runs on after the end of its invocation: {what}");
            self.0 = what;
        }
    }
}
