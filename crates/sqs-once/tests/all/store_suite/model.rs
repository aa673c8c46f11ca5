//! Runs random histories on a store and on the reference, and compares them.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt;
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sqs_once::MemoryStore;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Owner, Recording, Seen, Settled, Settlement, Settling, Status,
};
use sqs_once::time::Timestamp;

use crate::store_suite::support::{InMemory, NOW, OnDynamoDb};

/// A step of a history. Keys and owners are numbers; times are milliseconds after `NOW`.
#[derive(Clone, Debug)]
enum Step {
    Claim(Vec<(u8, ClaimOf)>),
    Settle(Vec<(u8, SettlementOf)>),
    Read(Vec<u8>),
    /// Another program writes an item.
    Plant(u8, ItemOf),
    Delete(u8),
}

#[derive(Clone, Debug)]
struct ClaimOf {
    owner: u8,
    now: u64,
    lease: u64,
    retention: u64,
    fingerprint: Option<u8>,
    seen: SeenOf,
}

#[derive(Clone, Copy, Debug)]
enum SeenOf {
    Nothing,
    /// The current item.
    It,
    Another(Option<u64>),
}

#[derive(Clone, Debug)]
enum SettlementOf {
    Complete(u8, u64, Option<u8>),
    Release(u8),
    Record(RecordingOf),
    Commit(RecordingOf),
}

#[derive(Clone, Debug)]
struct RecordingOf {
    owner: u8,
    now: u64,
    retention: u64,
    fingerprint: Option<u8>,
    data: Option<u8>,
}

#[derive(Clone, Debug)]
struct ItemOf {
    status: u8,
    lease: Option<u64>,
    expiration: Option<u64>,
    fingerprint: Option<u8>,
    owner: Option<u8>,
    fence: Option<u64>,
}

const KEYS: u8 = 4;
const OWNERS: u8 = 3;

/// A few times that are close together or equal, since stores differ at boundaries.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![0_u64..5, 995_u64..1005, 0_u64..4000]
}

fn claim() -> impl Strategy<Value = ClaimOf> {
    let seen = prop_oneof![
        2 => Just(SeenOf::Nothing),
        4 => Just(SeenOf::It),
        1 => option::of(1_u64..9).prop_map(SeenOf::Another),
    ];
    let fingerprint = option::of(0_u8..2);
    (0..OWNERS, time(), time(), time(), fingerprint, seen).prop_map(
        |(owner, now, lease, retention, fingerprint, seen)| ClaimOf {
            owner,
            now,
            lease,
            retention,
            fingerprint,
            seen,
        },
    )
}

fn recording() -> impl Strategy<Value = RecordingOf> {
    let (fingerprint, data) = (option::of(0_u8..2), option::of(0_u8..2));
    (0..OWNERS, time(), time(), fingerprint, data).prop_map(
        |(owner, now, retention, fingerprint, data)| RecordingOf {
            owner,
            now,
            retention,
            fingerprint,
            data,
        },
    )
}

fn settlement() -> impl Strategy<Value = SettlementOf> {
    let data = || option::of(0_u8..2);
    prop_oneof![
        (0..OWNERS, time(), data())
            .prop_map(|(owner, at, data)| SettlementOf::Complete(owner, at, data)),
        (0..OWNERS).prop_map(SettlementOf::Release),
        recording().prop_map(SettlementOf::Record),
        recording().prop_map(SettlementOf::Commit),
    ]
}

