//! Stores with errors in commits.

use sqs_once::store::{Fence, Status};
use sqs_once::time::Timestamp;

use super::{COMMIT, Commits, LEASE, Mutant, is_found_out, lease, leaving};

#[tokio::test]
async fn a_store_that_admits_the_wrong_commits_is_found_out() {
    const OWN_CLAIM: &str = "whether live, lapsed or released";
    const VALID: &str = "a valid completion refuses a commit";
    const OWN_COMPLETION: &str = "its own completion refuses a commit that comes later";
    const EXPIRED: &str = "an expired completion is replaced";
    let mutants: [(&str, Commits); 15] = [
        // Commits over its own completion: the effect would happen twice.
        ("a commit that is sent again", |_, own, _, admitted| {
            own || admitted
        }),
        // Keeps the fingerprint, as an insert would.
        ("a commit leaves its own fingerprint", |_, _, _, _| false),
        // Ignores the lease, as a recording would.
        (LEASE, |_, _, item, admitted| {
            item.status == Status::InProgress || admitted
        }),
        (LEASE, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at <= now || own)
        }),
        // Stores leases in seconds.
        (LEASE, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at.as_secs() < now.as_secs() || own)
        }),
        ("has lapsed or was released", |_, _, item, admitted| {
            admitted && item.lease_until != Some(Timestamp::default())
        }),
        // Behaves like a claim.
        (OWN_CLAIM, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at < now && !own)
        }),
        // Behaves like another worker's claim.
        (OWN_CLAIM, |now, _, item, admitted| {
            lease(item).map_or(admitted, |at| at < now)
        }),
        (VALID, |_, own, item, admitted| {
            item.status == Status::Completed && !own || admitted
        }),
        // Commits over its own completion, unless it is the same commit.
        (OWN_COMPLETION, |now, own, item, admitted| {
            let same = item.fence == Some(Fence::first(now));
            item.status == Status::Completed && own && !same || admitted
        }),
        (EXPIRED, |now, own, item, admitted| match item.expiration {
            Some(at) if item.status == Status::Completed && !own && item.data.is_none() => {
                at <= now
            }
            _ => admitted,
        }),
        ("until it expires", |_, _, item, admitted| {
            item.lease_until.is_none() && item.status == Status::InProgress || admitted
        }),
        ("until it expires", |_, _, item, admitted| {
            item.owner.is_some() && admitted
        }),
        ("forever if it has no expiration", |_, _, item, admitted| {
            item.status == Status::Completed && item.expiration.is_none() || admitted
        }),
        (
            "unknown status refuses any commit",
            |_, own, item, admitted| matches!(item.status, Status::Unknown(_)) && own || admitted,
        ),
    ];
    for (promise, commits) in mutants {
        let mutant = Mutant::with(|it| it.commits = Some(commits));
        is_found_out(mutant, promise).await;
    }
}

#[tokio::test]
async fn a_store_that_writes_commits_wrongly_is_found_out() {
    const OWN: &str = "a commit leaves its own fingerprint";
    leaving([
        (OWN, COMMIT, |_, existing, item| {
            item.fence = existing.map_or(item.fence, |existing| existing.fence);
        }),
        (OWN, COMMIT, |_, existing, item| {
            let left = existing.and_then(|existing| existing.data.clone());
            item.data = item.data.take().or(left);
        }),
        (OWN, COMMIT, |_, existing, item| {
            let left = existing.and_then(|existing| existing.fingerprint.clone());
            item.fingerprint = item.fingerprint.take().or(left);
        }),
        // Only the owner distinguishes a lost answer from a duplicate.
        (
            "an effect commits for a new key",
            COMMIT,
            |_, existing, item| {
                item.owner = item.owner.filter(|_| existing.is_some());
            },
        ),
    ])
    .await;
}
