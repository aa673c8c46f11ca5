//! What the store sends: claims, settlements, reads and commits, through the store itself.

use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Put, Update};
use proptest::collection::btree_map;
use proptest::option;
use proptest::prelude::*;
use sqs_once::Writes;
use sqs_once::idempotency;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Claim, DynamoDbStore, Owner, Recording, Settlement, Settling, Store};
use sqs_once::time::Timestamp;

use super::requests::KEYS;

/// In milliseconds since 1970: the time around which all requests are.
const NOW: u64 = 1_790_000_000_000;

/// What is asked of the store.
#[derive(Clone, Debug)]
pub(crate) enum Ask {
    Claim(Vec<Claim>),
    Settle(Vec<Settlement>),
    Read(Vec<u8>),
    /// With an effect elsewhere; the flag says whether it has a condition of its own.
    Commit(Settlement, u8, bool),
}

fn id(key: u8) -> ItemId {
    ItemId::from_stored(format!("k{key}"))
}

fn time() -> impl Strategy<Value = Timestamp> {
    prop_oneof![0_u64..5, 995_u64..1005, 0_u64..4000]
        .prop_map(|millis| Timestamp::from_millis(NOW) + Duration::from_millis(millis))
}

fn owner() -> impl Strategy<Value = Owner> {
    (0_u128..3).prop_map(Owner::from_bits)
}

fn fingerprint() -> impl Strategy<Value = Option<Fingerprint>> {
    option::of((0_u8..2).prop_map(|body| Fingerprint::of_body(&body.to_string())))
}

fn claims() -> impl Strategy<Value = Vec<Claim>> {
    let claim = (owner(), time(), time(), time(), fingerprint());
    btree_map(0..KEYS, claim, 1..=usize::from(KEYS)).prop_map(|claims| {
        let claims = claims.into_iter().map(
            |(key, (owner, now, lease_until, expiration, fingerprint))| {
                let mut claim = Claim::new(id(key), owner, now, lease_until, expiration);
                claim.fingerprint = fingerprint;
                claim
            },
        );
        claims.collect()
    })
}

fn data() -> impl Strategy<Value = Option<std::sync::Arc<str>>> {
    option::of((0_u8..2).prop_map(|data| format!("data {data}").into()))
}

fn settling() -> impl Strategy<Value = Settling> {
    let recording = || {
        (time(), time(), fingerprint(), data()).prop_map(|(now, expiration, fingerprint, data)| {
            let mut recording = Recording::new(now, expiration);
            recording.fingerprint = fingerprint;
            recording.data = data;
            recording
        })
    };
    prop_oneof![
        (time(), data()).prop_map(|(expiration, data)| Settling::complete(expiration, data)),
        Just(Settling::Release),
        recording().prop_map(Settling::Record),
        recording().prop_map(Settling::Commit),
    ]
}

fn settlements() -> impl Strategy<Value = Vec<Settlement>> {
    btree_map(0..KEYS, (owner(), settling()), 1..=usize::from(KEYS)).prop_map(|settlements| {
        let settlements = settlements
            .into_iter()
            .map(|(key, (owner, settling))| Settlement::new(id(key), owner, settling));
        settlements.collect()
    })
}

pub(crate) fn ask() -> impl Strategy<Value = Ask> {
    let is_commit = |all: &Vec<Settlement>| {
        matches!(
            all[0].settling,
            Settling::Commit(_) | Settling::Complete { .. }
        )
    };
    prop_oneof![
        4 => claims().prop_map(Ask::Claim),
        4 => settlements().prop_map(Ask::Settle),
        1 => proptest::sample::subsequence((0..KEYS).collect::<Vec<_>>(), 1..=usize::from(KEYS)).prop_map(Ask::Read),
        2 => (settlements().prop_filter("commits", is_commit), 0..KEYS, any::<bool>())
            .prop_map(|(mut all, effect, conditional)| Ask::Commit(all.remove(0), effect, conditional)),
    ]
}

impl Ask {
    /// How it ends is compared beneath the store.
    pub(crate) async fn of(self, store: &DynamoDbStore) {
        match self {
            Self::Claim(claims) => drop(idempotency::claim(store, &claims).await),
            Self::Settle(settlements) => drop(store.settle(&settlements).await),
            Self::Read(keys) => {
                let ids: Vec<_> = keys.into_iter().map(id).collect();
                drop(store.read(&ids).await);
            }
            Self::Commit(settlement, effect, conditional) => {
                let writes = writes(effect, conditional);
                let atomic = store.atomic_writes().unwrap();
                drop(atomic.commit(&settlement, &writes).await);
            }
        }
    }
}

/// An effect that is counted, and one that happens once or conflicts.
fn writes(effect: u8, conditional: bool) -> Writes {
    let key = AttributeValue::S(format!("k{effect}"));
    let one = AttributeValue::N("1".to_owned());
    if conditional {
        let put = Put::builder()
            .table_name("effects")
            .item("id", key)
            .item("times", one)
            .condition_expression("attribute_not_exists(id)");
        return Writes::new().put_item(put.build().unwrap());
    }
    let update = Update::builder()
        .table_name("effects")
        .key("id", key)
        .update_expression("ADD times :one")
        .expression_attribute_values(":one", one);
    Writes::new().update(update.build().unwrap())
}
