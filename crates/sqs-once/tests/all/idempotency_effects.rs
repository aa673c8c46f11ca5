//! Effects of work without SQS that commit with the completion of their key: what only work promises.

use std::sync::Arc;

use crate::support::database::Turn;
use crate::support::{Bench, Order, SECOND, assert_contains, orders};
use crate::transactional::update;
use crate::transactional_effects::{BOTH, Committing, Way};
use sqs_once::key::{Ids, KeySecret, Namespace};
use sqs_once::once::{Once, RunError};
use sqs_once::policy::{Disposition, UnknownOutcome};
use sqs_once::store::StoreErrorKind::AccessDenied;
use sqs_once::store::{FromTransaction, MemoryStore, StoreError, Timestamp};
use sqs_once::{Handler, HandlerError, Writes};
use tokio::time::{sleep, timeout};

fn processed(id: &str) -> Once<String> {
    Once::Processed(format!("receipt of {id}"))
}

fn duplicate(id: &str) -> Once<String> {
    Once::Duplicate(Some(format!("receipt of {id}")))
}

#[tokio::test(start_paused = true)]
async fn work_inside_a_handler_chooses_what_happens_to_the_message_if_its_error_is_declared() {
    let bench = Bench::new();
    let inner = bench.idempotency();
    let working = move |order: Order| {
        let inner = inner.clone();
        async move {
            let invocation = inner.until(Timestamp::from_secs(u64::from(u32::MAX)));
            let work = async || match order.id.as_str() {
                "declined" => Err::<(), _>(HandlerError::terminal("no card")),
                _ => Err("no luck".into()),
            };
            invocation.run(&("inner", &order.id), work).await?;
            Ok::<(), HandlerError>(())
        }
    };
    let bench = bench.on(orders().call(working).errors::<RunError>());
    bench.run(["declined", "refused"]).await;
    assert_eq!(bench.outcomes(), "terminal failed");
}

#[tokio::test(start_paused = true)]
async fn every_handler_knows_that_the_outcome_of_work_inside_it_is_unknown() {
    let bench = Bench::new();
    let inner = bench.idempotency();
    let soon = bench.clock.now() + SECOND;
    let working = move |order: Order| {
        let inner = inner.clone();
        async move {
            let work = async || {
                if order.id == "slow" {
                    sleep(2 * SECOND).await;
                }
                let error = HandlerError::retry("no answer");
                Err::<(), _>(match order.id.as_str() {
                    "refused" => error,
                    _ => error.into_outcome_unknown(),
                })
            };
            let invocation = inner.until(soon);
            invocation.run(&("inner", &order.id), work).await?;
            Ok::<(), HandlerError>(())
        }
    };
    let handler = orders().call(working);
    let bench = bench.on(handler.unknown_outcome(UnknownOutcome::dead_letter()));
    bench.run(["slow", "unanswered", "refused"]).await;
    assert_eq!(bench.outcomes(), "terminal terminal failed");
}

