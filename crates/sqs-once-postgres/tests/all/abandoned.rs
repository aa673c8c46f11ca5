//! Claims whose caller disappears, and connections that die while they idle or wait. `exactly_once` has the other faults.

use std::time::Duration;

use sqs_once::store::{Claim, Fence, Seen, Settling, Store, StoreErrorKind};
use sqs_once_postgres::PostgresStore;
use tokio_postgres::Client;

use crate::batch_transactions::place;
use crate::exactly_once::proxy::Proxy;
use crate::orders::{ACKNOWLEDGED, Orders, invoke, invoke_for, two_at_once};
use crate::support::{
    Database, NOW, connect, is_written, new_claims, rival, settlement, until_idle, until_waiting,
};

/// Locks that another transaction holds on a key.
pub(crate) const HOLDS: [&str; 2] = [
    // The key has no committed row.
    "INSERT INTO processed_events (id, status) VALUES ($1, 'COMPLETED')",
    // The key has a committed row that a claim may replace.
    "UPDATE processed_events SET in_progress_expiration = 0 WHERE id = $1",
];

/// A database in which another transaction locks the key of a claim.
pub(crate) async fn held(hold: &str) -> (Database, Client, Claim) {
    let database = Database::new().await;
    let mut claim = new_claims(1).remove(0);
    let lapsed = "INSERT INTO processed_events (id, status, in_progress_expiration, fence)
        SELECT $1, 'INPROGRESS', 1, 1 WHERE $2";
    let is_there = hold.starts_with("UPDATE");
    if is_there {
        claim.seen = Seen::Item(Some(Fence::from_stored(1)));
    }
    let id = claim.id.as_str();
    let client = &database.client;
    client.execute(lapsed, &[&id, &is_there]).await.unwrap();
    let other = connect(&database.url).await;
    other.batch_execute("BEGIN").await.unwrap();
    assert_eq!(other.execute(hold, &[&id]).await.unwrap(), 1);
    (database, other, claim)
}

/// Whether a row contains the claim's owner.
pub(crate) async fn is_claimed(database: &Database, claim: &Claim) -> bool {
    let owned = "SELECT count(*) FROM processed_events WHERE owner = $1";
    let owner = claim.owner.to_string();
    let owned = database.client.query_one(owned, &[&owner]).await;
    owned.unwrap().get::<_, i64>(0) > 0
}

#[tokio::test]
async fn a_claim_that_was_dropped_while_it_waited_is_not_written_when_the_lock_is_released() {
    for hold in HOLDS {
        let (database, other, claim) = held(hold).await;
        drop_while_waiting(&database, &other, &claim).await;
    }
}

/// Drops a claim that waits for the lock of another transaction, and then releases the lock. The claim must not be written.
pub(crate) async fn drop_while_waiting(database: &Database, other: &Client, claim: &Claim) {
    let (store, claims) = (database.store.clone(), [claim.clone()]);
    let dropped = tokio::spawn(async move { store.claim(&claims).await });
    until_waiting(&database.client, 1).await;
    dropped.abort();
    // Only the server can end the claim now.
    until_idle(&database.client).await;
    other.batch_execute("ROLLBACK").await.unwrap();
    assert!(!is_claimed(database, claim).await, "{claim:?}");
}

#[tokio::test]
async fn a_claim_that_waits_too_long_is_answered_and_not_written_later() {
    for hold in HOLDS {
        let (database, other, claim) = held(hold).await;
        let claims = [claim.clone()];
        let error = database.store.claim(&claims).await.remove(0).unwrap_err();
        // The server answers with an error before the store's time limit ends.
        assert_eq!(error.kind(), StoreErrorKind::Throttled, "{error}");
        until_idle(&database.client).await;
        other.batch_execute("ROLLBACK").await.unwrap();
        assert!(!is_claimed(&database, &claim).await, "{hold}");

        // The connection returned to the pool without the claim's settings.
        let again = database.store.claim(&claims).await.remove(0);
        assert!(is_written(&again), "{again:?}");
    }
}

