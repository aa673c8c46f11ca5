//! Routers: what a route sets, and settings that keep a router from starting.

use serde_json::{Value, json};
use sqs_once::body::{EventBridge, Sns};
use sqs_once::extract::RecordEnd;
use sqs_once::key::{Ids, KeyCodec, KeySecret, Namespace};
use sqs_once::policy::{Dependency, MissingKey, PayloadMismatch, UnknownOutcome};
use sqs_once::telemetry::Outcome::{self, Duplicate, Failed, Processed, Terminal};
use sqs_once::testing::{Bench, Event, Record};
use sqs_once::{BusinessKey, Consumer, Handler, HandlerError, ResultExt, Router, Writes};
use tokio::time::Instant;

use crate::router::{
    Done, by_type, charges_and_refunds, noting, noting_in, of_type, order, refunding,
};
use crate::support::database::Ledger;
use crate::support::{Mode, Notes, Order, SECOND, assert_contains, orders, refusal, values};

/// Benches of two routers with one route: it takes this setting of its router's defaults, or has its own.
macro_rules! taken_and_own {
    ($route:expr, $setting:ident($default:expr, $own:expr)) => {
        [$route, $route.$setting($own)].map(|route| {
            let defaults = Handler::defaults().$setting($default);
            Bench::new(by_type().defaults(defaults).route("charge", route))
        })
    };
}

/// The outcomes of this record on both benches.
async fn ends([taken, own]: &[Bench; 2], record: Record) -> [Outcome; 2] {
    let event = Event::new([record]);
    let first = async |bench: &Bench| bench.run(&event).await.outcomes()[0];
    [first(taken).await, first(own).await]
}

fn charging() -> Handler {
    noting("charge", &Done::default())
}

#[tokio::test(start_paused = true)]
async fn a_policy_of_the_defaults_counts_unless_the_route_sets_it() {
    let (retry, unprotected) = (MissingKey::Retry, MissingKey::ProcessUnprotected);
    let keyless = || values().call(async |_: Value| {}).namespace("keyless");
    let benches = taken_and_own!(keyless(), missing_key(retry, unprotected));
    let record = of_type("charge", &json!({ "no": "id" }));
    assert_eq!(ends(&benches, record).await, [Failed, Processed]);

    let benches = taken_and_own!(charging(), attempt_timeout(SECOND / 2, 5 * SECOND));
    let brief = order("charge", "brief-1");
    assert_eq!(ends(&benches, brief).await, [Failed, Processed]);

    let (acknowledge, terminal) = (PayloadMismatch::Acknowledge, PayloadMismatch::Terminal);
    let benches = taken_and_own!(charging(), payload_mismatch(acknowledge, terminal));
    let total = |total| of_type("charge", &json!({ "id": "o-1", "total": total }));
    assert_eq!(ends(&benches, total(1)).await, [Processed; 2]);
    assert_eq!(ends(&benches, total(2)).await, [Duplicate, Terminal]);

    let dead_letter = UnknownOutcome::dead_letter;
    let repeat = UnknownOutcome::repeat();
    let benches = taken_and_own!(charging(), unknown_outcome(dead_letter(), repeat));
    for bench in &benches {
        let event = Event::new([order("charge", "o-1")]);
        bench.run_and_crash(event).await;
        bench.clock().advance(60 * SECOND);
    }
    let outcomes = ends(&benches, order("charge", "o-1")).await;
    assert_eq!(outcomes, [Terminal, Processed]);
}

#[tokio::test(start_paused = true)]
async fn a_route_waits_for_another_worker_as_it_says_or_as_its_router_does() {
    let (wait, leave) = (5 * SECOND, std::time::Duration::ZERO);
    let benches = taken_and_own!(charging(), in_progress_wait(wait, leave));
    for (bench, waits) in benches.iter().zip([true, false]) {
        bench.another_worker_claims("o-1").await;
        let began = Instant::now();
        let event = Event::new([order("charge", "o-1")]);
        bench.run(event).await.assert_in_progress("o-1");
        assert_eq!(began.elapsed() >= 4 * SECOND, waits);
    }
}

