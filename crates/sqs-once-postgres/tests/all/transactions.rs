//! Handlers that use the transaction of their key's claim.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use futures_util::FutureExt;
use sqs_once::conformance::Fixture;
use sqs_once::extract::Attempt;
use sqs_once::store::{Fence, Item, Status, StoreErrorKind, Timestamp, Transactions};
use sqs_once::testing::TestClock;
use sqs_once::{Batch, Consumer, Handler, HandlerError};
use sqs_once_postgres::{PostgresStore, Transaction};
use tokio::sync::{Barrier, oneshot};
use tokio_postgres::error::SqlState;

use crate::batch_transactions::place;
use crate::orders::{
    ACKNOWLEDGED, BAD_ENDS, Order, Orders, end_badly, insert, invoke, invoke_for, names, time_for,
    two_at_once,
};
use crate::support::{Database, MINUTE, completion, connect, new_claims, open, rival, settlement};

#[tokio::test]
async fn a_delivery_at_the_same_time_waits_and_then_is_a_duplicate_or_runs_if_the_first_one_fails()
{
    for isolation in ["read committed", "repeatable read", "serializable"] {
        for fails in [false, true] {
            let orders = Orders::new().await;
            let setting = format!("default_transaction_isolation = '{isolation}'");
            orders.database.set(&setting).await;
            let (first, second) = two_at_once(&orders, fails, async |_| ()).await;
            assert_eq!(first, ["o-1"][..usize::from(fails)], "{isolation}");
            assert_eq!(second, ACKNOWLEDGED, "{isolation}");
            assert_eq!(orders.calls(), 1 + usize::from(fails), "{isolation}");
            orders.assert_done_once("o-1").await;
        }
    }
}

#[tokio::test]
async fn a_key_that_another_transaction_has_for_too_long_is_neither_done_nor_free() {
    let database = Database::new().await;
    let claim = new_claims(1).remove(0);
    let first = open(&database.store, &claim).await;
    let (rivals, brief) = ([rival(&claim)], Duration::from_millis(5));
    let second = database.store.begin(&rivals, brief, brief).await;
    let error = second.err().unwrap();
    assert_eq!(error.kind(), StoreErrorKind::Throttled, "{error}");
    assert!(error.to_string().contains("used the same rows"), "{error}");
    drop(first);
    open(&database.store, &rivals[0]).await;
}

#[tokio::test]
async fn the_transaction_of_a_process_that_is_frozen_holds_its_key_no_longer_than_it_had() {
    let store = Database::new().await.store;
    let claims = new_claims(1);
    // From here on, the transaction is idle with a live connection.
    let had = Duration::from_millis(500);
    let frozen = store.begin(&claims, had, had).await.unwrap();
    open(&store, &rival(&claims[0])).await;
    let transaction = frozen.transaction.expect("nobody else had the key");
    let late = settlement(&claims[0], completion());
    assert!(transaction.commit(vec![late]).await.is_err());
}

#[tokio::test]
async fn however_a_handler_ends_badly_nothing_has_happened_and_the_next_delivery_runs() {
    for end in BAD_ENDS.into_iter().chain(["panic", "record timeout"]) {
        let orders = Orders::new().await;
        let handler = orders.handler(move |order, tx| async move {
            insert(&order, &tx).await?;
            end_badly(end, &tx).await
        });
        let handler = match end {
            "record timeout" => handler.attempt_timeout(Duration::from_millis(200)),
            _ => handler,
        };
        let consumer = orders.on_its_store(handler);
        let failed = invoke_for(time_for(end), &consumer, &["o-1"]).await;
        assert_eq!(failed, ["o-1"], "{end}");
        assert_eq!(orders.rows("o-1").await, (0, None), "{end}");

        let acknowledged = invoke(&orders.sound(), &["o-1"]).await;
        assert_eq!(acknowledged, ACKNOWLEDGED, "{end}");
        orders.assert_done_once("o-1").await;
    }
}

