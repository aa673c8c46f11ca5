//! Random histories, and the shortest one that still breaks the store.

use std::time::Duration;

use crate::key::ItemId;
use crate::random::{OsRandom, Random};
use crate::store::{
    Claim, Fence, Item, Owner, Seen, Settlement, Settling, Status, UnclaimedCompletion,
};
use crate::time::Timestamp;

use super::Fixture;
use super::row::{NOW, fingerprint};
use super::world::{Step, Way, World, broken_promise};

/// Lengths around the limits at which stores start another request.
const LENGTHS: [u64; 9] = [0, 1, 2, 24, 25, 26, 60, 100, 101];
const KEYS: u64 = 4;
const SLICES: &str = "a slice of any length has one answer for each entry, in their order, and each only for the key of its namespace";
const HISTORIES: &str = "a random history ends as the protocol decides";

pub(super) async fn slices_hold<F: Fixture>(fixture: &F) {
    for length in LENGTHS {
        holds(fixture, SLICES, length, |chance| chance.slices(length)).await;
    }
}

pub(super) async fn history_holds<F: Fixture>(fixture: &F, seed: u64) {
    let history = |chance: &mut Chance| (0..15).map(|_| chance.step()).collect();
    holds(fixture, HISTORIES, seed, history).await;
}

/// # Panics
/// With the shortest history that breaks the promise, if one does.
async fn holds<F: Fixture>(
    fixture: &F,
    promise: &str,
    seed: u64,
    generate: impl Fn(&mut Chance) -> Vec<Step>,
) {
    // Every replay uses new keys.
    let steps = || generate(&mut Chance::new(seed));
    let mut places: Vec<usize> = (0..steps().len()).collect();
    let Err(mut broken) = replay(fixture, &chosen(steps(), &places)).await else {
        return;
    };
    for at in (0..places.len()).rev() {
        let mut fewer = places.clone();
        fewer.remove(at);
        if let Err(error) = replay(fixture, &chosen(steps(), &fewer)).await {
            (places, broken) = (fewer, error);
        }
    }
    let shortest = chosen(steps(), &places);
    broken_promise(promise, &format!("seed {seed}"), &broken, shortest.iter())
}

fn chosen(steps: Vec<Step>, places: &[usize]) -> Vec<Step> {
    let steps = steps.into_iter().enumerate();
    let chosen = steps.filter(|(place, _)| places.contains(place));
    chosen.map(|(_, step)| step).collect()
}

async fn replay<F: Fixture>(fixture: &F, steps: &[Step]) -> Result<(), String> {
    let mut world = World::new(fixture, Way::default());
    for step in steps {
        world.after(step).await?;
    }
    Ok(())
}

/// SplitMix64, and the keys and owners of one replay.
struct Chance {
    state: u64,
    run: u128,
}

impl Chance {
    fn new(seed: u64) -> Self {
        Self {
            state: seed,
            run: OsRandom.bits(),
        }
    }