#[tokio::test(start_paused = true)]
async fn a_route_keeps_its_keys_as_it_says_or_as_its_router_does() {
    let charge = || order("charge", "o-1");
    let benches = taken_and_own!(charging(), retention(60 * SECOND, 5 * SECOND));
    assert_eq!(ends(&benches, charge()).await, [Processed; 2]);
    for bench in &benches {
        bench.clock().advance(30 * SECOND);
    }
    assert_eq!(ends(&benches, charge()).await, [Duplicate, Processed]);

    let key = BusinessKey::new("o-1").unwrap();
    let plain = || Namespace::new("charge").unwrap();
    let benches = taken_and_own!(charging(), ids(Ids::readable(), Ids::hashed()));
    ends(&benches, charge()).await;
    for (bench, is_shown) in benches.iter().zip([true, false]) {
        let id = bench.item("o-1").await.unwrap().id;
        assert_eq!(id, plain().readable_keys(is_shown).item_id(&key));
    }

    let secret = |byte| KeySecret::new([byte; 32]).unwrap();
    let hashed = |byte| Ids::secret(secret(byte));
    let benches = taken_and_own!(charging(), ids(hashed(7), hashed(8)));
    ends(&benches, charge()).await;
    for (bench, byte) in benches.iter().zip([7, 8]) {
        let id = bench.item("o-1").await.unwrap().id;
        assert_eq!(id, plain().key_secret(secret(byte)).item_id(&key));
    }
}

#[tokio::test(start_paused = true)]
async fn a_hook_of_the_defaults_is_called_unless_the_route_has_one() {
    let (called, notes) = Notes::pair();
    let hook = |of: &'static str| notes.clone().of(move |_: RecordEnd| of);
    let (default, own) = (|| hook("defaults"), || hook("route"));
    let benches = taken_and_own!(charging(), on_done(default(), own()));
    ends(&benches, order("charge", "o-1")).await;
    assert_eq!(called.take(), ["defaults", "route"]);

    let benches = taken_and_own!(charging(), on_failure(default(), own()));
    ends(&benches, order("charge", "bad")).await;
    assert_eq!(called.take(), ["defaults", "route"]);
}

#[tokio::test(start_paused = true)]
async fn dependencies_of_defaults_and_route_add_up_and_the_numbers_of_the_route_count() {
    let fragile = |name: &str| Dependency::new(name).failures(1);
    let defaults = Handler::defaults()
        .depends_on(fragile("payments"))
        .depends_on(Dependency::new("mail").failures(9));
    let failing = async |order: Order| Err::<(), _>("no answer").unavailable(&order.id);
    let failing = orders().call(failing);
    let failing = failing.namespace("charge").depends_on(fragile("mail"));
    let routes = by_type().defaults(defaults).route("charge", failing);
    for service in ["payments", "mail"] {
        let bench = Bench::new(routes.clone());
        let event = Event::new([order("charge", service)]);
        bench.run(&event).await.assert_failed(service);
        let open = format!("unavailable: {service}: its breaker is open");
        bench.run(&event).await.assert_reason(service, &open);
    }
}

