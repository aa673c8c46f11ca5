//! A router: one consumer for several kinds of messages.

use std::time::Duration;

use futures_util::FutureExt;
use lambda_runtime::Context;
use serde::Deserialize;
use serde_json::{Value, json};
use sqs_once::body::{EventBridge, Sns};
use sqs_once::extract::RecordEnd;
use sqs_once::policy::Dependency;
use sqs_once::telemetry::Outcome::{Processed, Terminal};
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{Completion, Consumer, Handler, IdempotencyToken, Router, State};
use tokio::time::sleep;

use crate::support::database::{Database, Ledger};
use crate::support::envelope_bench::{attributed, event_bridge};
use crate::support::{
    AtOnce, Log, Mode, Notes, Order, SECOND, TestStore, codes, invoke, json_body, orders,
};

#[derive(Deserialize)]
struct Refund {
    id: String,
    cents: u64,
}

pub(crate) type Done = Notes<String>;

/// Notes `what` and the order's id. Orders end as their ids ask for.
pub(crate) fn noting(what: &'static str, done: &Done) -> Handler {
    noting_in(Mode::ClaimFirst, what, done)
}

pub(crate) fn noting_in(mode: Mode, what: &'static str, done: &Done) -> Handler {
    let done = done.clone();
    let handler = mode.call(orders(), move |order: Order| {
        done.add(format!("{what} {}", order.id));
        async move { order.obey().await }
    });
    handler.namespace(what)
}

pub(crate) fn refunding(done: &Done) -> Handler {
    let note = |refund: Refund| format!("refund {} of {}", refund.cents, refund.id);
    let keyed = Handler::json::<Refund>().key(|refund: &Refund| refund.id.clone());
    keyed.call(done.clone().of(note)).namespace("refund")
}

pub(crate) fn by_type() -> Router {
    Router::by_attribute("type")
}

pub(crate) fn charges_and_refunds(done: &Done) -> Router {
    by_type()
        .route("charge", noting("charge", done))
        .route("refund", refunding(done))
}

pub(crate) fn of_type(kind: &str, body: &Value) -> Record {
    Record::json(body).attribute("type", kind)
}

pub(crate) fn order(kind: &str, id: &str) -> Record {
    of_type(kind, &json!({ "id": id })).message_id(id)
}

pub(crate) fn refund(id: &str, cents: u64) -> Record {
    of_type("refund", &json!({ "id": id, "cents": cents })).message_id(id)
}

#[tokio::test(start_paused = true)]
async fn each_message_goes_to_the_route_of_its_type_with_a_payload_type_and_keys_of_its_own() {
    let done = Done::default();
    let bench = Bench::new(charges_and_refunds(&done));
    let charge = |message: &str| order("charge", "o-1").message_id(message);
    let refund = || refund("o-1", 500).message_id("m-2");
    let answer = bench.run(Event::new([charge("m-1"), refund(), charge("m-3")]));
    let answer = answer.await;
    answer.assert_processed("m-1").assert_processed("m-2");
    answer.assert_duplicate("m-3").assert_all_acknowledged();
    let answer = bench.run(Event::new([refund(), charge("m-1")])).await;
    answer.assert_duplicate("m-1").assert_duplicate("m-2");
    let expected = ["charge o-1", "refund 500 of o-1"];
    assert_eq!(done.take_sorted(), expected);
    for route in ["charge", "refund"] {
        let id = bench.in_route(route).item("o-1").await.unwrap().id;
        assert!(id.as_str().starts_with(&format!("{route}#")), "{id}");
    }
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
    let mut done = done.take();
    assert_eq!(done.len(), 5);
    done.retain(|one| !one.contains("-2") && !one.contains("-3"));
    assert_eq!(done, ["charge o-1", "refund 1 of r-1", "charge bad-1"]);
}

