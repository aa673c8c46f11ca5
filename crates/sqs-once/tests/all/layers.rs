//! Layers: functions around the handler of a record.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::json;
use sqs_once::extract::{RecordEnd, RecordParts};
use sqs_once::handler::{ClaimFirst, Done, Next};
use sqs_once::policy::MissingKey;
use sqs_once::store::Status;
use sqs_once::testing::{Answer, Bench, Event, Record};
use sqs_once::{Completion, Handler, HandlerError, ResultExt, Router, Writes};
use tokio::time::{sleep, timeout};

use crate::support::{Notes, Order, SECOND, named, orders, values};

fn event(ids: &[&str]) -> Event {
    Event::new(ids.iter().map(named))
}

/// Delivers this order to this handler. Returns the answer and the bench.
async fn delivered(handler: Handler, id: &str) -> (Answer, Bench) {
    let bench = Bench::new(handler);
    (bench.run(event(&[id])).await, bench)
}

/// Orders end as their ids ask for, and note it.
fn noting(done: &Notes<String>) -> Handler {
    crate::router::noting("handled", done)
}

type Outcome = Result<Done, HandlerError>;

fn around(
    name: &'static str,
    done: &Notes<String>,
) -> impl Fn(RecordParts, Next) -> BoxFuture<'static, Outcome> + use<> {
    let done = done.clone();
    move |_, next| {
        let done = done.clone();
        Box::pin(async move {
            done.add(format!("{name} begins"));
            let outcome = next.run().await;
            let failed = outcome.as_ref().err().map(ToString::to_string);
            done.add(format!("{name} ends {}", failed.unwrap_or_default()));
            outcome
        })
    }
}

async fn skipped(_: RecordParts, _: Next) -> Outcome {
    Ok(Done::default())
}

/// A message for the route of orders.
fn routed() -> Record {
    named("o-1").attribute("type", "order")
}

async fn assert_not_completed(bench: &Bench, id: &str) {
    let item = bench.item(id).await;
    assert!(item.is_none_or(|item| item.status != Status::Completed));
}

