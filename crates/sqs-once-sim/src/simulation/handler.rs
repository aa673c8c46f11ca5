//! Handlers: they take their time, fail, panic, hang, and have one effect.

use std::fmt::from_fn;
use std::sync::Arc;
use std::time::Duration;

use aws_sdk_dynamodb::types::{AttributeValue, Update};
use serde::Deserialize;
use sqs_once::{Attempt, HandlerError, MessageMeta, Writes};
use tokio::time::{sleep, timeout};

use super::counts::Count;
use super::lambda::Environment;
use super::witness::End;
use super::world::World;

/// How long a handler waits for the answer to its effect's own request.
const PATIENCE: Duration = Duration::from_secs(2);

/// The payload.
#[derive(Deserialize)]
pub(crate) struct Order {
    pub(crate) key: String,
}

impl Order {
    /// The body of a message about this key.
    pub(crate) fn body(key: usize) -> String {
        format!(r#"{{"key":"k{key}"}}"#)
    }

    fn number(&self) -> usize {
        self.key
            .strip_prefix('k')
            .and_then(|key| key.parse().ok())
            .unwrap_or_default()
    }
}

/// What a handler will do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    Succeed,
    FailBefore,
    FailAfter,
    PanicBefore,
    PanicAfter,
    GiveUp,
    HangBefore,
    HangAfter,
}

impl Script {
    const TROUBLE: [Self; 7] = [
        Self::FailBefore,
        Self::FailAfter,
        Self::PanicBefore,
        Self::PanicAfter,
        Self::GiveUp,
        Self::HangBefore,
        Self::HangAfter,
    ];
}

/// A handler that runs. Dropped before its end, it was cancelled.
struct Running {
    world: Arc<World>,
    attempt: usize,
}

impl Running {
    fn end(&self, end: End) {
        self.world.witness().ended(self.attempt, end);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end(End::Cancelled);
    }
}

/// A handler whose effect is a request of its own.
pub(crate) async fn apart(
    environment: Arc<Environment>,
    order: Order,
    meta: MessageMeta,
    attempt: Attempt,
) -> Result<(), HandlerError> {
    work(&environment, &order, &meta, attempt, true).await
}

/// A handler whose effect commits with its record.
pub(crate) async fn together(
    environment: Arc<Environment>,
    order: Order,
    meta: MessageMeta,
    attempt: Attempt,
) -> Result<Writes, HandlerError> {
    work(&environment, &order, &meta, attempt, false).await?;
    let update = Update::builder()
        .table_name("effects")
        .key("id", AttributeValue::S(order.key))
        .update_expression("ADD times :one")
        .expression_attribute_values(":one", AttributeValue::N("1".to_owned()))
        .build()
        .map_err(HandlerError::terminal)?;
    Ok(Writes::new().update(update))
}

async fn work(
    environment: &Environment,
    order: &Order,
    meta: &MessageMeta,
    attempt: Attempt,
    is_apart: bool,
) -> Result<(), HandlerError> {
    let Environment { world, process, .. } = environment;
    let key = order.number();
    let number = |name: &str| {
        let text = meta.system_attribute(name).unwrap_or_default();
        text.parse().unwrap_or_default()
    };
    let invocation = number(INVOCATION);
    let message = number(MESSAGE);
    world
        .network
        .timeline()
        .note(process, format_args!("handles k{key} (m{message})"));
    let running = Running {
        attempt: world
            .witness()
            .started(process, invocation, message, key, attempt.fence()),
        world: Arc::clone(world),
    };
    let script = script(world);
    pause(environment).await;
    before(&running, process, script).await?;
    if is_apart {
        effect(environment, &running, key, message).await?;
        pause(environment).await;
    }
    after(&running, script).await?;
    running.end(End::Done);
    Ok(())
}

/// The names of attributes that tell a handler which delivery is its own.
pub(crate) const INVOCATION: &str = "Invocation";
pub(crate) const MESSAGE: &str = "Message";

fn script(world: &World) -> Script {
    let (chance, mut script) = (&world.chance, Script::Succeed);
    if world.is_troubled() && chance.once_in(6) {
        script = chance.pick(&Script::TROUBLE);
        world.witness().counts.add(match script {
            Script::Succeed | Script::FailBefore | Script::FailAfter => Count::FailedHandlers,
            Script::PanicBefore | Script::PanicAfter => Count::Panics,
            Script::GiveUp => Count::TerminalHandlers,
            Script::HangBefore | Script::HangAfter => Count::Hangs,
        });
    }
    script
}

async fn before(
    running: &Running,
    process: &super::process::Process,
    script: Script,
) -> Result<(), HandlerError> {
    match script {
        Script::FailBefore => fail(running),
        Script::PanicBefore => panic(running),
        Script::GiveUp => {
            running.end(End::Failed);
            running
                .world
                .network
                .timeline()
                .note(process, "handler gives up for good");
            Err(HandlerError::terminal("the simulation wants it"))
        }
        Script::HangBefore => std::future::pending().await,
        _ => Ok(()),
    }
}

async fn after(running: &Running, script: Script) -> Result<(), HandlerError> {
    match script {
        Script::FailAfter => fail(running),
        Script::PanicAfter => panic(running),
        Script::HangAfter => std::future::pending().await,
        _ => Ok(()),
    }
}

fn fail(running: &Running) -> Result<(), HandlerError> {
    running.end(End::Failed);
    Err(HandlerError::retry("the simulation wants it"))
}

/// A panic as any other, but for the line that the panic hook prints.
fn panic(running: &Running) -> ! {
    running.end(End::Failed);
    std::panic::resume_unwind(Box::new("the simulation wants it"))
}

async fn effect(
    environment: &Environment,
    running: &Running,
    key: usize,
    message: usize,
) -> Result<(), HandlerError> {
    let Environment { world, process, .. } = environment;
    let attempt = running.attempt;
    let carry_out = {
        let world = Arc::clone(world);
        move || {
            world.witness().effect(attempt);
            world.judge_order(Some(message));
        }
    };
    let what = from_fn(move |f| write!(f, "sends the effect of k{key}"));
    let passed = world.network.pass(process, what, carry_out);
    if let Ok(Ok(())) = timeout(PATIENCE, passed).await {
        return Ok(());
    }
    world.witness().unanswered(attempt);
    running.end(End::Failed);
    Err(HandlerError::retry("its effect was not answered"))
}

/// A while in which anything may happen to the process.
async fn pause(environment: &Environment) {
    let Environment {
        world,
        process,
        clock,
        ..
    } = environment;
    let chance = &world.chance;
    let is_troubled = world.is_troubled();
    let longest = if is_troubled && chance.once_in(6) {
        4000
    } else {
        40
    };
    sleep(chance.millis(0..longest)).await;
    if is_troubled {
        match chance.below(120) {
            0 | 1 => world.crash(process),
            2 | 3 => world.freeze(process),
            4..8 => world.set_clock(process, clock),
            _ => {}
        }
    }
    process.goes_on().await;
}
