//! Connections that die while they idle or wait. `exactly_once` has the other faults.

use sqs_once::store::Store;
use sqs_once_postgres::PostgresStore;

use crate::orders::{ACKNOWLEDGED, Orders, invoke, two_at_once};
use crate::relay::Relay;
use crate::support::{is_written, new_claims, until_waiting};

#[tokio::test]
async fn a_connection_that_was_forgotten_while_it_idled_fails_no_claim_and_no_transaction() {
    let orders = Orders::new().await;
    let relay = Relay::before(&orders.database.url).await;
    let store = PostgresStore::from_url(&relay.url(&orders.database.url)).unwrap();
    let consumer = orders.sound().store(store.clone());
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    relay.forget_the_connections_there_are();
    assert_eq!(invoke(&consumer, &["o-2"]).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 2);
    relay.forget_the_connections_there_are();
    let claimed = store.claim(&new_claims(1)).await.remove(0);
    assert!(is_written(&claimed), "{claimed:?}");
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
    let (first, second) = two_at_once(
        &orders,
        || Ok(()),
        async |waiting| {
            let end = "SELECT pg_terminate_backend($1, 60000)";
            let client = &orders.database.client;
            client.query_one(end, &[&waiting]).await.unwrap();
            assert_ne!(until_waiting(client, 1).await, [waiting]);
        },
    )
    .await;
    assert_eq!([first, second], [ACKNOWLEDGED; 2]);
    assert_eq!(orders.calls(), 1);
    orders.assert_done_once("o-1").await;
}
