//! Commits without an answer: executed, not executed, or still in flight.

use std::time::Duration;

use serde_json::json;
use sqs_once::conformance::Fixture;
use sqs_once::idempotency::{Commitment, on_committed};
use sqs_once::store::{Committed, DynamoDbStore, Settlement, Store, StoreErrorKind, Writes};

use crate::store_suite::commits::{Shop, order, shop, taken};
use crate::store_suite::support::{TABLE, client, commit, new_claims, settlements};
use crate::support::wire::{Turn, Wire};

fn in_progress() -> Turn {
    let body = json!({"__type": "com.amazonaws.dynamodb.v20120810#TransactionInProgressException"});
    Turn::Answer(400, body.to_string())
}

fn settlement() -> Settlement {
    settlements(&new_claims(1), &commit()).remove(0)
}

/// Three pieces, and writes that take one of them.
async fn three_in_stock() -> (Shop, Writes) {
    let shop = shop().await;
    shop.put_stock("a-7", 3).await;
    let writes = Writes::new().put_item(order("o-1")).update(taken("a-7"));
    (shop, writes)
}

/// The client request token of each transaction sent.
fn tokens(shop: &Shop) -> Vec<String> {
    let bodies = shop.wire.bodies().into_iter();
    let tokens = bodies.map(|body| body["ClientRequestToken"].as_str().unwrap().to_owned());
    tokens.collect()
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_sent_again_and_happens_once() {
    let failure = r#"{"__type":"com.amazonaws.dynamodb.v20120810#InternalServerError"}"#;
    for loss in [
        Turn::LoseRequest,
        Turn::LoseAnswer,
        Turn::Garble(500, failure.to_owned()),
        Turn::Garble(503, String::new()),
        in_progress(),
    ] {
        let (shop, writes) = three_in_stock().await;
        shop.wire.next([loss.clone()]);
        let settlement = settlement();
        let committed = shop.commit(&settlement, &writes).await;
        assert_eq!(committed, Committed::Written, "{loss:?}");
        assert_eq!(shop.stock("a-7").await, Some(2), "{loss:?}");
        let item = shop.table.peek(&settlement.id).await;
        assert_eq!(item, Some(settlement.write(None)));
        assert_eq!(tokens(&shop), vec![settlement.owner.to_string(); 2]);
    }
}

#[tokio::test]
async fn a_commit_that_is_never_answered_is_unknown_and_happens_once_when_it_is_sent_later() {
    let (shop, writes) = three_in_stock().await;
    shop.wire.next(vec![Turn::LoseAnswer; 3]);
    let settlement = settlement();
    let atomic = shop.store.atomic_writes().unwrap();
    let error = atomic.commit(&settlement, &writes).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unanswered);
    assert!(error.is_transient());
    assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
    assert_eq!(shop.stock("a-7").await, Some(2));
    assert_eq!(tokens(&shop), vec![settlement.owner.to_string(); 4]);
}

#[tokio::test]
async fn a_commit_that_dynamodb_is_still_at_may_be_sent_again() {
    let (shop, writes) = three_in_stock().await;
    shop.wire.next(vec![in_progress(); 3]);
    let atomic = shop.store.atomic_writes().unwrap();
    let error = atomic.commit(&settlement(), &writes).await.unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Throttled);
    assert!(error.is_transient());
}

/// DynamoDB knows a token for ten minutes. After that, only the commit's own record identifies it.
#[tokio::test]
async fn a_commit_that_dynamodb_has_forgotten_is_known_by_its_owner_and_happens_once() {
    let (shop, writes) = three_in_stock().await;
    let settlement = settlement();
    shop.table
        .store()
        .settle(std::slice::from_ref(&settlement))
        .await;
    let Committed::Refused(item) = shop.commit(&settlement, &writes).await else {
        panic!("committed twice");
    };
    let commitment = on_committed(settlement.owner, None, Some(&item));
    assert_eq!(commitment, Commitment::Recorded);
    assert_eq!(shop.stock("a-7").await, Some(3));
}

#[tokio::test]
async fn no_answer_in_time_is_unknown() {
    let wire = Wire::always(Turn::Hang).await;
    let impatient = client(&wire.endpoint(), Duration::from_millis(20));
    let store = DynamoDbStore::new(impatient, TABLE);
    let atomic = store.atomic_writes().unwrap();
    let committed = atomic.commit(&settlement(), &Writes::new()).await;
    assert_eq!(committed.unwrap_err().kind(), StoreErrorKind::Unanswered);
}

#[tokio::test]
async fn an_answer_that_says_nothing_is_an_error_and_not_a_yes() {
    for body in ["", "{}"] {
        let (shop, writes) = three_in_stock().await;
        shop.wire.next([Turn::Answer(200, body.to_owned())]);
        let atomic = shop.store.atomic_writes().unwrap();
        let error = atomic.commit(&settlement(), &writes).await.unwrap_err();
        assert_eq!(error.kind(), StoreErrorKind::Other);
        assert!(error.to_string().contains("answer"), "{error}");
    }
}
