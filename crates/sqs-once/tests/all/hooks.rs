//! Hooks: when they are called, and the effect of their failures.

use std::time::Duration;

use futures_util::FutureExt;

use crate::support::{
    AtOnce, Noted, Notes, Order, SECOND, Tested, assert_contains, assert_lacks, codes, ends,
    handling, in_groups, json_body, noting, order, told,
};
use serde_json::json;
use sqs_once::extract::RecordEnd;
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::telemetry::Outcome;
use sqs_once::{Completion, HandlerError, IdempotencyToken};
use tokio::time::sleep;

/// The message ID, the outcome and the completion's value that each call of a hook received.
type Ends = Notes<String>;

fn note(ends: &Ends) -> impl Fn(RecordEnd) -> Noted + Send + Sync + use<> {
    ends.clone().of(|end: RecordEnd| {
        let recorded = end.completion().unwrap();
        let recorded = recorded.unwrap_or_else(|| "nothing".to_owned());
        format!("{} {} {recorded}", end.message().id(), end.outcome())
    })
}

/// Orders end as they request, and record a receipt.
fn receipts() -> Tested {
    handling(async |order: Order| -> Result<_, HandlerError> {
        order.obey().await?;
        Ok(Completion(format!("r-{}", order.id)))
    })
}

/// The same, with this hook after a success or a duplicate.
fn on_done<F: Future<Output = Result<(), HandlerError>> + Send + 'static>(
    hook: impl Fn(RecordEnd) -> F + Send + Sync + 'static,
) -> Tested {
    receipts().with(|it| it.on_done(hook))
}

/// The same, with this hook after a failure.
fn on_failure<F: Future<Output = Result<(), HandlerError>> + Send + 'static>(
    hook: impl Fn(RecordEnd) -> F + Send + Sync + 'static,
) -> Tested {
    receipts().with(|it| it.on_failure(hook))
}

async fn refuse() -> Result<(), HandlerError> {
    Err("the mail server is away".into())
}

