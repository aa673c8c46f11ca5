//! Refused writes whose answer does not contain the item that refused.

use serde_json::json;
use sqs_once::conformance::Fixture;
use sqs_once::idempotency::{Admission, Completion, claim, on_claimed, on_completed};
use sqs_once::store::{
    Claim, Claimed, DynamoDbStore, Fence, Item, Settled, Settling, Store, StoreErrorKind,
};

use crate::store_suite::support::{
    NOW, OnDynamoDb, completion, new_claims, recording, rivals, settlements,
};
use crate::support::wire::{Turn, Wire};

struct Terse {
    table: OnDynamoDb,
    wire: Wire,
    store: DynamoDbStore,
}

async fn terse() -> [Terse; 2] {
    [
        on(OnDynamoDb::start().await).await,
        on(OnDynamoDb::with_other_layout().await).await,
    ]
}

async fn on(table: OnDynamoDb) -> Terse {
    let wire = Wire::to(&table.local.endpoint(), []).await;
    let store = table.store_at(&wire.endpoint());
    Terse { table, wire, store }
}

impl Terse {
    /// Writes claims without the proxy and returns their items.
    async fn taken(&self, claims: &[Claim]) -> Vec<Item> {
        self.table.store().claim(claims).await;
        let mut items = Vec::new();
        for claim in claims {
            items.push(self.table.peek(&claim.id).await.unwrap());
        }
        items
    }
}

/// An update is refused without its item.
fn refused() -> Turn {
    Turn::Answer(
        400,
        json!({"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException"})
            .to_string(),
    )
}

/// Each statement of a batch succeeds or is refused without its item.
fn statements<const N: usize>(refused: [bool; N]) -> Turn {
    let failed = json!({"Error": {"Code": "ConditionalCheckFailed", "Message": "Refused"}});
    let responses = refused.map(|refused| if refused { failed.clone() } else { json!({}) });
    Turn::Answer(
        200,
        json!({ "Responses": responses.as_slice() }).to_string(),
    )
}

fn denied() -> Turn {
    let body = json!({"__type": "com.amazon.coral.service#AccessDeniedException"});
    Turn::Answer(400, body.to_string())
}

#[tokio::test]
async fn a_lone_claim_is_refused_by_the_item_that_is_read() {
    for terse in terse().await {
        let claims = new_claims(1);
        let theirs = terse.taken(&rivals(&claims)).await.remove(0);
        terse.wire.next([refused()]);
        let claimed = terse.store.claim(&claims).await.remove(0).unwrap();
        assert_eq!(claimed, Claimed::Refused(Box::new(theirs)));
        assert_eq!(terse.wire.seen(), ["UpdateItem", "BatchGetItem"]);
    }
}

#[tokio::test]
async fn a_claim_in_a_batch_is_refused_by_the_item_that_is_read() {
    for terse in terse().await {
        let claims = new_claims(2);
        let theirs = terse.taken(&rivals(&claims[..1])).await.remove(0);
        let claimed = terse.store.claim(&claims).await;
        let refusal = Claimed::Refused(Box::new(theirs));
        assert_eq!(*claimed[0].as_ref().unwrap(), refusal);
        assert!(matches!(claimed[1], Ok(Claimed::Written { .. })));
        let expected = ["BatchExecuteStatement", "BatchGetItem"];
        assert_eq!(terse.wire.seen(), expected);
    }
}

#[tokio::test]
async fn a_claim_that_its_own_first_copy_refuses_is_recognised_by_the_item_that_is_read() {
    for terse in terse().await {
        let claims = new_claims(1);
        terse.taken(&claims).await;
        terse.wire.next([refused()]);
        let claimed = terse.store.claim(&claims).await.remove(0).unwrap();
        let fence = Fence::first(NOW);
        assert_eq!(on_claimed(&claims[0], &claimed), Admission::Run { fence });
    }
}

#[tokio::test]
async fn a_claim_whose_refusal_is_gone_is_sent_again_and_granted() {
    for terse in terse().await {
        let claims = new_claims(1);
        terse.wire.next([refused()]);
        let claimed = terse.store.claim(&claims).await;
        assert!(matches!(claimed[0], Ok(Claimed::Written { .. })));
        let item = terse.table.peek(&claims[0].id).await;
        assert_eq!(item, Some(claims[0].write(None)));
        let expected = ["UpdateItem", "BatchGetItem", "UpdateItem"];
        assert_eq!(terse.wire.seen(), expected);
    }
}

#[tokio::test]
async fn a_claim_that_was_given_back_meanwhile_is_sent_again_and_granted() {
    for terse in terse().await {
        let claims = new_claims(1);
        let owner = rivals(&claims);
        terse.taken(&owner).await;
        let release = settlements(&owner, &Settling::Release);
        terse.table.store().settle(&release).await;
        terse.wire.next([refused()]);
        let claimed = claim(&terse.store, &claims).await.remove(0).unwrap();
        let fence = Fence::first(NOW).next();
        assert_eq!(claimed, Claimed::Written { fence });
    }
}

