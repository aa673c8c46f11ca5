//! The rows of the protocol's tables, and its decisions.

use crate::store::{Claim, Fence, RELEASED, Seen, Settling, Status};

use super::row::{LEASE, NOW, RETENTION, Row, at, completion, fingerprint, recording, row};
use super::world::Verdict::{
    Duplicate, InProgress, Mismatch, Refused, Runs, Uncompared, UnknownStatus, Written,
};

const RECEIPT: Option<&str> = Some("{\"receipt\": \"7 — “ü”\u{0}\\\"\"}");
const EVER: u64 = RETENTION * 100;

fn complete() -> Settling {
    completion(RETENTION, RECEIPT)
}

fn record(now: u64, body: Option<&str>, data: Option<&str>) -> Settling {
    Settling::CompleteUnclaimed(recording(now, body, data))
}

/// When a claim is written, and the item that it leaves.
pub(super) fn claims() -> Vec<Row> {
    let checked = |body: &'static str| move |it: &mut Claim| it.fingerprint = fingerprint(body);
    vec![
        row("a new key is claimed, and a claim that is sent again is recognised")
            .claim(1, 0, Runs)
            .copy(1, Runs),
        row("a claim refuses others up to the last millisecond of its lease")
            .claim(1, 0, Runs)
            .claim(2, 0, InProgress)
            .claim(2, LEASE, InProgress)
            .claim(2, LEASE + 1, Runs)
            .copy(1, InProgress),
        row("a completion refuses every claim up to the last second of its expiration")
            .claim(1, 0, Runs)
            .settle(1, completion(RETENTION + 1, RECEIPT), Written)
            .copy(1, Duplicate)
            .claim(2, RETENTION + 1999, Duplicate)
            .claim(2, RETENTION + 2000, Runs),
        row("a completed key distinguishes a duplicate from another message by the fingerprint")
            .claim(1, 0, Runs)
            .settle(1, complete(), Written)
            .claim(2, 0, Duplicate)
            .claim_with(2, 0, |it| it.fingerprint = None, Duplicate)
            .claim_with(2, 0, checked("another"), Mismatch)
            .claim_with(2, 0, checked(r#"{"another": "scheme"}"#), Uncompared),
        row("the fence grows with every claim of a key, however the previous claim ended")
            .claim(1, 0, Runs)
            .release(1, Written)
            .claim(2, 0, Runs)
            .claim_with(3, LEASE + 1, |it| it.fingerprint = None, Runs)
            .settle(3, completion(LEASE + 1, None), Written)
            .claim(4, LEASE + 2000, Runs)
            .delete()
            .claim(5, LEASE + 4000, Runs),
        row("a claim of an expired key starts afresh, with a larger fence that tells its time")
            .foreign_with((Status::Completed, None, Some(0)), |item, _| {
                item.data = RECEIPT.map(Into::into);
                item.fence = Some(Fence::first(at(9000)));
            })
            .claim(1, 2000, Runs)
            .foreign(Status::Completed, None, Some(0))
            .claim(1, 2000, Runs),
        row("a claim that has seen no item is refused by any item, even a free one")
            .claim(1, 0, Runs)
            .release(1, Written)
            .claim_over(2, 0, Seen::Nothing, InProgress),
        row("a late copy of a released claim does not bring the claim back")
            .claim(1, 0, Runs)
            .release(1, Written)
            .copy(1, InProgress)
            .claim(1, 0, InProgress)
            .claim(2, 0, Runs)
            .release(2, Written)
            .claim(3, 0, Runs)
            .release(3, Written)
            .copy(2, InProgress),
        row("a claim over a lapsed claim changes nothing after that completed without a new fence")
            .claim(1, 0, Runs)
            .settle(1, complete(), Written)
            .claim_over(2, LEASE + 1, Seen::Item(Some(Fence::first(NOW))), Duplicate),
    ]
}

/// Items of other programs: Powertools for AWS Lambda, which writes neither owner nor fence, and programs with other
/// formats.
pub(super) fn foreign_items() -> Vec<Row> {
    let mut rows =
        vec![
        row("a claim without an owner is kept for its lease, and is then replaced with the fence 1")
            .foreign(Status::InProgress, Some(LEASE), Some(RETENTION))
            .claim(1, LEASE, InProgress)
            .settle(1, complete(), Refused)
            .release(1, Refused)
            .claim_over(1, LEASE + 1, Seen::Item(Some(Fence::from_stored(1))), InProgress)
            .claim(1, LEASE + 1, Runs)
            .claim_over(2, LEASE * 3, Seen::Item(None), InProgress)
            .claim(2, LEASE * 3, Runs),
        row("a claim without an owner and a lease is kept until it expires")
            .foreign(Status::InProgress, None, None)
            .claim(1, EVER, InProgress)
            .foreign(Status::InProgress, None, Some(0))
            .claim(1, 999, InProgress)
            .claim(1, 1000, Runs),
        row("a completion without an owner is a duplicate, forever if it has no expiration")
            .foreign(Status::Completed, None, None)
            .claim(1, EVER, Duplicate)
            .settle(1, record(EVER, None, None), Refused)
            .foreign(Status::Completed, None, Some(0))
            .claim(1, 999, Duplicate)
            .claim(1, 1000, Runs),
    ];
    rows.extend(["EXPIRED", "completed", ""].map(|status| {
        let unknown = (Status::Unknown(status.to_owned()), Some(0), Some(0));
        row("an item of unknown status is never claimed or completed, even by its owner")
            .foreign_with(unknown, |item, me| item.owner = Some(me))
            .claim(1, RETENTION, UnknownStatus)
            .settle(1, record(RETENTION, None, None), Refused)
            .release(1, Refused)
    }));
    rows
}

/// Completions, releases and renewals of claims, and completions without a claim.
pub(super) fn settlements() -> Vec<Row> {
    let renew = |lease| Settling::renew(at(lease));
    let one = || record(0, Some("one"), None);
    vec![
        row("the owner of a claim completes it once, even after the lease, and the data stays")
            .claim(1, 0, Runs)
            .settle(1, completion(LEASE + RETENTION, RECEIPT), Written)
            .settle(1, completion(LEASE + RETENTION, RECEIPT), Written)
            .claim(2, LEASE + 1000, Duplicate),
        row("a completion or release that comes after a new claim changes nothing")
            .claim(1, 0, Runs)
            .claim(2, LEASE + 1, Runs)
            .settle(1, complete(), Refused)
            .release(1, Refused)
            .settle(2, complete(), Written)
            .settle(1, complete(), Refused),
        row("a claim that is released from the start takes a lapsed claim from its owner")
            .claim(1, 0, Runs)
            .claim_with(2, LEASE + 1, |it| it.lease_until = RELEASED, Runs)
            .settle(1, complete(), Refused)
            .claim(3, LEASE + 1, Runs),
        row("only its owner completes, releases or renews a claim")
            .claim(1, 0, Runs)
            .settle(2, complete(), Refused)
            .release(2, Refused)
            .settle(2, renew(LEASE * 2), Refused),
        row("a key without an item is neither completed nor released nor renewed")
            .settle(1, complete(), Refused)
            .release(1, Refused)
            .settle(1, renew(LEASE * 2), Refused),
        row("a released claim is free for others immediately, and a second release changes nothing")
            .claim(1, 0, Runs)
            .release(1, Written)
            .release(1, Written)
            .claim(2, 0, Runs),
        row("a release or renewal after the claim's own completion changes nothing")
            .claim(1, 0, Runs)
            .settle(1, complete(), Written)
            .release(1, Refused)
            .settle(1, renew(LEASE * 2), Refused),
        row("a renewed claim refuses others up to the end of its longer lease")
            .claim(1, 0, Runs)
            .settle(1, renew(LEASE * 2), Written)
            .claim(2, LEASE * 2, InProgress)
            .claim(2, LEASE * 2 + 1, Runs),
        row("a late copy of a renewal neither shortens the lease nor brings a released claim back")
            .claim(1, 0, Runs)
            .settle(1, renew(LEASE * 2), Written)
            .settle(1, renew(LEASE * 2 + 1), Written)
            .settle(1, renew(LEASE * 2), Refused)
            .release(1, Written)
            .settle(1, renew(LEASE * 2), Refused),
        row("a new key is completed without a claim, once even if the request is repeated")
            .settle(1, one(), Written)
            .settle(1, one(), Refused)
            .claim(2, 0, Duplicate),
        row("a completion without a claim replaces a live claim, with its own fingerprint and a larger fence")
            .claim(1, 0, Runs)
            .settle(2, record(0, None, None), Written)
            .settle(1, complete(), Refused),
        row("a valid completion refuses another, and an expired one is replaced with a larger fence")
            .settle(1, record(0, None, RECEIPT), Written)
            .settle(2, one(), Refused)
            .settle(2, record(RETENTION + 999, None, None), Refused)
            .settle(2, record(RETENTION + 1000, None, None), Written),
    ]
}

/// Claims that take over the fence of their key's other id, which is smaller or larger than their own.
pub(super) fn carry_overs() -> Vec<Row> {
    let claimed = Fence::first(NOW);
    let carry = |lease, follows| Settling::carry_over(lease, claimed, follows);
    let fences = [claimed.get() - 1000, claimed.get() + 1000].map(Fence::from_stored);
    let rows = fences.into_iter().flat_map(|carried| {
        [
            row("a claim carries another fence over, and the next claim has a larger one")
                .claim(1, 0, Runs)
                .settle(1, carry(at(LEASE), carried), Written)
                .settle(1, carry(at(LEASE), carried), Written)
                .release(1, Written)
                .settle(1, carry(at(LEASE), carried), Refused)
                .claim(2, 0, Runs),
            row("a late copy of a carried-over fence does not lower a later one")
                .claim(1, 0, Runs)
                .settle(1, carry(at(LEASE), carried.next()), Written)
                .settle(1, carry(at(LEASE), carried), Refused),
            row("a claim is released with the fence of the key's other id")
                .claim(1, 0, Runs)
                .settle(1, carry(RELEASED, carried), Written)
                .settle(1, carry(RELEASED, carried), Refused)
                .claim(2, 0, Runs),
        ]
    });
    rows.collect()
}

/// Effects that commit together with the completion of their key: [`Settling::Commit`], through
/// [`Store::settle`](crate::store::Store::settle), and through [`AtomicWrites`](crate::store::AtomicWrites) if the store has
/// it.
pub(super) fn commits() -> Vec<Row> {
    let commit_of = |now, body, data| Settling::Commit(recording(now, body, data));
    let commit = |now| commit_of(now, Some("one"), None);
    let mut rows = vec![
        row("an effect commits for a new key, and once if it is sent again")
            .settle(1, commit(0), Written)
            .settle(1, commit(0), Refused)
            .settle(1, commit(1000), Refused)
            .claim(2, 0, Duplicate),
        row("a commit leaves its own fingerprint and data, or none if it has none")
            .settle(1, commit_of(0, None, Some("first")), Written)
            .settle(2, commit_of(RETENTION + 1000, Some("one"), RECEIPT), Written)
            .settle(3, commit_of(RETENTION * 3, None, None), Written),
        row("another worker's claim refuses a commit up to the last millisecond of its lease")
            .claim(1, 0, Runs)
            .settle(2, commit(LEASE), Refused)
            .settle(3, commit(LEASE + 1), Written)
            .settle(1, complete(), Refused),
        row("the owner of a claim commits over it, live, lapsed or released")
            .claim(1, 0, Runs)
            .settle(1, commit(0), Written)
            .delete()
            .claim(2, 0, Runs)
            .settle(2, commit(LEASE + 1), Written)
            .delete()
            .claim(3, 0, Runs)
            .release(3, Written)
            .settle(3, commit(0), Written),
        row("a valid completion refuses a commit, and an expired one is replaced with a larger fence")
            .settle(1, commit(0), Written)
            .settle(2, commit(0), Refused)
            .settle(3, commit(RETENTION + 999), Refused)
            .settle(4, commit(RETENTION + 1000), Written),
        row("a claim without an owner refuses a commit for its lease, or until it expires")
            .foreign(Status::InProgress, Some(LEASE), Some(0))
            .settle(1, commit(LEASE), Refused)
            .settle(2, commit(LEASE + 1), Written)
            .foreign(Status::InProgress, None, Some(LEASE))
            .settle(3, commit(LEASE + 999), Refused)
            .settle(4, commit(LEASE + 1000), Written)
            .foreign(Status::InProgress, None, None)
            .settle(5, commit(EVER), Refused),
        row("a completion without an owner refuses a commit, forever if it has no expiration")
            .foreign(Status::Completed, None, None)
            .settle(1, commit(EVER), Refused)
            .foreign(Status::Completed, None, Some(0))
            .settle(2, commit(1000), Written),
    ];
    rows.extend(["EXPIRED", "completed", ""].map(|status| {
        let unknown = (Status::Unknown(status.to_owned()), Some(0), Some(0));
        row("an item of unknown status refuses any commit, even its owner's")
            .foreign_with(unknown, |item, me| item.owner = Some(me))
            .settle(1, commit(RETENTION), Refused)
    }));
    rows
}
