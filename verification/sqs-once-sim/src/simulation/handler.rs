//! Handlers, which may be slow, fail, panic or hang. Each has one effect.

use std::collections::BTreeMap;
use std::fmt::from_fn;
use std::sync::Arc;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use futures_util::future::join_all;
use serde::Deserialize;
use sqs_once::extract::{Attempt, Message};
use sqs_once::handler::BatchRecord;
use sqs_once::{Batch, HandlerError, Writes, unstable};
use tokio::sync::oneshot;
use tokio::time::{sleep, timeout};

use super::counts::Count;
use super::ids::{Ids, ROUTES, route_of};
use super::lambda::Environment;
use super::network::PATIENCE;
use super::plan::Plan;
use super::process::Process;
use super::transaction::Transaction;
use super::watchdog::watch;
use super::witness::End;
use super::world::World;

/// The payload of a message.
#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) key: String,
    #[serde(default)]
    payload: usize,
}

impl Order {
    /// The body of a message with this key, and `more` fields.
    pub(crate) fn body(ids: Ids, key: usize, more: &str) -> String {
        let text = ids.text_of(key);
        match ids {
            Ids::Routed => {
                let route = ROUTES[route_of(key)];
                format!(r#"{{"key":"k{text}","route":"{route}"{more}}}"#)
            }
            _ => format!(r#"{{"key":"k{text}"{more}}}"#),
        }
    }

    /// The number of its key, according to the route that handles it, and its payload.
    pub(crate) fn what(&self, route: Option<usize>) -> (usize, usize) {
        let text = self.key.strip_prefix('k').and_then(|key| key.parse().ok());
        let text: usize = text.unwrap_or_default();
        let key = route.map_or(text, |route| text * ROUTES.len() + route);
        (key, self.payload)
    }
}

/// The behaviour of a handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Succeed,
    Fail(When),
    Panic(When),
    GiveUp,
    Hang(When),
    /// The effect runs in code that cannot be cancelled.
    Block,
}

/// Before or after the effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum When {
    Before,
    After,
}

impl Script {
    const TROUBLE: [Self; 8] = [
        Self::Fail(When::Before),
        Self::Fail(When::After),
        Self::Panic(When::Before),
        Self::Panic(When::After),
        Self::GiveUp,
        Self::Hang(When::Before),
        Self::Hang(When::After),
        Self::Block,
    ];
}

/// A running handler. Dropping it before its end records a cancellation.
struct Running {
    world: Arc<World>,
    attempt: usize,
}

impl Running {
    /// Its code runs on.
    fn goes_on(&self) {
        self.world.witness().goes_on(self.attempt);
    }

    fn end(&self, end: End) {
        self.world.witness().ended(self.attempt, end);
    }

