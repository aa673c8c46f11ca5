//! Properties that must hold in every state.

use stateright::{Model, Property};

use super::Protocol;
use super::action::Action;
use super::state::{Account, Message, Place, Stage, World};
use crate::way::Way;

/// A message is acknowledged only after its key's effect has happened and is recorded. An operator may forget the record.
pub const ACKNOWLEDGED_IS_COMMITTED: &str = "what is acknowledged is committed";
/// At most one live worker runs a key's handler, in flows that are exclusive. A worker from which an operator took the
/// key does not count.
pub const ONE_LIVE_OWNER: &str = "a key has at most one live owner";
/// No completion, release or renewal changes the item of another owner, or a key that an operator took from its sender.
pub const STALE_OWNERS_CHANGE_NOTHING: &str = "a stale owner changes nothing";
/// No late copy of a claim takes a key again after the claim was settled, or abandoned before an operator forgot the key.
/// No late renewal revives a released claim.
pub const NO_CLAIM_COMES_BACK: &str = "a claim that was given up does not come back";
/// A claim that is sent again is granted if its first copy was.
pub const NO_CLAIM_REFUSES_ITSELF: &str = "no claim is refused by its own copy";
/// Every claim has a larger fence than the one before. With two ids, every handler of the key receives a larger one.
pub const FENCES_GROW: &str = "every claim's fence is larger than the last";
/// No handler runs if the key's first attempt is longer ago than its token is valid, or at an unknown time. No worker makes
/// a key younger than it is.
pub const TOKENS_ARE_VALID: &str = "no handler runs with a token that is too old";
/// After an operator forgot all items of a key, its attempts count as first ones.
pub const FORGOTTEN_IS_NEW: &str = "a forgotten key is as old as its next attempt";
/// No handler starts for a key that was already recorded.
pub const RECORDED_IS_NOT_REPEATED: &str = "no handler starts once its key is recorded";
/// An effect that commits with its record happens once, and once more for each record that an operator forgot.
pub const EXACTLY_ONCE: &str = "an effect that commits with its record happens once";
/// An effect that does not commit with its record is repeated only after a worker stopped between the two, or an
/// operator forgot the key.
pub const ONCE_BUT_FOR_WINDOWS: &str = "an effect is repeated for a counted crash window only";
/// The effects of a message group happen in the order of its messages.
pub const ORDER_IS_KEPT: &str = "a message group keeps its order";
/// Until every message is acknowledged or a dead letter, another step is always possible, even if no lost request ever
/// arrives. Every path ends, so every message reaches one of the two.
pub const ALWAYS_A_WAY_ON: &str = "every message is acknowledged or a dead letter in the end";
/// Without trouble no message is a dead letter.
pub const NO_DEAD_LETTER_WITHOUT_TROUBLE: &str = "nothing is a dead letter without trouble";
/// Guards against vacuous results: in some state, every message is acknowledged.
pub const ALL_ACKNOWLEDGED: &str = "all may be acknowledged";
/// Guards against vacuous results: some run uses all its trouble.
pub const ALL_TROUBLE: &str = "all trouble may be used up";