#[tokio::test(start_paused = true)]
async fn a_hook_gets_the_completions_value_if_there_is_one_for_a_success_and_each_duplicate_alone()
{
    let (plain, seen) = noting();
    for (bench, value) in [(receipts(), "r-o-1"), (plain, "nothing")] {
        let done = Ends::default();
        let bench = bench.with(|it| it.on_done(note(&done)));
        assert_eq!(bench.run(["o-1", "o-1", "bad-1"]).await, ["m-2"]);
        let [first, copy] = ["m-0 processed", "m-1 duplicate"].map(|it| format!("{it} {value}"));
        assert_eq!(done.take(), [first, copy]);
        assert_eq!(bench.run(["o-1"]).await, [""; 0]);
        assert_eq!(done.take(), [format!("m-0 duplicate {value}")]);
    }
    assert_eq!(seen.take(), ["o-1", "bad-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_gets_the_token_of_its_events_handler() {
    let (tokens, notes) = Notes::pair();
    let bench = handling(async |_: Order, token: IdempotencyToken| Completion(token.to_string()));
    let noting = notes.of(|end: RecordEnd| {
        let token = end.token().map(ToString::to_string);
        (token, end.completion::<String>().unwrap())
    });
    let bench = bench.with(|it| it.on_done(noting));
    bench.run(["o-1"]).await;
    bench.run(["o-1"]).await;
    let of_both = tokens.take();
    assert_eq!(of_both.len(), 2);
    for (hooks, handlers) in of_both {
        assert!(hooks.is_some());
        assert_eq!(hooks, handlers);
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_gets_reason_and_code_of_the_log_and_shows_no_completions_value() {
    let (reasons, notes) = Notes::pair();
    let noting = notes.of(|end: RecordEnd| {
        let why = end.reason().map(str::to_owned).zip(end.code());
        (why, format!("{end:?}"))
    });
    let bench = on_done(noting.clone()).with(|it| it.on_failure(noting));
    bench.run(["o-1", "bad-1"]).await;
    let noted = reasons.take_sorted();
    let [(None, shown), (Some((reason, code)), _)] = &noted[..] else {
        panic!("{noted:?}");
    };
    let line = &bench.lines()[1];
    assert_eq!((*code, reason), ("handler-error", &line["reason"]));
    assert_eq!(*code, line["code"]);
    assert_contains!(shown, "RecordEnd");
    assert_lacks!(shown, "r-o-1");
}

#[tokio::test(start_paused = true)]
async fn a_hook_is_called_when_the_key_is_completed_and_never_before() {
    let (statuses, notes) = Notes::pair();
    let bench = receipts();
    let store = bench.store.clone();
    let noting = notes.of(move |_: RecordEnd| store.item("o-1").map(|item| item.status));
    let bench = bench.with(|it| it.on_done(noting));
    bench.store.fail("settle", StoreErrorKind::AccessDenied, 1);
    assert_eq!(bench.run(["o-1"]).await, ["m-0"]);
    assert_eq!(statuses.take(), []);

    sleep(60 * SECOND).await;
    assert_eq!(bench.run(["o-1"]).await, [""; 0]);
    assert_eq!(statuses.take(), [Some(Status::Completed)]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_after_a_success_fails_its_record_alone_and_never_repeats_the_effect() {
    let done = Ends::default();
    let noted = note(&done);
    let bench = on_done(move |end| {
        let refuses = end.outcome() == Outcome::Processed && end.message().id() == "m-0";
        let noted = noted(end);
        async move {
            noted.await?;
            if refuses { refuse().await } else { Ok(()) }
        }
    });
    assert_eq!(bench.run(["o-1", "o-2"]).await, ["m-0"]);
    assert_eq!(done.take(), ["m-0 processed r-o-1", "m-1 processed r-o-2"]);
    let said = "processed, but its hook failed: the mail server is away";
    let lines = bench.lines();
    assert_eq!(codes(&lines), "failed: hook-failed, processed");
    assert_eq!(lines[0]["reason"], said);
    // The next delivery is a duplicate.
    assert_eq!(bench.run(["o-1"]).await, [""; 0]);
    assert_eq!(done.take(), ["m-0 duplicate r-o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_fails_for_a_duplicate_fails_its_record() {
    let bench = on_done(async |end: RecordEnd| match end.outcome() {
        Outcome::Duplicate => refuse().await,
        _ => Ok(()),
    });
    assert_eq!(bench.run(["o-1", "o-1"]).await, ["m-1"]);
    assert_eq!(bench.run(["o-1"]).await, ["m-0"]);
    let lines = bench.lines();
    let said = "a duplicate, but its hook failed: the mail server is away";
    assert_eq!(lines.last().unwrap()["reason"], said);
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_or_never_ends_fails_its_record_alone_and_in_time() {
    let bench = on_done(async |end: RecordEnd| {
        match end.message().id() {
            "m-0" => panic!("not now"),
            "m-1" => sleep(Duration::MAX).await,
            _ => {}
        }
        Ok(())
    });
    let ids = ["o-1", "o-2", "o-3"];
    assert_eq!(bench.run(ids).await, ["m-0", "m-1"]);
    // Half of the default margin remains.
    assert_eq!(bench.elapsed(), bench.timeout - SECOND / 2);
    // All three keys are completed.
    for id in ids {
        assert_eq!(bench.store.item(id).unwrap().status, Status::Completed);
    }
}

#[tokio::test(start_paused = true)]
async fn a_failure_hook_is_called_for_every_record_that_was_tried_in_vain() {
    let failures = Ends::default();
    let bench = on_failure(note(&failures));
    let unreadable = json!({ "body": "not JSON" });
    let batch = [order("o-1"), order("bad-1"), unreadable, order("slow-1")];
    bench.store.fail("settle", StoreErrorKind::AccessDenied, 1);
    assert_eq!(bench.run(batch).await, ["m-0", "m-1", "m-2", "m-3"]);
    let expected = [
        // Its effect happened, but its key is not completed.
        "m-0 failed nothing",
        "m-1 failed nothing",
        "m-2 terminal nothing",
        "m-3 failed nothing",
    ];
    assert_eq!(failures.take_sorted(), expected);
}

#[tokio::test(start_paused = true)]
async fn a_failing_failure_hook_changes_nothing() {
    for hook in ["error", "panic", "endless"] {
        let bench = on_failure(move |_| async move {
            match hook {
                "error" => Err("the pager is away".into()),
                "panic" => panic!("the pager is on fire"),
                _ => std::future::pending().await,
            }
        });
        assert_eq!(bench.run(["bad-1", "o-1"]).await, ["m-0"]);
        let expected = [("failed", "no luck"), ("processed", "")];
        assert_eq!(told(&ends(bench.lines())), expected);
        assert_eq!(bench.store.item("o-1").unwrap().status, Status::Completed);
        assert!(bench.log.all().contains("a failure hook failed"), "{hook}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_answer_waits_for_a_failure_hook_and_no_longer() {
    for (takes, waits) in [(2, 2_000), (3600, 29_500)] {
        let bench = on_failure(move |_| sleep(takes * SECOND).map(Ok));
        bench.run(["bad-1"]).await;
        assert_eq!(bench.elapsed(), Duration::from_millis(waits));
    }
}

#[tokio::test(start_paused = true)]
async fn no_failure_hook_is_called_for_records_that_return_untried() {
    let failures = Ends::default();
    let bench = on_failure(note(&failures));
    let batch = in_groups("a/bad-1 a/o-1 a/o-2");
    assert_eq!(bench.run(batch).await, ["m-0", "m-1", "m-2"]);
    assert_eq!(failures.take().len(), 1);

    let bench = bench.with_consumer(|it| it.concurrency(1));
    // The copy of a record that returns untried was not tried either.
    let batch = ["slow-1", "o-5", "o-5"];
    assert_eq!(bench.run(batch).await, ["m-0", "m-1", "m-2"]);
    assert_eq!(failures.take(), ["m-0 failed nothing"]);
    let lines = bench.lines();
    let last = |id: &str| lines.iter().rfind(|line| line["message_id"] == id).unwrap();
    assert_eq!(last("m-2")["reason"], last("m-1")["reason"]);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_group_waits_for_its_hook_and_stops_when_that_fails() {
    let (bench, steps) = noting();
    let notes = steps.clone();
    let bench = bench.with(|it| {
        it.on_done(move |end: RecordEnd| {
            let notes = notes.clone();
            async move {
                sleep(SECOND).await;
                notes.add(format!("hook {}", end.message().id()));
                match end.message().id() {
                    "m-1" => Err("no".into()),
                    _ => Ok(()),
                }
            }
        })
    });
    let batch = in_groups("a/o-1 a/o-2 a/o-3");
    assert_eq!(bench.run(batch).await, ["m-1", "m-2"]);
    assert_eq!(steps.take(), ["o-1", "hook m-0", "o-2", "hook m-1"]);
}

#[tokio::test(start_paused = true)]
async fn another_events_result_is_never_handed_to_a_hook() {
    let done = Ends::default();
    let bench = on_done(note(&done));
    let bench = bench.with(|it| it.payload_mismatch(PayloadMismatch::Acknowledge));
    let order = |total| json_body(&json!({ "id": "o-1", "total": total }));
    let other = || order(7);
    assert_eq!(bench.run([order(1), other()]).await, [""; 0]);
    assert_eq!(bench.run([other()]).await, [""; 0]);
    bench.lines();
    // The second record has the same payload and ends like the first. Neither ran the handler.
    assert_eq!(bench.run([other(), other()]).await, [""; 0]);
    let lines = bench.lines();
    let levels = lines.iter().map(|line| &line["level"]);
    assert!(levels.eq(["WARN", "WARN"]), "{lines:?}");
    assert_eq!(done.take(), ["m-0 processed r-o-1"]);
}

#[tokio::test(start_paused = true)]
async fn as_many_hooks_run_at_once_as_handlers_may() {
    let at_once = AtOnce::default();
    let counted = at_once.clone();
    let bench = on_done(move |_| counted.during(sleep(SECOND).map(Ok)));
    let bench = bench.with_consumer(|it| it.concurrency(3));
    let batch = (0..10).map(|at| format!("o-{at}"));
    assert_eq!(bench.run(batch).await, [""; 0]);
    assert_eq!(at_once.most(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_completions_value_is_not_logged_when_a_hook_asks_for_another_type() {
    let bench = on_done(async |end: RecordEnd| {
        let _: Option<u64> = end.completion()?;
        Ok(())
    });
    assert_eq!(bench.run(["o-1"]).await, ["m-0"]);
    assert_contains!(bench.log.all(), "does not fit the type that the hook reads");
    assert_lacks!(bench.log.all(), "o-1");
}
