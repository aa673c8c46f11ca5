//! Effects of work without SQS that commit with the record of their key: what `Writes` and a transaction of the store
//! promise alike, and what only one of them does.

use std::sync::Arc;

use crate::support::database::{Database, Ledger, Turn};
use crate::support::{Bench, Notes, Order, SECOND, assert_contains};
use crate::transactional::update;
use sqs_once::hook::RecordEnd;
use sqs_once::key::{Fingerprint, KeyError, KeySecret, Namespace};
use sqs_once::policy::{Cache, Disposition};
use sqs_once::store::StoreErrorKind::{self, AccessDenied, Other, Throttled, Unanswered};
use sqs_once::store::{FromTransaction, Owner, Status, WritesError};
use sqs_once::{HandlerError, Idempotency, MemoryStore, Once, RunError, Writes};
use tokio::sync::{Barrier, Notify};
use tokio::time::{sleep, timeout};

type Ran = Result<Once<String>, RunError>;

/// How the effect commits.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Writes,
    Transaction,
}

const BOTH: [Way; 2] = [Way::Writes, Way::Transaction];

/// Work whose effects are the keys' names.
struct Booking {
    bench: Bench,
    database: Database,
    idempotency: Idempotency,
    way: Way,
    /// The keys of the work that began.
    seen: Notes<String>,
}

impl std::ops::Deref for Booking {
    type Target = Bench;

    fn deref(&self) -> &Bench {
        &self.bench
    }
}

impl Booking {
    fn new(way: Way) -> Self {
        let bench = Bench::new();
        let database = Database::beside(&bench.store);
        Self {
            idempotency: bench.idempotency().store(database.clone()),
            bench,
            database,
            way,
            seen: Notes::default(),
        }
    }

    fn with(self, settings: impl FnOnce(Idempotency) -> Idempotency) -> Self {
        Self {
            idempotency: settings(self.idempotency),
            ..self
        }
    }

    /// Does work whose effect is the key, and that then ends as the key's name requests.
    async fn book(&self, id: &str) -> Ran {
        let order = Order {
            id: id.to_owned(),
            total: 0,
        };
        self.book_after(id, None, async || order.obey().await).await
    }

    /// Does work whose effect is the key, and that ends after `then`.
    async fn book_after(
        &self,
        id: &str,
        fingerprint: Option<u64>,
        then: impl AsyncFnOnce() -> Result<(), HandlerError>,
    ) -> Ran {
        let invocation = self.idempotency.until(self.deadline());
        let invocation = match fingerprint {
            Some(cents) => invocation.fingerprint(Fingerprint::new(&cents).unwrap()),
            None => invocation,
        };
        let receipt = format!("receipt of {id}");
        let begins = || self.seen.add(id.to_owned());
        match self.way {
            Way::Writes => {
                let work = async || {
                    begins();
                    then().await?;
                    Ok::<_, HandlerError>((Writes::new().update(update(id)), receipt))
                };
                invocation.run(id, work).await
            }
            Way::Transaction => {
                let work = async |ledger: Ledger, _| {
                    begins();
                    ledger.write(id);
                    then().await?;
                    Ok::<_, HandlerError>(receipt)
                };
                invocation.run_in_transaction(id, work).await
            }
        }
    }

    /// The requests of work for a new key.
    fn requests(&self) -> &'static [(&'static str, usize)] {
        match self.way {
            Way::Writes => &[("commit", 1)],
            Way::Transaction => &[("begin", 1), ("commit", 1)],
        }
    }

    fn effects(&self) -> Vec<String> {
        match self.way {
            Way::Writes => self.store.written(),
            Way::Transaction => self.database.effects(),
        }
    }

    /// Makes the next commit fail without effect.
    fn fail(&self, kind: StoreErrorKind) {
        match self.way {
            Way::Writes => self.store.fail("commit", kind, 1),
            Way::Transaction => self.database.commits([Turn::Fail(kind)]),
        }
    }
}

fn processed(id: &str) -> Once<String> {
    Once::Processed(format!("receipt of {id}"))
}

fn duplicate(id: &str) -> Once<String> {
    Once::Duplicate(Some(format!("receipt of {id}")))
}

