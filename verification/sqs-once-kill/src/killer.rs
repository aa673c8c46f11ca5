//! Chooses which processes are killed, and when.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::plan::{Plan, Way};

/// The delay between a kill's moment and the kill.
const LATER_MS: std::ops::Range<u64> = 0..50;
const LOOK: Duration = Duration::from_millis(5);

/// Kills the current process of an environment. A third of the kills happen at any time. A third wait for the next
/// effect, and a third for the next request that is carried out: the process dies before it gets the answer.
pub(crate) struct Killer {
    victims: Vec<mpsc::UnboundedSender<()>>,
    wait_for_effect: AtomicUsize,
    wait_for_request: AtomicUsize,
    acknowledged: watch::Sender<usize>,
}

impl Killer {
    /// Returns a killer for this many environments, and the receiver of each environment's kills.
    pub(crate) fn new(environments: usize) -> (Self, Vec<mpsc::UnboundedReceiver<()>>) {
        let channels = (0..environments).map(|_| mpsc::unbounded_channel());
        let (victims, kills) = channels.unzip();
        let killer = Self {
            victims,
            wait_for_effect: AtomicUsize::new(0),
            wait_for_request: AtomicUsize::new(0),
            acknowledged: watch::Sender::new(0),
        };
        (killer, kills)
    }

    pub(crate) fn acknowledged(&self, messages: usize) {
        self.acknowledged.send_modify(|count| *count += messages);
    }

    pub(crate) fn acknowledged_so_far(&self) -> usize {
        *self.acknowledged.borrow()
    }

    /// An effect has happened in an environment. Returns whether its process is killed for it.
    pub(crate) fn on_effect(&self, environment: usize) -> bool {
        self.strike_for(&self.wait_for_effect, environment)
    }

    /// A request from an environment was carried out. Returns whether its process is killed for it.
    pub(crate) fn on_request(&self, environment: usize) -> bool {
        self.strike_for(&self.wait_for_request, environment)
    }

    fn strike_for(&self, waiting: &AtomicUsize, environment: usize) -> bool {
        let one_less = |count: usize| count.checked_sub(1);
        let strikes = waiting
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less)
            .is_ok();
        if strikes {
            self.strike(environment);
        }
        strikes
    }

    fn strike(&self, environment: usize) {
        if let Some(victim) = self.victims.get(environment) {
            // The receiver is gone only if its environment failed, which the run reports.
            let _ = victim.send(());
        }
    }

    /// Kills as often as the plan requires, spread over the messages. Once `drained` is true, the remaining kills hit
    /// idle processes.
    pub(crate) async fn work(&self, plan: &Plan, chance: &Chance, drained: watch::Receiver<bool>) {
        let moments = (0..plan.kills).map(|_| chance.below(plan.messages));
        let mut moments: Vec<_> = moments.collect();
        moments.sort_unstable();
        let mut drained = drained;
        for moment in moments {
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
                    waiting.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    sleep(chance.millis(LATER_MS)).await;
                    self.strike(chance.below(self.victims.len()));
                }
            }
        }
        // This fails only if the run has ended and no process is left.
        let _ = drained.wait_for(|drained| *drained).await;
        for waiting in [&self.wait_for_effect, &self.wait_for_request] {
            for _ in 0..waiting.swap(0, Ordering::Relaxed) {
                self.strike(chance.below(self.victims.len()));
            }
        }
    }
}
