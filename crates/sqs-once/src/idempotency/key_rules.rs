//! How the keys of one route are named, claimed and kept.

use std::iter;
use std::sync::Arc;
use std::time::Duration;

use crate::key::{Fingerprint, ItemId, KeyCodec, Namespace};
use crate::store::{Claim, Item, Owner, Seen, Settlement, Settling, UnclaimedCompletion};
use crate::time::Timestamp;

use super::cache::CompletedKeys;
use super::renewal::LAST_RENEWED;
use super::settle::{CommitsWith, Ending, PendingSettlement};
use super::{Driver, Mode};

/// The settings of one route, or of one kind of work.
pub(crate) struct KeyRules {
    pub(crate) driver: Driver,
    pub(crate) namespace: Namespace,
    pub(crate) codec: KeyCodec,
    pub(crate) also_read: Option<KeyCodec>,
    pub(crate) retention: Duration,
    pub(crate) mode: Mode,
    pub(crate) completed: Option<Arc<CompletedKeys>>,
    pub(crate) on_unknown: OnUnknown,
}

/// What a claim does that finds an attempt of unknown outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum OnUnknown {
    /// It replaces the attempt, and the handler runs.
    #[default]
    Repeat,
    /// It replaces the attempt, and the handler runs once it is known that the attempt had no effect. Until then, no release
    /// may let the key forget the attempt.
    Ask,
    /// It leaves the attempt there.
    Keep,
}

impl KeyRules {
    /// Creates a claim whose lease ends at `lease_until`.
    pub(crate) fn new_claim(
        &self,
        owner: Owner,
        id: ItemId,
        fingerprint: Option<Fingerprint>,
        lease_until: Timestamp,
    ) -> Claim {
        let now = self.driver.clock.now();
        Claim {
            id,
            owner,
            now,
            lease_until,
            // At or after the end of the last renewal, because the table may delete the item once it has expired.
            expiration: (now + self.retention).max(lease_until + LAST_RENEWED),
            fingerprint: fingerprint.and_then(|it| self.codec.fingerprint(it)),
            seen: Seen::Nothing,
        }
    }

    /// Returns the names under which this handler has tokens, and writes or reads ids.
    pub(crate) fn names(&self) -> Vec<Arc<str>> {
        let codecs = [Some(&self.codec), self.also_read.as_ref()];
        let prefixes = codecs.into_iter().flatten().map(KeyCodec::prefix);
        // Tokens contain only the namespace's name.
        let names = iter::once(self.namespace.as_str()).chain(prefixes);
        names.map(Into::into).collect()
    }

    /// Returns the name that this handler would share with one that has these names, if any. Their messages would be
    /// duplicates of each other, or have the same tokens.
    pub(crate) fn shared_name(&self, others: &[Arc<str>]) -> Option<Arc<str>> {
        self.names().into_iter().find(|name| others.contains(name))
    }

    /// Returns whether a key is claimed before its handler runs, in a request of its own. A transaction contains its claim.
    pub(crate) fn claims_before(&self) -> bool {
        self.mode.claims_before()
    }

    /// Returns whether attempts of unknown outcome count, but no attempt that never started. Then a key is claimed only when
    /// its handler may start.
    pub(crate) fn counts_attempts(&self) -> bool {
        self.on_unknown != OnUnknown::Repeat
    }

    /// Returns whether effects commit together with the completion of their key.
    pub(crate) fn commits_effects(&self) -> bool {
        self.mode.commits_effects()
    }

    /// Returns whether claims are written in a transaction that they open.
    pub(crate) fn opens_transactions(&self) -> bool {
        self.mode == Mode::Transaction
    }

    /// Returns the settlement that completes a claim's key, alone or together with the work.
    pub(crate) fn completion(
        &self,
        claim: &Claim,
        data: Option<Arc<str>>,
        work: CommitsWith,
    ) -> PendingSettlement {
        let now = self.driver.clock.now();
        let expiration = now + self.retention;
        let recording = |data| UnclaimedCompletion {
            now,
            expiration,
            fingerprint: claim.fingerprint.clone(),
            data,
        };
        let settling = match (&work, self.mode) {
            (CommitsWith::Writes(_), _) => Settling::Commit(recording(data)),
            (CommitsWith::Nothing, Mode::RecordAfter) => {
                Settling::CompleteUnclaimed(recording(data))
            }
            _ => Settling::Complete { expiration, data },
        };
        self.settlement(claim, settling, work)
    }

    /// Returns the settlement that releases a claim, or `None` if the mode claims nothing before the handler.
    pub(crate) fn release(&self, claim: &Claim) -> Option<PendingSettlement> {
        self.claims_before()
            .then(|| self.settlement(claim, Settling::Release, CommitsWith::Nothing))
    }

    pub(super) fn settlement(
        &self,
        claim: &Claim,
        settling: Settling,
        work: CommitsWith,
    ) -> PendingSettlement {
        let settlement = Settlement {
            id: claim.id.clone(),
            owner: claim.owner,
            settling,
        };
        let ending = Ending {
            settlement,
            fingerprint: claim.fingerprint.clone(),
            is_claimed: self.claims_before(),
            completed: self.completed.clone(),
            asked_at: self.asks_at(),
        };
        PendingSettlement { ending, work }
    }

    /// Returns the completion in the cache that refuses a claim for a message of this time.
    pub(super) fn known(&self, claim: &Claim, sent_at: Timestamp) -> Option<Box<Item>> {
        let completed = self.completed.as_ref()?;
        completed.find(claim, sent_at, self.driver.clock.now())
    }

    /// Returns the cache's time before a request, for what the answer shows.
    pub(super) fn asks_at(&self) -> Timestamp {
        let completed = self.completed.as_ref();
        completed.map_or_else(Timestamp::default, |it| it.sqs_time())
    }

    pub(super) fn keep(&self, item: Item, asked_at: Timestamp) {
        if let Some(completed) = &self.completed {
            completed.keep(item, asked_at, self.driver.clock.now());
        }
    }
}