fn uncommitted(ran: &Ran) -> StoreErrorKind {
    match ran {
        Err(RunError::NotCommitted(error)) => error.kind(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn the_effect_the_value_and_the_record_of_the_key_commit_together() {
    for way in BOTH {
        let it = Booking::new(way);
        for id in ["a", "b"] {
            assert_eq!(it.book(id).await.unwrap(), processed(id));
            assert_eq!(it.store.take_calls(), it.requests());
            let item = it.store.item(id).unwrap();
            assert_eq!(item.status, Status::Completed);
            assert_eq!(item.data, Some(format!("\"receipt of {id}\"").into()));
        }
        assert_eq!(it.book("a").await.unwrap(), duplicate("a"));
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_fails_or_is_dropped_has_no_effect_and_its_key_is_free_at_once() {
    for way in BOTH {
        let it = Booking::new(way);
        let without_commit = &it.requests()[..it.requests().len() - 1];
        let untouched = |id: &str| {
            assert_eq!(it.store.take_calls(), without_commit, "{id}");
            assert_eq!(it.effects(), [""; 0], "{id}");
            assert_eq!(it.store.item(id), None, "{id}");
            assert_eq!(it.database.open(), 0, "{id}");
        };
        for _ in 0..2 {
            let failed = it.book("bad").await;
            assert!(matches!(failed, Err(RunError::Work(_))), "{failed:?}");
            untouched("bad");
            let cancelled = it.book("slow").await;
            assert!(matches!(cancelled, Err(RunError::Cancelled)));
            untouched("slow");
            assert!(timeout(SECOND, it.book("slow")).await.is_err());
            untouched("slow");
        }
        assert_eq!(it.elapsed(), 2 * it.timeout, "{way:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_that_panics_has_no_effect_and_the_panic_goes_on_to_the_caller() {
    for way in BOTH {
        let it = Arc::new(Booking::new(way));
        let panicking = Arc::clone(&it);
        // The future can move to another thread.
        let task = tokio::spawn(async move { panicking.book("panic").await });
        let panicked = task.await.unwrap_err().into_panic();
        assert_eq!(panicked.downcast_ref(), Some(&"what a surprise"));
        assert_eq!(it.effects(), [""; 0]);
        assert_eq!(it.store.item("panic"), None);
        assert_eq!(it.database.open(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_of_another_worker_prevents_the_effect() {
    for way in BOTH {
        let it = Booking::new(way);
        it.foreign("a", Status::InProgress, 60 * SECOND);
        let refused = it.book("a").await;
        assert!(matches!(refused, Err(RunError::InProgress { .. })));
        assert_eq!(it.effects(), [""; 0]);
        let owner = it.store.item("a").unwrap().owner;
        assert_eq!(owner, Some(Owner::from_bits(7)));

        sleep(61 * SECOND).await;
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_or_a_status_that_nobody_knows_prevents_the_effect() {
    for way in BOTH {
        let it = Booking::new(way);
        let paying = async |cents| it.book_after("a", Some(cents), async || Ok(())).await;
        assert_eq!(paying(1).await.unwrap(), processed("a"));
        let other = paying(2).await;
        assert!(matches!(other, Err(RunError::PayloadMismatch)));
        it.foreign("b", Status::Unknown("PAUSED".to_owned()), SECOND);
        let unknown = it.book("b").await.unwrap_err();
        assert_contains!(unknown.to_string(), "\"PAUSED\"");
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_to_be_completed_costs_no_request_whichever_work_completed_it() {
    for way in BOTH {
        let it = Booking::new(way).with(|it| it.cache(Cache::new(10)));
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
        assert_eq!(it.seen.take(), ["a"]);

        // A commit that fails does not count as a completion.
        it.fail(Other);
        assert_eq!(uncommitted(&it.book("c").await), Other);
        assert_eq!(it.book("c").await.unwrap(), processed("c"));
        assert_eq!(it.effects(), ["a", "c"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_is_reported_with_its_fix_and_the_work_comes_again() {
    for way in BOTH {
        let it = Booking::new(way);
        it.fail(AccessDenied);
        let ran = it.book("a").await;
        let text = ran.as_ref().unwrap_err().to_string();
        assert_contains!(text, "was not confirmed", "grant the function's role");
        assert_eq!(uncommitted(&ran), AccessDenied);
        assert_eq!(it.effects(), [""; 0]);
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn two_attempts_at_once_have_one_effect_and_the_other_gets_its_value() {
    let it = Booking::new(Way::Writes);
    // Both compute before either commits.
    let both = Barrier::new(2);
    let meeting = || {
        it.book_after("a", None, async || {
            both.wait().await;
            Ok(())
        })
    };
    let (first, second) = tokio::join!(meeting(), meeting());
    let mut both = [first.unwrap(), second.unwrap()];
    both.sort_by_key(Once::is_duplicate);
    assert_eq!(both, [processed("a"), duplicate("a")]);
    assert_eq!(it.effects(), ["a"]);

    let it = Booking::new(Way::Transaction);
    let (begun, goes_on) = (Notify::new(), Notify::new());
    let first = it.book_after("a", None, async || {
        begun.notify_one();
        goes_on.notified().await;
        Ok(())
    });
    let second = async {
        begun.notified().await;
        tokio::join!(it.book("a"), async {
            sleep(SECOND).await;
            goes_on.notify_one();
        })
    };
    let (first, (second, ())) = tokio::join!(first, second);
    assert_eq!(first.unwrap(), processed("a"));
    assert_eq!(second.unwrap(), duplicate("a"));
    assert_eq!(it.effects(), ["a"]);
    assert_eq!(it.seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_holds_nothing_up_beyond_the_deadline() {
    for (begins, commits) in [(Turn::Hang, Turn::Do), (Turn::Do, Turn::Hang)] {
        let it = Booking::new(Way::Transaction);
        it.database.begins_always(begins);
        it.database.commits_always(commits);
        let error = it.book("a").await.unwrap_err();
        let (RunError::NotClaimed(error) | RunError::NotCommitted(error)) = error else {
            panic!("{error:?}")
        };
        assert_eq!(error.kind(), Unanswered);
        assert!(it.elapsed() < it.timeout);
        assert_eq!(it.database.open(), 0);
        assert_eq!(it.effects(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_known_deadline_or_a_usable_key_nothing_runs_and_the_store_is_not_asked() {
    for way in BOTH {
        let it = Booking::new(way);
        let empty = it.book(" ").await;
        assert!(matches!(empty, Err(RunError::Key(KeyError::Empty))));
        let late = Booking {
            bench: Bench::with_timeout(std::time::Duration::ZERO),
            ..it
        };
        let late = (late.book("a").await, late);
        assert!(matches!(late.0, Err(RunError::NotStarted)));
        assert_eq!(late.1.seen.len(), 0);
        assert_eq!(late.1.database.open(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn what_can_not_commit_with_the_record_of_its_key_is_refused_before_the_work_runs() {
    let secret = || KeySecret::new([7; 32]).unwrap();
    let other = Namespace::new("other").unwrap();
    for way in BOTH {
        let settings: [(&str, &dyn Fn(Idempotency) -> Idempotency); 3] = [
            ("the setting `store` ", &|it| it.store(MemoryStore::new())),
            ("the setting `also_read` is set", &|it| {
                it.also_read(other.clone())
            }),
            ("SQS_ONCE_ALSO_READ is not set", &|it| {
                it.key_secret(secret())
            }),
        ];
        for (says, settings) in settings {
            let it = Booking::new(way).with(settings);
            // Other work can use the setting.
            it.idempotency.init().await.unwrap();
            let refused = it.book("a").await;
            assert!(matches!(refused, Err(RunError::Config(_))), "{refused:?}");
            assert!(refused.unwrap_err().to_string().starts_with(says));
            assert_eq!(it.seen.len(), 0);
            assert_eq!(it.effects(), [""; 0]);
        }
        let it = Booking::new(way).with(|it| it.key_secret(secret()).also_read_nothing());
        assert_eq!(it.book("a").await.unwrap(), processed("a"));
        assert_eq!(it.book("a").await.unwrap(), duplicate("a"));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn writes_whose_commit_gets_no_answer_are_sent_again_and_made_once() {
    let it = Booking::new(Way::Writes);
    it.store.lose_answer("commit", 3);
    assert_eq!(it.book("a").await.unwrap(), processed("a"));
    let commits = it.store.take_commits();
    assert_eq!(commits.len(), 4);
    assert!(commits.iter().all(|commit| *commit == commits[0]));
    assert_eq!(it.effects(), ["a"]);
    assert_eq!(it.seen.take(), ["a"]);

    it.store.always_fails("commit", Throttled);
    let begun = it.elapsed();
    assert_eq!(uncommitted(&it.book("b").await), Throttled);
    assert!(it.elapsed() - begun < it.timeout);
    assert!(it.store.take_commits().len() > 10);
    it.store.fail("commit", Throttled, 0);
    assert_eq!(it.book("b").await.unwrap(), processed("b"));
}

#[tokio::test(start_paused = true)]
async fn a_condition_that_is_not_met_writes_nothing_and_its_rule_reaches_the_caller() {
    let it = Booking::new(Way::Writes);
    let hour = Disposition::RetryAfter(3600 * SECOND);
    for rule in [None, Some(Disposition::Terminal), Some(hour)] {
        it.store.fail_condition(0, 1);
        let work = async || {
            let writes = Writes::new().update(update("a"));
            let writes = match rule {
                Some(rule) => writes.on_conflict(0, move |_| rule),
                None => writes,
            };
            Ok::<_, HandlerError>(writes)
        };
        let refused = it.idempotency.until(it.deadline()).run("a", work).await;
        let expected = rule.unwrap_or(Disposition::Retry);
        match refused.unwrap_err() {
            RunError::Conflict {
                disposition,
                reason,
            } => {
                assert_eq!(disposition, expected);
                let said = "write 0 (update of table `a`): its condition was not met";
                assert_eq!(reason, said);
            }
            other => panic!("{other:?}"),
        }
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
    let it = Booking::new(Way::Writes);
    let work = async || {
        let all = (0..100).fold(Writes::new(), |all, at| all.update(update(&at.to_string())));
        Ok::<_, HandlerError>(all)
    };
    let ran = it.idempotency.until(it.deadline()).run("a", work).await;
    match ran.unwrap_err() {
        RunError::Work(source) => assert!(source.is::<WritesError>(), "{source}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(it.store.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn writes_without_a_value_bring_none_and_what_they_record_is_for_other_readers_of_the_key() {
    let it = Booking::new(Way::Writes);
    let invocation = it.idempotency.until(it.deadline());
    for expected in [Once::Processed(()), Once::Duplicate(Some(()))] {
        for recorded in [false, true] {
            let writes = Writes::new().update(update("a"));
            let (id, writes) = match recorded {
                true => ("recorded", writes.recording(&"receipt 7")),
                false => ("a", writes),
            };
            let work = async || Ok::<_, HandlerError>(writes);
            assert_eq!(invocation.run(id, work).await.unwrap(), expected);
        }
    }
    assert_eq!(it.log.take("sqs_once::run").len(), 4);

    let (told, notes) = Notes::pair();
    let (consumer, seen) = it.noting();
    let consumer = consumer.on_duplicate(move |end: RecordEnd| {
        notes.add(end.recorded::<String>().unwrap());
        std::future::ready(Ok(()))
    });
    assert_eq!(it.deliver(&consumer, ["recorded"]).await, [""; 0]);
    assert_eq!(told.take(), [Some("receipt 7".to_owned())]);
    assert_eq!(seen.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_value_that_is_too_large_is_left_out_and_the_effect_happens() {
    for way in BOTH {
        let it = Booking::new(way);
        let large = "x".repeat(256 * 1024);
        let invocation = it.idempotency.until(it.deadline());
        let run = async || match way {
            Way::Writes => {
                let both = (Writes::new().update(update("a")), large.clone());
                invocation
                    .run("a", async || Ok::<_, HandlerError>(both))
                    .await
            }
            Way::Transaction => {
                let work = async |ledger: Ledger, _| {
                    ledger.write("a");
                    Ok::<_, HandlerError>(large.clone())
                };
                invocation.run_in_transaction("a", work).await
            }
        };
        assert_eq!(run().await.unwrap(), Once::Processed(large.clone()));
        let lines = it.log.take("sqs_once::run");
        assert_contains!(lines[0]["reason"], "262146 bytes");
        assert_eq!(run().await.unwrap(), Once::Duplicate(None));
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_token_in_a_transaction_is_that_of_every_other_work_with_the_key() {
    let it = Booking::new(Way::Transaction);
    let invocation = it.idempotency.until(it.deadline());
    let (tokens, notes) = Notes::pair();
    let failing = async |_: Ledger, token| {
        notes.add(token);
        Err::<(), HandlerError>("no luck".into())
    };
    invocation
        .run_in_transaction("a", failing)
        .await
        .unwrap_err();
    let plain = async |token| {
        notes.add(token);
        Ok::<_, HandlerError>(())
    };
    invocation.run_with_token("a", plain).await.unwrap();
    let tokens = tokens.take();
    assert_eq!(tokens[0], tokens[1]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_whose_commit_gets_no_answer_is_settled_by_the_next_attempt() {
    let it = Booking::new(Way::Transaction);
    it.database.commits([Turn::LoseAnswer]);
    assert_eq!(uncommitted(&it.book("a").await), Unanswered);
    // The transaction is gone, so its commit is not repeated.
    assert_eq!(it.store.take_calls(), [("begin", 1), ("commit", 1)]);
    assert_eq!(it.book("a").await.unwrap(), duplicate("a"));
    it.database.commits([Turn::Fail(Unanswered)]);
    assert_eq!(uncommitted(&it.book("b").await), Unanswered);
    assert_eq!(it.book("b").await.unwrap(), processed("b"));
    assert_eq!(it.effects(), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_its_own_transaction_is_not_recorded() {
    let it = Booking::new(Way::Transaction);
    let ending = async |ledger: Ledger, _| {
        ledger.write("a");
        ledger.end();
        Ok::<_, HandlerError>(())
    };
    let invocation = it.idempotency.until(it.deadline());
    let ended = invocation.run_in_transaction("a", ending).await;
    assert!(matches!(ended, Err(RunError::NotCommitted(_))));
    assert_eq!(it.store.item("a"), None);
    assert_eq!(it.database.open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_fails_for_the_moment_is_sent_again_and_a_denied_one_is_not() {
    let it = Booking::new(Way::Transaction);
    let turns = [Throttled, Unanswered].map(Turn::Fail);
    it.database.begins(turns);
    assert_eq!(it.book("a").await.unwrap(), processed("a"));
    it.store.take_calls();
    it.database.begins([Turn::Fail(AccessDenied)]);
    let denied = it.book("b").await;
    assert!(matches!(denied, Err(RunError::NotClaimed(_))), "{denied:?}");
    assert_eq!(it.store.take_calls(), [("begin", 1)]);
    assert_eq!(it.seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn who_waits_for_another_transaction_waits_until_the_deadline_and_does_nothing() {
    let it = Booking::new(Way::Transaction);
    let held = it.database.lock("a").await;
    let refused = it.book("a").await;
    assert!(
        matches!(refused, Err(RunError::NotClaimed(_))),
        "{refused:?}"
    );
    assert_eq!(it.elapsed(), it.timeout - SECOND);
    drop(held);
    assert_eq!(it.book("a").await.unwrap(), processed("a"));
    assert_eq!(it.seen.take(), ["a"]);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_that_opens_too_late_to_start_is_dropped() {
    let it = Booking::new(Way::Transaction);
    it.database.begins([Turn::Delay(it.timeout - SECOND)]);
    let late = it.book("a").await;
    assert!(matches!(late, Err(RunError::NotStarted)), "{late:?}");
    assert_eq!(it.database.open(), 0);
    assert_eq!(it.seen.len(), 0);
}

/// Another store's transaction.
struct Foreign;

impl FromTransaction for Foreign {
    fn from_transaction(_: Arc<dyn std::any::Any + Send + Sync>) -> Option<Self> {
        None
    }
}

#[tokio::test(start_paused = true)]
async fn work_for_another_stores_transaction_is_refused_before_it_runs() {
    let it = Booking::new(Way::Transaction);
    let work = async |_: Foreign, _| -> Result<(), HandlerError> { panic!("it ran") };
    let invocation = it.idempotency.until(it.deadline());
    let refused = invocation.run_in_transaction("a", work).await.unwrap_err();
    assert_eq!(
        refused.to_string(),
        "the setting `store` has other transactions than the work takes: expected the store of that transaction"
    );
    assert_eq!(it.database.open(), 0);
    assert_eq!(it.store.item("a"), None);
}

#[tokio::test(start_paused = true)]
async fn a_transaction_without_a_store_asks_for_one_and_writes_for_a_table() {
    let nowhere = Idempotency::new().namespace("test");
    let bench = Bench::new();
    let invocation = nowhere.until(bench.deadline());
    let never = async |_: Ledger, _| Ok::<_, HandlerError>(());
    let refused = invocation.run_in_transaction("a", never).await;
    assert_eq!(
        refused.unwrap_err().to_string(),
        "the setting `store` is not set, but a transaction needs one: expected `.store(…)` with a store that has them, \
         such as `PostgresStore::from_env()?`"
    );
    let never = async || Ok::<_, HandlerError>(Writes::new());
    let refused = invocation.run("a", never).await.unwrap_err();
    assert!(refused.to_string().starts_with("SQS_ONCE_TABLE is "));
}
