//! Effects that commit with the completion of their key: what `Writes` and a transaction of the store promise alike, to
//! consumers and to work without SQS.

use std::ops::Deref;
use std::panic::AssertUnwindSafe;

use crate::support::database::{Booking, Database, Ledger, Turn};
use crate::support::{Notes, Order, SECOND, assert_contains, body, grouped, set};
use crate::transactional::update;
use crate::transactions::booking_with;
use futures_util::FutureExt;
use sqs_once::consumer::Cache;
use sqs_once::extract::RecordEnd;
use sqs_once::key::Fingerprint;
use sqs_once::once::{Once, RunError};
use sqs_once::policy::PayloadMismatch;
use sqs_once::store::StoreErrorKind::{self, AccessDenied, Other};
use sqs_once::store::{Owner, Status};
use sqs_once::{Consumer, Handler, HandlerError, Idempotency, Writes, consumer};
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Entry {
    Consumer,
    Work,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Way {
    Writes,
    Transaction,
}

pub(crate) const ENTRIES: [Entry; 2] = [Entry::Consumer, Entry::Work];
pub(crate) const BOTH: [Way; 2] = [Way::Writes, Way::Transaction];

/// A test makes one after the other, since each captures the log.
const ALL: [(Entry, Way); 4] = [
    (Entry::Consumer, Way::Writes),
    (Entry::Consumer, Way::Transaction),
    (Entry::Work, Way::Writes),
    (Entry::Work, Way::Transaction),
];

pub(crate) type Ran = Result<Once<String>, RunError>;

/// A consumer and work whose effects are the keys' names, on one store.
pub(crate) struct Committing {
    /// Notes the keys of the handlers and work that began.
    booking: Booking,
    pub(crate) idempotency: Idempotency,
    entry: Entry,
    way: Way,
}

impl Deref for Committing {
    type Target = Booking;

    fn deref(&self) -> &Booking {
        &self.booking
    }
}

impl Committing {
    pub(crate) fn new(entry: Entry, way: Way) -> Self {
        Self::handling(entry, way, |it| it)
    }

    fn handling(entry: Entry, way: Way, settings: impl FnOnce(Handler) -> Handler) -> Self {
        let booking = match way {
            Way::Transaction => booking_with(settings),
            Way::Writes => {
                let (bench, seen) = crate::transactional::setup();
                let database = Database::beside(&bench.store);
                let bench = bench.with(settings);
                Booking {
                    bench,
                    database,
                    seen,
                }
            }
        };
        Self {
            idempotency: booking.idempotency().store(booking.database.clone()),
            booking,
            entry,
            way,
        }
    }

    pub(crate) fn work(way: Way) -> Self {
        Self::new(Entry::Work, way)
    }

    pub(crate) fn with(self, settings: impl FnOnce(Idempotency) -> Idempotency) -> Self {
        Self {
            idempotency: settings(self.idempotency),
            ..self
        }
    }

    pub(crate) fn with_keys(self, settings: Handler<consumer::Work>) -> Self {
        let idempotency = Idempotency::new(settings).store(self.database.clone());
        Self {
            idempotency: idempotency.clock(self.clock.clone()),
            ..self
        }
    }

    pub(crate) fn with_consumer(self, settings: impl FnOnce(Consumer) -> Consumer) -> Self {
        Self {
            booking: self.booking.with_consumer(settings),
            ..self
        }
    }

    pub(crate) fn cached(self) -> Self {
        self.with(|it| it.cache(Cache::new(10)))
            .with_consumer(|it| it.cache(Cache::new(10)))
    }

    /// Handles one order, or does work for its key. Returns the outcome, in the words of a consumer.
    pub(crate) async fn outcome(&self, id: &str) -> String {
        if self.entry == Entry::Consumer {
            return self.booking.outcome(id).await;
        }
        let Ok(ran) = AssertUnwindSafe(self.book(id)).catch_unwind().await else {
            return "failed".to_owned();
        };
        let outcome = match ran {
            Ok(Once::Processed(value)) => {
                assert_eq!(value, format!("receipt of {id}"));
                "processed"
            }
            Ok(Once::Duplicate(_)) => "duplicate",
            Err(RunError::InProgress { .. }) => "in_progress",
            Err(_) => "failed",
        };
        outcome.to_owned()
    }

    /// Handles one order, or does work for its key. Returns the reason of its failure.
    pub(crate) async fn reason(&self, id: &str) -> String {
        match self.entry {
            Entry::Consumer => {
                assert_eq!(self.run([id]).await, ["m-0"]);
                self.line()["reason"].clone()
            }
            Entry::Work => self.book(id).await.unwrap_err().to_string(),
        }
    }

    /// Does work whose effect is the key, and that then ends as the key's name requests.
    pub(crate) async fn book(&self, id: &str) -> Ran {
        self.book_for(id, None).await
    }

    /// The same, for a payment of this amount.
    pub(crate) async fn book_for(&self, id: &str, fingerprint: Option<u64>) -> Ran {
        let order = Order {
            id: id.to_owned(),
            total: 0,
        };
        let invocation = self.idempotency.until(self.deadline());
        let invocation = set(invocation, fingerprint, |it, cents| {
            it.fingerprint(Fingerprint::new(&cents).unwrap())
        });
        let receipt = format!("receipt of {id}");
        match self.way {
            Way::Writes => {
                let work = async || {
                    self.seen.add(id.to_owned());
                    order.obey().await?;
                    Ok::<_, HandlerError>((Writes::new().update(update(id)), receipt))
                };
                invocation.run(id, work).await
            }
            Way::Transaction => {
                let work = async |ledger: Ledger, _| {
                    self.seen.add(id.to_owned());
                    ledger.write(id);
                    order.obey().await?;
                    if id.starts_with("ends") {
                        ledger.end();
                    }
                    Ok::<_, HandlerError>(receipt)
                };
                invocation.run_in_transaction(id, work).await
            }
        }
    }

    /// The requests for a new key.
    fn requests(&self) -> &'static [(&'static str, usize)] {
        match self.way {
            Way::Writes => &[("commit", 1)],
            Way::Transaction => &[("begin", 1), ("commit", 1)],
        }
    }

    pub(crate) fn effects(&self) -> Vec<String> {
        match self.way {
            Way::Writes => self.store.written(),
            Way::Transaction => self.database.effects(),
        }
    }

    /// Makes the next commit fail without effect.
    pub(crate) fn fail(&self, kind: StoreErrorKind) {
        match self.way {
            Way::Writes => self.store.fail("commit", kind, 1),
            Way::Transaction => self.database.commits([Turn::Fail(kind)]),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_effect_the_value_and_the_completion_of_the_key_commit_together() {
    for (entry, way) in ALL {
        let it = Committing::new(entry, way);
        for id in ["a", "b"] {
            assert_eq!(it.outcome(id).await, "processed");
            assert_eq!(it.store.take_calls(), it.requests());
            let item = it.store.item(id).unwrap();
            assert_eq!(item.status, Status::Completed);
            assert_eq!(item.data, Some(format!("\"receipt of {id}\"").into()));
        }
        assert_eq!(it.outcome("a").await, "duplicate");
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn the_same_key_twice_in_a_batch_has_one_effect() {
    for way in BOTH {
        let it = Committing::new(Entry::Consumer, way);
        assert_eq!(it.run(["a", "a"]).await, [""; 0]);
        assert_eq!(it.outcomes(), "processed duplicate");
        assert_eq!(it.seen.take(), ["a"]);
        assert_eq!(it.store.take_calls(), it.requests());
        it.fail(Other);
        for id in ["b", "bad"] {
            assert_eq!(it.run([id, id]).await, ["m-0", "m-1"]);
            assert_eq!(it.seen.take(), [id]);
        }
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_live_claim_or_a_status_that_nobody_knows_prevents_the_effect_and_is_not_acknowledged() {
    for (entry, way) in ALL {
        let it = Committing::new(entry, way);
        it.foreign("b", Status::Unknown("PAUSED".to_owned()), SECOND);
        assert_contains!(it.reason("b").await, "\"PAUSED\"");
        it.foreign("a", Status::InProgress, 60 * SECOND);
        assert_eq!(it.outcome("a").await, "in_progress");
        assert_eq!(it.effects(), [""; 0]);
        let owner = it.store.item("a").unwrap().owner;
        assert_eq!(owner, Some(Owner::from_bits(7)));

        sleep(61 * SECOND).await;
        assert_eq!(it.outcome("a").await, "processed");
        assert_eq!(it.effects(), ["a"]);
    }
}

#[tokio::test(start_paused = true)]
async fn another_payload_under_the_same_key_has_no_effect_whatever_the_policy() {
    for way in BOTH {
        for (policy, expected) in [
            (PayloadMismatch::Terminal, "terminal"),
            (PayloadMismatch::Acknowledge, "duplicate"),
            (PayloadMismatch::Retry, "failed"),
        ] {
            let comparing = |it: Handler| it.payload_mismatch(policy);
            let it = Committing::handling(Entry::Consumer, way, comparing);
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
    for (entry, way) in ALL {
        for id in ["bad", "hopeless", "panic", "slow", "ends"] {
            // Only a transaction can be ended.
            let ends = id == "ends";
            if ends && way == Way::Writes {
                continue;
            }
            for attempt_timeout in [None, Some(SECOND)] {
                let limited = |it| set(it, attempt_timeout, Handler::attempt_timeout);
                let it = Committing::handling(entry, way, limited);
                let requests = &it.requests()[..it.requests().len() - usize::from(!ends)];
                for delivery in 1..=2 {
                    assert_ne!(it.outcome(id).await, "processed", "{id}");
                    assert_eq!(it.store.take_calls(), requests, "{id}");
                    assert_eq!(it.effects(), [""; 0], "{id}");
                    assert_eq!(it.store.item(id), None, "{id}");
                    assert_eq!(it.seen.len(), delivery, "{id}");
                    assert_eq!(it.database.open(), 0, "{id}");
                }
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_commit_that_is_denied_fails_its_record_alone() {
    for way in BOTH {
        let it = Committing::new(Entry::Consumer, way).with_consumer(|it| it.concurrency(1));
        it.fail(AccessDenied);
        assert_eq!(it.run(["a", "b", "c"]).await, ["m-0"]);
        assert_eq!(it.effects(), ["b", "c"]);
        assert_eq!(it.codes(), "failed: not-committed, processed, processed");
        let [line] = it.log.take("sqs_once::store").try_into().unwrap();
        assert!(line["error"].contains("grant the function's role"));
    }
}

#[tokio::test(start_paused = true)]
async fn the_next_of_a_fifo_group_waits_for_the_commit_before_it_and_returns_if_that_fails() {
    for way in BOTH {
        let it = Committing::new(Entry::Consumer, way);
        let batch = || ["a", "b"].map(|id| grouped("g", id));
        it.fail(Other);
        assert_eq!(it.run(batch()).await, ["m-0", "m-1"]);
        assert_eq!(it.seen.take(), ["a"]);
        assert_eq!(it.run(batch()).await, [""; 0]);
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_is_known_to_be_completed_costs_neither_a_request_nor_a_call() {
    for (entry, way) in ALL {
        let it = Committing::new(entry, way).cached();
        assert_eq!(it.outcome("a").await, "processed");
        it.store.take_calls();
        assert_eq!(it.outcome("a").await, "duplicate");
        assert_eq!(it.store.take_calls(), []);
        assert_eq!(it.seen.take(), ["a"]);

        // A commit that fails does not count as a completion.
        it.fail(Other);
        assert_eq!(it.outcome("b").await, "failed");
        assert_eq!(it.outcome("b").await, "processed");
        // Another process has committed it, as the store's answer tells.
        it.store.take_calls();
        it.foreign("c", Status::Completed, SECOND);
        for requests in [&it.requests()[..1], &[]] {
            assert_eq!(it.outcome("c").await, "duplicate");
            assert_eq!(it.store.take_calls(), requests);
        }
        assert_eq!(it.effects(), ["a", "b"]);
    }
}

#[tokio::test(start_paused = true)]
async fn hooks_get_the_completions_value_once_it_is_committed() {
    for way in BOTH {
        let told = Notes::default();
        let note = |name: &'static str| {
            let value = |end: RecordEnd| end.completion::<String>().unwrap();
            told.clone().of(move |end| (name, value(end)))
        };
        let [done, failure] = ["done", "failure"].map(note);
        let hooks = |it: Handler| it.on_done(done).on_failure(failure);
        let it = Committing::handling(Entry::Consumer, way, hooks);
        it.fail(Other);
        for expected in ["failed", "processed", "duplicate"] {
            assert_eq!(it.outcome("a").await, expected);
        }
        let done = ("done", Some("receipt of a".to_owned()));
        assert_eq!(told.take(), [("failure", None), done.clone(), done]);
    }
}
