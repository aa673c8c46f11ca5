//! The consumer of a process, with the settings of the plan.

use std::sync::Arc;
use std::time::Duration;

use sqs_once::consumer::{self, Runnable};
use sqs_once::extract::{Attempt, MessageMeta};
use sqs_once::policy::{
    AfterDeadLetter, Backoff, Cache, InProgress, PayloadMismatch, Requests, RouteBy,
};
use sqs_once::testing::TestSettings;
use sqs_once::{Batch, Consumer, HandlerError};

use super::decoder::SlowDecoder;
use super::handler::{Effect, Order, all, one, writes};
use super::hook;
use super::ids::ROUTES;
use super::lambda::Environment;
use super::layer::layer;
use super::mutant::Mutant;
use super::plan::Payloads;
use super::sqs;
use crate::way::Way;

pub(crate) fn consumer(environment: &Arc<Environment>) -> Consumer {
    let world = &environment.world;
    if !world.plan.is_routed {
        return with_settings(environment, handling(environment, None));
    }
    let by = match world.mutant() {
        Some(Mutant::FirstRouteTakesAll) => RouteBy::function(|_| Some(ROUTES[0].to_owned())),
        _ => RouteBy::field("/route"),
    };
    let routes = ROUTES.iter().enumerate();
    let routes = routes.fold(sqs_once::router(by), |routes, (nth, name)| {
        routes.route(name, handling(environment, Some(nth)))
    });
    with_settings(environment, routes).into_consumer()
}

/// The consumer of a route, or of all messages.
fn handling(environment: &Arc<Environment>, route: Option<usize>) -> Consumer {
    let process = &environment.process;
    let nth = route.unwrap_or_default();
    let way = environment.world.plan.ways[nth];
    let orders = match environment.world.plan.has_decoder {
        true => sqs_once::consumer_with(SlowDecoder(Arc::clone(environment))),
        false => sqs_once::consumer::<Order>(),
    };
    let declares = environment.world.plan.payloads == Payloads::DeclaredFields;
    let key: fn(&Order) -> String = |order| order.key.clone();
    let mut keyed = orders.key(key);
    if declares && !process.name.is_multiple_of(2) {
        keyed = keyed.fingerprint(|order: &Order| order.key.clone());
    }
    let consumer = match environment.world.plan.is_batched {
        true => of_batches(environment, keyed, way),
        false => of_records(environment, keyed, way, route),
    };
    let mut consumer = consumer.mode(way.mode()).namespace(process.ids().name(nth));
    if let Some(secret) = process.ids().secret() {
        consumer = consumer.key_secret(secret);
    }
    if let Some(other) = process.also_reads() {
        consumer = consumer.also_read(other.namespace(nth));
    }
    consumer
}

type Keyed = Consumer<consumer::Keyed<Order, fn(&Order) -> String>>;

fn of_records(
    environment: &Arc<Environment>,
    keyed: Keyed,
    way: Way,
    route: Option<usize>,
) -> Consumer {
    let shared = Arc::clone(environment);
    let handle = move |order: Order, meta: MessageMeta, attempt: Attempt, effect: Effect| {
        let (shared, what) = (Arc::clone(&shared), order.what(route));
        async move {
            let ended = one(shared, what, &meta, attempt, effect).await;
            ended.map(|()| what.0)
        }
    };
    match way {
        Way::ClaimFirst | Way::RecordAfter => keyed.handler(move |order, meta, attempt| {
            let handled = handle(order, meta, attempt, Effect::Apart);
            async { handled.await.map(drop) }
        }),
        Way::Writes | Way::ClaimedWrites => keyed.handler(move |order, meta, attempt| {
            let handled = handle(order, meta, attempt, Effect::Together);
            async { handled.await.and_then(writes) }
        }),
        Way::Transaction => keyed.handler(move |order, meta, attempt, transaction| {
            let handled = handle(order, meta, attempt, Effect::Inside(transaction));
            async { handled.await.map(drop) }
        }),
    }
}

