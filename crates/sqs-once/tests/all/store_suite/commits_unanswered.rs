//! Commits without an answer: executed, not executed, or still in flight.

use serde_json::json;
use sqs_once::idempotency::on_committed;
use sqs_once::store::{Committed, Store, StoreErrorKind, Writes};

use crate::store_suite::commits::{order, shop, taken};
use crate::store_suite::lost_answers::losses;
use crate::store_suite::support::{Networked, new_commit, refused};
use crate::support::wire::Turn;

/// Three pieces, and writes that take one of them.
async fn three_in_stock() -> (Networked, Writes) {
    let shop = shop().await;
    shop.put_stock("a-7", 3);
    let writes = Writes::new().put_item(order("o-1")).update(taken("a-7"));
    (shop, writes)
}

/// The client request token of each transaction sent.
fn tokens(shop: &Networked) -> Vec<String> {
    let bodies = shop.wire.bodies().into_iter();
    let tokens = bodies.map(|body| body["ClientRequestToken"].as_str().unwrap().to_owned());
    tokens.collect()
}

#[tokio::test]
async fn a_commit_whose_answer_was_lost_is_sent_again_and_happens_once() {
    let in_progress = refused("TransactionInProgressException", json!({}));
    for loss in losses().into_iter().chain([Turn::LoseRequest, in_progress]) {
        let (shop, writes) = three_in_stock().await;
        shop.wire.next([loss.clone()]);
        let settlement = new_commit();
        let committed = shop.commit(&settlement, &writes).await;
        assert_eq!(committed, Committed::Written, "{loss:?}");
        assert_eq!(shop.stock("a-7"), Some(2), "{loss:?}");
        shop.assert_written(&settlement).await;
        assert_eq!(tokens(&shop), vec![settlement.owner.to_string(); 2]);
    }
}

#[tokio::test]
async fn a_commit_that_is_never_answered_is_unknown_and_happens_once_when_it_is_sent_later() {
    let (shop, writes) = three_in_stock().await;
    shop.wire.next(vec![Turn::LoseAnswer; 3]);
    let settlement = new_commit();
    let error = shop.fails(&settlement, &writes).await;
    assert_eq!(error.kind(), StoreErrorKind::Unanswered);
    assert!(error.is_transient());
    assert_eq!(shop.commit(&settlement, &writes).await, Committed::Written);
    assert_eq!(shop.stock("a-7"), Some(2));
    assert_eq!(tokens(&shop), vec![settlement.owner.to_string(); 4]);
}

/// DynamoDB knows a token for ten minutes. After that, only the commit's own record identifies it.
#[tokio::test]
async fn a_commit_that_dynamodb_has_forgotten_is_known_by_its_owner_and_happens_once() {
    let (shop, writes) = three_in_stock().await;
    let settlement = new_commit();
    let recorded = std::slice::from_ref(&settlement);
    shop.store.settle(recorded).await;
    let Committed::Refused(item) = shop.commit(&settlement, &writes).await else {
        panic!("committed twice");
    };
    let commitment = on_committed(settlement.owner, None, Some(&item));
    assert_eq!(commitment, Ok(()));
    assert_eq!(shop.stock("a-7"), Some(3));
}
