//! Routers: what a route sets, and settings that keep a router from starting.

use serde_json::{Value, json};
use sqs_once::body::{EventBridge, Sns};
use sqs_once::consumer::{Routes, Runnable};
use sqs_once::key::{KeyCodec, Namespace};
use sqs_once::policy::{Backoff, Dependency, InProgress, MissingKey, Mode, RouteBy, Unrouted};
use sqs_once::store::Status;
use sqs_once::telemetry::Outcome;
use sqs_once::testing::{Bench, Event};
use sqs_once::{Batch, Consumer, HandlerError, MemoryStore, Writes, router};
use tokio::time::sleep;

use crate::router::{
    Done, by_type, charges_and_refunds, noting, of_type, order, refund, refunding,
};
use crate::support::database::Ledger;
use crate::support::{Order, SECOND, assert_contains, orders, values};

#[tokio::test(start_paused = true)]
async fn a_route_takes_from_its_router_what_it_does_not_set() {
    let done = Done::default();
    let keyless = values().handler(async |_: Value| {}).namespace("keyless");
    let own = keyless.clone().missing_key(MissingKey::ProcessUnprotected);
    for (route, outcome) in [(keyless, Outcome::Failed), (own, Outcome::Processed)] {
        let routes = by_type().route("keyless", route);
        let bench = Bench::new(routes.missing_key(MissingKey::Retry));
        let event = Event::new([of_type("keyless", &json!({ "no": "id" }))]);
        assert_eq!(bench.run(event).await.outcome("m-1"), outcome);
    }

    let taking = |name: &str, time: u32| {
        let consumer = orders().handler(move |_: Order| sleep(time * SECOND));
        consumer.namespace(name)
    };
    let routes = by_type()
        .route("slow", taking("slow", 20).record_timeout(SECOND))
        .route("slower", taking("slower", 3))
        .route("ship", noting("ship", &done))
        .route("hidden", noting("hidden", &done).readable_keys(false))
        .record_timeout(5 * SECOND)
        .readable_keys(true);
    let bench = Bench::new(routes);
    let kinds = ["slow", "slower", "ship", "hidden"];
    let event = Event::new(kinds.map(|kind| order(kind, "o-1").message_id(kind)));
    let answer = bench.run(event).await;
    answer.assert_retried(["slow"]);
    answer.assert_reason("slow", "longer than 1s");
    for (route, is_shown) in [("hidden", false), ("ship", true)] {
        let id = bench.in_route(route).item("o-1").await.unwrap().id;
        assert_eq!(id.as_str().ends_with("#s:o-1"), is_shown, "{id}");
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
async fn keys_and_waiting_for_another_worker_are_of_each_route() {
    let done = Done::default();
    let waiting = noting("charge", &done).in_progress(InProgress::Wait(5 * SECOND));
    let routes = by_type().route("charge", waiting);
    let bench = Bench::new(routes.route("refund", refunding(&done)));
    bench.in_route("charge").another_worker_claims("o-1").await;
    bench.in_route("refund").another_worker_claims("r-1").await;
    let began = tokio::time::Instant::now();
    let free = order("charge", "r-1").message_id("free");
    let event = Event::new([order("charge", "o-1"), refund("r-1", 1), free]);
    let answer = bench.run(event).await;
    answer.assert_in_progress("o-1").assert_in_progress("r-1");
    answer.assert_processed("free");
    let item = bench.in_route("charge").item("r-1").await;
    assert_eq!(item.unwrap().status, Status::Completed);
    assert!(began.elapsed() >= 4 * SECOND);
}

#[tokio::test(start_paused = true)]
async fn a_route_backs_off_as_it_says_or_as_its_router_does() {
    let after = |seconds| Backoff::exponential(seconds * SECOND, seconds * SECOND);
    let done = Done::default();
    let own = |seconds| by_type().route("charge", noting("charge", &done).backoff(after(seconds)));
    let routes = own(7).route("ship", noting("ship", &done));
    let bench = Bench::new(routes.unrouted(Unrouted::Retry).backoff(after(60)));
    let kinds = [("charge", 7), ("ship", 60), ("unknown", 60)];
    let event = Event::new(kinds.map(|(kind, _)| order(kind, "bad").message_id(kind)));
    let answer = bench.run(event).await;
    for (kind, delay) in kinds {
        assert_eq!(answer.delay(kind), Some(delay * SECOND), "{kind}");
    }
    let bench = Bench::new(own(7));
    let answer = bench.run(Event::new([order("charge", "bad-4")])).await;
    assert_eq!(answer.delay("bad-4"), Some(7 * SECOND));
    assert_contains!(
        refusal(own(0)).await,
        "the setting `backoff` of the route \"charge\""
    );
}

/// The error of a router that can't start.
async fn refusal(routes: Consumer<Routes>) -> String {
    let routes = routes.store(MemoryStore::new()).into_consumer();
    routes.init().await.unwrap_err().to_string()
}

#[tokio::test]
async fn a_router_whose_routes_share_keys_refuses_to_start() {
    let done = Done::default();
    let (charge, refund) = (|| noting("charge", &done), || refunding(&done));
    let own = || charge().namespace("payments");
    let [charging, refunding] =
        [charge(), refund()].map(|route| route.also_read(Namespace::new("payments").unwrap()));
    // The codecs of two languages share the ids of integers.
    let python = charge().also_read(KeyCodec::powertools_python("fn.it"));
    let java = refund().key_codec(KeyCodec::powertools_java("fn.it"));
    for (one, other, namespace) in [
        (charge(), charge(), "charge"),
        (charge(), charge().readable_keys(true), "charge"),
        // Each would acknowledge the other's messages.
        (charging, refunding.clone(), "payments"),
        (own(), refunding, "payments"),
        (python, java, "fn.it"),
    ] {
        let error = refusal(by_type().route("a", one).route("b", other)).await;
        let namespace = format!("the setting `namespace` is \"{namespace}\"");
        assert_contains!(error, &namespace, "for two routes, \"a\" and \"b\"");
    }
    let error = refusal(by_type().route("a", charge()).fallback(charge())).await;
    assert_contains!(error, "for two routes, \"a\" and \"fallback\"");
}

#[tokio::test]
async fn a_router_that_can_t_work_refuses_to_start() {
    let done = Done::default();
    let (charge, refund) = (|| noting("charge", &done), || refunding(&done));
    let a = |route: Consumer| by_type().route("a", route);
    let keyless = orders().handler(async |_: Order| Writes::new());
    let keyless = keyless.missing_key(MissingKey::ProcessUnprotected);
    let nameless = orders().handler(async |_: Order| {});
    let batching = orders().batch_handler(async |orders: Batch<Order>| orders.all_succeeded());
    let stored = charge().store(MemoryStore::new());
    let by = |by| router(by).route("a", charge());
    let [by_field, by_nothing] = [RouteBy::field("type"), RouteBy::attribute("")].map(by);
    let by_details = by(RouteBy::detail_type()).envelope(Sns);
    let enveloped = a(charge().envelope(Sns)).envelope(EventBridge);
    let two_defaults = a(charge()).unrouted(Unrouted::Terminal);
    let [one, other] = [60, 90].map(|outage| Dependency::new("pay").outage(SECOND * outage));
    let depending = a(charge().depends_on(one)).route("b", refund().depends_on(other));
    for (routes, expected) in [
        (by_type(), "the router has no routes"),
        (by_type().route("", charge()), "a route without a name"),
        (a(charge()).route("a", refund()), "two routes with the name"),
        (a(nameless), "`namespace` of the route \"a\" is not set"),
        (a(batching.namespace("a")), "\"a\" has a batch handler"),
        (a(charge().concurrency(3)), "`concurrency` concerns the"),
        (a(stored), "route \"a\" `store` concerns the whole batch"),
        (a(charge()).namespace("b"), "is set on the router"),
        (enveloped, "route \"a\" is another than the router's"),
        (a(keyless.namespace("a")), "`missing_key` of the route"),
        (by_field, "the JSON pointer is \"type\""),
        (by_nothing, "reads a message attribute without a name"),
        (by_details, "reads the envelope `EventBridge`"),
        (two_defaults.fallback(refund()), "and a fallback"),
        (a(a(charge()).into_consumer()), "\"a\" is a router"),
        (depending, "`depends_on` has two sets of numbers"),
    ] {
        assert_contains!(refusal(routes).await, expected);
    }
}

#[tokio::test]
async fn a_route_whose_handler_needs_more_than_the_store_can_do_refuses_to_start() {
    let writing = orders().handler(async |_: Order| Writes::new());
    let in_transaction = orders().handler(async |_: Order, _: Ledger| {});
    for (route, needed) in [
        (writing, "`Writes`"),
        (in_transaction, "has no transactions"),
    ] {
        let routes = by_type().route("a", refunding(&Done::default()));
        let routes = routes.route("b", route.namespace("b"));
        let routes = routes.store(MemoryStore::new());
        let error = routes.into_consumer().init().await.unwrap_err().to_string();
        assert_contains!(error, "of the route \"b\"", needed);
    }
}
