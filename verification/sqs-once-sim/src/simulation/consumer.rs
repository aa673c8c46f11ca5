//! The consumer of a process, with the settings of the plan.

use std::sync::Arc;
use std::time::Duration;

use sqs_once::consumer::{Cache, Keyed, Margins, Named, OfEachMessage, OfMessages, Queue};
use sqs_once::extract::{Attempt, Message};
use sqs_once::handler::{ClaimFirst, RecordAfter};
use sqs_once::key::Ids;
use sqs_once::policy::PayloadMismatch;
use sqs_once::unstable::{Simulated, with_single_requests};
use sqs_once::{Batch, BatchHandler, Consumer, Handler, HandlerError};

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
    let (world, plan) = (&environment.world, &environment.world.plan);
    let consumer = if plan.is_routed {
        let router = match world.mutant() {
            Some(Mutant::FirstRouteTakesAll) => {
                sqs_once::Router::by(|_| Some(ROUTES[0].to_owned()))
            }
            _ => sqs_once::Router::by_json_pointer("/route"),
        };
        let defaults = with_layer(environment, with_settings(environment, Handler::defaults()));
        let router = router.defaults(defaults);
        let routes = ROUTES.iter().enumerate();
        Consumer::new(routes.fold(router, |router, (nth, name)| {
            router.route(name, of_records(environment, Some(nth)))
        }))
    } else if plan.is_batched {
        Consumer::new(with_settings(environment, of_batches(environment)))
    } else {
        let handler = with_settings(environment, of_records(environment, None));
        Consumer::new(with_layer(environment, handler))
    };
    of_process(environment, consumer)
}

/// Reads orders and their keys.
fn keyed(environment: &Arc<Environment>) -> Keyed<Order, fn(&Order) -> String> {
    let plan = &environment.world.plan;
    let orders = match plan.has_decoder {
        true => Handler::decode(SlowDecoder(Arc::clone(environment))),
        false => Handler::json::<Order>(),
    };
    let key: fn(&Order) -> String = |order| order.key.clone();
    let keyed = orders.key(key);
    let declares = plan.payloads == Payloads::DeclaredFields;
    match declares && !environment.process.name.is_multiple_of(2) {
        true => keyed.fingerprint(|order: &Order| order.key.clone()),
        false => keyed,
    }
}

/// Sets how the handler of a route, or of all messages, names and records its keys.
fn with_keys<Kind: Named + OfMessages>(
    environment: &Arc<Environment>,
    nth: usize,
    handler: Handler<Kind>,
) -> Handler<Kind> {
    let process = &environment.process;
    let handler = handler.namespace(process.ids().name(nth));
    let ids = process.ids().secret().map_or_else(Ids::hashed, Ids::secret);
    match process.also_reads() {
        Some(other) => handler.ids(ids.also_read(other.namespace(nth))),
        None => handler.ids(ids),
    }
}

/// The handler of a route, or of all messages.
fn of_records(environment: &Arc<Environment>, route: Option<usize>) -> Handler {
    let (keyed, nth) = (keyed(environment), route.unwrap_or_default());
    let shared = Arc::clone(environment);
    let handle = move |order: Order, meta: Arc<Message>, attempt: Attempt, effect: Effect| {
        let (shared, what) = (Arc::clone(&shared), order.what(route));
        async move {
            let ended = one(shared, what, &meta, attempt, effect).await;
            ended.map(|()| what.0)
        }
    };
    let apart = {
        let handle = handle.clone();
        move |order, meta, attempt| {
            let handled = handle(order, meta, attempt, Effect::Apart);
            async { handled.await.map(drop) }
        }
    };
    let together = {
        let handle = handle.clone();
        move |order, meta, attempt| {
            let handled = handle(order, meta, attempt, Effect::Together);
            async { handled.await.and_then(writes) }
        }
    };
    let handler = match environment.world.plan.ways[nth] {
        Way::ClaimFirst => keyed.call(apart),
        Way::RecordAfter => keyed.call(RecordAfter(apart)),
        Way::Writes => keyed.call(together),
        Way::ClaimedWrites => keyed.call(ClaimFirst(together)),
        Way::Transaction => keyed.call(move |order, meta, attempt, transaction| {
            let handled = handle(order, meta, attempt, Effect::Inside(transaction));
            async { handled.await.map(drop) }
        }),
    };
    with_keys(environment, nth, handler)
}

