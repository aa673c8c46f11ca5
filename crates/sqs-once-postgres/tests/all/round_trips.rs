//! Counts the store's round trips. Runs on one thread, so that pipelined messages arrive together.

use std::sync::Arc;

use sqs_once::store::{Claimed, Settled, Settling, Status, Store, StoreError, Transactions};
use sqs_once::unstable::claim;
use sqs_once_postgres::PostgresStore;

use crate::exactly_once::proxy::Proxy;
use crate::support::{
    Database, MINUTE, completion, is_written, new_claims, open, rival, settlement, settlements,
};

/// A store behind a proxy, with an open connection.
async fn warm() -> (Arc<Proxy>, PostgresStore) {
    let database = Database::new().await;
    let (proxy, url) = Proxy::before(&database.url).await;
    let store = PostgresStore::from_url(&url).unwrap();
    let read = store.read(&[new_claims(1).remove(0).id]).await;
    assert_eq!(read[0].as_ref().unwrap(), &None);
    (proxy, store)
}

#[tokio::test]
async fn a_transaction_begins_in_one_round_trip_commits_in_one_and_a_duplicate_is_known_in_two() {
    let (proxy, store) = warm().await;
    let claim = new_claims(1).remove(0);
    let before = proxy.round_trips();
    let transaction = open(&store, &claim).await;
    assert_eq!(proxy.round_trips() - before, 1);
    let completion = settlement(&claim, completion());
    transaction.commit(vec![completion]).await.unwrap();
    assert_eq!(proxy.round_trips() - before, 2);

    // A duplicate is known in two round trips.
    let before = proxy.round_trips();
    let begun = store.begin(&[rival(&claim)], MINUTE, MINUTE).await.unwrap();
    let [Ok(Claimed::Refused(item))] = &begun.answers[..] else {
        panic!("it was claimed");
    };
    assert_eq!(item.status, Status::Completed);
    assert!(begun.transaction.is_none());
    assert_eq!(proxy.round_trips() - before, 2);
}

#[tokio::test]
async fn a_hundred_claims_take_one_round_trip_and_so_do_their_completions() {
    let (proxy, store) = warm().await;
    let claims = new_claims(100);
    let before = proxy.round_trips();
    let claimed = store.claim(&claims).await;
    assert!(claimed.iter().all(is_written));
    assert_eq!(proxy.round_trips() - before, 1);

    let settled = store
        .settle(&settlements(&claims, &Settling::Release))
        .await;
    assert!(settled.iter().all(is_settled));
    assert_eq!(proxy.round_trips() - before, 2);

    // Keys that were given back take three.
    let rivals: Vec<_> = claims.iter().map(rival).collect();
    let claimed = claim(&store, &rivals).await;
    assert!(claimed.iter().all(is_written));
    assert_eq!(proxy.round_trips() - before, 5);

    let settled = store.settle(&settlements(&rivals, &completion())).await;
    assert!(settled.iter().all(is_settled));
    assert_eq!(proxy.round_trips() - before, 6);

    let again = store.claim(&claims).await;
    let is_refused = |one| matches!(one, &Ok(Claimed::Refused(_)));
    assert!(again.iter().all(is_refused));
    assert_eq!(proxy.round_trips() - before, 8);
}

fn is_settled(settled: &Result<Settled, StoreError>) -> bool {
    matches!(settled, Ok(Settled::Written))
}