#[tokio::test]
async fn claims_of_new_keys_and_over_rows_are_written_within_three_seconds_or_not_at_all() {
    let database = Database::new().await;
    let mut claims = new_claims(3);
    assert!(is_written(&database.store.claim(&claims[..1]).await[0]));
    let release = settlement(&claims[0], Settling::Release);
    assert!(database.store.settle(&[release]).await[0].is_ok());
    claims[0] = rival(&claims[0]);
    claims[0].seen = Seen::Item(Some(Fence::first(NOW)));
    // As if each statement waited for locks.
    let slow = "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
            'BEGIN PERFORM pg_sleep(1.6); RETURN NULL; END';
        CREATE TRIGGER slow AFTER INSERT OR UPDATE ON processed_events EXECUTE FUNCTION slow()";
    database.run(slow).await;
    let both = &claims[..2];
    let errors = database.store.claim(both).await;
    assert!(errors.iter().all(Result::is_err), "{errors:?}");
    for claim in both {
        assert!(!is_claimed(&database, claim).await);
    }
    // Claims of one kind have all of the time.
    assert!(is_written(&database.store.claim(&claims[2..]).await[0]));
}

#[tokio::test]
async fn a_claim_of_which_the_commit_never_arrives_is_rolled_back_by_the_server() {
    let database = Database::new().await;
    let (proxy, url) = Proxy::before(&database.url).await;
    let frozen = PostgresStore::from_url(&url).unwrap();
    let claims = new_claims(1);
    proxy.withhold_the_next_commit();
    let error = frozen.claim(&claims).await.remove(0).unwrap_err();
    assert_eq!(error.kind(), StoreErrorKind::Unanswered, "{error}");
    assert!(!is_claimed(&database, &claims[0]).await);

    // The connection is still open, and the key is free.
    let claimed = database.store.claim(&[rival(&claims[0])]).await.remove(0);
    assert!(is_written(&claimed), "{claimed:?}");
}

#[tokio::test]
async fn a_connection_that_was_forgotten_while_it_idled_fails_no_claim_and_no_transaction() {
    let orders = Orders::new().await;
    let (proxy, url) = Proxy::before(&orders.database.url).await;
    let store = PostgresStore::from_url(&url).unwrap();
    let consumer = orders.sound().store(store.clone());
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    proxy.forget_the_connections_there_are();
    assert_eq!(invoke(&consumer, &["o-2"]).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 2);
    proxy.forget_the_connections_there_are();
    let claimed = store.claim(&new_claims(1)).await.remove(0);
    assert!(is_written(&claimed), "{claimed:?}");
}

#[tokio::test]
async fn a_connection_that_was_forgotten_while_it_idled_leaves_a_batch_time_for_its_claims() {
    let orders = Orders::new().await;
    let (proxy, url) = Proxy::before(&orders.database.url).await;
    let store = PostgresStore::from_url(&url).unwrap();
    let consumer = orders.batches(place).store(store);
    assert_eq!(invoke(&consumer, &["o-1", "o-2"]).await, ACKNOWLEDGED);
    proxy.forget_the_connections_there_are();
    // The store notices after half of it.
    let brief = Duration::from_secs(8);
    assert_eq!(
        invoke_for(brief, &consumer, &["o-3", "o-4"]).await,
        ACKNOWLEDGED
    );
    orders.assert_done(&["o-1", "o-2", "o-3", "o-4"]).await;
}

#[tokio::test]
async fn connections_that_the_server_has_ended_while_they_idled_fail_no_record() {
    let orders = Orders::new().await;
    let consumer = orders.sound();
    let names = ["o-1", "o-2", "o-3"];
    assert_eq!(invoke(&consumer, &names).await, ACKNOWLEDGED);
    orders.database.end_sessions().await;
    let names = ["o-4", "o-5", "o-6"];
    assert_eq!(invoke(&consumer, &names).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 6);
}

#[tokio::test]
async fn a_session_that_ends_while_it_waits_for_another_begins_again() {
    let orders = Orders::new().await;
    let (first, second) = two_at_once(&orders, false, async |waiting| {
        let end = "SELECT pg_terminate_backend($1, 60000)";
        let client = &orders.database.client;
        client.query_one(end, &[&waiting]).await.unwrap();
        assert_ne!(until_waiting(client, 1).await, [waiting]);
    })
    .await;
    assert_eq!([first, second], [ACKNOWLEDGED; 2]);
    assert_eq!(orders.calls(), 1);
    orders.assert_done_once("o-1").await;
}