#[tokio::test(start_paused = true)]
async fn layers_run_around_the_handler_those_of_a_router_outside_and_the_first_one_first() {
    let done = Notes::default();
    let alone = noting(&done)
        .layer(around("outer", &done))
        .layer(around("inner", &done));
    let route = noting(&done).layer(around("inner", &done));
    let routes = Router::by_attribute("type")
        .defaults(Handler::defaults().layer(around("outer", &done)))
        .route("order", route);
    for bench in [Bench::new(alone), Bench::new(routes)] {
        let event = Event::new([routed()]);
        bench.run(&event).await.assert_processed("o-1");
        let expected = "outer begins, inner begins, handled o-1, inner ends , outer ends ";
        assert_eq!(done.take().join(", "), expected);
        // A duplicate needs no claim, so that no layer runs.
        bench.run(&event).await.assert_duplicate("o-1");
        assert_eq!(done.len(), 0);
    }
    // A record without a key runs inside the layers, too.
    let keyless = values().call(async |_: serde_json::Value| {});
    let keyless = keyless.missing_key(MissingKey::ProcessUnprotected);
    let bench = Bench::new(keyless.layer(around("layer", &done)));
    let event = Event::new([Record::json(&json!({ "no": "id" }))]);
    bench.run(event).await.assert_processed("m-1");
    assert_eq!(done.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_layer_may_end_the_record_instead_of_the_handler() {
    let done = Notes::default();
    let retry = async |_: RecordParts, _: Next| Err("over the limit").retry_after(7 * SECOND);
    let (answer, retrying) = delivered(noting(&done).layer(retry), "o-1").await;
    answer.assert_failed("o-1");
    answer.assert_reason("o-1", "over the limit");
    assert_eq!(answer.delay("o-1"), Some(7 * SECOND));
    let item = retrying.item("o-1").await.unwrap();
    assert_eq!(item.status, Status::InProgress);

    let terminal = async |_: RecordParts, _: Next| Err(HandlerError::terminal("not allowed"));
    let (answer, _) = delivered(noting(&done).layer(terminal), "o-1").await;
    answer.assert_terminal("o-1");

    let (answer, skipping) = delivered(noting(&done).layer(skipped), "o-1").await;
    answer.assert_processed("o-1");
    skipping.run(event(&["o-1"])).await.assert_duplicate("o-1");
    assert_eq!(done.len(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_layer_may_change_what_follows_the_handlers_outcome() {
    let done = Notes::default();
    let forgiving = async |_: RecordParts, next: Next| -> Outcome {
        next.run().await.or_else(|_| Ok(Done::default()))
    };
    let (answer, _) = delivered(noting(&done).layer(forgiving), "bad-1").await;
    answer.assert_processed("bad-1");
    let strict = async |_: RecordParts, next: Next| -> Outcome {
        let _ = next.run().await?;
        Err("the effect can't be seen".into())
    };
    let (answer, bench) = delivered(noting(&done).layer(strict), "o-1").await;
    answer.assert_failed("o-1");
    bench.run(event(&["o-1"])).await.assert_failed("o-1");
    assert_eq!(done.take().len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_layer_sees_message_key_attempt_token_and_route() {
    let (seen, notes) = Notes::pair();
    let layer = move |record: RecordParts, next: Next| {
        let _ = record.token();
        let id = record.item_id().to_string();
        let route = record.route().map(str::to_owned);
        let message = record.message().id().to_owned();
        notes.add((message, id, record.attempt().receive_count(), route));
        next.run()
    };
    let routes = Router::by_attribute("type")
        .defaults(Handler::defaults().layer(layer))
        .route("order", noting(&Notes::default()));
    let bench = Bench::new(routes);
    let event = Event::new([routed().receive_count(3)]);
    bench.run(event).await.assert_all_acknowledged();
    let id = bench.item("o-1").await.unwrap().id.to_string();
    let expected = ("o-1".to_owned(), id, 3, Some("order".to_owned()));
    assert_eq!(seen.take(), [expected]);
}

#[tokio::test(start_paused = true)]
async fn a_layers_time_is_the_handlers_and_its_panic_fails_its_record_alone() {
    let done = Notes::default();
    let slow = async |record: RecordParts, next: Next| -> Outcome {
        match record.message().id() {
            "slow" => sleep(Duration::from_secs(3600)).await,
            "panic" => panic!("a layer's own"),
            _ => {}
        }
        next.run().await
    };
    let bench = Bench::new(noting(&done).layer(slow).attempt_timeout(SECOND));
    let answer = bench.run(event(&["slow", "panic", "o-1"])).await;
    answer.assert_retried(["slow", "panic"]);
    answer.assert_reason("slow", "longer than 1s");
    answer.assert_reason("panic", "a layer's own");
    assert_eq!(done.take(), ["handled o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_a_layer_drops_keeps_its_claim_because_its_effect_may_be_in_flight() {
    let impatient = async |record: RecordParts, next: Next| -> Outcome {
        let mut running = pin!(next.run());
        let timed_out = timeout(SECOND, &mut running).await;
        match (timed_out, record.message().id()) {
            (Ok(outcome), _) => outcome,
            (Err(_), "ok") => Ok(Done::default()),
            (Err(_), "panic") => panic!("a layer's own"),
            (Err(_), "terminal") => Err(HandlerError::terminal("too slow")),
            (Err(_), _) => Err(HandlerError::retry("too slow")),
        }
    };
    let slow = orders().call(async |_: Order| sleep(10 * SECOND).await);
    let backoff = SECOND..=SECOND;
    let bench = Bench::new(slow.layer(impatient).backoff(backoff));
    let all = ["ok", "retry", "terminal", "panic"];
    let answer = bench.run(event(&all)).await;
    answer.assert_retried(all);
    let ends = all.map(|id| format!("{}: {}", answer.outcome(id), answer.code(id).unwrap()));
    let expected = [
        "failed: handler-dropped",
        "failed: handler-error",
        "terminal: handler-error",
        "failed: handler-panicked",
    ];
    assert_eq!(ends, expected);
    answer.assert_reason("ok", "a layer dropped its handler while it ran");
    answer.assert_reason("retry", "too slow");
    for id in all {
        let item = bench.item(id).await.unwrap();
        assert_eq!(item.status, Status::InProgress, "{id}");
        let left = item.lease_until.unwrap().since(bench.clock().now());
        assert!(!left.is_zero(), "{id}");
        let delay = answer.delay(id);
        assert!(id == "terminal" || delay.unwrap() >= left, "{id} {delay:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_handler_does_not_start_after_its_record_has_ended() {
    let done = Notes::default();
    let elsewhere = async |_: RecordParts, next: Next| -> Outcome {
        tokio::spawn(next.run());
        Ok(Done::default())
    };
    let (answer, _bench) = delivered(noting(&done).layer(elsewhere), "o-1").await;
    answer.assert_processed("o-1");
    sleep(SECOND).await;
    assert_eq!(done.take(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_layer_that_catches_a_panic_decides_how_its_record_ends() {
    let catching = async |_: RecordParts, next: Next| -> Outcome {
        let caught = AssertUnwindSafe(next.run()).catch_unwind().await;
        caught.unwrap_or_else(|_| Err(HandlerError::retry("caught")))
    };
    let panicking = orders().call(async |_: Order| -> () { panic!("no luck") });
    let (answer, bench) = delivered(panicking.layer(catching), "o-1").await;
    answer.assert_failed("o-1").assert_reason("o-1", "caught");
    let item = bench.item("o-1").await.unwrap();
    assert!(item.lease_until.unwrap() < bench.clock().now(), "{item:?}");
}

#[tokio::test(start_paused = true)]
async fn what_a_handler_records_or_writes_passes_through_its_layers() {
    let passing = |_: RecordParts, next: Next| next.run();
    let (recorded, notes) = Notes::pair();
    let receipts = orders().call(async |order: Order| Completion(order.id));
    let noting = notes.of(|end: RecordEnd| end.completion::<String>().unwrap());
    delivered(receipts.layer(passing).on_done(noting), "o-1").await;
    assert_eq!(recorded.take(), [Some("o-1".to_owned())]);

    let write = async |order: Order| Writes::new().completion(&order.id);
    for writing in [orders().call(write), orders().call(ClaimFirst(write))] {
        for handler in [writing.clone().layer(passing), writing.layer(skipped)] {
            let (answer, bench) = delivered(handler, "o-1").await;
            answer.assert_processed("o-1");
            bench.run(event(&["o-1"])).await.assert_duplicate("o-1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_whose_writes_a_layer_drops_fails() {
    let dropping = async |_: RecordParts, next: Next| -> Outcome {
        let _ = next.run().await?;
        Ok(Done::default())
    };
    let write = async |_: Order| Writes::new();
    for writing in [orders().call(write), orders().call(ClaimFirst(write))] {
        let handler = writing.layer(around("outer", &Notes::default()));
        let (answer, bench) = delivered(handler.layer(dropping), "o-1").await;
        let why = "a layer dropped the handler's writes";
        answer.assert_failed("o-1").assert_reason("o-1", why);
        assert_not_completed(&bench, "o-1").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_success_completes_no_other_message() {
    let put = async |order: Order| Writes::new().put("effects", &json!({ "id": order.id }));
    let plain = orders().call(async |_: Order| {});
    let claimed = orders().call(ClaimFirst(put));
    for handler in [orders().call(put), claimed, plain] {
        for carry in [Carry::Success, Carry::SuccessOverOwn, Carry::Next] {
            let (_, bench) = delivered(handler.clone().layer(carrying(carry)), "o-1").await;
            let written = bench.store().writes().len();
            let answer = bench.run(event(&["o-2"])).await;
            let why = match carry {
                Carry::Next => "after its message had ended",
                Carry::Success | Carry::SuccessOverOwn => "the success of another call",
            };
            answer.assert_failed("o-2").assert_reason("o-2", why);
            assert_eq!(bench.store().writes().len(), written, "{carry:?}");
            assert_not_completed(&bench, "o-2").await;
        }
    }
}

/// What a layer takes from the message before.
#[derive(Clone, Copy, Debug)]
enum Carry {
    Success,
    SuccessOverOwn,
    Next,
}

fn carrying(carry: Carry) -> impl Fn(RecordParts, Next) -> BoxFuture<'static, Outcome> + use<> {
    let (success, rest) = (Arc::new(Mutex::new(None)), Arc::new(Mutex::new(None)));
    move |_, next| {
        let (success, rest) = (Arc::clone(&success), Arc::clone(&rest));
        Box::pin(async move {
            if let Carry::Next = carry {
                let before: Option<Next> = rest.lock().unwrap().replace(next);
                return match before {
                    Some(before) => before.run().await,
                    None => Ok(Done::default()),
                };
            }
            if let Carry::Success = carry
                && let Some(before) = success.lock().unwrap().take()
            {
                return Ok(before);
            }
            let own = next.run().await?;
            let before: Option<Done> = success.lock().unwrap().replace(own);
            Ok(before.unwrap_or_default())
        })
    }
}