    fn below(&mut self, end: u64) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.state;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (bits ^ (bits >> 31)) % end
    }

    fn maybe<T>(&mut self, some: impl FnOnce(&mut Self) -> T) -> Option<T> {
        (self.below(2) == 0).then(|| some(self))
    }

    /// One of a few times that are close together or equal, since stores differ at boundaries.
    fn time(&mut self) -> Timestamp {
        let millis = match self.below(3) {
            0 => self.below(5),
            1 => 995 + self.below(10),
            _ => self.below(4000),
        };
        NOW + Duration::from_millis(millis)
    }

    /// Two keys are one in two namespaces.
    fn id(&self, key: u64) -> ItemId {
        let namespace = ["conformance", "conformance-2"][key as usize % 2];
        let hash = self.run.wrapping_add(u128::from(key / 2));
        ItemId::from_stored(format!("{namespace}#{hash:064x}"))
    }

    fn owner(&mut self) -> Owner {
        let worker = self.below(3);
        Owner::from_bits(self.run.wrapping_add(worker.into()))
    }

    fn fence(&mut self) -> Fence {
        Fence::from_stored(1 + self.below(8))
    }

    fn claim(&mut self, key: u64) -> Claim {
        let [now, lease, retention] = [(); 3].map(|()| self.time());
        let mut claim = Claim::new(self.id(key), self.owner(), now, lease, retention);
        claim.fingerprint = self.fingerprint();
        claim.seen = match self.below(4) {
            0 => Seen::Item(self.maybe(Self::fence)),
            1 => Seen::Expired(self.maybe(Self::fence)),
            _ => Seen::Nothing,
        };
        claim
    }

    fn fingerprint(&mut self) -> Option<crate::key::Fingerprint> {
        let body = ["a", "b"][self.below(2) as usize];
        self.maybe(|_| body).and_then(fingerprint)
    }

    fn data(&mut self) -> Option<std::sync::Arc<str>> {
        self.maybe(|chance| ["data 0", "data 1"][chance.below(2) as usize].into())
    }

    fn recording(&mut self) -> UnclaimedCompletion {
        let mut recording = UnclaimedCompletion::new(self.time(), self.time());
        recording.fingerprint = self.fingerprint();
        recording.data = self.data();
        recording
    }

    fn settlement(&mut self, key: u64) -> Settlement {
        let settling = match self.below(6) {
            0 => Settling::complete(self.time(), self.data()),
            1 => Settling::Release,
            2 => Settling::CompleteUnclaimed(self.recording()),
            3 => Settling::Commit(self.recording()),
            4 => Settling::renew(self.time()),
            _ => Settling::carry_over(self.time(), self.fence(), self.fence()),
        };
        Settlement::new(self.id(key), self.owner(), settling)
    }

    fn item(&mut self, key: u64) -> Item {
        let status = match self.below(3) {
            0 => Status::InProgress,
            1 => Status::Completed,
            _ => Status::Unknown("PAUSED".to_owned()),
        };
        let mut item = Item::new(self.id(key), status);
        item.lease_until = self.maybe(Self::time);
        let expiration = self.maybe(Self::time);
        item.expiration = expiration.map(|at| Timestamp::from_secs(at.as_secs()));
        item.fingerprint = self.fingerprint();
        item.data = self.data();
        item.owner = self.maybe(Self::owner);
        item.fence = self.maybe(Self::fence);
        item
    }

    /// Entries for one or more keys.
    fn entries<E>(&mut self, entry: fn(&mut Self, u64) -> E) -> Vec<E> {
        let (first, more) = (self.below(KEYS), self.below(KEYS));
        let keys = (first..=first + more).map(|key| key % KEYS);
        keys.map(|key| entry(self, key)).collect()
    }

    fn step(&mut self) -> Step {
        match self.below(14) {
            0 | 1 => Step::Claim(self.entries(Self::claim)),
            2..=4 => Step::Over(self.entries(Self::claim)),
            5..=8 => Step::Settle(self.entries(Self::settlement)),
            9 => Step::Read(self.entries(|chance, key| chance.id(key))),
            10 | 11 => {
                let key = self.below(KEYS);
                Step::Plant(self.item(key))
            }
            12 => Step::Copy(self.owner()),
            _ => {
                let key = self.below(KEYS);
                Step::Delete(self.id(key))
            }
        }
    }

    /// Claims, settles and reads this many keys, of which some have an item.
    fn slices(&mut self, length: u64) -> Vec<Step> {
        let keys = 0..length;
        let planted = keys.clone().filter(|key| key % 3 == 0);
        let mut steps: Vec<_> = planted.map(|key| Step::Plant(self.item(key))).collect();
        let claims = keys.clone().map(|key| self.claim(key)).collect();
        steps.push(Step::Claim(claims));
        let settlements = keys.clone().map(|key| self.settlement(key)).collect();
        steps.push(Step::Settle(settlements));
        steps.push(Step::Read(keys.map(|key| self.id(key)).collect()));
        steps
    }
}
