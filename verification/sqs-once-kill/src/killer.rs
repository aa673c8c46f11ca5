//! Chooses which processes are killed or frozen, and when.

use std::collections::VecDeque;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::plan::{Plan, Way};

/// The delay between a kill's moment and the kill.
const LATER_MS: std::ops::Range<u64> = 0..50;
/// Some freezes are shorter than the function's timeout, others longer than a lease.
pub(crate) const FROZEN_MS: std::ops::Range<u64> = 100..6_000;
const LOOK: Duration = Duration::from_millis(5);

/// What happens to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    /// SIGKILL.
    Kill,
    /// SIGSTOP, and SIGCONT after this time.
    Freeze(Duration),
}

/// Kills or freezes the current process of an environment. A third of the strikes happen at any time. A third wait for the
/// next effect, and a third for the next request that is carried out: a process that is killed dies before it gets the answer.
pub(crate) struct Killer {
    victims: Vec<mpsc::UnboundedSender<Strike>>,
    wait_for_effect: Mutex<VecDeque<Strike>>,
    wait_for_request: Mutex<VecDeque<Strike>>,
    acknowledged: watch::Sender<usize>,
}

impl Killer {
    /// Returns a killer for this many environments, and the receiver of each environment's strikes.
    pub(crate) fn new(environments: usize) -> (Self, Vec<mpsc::UnboundedReceiver<Strike>>) {
        let channels = (0..environments).map(|_| mpsc::unbounded_channel());
        let (victims, strikes) = channels.unzip();
        let killer = Self {
            victims,
            wait_for_effect: Mutex::default(),
            wait_for_request: Mutex::default(),
            acknowledged: watch::Sender::new(0),
        };
        (killer, strikes)
    }

    pub(crate) fn acknowledged(&self, messages: usize) {
        self.acknowledged.send_modify(|count| *count += messages);
    }

    pub(crate) fn acknowledged_so_far(&self) -> usize {
        *self.acknowledged.borrow()
    }

    /// An effect has happened in an environment. Returns whether its process is killed for it.
    pub(crate) fn on_effect(&self, environment: usize) -> bool {
        let Some(strike) = self.wait_for_effect.lock().pop_front() else {
            return false;
        };
        self.strike(environment, strike);
        strike == Strike::Kill
    }

    /// A request from an environment will be carried out. Returns whether its process is to be [killed](Self::kill) then.
    pub(crate) fn on_request(&self, environment: usize) -> bool {
        match self.wait_for_request.lock().pop_front() {
            Some(Strike::Kill) => true,
            Some(freeze) => {
                self.strike(environment, freeze);
                false
            }
            None => false,
        }
    }

    /// Kills the current process of an environment.
    pub(crate) fn kill(&self, environment: usize) {
        self.strike(environment, Strike::Kill);
    }

    fn strike(&self, environment: usize, strike: Strike) {
        if let Some(victim) = self.victims.get(environment) {
            // The receiver is gone only if its environment failed, which the run reports.
            let _ = victim.send(strike);
        }
    }

    /// Kills and freezes as often as the plan requires, spread over the messages. Once `drained` is true, the remaining
    /// strikes hit idle processes.
    pub(crate) async fn work(&self, plan: &Plan, chance: &Chance, drained: watch::Receiver<bool>) {
        let kills = (0..plan.kills).map(|_| Strike::Kill);
        let freezes = (0..plan.freezes).map(|_| Strike::Freeze(chance.millis(FROZEN_MS)));
        let strikes = kills.chain(freezes);
        let strikes = strikes.map(|strike| (chance.below(plan.messages), strike));
        let mut strikes: Vec<_> = strikes.collect();
        strikes.sort_unstable_by_key(|(moment, _)| *moment);
        let mut drained = drained;
        for (moment, strike) in strikes {
            while self.acknowledged_so_far() < moment && !*drained.borrow() {
                sleep(LOOK).await;
            }
            let waiting = match chance.below(3) {
                _ if *drained.borrow() => None,
                0 => Some(&self.wait_for_request),
                // Here the effect itself is such a request.
                1 if plan.way == Way::Transactional => Some(&self.wait_for_request),
                1 => Some(&self.wait_for_effect),
                _ => None,
            };
            match waiting {
                Some(waiting) => {
                    waiting.lock().push_back(strike);
                }
                None => {
                    sleep(chance.millis(LATER_MS)).await;
                    self.strike(chance.below(self.victims.len()), strike);
                }
            }
        }
        // This fails only if the run has ended and no process is left.
        let _ = drained.wait_for(|drained| *drained).await;
        for waiting in [&self.wait_for_effect, &self.wait_for_request] {
            for strike in std::mem::take(&mut *waiting.lock()) {
                self.strike(chance.below(self.victims.len()), strike);
            }
        }
    }
}
