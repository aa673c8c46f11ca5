//! Decisions by the item under the other id of a key.

use sqs_once::store::{self, Fence, Seen, Settling, Timestamp};
use sqs_once::unstable::{
    Admission, carried_over, ends_refused, on_found_under_other_id, takes_over,
};

use super::super::config::Config;
use super::super::fence::{Mark, Run};
use super::super::request::Saw;
use super::super::state::{Delivery, Item};
use super::items::{RETENTION, as_fence, as_mark, as_owner, at, decode, encode};
use super::{Ending, Verdict, admits, as_claim, as_seen, refusal};
use crate::simulation::Mutant;

/// What follows from the item under the other id.
#[derive(Clone, Copy, Debug)]
pub(in crate::model) enum Looked {
    Run(Run),
    /// The worker takes the item from its owner first.
    TakeOver,
    CarryOver {
        claimed: Mark,
        follows: Mark,
        run: Run,
    },
    /// The claim ends, and the record with this verdict.
    GiveBack(Ending, Verdict),
}

/// Decides by the item that was read under the other id.
pub(in crate::model) fn looked(
    config: &Config,
    owner: Delivery,
    run: Run,
    found: Option<Item>,
) -> Looked {
    let Some(item) = found.map(decode) else {
        return Looked::Run(run);
    };
    let takes = takes_over(&claim_of(owner, run), as_owner(owner.taker()), &item);
    match takes.is_some() && !config.has(Mutant::OtherIdLeft) {
        true => Looked::TakeOver,
        false => decided(config, owner, run, &item),
    }
}

/// Claims the item under the other id, released from the start, and decides by what it holds then. The first result is
/// the written item.
pub(in crate::model) fn taken(
    config: &Config,
    owner: Delivery,
    (seen, run): (Saw, Run),
    standing: Option<Item>,
) -> (Option<Item>, Looked) {
    let Some(item) = standing.map(decode) else {
        return (None, Looked::Run(run));
    };
    let mut claim = claim_of(owner, run);
    claim.owner = as_owner(owner.taker());
    claim.lease_until = Timestamp::default();
    claim.seen = as_seen(seen, Some(&item));
    if !admits(config, &claim, Some(&item)) {
        // What another worker wrote in the meantime decides. If its owner still has it, the claim is tried again.
        let looked = match takes_over(&claim, claim.owner, &item) {
            Some(_) => Looked::TakeOver,
            None => decided(config, owner, run, &item),
        };
        return (None, looked);
    }
    let item = claim.write(Some(&item));
    let written = encode(config, &item, owner.taker(), standing);
    (Some(written), decided(config, owner, run, &item))
}

fn decided(config: &Config, owner: Delivery, run: Run, item: &store::Item) -> Looked {
    let claim = claim_of(owner, run);
    let first = |run: Run| {
        run.first
            .map(|first| Timestamp::from_millis(as_fence(first).get()))
    };
    let known = (as_fence(run.fence), first(run));
    let mut item = item.clone();
    if config.has(Mutant::OtherFenceIgnored) {
        // The fence that follows is the claim's own.
        item.fence = Some(Fence::from_stored(known.0.get() - 1));
    }
    let (mut fence, mut first) = match on_found_under_other_id(&claim, known, &item) {
        Admission::Run {
            fence,
            first_attempt,
        } => (fence, first_attempt),
        Admission::Refused(refused) => {
            let kept = at(0) + RETENTION;
            let ending = match ends_refused(&claim, known, (&refused, &item), None, kept) {
                Settling::Complete { .. } => Ending::Copy,
                Settling::Renew {
                    fence: Some(carry), ..
                } if !config.has(Mutant::RefusedIsReleased) => Ending::CarryOver {
                    lease: None,
                    claimed: as_mark(carry.claimed),
                    follows: as_mark(carry.follows),
                },
                _ => Ending::Release,
            };
            return Looked::GiveBack(ending, refusal(refused));
        }
    };
    if config.has(Mutant::OtherAgeIgnored) {
        (fence, first) = (fence.max(known.0), known.1);
    }
    let follows = carried_over(known, (fence, first));
    let run = Run {
        fence: as_mark(fence),
        first: first.map(|first| as_mark(Fence::first(first))),
        ..run
    };
    match follows.filter(|_| !config.has(Mutant::CarryOverUnwritten)) {
        Some(follows) => Looked::CarryOver {
            claimed: as_mark(known.0),
            follows: as_mark(follows),
            run,
        },
        None => Looked::Run(run),
    }
}

/// The worker's claim of its own id. Its lease does not matter here.
fn claim_of(owner: Delivery, run: Run) -> store::Claim {
    let mut claim = as_claim(owner, run.now, run.now);
    if run.over {
        claim.seen = Seen::Item(Some(Fence::default()));
    }
    claim
}
