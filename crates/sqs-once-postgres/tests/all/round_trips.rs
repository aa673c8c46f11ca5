//! Counts the store's round trips. Runs on one thread, so that pipelined messages arrive together.

use std::time::Duration;

use sqs_once::idempotency::claim;
use sqs_once::store::{Begun, Claimed, Settled, Settling, Status, Store, Transactions};
use sqs_once_postgres::PostgresStore;

use crate::relay::Relay;
use crate::support::{Database, completion, new_claims, settlement};

const PATIENCE: Duration = Duration::from_secs(60);

/// A store behind a relay, with an open connection.
async fn warm(database: &Database) -> (Relay, PostgresStore) {
    let relay = Relay::before(&database.url).await;
    let store = PostgresStore::from_url(&relay.url(&database.url)).unwrap();
    let read = store.read(&[new_claims(1).remove(0).id]).await;
    assert_eq!(read[0].as_ref().unwrap(), &None);
    (relay, store)
}

#[tokio::test]
async fn a_transaction_begins_in_one_round_trip_and_commits_in_one() {
    let database = Database::new().await;
    let (relay, store) = warm(&database).await;
    let claim = new_claims(1).remove(0);
    let before = relay.round_trips();
    let begun = store.begin(&claim, PATIENCE).await.unwrap();
    let Begun::Open { transaction, .. } = begun else {
        panic!("a new key was refused");
    };
    assert_eq!(relay.round_trips() - before, 1);
    transaction
        .commit(settlement(&claim, completion()))
        .await
        .unwrap();
    assert_eq!(relay.round_trips() - before, 2);
}

#[tokio::test]
async fn a_duplicate_of_a_transaction_is_known_in_two_round_trips() {
    let database = Database::new().await;
    let (relay, store) = warm(&database).await;
    let claims = new_claims(2);
    store.claim(&claims[..1]).await;
    store.settle(&[settlement(&claims[0], completion())]).await;
    let again = {
        let mut claim = claims[1].clone();
        claim.id = claims[0].id.clone();
        claim
    };
    let before = relay.round_trips();
    let begun = store.begin(&again, PATIENCE).await.unwrap();
    assert!(matches!(begun, Begun::Refused(item) if item.status == Status::Completed));
    assert_eq!(relay.round_trips() - before, 2);
}

#[tokio::test]
async fn a_hundred_claims_take_one_round_trip_and_so_do_their_completions() {
    let database = Database::new().await;
    let (relay, store) = warm(&database).await;
    let claims = new_claims(100);
    let before = relay.round_trips();
    let claimed = store.claim(&claims).await;
    assert!(
        claimed
            .iter()
            .all(|one| matches!(one, Ok(Claimed::Written { .. })))
    );
    assert_eq!(relay.round_trips() - before, 1);

    let settle = |claim| settlement(claim, completion());
    let settlements: Vec<_> = claims.iter().map(settle).collect();
    let settled = store.settle(&settlements).await;
    assert!(
        settled
            .iter()
            .all(|one| matches!(one, Ok(Settled::Written)))
    );
    assert_eq!(relay.round_trips() - before, 2);

    let again = store.claim(&claims).await;
    assert!(
        again
            .iter()
            .all(|one| matches!(one, Ok(Claimed::Refused(_))))
    );
    assert_eq!(relay.round_trips() - before, 4);
}

#[tokio::test]
async fn keys_that_were_given_back_take_three_round_trips() {
    let database = Database::new().await;
    let (relay, store) = warm(&database).await;
    let (claims, others) = (new_claims(100), new_claims(100));
    store.claim(&claims).await;
    let release = |claim| settlement(claim, Settling::Release);
    store
        .settle(&claims.iter().map(release).collect::<Vec<_>>())
        .await;
    let rivals: Vec<_> = claims
        .iter()
        .zip(others)
        .map(|(claim, other)| {
            let mut changed = other;
            changed.id = claim.id.clone();
            changed
        })
        .collect();
    let before = relay.round_trips();
    let claimed = claim(&store, &rivals).await;
    assert!(
        claimed
            .iter()
            .all(|one| matches!(one, Ok(Claimed::Written { .. })))
    );
    assert_eq!(relay.round_trips() - before, 3);
}
