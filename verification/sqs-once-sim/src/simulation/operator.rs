//! An operator, who sometimes forgets a key, as `cargo sqs-once key forget` does.

use std::sync::Arc;

use sqs_once::store::{Item, Owner, Status, Timestamp};
use sqs_once::unstable::Random;
use sqs_once_operate::Change;
use tokio::time::sleep;

use super::clock::true_time;
use super::table::Table;
use super::world::World;

/// Reads a key's item, and later writes what `key forget` writes, unless the item has changed in the meantime.
pub(crate) async fn forget(world: Arc<World>, table: Arc<Table>) {
    let id = world.id_of(world.chance.index(world.plan.keys));
    let Some(seen) = table.find(id) else { return };
    // With the option `--even-in-progress`.
    let is_forced = world.chance.once_in(4);
    if !is_forced && is_in_progress(&seen, now(&world)) {
        return;
    }
    sleep(world.chance.millis(0..3000)).await;
    let (owner, now) = (Owner::from_bits(world.chance.bits()), now(&world));
    if let Some(forgotten) = Change::Forget.write(id, Some(&seen), owner, now) {
        table.forget(&world, &seen, forgotten, now);
    }
}

/// The time by the operator's clock, which is as wrong as those of processes.
fn now(world: &World) -> Timestamp {
    let truly = true_time(world.started).as_millis();
    Timestamp::from_millis(truly.saturating_add_signed(world.ahead()))
}

fn is_in_progress(item: &Item, now: Timestamp) -> bool {
    item.status == Status::InProgress && item.lease_until >= Some(now)
}
