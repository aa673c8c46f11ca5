//! A network that loses, delays and repeats requests of processes that may die.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::future::pending;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use clap::ValueEnum;
use parking_lot::{Mutex, MutexGuard};
use tokio::time::sleep;

use crate::chance::Chance;
use crate::way::name;

use super::process::Process;
use super::timeline::Timeline;

/// A fault that one request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Fault {
    /// The request never arrives, and its sender gets no error.
    #[value(name = "request lost")]
    LoseRequest,
    /// Neither this request nor later ones of the process arrive until the weather is fair.
    #[value(name = "process cut off")]
    CutOff,
    /// The request is carried out, but its answer never arrives.
    #[value(name = "answer lost")]
    LoseAnswer,
    /// The connection breaks before the request is carried out, which still happens much later.
    #[value(name = "request delayed")]
    Delay,
    /// The process dies before it sends the request.
    #[value(name = "process dies before it")]
    DieBefore,
    /// The process dies after the request is carried out.
    #[value(name = "process dies after it")]
    DieAfter,
    /// The process dies after it sends the request, which is carried out much later.
    #[value(name = "process dies, request delayed")]
    DieAndDelay,
    /// The store throttles the request.
    #[value(name = "throttled")]
    Throttle,
    /// Another transaction is in flight on an item that the request writes.
    #[value(name = "transaction conflict")]
    Collide,
    /// The server fails after it has carried the request out.
    #[value(name = "server fails after it")]
    Fail,
}

impl Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// How an unanswered request ends. If no answer or error ever arrives, it does not end: its sender has a timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broken {
    /// The connection broke. The request may have been carried out, or may be carried out later.
    Connection,
    Throttled,
    /// The store refused the request, because another transaction is in flight on an item that it writes.
    Conflict,
    /// The server failed after it had carried the request out.
    Failed,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Weather {
    Calm,
    /// This fault at this request, counted from 0.
    Once(u64, Fault),
    /// Any fault, at one request in `once_in`, among the first `requests` requests.
    Storm {
        once_in: u64,
        requests: u64,
    },
}

impl Weather {
    /// Calm, a single fault or a storm. Each clears later.
    pub(crate) fn any(chance: &Chance) -> Self {
        match chance.below(8) {
            0 => Self::Calm,
            1..4 => Self::Once(chance.below(24), chance.pick(Fault::value_variants())),
            _ => Self::Storm {
                once_in: 2 + chance.below(12),
                requests: 10 + chance.below(60),
            },
        }
    }
}

/// How long the sender of a request waits for its answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(2);

/// The network that all processes of a schedule share.
#[derive(Debug)]
pub(crate) struct Network {
    weather: Weather,
    chance: Chance,
    timeline: Timeline,
    requests: AtomicU64,
    is_fair: AtomicBool,
    faults: Mutex<BTreeMap<Fault, u64>>,
}

impl Network {
    pub(crate) fn new(weather: Weather, chance: Chance, timeline: Timeline) -> Self {
        Self {
            weather,
            chance,
            timeline,
            requests: AtomicU64::new(0),
            is_fair: AtomicBool::new(false),
            faults: Mutex::default(),
        }
    }

    pub(crate) fn timeline(&self) -> &Timeline {
        &self.timeline
    }

    /// Ends all faults. Delayed requests still arrive.
    pub(crate) fn clear_up(&self) {
        self.is_fair.store(true, Ordering::Relaxed);
    }

    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    pub(crate) fn faults(&self) -> MutexGuard<'_, BTreeMap<Fault, u64>> {
        self.faults.lock()
    }

    /// Sends a request, which is carried out at one instant, or never. Unless a fault loses it, it arrives even if its
    /// sender dies.
    ///
    /// Stays pending forever if the answer is lost, so the caller needs a timeout.
    pub(crate) async fn pass<A: Send + 'static>(
        &self,
        process: &Process,
        what: impl Display,
        carry_out: impl FnOnce() -> A + Send + 'static,
    ) -> Result<A, Broken> {
        process.goes_on().await;
        if process.is_cut_off() && !self.is_fair.load(Ordering::Relaxed) {
            return Err(Broken::Connection);
        }
        let fault = self.fault(process);
        let note = |more: &dyn Display| self.timeline.note(process, format_args!("{what}{more}"));
        match fault {
            None => note(&" …"),
            Some(fault) => {
                process.troubled();
                note(&format_args!(" … {fault}"));
            }
        }
        match fault {
            Some(Fault::DieBefore) => {
                process.die();
                process.goes_on().await;
            }
            Some(Fault::LoseRequest) => pending().await,
            Some(Fault::CutOff) => {
                process.cut_off();
                return Err(Broken::Connection);
            }
            Some(Fault::Throttle) => return Err(Broken::Throttled),
            Some(Fault::Collide) => return Err(Broken::Conflict),
            _ => {}
        }
        let chance = &self.chance;
        let (there, back) = (chance.millis(1..20), chance.millis(1..20));
        let is_late = matches!(fault, Some(Fault::Delay | Fault::DieAndDelay));
        let late = is_late.then(|| {
            let longest = chance.pick(&[1000, 40_000, 100_000]);
            chance.millis(100..longest)
        });
        let on_its_way = tokio::spawn(async move {
            sleep(there + late.unwrap_or_default()).await;
            carry_out()
        });
        if fault == Some(Fault::Delay) {
            return Err(Broken::Connection);
        }
        if fault == Some(Fault::DieAndDelay) {
            process.die();
            process.goes_on().await;
        }
        let answer = on_its_way.await.map_err(|_| Broken::Connection)?;
        match fault {
            Some(Fault::LoseAnswer) => pending().await,
            Some(Fault::DieAfter) => process.die(),
            Some(Fault::Fail) => return Err(Broken::Failed),
            _ => {}
        }
        sleep(back).await;
        process.goes_on().await;
        Ok(answer)
    }

    fn fault(&self, process: &Process) -> Option<Fault> {
        let at = self.requests.fetch_add(1, Ordering::Relaxed);
        let chance = &self.chance;
        let fault = match self.weather {
            _ if self.is_fair.load(Ordering::Relaxed) => None,
            _ if process.is_slow() && chance.once_in(2) => Some(Fault::Delay),
            Weather::Calm => None,
            Weather::Once(when, fault) => (at == when).then_some(fault),
            Weather::Storm { once_in, requests } => {
                let is_faulty = at < requests && chance.once_in(once_in);
                is_faulty.then(|| chance.pick(Fault::value_variants()))
            }
        }?;
        *self.faults().entry(fault).or_default() += 1;
        Some(fault)
    }
}
