//! A router: one consumer for several kinds of messages.

use std::time::Duration;

use lambda_runtime::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::body::{EventBridge, Sns};
use sqs_once::consumer::{Routes, Runnable};
use sqs_once::extract::EventBridgeMeta;
use sqs_once::key::{KeyCodec, Namespace};
use sqs_once::policy::{Backoff, Dependency, InProgress, MissingKey, Mode, RouteBy, Unrouted};
use sqs_once::store::{Status, StoreErrorKind};
use sqs_once::testing::{Bench, Event, Operation, Record, TestSettings};
use sqs_once::{
    Batch, Consumer, HandlerError, IdempotencyToken, MemoryStore, Recorded, ResultExt, State,
    Writes, consumer, router,
};
use tokio::time::sleep;

use crate::support;
use crate::support::database::{Database, Ledger};
use crate::support::stores::Altered;
use crate::support::{
    AtOnce, Log, Notes, Order, SECOND, assert_contains, invoke, json_body, orders, values,
};

#[derive(Deserialize)]
struct Refund {
    id: String,
    cents: u64,
}

type Done = Notes<String>;

/// Notes `what` and the order's id. Orders end as their ids ask for.
fn noting(what: &'static str, done: &Done) -> Consumer {
    let done = done.clone();
    orders()
        .handler(move |order: Order| {
            let done = done.clone();
            async move {
                done.add(format!("{what} {}", order.id));
                order.obey().await
            }
        })
        .namespace(what)
}

fn refunding(done: &Done) -> Consumer {
    let done = done.clone();
    consumer::<Refund>()
        .key(|refund: &Refund| refund.id.clone())
        .handler(move |refund: Refund| {
            done.add(format!("refund {} of {}", refund.cents, refund.id));
            async {}
        })
        .namespace("refund")
}

fn by_type() -> Consumer<Routes> {
    router(RouteBy::attribute("type"))
}

fn charges_and_refunds(done: &Done) -> Consumer<Routes> {
    by_type()
        .route("charge", noting("charge", done))
        .route("refund", refunding(done))
}

fn of_type(kind: &str, body: &Value) -> Record {
    Record::json(body).attribute("type", kind)
}

fn order(kind: &str, id: &str) -> Record {
    of_type(kind, &json!({ "id": id })).message_id(id)
}

fn refund(id: &str, cents: u64) -> Record {
    of_type("refund", &json!({ "id": id, "cents": cents })).message_id(id)
}

#[tokio::test(start_paused = true)]
async fn each_message_goes_to_the_route_of_its_type_with_a_payload_type_of_its_own() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let event = Event::new([
        order("charge", "o-1"),
        refund("r-1", 500),
        order("charge", "o-2"),
    ]);
    bench.run(event).await.assert_all_acknowledged();
    let mut done = done.take();
    done.sort();
    assert_eq!(done, ["charge o-1", "charge o-2", "refund 500 of r-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_key_is_a_duplicate_only_within_its_route() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let charge = || order("charge", "o-1").message_id("m-1");
    let refund = || refund("o-1", 500).message_id("m-2");
    let answer = bench
        .run(Event::new([charge(), refund(), charge().message_id("m-3")]))
        .await;
    answer.assert_processed("m-1").assert_processed("m-2");
    answer.assert_duplicate("m-3").assert_all_acknowledged();
    let answer = bench.run(Event::new([refund(), charge()])).await;
    answer.assert_duplicate("m-1").assert_duplicate("m-2");
    assert_eq!(done.len(), 2);
}

#[tokio::test(start_paused = true)]
async fn routes_keep_the_order_of_a_fifo_group_and_stop_it_at_the_first_failure() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let event = Event::new([
        order("charge", "o-1").fifo("a"),
        refund("r-1", 1).fifo("a"),
        order("charge", "o-2").fifo("b"),
        order("charge", "bad-1").fifo("a"),
        refund("r-2", 2).fifo("a"),
        refund("r-3", 3).fifo("b"),
    ]);
    bench.run(event).await.assert_retried(["bad-1", "r-2"]);
    let done = done.take();
    let of_a: Vec<_> = done
        .iter()
        .filter(|one| !one.contains("-2") && !one.contains("-3"))
        .collect();
    assert_eq!(of_a, ["charge o-1", "refund 1 of r-1", "charge bad-1"]);
    assert_eq!(done.len(), 5);
}

