//! The protocol's decisions for every possible item. They are plain functions and need no store.

use std::time::Duration;

use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Owner, Seen, Settled, Settlement, Settling, Status, Timestamp,
    UnclaimedCompletion,
};
use sqs_once::unstable::{
    Admission, Completed, Refusal, on_claimed, on_committed, on_completed, on_found,
    on_found_under_other_id, on_refused, takes_over,
};

const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);
const ME: Owner = Owner::from_bits(1);
const OTHER: Owner = Owner::from_bits(2);
/// The fence of a key that was first claimed at this time, and one that counts claims.
const FENCE: Fence = Fence::first(Timestamp::from_secs(4_102_440_000));
const COUNT: Fence = Fence::from_stored(7);

fn claim() -> Claim {
    let mut claim = Claim::new(
        ItemId::from_stored("tests#1"),
        ME,
        NOW,
        NOW + Duration::from_secs(60),
        NOW + Duration::from_secs(3600),
    );
    claim.fingerprint = Some(Fingerprint::from_body("mine"));
    claim
}

/// A fingerprint that can't be compared with those of the claims.
fn other_scheme() -> Fingerprint {
    Fingerprint::from_body(r#"{"mine": true}"#)
}

fn recording() -> UnclaimedCompletion {
    UnclaimedCompletion::new(NOW, NOW)
}

fn settled_by_me(settling: Settling) -> Settlement {
    Settlement::new(claim().id, ME, settling)
}

/// Each of these items with each of these values, and without one.
fn with_each<V: Clone>(items: &[Item], values: &[V], set: fn(&mut Item, Option<V>)) -> Vec<Item> {
    let mut all = Vec::new();
    for value in values.iter().cloned().map(Some).chain([None]) {
        for mut item in items.iter().cloned() {
            set(&mut item, value.clone());
            all.push(item);
        }
    }
    all
}

/// Every combination of an item's values, with times around the present.
fn items() -> Vec<Item> {
    let [before, after] = [NOW.as_millis() - 1, NOW.as_millis() + 1].map(Timestamp::from_millis);
    let released = Timestamp::default();
    let leases = [released, before, NOW, after, claim().lease_until];
    let seconds = [NOW.as_secs() - 1, NOW.as_secs(), NOW.as_secs() + 1];
    let expirations = seconds.map(Timestamp::from_secs);
    let [mine, another] = ["mine", "another"].map(Fingerprint::from_body);
    let fingerprints = [mine, another, other_scheme()];
    let unknown = Status::Unknown("PAUSED".to_owned());
    let items = [Status::InProgress, Status::Completed, unknown].map(|status| {
        let mut item = Item::new(claim().id, status);
        item.data = Some("receipt".into());
        item
    });
    let items = with_each(&items, &leases, |it, at| it.lease_until = at);
    let items = with_each(&items, &expirations, |it, at| it.expiration = at);
    let items = with_each(&items, &fingerprints, |it, one| it.fingerprint = one);
    let items = with_each(&items, &[ME, OTHER], |it, owner| it.owner = owner);
    with_each(&items, &[COUNT, FENCE], |it, fence| it.fence = fence)
}

fn is_expired(item: &Item) -> bool {
    item.expiration
        .is_some_and(|at| at.as_secs() < NOW.as_secs())
}

#[test]
fn a_claim_is_admitted_only_where_nobody_may_be_working_and_nothing_is_completed() {
    let mut admitted = 0;
    for item in items() {
        assert!(!claim().admitted_by(Some(&item)), "unseen: {item:?}");
        let Some(over) = on_refused(&claim(), &item) else {
            continue;
        };
        assert!(over.admitted_by(Some(&item)), "{item:?}");
        admitted += 1;
        match item.status {
            Status::InProgress => match item.lease_until {
                Some(lease) => assert!(lease < NOW && item.owner != Some(ME), "{item:?}"),
                None => assert!(is_expired(&item), "{item:?}"),
            },
            Status::Completed => assert!(is_expired(&item), "{item:?}"),
            Status::Unknown(_) => panic!("{item:?}"),
        }
    }
    assert_ne!(admitted, 0);
    assert!(claim().admitted_by(None));
}

#[test]
fn every_key_is_free_again_at_some_time_unless_it_names_no_end() {
    let mut late = claim();
    late.owner = Owner::from_bits(3);
    late.now = NOW + Duration::from_secs(3601);
    for item in items() {
        let ends = match item.status {
            Status::InProgress => item.lease_until.or(item.expiration).is_some(),
            Status::Completed => item.expiration.is_some(),
            Status::Unknown(_) => false,
        };
        assert_eq!(late.finds_free(&item), ends, "{item:?}");
    }
}

#[test]
fn a_claim_over_an_item_is_admitted_by_no_item_with_another_fence_or_that_is_not_free() {
    let items = items();
    for seen in &items {
        let Some(over) = on_refused(&claim(), seen) else {
            continue;
        };
        for found in &items {
            let expected = found.fence == seen.fence && over.finds_free(found);
            let is_admitted = over.admitted_by(Some(found));
            assert_eq!(is_admitted, expected, "{seen:?}, {found:?}");
        }
        let left = over.write(Some(seen));
        assert!(!over.admitted_by(Some(&left)), "a late copy: {left:?}");
    }
}

fn first(fence: Fence) -> Timestamp {
    Timestamp::from_millis(fence.get())
}

#[test]
fn a_free_item_under_the_other_id_tells_the_age_and_is_followed_by_a_larger_fence() {
    let around = [FENCE.get() - 1, FENCE.get(), FENCE.get() + 1].map(Fence::from_stored);
    for other in items() {
        let around = around.into_iter();
        for (fence, over) in around.flat_map(|fence| [(fence, false), (fence, true)]) {
            let mut claim = claim();
            if over {
                claim.seen = Seen::Item(Some(fence));
            }
            for since in [Some(first(fence)), None] {
                let decided = on_found_under_other_id(&claim, (fence, since), &other);
                let runs = matches!(decided, Admission::Run { .. });
                assert_eq!(claim.finds_free(&other), runs, "{other:?}");
                let Admission::Run {
                    fence: follows,
                    first_attempt,
                } = decided
                else {
                    continue;
                };
                assert!(Some(follows) > other.fence);
                // No handler received the fence of a new item.
                assert!(follows >= fence || !over, "{other:?}");
                let is_over = other.status == Status::Completed || other.fence.is_some();
                if is_over && is_expired(&other) {
                    assert_eq!(first_attempt, since, "{other:?}");
                    assert!(follows >= fence, "{other:?}");
                    continue;
                }
                let is_known = other.fence == Some(FENCE);
                let expected = since.filter(|_| is_known).min(Some(first(FENCE)));
                assert_eq!(first_attempt, expected, "{other:?}");
                assert!(is_known || follows > Fence::first(NOW), "{other:?}");
            }
        }
    }
}

#[test]
fn only_a_lapsed_claim_with_an_owner_is_taken_over_under_the_other_id_and_left_free() {
    let mut taken = 0;
    for other in items() {
        let takes = takes_over(&claim(), Owner::from_bits(4), &other);
        let is_lapsed = other.status == Status::InProgress
            && other.owner == Some(OTHER)
            && other.lease_until > Some(Timestamp::default())
            && other.lease_until < Some(NOW);
        assert_eq!(takes.is_some(), is_lapsed, "{other:?}");
        let Some(takes) = takes else { continue };
        taken += 1;
        assert!(takes.admitted_by(Some(&other)));
        let left = takes.write(Some(&other));
        let late = Settlement::new(left.id.clone(), OTHER, Settling::complete(NOW, None));
        assert!(!late.admitted_by(Some(&left)), "the old owner completes");
        let mut next = claim();
        next.owner = Owner::from_bits(3);
        assert!(next.finds_free(&left));
        let again = takes_over(&next, Owner::from_bits(5), &left);
        assert_eq!(again, None, "once is enough");
    }
    assert_ne!(taken, 0);
}

#[test]
fn a_refused_claim_runs_only_if_the_item_is_its_own() {
    for item in items() {
        let decided = on_claimed(&claim(), &Claimed::Refused(Box::new(item.clone())));
        let own = item.status == Status::InProgress
            && item.owner == Some(ME)
            && item.lease_until == Some(claim().lease_until);
        let expected = match item.status {
            Status::InProgress if own => {
                let fence = item.fence.unwrap_or_default();
                let is_time = fence == FENCE;
                Admission::Run {
                    fence: match is_time {
                        true => fence,
                        false => Fence::from_stored(NOW.as_millis() + fence.get()),
                    },
                    first_attempt: is_time.then(|| first(fence)),
                }
            }
            Status::InProgress => Admission::Refused(Refusal::InProgress {
                lease_until: item.lease_until,
            }),
            Status::Completed if item.fingerprint == Some(Fingerprint::from_body("another")) => {
                Admission::Refused(Refusal::PayloadMismatch {
                    completed: Fingerprint::from_body("another"),
                    data: item.data,
                })
            }
            Status::Completed => Admission::Refused(Refusal::Duplicate {
                data: item.data,
                is_compared: item.fingerprint != Some(other_scheme()),
            }),
            Status::Unknown(status) => Admission::Refused(Refusal::UnknownStatus(status)),
        };
        assert_eq!(decided, expected);
    }
}

#[test]
fn a_look_up_runs_unless_a_valid_completion_or_an_unknown_status_stands_there() {
    assert!(matches!(on_found(&claim(), None), Admission::Run { .. }));
    for item in items() {
        let runs = matches!(on_found(&claim(), Some(&item)), Admission::Run { .. });
        let expected = match item.status {
            Status::InProgress => true,
            Status::Completed => is_expired(&item),
            Status::Unknown(_) => false,
        };
        assert_eq!(runs, expected, "{item:?}");
    }
}

#[test]
fn a_completion_is_acknowledged_only_if_the_item_is_completed() {
    let recording = Settling::CompleteUnclaimed(recording());
    for settling in [Settling::complete(NOW, None), recording.clone()] {
        let is_claimed = settling != recording;
        let settlement = settled_by_me(settling);
        let decided = |settled| on_completed(&settlement, &settled);
        assert_eq!(decided(Settled::Written), Completed::Confirmed);
        assert_eq!(decided(Settled::Refused(None)), Completed::LeaseLost);
        for item in items() {
            let expected = match item.status {
                Status::Completed if is_claimed && item.owner != Some(ME) => Completed::ByAnother,
                Status::Completed => Completed::Confirmed,
                Status::InProgress | Status::Unknown(_) => Completed::LeaseLost,
            };
            assert_eq!(decided(Settled::Refused(Some(Box::new(item)))), expected);
        }
    }
}

#[test]
fn nothing_but_its_own_claim_is_completed_or_released() {
    let complete = Settling::complete(NOW, None);
    for settling in [complete, Settling::Release] {
        let is_release = settling == Settling::Release;
        let settlement = settled_by_me(settling);
        assert!(!settlement.admitted_by(None));
        for item in items() {
            let mine = item.owner == Some(ME);
            let expected = mine && (!is_release || item.status == Status::InProgress);
            assert_eq!(settlement.admitted_by(Some(&item)), expected, "{item:?}");
        }
    }
}

#[test]
fn a_refused_commit_is_acknowledged_only_if_the_key_is_completed() {
    assert_eq!(on_committed(ME, None, None), Ok(()));
    let mine = Fingerprint::from_body("mine");
    for item in items() {
        for fingerprint in [None, Some(&mine)] {
            let another = item.fingerprint == Some(Fingerprint::from_body("another"));
            let expected = match &item.status {
                Status::Completed if item.owner == Some(ME) => Ok(()),
                Status::Completed if another && fingerprint.is_some() => {
                    Err(Refusal::PayloadMismatch {
                        completed: Fingerprint::from_body("another"),
                        data: item.data.clone(),
                    })
                }
                Status::Completed => Err(Refusal::Duplicate {
                    data: item.data.clone(),
                    is_compared: fingerprint.is_none() || item.fingerprint != Some(other_scheme()),
                }),
                Status::InProgress => Err(Refusal::InProgress {
                    lease_until: item.lease_until,
                }),
                Status::Unknown(status) => Err(Refusal::UnknownStatus(status.clone())),
            };
            assert_eq!(on_committed(ME, fingerprint, Some(&item)), expected);
        }
    }
}

#[test]
fn every_claim_record_and_commit_has_a_larger_fence_than_the_item_before() {
    for item in items() {
        let record = settled_by_me(Settling::CompleteUnclaimed(recording()));
        let commit = settled_by_me(Settling::Commit(recording()));
        let writes = [
            claim().write(Some(&item)),
            record.write(Some(&item)),
            commit.write(Some(&item)),
        ];
        for left in writes {
            assert!(left.fence > item.fence, "{item:?}");
            assert_eq!(left.owner, Some(ME));
            assert_eq!(left.data, None);
        }
    }
}

#[test]
fn a_release_frees_the_key_for_all_but_a_copy_of_itself() {
    let item = claim().write(None);
    let release = Settlement::new(item.id.clone(), ME, Settling::Release);
    let released = release.write(Some(&item));
    let mut other = claim();
    other.owner = OTHER;
    assert!(other.finds_free(&released));
    assert!(!claim().finds_free(&released));
    let lease_until = released.lease_until;
    let copy = on_claimed(&claim(), &Claimed::Refused(Box::new(released)));
    let expected = Admission::Refused(Refusal::InProgress { lease_until });
    assert_eq!(copy, expected);
}
