//! Dying connections, lost answers and killed servers: a record is never acknowledged without its effect, and the
//! effect never happens twice.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use postgres_for_tests::Server;
use sqs_once::HandlerError;
use sqs_once::store::{Claimed, Store};
use sqs_once_postgres::{PostgresStore, Transaction};
use tokio::sync::Notify;

use crate::orders::{Order, Orders, insert, invoke, until_somebody_waits};
use crate::relay::Relay;
use crate::support::{Database, connect, new_claims};

const ACKNOWLEDGED: [&str; 0] = [];

#[tokio::test]
async fn a_commit_whose_answer_is_lost_is_recognised_when_its_message_comes_again() {
    let orders = Orders::new().await;
    let relay = Relay::before(&orders.database.url).await;
    let url = relay.url(&orders.database.url);
    let consumer = orders.consumer_at(&url, async |order, tx| insert(&order, &tx).await);
    relay.lose_the_answer_to_the_next_commit();
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    orders.assert_done_once("o-1").await;
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
    assert_eq!(orders.calls(), 1);
}

#[tokio::test]
async fn a_commit_that_is_lost_on_its_way_has_not_happened() {
    let orders = Orders::new().await;
    let relay = Relay::before(&orders.database.url).await;
    let url = relay.url(&orders.database.url);
    let consumer = orders.consumer_at(&url, async |order, tx| insert(&order, &tx).await);
    relay.lose_the_next_commit();
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    // The server rolls back when it detects the closed connection. The next delivery waits for that.
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
    assert_eq!(orders.calls(), 2);
}

#[tokio::test]
async fn a_connection_that_was_forgotten_while_it_idled_fails_no_claim() {
    let database = Database::new().await;
    let relay = Relay::before(&database.url).await;
    let store = PostgresStore::from_url(&relay.url(&database.url)).unwrap();
    let claims = new_claims(2);
    assert!(store.claim(&claims[..1]).await[0].is_ok());
    relay.forget_the_connections_there_are();
    let claimed = store.claim(&claims[1..]).await.remove(0);
    assert!(
        matches!(claimed, Ok(Claimed::Written { .. })),
        "{claimed:?}"
    );
}

#[tokio::test]
async fn a_connection_that_was_forgotten_while_it_idled_fails_no_transaction() {
    let orders = Orders::new().await;
    let relay = Relay::before(&orders.database.url).await;
    let url = relay.url(&orders.database.url);
    let consumer = orders.consumer_at(&url, async |order, tx| insert(&order, &tx).await);
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    relay.forget_the_connections_there_are();
    assert_eq!(invoke(&consumer, &["o-2"]).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 2);
}

#[tokio::test]
async fn connections_that_the_server_has_ended_while_they_idled_fail_no_record() {
    let orders = Orders::new().await;
    let consumer = orders.sound();
    let names = ["o-1", "o-2", "o-3"];
    assert_eq!(invoke(&consumer, &names).await, ACKNOWLEDGED);
    end_sessions(&orders.database).await;
    let names = ["o-4", "o-5", "o-6"];
    assert_eq!(invoke(&consumer, &names).await, ACKNOWLEDGED);
    assert_eq!(orders.calls(), 6);
}

async fn end_sessions(database: &Database) {
    let end = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity
        WHERE application_name = 'sqs-once' AND datname = current_database()";
    database.client.query(end, &[]).await.unwrap();
}

/// A point in a handler.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    /// The key is claimed.
    Begun,
    /// The effect is in the transaction, which is still open.
    Done,
}

#[tokio::test]
async fn a_session_that_ends_at_any_step_leaves_nothing_behind() {
    for at in [At::Begun, At::Done] {
        let orders = Orders::new().await;
        let url = orders.database.url.clone();
        let consumer = orders.consumer(move |order, tx: Transaction| {
            let url = url.clone();
            async move {
                let pid = "SELECT pg_backend_pid()";
                let pid: i32 = tx.query_one(pid, &[]).await?.get(0);
                if at == At::Done {
                    insert(&order, &tx).await?;
                }
                let end = "SELECT pg_terminate_backend($1, 60000)";
                connect(&url).await.query_one(end, &[&pid]).await?;
                // The handler ignores the error.
                let _ = insert(&order, &tx).await;
                Ok(())
            }
        });
        assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"], "{at:?}");
        orders.assert_nothing_happened("o-1").await;
        assert_eq!(invoke(&orders.sound(), &["o-1"]).await, ACKNOWLEDGED);
        orders.assert_done_once("o-1").await;
    }
}