#[tokio::test(start_paused = true)]
async fn each_end_without_an_effect_has_an_error_of_its_own() {
    for way in BOTH {
        let it = Committing::work(way);
        let failed = it.book("bad").await;
        assert!(matches!(failed, Err(RunError::Work { .. })), "{failed:?}");
        let cancelled = it.book("slow").await;
        assert!(matches!(cancelled, Err(RunError::Cancelled)));
        // The caller drops the work.
        assert!(timeout(SECOND, it.book("slow")).await.is_err());
        assert_eq!(it.store.item("slow"), None);
        assert_eq!(it.database.open(), 0);
        let paying = |cents| it.book_for("a", Some(cents));
        assert_eq!(paying(1).await.unwrap(), processed("a"));
        let other = paying(2).await;
        assert!(matches!(other, Err(RunError::PayloadMismatch)));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn work_whose_effect_commits_knows_what_other_work_has_completed() {
    for way in BOTH {
        let it = Committing::work(way).cached();
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        let plain = it.idempotency.until(it.deadline());
        let plain = async |id| {
            let work = async || Ok::<_, HandlerError>(format!("receipt of {id}"));
            plain.run(id, work).await
        };
        assert_eq!(plain("b").await.unwrap(), processed("b"));
        it.store.take_calls();
        for id in ["a", "b"] {
            assert_eq!(it.book(id).await.unwrap(), duplicate(id));
            assert_eq!(plain(id).await.unwrap(), duplicate(id));
        }
        assert_eq!(it.store.take_calls(), []);
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_is_reported_with_its_fix_and_the_work_comes_again() {
    for way in BOTH {
        let it = Committing::work(way);
        it.fail(AccessDenied);
        let ran = it.book("a").await;
        let text = ran.as_ref().unwrap_err().to_string();
        assert_contains!(text, "was not confirmed", "grant the function's role");
        let is_denied = |error: &StoreError| error.kind() == AccessDenied;
        assert!(matches!(&ran, Err(RunError::NotCommitted(error)) if is_denied(error)));
        assert_eq!(it.effects(), [""; 0]);
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_not_commit_with_the_completion_of_its_key_is_refused_before_the_work_runs() {
    let secret = || KeySecret::new([7; 32]).unwrap();
    let other = Namespace::new("other").unwrap();
    for way in BOTH {
        let work = || Handler::work().namespace("test");
        let settings: [(&str, &dyn Fn(Committing) -> Committing); 3] = [
            ("the setting `store` ", &|it| {
                it.with(|it| it.store(MemoryStore::new()))
            }),
            ("the setting `also_read` is set", &|it| {
                it.with_keys(work().ids(Ids::hashed().also_read(other.clone())))
            }),
            ("SQS_ONCE_ALSO_READ is not set", &|it| {
                it.with_keys(work().ids(Ids::secret(secret())))
            }),
        ];
        for (says, settings) in settings {
            let it = settings(Committing::work(way));
            // Other work can use the setting.
            it.idempotency.init().await.unwrap();
            let refused = it.book("a").await;
            assert!(matches!(refused, Err(RunError::Config(_))), "{refused:?}");
            assert!(refused.unwrap_err().to_string().starts_with(says));
            assert_eq!(it.seen.len(), 0);
            assert_eq!(it.effects(), [""; 0]);
        }
        let it = Committing::work(way).with_keys(work().ids(Ids::secret(secret()).read_alone()));
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        assert_eq!(it.book("a").await.unwrap(), duplicate("a"));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_writes_nothing_and_its_rule_reaches_the_caller() {
    let it = Committing::work(Way::Writes);
    let hour = Disposition::RetryAfter(3600 * SECOND);
    for rule in [None, Some(Disposition::Terminal), Some(hour)] {
        it.store.fail_condition(0, 1);
        let work = async || {
            let writes = Writes::new().update(update("a"));
            let writes = match rule.clone() {
                Some(rule) => writes.on_conflict(move |_| rule.clone()),
                None => writes,
            };
            Ok::<_, HandlerError>(writes)
        };
        let refused = it.idempotency.until(it.deadline()).run("a", work).await;
        let RunError::Conflict {
            disposition,
            reason,
        } = refused.unwrap_err()
        else {
            panic!("no conflict with {rule:?}");
        };
        assert_eq!(disposition, rule.unwrap_or_default());
        let said = "write 0 (update of table `a`): its condition was not met";
        assert_eq!(reason, said);
        assert_eq!(it.store.item("a"), None);
    }
    assert_eq!(it.book("a").await.unwrap(), processed("a"));
    // A duplicate's condition may not be met.
    it.store.fail_condition(0, usize::MAX);
    assert_eq!(it.book("a").await.unwrap(), duplicate("a"));
    assert_eq!(it.effects(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn writes_that_break_a_limit_are_an_error_and_nothing_is_sent() {
    let it = Committing::work(Way::Writes);
    let work = async || {
        let all = (0..100).fold(Writes::new(), |all, at| all.update(update(&at.to_string())));
        Ok::<_, HandlerError>(all)
    };
    let ran = it.idempotency.until(it.deadline()).run("a", work).await;
    let said = "100 writes: a transaction accepts 99";
    assert_contains!(ran.unwrap_err().to_string(), said);
    assert_eq!(it.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn writes_without_a_value_bring_none_and_what_they_record_is_for_other_readers_of_the_key() {
    let it = Committing::work(Way::Writes);
    let invocation = it.idempotency.until(it.deadline());
    for expected in [Once::Processed(()), Once::Duplicate(Some(()))] {
        for recorded in [false, true] {
            let writes = Writes::new().update(update("a"));
            let (id, writes) = match recorded {
                true => ("recorded", writes.completion(&"receipt 7")),
                false => ("a", writes),
            };
            let work = async || Ok::<_, HandlerError>(writes);
            assert_eq!(invocation.run(id, work).await.unwrap(), expected);
        }
    }
    assert_eq!(it.log.take("sqs_once::run").len(), 4);
    let recorded = it.store.item("recorded").unwrap();
    assert_eq!(recorded.data, Some("\"receipt 7\"".into()));
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_opens_too_late_to_start_is_dropped() {
    let it = Committing::work(Way::Transaction);
    it.database.begins([Turn::Delay(it.timeout - SECOND)]);
    let late = it.book("a").await;
    assert!(matches!(late, Err(RunError::NotStarted)), "{late:?}");
    assert_eq!(it.database.open(), 0);
    assert_eq!(it.seen.len(), 0);
}

struct Foreign;

impl FromTransaction for Foreign {
    fn from_transaction(_: Arc<dyn std::any::Any + Send + Sync>) -> Option<Self> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn work_for_another_stores_transaction_is_refused_before_it_runs() {
    let it = Committing::work(Way::Transaction);
    let work = async |_: Foreign, _| -> Result<(), HandlerError> { panic!("it ran") };
    let invocation = it.idempotency.until(it.deadline());
    let refused = invocation.run_in_transaction("a", work).await.unwrap_err();
    let said = "the setting `store` has other transactions than the work takes: expected the store of that transaction";
    assert_eq!(refused.to_string(), said);
    assert_eq!(it.database.open(), 0);
    assert_eq!(it.store.item("a"), None);
}
