//! Effects that commit with the record of their key: what `Writes` and a transaction of the store promise alike.

use std::ops::Deref;
use std::sync::Arc;

use crate::support::database::Turn;
use crate::support::{Notes, SECOND, Seen, Tested, body, set};
use crate::transactions::Booking;
use sqs_once::Consumer;
use sqs_once::hook::RecordEnd;
use sqs_once::policy::{Cache, PayloadMismatch};
use sqs_once::store::StoreErrorKind::{self, AccessDenied, Other};
use sqs_once::store::{Owner, Status};
use tokio::time::sleep;

/// A consumer whose effects are its orders' IDs, and the orders of its calls.
struct Committing {
    bench: Tested,
    seen: Seen,
    /// The requests of a record.
    requests: &'static [(&'static str, usize)],
    effects: Arc<dyn Fn() -> Vec<String> + Send + Sync>,
    /// Makes the next commit fail.
    fail: Box<dyn Fn(StoreErrorKind)>,
}

impl Deref for Committing {
    type Target = Tested;

    fn deref(&self) -> &Tested {
        &self.bench
    }
}

impl Committing {
    fn with(self, settings: impl FnOnce(Consumer) -> Consumer) -> Self {
        Self {
            bench: self.bench.with(settings),
            ..self
        }
    }

    fn effects(&self) -> Vec<String> {
        (self.effects)()
    }
}

fn writes() -> Committing {
    let (bench, seen) = crate::transactional::setup();
    let [written, failing] = [&bench.store; 2].map(Clone::clone);
    Committing {
        bench,
        seen,
        requests: &[("commit", 1)],
        effects: Arc::new(move || written.written()),
        fail: Box::new(move |kind| failing.fail("commit", kind, 1)),
    }
}

fn transaction() -> Committing {
    let Booking {
        bench,
        database,
        seen,
    } = Booking::new();
    let failing = database.clone();
    Committing {
        bench,
        seen,
        requests: &[("begin", 1), ("commit", 1)],
        effects: Arc::new(move || database.effects()),
        fail: Box::new(move |kind| failing.commits([Turn::Fail(kind)])),
    }
}

/// A test makes one consumer after the other, since each captures the log.
const BOTH: [fn() -> Committing; 2] = [writes, transaction];

