//! Requests without an answer, executed or not.

use sqs_once::conformance::Fixture;
use sqs_once::idempotency::{Admission, Completion, claim, on_claimed, on_completed};
use sqs_once::store::{
    Claim, DynamoDbStore, Fence, Item, Settled, Settling, Store, StoreErrorKind,
};

use crate::store_suite::support::{
    NOW, OnDynamoDb, completion, new_claims, recording, rivals, settlements, store_at,
};
use crate::support::wire::{Turn, Wire};

struct Unreliable {
    table: OnDynamoDb,
    wire: Wire,
    store: DynamoDbStore,
}

async fn unreliable(turns: impl IntoIterator<Item = Turn>) -> Unreliable {
    let table = OnDynamoDb::start().await;
    let wire = Wire::to(&table.local.endpoint(), turns).await;
    let store = store_at(&wire.endpoint());
    Unreliable { table, wire, store }
}

impl Unreliable {
    async fn items(&self, claims: &[Claim]) -> Vec<Option<Item>> {
        let mut items = Vec::new();
        for claim in claims {
            items.push(self.table.peek(&claim.id).await);
        }
        items
    }
}

/// The ways to lose a write's answer after DynamoDB executed the write.
fn losses() -> [Turn; 3] {
    let failure = r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#;
    [
        Turn::LoseAnswer,
        Turn::Garble(500, failure.to_owned()),
        Turn::Garble(503, String::new()),
    ]
}

const OWN: Admission = Admission::Run {
    fence: Fence::first(NOW),
};

#[tokio::test]
async fn a_lone_claim_whose_answer_was_lost_is_sent_again_and_recognised_as_own() {
    for loss in losses() {
        let network = unreliable([loss]).await;
        let claims = new_claims(1);
        let claimed = network.store.claim(&claims).await;
        assert_eq!(on_claimed(&claims[0], claimed[0].as_ref().unwrap()), OWN);
        assert_eq!(network.items(&claims).await, [Some(claims[0].write(None))]);
        assert_eq!(network.wire.seen(), ["UpdateItem", "UpdateItem"]);
    }
}

#[tokio::test]
async fn claims_in_a_batch_whose_answer_was_lost_are_sent_again_and_recognised_as_own() {
    for loss in losses() {
        let network = unreliable([loss]).await;
        let claims = new_claims(3);
        let claimed = network.store.claim(&claims).await;
        for (claim, claimed) in claims.iter().zip(claimed) {
            assert_eq!(on_claimed(claim, &claimed.unwrap()), OWN);
        }
        let written: Vec<_> = claims.iter().map(|claim| Some(claim.write(None))).collect();
        assert_eq!(network.items(&claims).await, written);
        assert_eq!(
            network.wire.seen(),
            [
                "BatchExecuteStatement",
                "BatchExecuteStatement",
                "BatchGetItem"
            ]
        );
    }
}

#[tokio::test]
async fn a_claim_that_never_arrived_is_sent_again_and_granted() {
    for count in [1, 2] {
        let network = unreliable([Turn::LoseRequest]).await;
        let claims = new_claims(count);
        for (claim, claimed) in claims.iter().zip(network.store.claim(&claims).await) {
            assert_eq!(on_claimed(claim, &claimed.unwrap()), OWN);
        }
    }
}

#[tokio::test]
async fn a_settlement_whose_answer_was_lost_is_sent_again_and_counts_once() {
    for loss in losses() {
        for (settling, count) in [completion(), Settling::Release, recording()]
            .into_iter()
            .flat_map(|settling| [(settling.clone(), 1), (settling, 2)])
        {
            let network = unreliable([]).await;
            let claims = new_claims(count);
            let claimed = !matches!(settling, Settling::Record { .. });
            if claimed {
                network.store.claim(&claims).await;
            }
            network.wire.next([loss.clone()]);
            let sent = settlements(&claims, &settling);
            let settled = network.store.settle(&sent).await;
            for settled in settled {
                let settled = settled.unwrap();
                match settling {
                    Settling::Release => assert_eq!(settled, Settled::Written),
                    _ => assert_eq!(on_completed(&settled), Completion::Recorded),
                }
            }
            let written: Vec<_> = claims
                .iter()
                .zip(&sent)
                .map(|(claim, settlement)| {
                    let before = claimed.then(|| claim.write(None));
                    Some(settlement.write(before.as_ref()))
                })
                .collect();
            assert_eq!(network.items(&claims).await, written, "{settling:?}");
        }
    }
}

#[tokio::test]
async fn a_claim_that_is_never_answered_is_unknown_and_recognised_when_it_is_sent_later() {
    for count in [1, 3] {
        let network = unreliable(vec![Turn::LoseAnswer; 3]).await;
        let claims = new_claims(count);
        for claimed in network.store.claim(&claims).await {
            let error = claimed.unwrap_err();
            assert_eq!(error.kind(), StoreErrorKind::Unanswered);
            assert!(error.is_transient());
        }
        let written: Vec<_> = claims.iter().map(|claim| Some(claim.write(None))).collect();
        assert_eq!(network.items(&claims).await, written);
        for (claim, claimed) in claims.iter().zip(network.store.claim(&claims).await) {
            assert_eq!(on_claimed(claim, &claimed.unwrap()), OWN);
        }
        assert_eq!(network.items(&claims).await, written);
    }
}

#[tokio::test]
async fn a_batch_whose_answer_was_lost_knows_its_own_claims_from_those_of_others() {
    let network = unreliable([]).await;
    let claims = new_claims(4);
    let rivals = rivals(&claims[1..3]);
    network.store.claim(&rivals).await;
    network.wire.next([Turn::LoseAnswer]);
    let claimed = network.store.claim(&claims).await;
    let own: Vec<bool> = claims
        .iter()
        .zip(claimed)
        .map(|(claim, claimed)| on_claimed(claim, &claimed.unwrap()) == OWN)
        .collect();
    assert_eq!(own, [true, false, false, true]);
}

#[tokio::test]
async fn a_key_that_had_an_item_is_claimed_with_one_attempt_since_others_wait_for_it() {
    let network = unreliable([]).await;
    let given_back = new_claims(1);
    network.store.claim(&given_back).await;
    let releases = settlements(&given_back, &Settling::Release);
    network.store.settle(&releases).await;
    network.wire.seen();
    for requests in [
        &["BatchExecuteStatement", "BatchGetItem"][..],
        &["BatchExecuteStatement", "BatchGetItem", "UpdateItem"],
    ] {
        let claims = [rivals(&given_back), new_claims(1)].concat();
        let passing = requests[1..].iter().map(|_| Turn::Pass);
        network.wire.next(passing.chain([Turn::LoseAnswer]));
        let mut claimed = claim(&network.store, &claims).await;
        assert!(claimed.pop().unwrap().is_ok());
        let unknown = claimed.pop().unwrap().unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::Unanswered);
        assert_eq!(network.wire.seen(), requests);
    }
}
