//! The steps that are possible in a state.

use std::fmt;

use super::config::Config;
use super::request::{Ask, Request};
use super::state::{Delivery, Place, Role, Stage, Worker, World};
use crate::way::Way;

/// One step of the model. Workers have no names: a step names the delivery that the worker is handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    /// Time passes. A worker at its deadline overruns it.
    Tick,
    /// SQS delivers `count` messages, starting with this one, to an idle worker.
    Deliver { message: u8, count: u8, role: Role },
    /// SQS redelivers a message that is in flight or already deleted.
    DeliverAgain { message: u8, role: Role },
    /// The store carries out a request, and answers if the sender still waits.
    CarryOut(Request),
    /// PostgreSQL rolls back the transaction that holds a key, and whose client is gone.
    RollBack(u8),
    /// The worker sends its request again. A retry by the consumer is `fresh`: it reads the clock again. A retry by the
    /// SDK is not.
    Resend { delivery: Delivery, fresh: bool },
    /// The worker stops waiting for an answer and treats the request as failed.
    GiveUp(Delivery),
    /// The worker asks for a longer lease, while the handler runs.
    Renew(Delivery),
    /// An operator forgets an item of a key.
    Forget(u8),
    /// The handler's effect happens, and the worker sends the settlement.
    Succeed(Delivery),
    /// The handler fails without an effect.
    Fail(Delivery),
    /// The deadline arrives. The record in progress fails, and the rest of the batch does not start.
    Cancel(Delivery),
    /// Lambda learns which records of the batch with this first one failed, and deletes the others.
    Answer(Delivery),
    /// The worker of the batch with this first record dies.
    Crash(Delivery),
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (delivery, what) = match self {
            Self::Tick => return write!(f, "a tick passes"),
            Self::Deliver {
                message,
                count,
                role,
            } => return write!(f, "SQS delivers {count} from m{message} on, {role}"),
            Self::DeliverAgain { message, role } => {
                return write!(f, "SQS delivers m{message} once more, {role}");
            }
            Self::CarryOut(request) => {
                let heard = match request.awaited {
                    true => "is answered",
                    false => "arrives late",
                };
                return write!(f, "{}: {:?} {heard}", request.owner, request.ask);
            }
            Self::RollBack(key) => {
                return write!(f, "the open transaction on k{key} is rolled back");
            }
            Self::Forget(key) => return write!(f, "the operator forgets k{key}"),
            Self::Renew(delivery) => (delivery, "asks for a longer lease"),
            Self::Resend { delivery, fresh } => match fresh {
                true => (delivery, "asks again"),
                false => (delivery, "the SDK sends again"),
            },
            Self::GiveUp(delivery) => (delivery, "waits no longer for an answer"),
            Self::Succeed(delivery) => (delivery, "the handler succeeds"),
            Self::Fail(delivery) => (delivery, "the handler fails"),
            Self::Cancel(delivery) => (delivery, "is cancelled at the deadline"),
            Self::Answer(delivery) => (delivery, "its batch is answered"),
            Self::Crash(delivery) => (delivery, "its worker dies"),
        };
        write!(f, "{delivery}: {what}")
    }
}

pub(super) fn possible(config: &Config, world: &World, actions: &mut Vec<Action>) {
    deliveries(config, world, actions);
    carried_out(world, actions);
    forgotten(world, actions);
    for worker in &world.workers {
        let Some((first, _)) = worker.batch[0] else {
            continue;
        };
        if world.trouble.crashes > 0 {
            actions.push(Action::Crash(first));
        }
        if worker.stage == Stage::Answering {
            actions.push(Action::Answer(first));
        }
        let Some(delivery) = worker.current() else {
            continue;
        };
        if worker.stage == Stage::Running {
            actions.push(Action::Succeed(delivery));
            if world.trouble.renewals > 0 && config.flow.claims_before() {
                actions.push(Action::Renew(delivery));
            }
            if world.trouble.failures > 0 {
                actions.push(Action::Fail(delivery));
            }
        }
        let may_give_up = matches!(worker.stage, Stage::Asking | Stage::Settling);
        if world.trouble.silences > 0 && may_give_up {
            actions.push(Action::GiveUp(delivery));
        }
        resent(config, world, delivery, actions);
        if world.trouble.cancels > 0 && worker.left <= 0 {
            actions.push(Action::Cancel(delivery));
        }
    }
    if time_may_pass(world) {
        actions.push(Action::Tick);
    }
}

