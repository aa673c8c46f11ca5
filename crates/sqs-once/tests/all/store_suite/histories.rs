//! Runs random histories on a store and on the store in memory, which decides by the protocol's own functions, and
//! compares them.

use std::time::Duration;

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::sample::subsequence;
use proptest::test_runner::{Config, RngSeed, TestRunner};
use sqs_once::MemoryStore;
use sqs_once::conformance::Fixture;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{
    Claim, Fence, Item, Owner, Recording, Seen, Settlement, Settling, Status, Store, StoreError,
};
use sqs_once::time::Timestamp;

const NOW: Timestamp = Timestamp::from_secs(4_102_444_800);

/// A step of a history.
#[derive(Clone, Debug)]
enum Step {
    /// Claims, each with the item that it saw, or `None` for the current item.
    Claim(Vec<(Claim, Option<Seen>)>),
    Settle(Vec<Settlement>),
    Read(Vec<ItemId>),
    /// Another program writes an item.
    Plant(Item),
    Delete(ItemId),
}

const KEYS: u8 = 4;

fn id(key: u8) -> ItemId {
    ItemId::from_stored(format!("model#{key:064x}"))
}

/// A few times that are close together or equal, since stores differ at boundaries.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![0_u64..5, 995_u64..1005, 0_u64..4000].prop_map(Duration::from_millis)
}

fn owner() -> impl Strategy<Value = Owner> {
    (0_u128..3).prop_map(Owner::from_bits)
}

fn fingerprint() -> impl Strategy<Value = Option<Fingerprint>> {
    option::of("[ab]".prop_map(|body| Fingerprint::from_body(&body)))
}

fn fence() -> impl Strategy<Value = Option<Fence>> {
    option::of((1_u64..9).prop_map(Fence::from_stored))
}

/// A claim of the first key.
fn claim() -> impl Strategy<Value = (Claim, Option<Seen>)> {
    let seen = prop_oneof![2 => Just(Seen::Nothing), 1 => fence().prop_map(Seen::Item), 1 => fence().prop_map(Seen::Expired)];
    let seen = option::weighted(0.4, seen);
    (owner(), time(), time(), time(), fingerprint(), seen).prop_map(
        |(owner, now, lease, retention, fingerprint, seen)| {
            let [now, lease, retention] = [now, lease, retention].map(|at| NOW + at);
            let mut claim = Claim::new(id(0), owner, now, lease, retention);
            claim.fingerprint = fingerprint;
            (claim, seen)
        },
    )
}

fn settling() -> impl Strategy<Value = Settling> {
    let data = || option::of("data [01]");
    let recording = || {
        let parts = (time(), time(), fingerprint(), data());
        parts.prop_map(|(now, retention, fingerprint, data)| {
            let mut recording = Recording::new(NOW + now, NOW + retention);
            recording.fingerprint = fingerprint;
            recording.data = data.map(Into::into);
            recording
        })
    };
    prop_oneof![
        (time(), data()).prop_map(|(at, data)| Settling::complete(NOW + at, data.map(Into::into))),
        Just(Settling::Release),
        recording().prop_map(Settling::Record),
        recording().prop_map(Settling::Commit),
    ]
}

/// An item of the first key.
fn item() -> impl Strategy<Value = Item> {
    let statuses = vec![
        Status::InProgress,
        Status::Completed,
        Status::Unknown("PAUSED".to_owned()),
    ];
    let at = || option::of(time().prop_map(|at| NOW + at));
    let status = prop::sample::select(statuses);
    let owner = option::of(owner());
    (status, at(), at(), fingerprint(), owner, fence()).prop_map(
        |(status, lease_until, expiration, fingerprint, owner, fence)| {
            let mut item = Item::new(id(0), status);
            item.lease_until = lease_until;
            item.expiration = expiration.map(|at| Timestamp::from_secs(at.as_secs()));
            item.fingerprint = fingerprint;
            item.owner = owner;
            item.fence = fence;
            item
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    let keys = usize::from(KEYS);
    prop_oneof![
        4 => btree_map(0..KEYS, claim(), 1..=keys).prop_map(|claims| {
            let claims = claims.into_iter().map(|(key, (mut claim, seen))| {
                claim.id = id(key);
                (claim, seen)
            });
            Step::Claim(claims.collect())
        }),
        4 => btree_map(0..KEYS, (owner(), settling()), 1..=keys).prop_map(|settlements| {
            let settlements = settlements.into_iter();
            let new = |(key, (owner, settling))| Settlement::new(id(key), owner, settling);
            Step::Settle(settlements.map(new).collect())
        }),
        1 => subsequence((0..KEYS).map(id).collect::<Vec<_>>(), 0..=keys).prop_map(Step::Read),
                2 => (0..KEYS, item()).prop_map(|(key, mut item)| {
            item.id = id(key);
            Step::Plant(item)
        }),
        1 => (0..KEYS).prop_map(|key| Step::Delete(id(key))),
    ]
}

/// Each answer, none of which may be an error.
fn all<T>(answers: Vec<Result<T, StoreError>>) -> Vec<T> {
    answers.into_iter().map(Result::unwrap).collect()
}

/// Runs the same history on both stores. Compares every answer, and after each step every item.
async fn compare(fixture: &impl Fixture, steps: Vec<Step>) {
    let (store, memory) = (fixture.store(), MemoryStore::new());
    for key in 0..KEYS {
        fixture.delete(&id(key)).await;
    }
    for step in steps {
        match step.clone() {
            Step::Claim(claims) => {
                let current = |id: &ItemId| match memory.get(id) {
                    Some(item) if item.status == Status::Completed => Seen::Expired(item.fence),
                    Some(item) => Seen::Item(item.fence),
                    None => Seen::Nothing,
                };
                let claims = claims.into_iter().map(|(mut claim, seen)| {
                    claim.seen = seen.unwrap_or_else(|| current(&claim.id));
                    claim
                });
                let claims: Vec<_> = claims.collect();
                let expected = all(memory.claim(&claims).await);
                assert_eq!(all(store.claim(&claims).await), expected, "{step:?}");
            }
            Step::Settle(settlements) => {
                let expected = all(memory.settle(&settlements).await);
                assert_eq!(all(store.settle(&settlements).await), expected, "{step:?}");
            }
            Step::Read(ids) => {
                let expected = all(memory.read(&ids).await);
                assert_eq!(all(store.read(&ids).await), expected, "{step:?}");
            }
            Step::Plant(item) => {
                fixture.plant(item.clone()).await;
                memory.put(item);
            }
            Step::Delete(id) => {
                fixture.delete(&id).await;
                memory.remove(&id);
            }
        }
        for key in 0..KEYS {
            let found = fixture.peek(&id(key)).await;
            assert_eq!(found, memory.get(&id(key)), "after {step:?}");
        }
    }
}

/// Runs this number of random histories on a new store.
pub(crate) fn agree<F: Fixture>(fixture: impl Future<Output = F>, cases: u32) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let fixture = runtime.block_on(fixture);
    let mut config = Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    };
    if config.rng_seed == RngSeed::Random {
        config.rng_seed = RngSeed::Fixed(u64::try_from(OsRandom.bits() >> 64).unwrap());
    }
    let seed = config.rng_seed;
    let outcome = TestRunner::new(config).run(&vec(step(), 1..30), |steps| {
        runtime.block_on(compare(&fixture, steps));
        Ok(())
    });
    if let Err(failure) = outcome {
        panic!("PROPTEST_RNG_SEED={seed}: {failure}");
    }
}