/// The most handlers at once, of forty orders that two routes share.
async fn most_at_once(
    set: impl Fn(Handler) -> Handler,
    set_consumer: impl Fn(Consumer) -> Consumer,
) -> usize {
    let at_once = AtOnce::default();
    let route = |namespace: &str| {
        let at_once = at_once.clone();
        let handler = orders().call(move |_: Order| at_once.during(sleep(SECOND)));
        set(handler.namespace(namespace))
    };
    let routes = by_type().route("a", route("a")).route("b", route("b"));
    let bench = Bench::new(set_consumer(Consumer::new(routes))).timeout(90 * SECOND);
    let record = |at: usize| order(["a", "b"][at % 2], &format!("o-{at}"));
    let answer = bench.run(Event::new((0..40).map(record))).await;
    answer.assert_all_acknowledged();
    at_once.most()
}

#[tokio::test(start_paused = true)]
async fn routes_share_the_concurrency_and_the_limit_of_calls_to_a_dependency() {
    assert_eq!(most_at_once(|it| it, |it| it.concurrency(4)).await, 4);
    let depending = |it: Handler| it.depends_on(Dependency::new("payments").max_in_flight(3));
    assert_eq!(most_at_once(depending, |it| it).await, 3);
}

#[tokio::test(start_paused = true)]
async fn transactions_that_wait_for_a_dependency_leave_connections_to_other_routes() {
    let ran = Notes::default();
    let route = |name: &'static str| {
        let ran = ran.clone();
        let handler = orders().call(move |_: Order, _: Ledger| {
            let ran = ran.clone();
            sleep(SECOND).map(move |()| ran.add(name))
        });
        handler.namespace(name)
    };
    let payments = Dependency::new("payments").max_in_flight(1);
    let routes = by_type()
        .route("charge", route("charge").depends_on(payments))
        .route("notify", route("notify"));
    let consumer = Consumer::new(routes).store(Database::beside(&TestStore::default()));
    let charges = (0..15).map(|at| order("charge", &format!("o-{at}")));
    let event = Event::new(charges.chain([order("notify", "n-1")]));
    invoke(&consumer, &event, Context::default()).await;
    let ran = ran.take();
    assert_eq!((ran.len(), ran[1]), (16, "notify"));
}

