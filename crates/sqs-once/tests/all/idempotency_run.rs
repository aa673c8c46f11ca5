//! Promises of idempotency without SQS, on simulated time.

use std::future::ready;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::{Bench, Notes, Order, SECOND, assert_contains, orders, set};
use serde::{Deserialize, Serialize};
use sqs_once::consumer::{Margins, Work};
use sqs_once::key::{Ids, KeyCodec, KeyError, KeySecret, OwnIds};
use sqs_once::once::{Once, RunError};
use sqs_once::store::StoreErrorKind::{AccessDenied, TableNotFound, Throttled, Unanswered};
use sqs_once::store::{Owner, Status, StoreErrorKind, Timestamp};
use sqs_once::{Completion, Handler, HandlerError, Idempotency, IdempotencyToken};
use tokio::task::yield_now;
use tokio::time::{sleep, timeout};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Receipt {
    number: String,
}

fn receipt(number: &str) -> Receipt {
    Receipt {
        number: number.to_owned(),
    }
}

fn setup() -> (Bench, Idempotency) {
    let bench = Bench::new();
    let idempotency = bench.idempotency();
    (bench, idempotency)
}

/// Idempotency with these settings of its keys on this bench.
fn on(bench: &Bench, settings: Handler<Work>) -> Idempotency {
    let idempotency = Idempotency::new(settings).store(bench.store.clone());
    idempotency.clock(bench.clock.clone())
}

type Ran = Result<Once<Receipt>, RunError>;

impl Bench {
    /// Runs work for the key `a`.
    async fn once<W>(&self, idempotency: &Idempotency, work: impl FnOnce() -> W) -> Ran
    where
        W: Future<Output = Result<Receipt, HandlerError>>,
    {
        idempotency.until(self.deadline()).run("a", work).await
    }
}

async fn ok() -> Result<Receipt, HandlerError> {
    Ok(receipt("r-1"))
}

async fn failing() -> Result<Receipt, HandlerError> {
    Err(CardRefused.into())
}

async fn endless() -> Result<Receipt, HandlerError> {
    std::future::pending().await
}

async fn never() -> Result<Receipt, HandlerError> {
    panic!("it ran")
}

fn processed() -> Once<Receipt> {
    Once::Processed(receipt("r-1"))
}

fn duplicate() -> Once<Receipt> {
    Once::Duplicate(Some(receipt("r-1")))
}

/// The kind of a store's error, and whether the work had succeeded before.
fn store_error(ran: Ran) -> (StoreErrorKind, bool) {
    match ran.unwrap_err() {
        RunError::NotClaimed(error) => (error.kind(), false),
        RunError::NotCompleted(error) => (error.kind(), true),
        other => panic!("{other:?}"),
    }
}

fn is_in_progress(ran: &Ran) -> bool {
    matches!(ran, Err(RunError::InProgress { .. }))
}

/// The monotonic clock may stop while the process is frozen.
#[tokio::test(start_paused = true)]
async fn work_is_not_polled_in_a_process_that_thaws_after_its_deadline() {
    let (bench, idempotency) = setup();
    let went_on = AtomicBool::new(false);
    let frozen = || async {
        bench.clock.advance(3600 * SECOND);
        yield_now().await;
        went_on.store(true, Ordering::SeqCst);
        ok().await
    };
    let cancelled = bench.once(&idempotency, frozen).await;
    let is_cancelled = matches!(cancelled, Err(RunError::Cancelled));
    assert!(is_cancelled, "{cancelled:?}");
    assert!(!went_on.into_inner());
}