#[tokio::test]
async fn a_handler_that_commits_by_itself_is_never_acknowledged() {
    for by_itself in [
        "COMMIT",
        "COMMIT; BEGIN",
        "COMMIT AND CHAIN",
        // Without its condition on `xmin`, the completion would succeed, although the effect is gone.
        "COMMIT; BEGIN; DELETE FROM orders; COMMIT; BEGIN; SAVEPOINT mine",
    ] {
        let orders = Orders::new().await;
        let consumer = orders.consumer(move |order, tx| async move {
            insert(&order, &tx).await?;
            Ok(tx.batch_execute(by_itself).await?)
        });
        let failed = invoke(&consumer, &["o-1"]).await;
        assert_eq!(failed, ["o-1"], "{by_itself}");
        let (_, status) = orders.rows("o-1").await;
        assert_eq!(status.as_deref(), Some("INPROGRESS"), "{by_itself}");
    }
}

#[tokio::test]
async fn a_constraint_that_fails_at_the_commit_fails_the_record() {
    let orders = Orders::new().await;
    let constraint = "CREATE TABLE customers (id text PRIMARY KEY);
        ALTER TABLE orders ADD FOREIGN KEY (id) REFERENCES customers DEFERRABLE INITIALLY DEFERRED";
    orders.database.run(constraint).await;
    let consumer = orders.sound();
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    orders.assert_nothing_happened("o-1").await;

    let customer = "INSERT INTO customers VALUES ('o-1')";
    orders.database.run(customer).await;
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn handlers_that_lock_each_other_out_fail_alone_and_run_the_next_time() {
    let orders = Orders::new().await;
    let rows = "CREATE TABLE stock (id text PRIMARY KEY, left_over int);
        INSERT INTO stock VALUES ('o-1', 9), ('o-2', 9)";
    orders.database.run(rows).await;
    let (both, calls) = (Arc::new(Barrier::new(2)), Arc::clone(&orders.calls));
    let consumer = orders.consumer(move |order: Order, tx| {
        let (both, is_at_first) = (Arc::clone(&both), calls.load(SeqCst) < 3);
        async move {
            insert(&order, &tx).await?;
            let take = "UPDATE stock SET left_over = left_over - 1 WHERE id = $1";
            let other = if order.id == "o-1" { "o-2" } else { "o-1" };
            tx.execute(take, &[&order.id]).await?;
            if is_at_first {
                both.wait().await;
            }
            tx.execute(take, &[&other]).await?;
            Ok(())
        }
    });
    let failed = invoke(&consumer, &["o-1", "o-2"]).await;
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(invoke(&consumer, &["o-1", "o-2"]).await, ACKNOWLEDGED);
    let left = "SELECT sum(left_over) FROM stock";
    assert_eq!(orders.database.numbers(left).await, [18 - 4]);
    assert_eq!(orders.calls(), 3);
}

#[tokio::test]
async fn a_serialization_failure_fails_the_record_and_nothing_has_happened() {
    let orders = Orders::new().await;
    let database = &orders.database;
    database
        .set("default_transaction_isolation = 'serializable'")
        .await;
    let beside = Arc::new(connect(&database.url).await);
    let consumer = orders.consumer(move |order, tx| {
        let beside = Arc::clone(&beside);
        async move {
            tx.query_one("SELECT count(*) FROM orders", &[]).await?;
            let meanwhile = "BEGIN; SELECT count(*) FROM processed_events;
                SELECT count(*) FROM orders; INSERT INTO orders VALUES ('meanwhile'); COMMIT";
            beside.batch_execute(meanwhile).await?;
            insert(&order, &tx).await
        }
    });
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    orders.assert_nothing_happened("o-1").await;
    assert_eq!(invoke(&orders.sound(), &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_handler_has_spawned_can_neither_commit_nor_go_on() {
    let orders = Orders::new().await;
    let (done, mut end) = tokio::sync::mpsc::unbounded_channel();
    let (goes_on, going_on) = oneshot::channel::<()>();
    let going_on = Arc::new(std::sync::Mutex::new(Some(going_on)));
    let consumer = orders.consumer(move |order, tx| {
        let (done, going_on) = (done.clone(), going_on.lock().unwrap().take().unwrap());
        async move {
            insert(&order, &tx).await?;
            tokio::spawn(async move {
                let _ = going_on.await;
                // The session ends shortly after the record. Until then, its statements succeed.
                let mut tries = 0..100_000;
                while insert(&order, &tx).await.is_ok() && tries.next().is_some() {}
                let _ = done.send(tries.next().is_some());
            });
            Ok(())
        }
    });
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    goes_on.send(()).unwrap();
    assert!(end.recv().await.unwrap(), "the session goes on");
    orders.assert_nothing_happened("o-1").await;
    assert_eq!(invoke(&orders.sound(), &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn a_connection_serves_one_record_after_the_other_the_failed_ones_too() {
    let orders = Orders::new().await;
    let (seen, mut pids) = tokio::sync::mpsc::unbounded_channel();
    let consumer = orders.consumer(move |order: Order, tx| {
        let seen = seen.clone();
        async move {
            let pid = "SELECT pg_backend_pid()";
            let pid: i32 = tx.query_one(pid, &[]).await?.get(0);
            seen.send(pid).unwrap();
            insert(&order, &tx).await?;
            match order.id.as_str() {
                "bad" => Err(HandlerError::retry("not this time")),
                "worse" => panic!("on purpose"),
                _ => Ok(()),
            }
        }
    });
    let consumer = consumer.store(orders.store_with_one_connection());
    for order in ["good", "bad", "worse", "bad", "well"] {
        invoke(&consumer, &[order]).await;
    }
    let mut seen: Vec<_> = std::iter::from_fn(|| pids.try_recv().ok()).collect();
    assert_eq!(seen.len(), 5);
    seen.dedup();
    // A new session after each failure would make four. One rollback may be slow enough that its session is closed.
    assert!(seen.len() < 4, "{seen:?}");
}

#[tokio::test]
async fn a_statement_that_a_migration_made_invalid_fails_one_message_and_then_runs() {
    for ignores_the_error in [false, true] {
        let orders = Orders::new().await;
        let consumer = orders.consumer(move |order, tx| async move {
            insert(&order, &tx).await?;
            let read = tx.client().prepare_cached("SELECT * FROM orders").await?;
            match tx.query(&read, &[]).await {
                Err(_) if ignores_the_error => Ok(()),
                found => Ok(found.map(drop)?),
            }
        });
        let consumer = consumer.store(orders.store_with_one_connection());
        assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
        let migration = "ALTER TABLE orders ADD COLUMN note text";
        orders.database.run(migration).await;
        assert_eq!(invoke(&consumer, &["o-2"]).await, ["o-2"]);
        assert_eq!(invoke(&consumer, &["o-2"]).await, ACKNOWLEDGED);
    }
}

#[tokio::test]
async fn a_claim_that_was_rolled_back_does_not_give_its_fence_to_the_next_one() {
    let (orders, clock) = (Orders::new().await, TestClock::new());
    // The message that fails leaves a released claim in the batch's transaction.
    let batch = orders.batches(place).clock(clock.clone());
    assert_eq!(invoke(&batch, &["o-1", "bad"]).await, ["bad"]);

    let (note, mut noted) = tokio::sync::mpsc::unbounded_channel();
    let keyed = Handler::json::<Order>().key(|order: &Order| order.id.clone());
    let handler = keyed.call(move |_: Order, attempt: Attempt, _: Transaction| {
        note.send(attempt.fence()).unwrap();
        async { Err::<(), _>(HandlerError::retry("not this time")) }
    });
    let consumer = orders.on_its_store(handler.namespace("orders"));
    let consumer = consumer.clock(clock.clone());
    for _ in 0..2 {
        clock.advance(MINUTE);
        assert_eq!(invoke(&consumer, &["bad"]).await, ["bad"]);
    }
    let (first, second) = (noted.try_recv().unwrap(), noted.try_recv().unwrap());
    assert!(first < second, "{first} {second}");
}

/// Such a fence tells that the age of the key is unknown.
#[tokio::test]
async fn a_claim_in_a_transaction_over_a_row_without_a_fence_counts_from_one() {
    let database = Database::new().await;
    let claim = new_claims(1).remove(0);
    let mut item = Item::new(claim.id.clone(), Status::InProgress);
    for count in 1..=2 {
        item.lease_until = Some(Timestamp::default());
        database.plant(item).await;
        open(&database.store, &claim)
            .await
            .commit(Vec::new())
            .await
            .unwrap();
        item = database.peek(&claim.id).await.unwrap();
        assert_eq!(item.fence, Some(Fence::from_stored(count)));
        item.owner = None;
    }
}

#[tokio::test]
async fn a_savepoint_keeps_what_is_before_it() {
    let orders = Orders::new().await;
    let consumer = orders.consumer(async |order, tx: Transaction| {
        insert(&order, &tx).await?;
        tx.batch_execute("SAVEPOINT before").await?;
        let wrong = tx.execute("INSERT INTO orders VALUES (NULL)", &[]).await;
        let code = wrong.unwrap_err().code().cloned();
        assert_eq!(code, Some(SqlState::NOT_NULL_VIOLATION));
        tx.batch_execute("ROLLBACK TO SAVEPOINT before; SAVEPOINT open_at_the_end")
            .await?;
        let again = tx.client().prepare_cached("SELECT $1::text").await?;
        tx.query_one(&again, &[&order.id]).await?;
        Ok(())
    });
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn a_record_of_a_batch_handler_says_that_it_has_no_transaction() {
    let database = Database::new().await;
    let (say, mut said) = tokio::sync::mpsc::unbounded_channel();
    let handler = move |orders: Batch<Order>| {
        let say = say.clone();
        async move {
            let refused = orders.records()[0]
                .extract::<Transaction>()
                .await
                .unwrap_err();
            say.send(refused.to_string()).unwrap();
            orders.outcome()
        }
    };
    let consumer = Consumer::new(
        Handler::json::<Order>()
            .key(|order: &Order| order.id.clone())
            .call_batch(handler)
            .namespace("orders"),
    )
    .store(database.store.clone());
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    let said = said.try_recv().unwrap();
    assert!(
        said.contains("a batch handler takes a `BatchTransaction`"),
        "{said}"
    );
}

#[tokio::test]
async fn a_statement_that_the_handler_did_not_wait_for_is_part_of_what_commits() {
    let orders = Orders::new().await;
    let consumer = orders.consumer(async |order: Order, tx: Transaction| {
        insert(&order, &tx).await?;
        let sent = tx.batch_execute("DELETE FROM orders").now_or_never();
        assert!(sent.is_none());
        insert(&order, &tx).await?;
        let sent = tx.batch_execute("SAVEPOINT last").now_or_never();
        assert!(sent.is_none());
        Ok(())
    });
    assert_eq!(invoke(&consumer, &["o-1"]).await, ACKNOWLEDGED);
    orders.assert_done_once("o-1").await;
}

#[tokio::test]
async fn a_handler_may_look_elsewhere_for_its_tables_where_the_store_names_its_schema() {
    let orders = Orders::new().await;
    // A second schema with the same table, as a migration for each schema would create it.
    let tenant = format!(
        "CREATE SCHEMA tenant; SET search_path = tenant; {}; CREATE TABLE orders (id text); RESET search_path",
        sqs_once_postgres::SCHEMA_V1
    );
    orders.database.run(&tenant).await;
    let consumer = orders.consumer(async |order: Order, tx: Transaction| {
        tx.batch_execute("SET LOCAL search_path = tenant").await?;
        insert(&order, &tx).await
    });
    assert_eq!(invoke(&consumer, &["o-1"]).await, ["o-1"]);
    let store = PostgresStore::from_url(&orders.database.url).unwrap();
    let named = consumer.store(store.schema("public"));
    for _ in 0..2 {
        assert_eq!(invoke(&named, &["o-1"]).await, ACKNOWLEDGED);
    }
    let counts = "SELECT (SELECT count(*) FROM tenant.orders),
        (SELECT count(*) FROM tenant.processed_events), (SELECT count(*) FROM processed_events)";
    assert_eq!(orders.database.numbers(counts).await, [1, 0, 1]);
}

#[tokio::test]
async fn a_database_that_takes_no_writes_acknowledges_nothing() {
    let orders = Orders::new().await;
    let read_only = "default_transaction_read_only = on";
    orders.database.set(read_only).await;
    let failed = invoke_for(Duration::from_secs(2), &orders.sound(), &["o-1"]).await;
    assert_eq!(failed, ["o-1"]);
    assert_eq!(orders.calls(), 0);
}

#[tokio::test]
async fn fewer_connections_than_handlers_lose_nothing_and_do_nothing_twice() {
    let orders = Orders::new().await;
    let consumer = orders.sound().store(orders.store_with_one_connection());
    let consumer = consumer.concurrency(20);
    for _ in 0..2 {
        assert_eq!(invoke(&consumer, &names(40)).await, ACKNOWLEDGED);
    }
    let counts = "SELECT (SELECT count(*) FROM orders), count(*) FROM processed_events";
    assert_eq!(orders.database.numbers(counts).await, [40, 40]);
}