    fn done(self) {
        self.end(End::Done);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

/// A handler of one record.
pub(crate) async fn one(
    environment: Arc<Environment>,
    what: (usize, usize),
    message: &Message,
    attempt: Attempt,
    effect: Effect,
) -> Result<(), HandlerError> {
    let worked = work(environment, what, message, attempt, effect).await;
    worked.map(Running::done)
}

/// A handler of all records of a batch. `effect` is where the effects of its records happen. It returns the results of
/// the records that it handled. In a FIFO queue, it stops each message group at the first failure.
pub(crate) async fn all(
    environment: Arc<Environment>,
    orders: &Batch<Order>,
    effect: impl Fn() -> Effect,
) -> Result<Vec<(&BatchRecord<Order>, Result<(), HandlerError>)>, HandlerError> {
    let Environment { world, process, .. } = &*environment;
    let mut lanes: BTreeMap<usize, Vec<_>> = BTreeMap::new();
    for (at, record) in orders.records().iter().enumerate() {
        let what @ (key, _) = record.payload().what(None);
        // The call has it, even if its turn never comes.
        world.witness().uses(process, key, record.attempt().fence());
        let lane = match world.plan.is_fifo {
            true => key % world.plan.groups,
            false => at,
        };
        lanes.entry(lane).or_default().push((record, what));
    }
    let lanes = lanes.into_values().map(|lane| {
        let (shared, effect) = (&environment, &effect);
        async move {
            let mut ended = Vec::new();
            for (record, what) in lane {
                let (message, attempt) = (record.message(), record.attempt());
                let worked = work(Arc::clone(shared), what, message, attempt, effect()).await;
                let has_failed = worked.is_err();
                ended.push((record, worked));
                if has_failed {
                    break;
                }
            }
            ended
        }
    });
    let ended = join_all(lanes).await.into_iter().flatten();
    if world.is_troubled() && world.chance.once_in(16) {
        let running = ended.filter_map(|(_, worked)| worked.ok());
        running.for_each(|running| running.end(End::Failed));
        world.count(Count::FailedHandlers);
        return Err(HandlerError::retry("the simulation wants it"));
    }
    // No record is done before all are: until then, the call may be cancelled.
    Ok(ended
        .map(|(record, worked)| (record, worked.map(Running::done)))
        .collect())
}

/// The writes of a handler whose effect commits with its record.
pub(crate) fn writes(key: usize) -> Result<Writes, HandlerError> {
    let update = Update::builder()
        .table_name("effects")
        .key("id", AttributeValue::S(format!("k{key}")))
        .update_expression("ADD times :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .build()
        .map_err(HandlerError::terminal)?;
    Ok(Writes::new().update(update))
}

/// Where the effect happens.
#[derive(Clone)]
pub(crate) enum Effect {
    /// In a request of its own.
    Apart,
    /// With the record.
    Together,
    /// In the transaction that claims the key.
    Inside(Transaction),
}

/// Handles a record. Unless it fails, it has not ended yet.
async fn work(
    environment: Arc<Environment>,
    what @ (key, _): (usize, usize),
    message: &Message,
    attempt: Attempt,
    effect: Effect,
) -> Result<Running, HandlerError> {
    let Environment { world, process, .. } = &*environment;
    let number = |name: &str| {
        let text = message.system_attribute(name).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    let invocation = number(INVOCATION);
    let message = number(MESSAGE);
    world.note(process, format_args!("handles k{key} (m{message})"));
    let mut running = Running {
        attempt: world
            .witness()
            .started(process, invocation, message, what, attempt.fence()),
        world: Arc::clone(world),
    };
    let script = script(world);
    pause(&environment).await;
    running.goes_on();
    act(&running, process, script, When::Before).await?;
    match effect {
        Effect::Together => {}
        Effect::Apart => {
            let carry_out = {
                let (world, attempt) = (Arc::clone(world), running.attempt);
                move || {
                    world.witness().effect(attempt);
                    world.judge_order(Some(message));
                }
            };
            match script {
                Script::Block => {
                    if world.plan.survives && world.plan.ways[route_of(key)].claims_before() {
                        let environment = Arc::clone(&environment);
                        tokio::spawn(watch(environment, running.attempt, invocation));
                    }
                    running = block(&environment, running, key, carry_out).await?;
                }
                _ => send(&environment, &running, key, carry_out).await?,
            }
            pause(&environment).await;
            running.goes_on();
        }
        Effect::Inside(transaction) => {
            send(&environment, &running, key, transaction.write(key)).await?;
            pause(&environment).await;
            running.goes_on();
        }
    }
    act(&running, process, script, When::After).await?;
    Ok(running)
}

/// Message attributes that identify a handler's delivery.
pub(crate) const INVOCATION: &str = "Invocation";
pub(crate) const MESSAGE: &str = "Message";

fn script(world: &World) -> Script {
    let (chance, mut script) = (&world.chance, Script::Succeed);
    let once_in = if world.plan.survives { 3 } else { 6 };
    if world.is_troubled() && chance.once_in(once_in) {
        // Where processes survive a timeout, half of the trouble is code that may outlive it.
        script = match world.plan.survives && chance.once_in(2) {
            true => Script::Block,
            false => chance.pick(&Script::TROUBLE),
        };
        world.count(match script {
            Script::Succeed | Script::Fail(_) => Count::FailedHandlers,
            Script::Panic(_) => Count::Panics,
            Script::GiveUp => Count::TerminalHandlers,
            Script::Hang(_) => Count::Hangs,
            Script::Block => Count::Blocks,
        });
    }
    script
}

/// Does what the script has at this point.
async fn act(
    running: &Running,
    process: &Process,
    script: Script,
    when: When,
) -> Result<(), HandlerError> {
    match script {
        Script::Fail(at) if at == when => {
            running.end(End::Failed);
            Err(HandlerError::retry("the simulation wants it"))
        }
        Script::Panic(at) if at == when => {
            let world = &running.world;
            world
                .witness()
                .panicked(running.attempt, world.plan.is_batched);
            // Panics without the message of the panic hook.
            std::panic::resume_unwind(Box::new("the simulation wants it"))
        }
        Script::GiveUp if when == When::Before => {
            running.end(End::Failed);
            running.world.note(process, "handler gives up for good");
            Err(HandlerError::terminal("the simulation wants it"))
        }
        Script::Hang(at) if at == when => std::future::pending().await,
        _ => Ok(()),
    }
}

/// Sends the effect's request.
async fn send(
    environment: &Environment,
    running: &Running,
    key: usize,
    carry_out: impl FnOnce() + Send + 'static,
) -> Result<(), HandlerError> {
    let Environment { world, process, .. } = environment;
    let what = from_fn(move |f| write!(f, "sends the effect of k{key}"));
    let passed = world.network.pass(process, what, carry_out);
    if let Ok(Ok(())) = timeout(PATIENCE, passed).await {
        return Ok(());
    }
    world.witness().unanswered(running.attempt);
    running.end(End::Failed);
    Err(HandlerError::retry("its effect was not answered"))
}

/// Sends the effect's request from code that continues after the handler is cancelled, like blocking code.
async fn block(
    environment: &Arc<Environment>,
    running: Running,
    key: usize,
    carry_out: impl FnOnce() + Send + 'static,
) -> Result<Running, HandlerError> {
    let environment = Arc::clone(environment);
    let guard = unstable::Running::current().map(|current| current.enter());
    let (done, ended) = oneshot::channel();
    let Plan {
        survives, timeout, ..
    } = environment.world.plan;
    environment.world.witness().blocks(running.attempt);
    tokio::spawn(async move {
        let _guard = guard;
        let longest = if survives { 90_000 } else { 30_000 };
        sleep(environment.world.chance.millis(0..longest)).await;
        environment.process.goes_on().await;
        running.goes_on();
        environment
            .world
            .witness()
            .unblocks(running.attempt, timeout);
        let sent = send(&environment, &running, key, carry_out).await;
        environment.world.witness().returns(running.attempt);
        // If the handler was cancelled, its attempt ends only now.
        let _ = done.send(sent.map(|()| running));
    });
    ended.await.map_err(HandlerError::retry)?
}

/// Waits. Meanwhile the process may crash or freeze, or its clock may change.
pub(crate) async fn pause(environment: &Environment) {
    let (world, process) = (&environment.world, &environment.process);
    let chance = &world.chance;
    let is_troubled = world.is_troubled();
    let is_long = is_troubled && chance.once_in(6);
    let longest = match (world.is_hostile() && is_troubled, is_long) {
        // If leases don't hold, handlers should outlive them.
        (true, _) => 20_000,
        (false, true) => 4000,
        (false, false) => 40,
    };
    sleep(chance.millis(0..longest)).await;
    if is_troubled {
        match chance.below(120) {
            0 | 1 => world.crash(process),
            2 | 3 => world.freeze(process),
            4..8 => world.set_clock(process, &environment.clock),
            _ => {}
        }
    }
    process.goes_on().await;
}