fn deliveries(config: &Config, world: &World, actions: &mut Vec<Action>) {
    let idle = |worker: &&Worker| worker.stage == Stage::Idle;
    let mut roles: Vec<_> = world
        .workers
        .iter()
        .filter(idle)
        .map(|one| one.role)
        .collect();
    roles.dedup();
    for (message, number) in world.messages.iter().zip(0_u8..) {
        let is_new = message.place == Place::Visible;
        let again = world.trouble.duplicates > 0
            && !config.fifo
            && message.receives < config.receives
            && matches!(message.place, Place::Away(_) | Place::Acknowledged);
        for &role in &roles {
            if is_new && is_next(config, world, number) {
                let next = world.messages.get(usize::from(number) + 1);
                let has_next = next.is_some_and(|next| next.place == Place::Visible);
                let most = if config.fifo && has_next { 2 } else { 1 };
                actions.extend((1..=most).map(|count| Action::Deliver {
                    message: number,
                    count,
                    role,
                }));
            }
            if again {
                actions.push(Action::DeliverAgain {
                    message: number,
                    role,
                });
            }
        }
    }
}

/// A FIFO queue delivers no message while an earlier one of its group is still open. On a standard queue, messages with
/// the same key are interchangeable, so the first of them is delivered first.
fn is_next(config: &Config, world: &World, number: u8) -> bool {
    let number = usize::from(number);
    let mut before = world.messages.iter().zip(&config.keys).take(number);
    if config.fifo {
        return before.all(|(message, _)| message.is_over());
    }
    let is_first = world.messages[number].receives == 0;
    let key = config.keys[number];
    !is_first || before.all(|(message, other)| *other != key || message.receives > 0)
}

fn carried_out(world: &World, actions: &mut Vec<Action>) {
    let mut last = None;
    for request in &world.requests {
        let open = world.open[usize::from(request.item)];
        let waits = matches!(request.ask, Ask::Begin { .. }) && open.is_some();
        if last != Some(request) && !waits {
            actions.push(Action::CarryOut(*request));
        }
        last = Some(request);
    }
    for (open, key) in world.open.iter().zip(0_u8..) {
        if open.is_some_and(|open| !is_served(world, open.owner)) {
            actions.push(Action::RollBack(key));
        }
    }
}

fn is_served(world: &World, owner: Delivery) -> bool {
    let worker = world.worker_at(owner).map(|index| world.workers[index]);
    worker.is_some_and(|worker| worker.is_at_work())
}

fn forgotten(world: &World, actions: &mut Vec<Action>) {
    for (key, number) in world.items.iter().zip(0_u8..) {
        let is_owned = key.is_some_and(|item| item.owner != Delivery::OPERATOR);
        // An open transaction locks the item.
        if world.trouble.forgets > 0 && is_owned && world.open[usize::from(number)].is_none() {
            actions.push(Action::Forget(number));
        }
    }
}

fn resent(config: &Config, world: &World, delivery: Delivery, actions: &mut Vec<Action>) {
    let sent = world
        .requests
        .iter()
        .find(|one| one.awaited && one.owner == delivery);
    let Some(sent) = sent.filter(|_| world.trouble.resends > 0) else {
        return;
    };
    // A transaction can't be committed twice.
    if sent.ask == Ask::CommitTransaction {
        return;
    }
    let is_same = super::step::ask_for(config, world, delivery, sent.ask) == sent.ask;
    // Only the consumer's retry of a read makes a difference, because it claims again.
    let by_sdk = config.flow != Way::Transaction && !matches!(sent.ask, Ask::ReadOther { .. });
    if !is_same || !by_sdk {
        actions.push(Action::Resend {
            delivery,
            fresh: true,
        });
    }
    if by_sdk {
        actions.push(Action::Resend {
            delivery,
            fresh: false,
        });
    }
}

/// Time matters only while a message is hidden or a worker is before its deadline. `Trouble::overruns` limits how many
/// workers may pass their deadline.
fn time_may_pass(world: &World) -> bool {
    let busy = || world.workers.iter().filter(|one| one.stage != Stage::Idle);
    let away = |place| matches!(place, Place::Away(_));
    let is_waited_for =
        world.messages.iter().any(|one| away(one.place)) || busy().any(|worker| worker.left > 0);
    let overruns = busy().filter(|worker| worker.left == 0).count();
    is_waited_for && overruns <= usize::from(world.trouble.overruns)
}