#[tokio::test]
async fn a_claim_that_nothing_seems_to_refuse_is_unknown_after_two_tries() {
    for terse in terse().await {
        let claims = new_claims(1);
        terse
            .wire
            .next([refused(), Turn::Pass, refused(), Turn::Pass]);
        let unknown = terse.store.claim(&claims).await.remove(0).unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::Other);
        assert!(unknown.to_string().contains("refused the claim"));
        assert_eq!(terse.table.peek(&claims[0].id).await, None);
        let expected = ["UpdateItem", "BatchGetItem", "UpdateItem", "BatchGetItem"];
        assert_eq!(terse.wire.seen(), expected);
    }
}

#[tokio::test]
async fn refused_settlements_are_decided_by_one_read_of_all_their_items() {
    for terse in terse().await {
        let claims = new_claims(4);
        let others = rivals(&claims);
        let claimed = terse.taken(&others[..2]).await;
        let done = settlements(&others[1..2], &completion());
        terse.table.store().settle(&done).await;
        for settling in [completion(), Settling::Release] {
            terse.wire.next([statements([true, true, true, false])]);
            let settled = terse.store.settle(&settlements(&claims, &settling)).await;
            let settled: Vec<_> = settled.into_iter().map(Result::unwrap).collect();
            let lost = Settled::Refused(Some(Box::new(claimed[0].clone())));
            assert_eq!(settled[0], lost);
            assert_eq!(on_completed(&settled[1]), Completion::Recorded);
            assert_eq!(settled[2], Settled::Refused(None));
            assert_eq!(settled[3], Settled::Written);
            let expected = ["BatchExecuteStatement", "BatchGetItem"];
            assert_eq!(terse.wire.seen(), expected, "{settling:?}");
        }
    }
}

#[tokio::test]
async fn a_refused_lone_settlement_is_decided_by_the_item_that_is_read() {
    for terse in terse().await {
        let claims = new_claims(1);
        let owner = rivals(&claims);
        let theirs = terse.taken(&owner).await.remove(0);
        for settling in [completion(), Settling::Release] {
            terse.wire.next([refused()]);
            let settled = terse.store.settle(&settlements(&claims, &settling)).await;
            let lost = Settled::Refused(Some(Box::new(theirs.clone())));
            assert_eq!(*settled[0].as_ref().unwrap(), lost);
            let expected = ["UpdateItem", "BatchGetItem"];
            assert_eq!(terse.wire.seen(), expected, "{settling:?}");
        }
        // Without a claim there is no item to return, and none is created.
        let never_claimed = new_claims(1);
        let unclaimed = settlements(&never_claimed, &completion());
        let settled = terse.store.settle(&unclaimed).await.remove(0).unwrap();
        assert_eq!(settled, Settled::Refused(None));
        assert_eq!(terse.wire.seen(), ["UpdateItem", "BatchGetItem"]);
        assert_eq!(terse.table.peek(&never_claimed[0].id).await, None);
    }
}

#[tokio::test]
async fn a_refused_recording_is_decided_by_the_item_that_is_read() {
    for terse in terse().await {
        for (keys, before) in [(1, None), (2, Some("BatchExecuteStatement"))] {
            let claims = new_claims(keys);
            let owner = rivals(&claims[..1]);
            terse.taken(&owner).await;
            let done = settlements(&owner, &completion());
            terse.table.store().settle(&done).await;
            terse
                .wire
                .next(before.map(|_| Turn::Pass).into_iter().chain([refused()]));
            let recordings = settlements(&claims, &recording());
            let settled = terse.store.settle(&recordings).await.remove(0).unwrap();
            let theirs = terse.table.peek(&claims[0].id).await.map(Box::new);
            assert_eq!(settled, Settled::Refused(theirs));
            let expected = before.into_iter().chain(["UpdateItem", "BatchGetItem"]);
            assert_eq!(terse.wire.seen(), expected.collect::<Vec<_>>());
        }
    }
}

#[tokio::test]
async fn a_read_that_is_denied_leaves_unknown_what_it_should_have_decided_and_no_more() {
    for terse in terse().await {
        let claims = new_claims(2);
        terse.wire.next([refused(), denied()]);
        let claimed = terse.store.claim(&claims[..1]).await.remove(0);
        assert_eq!(claimed.unwrap_err().kind(), StoreErrorKind::AccessDenied);

        terse.wire.next([statements([true, false]), denied()]);
        let completions = settlements(&claims, &completion());
        let settled = terse.store.settle(&completions).await;
        let unknown = settled[0].as_ref().unwrap_err();
        assert_eq!(unknown.kind(), StoreErrorKind::AccessDenied);
        assert!(matches!(settled[1], Ok(Settled::Written)));

        terse.wire.next([refused(), denied()]);
        let settled = terse.store.settle(&completions[..1]).await.remove(0);
        assert_eq!(settled.unwrap_err().kind(), StoreErrorKind::AccessDenied);
    }
}