#[tokio::test(start_paused = true)]
async fn work_is_done_once_and_a_duplicate_brings_its_value() {
    let (bench, idempotency) = setup();
    assert_eq!(bench.once(&idempotency, ok).await.unwrap(), processed());
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    let second = bench.once(&idempotency, never).await.unwrap();
    assert_eq!(second, duplicate());
    assert!(second.is_duplicate());
    assert_eq!(second.into_value(), Some(receipt("r-1")));
    assert_eq!(bench.store.take_calls(), [("claim", 1)]);
    let seven = || ready(Ok::<_, HandlerError>(7));
    let other = idempotency.until(bench.deadline()).run("b", seven).await;
    assert_eq!(other.unwrap().into_value(), Some(7));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_with_the_same_settings_of_keys_knows_the_same_keys_and_tokens() {
    let python = KeyCodec::powertools_python("orders.app.process_order");
    let secret = Ids::secret(KeySecret::new([7; 32]).unwrap());
    let kinds: [OwnIds; 3] = [Ids::readable().into(), python.into(), secret.into()];
    for ids in kinds.map(Some).into_iter().chain([None]) {
        let bench = Bench::new();
        let work = Handler::work().namespace("test");
        let idempotency = on(&bench, set(work, ids.clone(), |it, ids| it.ids(ids)));
        let (tokens, notes) = Notes::pair();
        let charging = orders().call(move |order: Order, token: IdempotencyToken| {
            notes.add(token);
            ready(match order.id.as_str() {
                "a" => Ok(Completion(receipt("r-1"))),
                _ => Err("no luck"),
            })
        });
        let bench = bench.on(set(charging, ids, |it: Handler, ids| it.ids(ids)));

        assert_eq!(bench.run(["a", "b"]).await, ["m-1"]);
        assert_eq!(bench.once(&idempotency, never).await.unwrap(), duplicate());
        let invocation = idempotency.until(bench.deadline());
        let b = invocation.run_with_token("b", |token| {
            tokens.add(token);
            ready(Ok::<_, HandlerError>(()))
        });
        assert_eq!(b.await.unwrap(), Once::Processed(()));
        bench.outcomes();
        bench.run(["b"]).await;
        assert_eq!(bench.outcomes(), "duplicate");

        let tokens = tokens.take();
        assert_eq!(tokens[1], tokens[2]);
        assert_ne!(tokens[0], tokens[1]);
    }
}

#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_namespace_or_a_usable_key_nothing_runs_and_the_store_is_not_asked() {
    let (bench, idempotency) = setup();
    let context = lambda_runtime::Context::default();
    let refused = idempotency.until(context.deadline()).run("a", never).await;
    assert!(matches!(refused, Err(RunError::NoDeadline)));
    let now = bench.clock.now();
    let past = Timestamp::from_secs(now.as_secs() - 30);
    for deadline in [now, past] {
        let refused = idempotency.until(deadline).run("a", never).await;
        assert!(matches!(refused, Err(RunError::NotStarted)));
    }
    let invocation = idempotency.until(bench.deadline());
    let missing = invocation.run(&None::<String>, never).await;
    assert!(matches!(missing, Err(RunError::Key(KeyError::Missing))));
    let empty = invocation.run(" ", never).await;
    assert!(matches!(empty, Err(RunError::Key(KeyError::Empty))));
    let codec = KeyCodec::powertools_dotnet("orders.app.process_order");
    let with_codec = on(&bench, Handler::work().namespace("test").ids(codec));
    let unwritable = with_codec.until(bench.deadline()).run("true", never).await;
    assert!(matches!(unwritable, Err(RunError::Key(_))));
    assert_eq!(bench.store.take_calls(), []);

    let nameless = on(&bench, Handler::work());
    let refused = nameless.init().await.unwrap_err();
    assert_eq!(refused.setting(), "SQS_ONCE_NAMESPACE");
    let refused = bench.once(&nameless, never).await;
    assert!(matches!(refused, Err(RunError::Config(_))));
}

#[derive(Debug, thiserror::Error)]
#[error("card refused")]
struct CardRefused;

#[tokio::test(start_paused = true)]
async fn failing_work_reports_its_own_error_and_gives_the_key_up() {
    let (bench, idempotency) = setup();
    let failing = || async { Err::<Receipt, _>(CardRefused) };
    let error = idempotency.until(bench.deadline()).run("a", failing).await;
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), "card refused");
    let is_own = matches!(&error, RunError::Work { error, .. } if error.is::<CardRefused>());
    assert!(is_own, "{error:?}");
    assert_eq!(bench.once(&idempotency, ok).await.unwrap(), processed());
}