#[tokio::test]
async fn a_session_that_ends_while_it_waits_for_another_begins_again() {
    let orders = Orders::new().await;
    let (reached, goes_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let first = {
        let (reached, goes_on) = (reached.clone(), goes_on.clone());
        orders.consumer(move |order, tx| {
            let (reached, goes_on) = (reached.clone(), goes_on.clone());
            async move {
                insert(&order, &tx).await?;
                reached.notify_one();
                goes_on.notified().await;
                Ok(())
            }
        })
    };
    let second = orders.sound();
    let (first, second, ()) = tokio::join!(
        invoke(&first, &["o-1"]),
        async {
            reached.notified().await;
            invoke(&second, &["o-1"]).await
        },
        async {
            let waiting = until_somebody_waits(&orders).await;
            let end = "SELECT pg_terminate_backend($1, 60000)";
            let client = &orders.database.client;
            client.query_one(end, &[&waiting]).await.unwrap();
            let again = until_somebody_waits(&orders).await;
            assert_ne!(again, waiting);
            goes_on.notify_one();
        }
    );
    assert_eq!([first, second], [ACKNOWLEDGED; 2]);
    assert_eq!(orders.calls(), 1);
    orders.assert_done_once("o-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_at_any_step_never_loses_or_repeats_an_effect() {
    let server = Arc::new(Server::start());
    for at in [At::Begun, At::Done] {
        let mut orders = Orders::on(&server).await;
        let killed = Arc::clone(&server);
        let consumer = orders.consumer(move |order, tx| {
            let killed = Arc::clone(&killed);
            async move {
                if at == At::Done {
                    insert(&order, &tx).await?;
                }
                tokio::task::spawn_blocking(move || killed.kill()).await?;
                Ok(())
            }
        });
        let consumer = consumer.concurrency(1);
        assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"], "{at:?}");
        restart(&server).await;
        orders.database.client = connect(&orders.database.url).await;
        orders.assert_nothing_happened("o-1").await;
        assert_eq!(invoke(&orders.sound(), &["o-1"]).await, ACKNOWLEDGED);
        orders.assert_done_once("o-1").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_during_the_commits_never_loses_or_repeats_an_effect() {
    let server = Arc::new(Server::start());
    let mut orders = Orders::on(&server).await;
    let names: Vec<_> = (0..60).map(|n| format!("o-{n:02}")).collect();
    let mut left: Vec<_> = names.iter().map(String::as_str).collect();
    // Each round kills the server during the eleventh handler, while other handlers commit. The rest continue after a
    // restart.
    let (mut acknowledged, mut kills) = (0, 0);
    while !left.is_empty() {
        let ended = Arc::new(AtomicUsize::new(0));
        let is_back = Arc::new(Notify::new());
        let consumer = {
            let (ended, is_back, killed) = (ended.clone(), is_back.clone(), server.clone());
            orders.consumer(move |order: Order, tx| {
                let (ended, is_back, killed) = (ended.clone(), is_back.clone(), killed.clone());
                async move {
                    insert(&order, &tx).await?;
                    if ended.fetch_add(1, Ordering::SeqCst) == 10 {
                        tokio::task::spawn_blocking(move || {
                            killed.kill();
                            killed.restart();
                            is_back.notify_one();
                        });
                    }
                    Ok::<_, HandlerError>(())
                }
            })
        };
        let failed = invoke(&consumer, &left).await;
        if ended.load(Ordering::SeqCst) > 10 {
            is_back.notified().await;
            kills += 1;
        }
        orders.database.client = connect(&orders.database.url).await;
        for order in left
            .iter()
            .filter(|order| !failed.iter().any(|one| one == *order))
        {
            let count = "SELECT count(*) FROM orders WHERE id = $1";
            let count = orders.database.client.query_one(count, &[order]).await;
            assert_eq!(
                count.unwrap().get::<_, i64>(0),
                1,
                "{order} was acknowledged"
            );
            acknowledged += 1;
        }
        left.retain(|order| failed.iter().any(|one| one == order));
    }
    assert!(kills > 0, "the server was never killed");
    assert_eq!(acknowledged, 60);
    let counts = "SELECT count(*), count(DISTINCT id), (SELECT count(*) FROM processed_events)
        FROM orders";
    let counts = orders.database.client.query_one(counts, &[]).await.unwrap();
    assert_eq!(
        [0, 1, 2].map(|column| counts.get::<_, i64>(column)),
        [60; 3]
    );
}

async fn restart(server: &Arc<Server>) {
    let server = Arc::clone(server);
    tokio::task::spawn_blocking(move || server.restart())
        .await
        .unwrap();
}
