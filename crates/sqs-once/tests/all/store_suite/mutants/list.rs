//! The stores with one error, and the promise that each breaks first.

use sqs_once::store::{Claim, Fence, Item, Seen, Settlement, Settling, Status, Timestamp};

use super::{Error, Kind, are_found_out, lease};

const COMPLETE: Kind = |settling| matches!(settling, Settling::Complete { .. });
const RELEASE: Kind = |settling| matches!(settling, Settling::Release);
const RENEW: Kind = |settling| matches!(settling, Settling::Renew { .. });
const RECORD: Kind = |settling| matches!(settling, Settling::CompleteUnclaimed(_));
const COMMIT: Kind = |settling| matches!(settling, Settling::Commit(_));
const ANY: Kind = |_| true;

const RELEASED: Timestamp = Timestamp::from_millis(0);
const LEASE: &str = "up to the last millisecond of its lease";
const EXPIRATION: &str = "up to the last second of its expiration";
const AFRESH: &str = "starts afresh, with a larger fence";
const FENCE_1: &str = "replaced with the fence 1";
const FENCE_GROWS: &str = "however the previous claim ended";

type Found = (&'static str, Error);

fn admits(promise: &'static str, admits: fn(&Claim, &Item, bool) -> bool) -> Found {
    (promise, Error::Admits(admits))
}

fn claims(promise: &'static str, claims: fn(&Claim, Option<&Item>, &mut Item)) -> Found {
    (promise, Error::Claims(claims))
}

fn settles(
    promise: &'static str,
    kind: Kind,
    settles: fn(&Settlement, Option<&Item>, bool) -> bool,
) -> Found {
    (promise, Error::Settles(kind, settles))
}

fn settles_own(
    promise: &'static str,
    kind: Kind,
    settles: fn(&Settlement, &Item, bool) -> bool,
) -> Found {
    (promise, Error::SettlesOwn(kind, settles))
}

fn commits(promise: &'static str, commits: fn(Timestamp, bool, &Item, bool) -> bool) -> Found {
    (promise, Error::Commits(commits))
}

fn leaves(
    promise: &'static str,
    kind: Kind,
    leaves: fn(&Settlement, Option<&Item>, &mut Item),
) -> Found {
    (promise, Error::Leaves(kind, leaves))
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_claims_is_found_out() {
    const LATE: &str = "a late copy of a released claim";
    are_found_out([
        admits("is recognised", |_, _, _| true),
        admits(LEASE, |claim, item, admitted| {
            lease(item).map_or(admitted, |at| at <= claim.now)
        }),
        // Stores leases in seconds.
        admits(LEASE, |claim, item, admitted| {
            let lapsed = lease(item).map(|at| at.as_secs() < claim.now.as_secs());
            lapsed.map_or(admitted, |lapsed| lapsed && item.owner != Some(claim.owner))
        }),
        admits(EXPIRATION, |claim, item, admitted| match item.status {
            Status::Completed => item.expiration.is_none_or(|at| at <= claim.now),
            _ => admitted,
        }),
        admits(EXPIRATION, |_, item, admitted| {
            item.status != Status::Completed && admitted
        }),
        admits(LEASE, |claim, item, admitted| {
            lease(item).map_or(admitted, |at| at < claim.now)
        }),
        admits(LEASE, |claim, item, _| claim.finds_free(item)),
        admits(LATE, |claim, item, _| {
            claim.seen != Seen::Nothing && claim.finds_free(item)
        }),
        admits("is recognised", |claim, item, _| {
            claim.seen == Seen::Item(item.fence)
        }),
        admits(FENCE_1, |claim, item, admitted| {
            let unfenced = matches!(claim.seen, Seen::Item(None));
            (unfenced && claim.finds_free(item)) || admitted
        }),
        admits(EXPIRATION, |claim, item, admitted| {
            item.status == Status::Completed && item.owner == Some(claim.owner) || admitted
        }),
        admits("without an owner and a lease", |_, item, admitted| {
            item.status == Status::InProgress && item.lease_until.is_none() || admitted
        }),
        admits(AFRESH, |_, item, admitted| item.owner.is_some() && admitted),
        admits("unknown status", |_, item, admitted| {
            matches!(item.status, Status::Unknown(_)) || admitted
        }),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_writes_claims_wrongly_is_found_out() {
    are_found_out([
        claims(LEASE, |claim, _, item| {
            item.fence = Some(Fence::first(claim.now));
        }),
        claims("a new key is claimed", |_, old, item| {
            item.fence = Some(Fence::from_stored(old.map_or(1, |_| 2)));
        }),
        claims(LEASE, |_, old, item| {
            item.fence = old.map_or(item.fence, |old| old.fence);
        }),
        claims(FENCE_1, |claim, old, item| {
            if old.is_some_and(|old| old.fence.is_none()) {
                item.fence = Some(Fence::first(claim.now));
            }
        }),
        claims(EXPIRATION, |_, old, item| {
            item.fence = old.map_or(item.fence, |it| it.fence.map(Fence::next));
        }),
        claims(AFRESH, |claim, old, item| {
            if old.is_some_and(|it| it.status == Status::Completed) {
                item.fence = Some(Fence::first(claim.now));
            }
        }),
        claims(EXPIRATION, |_, old, item| {
            item.data = old.and_then(|old| old.data.clone());
        }),
        claims(FENCE_GROWS, |claim, old, item| {
            let left = old.and_then(|old| old.fingerprint.clone());
            item.fingerprint = claim.fingerprint.clone().or(left);
        }),
        claims(LEASE, |claim, old, item| {
            item.expiration = old.map_or(Some(claim.expiration), |old| old.expiration);
        }),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_settlements_is_found_out() {
    const AFTER_A_NEW_CLAIM: &str = "that comes after a new claim";
    const NO_ITEM: &str = "a key without an item";
    const AFTER_ITS_COMPLETION: &str = "after the claim's own completion";
    const LATE: &str = "a late copy of a renewal";
    are_found_out([
        // Ignores owners: settles any existing item.
        settles(AFTER_A_NEW_CLAIM, ANY, |_, item, _| item.is_some()),
        settles(AFTER_A_NEW_CLAIM, COMPLETE, |_, _, _| true),
        settles(NO_ITEM, COMPLETE, |_, item, admitted| {
            item.is_none() || admitted
        }),
        settles(AFTER_A_NEW_CLAIM, RELEASE, |_, item, _| {
            item.is_some_and(|item| item.status == Status::InProgress)
        }),
        settles_own(AFTER_ITS_COMPLETION, RELEASE, |_, _, _| true),
        settles(NO_ITEM, RELEASE, |_, item, admitted| {
            item.is_none() || admitted
        }),
        // Decides as for the item's owner.
        settles("only its owner", RENEW, |one, item, _| {
            let owner = item.and_then(|item| item.owner).unwrap_or(one.owner);
            Settlement::new(one.id.clone(), owner, one.settling.clone()).admitted_by(item)
        }),
        settles_own(LATE, RENEW, |_, item, _| lease(item) > Some(RELEASED)),
        settles_own(LATE, RENEW, |_, item, admitted| {
            lease(item) == Some(RELEASED) || admitted
        }),
        settles_own(AFTER_ITS_COMPLETION, RENEW, |_, item, admitted| {
            item.status == Status::Completed || admitted
        }),
        settles(NO_ITEM, RENEW, |_, item, admitted| {
            item.is_none() || admitted
        }),
        // Decides as for a renewal that keeps the fence.
        settles("does not lower a later one", RENEW, |one, item, _| {
            let Settling::Renew { lease_until, .. } = one.settling else {
                return false;
            };
            let renewal = Settling::renew(lease_until);
            Settlement::new(one.id.clone(), one.owner, renewal).admitted_by(item)
        }),
        // Carries over only a fence that is larger than the claim's.
        settles_own(
            "carries another fence over",
            RENEW,
            |one, item, admitted| {
                let lowers = matches!(one.settling, Settling::Renew { fence: Some(carried), .. }
                if Some(carried.follows) < item.fence);
                admitted && !lowers
            },
        ),
        settles("once even if the request is repeated", RECORD, |_, _, _| {
            true
        }),
        settles("replaces a live claim", RECORD, |_, item, _| item.is_none()),
        settles("unknown status", ANY, |_, item, admitted| {
            item.is_some_and(|item| matches!(item.status, Status::Unknown(_))) || admitted
        }),
        (AFTER_A_NEW_CLAIM, Error::ShowsNothing),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_writes_settlements_wrongly_is_found_out() {
    const LONGER: &str = "up to the end of its longer lease";
    const EXPIRED: &str = "a valid completion refuses another";
    are_found_out([
        leaves(LONGER, RENEW, |_, old, item| {
            item.lease_until = old.unwrap().lease_until;
        }),
        leaves("carries another fence over", RENEW, |_, old, item| {
            item.fence = old.unwrap().fence;
        }),
        leaves(FENCE_GROWS, RELEASE, |_, old, item| {
            *item = old.unwrap().clone();
        }),
        (FENCE_GROWS, Error::Deletes),
        leaves(EXPIRATION, ANY, |_, _, item| item.data = None),
        leaves(EXPIRATION, COMPLETE, |one, _, item| {
            if let Settling::Complete { expiration, .. } = &one.settling {
                item.expiration = Some(Timestamp::from_secs(expiration.as_secs()));
            }
        }),
        leaves("replaces a live claim", RECORD, |_, old, item| {
            item.fence = old.map_or(item.fence, |old| old.fence);
        }),
        leaves(EXPIRED, RECORD, |_, old, item| {
            let left = old.and_then(|old| old.data.clone());
            item.data = left.or(item.data.take());
        }),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_admits_the_wrong_commits_is_found_out() {
    const AGAIN: &str = "an effect commits for a new key, and once";
    const OWN_CLAIM: &str = "live, lapsed or released";
    const VALID: &str = "a valid completion refuses a commit";
    const FOREIGN: &str = "a claim without an owner refuses a commit";
    are_found_out([
        // Commits over its own completion: the effect would happen twice.
        commits(AGAIN, |_, own, _, admitted| own || admitted),
        // Keeps the fingerprint, as an insert would.
        commits("a commit leaves its own", |_, _, _, _| false),
        // Ignores the lease, as a recording would.
        commits(LEASE, |_, _, item, admitted| {
            item.status == Status::InProgress || admitted
        }),
        commits(LEASE, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at <= now || own)
        }),
        // Stores leases in seconds.
        commits(LEASE, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at.as_secs() < now.as_secs() || own)
        }),
        commits(OWN_CLAIM, |_, _, item, admitted| {
            admitted && item.lease_until != Some(RELEASED)
        }),
        // Behaves like a claim.
        commits(OWN_CLAIM, |now, own, item, admitted| {
            lease(item).map_or(admitted, |at| at < now && !own)
        }),
        // Behaves like another worker's claim.
        commits(OWN_CLAIM, |now, _, item, admitted| {
            lease(item).map_or(admitted, |at| at < now)
        }),
        commits(VALID, |_, own, item, admitted| {
            item.status == Status::Completed && !own || admitted
        }),
        // Commits over its own completion, unless it is the same commit.
        commits(AGAIN, |now, own, item, admitted| {
            let same = item.fence == Some(Fence::first(now));
            item.status == Status::Completed && own && !same || admitted
        }),
        commits(VALID, |now, own, item, admitted| match item.expiration {
            Some(at) if item.status == Status::Completed && !own && item.data.is_none() => {
                at <= now
            }
            _ => admitted,
        }),
        commits(FOREIGN, |_, _, item, admitted| {
            item.lease_until.is_none() && item.status == Status::InProgress || admitted
        }),
        commits(FOREIGN, |_, _, item, admitted| {
            item.owner.is_some() && admitted
        }),
        commits("forever if it has no expiration", |_, _, item, admitted| {
            item.status == Status::Completed && item.expiration.is_none() || admitted
        }),
        commits("refuses any commit", |_, own, item, admitted| {
            matches!(item.status, Status::Unknown(_)) && own || admitted
        }),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_writes_commits_wrongly_is_found_out() {
    const OWN: &str = "a commit leaves its own fingerprint";
    are_found_out([
        leaves(OWN, COMMIT, |_, old, item| {
            item.fence = old.map_or(item.fence, |old| old.fence);
        }),
        leaves(OWN, COMMIT, |_, old, item| {
            let left = old.and_then(|old| old.data.clone());
            item.data = item.data.take().or(left);
        }),
        leaves(OWN, COMMIT, |_, old, item| {
            let left = old.and_then(|old| old.fingerprint.clone());
            item.fingerprint = item.fingerprint.take().or(left);
        }),
        // Only the owner distinguishes a lost answer from a duplicate.
        leaves("an effect commits", COMMIT, |_, old, item| {
            item.owner = item.owner.filter(|_| old.is_some());
        }),
    ])
    .await;
}

#[tokio::test]
async fn a_store_that_confuses_the_entries_of_a_slice_or_writes_late_is_found_out() {
    are_found_out([
        ("in their order", Error::Disorder),
        ("a key without an item", Error::SkipsAbsent),
        ("exactly one of many claims", Error::Races),
        (
            "each only for the key of its namespace",
            Error::IgnoresNamespaces,
        ),
    ])
    .await;
}