/// The most handlers at once, of forty orders that two routes share.
async fn most_at_once(
    set: impl Fn(Consumer) -> Consumer,
    set_router: impl Fn(Consumer<Routes>) -> Consumer<Routes>,
) -> usize {
    let at_once = AtOnce::default();
    let route = |namespace: &str| {
        let at_once = at_once.clone();
        let consumer = orders().handler(move |_: Order| {
            let at_once = at_once.clone();
            async move {
                let _counted = at_once.enter();
                sleep(SECOND).await;
            }
        });
        set(consumer.namespace(namespace))
    };
    let routes = by_type().route("a", route("a")).route("b", route("b"));
    let bench = Bench::new(set_router(routes)).timeout(90 * SECOND);
    let record = |at: usize| order(["a", "b"][at % 2], &format!("o-{at}"));
    let answer = bench.run(Event::new((0..40).map(record))).await;
    answer.assert_all_acknowledged();
    at_once.most()
}

#[tokio::test(start_paused = true)]
async fn routes_share_the_concurrency() {
    assert_eq!(most_at_once(|it| it, |it| it.concurrency(4)).await, 4);
}

#[tokio::test(start_paused = true)]
async fn routes_share_the_limit_of_calls_to_a_dependency() {
    let payments = || Dependency::new("payments").max_in_flight(3);
    assert_eq!(
        most_at_once(|it| it.depends_on(payments()), |it| it).await,
        3
    );
}

#[tokio::test(start_paused = true)]
async fn transactions_that_wait_for_a_dependency_leave_connections_to_other_routes() {
    let ran = Notes::default();
    let route = |name: &'static str| {
        let ran = ran.clone();
        orders()
            .namespace(name)
            .handler(move |_: Order, _: Ledger| {
                let ran = ran.clone();
                async move {
                    sleep(SECOND).await;
                    ran.add(name);
                }
            })
    };
    let payments = Dependency::new("payments").max_in_flight(1);
    let routes = by_type()
        .route("charge", route("charge").depends_on(payments))
        .route("notify", route("notify"))
        .store(Database::beside(&support::TestStore::default()));
    let charges = (0..15).map(|at| order("charge", &format!("o-{at}")));
    let event = Event::new(charges.chain([order("notify", "n-1")]));
    invoke(&routes.into_consumer(), &event, Context::default()).await;
    let ran = ran.take();
    assert_eq!((ran.len(), ran[1]), (16, "notify"));
}