#[tokio::test(start_paused = true)]
async fn routes_with_each_mode_work_in_one_batch() {
    let done = Done::default();
    let writing = orders().call(async |order: Order| match order.id.as_str() {
        "refused" => Err(HandlerError::terminal("no")),
        _ => Ok(Writes::new().completion(&order.id)),
    });
    let routes = charges_and_refunds(&done)
        .route("writes", writing.namespace("writes"))
        .route("after", noting_in(Mode::RecordAfter, "after", &done));
    let bench = Bench::new(Consumer::new(routes).concurrency(3));
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
async fn a_route_backs_off_as_it_says_or_as_its_router_does() {
    let after = |seconds| seconds * SECOND..=seconds * SECOND;
    let done = Done::default();
    let own = |seconds| by_type().route("charge", noting("charge", &done).backoff(after(seconds)));
    let routes = own(7).route("ship", noting("ship", &done));
    let routes = routes.defaults(Handler::defaults().backoff(after(60)));
    let bench = Bench::new(routes.retry_unrouted());
    let kinds = [("charge", 7), ("ship", 60), ("unknown", 60)];
    let event = Event::new(kinds.map(|(kind, _)| order(kind, "bad").message_id(kind)));
    let answer = bench.run(event).await;
    for (kind, delay) in kinds {
        assert_eq!(answer.delay(kind), Some(delay * SECOND), "{kind}");
    }
    let bench = Bench::new(own(7));
    let answer = bench.run(Event::new([order("charge", "bad-4")])).await;
    assert_eq!(answer.delay("bad-4"), Some(7 * SECOND));
    let said = "the setting `backoff` of the route \"charge\"";
    assert_contains!(refusal(own(0)).await, said);
}

#[tokio::test]
async fn a_router_whose_routes_share_keys_refuses_to_start() {
    let done = Done::default();
    let (charge, refund) = (|| noting("charge", &done), || refunding(&done));
    let own = || charge().namespace("payments");
    let [charging, refunding] = [charge(), refund()]
        .map(|route| route.ids(Ids::hashed().also_read(Namespace::new("payments").unwrap())));
    // The codecs of two languages share the ids of integers.
    let python = charge().ids(Ids::hashed().also_read(KeyCodec::powertools_python("fn.it")));
    let java = refund().ids(KeyCodec::powertools_java("fn.it"));
    for (one, other, namespace) in [
        (charge(), charge(), "charge"),
        (charge(), charge().ids(Ids::readable()), "charge"),
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
    let a = |route: Handler| by_type().route("a", route);
    let keyless = orders().call(async |_: Order| Writes::new());
    let keyless = keyless.missing_key(MissingKey::ProcessUnprotected);
    let nameless = orders().call(async |_: Order| {});
    let with_route = |router: Router| router.route("a", charge());
    let by_field = with_route(Router::by_json_pointer("type"));
    let by_nothing = with_route(Router::by_attribute(""));
    let by_details = with_route(Router::by_detail_type());
    let by_details = by_details.defaults(Handler::defaults().envelope(Sns));
    let opening = Handler::defaults().envelope(EventBridge);
    let enveloped = a(charge().envelope(Sns)).defaults(opening);
    let two_defaults = a(charge()).retry_unrouted();
    let [one, other] = [60, 90].map(|outage| Dependency::new("pay").outage(SECOND * outage));
    let depending = a(charge().depends_on(one)).route("b", refund().depends_on(other));
    for (routes, expected) in [
        (by_type(), "the router has no routes"),
        (by_type().route("", charge()), "a route without a name"),
        (a(charge()).route("a", refund()), "two routes with the name"),
        (a(nameless), "`namespace` of the route \"a\" is not set"),
        (enveloped, "route \"a\" is another than the router's"),
        (a(keyless.namespace("a")), "`missing_key` of the route"),
        (by_field, "the JSON pointer is \"type\""),
        (by_nothing, "reads a message attribute without a name"),
        (by_details, "reads the envelope `EventBridge`"),
        (two_defaults.fallback(refund()), "and a fallback"),
        (depending, "`depends_on` has two sets of numbers"),
    ] {
        assert_contains!(refusal(routes).await, expected);
    }
}

#[tokio::test]
async fn a_route_whose_handler_needs_more_than_the_store_can_do_refuses_to_start() {
    let writing = orders().call(async |_: Order| Writes::new());
    let in_transaction = orders().call(async |_: Order, _: Ledger| {});
    for (route, needed) in [
        (writing, "`Writes`"),
        (in_transaction, "has no transactions"),
    ] {
        let routes = by_type().route("a", refunding(&Done::default()));
        let error = refusal(routes.route("b", route.namespace("b"))).await;
        assert_contains!(error, "of the route \"b\"", needed);
    }
}