fn of_batches(environment: &Arc<Environment>) -> BatchHandler {
    let keyed = keyed(environment);
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
    let together = move |orders: Batch<Order>| {
        let shared = Arc::clone(&shared);
        async move {
            let mut all_writes = orders.writes();
            for (record, result) in all(shared, &orders, || Effect::Together).await? {
                let (key, _) = record.payload().what(None);
                all_writes.ended(record, result.and_then(|()| writes(key)));
            }
            Ok::<_, HandlerError>(all_writes)
        }
    };
    let handler = match environment.world.plan.ways[0] {
        Way::ClaimFirst => keyed.call_batch(move |orders| apart(orders, Effect::Apart)),
        Way::RecordAfter => {
            keyed.call_batch(RecordAfter(move |orders| apart(orders, Effect::Apart)))
        }
        Way::Writes => keyed.call_batch(together),
        Way::ClaimedWrites => keyed.call_batch(ClaimFirst(together)),
        Way::Transaction => {
            keyed.call_batch(move |orders, transaction| apart(orders, Effect::Inside(transaction)))
        }
    };
    with_keys(environment, 0, handler)
}

/// Sets what all handlers have in common.
fn with_settings<Kind: OfMessages>(
    environment: &Arc<Environment>,
    mut handler: Handler<Kind>,
) -> Handler<Kind> {
    let plan = &environment.world.plan;
    if plan.payloads != Payloads::Same || plan.has_hooks {
        let shared = Arc::clone(environment);
        handler = handler.on_failure(move |end| hook::on_failure(Arc::clone(&shared), end));
    }
    if plan.has_hooks {
        let shared = Arc::clone(environment);
        handler = handler.on_done(move |end| hook::on_done(Arc::clone(&shared), end));
    }
    if let Some(retention) = plan.retention {
        handler = handler.retention(retention);
    }
    if plan.waits {
        handler = handler.in_progress_wait(Duration::from_secs(60));
    }
    if plan.attempt_timeout {
        handler = handler.attempt_timeout(Duration::from_secs(1));
    }
    if plan.has_sqs {
        handler = handler.backoff(Duration::from_secs(1)..=Duration::from_secs(60));
    }
    match environment.world.mutant() {
        // Another payload under a known key would be a dead letter.
        Some(Mutant::FirstRouteTakesAll | Mutant::RoutesShareNamespace) => {
            handler.payload_mismatch(PayloadMismatch::Acknowledge)
        }
        _ => handler,
    }
}

fn with_layer<Kind: OfEachMessage>(
    environment: &Arc<Environment>,
    handler: Handler<Kind>,
) -> Handler<Kind> {
    if !environment.world.plan.has_layer {
        return handler;
    }
    let shared = Arc::clone(environment);
    handler.layer(move |record, next| layer(Arc::clone(&shared), record, next))
}

/// Sets what concerns the batches of a process.
fn of_process(environment: &Arc<Environment>, consumer: Consumer) -> Consumer {
    let (world, process) = (&environment.world, &environment.process);
    let plan = &world.plan;
    let mut consumer = consumer
        .store(world.store(process))
        .with_clock(environment.clock.clone())
        .with_random(world.chance.clone())
        .concurrency(plan.concurrency);
    if plan.cache {
        consumer = consumer.cache(Cache::new(10));
    }
    if plan.singly {
        consumer = with_single_requests(consumer);
    }
    if plan.has_sqs {
        let fifo = if plan.is_fifo { ".fifo" } else { "" };
        let dead_letters = sqs::queue_url(&format!("dead-letters{fifo}"));
        let queue = Queue::any().client(sqs::client(world, process));
        consumer = consumer.queue(queue.dead_letter_queue(dead_letters));
    }
    match world.mutant() {
        Some(Mutant::NoLeaseMargin) => {
            consumer.margins(Margins::new().lease(Duration::from_secs(1)))
        }
        Some(Mutant::NoDeadlineGuard) => {
            consumer.margins(Margins::new().deadline(Duration::from_millis(1)))
        }
        _ => consumer,
    }
}
