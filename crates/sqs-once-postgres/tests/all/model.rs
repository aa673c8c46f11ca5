//! Runs random histories on this store and on the in-memory store, which is the reference, and compares them.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sqs_once::MemoryStore;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{
    Claim, Fence, Item, Owner, Recording, Seen, Settlement, Settling, Status, Store, StoreError,
};
use sqs_once::time::Timestamp;

use crate::support::{Database, NOW};

const KEYS: u8 = 3;
const OWNERS: u8 = 3;

/// A step of a history. Keys are numbers.
#[derive(Clone, Debug)]
enum Step {
    Claim(Vec<(u8, Claim)>),
    Settle(Vec<(u8, Settlement)>),
    /// Another program writes an item.
    Plant(u8, Item),
    Delete(u8),
}

/// A few times that are close together or equal, since stores differ at boundaries.
fn time() -> impl Strategy<Value = Timestamp> {
    let millis = prop_oneof![0_u64..5, 995_u64..1005, 0_u64..4000];
    millis.prop_map(|millis| NOW + Duration::from_millis(millis))
}

fn owner() -> impl Strategy<Value = Owner> {
    (0..OWNERS).prop_map(|owner| Owner::from_bits(owner.into()))
}

fn fingerprint() -> impl Strategy<Value = Option<Fingerprint>> {
    option::of((0_u8..2).prop_map(|number| Fingerprint::from_body(&number.to_string())))
}

fn data() -> impl Strategy<Value = Option<std::sync::Arc<str>>> {
    option::of((0_u8..2).prop_map(|number| format!("data {number}").into()))
}

/// A placeholder for the key's item at that step. No item has this fence.
const IT: Seen = Seen::Item(Some(Fence::from_stored(0)));

/// A placeholder that the step replaces.
fn nobody() -> ItemId {
    ItemId::from_stored("")
}

fn claim() -> impl Strategy<Value = Claim> {
    let seen = prop_oneof![
        2 => Just(Seen::Nothing),
        4 => Just(IT),
        1 => option::of((1_u64..9).prop_map(Fence::from_stored)).prop_map(Seen::Item),
    ];
    (owner(), time(), time(), time(), fingerprint(), seen).prop_map(
        |(owner, now, lease_until, expiration, fingerprint, seen)| {
            let mut claim = Claim::new(nobody(), owner, now, lease_until, expiration);
            claim.fingerprint = fingerprint;
            claim.seen = seen;
            claim
        },
    )
}

fn settlement() -> impl Strategy<Value = Settlement> {
    let recording = || {
        (time(), time(), fingerprint(), data()).prop_map(|(now, expiration, fingerprint, data)| {
            let mut recording = Recording::new(now, expiration);
            recording.fingerprint = fingerprint;
            recording.data = data;
            recording
        })
    };
    let settling = prop_oneof![
        (time(), data()).prop_map(|(expiration, data)| Settling::complete(expiration, data)),
        Just(Settling::Release),
        recording().prop_map(Settling::Record),
        recording().prop_map(Settling::Commit),
    ];
    (owner(), settling).prop_map(|(owner, settling)| Settlement::new(nobody(), owner, settling))
}

fn item() -> impl Strategy<Value = Item> {
    let status = prop_oneof![
        Just(Status::InProgress),
        Just(Status::Completed),
        Just(Status::Unknown("PAUSED".to_owned())),
    ];
    let fence = option::of((1_u64..9).prop_map(Fence::from_stored));
    let expiration = option::of(time().prop_map(|at| Timestamp::from_secs(at.as_secs())));
    (
        status,
        option::of(time()),
        expiration,
        fingerprint(),
        option::of(owner()),
        fence,
    )
        .prop_map(
            |(status, lease_until, expiration, fingerprint, owner, fence)| {
                let mut item = Item::new(nobody(), status);
                item.lease_until = lease_until;
                item.expiration = expiration;
                item.fingerprint = fingerprint;
                item.owner = owner;
                item.fence = fence;
                item
            },
        )
}

fn step() -> impl Strategy<Value = Step> {
    let keys = || 1..=usize::from(KEYS);
    prop_oneof![
        4 => btree_map(0..KEYS, claim(), keys()).prop_map(|all| Step::Claim(all.into_iter().collect())),
        4 => btree_map(0..KEYS, settlement(), keys()).prop_map(|all| Step::Settle(all.into_iter().collect())),
        2 => (0..KEYS, item()).prop_map(|(key, item)| Step::Plant(key, item)),
        1 => (0..KEYS).prop_map(Step::Delete),
    ]
}

fn answered<T>(answers: Vec<Result<T, StoreError>>) -> Vec<T> {
    answers.into_iter().map(Result::unwrap).collect()
}

/// Runs the same history on both stores. Compares every answer, and after each step every item.
async fn compare(database: &Database, steps: Vec<Step>) {
    let nonce = OsRandom.bits();
    let id = |key: u8| ItemId::from_stored(format!("model#{nonce:032x}{key:032x}"));
    let reference = MemoryStore::new();
    for step in steps {
        match step.clone() {
            Step::Claim(claims) => {
                let named = |(key, mut claim): (u8, Claim)| {
                    claim.seen = match (claim.seen, reference.get(&id(key))) {
                        (IT, Some(item)) => Seen::Item(item.fence),
                        (IT, None) => Seen::Nothing,
                        (seen, _) => seen,
                    };
                    claim.id = id(key);
                    claim
                };
                let claims: Vec<_> = claims.into_iter().map(named).collect();
                let found = answered(database.store.claim(&claims).await);
                let expected = answered(reference.claim(&claims).await);
                assert_eq!(found, expected, "{step:?}");
            }
            Step::Settle(settlements) => {
                let named = |(key, mut settlement): (u8, Settlement)| {
                    settlement.id = id(key);
                    settlement
                };
                let settlements: Vec<_> = settlements.into_iter().map(named).collect();
                let found = answered(database.store.settle(&settlements).await);
                let expected = answered(reference.settle(&settlements).await);
                assert_eq!(found, expected, "{step:?}");
            }
            Step::Plant(key, mut item) => {
                item.id = id(key);
                database.plant(item.clone()).await;
                reference.put(item);
            }
            Step::Delete(key) => {
                database.delete(&id(key)).await;
                reference.remove(&id(key));
            }
        }
        for key in 0..KEYS {
            let (found, expected) = (database.peek(&id(key)).await, reference.get(&id(key)));
            assert_eq!(found, expected, "after {step:?}");
        }
    }
}

#[test]
fn the_store_agrees_with_the_reference_on_random_histories() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let database = runtime.block_on(Database::new());
    let mut config = Config {
        cases: 150,
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(u64::try_from(OsRandom.bits() >> 64).unwrap());
    }
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&vec(step(), 1..30), |steps| {
        runtime.block_on(compare(&database, steps));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("PROPTEST_RNG_SEED={seed}: {failure}");
    }
}
