//! Renewals: a worker renews the lease of its claim while the handler runs, and ends its process before a lease lapses
//! that it could not renew.

use std::sync::Arc;
use std::time::Duration;

use sqs_once::store::{Settled, Settlement, Settling};
use sqs_once::time::Clock;
use tokio::time::{Instant, sleep, timeout_at};

use super::counts::Count;
use super::lambda::Environment;

/// The seconds from a renewal until the new lease lapses, by the clock of the process. The short one may be shorter than the
/// lease that the claim has.
const LEASES: [u64; 2] = [8, 20];
/// The longest time between two renewals, in milliseconds.
const PAUSES: [u64; 3] = [40, 400, 4000];
/// How much earlier the process ends. Two clocks may be off by most of it, in opposite directions.
const MARGIN: Duration = Duration::from_secs(5);

/// Renews the lease of a running attempt's claim, until the attempt ends. `ends_at` is when Lambda would have killed the
/// process: the claim's own lease is alive until then.
pub(crate) async fn renew(
    environment: Arc<Environment>,
    attempt: usize,
    key: usize,
    mut ends_at: Instant,
) {
    let Environment { world, process, .. } = &*environment;
    let first_ends_at = ends_at;
    loop {
        let next = async {
            sleep(world.chance.millis(1..world.chance.pick(&PAUSES))).await;
            let lease = Duration::from_secs(world.chance.pick(&LEASES));
            let until = Instant::now() + lease - MARGIN;
            let is_at_work = world.witness().is_at_work(attempt);
            let is_renewed = is_at_work && is_renewed(&environment, attempt, key, lease).await;
            is_renewed.then_some(until)
        };
        let renewed = timeout_at(ends_at, next).await;
        if !world.witness().is_at_work(attempt) {
            if Instant::now() > first_ends_at && !process.is_dead() {
                world.count(Count::Outlived);
            }
            return;
        }
        match renewed {
            Ok(Some(until)) => ends_at = ends_at.max(until),
            Ok(None) => {}
            Err(_) => {
                world.note(process, "ends itself: code of a handler still runs");
                world.count(Count::KilledAtWork);
                return process.die();
            }
        }
    }
}

async fn is_renewed(
    environment: &Environment,
    attempt: usize,
    key: usize,
    lease: Duration,
) -> bool {
    let Environment { world, process, .. } = environment;
    let owner = world.witness().owner_of(attempt);
    let (Some(owner), Some(store)) = (owner, &environment.renewals) else {
        return false;
    };
    let renewing = Settling::renew(environment.clock.now() + lease);
    let id = process.ids().id_of(key).clone();
    let settled = store.settle(&[Settlement::new(id, owner, renewing)]).await;
    let is_refused = |one: &_| matches!(one, Ok(Settled::Refused(_)));
    if settled.iter().any(is_refused) {
        world.count(Count::RefusedRenewals);
    }
    settled
        .iter()
        .all(|one| matches!(one, Ok(Settled::Written)))
}