#[tokio::test(start_paused = true)]
async fn an_endless_error_text_is_cut_in_the_log_and_whole_for_the_caller() {
    let (bench, idempotency) = setup();
    let failing = || ready(Err("no luck ".repeat(100_000).into()));
    let error = bench.once(&idempotency, failing).await.unwrap_err();
    assert_eq!(error.to_string().len(), 800_000);
    let lines = bench.log.take("sqs_once::run");
    assert!(lines[0]["reason"].len() < 2000);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_is_tried_twice_and_hides_no_error_of_the_work() {
    let (bench, idempotency) = setup();
    bench.store.always_fails("settle", Throttled);
    let error = bench.once(&idempotency, failing).await;
    assert!(matches!(error, Err(RunError::Work { .. })));
    let settled = [("claim", 1), ("settle", 1), ("settle", 1)];
    assert_eq!(bench.store.take_calls(), settled);
    assert_eq!(bench.log.take("sqs_once::store").len(), 1);

    // The lease expires by itself.
    bench.store.fail("settle", Throttled, 0);
    assert!(is_in_progress(&bench.once(&idempotency, never).await));
    sleep(bench.timeout + 4 * SECOND).await;
    assert!(bench.once(&idempotency, ok).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_panic_goes_on_to_the_caller_and_gives_the_key_up() {
    let (bench, idempotency) = setup();
    let (task, ends_at) = (idempotency.clone(), bench.deadline());
    let panicking = || -> std::future::Ready<Result<Receipt, HandlerError>> { panic!("no card") };
    let task = tokio::spawn(async move { task.until(ends_at).run("a", panicking).await });
    let panicked = task.await.unwrap_err().into_panic();
    assert_eq!(panicked.downcast_ref(), Some(&"no card"));
    assert_eq!(bench.once(&idempotency, ok).await.unwrap(), processed());
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_fails_is_reported_with_its_cause_and_the_work_comes_again() {
    let (bench, idempotency) = setup();
    bench.store.fail("settle", AccessDenied, 1);
    let ran = bench.once(&idempotency, ok).await;
    let text = ran.as_ref().unwrap_err().to_string();
    assert_contains!(text, "the work succeeded", "grant the function's role");
    assert_eq!(store_error(ran), (AccessDenied, true));
    sleep(bench.timeout + 4 * SECOND).await;
    assert_eq!(bench.once(&idempotency, ok).await.unwrap(), processed());
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_fails_is_reported_with_its_cause_in_time_and_nothing_runs() {
    // Pauses grow to a second, so there are about as many requests as seconds.
    for (kind, times, requests) in [(TableNotFound, 1, 1..2), (Throttled, usize::MAX, 25..60)] {
        let (bench, idempotency) = setup();
        bench.store.fail("claim", kind, times);
        let refused = bench.once(&idempotency, never).await;
        assert_eq!(store_error(refused), (kind, false));
        assert!(bench.elapsed() <= bench.timeout, "{kind:?}");
        let sent = bench.store.take_calls().len();
        assert!(requests.contains(&sent), "{kind:?}: {sent}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_lapses_while_the_store_is_throttling_is_noticed() {
    let (bench, idempotency) = setup();
    let slow = bench.once(&idempotency, endless).await;
    assert!(matches!(slow, Err(RunError::Cancelled)));
    // The lease lasts four more seconds, and twenty pauses take at least seven.
    bench.store.fail("claim", Throttled, 20);
    assert!(bench.once(&idempotency, ok).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_store_that_never_answers_holds_nothing_up_beyond_the_deadline() {
    let (bench, idempotency) = setup();
    bench.store.silent();
    let refused = bench.once(&idempotency, never).await;
    assert_eq!(store_error(refused), (Unanswered, false));
    assert_eq!(bench.elapsed(), bench.timeout - SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_key_in_progress_elsewhere_is_refused_until_its_lease_has_lapsed() {
    let (bench, idempotency) = setup();
    let expected = bench.deadline() + 3 * SECOND;
    let dying = bench.once(&idempotency, endless);
    assert!(timeout(SECOND, dying).await.is_err());

    match bench.once(&idempotency, never).await.unwrap_err() {
        RunError::InProgress { lease_until } => assert_eq!(lease_until, Some(expected)),
        other => panic!("{other:?}"),
    }
    sleep(expected.since(bench.clock.now())).await;
    assert!(is_in_progress(&bench.once(&idempotency, never).await));
    sleep(SECOND / 1000).await;
    assert!(bench.once(&idempotency, ok).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn work_that_is_too_slow_is_cancelled_in_time_and_its_claim_left_to_lapse() {
    let (bench, idempotency) = setup();
    let margins = Margins::new().deadline(7 * SECOND).lease(9 * SECOND);
    let idempotency = idempotency.margins(margins);
    let lease_until = bench.deadline() + 9 * SECOND;
    let cancelled = bench.once(&idempotency, endless).await;
    assert!(matches!(cancelled, Err(RunError::Cancelled)));
    assert_eq!(bench.elapsed(), bench.timeout - 7 * SECOND);
    let item = bench.store.item("a").unwrap();
    assert_eq!(item.status, Status::InProgress);
    assert_eq!(item.lease_until, Some(lease_until));

    sleep((7 + 9 + 1) * SECOND).await;
    assert!(bench.once(&idempotency, ok).await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_key_claimed_too_late_to_start_is_given_up_at_once() {
    let (bench, idempotency) = setup();
    let time = bench.timeout - SECOND;
    bench.store.claims_take(move |_| time);
    let late = bench.once(&idempotency, never).await;
    assert!(matches!(late, Err(RunError::NotStarted)));
    assert_eq!(bench.store.take_calls(), [("claim", 1), ("settle", 1)]);
    assert!(bench.store.is_released("a"));
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_another_overtook_has_its_value_only_if_that_one_completed_and_undoes_nothing()
 {
    for completes in [false, true] {
        let (bench, idempotency) = setup();
        let overtaken = bench.once(&idempotency, || {
            bench.store.change("a", |item| {
                item.owner = Some(Owner::from_bits(7));
                if completes {
                    item.status = Status::Completed;
                    item.data = Some(r#"{"number":"theirs"}"#.into());
                }
            });
            ok()
        });
        let overtaken = overtaken.await;
        if completes {
            assert_eq!(overtaken.unwrap(), processed());
            let lines = bench.log.take("sqs_once::run");
            assert_eq!(lines[0]["level"], "WARN");
            assert_contains!(lines[0]["message"], "may have happened twice");
            continue;
        }
        assert!(matches!(overtaken, Err(RunError::LeaseLost)));
        let item = bench.store.item("a").unwrap();
        assert_eq!(item.status, Status::InProgress);
        assert_eq!(item.owner, Some(Owner::from_bits(7)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_value_that_cannot_be_read_never_makes_the_work_run_again() {
    let (bench, idempotency) = setup();
    let invocation = idempotency.until(bench.deadline());
    let text = || ready(Ok::<_, HandlerError>("secret".to_owned()));
    let _ = invocation.run("a", text).await.unwrap();
    bench.log.take("sqs_once::run");
    let retyped = invocation.run("a", never).await.unwrap();
    assert_eq!(retyped, Once::Duplicate(None));
    let lines = bench.log.take("sqs_once::run");
    assert_eq!(lines[0]["level"], "WARN");
    assert!(!format!("{lines:?}").contains("secret"), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn every_run_is_one_line_in_the_log_without_its_key() {
    let (bench, idempotency) = setup();
    let invocation = idempotency.until(bench.deadline());
    let _ = invocation.run("customer-7", ok).await;
    let _ = invocation.run("customer-7", never).await;
    let _ = invocation.run("customer-8", failing).await;
    assert!(!bench.log.all().contains("customer"));
    let lines = bench.log.take("sqs_once::run");
    let told = lines.iter();
    let told = told.map(|line| format!("{} {}", line["level"], line["outcome"]));
    let expected = ["INFO processed", "INFO duplicate", "WARN failed"];
    assert!(told.eq(expected), "{lines:?}");
    assert_eq!(lines[2]["reason"], "card refused");
    assert_eq!(lines[0]["key"], lines[1]["key"]);
}