#[tokio::test(start_paused = true)]
async fn claims_and_completions_of_routes_share_their_requests() {
    let routes = charges_and_refunds(&Done::default());
    let bench = Bench::new(Consumer::new(routes).concurrency(20));
    let records = (0..20).map(|at| match at % 2 {
        0 => order("charge", &format!("o-{at}")),
        _ => refund(&format!("r-{at}"), 1),
    });
    let answer = bench.run(Event::new(records)).await;
    answer.assert_all_acknowledged();
    assert_eq!(bench.store().requests(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_route_is_terminal_calls_the_routers_hook_and_the_others_continue() {
    let log = Log::capture();
    let (failures, notes) = Notes::pair();
    let noting = notes.of(|end: RecordEnd| end.message().id().to_owned());
    let defaults = Handler::defaults().on_failure(noting);
    let routes = charges_and_refunds(&Done::default()).defaults(defaults);
    let typeless = Record::json(&json!({ "id": "o-2" })).message_id("o-2");
    let event = Event::new([order("cancel", "o-1"), typeless, order("charge", "o-3")]);
    let answer = Bench::new(routes).run(event).await;
    answer.assert_retried(["o-1", "o-2"]);
    let unknown =
        "its message attribute \"type\" (`cancel`) names none of the routes `charge`, `refund`";
    let missing = "it has no message attribute \"type\"; the routes are `charge`, `refund`";
    for (id, why) in [("o-1", unknown), ("o-2", missing)] {
        let why = format!("no route takes it: {why}");
        answer.assert_terminal(id).assert_reason(id, &why);
    }
    assert_eq!(failures.take_sorted(), ["o-1", "o-2"]);
    let mut lines = log.take("sqs_once::record");
    lines.sort_by_key(|line| line["message_id"].clone());
    let expected = "terminal: no-route, terminal: no-route, processed";
    assert_eq!(codes(&lines), expected);
    // In the line of each record with a route.
    let routes = lines.iter().filter_map(|line| line.get("route"));
    assert!(routes.eq(["charge"]), "{lines:?}");
}

#[tokio::test(start_paused = true)]
async fn a_message_without_a_route_may_return_or_go_to_the_fallback() {
    let done = Done::default();
    let strange = || Event::new([order("cancel", "o-1")]);
    let retrying = Bench::new(charges_and_refunds(&done).retry_unrouted());
    retrying.run(strange()).await.assert_failed("o-1");
    let bench = Bench::new(charges_and_refunds(&done).fallback(noting("other", &done)));
    bench.run(strange()).await.assert_processed("o-1");
    bench.run(strange()).await.assert_duplicate("o-1");
    assert_eq!(done.take(), ["other o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_route_is_chosen_by_a_field_a_function_the_detail_type_or_an_attribute_in_an_envelope() {
    let by_kind = || Router::by_json_pointer("/meta/kind");
    let by_function = || {
        Router::by(|message| {
            let text = message.content()?;
            assert_ne!(text, "\"panics\"");
            Some(text.split('"').nth(9)?.to_owned())
        })
    };
    let of_kind = |kind: Value| Record::json(&json!({ "id": "o-1", "meta": { "kind": kind } }));
    let ordered = || Router::by_detail_type();
    let declared = || ordered().defaults(Handler::defaults().envelope(EventBridge));
    let opening = || by_type().defaults(Handler::defaults().envelope(Sns));
    let placed = event_bridge("e-1", r#"{"id":"o-1"}"#);
    let of_detail_type = |kind| Record::text(placed.replace("OrderPlaced", kind));
    let enveloped = attributed(r#"{"id":"o-1"}"#, &[("type", "7")]);
    for (routes, record, outcome) in [
        (by_kind(), of_kind(json!("7")), Processed),
        (by_kind(), of_kind(json!(7)), Processed),
        (by_kind(), of_kind(json!("none")), Terminal),
        (by_kind(), Record::text("no JSON"), Terminal),
        (by_function(), of_kind(json!("7")), Processed),
        (by_function(), of_kind(json!("none")), Terminal),
        (by_function(), Record::json("panics"), Terminal),
        (ordered(), of_detail_type("7"), Processed),
        (declared(), of_detail_type("7"), Processed),
        (ordered(), of_detail_type("?"), Terminal),
        (opening(), Record::json(&enveloped), Processed),
    ] {
        let done = Done::default();
        let routes = routes.route("charge", noting("charge", &done));
        let bench = Bench::new(routes.route("7", noting("seven", &done)));
        let answer = bench.run(Event::new([record])).await;
        assert_eq!(answer.outcomes(), [outcome]);
        let is_taken = outcome == Processed;
        assert_eq!(done.take(), ["seven o-1"][..usize::from(is_taken)]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_granted_claim_waits_for_no_lookup_of_another_route() {
    let done = Done::default();
    let routes = Router::by_json_pointer("/type")
        .route("charge", noting("charge", &done))
        .route("after", noting_in(Mode::RecordAfter, "after", &done));
    let silent = TestStore::default().reads_take(|_| Duration::MAX);
    let bench = crate::support::Bench::new();
    let consumer = Consumer::new(routes).store(silent);
    let consumer = consumer.clock(bench.clock.clone());
    let record = |kind: &str| json_body(&json!({ "type": kind, "id": "o-1" }));
    let records = [record("after"), record("charge")];
    let retried = bench.deliver(&consumer, records).await;
    assert_eq!(retried, ["m-0"]);
    assert_eq!(done.take(), ["charge o-1"]);
}

#[tokio::test(start_paused = true)]
async fn a_handler_in_a_route_gets_its_state_its_token_and_its_hooks() {
    let (tokens, notes) = Notes::pair();
    let handler = async |_: Order, State(notes): State<Notes<String>>, token: IdempotencyToken| {
        notes.add(token.to_string());
        Completion("kept")
    };
    let (recorded, seen) = Notes::pair();
    let charging = orders().state(notes).call(handler).namespace("charge");
    let noting = seen.of(|end: RecordEnd| end.completion::<String>().unwrap().unwrap());
    let charging = charging.on_done(noting);
    let alone = Bench::new(charging.clone());
    let routed = Bench::new(by_type().route("charge", charging));
    for bench in [alone, routed] {
        let answer = bench.run(Event::new([order("charge", "o-1")])).await;
        answer.assert_all_acknowledged();
    }
    let tokens = tokens.take();
    assert_eq!(tokens[0], tokens[1]);
    assert_eq!(recorded.take(), ["kept", "kept"]);
}