fn of_batches(environment: &Arc<Environment>, keyed: Keyed, way: Way) -> Consumer {
    let shared = Arc::clone(environment);
    let apart = move |orders: Batch<Order>, effect: Effect| {
        let shared = Arc::clone(&shared);
        async move {
            let mut outcome = orders.outcome();
            for (record, result) in all(shared, &orders, || effect.clone()).await? {
                outcome.ended(record, result);
            }
            Ok::<_, HandlerError>(outcome)
        }
    };
    let shared = Arc::clone(environment);
    match way {
        Way::ClaimFirst | Way::RecordAfter => {
            keyed.batch_handler(move |orders| apart(orders, Effect::Apart))
        }
        Way::Writes | Way::ClaimedWrites => keyed.batch_handler(move |orders: Batch<Order>| {
            let shared = Arc::clone(&shared);
            async move {
                let mut all_writes = orders.writes();
                for (record, result) in all(shared, &orders, || Effect::Together).await? {
                    let (key, _) = record.payload().what(None);
                    all_writes.ended(record, result.and_then(|()| writes(key)));
                }
                Ok::<_, HandlerError>(all_writes)
            }
        }),
        Way::Transaction => keyed
            .batch_handler(move |orders, transaction| apart(orders, Effect::Inside(transaction))),
    }
}

/// Sets what all routes have in common.
fn with_settings<P>(environment: &Arc<Environment>, consumer: Consumer<P>) -> Consumer<P> {
    let (world, process) = (&environment.world, &environment.process);
    let plan = &world.plan;
    let mut consumer = consumer
        .store(world.store(process))
        .clock(environment.clock.clone())
        .random(world.chance.clone())
        .concurrency(plan.concurrency);
    if plan.has_layer {
        let shared = Arc::clone(environment);
        consumer = consumer.layer(move |record, next| layer(Arc::clone(&shared), record, next));
    }
    if plan.payloads != Payloads::Same || plan.has_hooks {
        let shared = Arc::clone(environment);
        consumer = consumer.on_failure(move |end| hook::on_failure(Arc::clone(&shared), end));
    }
    if plan.has_hooks {
        let [one, other] = [(); 2].map(|()| Arc::clone(environment));
        consumer = consumer
            .on_success(move |end| hook::on_done(Arc::clone(&one), end))
            .on_duplicate(move |end| hook::on_done(Arc::clone(&other), end));
    }
    if let Some(retention) = plan.retention {
        consumer = consumer.retention(retention);
    }
    if plan.cache {
        consumer = consumer.cache(Cache::new(10));
    }
    if plan.waits {
        consumer = consumer.in_progress(InProgress::Wait(Duration::from_secs(60)));
    }
    if plan.singly {
        consumer = consumer.requests(Requests::Single);
    }
    if plan.record_timeout {
        consumer = consumer.record_timeout(Duration::from_secs(1));
    }
    if plan.has_sqs {
        let fifo = if plan.is_fifo { ".fifo" } else { "" };
        consumer = consumer
            .sqs_client(sqs::client(world, process))
            .queue_url(&sqs::queue_url(&format!("orders{fifo}")))
            .dead_letter_queue(&sqs::queue_url(&format!("dead-letters{fifo}")))
            .backoff(Backoff::exponential(
                Duration::from_secs(1),
                Duration::from_secs(60),
            ));
        if plan.goes_on {
            consumer = consumer.after_dead_letter(AfterDeadLetter::GoOn);
        }
    }
    match world.mutant() {
        Some(Mutant::NoLeaseMargin) => consumer.lease_margin(Duration::from_secs(1)),
        Some(Mutant::NoDeadlineGuard) => consumer.deadline_margin(Duration::from_millis(1)),
        // Another payload under a known key would be a dead letter.
        Some(Mutant::FirstRouteTakesAll | Mutant::RoutesShareNamespace) => {
            consumer.payload_mismatch(PayloadMismatch::Warn)
        }
        _ => consumer,
    }
}
