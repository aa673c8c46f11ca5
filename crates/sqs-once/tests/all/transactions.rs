//! Handlers in a transaction of their store: the claim, the effect and the completion commit together or not at all.

use std::time::Duration;

use crate::support::database::{Booking, Ledger, Turn};
use crate::support::{Notes, Order, SECOND, Seen, assert_contains, orders};
use crate::transactional_effects::{Committing, ENTRIES, Entry, Way};
use sqs_once::extract::Attempt;
use sqs_once::store::StoreErrorKind::{AccessDenied, Other, Throttled, Unanswered};
use sqs_once::store::{Fence, Status, Timestamp};
use sqs_once::{Completion, Handler, HandlerError};
use tokio::time::Instant;

/// A consumer whose handler writes its order's ID. Orders named `ends…` end their transaction, and the others end as they
/// request.
fn booking() -> Booking {
    booking_with(|it| it)
}

pub(crate) fn booking_with(settings: impl FnOnce(Handler) -> Handler) -> Booking {
    let (seen, notes) = Seen::pair();
    let handler = orders().call(move |order: Order, ledger: Ledger| {
        notes.add(order.id.clone());
        async move {
            ledger.write(&order.id);
            order.obey().await?;
            if order.id.starts_with("ends") {
                ledger.end();
            }
            Ok::<_, HandlerError>(Completion(format!("receipt of {}", order.id)))
        }
    });
    Booking::on(settings(handler), seen)
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_transaction_holds_up_no_other_record_and_waits_until_the_deadline() {
    let booking = booking().with_consumer(|it| it.concurrency(2));
    let held = booking.database.lock("a").await;
    assert_eq!(booking.run(["a", "b", "c", "d"]).await, ["m-0"]);
    assert_eq!(booking.elapsed(), booking.timeout - SECOND);
    assert_eq!(booking.database.effects(), ["b", "c", "d"]);
    for line in &booking.lines()[1..] {
        let ended = ["outcome", "duration_ms"].map(|field| &*line[field]);
        assert_eq!(ended, ["processed", "0.0"]);
    }
    drop(held);
    assert_eq!(booking.run(["a"]).await, [""; 0]);
    assert_eq!(booking.seen.take(), ["b", "c", "d", "a"]);
}

#[tokio::test(start_paused = true)]
async fn no_more_transactions_are_open_than_handlers_may_run_commits_included() {
    let booking = booking().with_consumer(|it| it.concurrency(3));
    booking.database.begins_always(Turn::Delay(SECOND / 50));
    let slow = Turn::Delay(SECOND * 7 / 10);
    booking.database.commits_always(slow);
    let begun = Instant::now();
    let ids = (0..20).map(|at| format!("brief-{at}"));
    assert_eq!(booking.run(ids).await, [""; 0]);
    assert_eq!(booking.database.effects().len(), 20);
    assert_eq!(booking.database.most_open(), 3);
    // Seven rounds of three, in which no connection was idle.
    assert!(begun.elapsed() < 7 * Duration::from_millis(1750));
}

#[tokio::test(start_paused = true)]
async fn a_claim_without_a_transaction_is_not_waited_for_whatever_the_policy() {
    let booking = booking_with(|it| it.in_progress_wait(20 * SECOND));
    let booking = booking.with_consumer(|it| it.concurrency(2));
    let claimed = ["a-0", "a-1", "a-2", "a-3"];
    for id in claimed {
        booking.foreign(id, Status::InProgress, 3 * SECOND);
    }
    let others = ["brief-0", "brief-1", "brief-2", "brief-3"];
    let batch = claimed.into_iter().chain(others);
    assert_eq!(booking.run(batch).await, ["m-0", "m-1", "m-2", "m-3"]);
    assert_eq!(booking.database.effects().len(), 4);
    assert_eq!(booking.database.most_open(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_fails_for_the_moment_is_tried_again_until_the_deadline() {
    for entry in ENTRIES {
        let it = Committing::new(entry, Way::Transaction);
        let busy = || Turn::Fail(Throttled);
        it.database.begins([busy(), busy(), Turn::Fail(Unanswered)]);
        assert_eq!(it.outcome("a").await, "processed");

        it.database.begins_always(busy());
        let begun = it.elapsed();
        assert_eq!(it.outcome("b").await, "failed");
        assert!(it.elapsed() - begun <= it.timeout);
        assert_eq!(it.effects(), ["a"]);

        it.database.begins_always(Turn::Fail(AccessDenied));
        it.store.take_calls();
        assert_contains!(it.reason("b").await, "claimed");
        assert_eq!(it.store.take_calls(), [("begin", 1)]);

        it.database.begins_always(Turn::Do);
        let held = it.database.lock("c").await;
        let begun = it.elapsed();
        assert_eq!(it.outcome("c").await, "failed");
        assert_eq!(it.elapsed() - begun, it.timeout - SECOND);
        drop(held);
        assert_eq!(it.outcome("c").await, "processed");
        assert_eq!(it.seen.take(), ["a", "c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_is_denied_fails_its_record_with_one_line_that_names_the_fix() {
    let booking = booking();
    booking.database.begins_always(Turn::Fail(AccessDenied));
    let ids = (0..30).map(|at| at.to_string());
    assert_eq!(booking.run(ids).await.len(), 30);
    assert_eq!(booking.seen.take(), [""; 0]);
    assert_eq!(booking.log.take("sqs_once::store").len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_database_that_never_answers_does_not_hold_up_the_answer() {
    for entry in ENTRIES {
        for (begins, commits) in [(Turn::Hang, Turn::Do), (Turn::Do, Turn::Hang)] {
            let it = Committing::new(entry, Way::Transaction);
            it.database.begins_always(begins);
            it.database.commits_always(commits);
            assert_eq!(it.outcome("a").await, "failed");
            assert!(it.elapsed() < it.timeout);
            // The batch's task ends after the answer.
            tokio::task::yield_now().await;
            assert_eq!(it.database.open(), 0);
            assert_eq!(it.effects(), [""; 0]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_whose_answer_was_lost_fails_its_record_which_comes_back_as_a_duplicate() {
    for entry in ENTRIES {
        // The cache does not know a commit that was not confirmed, and knows the duplicate.
        let it = Committing::new(entry, Way::Transaction).cached();
        it.database.commits([Turn::LoseAnswer]);
        let reason = it.reason("a").await;
        // The commit is not repeated, since the transaction is gone.
        assert_eq!(it.elapsed(), Duration::ZERO);
        let said = match entry {
            Entry::Consumer => "next delivery will find whether its effect committed",
            Entry::Work => "was not confirmed",
        };
        assert_contains!(reason, said);
        it.store.take_calls();
        for calls in [&[("begin", 1)][..], &[]] {
            assert_eq!(it.outcome("a").await, "duplicate");
            assert_eq!(it.store.take_calls(), calls);
        }
        assert_eq!(it.effects(), ["a"]);
        assert_eq!(it.seen.take(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_failed_is_not_sent_again_and_the_next_delivery_runs() {
    for entry in ENTRIES {
        let it = Committing::new(entry, Way::Transaction);
        for kind in [Throttled, Unanswered, Other] {
            it.fail(kind);
            it.store.take_calls();
            assert_eq!(it.outcome("a").await, "failed");
            assert_eq!(it.store.take_calls(), [("begin", 1), ("commit", 1)]);
            assert_eq!(it.effects(), [""; 0]);
        }
        assert_eq!(it.outcome("a").await, "processed");
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_handlers_fence_is_that_of_its_claim() {
    let (fences, notes) = Notes::pair();
    let handler = orders().call(move |_: Order, _: Ledger, attempt: Attempt| {
        notes.add(attempt.fence());
        async {}
    });
    let bench = Booking::on(handler, fences.clone());
    bench.run(["a"]).await;
    let fence = bench.store.item("a").unwrap().fence.unwrap();
    assert_eq!(fences.take(), [fence]);

    // A later claim's fence is larger than the earlier one's, whatever the clock shows.
    let large = Fence::from_stored(u64::MAX - 7);
    bench.store.change("a", |item| {
        item.fence = Some(large);
        item.status = Status::InProgress;
        item.lease_until = Some(Timestamp::default());
    });
    bench.run(["a"]).await;
    assert_eq!(fences.take(), [large.next()]);
}