#[tokio::test(start_paused = true)]
async fn the_effect_and_the_record_of_its_key_commit_together() {
    for new in BOTH {
        let it = new();
        for id in ["a", "b"] {
            assert_eq!(it.outcome(id).await, "processed");
            assert_eq!(it.store.take_calls(), it.requests);
            let item = it.store.item(id).unwrap();
            assert_eq!(item.status, Status::Completed);
            assert_eq!(item.data, Some(format!("\"receipt of {id}\"").into()));
        }
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_has_one_effect() {
    for new in BOTH {
        let it = new();
        assert_eq!(it.run(["a", "a"]).await, [""; 0]);
        assert_eq!(it.outcomes(), "processed duplicate");
        assert_eq!(it.seen.take(), ["a"]);
        assert_eq!(it.store.take_calls(), it.requests);
        (it.fail)(Other);
        for id in ["b", "bad"] {
            assert_eq!(it.run([id, id]).await, ["m-0", "m-1"]);
            assert_eq!(it.seen.take(), [id]);
        }
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_of_another_worker_prevents_the_effect_and_is_not_acknowledged() {
    for new in BOTH {
        let it = new();
        it.foreign("a", Status::InProgress, 60 * SECOND);
        assert_eq!(it.run(["a", "b"]).await, ["m-0"]);
        assert_eq!(it.outcomes(), "in_progress processed");
        let owner = it.store.item("a").unwrap().owner;
        assert_eq!(owner, Some(Owner::from_bits(7)));

        sleep(61 * SECOND).await;
        assert_eq!(it.outcome("a").await, "processed");
        assert_eq!(it.effects(), ["b", "a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_status_that_nobody_knows_prevents_the_effect() {
    for new in BOTH {
        let it = new();
        it.foreign("a", Status::Unknown("PAUSED".to_owned()), SECOND);
        assert_eq!(it.run(["a"]).await, ["m-0"]);
        assert!(it.line()["reason"].contains("\"PAUSED\""));
        assert_eq!(it.effects(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_key_has_no_effect_whatever_the_policy() {
    for new in BOTH {
        for (policy, expected) in [
            (PayloadMismatch::Terminal, "terminal"),
            (PayloadMismatch::Warn, "duplicate"),
            (PayloadMismatch::Reject, "failed"),
            (PayloadMismatch::Ignore, "duplicate"),
        ] {
            let it = new().with(|it| it.payload_mismatch(policy));
            let order = |total| body(&format!(r#"{{"id": "a", "total": {total}}}"#));
            it.run([order(1)]).await;
            assert_eq!(it.outcomes(), "processed");
            it.run([order(7)]).await;
            assert_eq!(it.outcomes(), expected);
            assert_eq!(it.effects(), ["a"]);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn what_fails_has_no_effect_and_its_key_is_free_at_once() {
    for new in BOTH {
        for id in ["bad", "hopeless", "panic", "slow"] {
            for record_timeout in [None, Some(SECOND)] {
                let it = new().with(|it| set(it, record_timeout, Consumer::record_timeout));
                let without_commit = &it.requests[..it.requests.len() - 1];
                for delivery in 1..=2 {
                    assert_eq!(it.run([id]).await, ["m-0"], "{id}");
                    assert_eq!(it.store.take_calls(), without_commit, "{id}");
                    assert_eq!(it.effects(), [""; 0], "{id}");
                    assert_eq!(it.store.item(id), None, "{id}");
                    assert_eq!(it.seen.len(), delivery, "{id}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_fails_its_record_alone() {
    for new in BOTH {
        let it = new().with(|it| it.concurrency(1));
        (it.fail)(AccessDenied);
        assert_eq!(it.run(["a", "b", "c"]).await, ["m-0"]);
        assert_eq!(it.effects(), ["b", "c"]);
        let [line] = it.log.take("sqs_once::store").try_into().unwrap();
        assert!(line["error"].contains("grant the function's role"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_to_be_completed_costs_neither_a_request_nor_a_call() {
    for new in BOTH {
        let it = new().with(|it| it.cache(Cache::new(10)));
        assert_eq!(it.outcome("a").await, "processed");
        it.store.take_calls();
        assert_eq!(it.outcome("a").await, "duplicate");
        assert_eq!(it.store.take_calls(), []);
        assert_eq!(it.seen.take(), ["a"]);

        // A commit that fails does not count as a completion.
        (it.fail)(Other);
        assert_eq!(it.outcome("b").await, "failed");
        assert_eq!(it.outcome("b").await, "processed");
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_another_process_has_committed_is_known_from_the_stores_answer() {
    for new in BOTH {
        let it = new().with(|it| it.cache(Cache::new(10)));
        it.foreign("b", Status::Completed, SECOND);
        for requests in [&it.requests[..1], &[]] {
            assert_eq!(it.outcome("b").await, "duplicate");
            assert_eq!(it.store.take_calls(), requests);
        }
        assert_eq!(it.effects(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_get_what_was_recorded_once_it_is_committed() {
    for new in BOTH {
        let (it, told) = (new(), Notes::default());
        let note = |name: &'static str| {
            let (told, effects) = (told.clone(), Arc::clone(&it.effects));
            move |end: RecordEnd| {
                let recorded: Option<String> = end.recorded().unwrap();
                told.add((name, recorded, effects().len()));
                std::future::ready(Ok(()))
            }
        };
        let [success, duplicate, failure] = ["success", "duplicate", "failure"].map(note);
        let it = it.with(|it| {
            it.on_success(success)
                .on_duplicate(duplicate)
                .on_failure(failure)
        });
        (it.fail)(Other);
        for expected in ["failed", "processed", "duplicate"] {
            assert_eq!(it.outcome("a").await, expected);
        }
        let receipt = Some("receipt of a".to_owned());
        let success = ("success", receipt.clone(), 1);
        let expected = [("failure", None, 0), success, ("duplicate", receipt, 1)];
        assert_eq!(told.take(), expected);
    }
}