#[tokio::test(start_paused = true)]
async fn claims_and_completions_of_routes_share_their_requests() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done).concurrency(20));
    let records = (0..20).map(|at| match at % 2 {
        0 => order("charge", &format!("o-{at}")),
        _ => refund(&format!("r-{at}"), 1),
    });
    bench
        .run(Event::new(records))
        .await
        .assert_all_acknowledged();
    assert_eq!(bench.store().requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_route_is_terminal_and_the_others_continue() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let event = Event::new([
        order("cancel", "o-1"),
        Record::json(&json!({ "id": "o-2" })).message_id("o-2"),
        order("charge", "o-3"),
    ]);
    let answer = bench.run(event).await;
    answer
        .assert_terminal("o-1")
        .assert_terminal("o-2")
        .assert_processed("o-3");
    answer.assert_reason(
        "o-1",
        "no route takes it: its message attribute \"type\" names none of them",
    );
    answer.assert_reason(
        "o-2",
        "no route takes it: it has no message attribute \"type\"",
    );
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_route_may_return_or_go_to_the_fallback() {
    let done = Done::default();
    let strange = || Event::new([order("cancel", "o-1")]);
    let retrying = charges_and_refunds(&done).unrouted(Unrouted::Retry);
    Bench::new(retrying)
        .run(strange())
        .await
        .assert_failed("o-1");
    let others = charges_and_refunds(&done).fallback(noting("other", &done));
    let bench = Bench::new(others);
    bench.run(strange()).await.assert_processed("o-1");
    bench.run(strange()).await.assert_duplicate("o-1");
    assert_eq!(done.take(), ["other o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_failed_message_without_a_route_calls_the_hook_of_the_router() {
    let (failures, done) = (Notes::default(), Done::default());
    let noted = failures.clone();
    let routes = charges_and_refunds(&done).on_failure(move |end| {
        noted.add(end.message().id().to_owned());
        async { Ok(()) }
    });
    let event = Event::new([order("cancel", "o-1"), order("charge", "bad-1")]);
    Bench::new(routes).run(event).await;
    let mut failures = failures.take();
    failures.sort();
    assert_eq!(failures, ["bad-1", "o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_is_chosen_by_a_field_or_by_a_function() {
    for by in [
        RouteBy::field("/meta/kind"),
        RouteBy::function(|message| Some(message.content()?.split('"').nth(9)?.to_owned())),
    ] {
        let done = Done::default();
        let routes = router(by).route("charge", noting("charge", &done));
        let bench = Bench::new(routes.route("7", noting("seven", &done)));
        let charge = Record::text(r#"{"id":"o-1","meta":{"kind":"charge"}}"#);
        bench.run(Event::new([charge])).await;
        let other = Record::json(&json!({ "id": "o-2", "meta": { "kind": "none" } }));
        bench.run(Event::new([other])).await.assert_terminal("m-1");
        assert_eq!(done.take().len(), 1);
    }
    let done = Done::default();
    let bench = Bench::new(router(RouteBy::field("/kind")).route("7", noting("seven", &done)));
    let seven = Record::json(&json!({ "id": "o-1", "kind": 7 }));
    let event = Event::new([seven, Record::text("no JSON")]);
    let answer = bench.run(event).await;
    answer.assert_processed("m-1").assert_terminal("m-2");
}

#[tokio::test(start_paused = true)]
async fn a_route_is_chosen_by_the_detail_type_and_sees_what_is_inside_the_event() {
    let (done, types) = (Done::default(), Notes::default());
    let noted = types.clone();
    let placed =
        orders()
            .envelope(EventBridge)
            .handler(move |order: Order, event: EventBridgeMeta| {
                noted.add((order.id, event.detail_type));
                async {}
            });
    let routes = router(RouteBy::detail_type())
        .route("OrderPlaced", placed.namespace("placed"))
        .route("OrderCancelled", noting("cancel", &done));
    let event = |kind: &str, id: &str| {
        let detail = json!({ "id": id });
        Record::json(&json!({
            "id": "e-1", "source": "shop", "detail-type": kind, "detail": detail, "account": "1",
            "time": "2026-01-01T00:00:00Z", "region": "eu-central-1", "resources": [], "version": "0",
        }))
    };
    let bench = Bench::new(routes);
    let answer = bench
        .run(Event::new([
            event("OrderPlaced", "o-1"),
            event("OrderCancelled", "o-2"),
            event("?", "o-3"),
        ]))
        .await;
    answer.assert_retried(["m-3"]).assert_terminal("m-3");
    assert_eq!(
        types.take(),
        [("o-1".to_owned(), Some("OrderPlaced".to_owned()))]
    );
    assert_eq!(done.take(), ["cancel o-2"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_is_chosen_by_an_attribute_that_sns_delivers_in_its_envelope() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done).envelope(Sns));
    let message = json!({
        "Type": "Notification", "MessageId": "n-1", "TopicArn": "arn:aws:sns:eu-central-1:1:orders",
        "Message": r#"{"id":"o-1"}"#, "Timestamp": "2026-01-01T00:00:00Z",
        "MessageAttributes": { "type": { "Type": "String", "Value": "charge" } },
    });
    bench
        .run(Event::new([Record::json(&message)]))
        .await
        .assert_all_acknowledged();
    assert_eq!(done.take(), ["charge o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_function_that_panics_makes_its_record_terminal() {
    let done = Done::default();
    let by = RouteBy::function(|message| {
        assert_ne!(message.id(), "o-1", "canary");
        Some("charge".to_owned())
    });
    let bench = Bench::new(router(by).route("charge", noting("charge", &done)));
    let event = Event::new([order("", "o-1"), order("", "o-2")]);
    let answer = bench.run(event).await;
    answer.assert_terminal("o-1").assert_processed("o-2");
}

#[tokio::test(start_paused = true)]
async fn a_route_takes_from_its_router_what_it_does_not_set() {
    let done = Done::default();
    let keyless = || {
        let consumer = values().handler(async |_: Value| {});
        consumer.namespace("keyless")
    };
    let record = || Event::new([of_type("keyless", &json!({ "no": "id" }))]);
    let routes = by_type()
        .route("keyless", keyless())
        .missing_key(MissingKey::Retry);
    let answer = Bench::new(routes).run(record()).await;
    answer.assert_failed("m-1");
    let own = keyless().missing_key(MissingKey::ProcessUnprotected);
    let routes = by_type()
        .route("keyless", own)
        .missing_key(MissingKey::Retry);
    Bench::new(routes)
        .run(record())
        .await
        .assert_processed("m-1");

    let slow = orders().handler(async |_: Order| sleep(20 * SECOND).await);
    let routes = by_type()
        .route("slow", slow.namespace("slow").record_timeout(SECOND))
        .route(
            "slower",
            orders()
                .handler(async |_: Order| sleep(3 * SECOND).await)
                .namespace("slower"),
        )
        .route("charge", noting("charge", &done))
        .record_timeout(5 * SECOND);
    let event = Event::new([
        order("slow", "o-1"),
        order("slower", "o-2"),
        order("charge", "o-3"),
    ]);
    let answer = Bench::new(routes).run(event).await;
    answer
        .assert_reason("o-1", "longer than 1s")
        .assert_retried(["o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_may_hide_keys_that_its_router_shows() {
    let done = Done::default();
    let routes = by_type()
        .route("charge", noting("charge", &done).readable_keys(false))
        .route("ship", noting("ship", &done))
        .readable_keys(true);
    let bench = Bench::new(routes);
    bench
        .run(Event::new([order("charge", "o-1"), order("ship", "o-1")]))
        .await;
    for (route, is_shown) in [("charge", false), ("ship", true)] {
        let item = bench.in_route(route).item("o-1").await.unwrap();
        assert_eq!(
            item.id.as_str().ends_with("#s:o-1"),
            is_shown,
            "{}",
            item.id
        );
    }
}

#[tokio::test(start_paused = true)]
async fn routes_with_each_mode_work_in_one_batch() {
    let done = Done::default();
    let writing = orders().handler(async |order: Order| match order.id.as_str() {
        "refused" => Err(HandlerError::terminal("no")),
        _ => Ok(Writes::new().recording(&order.id)),
    });
    let routes = charges_and_refunds(&done)
        .route("writes", writing.namespace("writes"))
        .route("after", noting("after", &done).mode(Mode::RecordAfter));
    let bench = Bench::new(routes.concurrency(3));
    let kinds = ["charge", "writes", "after"];
    let event = || Event::new((0..60).map(|at| order(kinds[at % 3], &format!("o-{at}"))));
    let answer = bench.run(event()).await;
    answer.assert_all_acknowledged();
    assert_eq!(done.take().len(), 40);
    let answer = bench.run(event()).await;
    for at in 0..60 {
        answer.assert_duplicate(&format!("o-{at}"));
    }
    assert_eq!(done.take().len(), 0);
    let refused = bench.run(Event::new([order("writes", "refused")])).await;
    refused.assert_terminal("refused");
}

#[tokio::test(start_paused = true)]
async fn a_granted_claim_waits_for_no_lookup_of_another_route() {
    let done = Done::default();
    let routes = router(RouteBy::field("/type"))
        .route("charge", noting("charge", &done))
        .route("after", noting("after", &done).mode(Mode::RecordAfter));
    let silent = Altered::new(MemoryStore::new()).reads_take(|_| Duration::MAX);
    let bench = crate::support::Bench::new();
    let consumer = routes.store(silent).clock(bench.clock.clone());
    let record = |kind: &str| json_body(&json!({ "type": kind, "id": "o-1" }));
    let records = [record("after"), record("charge")];
    let retried = bench.deliver(&consumer.into_consumer(), records).await;
    assert_eq!(retried, ["m-0"]);
    assert_eq!(done.take(), ["charge o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_and_a_crash_leave_each_route_to_its_next_delivery() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let event = || Event::new([order("charge", "o-1"), refund("r-1", 1)]);
    bench.store().lose_answers(Operation::Claim, 1);
    bench.store().lose_answers(Operation::Complete, 1);
    bench.run(event()).await.assert_all_acknowledged();
    assert_eq!(done.take().len(), 2);
    bench
        .store()
        .fail(Operation::Claim, StoreErrorKind::AccessDenied, 1);
    let other = Event::new([order("charge", "o-2"), refund("r-2", 1)]);
    bench.run(&other).await.assert_retried(["o-2", "r-2"]);
    bench.run_and_crash(&other).await;
    bench.run(&other).await.assert_in_progress("o-2");
    bench.clock().advance(40 * SECOND);
    bench.run(&other).await.assert_all_acknowledged();
}

#[tokio::test(start_paused = true)]
async fn a_bench_takes_keys_of_the_route_that_it_is_told() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    bench.in_route("refund").another_worker_claims("o-1").await;
    let event = Event::new([
        order("charge", "o-1").message_id("m-1"),
        refund("o-1", 1).message_id("m-2"),
    ]);
    let answer = bench.run(event).await;
    answer.assert_processed("m-1").assert_in_progress("m-2");
    let item = bench.in_route("charge").item("o-1").await;
    assert_eq!(item.unwrap().status, Status::Completed);
}

#[tokio::test(start_paused = true)]
async fn waiting_for_another_worker_is_a_policy_of_its_route() {
    let done = Done::default();
    let routes = by_type()
        .route(
            "charge",
            noting("charge", &done).in_progress(InProgress::Wait(5 * SECOND)),
        )
        .route("refund", refunding(&done));
    let bench = Bench::new(routes);
    bench.in_route("charge").another_worker_claims("o-1").await;
    bench.in_route("refund").another_worker_claims("r-1").await;
    let began = tokio::time::Instant::now();
    let answer = bench
        .run(Event::new([order("charge", "o-1"), refund("r-1", 1)]))
        .await;
    answer.assert_in_progress("o-1").assert_in_progress("r-1");
    assert!(began.elapsed() >= 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_route_backs_off_as_it_says_or_as_its_router_does() {
    let after = |seconds| Backoff::exponential(seconds * SECOND, seconds * SECOND);
    let done = Done::default();
    let bench = Bench::new(
        by_type()
            .route("charge", noting("charge", &done).backoff(after(7)))
            .route("ship", noting("ship", &done))
            .unrouted(Unrouted::Retry)
            .backoff(after(60)),
    );
    let answer = bench
        .run(Event::new([
            order("charge", "bad-1"),
            order("ship", "bad-2"),
            order("unknown", "bad-3"),
        ]))
        .await;
    answer.assert_retried(["bad-1", "bad-2", "bad-3"]);
    for (id, delay) in [("bad-1", 7), ("bad-2", 60), ("bad-3", 60)] {
        assert_eq!(answer.delay(id), Some(delay * SECOND), "{id}");
    }
    let own = by_type().route("charge", noting("charge", &done).backoff(after(7)));
    let bench = Bench::new(own);
    let answer = bench.run(Event::new([order("charge", "bad-4")])).await;
    assert_eq!(answer.delay("bad-4"), Some(7 * SECOND));
    let never = by_type().route("charge", noting("charge", &done).backoff(after(0)));
    let never = never.store(MemoryStore::new()).into_consumer();
    let error = never.init().await.unwrap_err().to_string();
    assert_contains!(error, "the setting `backoff` of the route \"charge\"");
}

#[tokio::test(start_paused = true)]
async fn an_open_breaker_returns_the_records_of_the_routes_that_depend_on_it_and_no_others() {
    let (done, calls) = (Done::default(), AtOnce::default());
    let paying = orders().handler(move |_: Order| {
        let _counted = calls.enter();
        async { Err::<(), _>("no answer").unavailable("payments") }
    });
    let paying = paying.namespace("pay").depends_on("payments");
    let routes = charges_and_refunds(&done).route("pay", paying);
    let bench = Bench::new(routes.concurrency(1).max_receive_count(5));
    let record = |at: usize| order(["pay", "charge"][at % 2], &format!("o-{at}"));
    let answer = bench.run(Event::new((0..40).map(record))).await;
    assert_eq!(answer.retried().len(), 20);
    answer.assert_reason("o-38", "unavailable: payments: its breaker is open");
    assert_eq!(done.take().len(), 20);
    // After the pause, one record is tried, and the other route does not wait for it.
    bench.clock().advance(31 * SECOND);
    let again = Event::new((40..80).map(record));
    let answer = bench.run(again).await;
    assert_eq!((answer.retried().len(), done.take().len()), (20, 20));
}

#[tokio::test(start_paused = true)]
async fn a_log_line_names_the_route_of_its_record() {
    let done = Done::default();
    let log = Log::capture();
    let bench = Bench::new(charges_and_refunds(&done));
    bench
        .run(Event::new([order("charge", "o-1"), order("cancel", "o-2")]))
        .await;
    let lines = log.take("sqs_once::record");
    let line = |id: &str| lines.iter().find(|line| line["message_id"] == id).unwrap();
    assert_eq!(line("o-1")["route"], "charge");
    assert!(line("o-2").get("route").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_handler_in_a_route_gets_its_state_its_token_and_its_hooks() {
    let (tokens, notes) = Notes::pair();
    let handler = async |_: Order, State(notes): State<Notes<String>>, token: IdempotencyToken| {
        notes.add(token.to_string());
        Recorded("kept")
    };
    let recorded = Notes::default();
    let seen = recorded.clone();
    let charging = orders().state(notes).handler(handler).namespace("charge");
    let charging = charging.on_success(move |end| {
        seen.add(end.recorded::<String>().unwrap());
        async { Ok(()) }
    });
    let alone = Bench::new(charging.clone());
    let routed = Bench::new(by_type().route("charge", charging));
    for bench in [alone, routed] {
        bench
            .run(Event::new([order("charge", "o-1")]))
            .await
            .assert_all_acknowledged();
    }
    let tokens = tokens.take();
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(
        recorded.take(),
        [Some("kept".to_owned()), Some("kept".to_owned())]
    );
}

#[tokio::test]
async fn a_router_that_can_t_work_refuses_to_start() {
    let done = Done::default();
    let charging = || noting("charge", &done);
    let batching = orders().batch_handler(async |orders: Batch<Order>| orders.all_succeeded());
    let writing = orders().handler(async |_: Order| Writes::new());
    let by_field = router(RouteBy::field("type"));
    let twice = |outage: u32| Dependency::new("payments").outage(SECOND * outage);
    for (routes, expected) in [
        (by_type(), "the router has no routes"),
        (
            by_type().route("", charging()),
            "the router has a route without a name",
        ),
        (
            by_type()
                .route("a", charging())
                .route("a", refunding(&done)),
            "the router has two routes with the name \"a\"",
        ),
        (
            by_type().route("a", charging()).route("b", charging()),
            "for two routes, \"a\" and \"b\"",
        ),
        // Each would acknowledge the other's messages.
        (
            by_type()
                .route(
                    "a",
                    charging().also_read(Namespace::new("payments").unwrap()),
                )
                .route(
                    "b",
                    refunding(&done).also_read(Namespace::new("payments").unwrap()),
                ),
            "the setting `namespace` is \"payments\" for two routes, \"a\" and \"b\"",
        ),
        (
            by_type()
                .route("a", charging().namespace("payments"))
                .route(
                    "b",
                    refunding(&done).also_read(Namespace::new("payments").unwrap()),
                ),
            "the setting `namespace` is \"payments\" for two routes, \"a\" and \"b\"",
        ),
        // The codecs of two languages share the ids of integers.
        (
            by_type()
                .route(
                    "a",
                    charging().also_read(KeyCodec::powertools_python("fn.handle")),
                )
                .route(
                    "b",
                    refunding(&done).key_codec(KeyCodec::powertools_java("fn.handle")),
                ),
            "the setting `namespace` is \"fn.handle\" for two routes, \"a\" and \"b\"",
        ),
        (
            by_type()
                .route("a", charging())
                .route("b", charging().readable_keys(true)),
            "for two routes, \"a\" and \"b\"",
        ),
        (
            by_type().route("a", charging()).fallback(charging()),
            "for two routes, \"a\" and \"fallback\"",
        ),
        (
            by_type().route("a", orders().handler(async |_: Order| {})),
            "the setting `namespace` of the route \"a\" is not set",
        ),
        (
            by_type().route("a", batching.namespace("a")),
            "the router of the route \"a\" has a batch handler",
        ),
        (
            by_type().route("a", charging().concurrency(3)),
            "of the route \"a\" `concurrency` concerns the whole batch",
        ),
        (
            by_type().route("a", charging().store(MemoryStore::new())),
            "of the route \"a\" `store` concerns the whole batch",
        ),
        (
            by_type().route("a", charging()).namespace("b"),
            "the setting `namespace` is set on the router",
        ),
        (
            by_type()
                .route("a", charging().envelope(Sns))
                .envelope(EventBridge),
            "the setting `envelope` of the route \"a\" is another than the router's",
        ),
        (
            by_type().route(
                "a",
                writing
                    .namespace("a")
                    .missing_key(MissingKey::ProcessUnprotected),
            ),
            "the setting `missing_key` of the route \"a\"",
        ),
        (
            by_field.route("a", charging()),
            "the JSON pointer is \"type\"",
        ),
        (
            router(RouteBy::attribute("")).route("a", charging()),
            "the router reads a message attribute without a name",
        ),
        (
            router(RouteBy::detail_type())
                .route("a", charging())
                .envelope(Sns),
            "the setting `envelope` is another one, but `RouteBy::detail_type()` reads the envelope `EventBridge`",
        ),
        (
            by_type()
                .route("a", charging())
                .unrouted(Unrouted::Terminal)
                .fallback(refunding(&done)),
            "the router has the setting `unrouted`, and a fallback",
        ),
        (
            by_type().route("a", by_type().route("b", charging())),
            "the router of the route \"a\" is a router",
        ),
        (
            by_type()
                .route("a", charging().depends_on(twice(60)))
                .route("b", refunding(&done).depends_on(twice(90))),
            "the setting `depends_on` has two sets of numbers for \"payments\"",
        ),
    ] {
        let routes = routes.store(MemoryStore::new()).into_consumer();
        let error = routes.init().await.unwrap_err().to_string();
        assert_contains!(error, expected);
    }
}

#[tokio::test]
async fn a_route_whose_handler_needs_more_than_the_store_can_do_refuses_to_start() {
    let done = Done::default();
    let writing = orders().handler(async |_: Order| Writes::new());
    let in_transaction = orders().handler(async |_: Order, _: Ledger| {});
    for (route, needed) in [
        (writing, "`Writes`"),
        (in_transaction, "has no transactions"),
    ] {
        let routes = by_type()
            .route("a", refunding(&done))
            .route("b", route.namespace("b"));
        let routes = routes.store(Altered::new(MemoryStore::new()));
        let error = routes.into_consumer().init().await.unwrap_err().to_string();
        assert_contains!(error, "of the route \"b\"");
        assert_contains!(error, needed);
    }
}
