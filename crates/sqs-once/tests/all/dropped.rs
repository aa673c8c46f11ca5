//! A batch that is dropped at any of its awaits, and a deadline that comes at any of them: what the store still holds.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::Value;
use sqs_once::handler::HandlerFn;
use sqs_once::store::Status;
use sqs_once::{Batch, Consumer};
use tokio::time::{sleep, timeout};

use crate::support::{
    Bench, Mode, Order, SECOND, Seen, ids, in_groups, keys, order, orders, outcome,
};

/// Half of what a request takes.
const STEP: Duration = Duration::from_millis(2);

/// Notes `+` and its order at its start, and `-` and its order once its effect is done.
fn working(notes: Seen) -> impl HandlerFn<Order, (), ()> {
    move |order: Order| {
        let notes = notes.clone();
        async move {
            notes.add(format!("+{}", order.id));
            sleep(STEP).await;
            let end = order.obey().await;
            if end.is_ok() {
                notes.add(format!("-{}", order.id));
            }
            end
        }
    }
}

/// The orders that a handler has noted with this sign.
fn noted(notes: &[String], sign: char) -> Vec<&str> {
    let orders = notes.iter().filter_map(|note| note.strip_prefix(sign));
    orders.collect()
}

/// Delivers the records once for each moment of their batch, drops the batch at this moment, and delivers them again once
/// all leases have ended.
async fn assert_that_drops_are_safe(
    records: &[Value],
    consumer: impl Fn(&Bench, Seen) -> Consumer,
    claims_first: bool,
) {
    let good = ["a", "b", "c"];
    for moment in 0.. {
        let (bench, notes) = (Bench::new(), Seen::default());
        bench.store.each_way_takes(STEP);
        let consumer = consumer(&bench, notes.clone());
        let delivered = bench.deliver(&consumer, records.to_vec());
        if timeout(moment * STEP / 2, delivered).await.is_ok() {
            assert!(moment > 8, "the batch has ended before it was dropped");
            return;
        }
        let at_drop = notes.take();
        sleep(SECOND).await;
        assert_eq!(
            notes.take(),
            [""; 0],
            "{moment}: something has run after the drop"
        );
        let now = bench.clock.now();
        let (started, ended) = (noted(&at_drop, '+'), noted(&at_drop, '-'));
        let item_of = |id: &str| bench.store.item(id);
        let is_completed =
            |id: &str| item_of(id).is_some_and(|item| item.status == Status::Completed);
        for id in good {
            let lapses = item_of(id).is_some_and(|item| item.lease_until > Some(now));
            if is_completed(id) {
                assert!(
                    ended.contains(&id),
                    "{moment}: {id} is completed without its effect"
                );
            } else if claims_first && started.contains(&id) {
                assert!(lapses, "{moment}: another worker may run {id} at once");
            }
        }
        let completed: Vec<_> = good.into_iter().filter(|id| is_completed(id)).collect();

        sleep(40 * SECOND).await;
        let failed = bench.deliver(&consumer, records.to_vec()).await;
        let bad = records
            .iter()
            .position(|record| record.to_string().contains("bad-1"));
        let bad: Vec<_> = bad.map(|at| format!("m-{at}")).into_iter().collect();
        assert_eq!(failed, bad, "{moment}");
        let again = notes.take();
        let again = noted(&again, '-');
        for id in good {
            assert!(is_completed(id), "{moment}: {id} is open");
            let runs = usize::from(!completed.contains(&id));
            let ran = again.iter().filter(|one| **one == id).count();
            assert_eq!(ran, runs, "{moment}: {id} was completed: {completed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_dropped_at_any_await_leaves_completions_of_effects_and_claims_that_lapse() {
    let records = ["a", "b", "a", "bad-1", "c"].map(order);
    for mode in Mode::BOTH {
        let consumer =
            |bench: &Bench, notes: Seen| bench.consumer(mode.call(orders(), working(notes)));
        let claims_first = mode == Mode::ClaimFirst;
        assert_that_drops_are_safe(&records, consumer, claims_first).await;
        let one_by_one = |bench: &Bench, notes: Seen| consumer(bench, notes).concurrency(1);
        assert_that_drops_are_safe(&records, one_by_one, claims_first).await;
        let groups = in_groups("g/a h/c g/b h/a");
        assert_that_drops_are_safe(&groups, consumer, claims_first).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_batch_handler_dropped_at_any_await_leaves_completions_of_effects_and_claims_that_lapse()
{
    let records = ["a", "b", "a", "bad-1", "c"].map(order);
    let consumer = |bench: &Bench, notes: Seen| {
        let handler = orders().call_batch(move |batch: Batch<Order>| {
            let notes = notes.clone();
            async move {
                let all = ids(&batch);
                all.iter().for_each(|id| notes.add(format!("+{id}")));
                sleep(STEP).await;
                all.iter().for_each(|id| notes.add(format!("-{id}")));
                outcome(&batch)
            }
        });
        bench.consumer(handler)
    };
    assert_that_drops_are_safe(&records, consumer, true).await;
}

/// A claim is a request in flight, an answer in flight, or held by a message that waits for its turn when the deadline
/// comes. Their requests take a tenth of the margin.
#[tokio::test(start_paused = true)]
async fn a_deadline_at_any_moment_leaves_no_claim_of_a_message_that_never_started() {
    for concurrency in [1, 8] {
        for millis in 400..404 {
            let bench = Bench::with_timeout(Duration::from_millis(millis));
            bench.store.each_way_takes(STEP);
            let notes = Seen::default();
            let handler = Mode::ClaimFirst.call(orders(), working(notes.clone()));
            let consumer = bench.consumer(handler).concurrency(concurrency);
            let all: Vec<_> = keys(250 * concurrency).collect();
            let failed: HashSet<_> = bench
                .deliver(&consumer, all.clone())
                .await
                .into_iter()
                .collect();
            assert!(!failed.is_empty(), "the deadline came too late");
            let notes = notes.take();
            let [started, ended] =
                ['+', '-'].map(|sign| HashSet::<_>::from_iter(noted(&notes, sign)));
            let now = bench.clock.now();
            for (at, id) in all.iter().enumerate() {
                let id = id.as_str();
                let item = bench.store.item(id);
                let is_held = item
                    .as_ref()
                    .is_some_and(|item| item.lease_until > Some(now));
                let is_completed = item.is_some_and(|item| item.status == Status::Completed);
                let is_acknowledged = !failed.contains(&format!("m-{at}"));
                assert_eq!(is_completed, is_acknowledged, "{millis}: {id}");
                assert!(!is_completed || ended.contains(id), "{millis}: {id}");
                assert!(
                    !is_held || started.contains(id),
                    "{millis}: {id} is held for nothing"
                );
            }
        }
    }
}