fn item() -> impl Strategy<Value = ItemOf> {
    (
        0_u8..3,
        option::of(time()),
        option::of(time()),
        option::of(0_u8..2),
        option::of(0..OWNERS),
        option::of(1_u64..9),
    )
        .prop_map(
            |(status, lease, expiration, fingerprint, owner, fence)| ItemOf {
                status,
                lease,
                expiration,
                fingerprint,
                owner,
                fence,
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => btree_map(0..KEYS, claim(), 1..=usize::from(KEYS))
            .prop_map(|claims| Step::Claim(claims.into_iter().collect())),
        4 => btree_map(0..KEYS, settlement(), 1..=usize::from(KEYS))
            .prop_map(|settlements| Step::Settle(settlements.into_iter().collect())),
        1 => proptest::sample::subsequence((0..KEYS).collect::<Vec<_>>(), 0..=usize::from(KEYS))
            .prop_map(Step::Read),
        1 => (0..KEYS, item()).prop_map(|(key, item)| Step::Plant(key, item)),
        1 => (0..KEYS).prop_map(Step::Delete),
    ]
}

/// Converts a history's numbers to keys, owners and times.
struct History {
    nonce: u128,
}

impl History {
    fn id(&self, key: u8) -> ItemId {
        ItemId::from_stored(format!("model#{:032x}{key:032x}", self.nonce))
    }

    fn claim(&self, (key, claim): (u8, ClaimOf), reference: &Reference) -> Claim {
        let (id, now) = (self.id(key), at(claim.now));
        let standing = reference.0.get(&id);
        let mut new = Claim::new(
            id,
            owner(claim.owner),
            now,
            now + Duration::from_millis(claim.lease),
            now + Duration::from_millis(claim.retention),
        );
        new.seen = match claim.seen {
            SeenOf::Nothing => Seen::Nothing,
            SeenOf::It => standing.map_or(Seen::Nothing, |item| Seen::Item(item.fence)),
            SeenOf::Another(fence) => Seen::Item(fence.map(Fence::from_stored)),
        };
        new.fingerprint = claim.fingerprint.map(fingerprint);
        new
    }

    fn settlement(&self, (key, settlement): (u8, SettlementOf)) -> Settlement {
        let (by, settling) = match settlement {
            SettlementOf::Complete(by, expiration, data) => (
                by,
                Settling::complete(
                    at(expiration),
                    data.map(|data| format!("data {data}").into()),
                ),
            ),
            SettlementOf::Release(by) => (by, Settling::Release),
            SettlementOf::Record(one) => (one.owner, Settling::Record(recorded(&one))),
            SettlementOf::Commit(one) => (one.owner, Settling::Commit(recorded(&one))),
        };
        Settlement::new(self.id(key), owner(by), settling)
    }

    fn item(&self, key: u8, item: ItemOf) -> Item {
        let mut new = Item::new(
            self.id(key),
            match item.status {
                0 => Status::InProgress,
                1 => Status::Completed,
                _ => Status::Unknown("PAUSED".to_owned()),
            },
        );
        new.lease_until = item.lease.map(at);
        new.expiration = item
            .expiration
            .map(|secs| Timestamp::from_secs(at(secs).as_secs()));
        new.fingerprint = item.fingerprint.map(fingerprint);
        new.owner = item.owner.map(owner);
        new.fence = item.fence.map(Fence::from_stored);
        new
    }
}

fn recorded(one: &RecordingOf) -> Recording {
    let mut recording = Recording::new(at(one.now), at(one.now + one.retention));
    recording.fingerprint = one.fingerprint.map(fingerprint);
    recording.data = one.data.map(|data| format!("data {data}").into());
    recording
}

fn at(millis: u64) -> Timestamp {
    NOW + Duration::from_millis(millis)
}

fn owner(number: u8) -> Owner {
    Owner::from_bits(number.into())
}

fn fingerprint(number: u8) -> Fingerprint {
    Fingerprint::of_body(&number.to_string())
}

/// The reference: a minimal store.
#[derive(Default)]
struct Reference(HashMap<ItemId, Item>);

impl Reference {
    fn claim(&mut self, claim: &Claim) -> Claimed {
        let existing = self.0.get(&claim.id);
        match existing {
            Some(item) if !claim.admitted_by(existing) => Claimed::Refused(Box::new(item.clone())),
            _ => {
                let item = claim.write(existing);
                let fence = item.fence.unwrap();
                self.0.insert(claim.id.clone(), item);
                Claimed::Written { fence }
            }
        }
    }

    fn settle(&mut self, settlement: &Settlement) -> Settled {
        let existing = self.0.get(&settlement.id);
        if !settlement.admitted_by(existing) {
            return Settled::Refused(existing.cloned().map(Box::new));
        }
        let item = settlement.write(existing);
        self.0.insert(settlement.id.clone(), item);
        Settled::Written
    }
}

/// Runs the same history on the store and the reference. Compares every answer, and after each step every item.
async fn compare<F: Fixture>(fixture: &F, steps: Vec<Step>) {
    let nonce = OsRandom.bits();
    let history = History { nonce };
    let mut reference = Reference::default();
    for step in steps {
        match step.clone() {
            Step::Claim(claims) => {
                let claims: Vec<_> = claims
                    .into_iter()
                    .map(|claim| history.claim(claim, &reference))
                    .collect();
                let found: Result<Vec<_>, _> =
                    fixture.store().claim(&claims).await.into_iter().collect();
                let expected: Vec<_> = claims.iter().map(|claim| reference.claim(claim)).collect();
                assert_eq!(found.unwrap(), expected, "{step:?}");
            }
            Step::Settle(settlements) => {
                let settlements: Vec<_> = settlements
                    .into_iter()
                    .map(|one| history.settlement(one))
                    .collect();
                let found: Result<Vec<_>, _> = fixture
                    .store()
                    .settle(&settlements)
                    .await
                    .into_iter()
                    .collect();
                let expected: Vec<_> = settlements
                    .iter()
                    .map(|one| reference.settle(one))
                    .collect();
                assert_eq!(found.unwrap(), expected, "{step:?}");
            }
            Step::Read(keys) => {
                let ids: Vec<_> = keys.into_iter().map(|key| history.id(key)).collect();
                let found: Result<Vec<_>, _> =
                    fixture.store().read(&ids).await.into_iter().collect();
                let expected: Vec<_> = ids.iter().map(|id| reference.0.get(id).cloned()).collect();
                assert_eq!(found.unwrap(), expected, "{step:?}");
            }
            Step::Plant(key, item) => {
                let item = history.item(key, item);
                fixture.plant(item.clone()).await;
                reference.0.insert(item.id.clone(), item);
            }
            Step::Delete(key) => {
                fixture.delete(&history.id(key)).await;
                reference.0.remove(&history.id(key));
            }
        }
        for key in 0..KEYS {
            let id = history.id(key);
            assert_eq!(
                fixture.peek(&id).await.as_ref(),
                reference.0.get(&id),
                "after {step:?}"
            );
        }
    }
}

/// Runs random histories. Reports a failure in its shortest form with the seed that reproduces it
/// (`PROPTEST_RNG_SEED`).
fn check(cases: u32, steps: usize, compared: impl Fn(Vec<Step>)) {
    let mut config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(u64::try_from(OsRandom.bits() >> 64).unwrap());
    }
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&vec(step(), 1..steps), |steps| {
        compared(steps);
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("PROPTEST_RNG_SEED={seed}: {failure}");
    }
}

#[test]
fn the_store_in_memory_agrees_with_the_reference_on_random_histories() {
    let fixture = InMemory(MemoryStore::new());
    check(500, 40, |steps| {
        compare(&fixture, steps)
            .now_or_never()
            .expect("memory answers at once");
    });
}

#[test]
fn the_store_on_dynamodb_agrees_with_the_reference_on_random_histories() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(OnDynamoDb::start());
    check(40, 25, |steps| runtime.block_on(compare(&fixture, steps)));
}
