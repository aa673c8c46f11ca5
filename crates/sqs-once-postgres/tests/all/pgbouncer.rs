//! The store behind PgBouncer in transaction pooling, where each transaction may use another connection.
//! `.ci/pgbouncer.py` downloads PgBouncer and runs these tests.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use postgres_for_tests::PgBouncer;
use sqs_once::store::{Store, StoreErrorKind};
use sqs_once::{Consumer, HandlerError, conformance};
use sqs_once_postgres::{PostgresStore, Transaction};
use tokio_postgres::types::Type;

use crate::abandoned::{HOLDS, drop_while_waiting, held, is_claimed};
use crate::orders::{ACKNOWLEDGED, Order, Orders, insert, invoke, names};
use crate::support::{
    Database, completion, connect, is_written, new_claims, open, server, settlement,
};

/// Values of `max_prepared_statements`: PgBouncer tracks no prepared statements, or up to 100.
const PREPARED: [u32; 2] = [0, 100];

impl Database {
    /// The same database for a store behind PgBouncer.
    fn behind(self, bouncer: &PgBouncer) -> Self {
        let url = bouncer.url(&self.url);
        let store = PostgresStore::from_url(&url).unwrap();
        Self { url, store, ..self }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PgBouncer"]
async fn the_store_keeps_every_promise_behind_pgbouncer() {
    for prepared in PREPARED {
        for connections in [1, 4] {
            let bouncer = PgBouncer::before(server(), connections, prepared);
            conformance::run(&Database::new().await.behind(&bouncer)).await;
        }
    }
}

/// The effect, by an unnamed statement.
async fn insert_unnamed(order: &Order, tx: &Transaction) -> Result<(), HandlerError> {
    let insert = "INSERT INTO orders (id) VALUES ($1)";
    let done = tx
        .client()
        .execute_typed(insert, &[(&order.id, Type::TEXT)])
        .await?;
    assert_eq!(done, 1);
    Ok(())
}

/// Delivers each order twice. Every second handler fails at first. There are fewer connections than handlers.
async fn handle_all(orders: &Orders, consumer: &Consumer, fails: &AtomicBool) {
    let names = names(30);
    fails.store(true, Ordering::SeqCst);
    let failed = invoke(consumer, &names).await;
    assert_eq!(failed.len(), 15, "{failed:?}");
    fails.store(false, Ordering::SeqCst);
    // Two concurrent deliveries of every order.
    let (one, other) = tokio::join!(invoke(consumer, &names), invoke(consumer, &names));
    assert_eq!([one, other], [ACKNOWLEDGED; 2]);
    let counts = "SELECT count(*), count(DISTINCT id),
            (SELECT count(*) FROM processed_events WHERE status = 'COMPLETED')
        FROM orders";
    assert_eq!(orders.database.numbers(counts).await, [30; 3]);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs PgBouncer"]
async fn effects_and_their_completions_commit_together_behind_pgbouncer() {
    for prepared in PREPARED {
        for connections in [1, 4] {
            let bouncer = PgBouncer::before(server(), connections, prepared);
            let orders = Orders::new().await;
            let url = bouncer.url(&orders.database.url);
            let store = PostgresStore::from_url(&url).unwrap();
            let fails = Arc::new(AtomicBool::new(false));
            let failing = Arc::clone(&fails);
            let consumer = orders.consumer(move |order, tx| {
                let failing = Arc::clone(&failing);
                async move {
                    // Named statements work only if PgBouncer tracks them.
                    match prepared {
                        0 => insert_unnamed(&order, &tx).await?,
                        _ => insert(&order, &tx).await?,
                    }
                    let is_odd = order.id.ends_with(['1', '3', '5', '7', '9']);
                    if is_odd && failing.load(Ordering::SeqCst) {
                        return Err(HandlerError::retry("not yet"));
                    }
                    Ok(())
                }
            });
            handle_all(&orders, &consumer.store(store), &fails).await;
        }
    }
}

#[tokio::test]
#[ignore = "needs PgBouncer"]
async fn no_setting_stays_on_a_connection_that_others_get_next() {
    let bouncer = PgBouncer::before(server(), 1, 0);
    let database = Database::new().await.behind(&bouncer);
    let (store, claims) = (&database.store, new_claims(3));
    let claimed = store.claim(&claims[..1]).await.remove(0);
    assert!(is_written(&claimed), "{claimed:?}");
    store.settle(&[settlement(&claims[0], completion())]).await;
    for (claim, commits) in [(&claims[1], true), (&claims[2], false)] {
        let transaction = open(store, claim).await;
        if commits {
            let completion = settlement(claim, completion());
            transaction.commit(vec![completion]).await.unwrap();
        }
    }
    let other = connect(&database.url).await;
    for setting in [
        "lock_timeout",
        "statement_timeout",
        "idle_in_transaction_session_timeout",
    ] {
        let current = "SELECT current_setting($1)";
        let rows = other.query_typed(current, &[(&setting, Type::TEXT)]).await;
        let found: String = rows.unwrap()[0].get(0);
        assert_eq!(found, "0", "{setting}");
    }
}

#[tokio::test]
#[ignore = "needs PgBouncer"]
async fn a_claim_that_was_dropped_while_it_waited_behind_pgbouncer_is_not_written_later() {
    for hold in HOLDS {
        let bouncer = PgBouncer::before(server(), 4, 0);
        let (database, other, claim) = held(hold).await;
        let database = database.behind(&bouncer);
        drop_while_waiting(&database, &other, &claim).await;
    }
}

#[tokio::test]
#[ignore = "needs PgBouncer"]
async fn a_claim_that_was_given_up_in_the_queue_of_pgbouncer_is_not_written_later() {
    let bouncer = PgBouncer::before(server(), 1, 0);
    let database = Database::new().await.behind(&bouncer);
    let busy = connect(&database.url).await;
    busy.batch_execute("BEGIN").await.unwrap();
    let claim = new_claims(1).remove(0);
    let store = &database.store;
    let error = store.claim(std::slice::from_ref(&claim)).await.remove(0);
    assert_eq!(error.unwrap_err().kind(), StoreErrorKind::Unanswered);
    busy.batch_execute("ROLLBACK").await.unwrap();
    // PgBouncer answers a later request after the earlier ones.
    let next = connect(&database.url).await;
    next.simple_query("SELECT 1").await.unwrap();
    assert!(!is_claimed(&database, &claim).await);
}
