//! Stores with errors in commits.

use sqs_once::store::{Fence, Settling, Status};
use sqs_once::time::Timestamp;

use super::{leaving, settling};

/// The reference's decision about a commit, with one error. Other decisions are the reference's.
macro_rules! committing {
    ($promise:literal, |$now:ident, $mine:ident, $item:ident, $reference:ident| $admits:expr) => {
        settling(
            |settlement, existing| {
                let $reference = settlement.admitted_by(existing);
                match (&settlement.settling, existing) {
                    (Settling::Commit(recording), Some($item)) => {
                        let ($now, $mine) = (recording.now, $item.owner == Some(settlement.owner));
                        $admits
                    }
                    _ => $reference,
                }
            },
            $promise,
        )
        .await
    };
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_commits_is_found_out() {
    // Commits over its own completion: the effect would happen twice.
    committing!(
        "a commit that is sent again",
        |_now, mine, _item, admitted| mine || admitted
    );
    // Keeps the fingerprint, as an insert would.
    committing!(
        "a commit leaves its own fingerprint",
        |_now, _mine, _item, _admitted| false
    );
    // Ignores the lease, as a recording would.
    committing!(
        "up to the last millisecond of its lease",
        |_now, _mine, item, admitted| item.status == Status::InProgress || admitted
    );
    committing!(
        "up to the last millisecond of its lease",
        |now, mine, item, admitted| match (&item.status, item.lease_until) {
            (Status::InProgress, Some(lease)) => lease <= now || mine,
            _ => admitted,
        }
    );
    // Stores leases in seconds.
    committing!(
        "up to the last millisecond of its lease",
        |now, mine, item, admitted| match (&item.status, item.lease_until) {
            (Status::InProgress, Some(lease)) => lease.as_secs() < now.as_secs() || mine,
            _ => admitted,
        }
    );
    committing!(
        "has lapsed or was released",
        |_now, _mine, item, admitted| admitted && item.lease_until != Some(Timestamp::default())
    );
    // Behaves like a claim.
    committing!(
        "be it live, lapsed or released",
        |now, mine, item, admitted| match item.lease_until {
            Some(lease) if item.status == Status::InProgress => lease < now && !mine,
            _ => admitted,
        }
    );
    // Behaves like another worker's claim.
    committing!(
        "be it live, lapsed or released",
        |now, _mine, item, admitted| match item.lease_until {
            Some(lease) if item.status == Status::InProgress => lease < now,
            _ => admitted,
        }
    );
    committing!(
        "a valid completion refuses a commit",
        |_now, mine, item, admitted| item.status == Status::Completed && !mine || admitted
    );
    // Commits over its own completion, unless it is the same commit.
    committing!(
        "its own completion refuses a commit that comes later",
        |now, mine, item, admitted| {
            let same = item.fence == Some(Fence::first(now));
            item.status == Status::Completed && mine && !same || admitted
        }
    );
    committing!(
        "an expired completion makes room",
        |now, mine, item, admitted| match item.expiration {
            Some(at) if item.status == Status::Completed && !mine && item.data.is_none() => {
                at <= now
            }
            _ => admitted,
        }
    );
    committing!("until it expires", |_now, _mine, item, admitted| item
        .lease_until
        .is_none()
        && item.status == Status::InProgress
        || admitted);
    committing!("until it expires", |_now, _mine, item, admitted| item
        .owner
        .is_some()
        && admitted);
    committing!(
        "for ever where it names no end",
        |_now, _mine, item, admitted| item.status == Status::Completed && item.expiration.is_none()
            || admitted
    );
    committing!(
        "unknown status refuses a commit",
        |_now, mine, item, admitted| matches!(item.status, Status::Unknown(_)) && mine || admitted
    );
}

#[tokio::test]
async fn a_store_that_writes_commits_wrongly_is_found_out() {
    leaving(
        |settlement, existing, item| match (&settlement.settling, existing) {
            (Settling::Commit(_), Some(existing)) => Some({
                let mut item = item;
                item.fence = existing.fence;
                item
            }),
            _ => Some(item),
        },
        "a commit leaves its own fingerprint",
    )
    .await;
    leaving(
        |settlement, existing, item| match (&settlement.settling, existing) {
            (Settling::Commit(_), Some(existing)) => Some({
                let mut item = item;
                item.data = item.data.or(existing.data.clone());
                item
            }),
            _ => Some(item),
        },
        "a commit leaves its own fingerprint",
    )
    .await;
    leaving(
        |settlement, existing, item| match (&settlement.settling, existing) {
            (Settling::Commit(_), Some(existing)) => Some({
                let mut item = item;
                item.fingerprint = item.fingerprint.or(existing.fingerprint.clone());
                item
            }),
            _ => Some(item),
        },
        "a commit leaves its own fingerprint",
    )
    .await;
    // Only the owner distinguishes a lost answer from a duplicate.
    leaving(
        |settlement, existing, item| match (&settlement.settling, existing) {
            (Settling::Commit(_), None) => Some({
                let mut item = item;
                item.owner = None;
                item
            }),
            _ => Some(item),
        },
        "an effect commits for a new key",
    )
    .await;
}
