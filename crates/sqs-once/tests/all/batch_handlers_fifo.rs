//! Batch handlers on FIFO queues: the records of a message group in a call, and records that overtook another.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use crate::support::sqs::{Sqs, Turn};
use crate::support::{Calls, DLQ, Notes, SECOND, Tested, ends, in_groups, noting_batches, told};
use serde_json::json;
use sqs_once::HandlerError;
use sqs_once::consumer::Together;
use sqs_once::extract::RecordEnd;
use sqs_once::store::Status;
use sqs_once::telemetry::Outcome;
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

fn noting() -> (Tested<Together>, Calls) {
    noting_batches(2 * SECOND)
}

#[tokio::test(start_paused = true)]
async fn a_group_is_claimed_at_once_and_handed_over_in_its_order() {
    let (bench, calls) = noting();
    let records = in_groups("a/a1 b/b1 a/a2 c/c1 b/b2 a/a3");
    assert_eq!(bench.run(records).await, [""; 0]);
    assert_eq!(calls.ids(), [["a1", "b1", "a2", "c1", "b2", "a3"]]);
    assert_eq!(bench.store.take_calls(), [("claim", 6), ("settle", 6)]);
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_behind_a_record_of_its_group_that_is_unusable() {
    let (bench, calls) = noting();
    let records = in_groups("a/a1 a/x b/b1 a/a3");
    assert_eq!(bench.run(records).await, ["m-1", "m-3"]);
    assert_eq!(calls.ids(), [["a1", "b1"]]);
    assert!(bench.store.is_released("a3"));
}

#[tokio::test(start_paused = true)]
async fn nothing_runs_behind_a_record_of_its_group_that_is_in_progress_elsewhere() {
    let (bench, calls) = noting();
    bench.foreign("a1", Status::InProgress, 60 * SECOND);
    let records = in_groups("a/a1 b/b1 a/a2");
    assert_eq!(bench.run(records).await, ["m-0", "m-2"]);
    assert_eq!(calls.ids(), [["b1"]]);
}

#[tokio::test(start_paused = true)]
async fn a_duplicate_ahead_lets_its_group_go_on_unless_its_hook_fails() {
    let (bench, calls) = noting();
    bench.run(in_groups("a/a1")).await;
    assert_eq!(bench.run(in_groups("a/a1 a/a2")).await, [""; 0]);
    assert_eq!(calls.ids(), [["a1"], ["a2"]]);

    let bench = bench.with(|it| {
        it.on_done(async |end: RecordEnd| match end.outcome() {
            Outcome::Duplicate => {
                sleep(SECOND).await;
                Err(HandlerError::retry("no reply"))
            }
            _ => Ok(()),
        })
    });
    let failed = bench.run(in_groups("a/a1 a/a3 b/b1")).await;
    assert_eq!(failed, ["m-0", "m-1"]);
    assert_eq!(calls.ids(), [["b1"]]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_that_hangs_holds_up_no_call() {
    let (bench, calls) = noting();
    let hanging = async |_: RecordEnd| -> Result<(), HandlerError> { pending().await };
    let bench = bench.with(|it| it.on_failure(hanging));
    let failed = bench.run(in_groups("a/x b/b1 a/a2 c/b1")).await;
    assert_eq!(failed, ["m-0", "m-2"]);
    assert_eq!(calls.take(), [(Duration::ZERO, vec!["b1".to_owned()])]);
}

#[tokio::test(start_paused = true)]
async fn behind_a_dead_letter_a_group_goes_on_once_that_has_left_the_queue() {
    for (turn, called) in [(Turn::Do, vec!["b1", "a2"]), (Turn::Hang, vec!["b1"])] {
        let (bench, calls) = noting();
        let queue = Sqs::always(turn).queue();
        let queue = queue.dead_letter_queue(format!("{DLQ}.fifo"));
        let bench = bench.with_consumer(|it| it.queue(queue));
        bench.run(in_groups("a/x b/b1 a/a2")).await;
        assert_eq!(calls.ids(), [called]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_succeeded_behind_a_failure_on_its_last_delivery_is_in_order() {
    let sqs = Sqs::delivering(1);
    let (bench, _) = noting();
    let bench = bench.with_consumer(|it| it.queue(sqs.queue()));
    assert_eq!(bench.run(in_groups("a/a1 a/bad-2 a/a3")).await, ["m-1"]);
    let expected = [
        ("processed", ""),
        ("terminal", "no luck"),
        ("processed", ""),
    ];
    assert_eq!(told(&ends(bench.lines())), expected);
}

#[tokio::test(start_paused = true)]
async fn what_succeeded_behind_a_failure_is_completed_although_sqs_is_silent() {
    let (bench, _) = noting();
    let (settled, notes) = Notes::pair();
    bench.store.settlements_take(move |_| {
        notes.add(Instant::now());
        Duration::ZERO
    });
    let bench = bench.with_consumer(|it| it.queue(Sqs::always(Turn::Hang).queue()));
    let handled = Instant::now() + 2 * SECOND;
    assert_eq!(bench.run(in_groups("a/a1 a/bad-2 a/a3")).await, ["m-1"]);
    assert_eq!(settled.all()[0], handled);
    assert_eq!(bench.outcomes(), "processed failed processed");
}

#[tokio::test(start_paused = true)]
async fn the_dead_letters_of_a_group_move_in_its_order() {
    let (sqs, gate) = (Sqs::delivering(1), Arc::new(Notify::new()));
    sqs.next(&Turn::Do, 1);
    sqs.next(&Turn::Hold(gate.clone()), 1);
    let (bench, _) = noting();
    let queue = sqs.queue().dead_letter_queue(format!("{DLQ}.fifo"));
    let bench = bench.with_consumer(|it| it.queue(queue));
    let failed = bench.run(in_groups("a/bad-1 a/bad-2 a/bad-3"));
    let (failed, ()) = tokio::join!(failed, async {
        sleep(3 * SECOND).await;
        assert_eq!(sqs.sent().len(), 1);
        gate.notify_one();
    });
    assert_eq!(failed, [""; 0]);
    let bodies = sqs
        .sent()
        .into_iter()
        .map(|sent| sent["MessageBody"].clone());
    let expected = ["bad-1", "bad-2", "bad-3"].map(|id| json!({ "id": id }).to_string());
    assert!(bodies.eq(expected));
}

#[tokio::test(start_paused = true)]
async fn what_succeeded_behind_a_failure_is_done_and_the_log_warns_of_it() {
    let (bench, calls) = noting();
    let batch = || in_groups("a/a1 a/bad-2 b/b1 a/a3");
    assert_eq!(bench.run(batch()).await, ["m-1"]);
    let lines = bench.lines();
    let levels = lines.iter().map(|line| &line["level"]);
    assert!(levels.eq(["INFO", "WARN", "INFO", "WARN"]), "{lines:?}");
    assert_eq!(lines[3]["outcome"], "processed");
    let reason = "it succeeded after an earlier message of its group failed";
    assert_eq!(lines[3]["reason"], reason);
    // The retry of the earlier record does not repeat its effect.
    bench.run(batch()).await;
    assert_eq!(calls.ids()[1], ["bad-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_two_groups_is_handed_over_once_and_stops_both_when_it_can_not_run() {
    let (bench, calls) = noting();
    let records = in_groups("a/x a/k b/k b/b2 c/c1");
    assert_eq!(bench.run(records).await, ["m-0", "m-1", "m-2", "m-3"]);
    assert_eq!(calls.ids(), [["c1"]]);
    assert_eq!(bench.outcomes(), "terminal failed failed failed processed");
}