pub(super) fn properties() -> Vec<Property<Protocol>> {
    let (always, sometimes) = (
        Property::<Protocol>::always,
        Property::<Protocol>::sometimes,
    );
    vec![
        always(ACKNOWLEDGED_IS_COMMITTED, acknowledged_is_committed),
        always(ONE_LIVE_OWNER, one_live_owner),
        always(STALE_OWNERS_CHANGE_NOTHING, |_, world| {
            !world.seen.stale_write
        }),
        always(NO_CLAIM_COMES_BACK, |_, world| !world.seen.claim_came_back),
        always(NO_CLAIM_REFUSES_ITSELF, |_, world| {
            !world.seen.refused_by_itself
        }),
        always(FENCES_GROW, |_, world| !world.seen.fence_stood),
        always(TOKENS_ARE_VALID, |_, world| !world.seen.old_token),
        always(FORGOTTEN_IS_NEW, |_, world| !world.seen.kept_age),
        always(RECORDED_IS_NOT_REPEATED, |_, world| {
            !world.seen.started_after_record
        }),
        always(EXACTLY_ONCE, |model, world| {
            let mut accounts = world.accounts.iter();
            !model.config.flow.is_atomic()
                || accounts.all(|account| u32::from(account.effects) <= account.allowed())
        }),
        always(ONCE_BUT_FOR_WINDOWS, once_but_for_windows),
        always(ORDER_IS_KEPT, |_, world| !world.seen.out_of_order),
        always(ALWAYS_A_WAY_ON, always_a_way_on),
        always(NO_DEAD_LETTER_WITHOUT_TROUBLE, |model, world| {
            // A key of unknown age waits for an operator.
            let is_calm = world.trouble == model.config.trouble && !model.config.is_of_unknown_age;
            let mut messages = world.messages.iter();
            !is_calm || messages.all(|message| message.place != Place::Dead)
        }),
        sometimes(ALL_ACKNOWLEDGED, |_, world| {
            let mut messages = world.messages.iter();
            messages.all(|message| message.place == Place::Acknowledged)
        }),
        sometimes(ALL_TROUBLE, |_, world| {
            world.trouble == super::Trouble::default()
        }),
    ]
}

fn acknowledged_is_committed(model: &Protocol, world: &World) -> bool {
    let mut messages = world.messages.iter().zip(&model.config.keys);
    messages.all(|(message, key)| {
        let key = usize::from(*key);
        let account = &world.accounts[key];
        let mut items = world.items.iter().enumerate();
        let is_recorded = items.any(|(item, standing)| {
            let is_of_key = model.config.key_of_item(item) == key;
            is_of_key && standing.is_some_and(|item| item.completed)
        });
        let is_forgotten = account.forgotten != 0;
        let is_committed = (is_recorded || is_forgotten) && account.effects > 0;
        message.place != Place::Acknowledged || is_committed
    })
}

fn one_live_owner(model: &Protocol, world: &World) -> bool {
    if !model.config.flow.has_owners() {
        return true;
    }
    let mut live = [0; super::state::KEYS];
    // Lambda ends a process at its deadline, so a worker after its deadline is not live.
    for worker in world.workers.iter().filter(|one| one.left >= 0) {
        if let Some(delivery) = worker.current().filter(|_| worker.is_at_work()) {
            let key = model.config.key_of(delivery);
            live[key] += u8::from(!world.accounts[key].has_forgotten(delivery));
        }
    }
    live.iter().all(|workers| *workers <= 1)
}

/// A worker that overran its deadline between effect and record counts as a window before it stops.
fn once_but_for_windows(model: &Protocol, world: &World) -> bool {
    if model.config.flow != Way::ClaimFirst {
        return true;
    }
    let allowed = |account: Account| account.allowed() + u32::from(account.windows);
    let mut allowed = world.accounts.map(allowed);
    let late = |worker: &&super::state::Worker| worker.stage == Stage::Settling && worker.left < 0;
    for worker in world.workers.iter().filter(late) {
        if let Some(delivery) = worker.current() {
            allowed[model.config.key_of(delivery)] += 1;
        }
    }
    let mut accounts = world.accounts.iter().zip(allowed);
    accounts.all(|(account, allowed)| u32::from(account.effects) <= allowed)
}

fn always_a_way_on(model: &Protocol, world: &World) -> bool {
    if world.messages.iter().all(Message::is_over) {
        return true;
    }
    let mut actions = Vec::new();
    model.actions(world, &mut actions);
    // Progress must not depend on trouble, or on a request that may be lost.
    actions.iter().any(|action| match action {
        Action::CarryOut(request) => request.awaited,
        Action::Tick
        | Action::Deliver { .. }
        | Action::RollBack(_)
        | Action::Succeed(_)
        | Action::Answer(_) => true,
        _ => false,
    })
}
