//! The size of a model, and how much may go wrong in it.

use super::properties;
use super::state::Delivery;
use super::version::Version;
use crate::simulation::Mutant;
use crate::way::Way;

/// How often each kind of trouble may happen in one run, at any moment and in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Trouble {
    /// A worker dies.
    pub crashes: u8,
    /// No answer arrives, and the worker sends the same request again. The first one stays in flight.
    pub resends: u8,
    /// No answer arrives, and the worker stops waiting. The request stays in flight.
    pub silences: u8,
    /// A handler fails.
    pub failures: u8,
    /// SQS redelivers a message that is in flight or already deleted.
    pub duplicates: u8,
    /// A worker's deadline arrives before its work is done. The record in progress fails, and its claim is not
    /// released.
    pub cancels: u8,
    /// A worker continues for one tick after its invocation's deadline.
    pub overruns: u8,
    /// A worker whose handler runs asks for a lease that is one tick longer.
    pub renewals: u8,
    /// An operator forgets a key.
    pub forgets: u8,
}

impl Trouble {
    /// The trouble with these names, each as often as it is named.
    fn of(names: &str) -> Self {
        let mut trouble = Self::default();
        for name in names.split(' ') {
            let count = match name {
                "crash" => &mut trouble.crashes,
                "resend" => &mut trouble.resends,
                "silence" => &mut trouble.silences,
                "failure" => &mut trouble.failures,
                "duplicate" => &mut trouble.duplicates,
                "cancel" => &mut trouble.cancels,
                "overrun" => &mut trouble.overruns,
                "renewal" => &mut trouble.renewals,
                "forget" => &mut trouble.forgets,
                _ => unreachable!("there is no {name}"),
            };
            *count += 1;
        }
        trouble
    }
}

/// A model to check.
#[derive(Clone, Debug)]
pub struct Config {
    /// Its name on the command line.
    pub name: &'static str,
    /// How effect and record are written.
    pub flow: Way,
    /// Whether the messages form one FIFO group, which SQS delivers up to two at a time.
    pub fifo: bool,
    /// The key of each message.
    pub keys: Vec<u8>,
    /// How many ticks each worker's clock is ahead.
    pub skews: Vec<i8>,
    /// The version of each worker. If one of them claims a second id, the model has one key only.
    pub versions: Vec<Version>,
    /// For how many ticks a token is valid. `None` leaves fences and ages out of the states.
    pub valid_for: Option<i8>,
    /// Whether the first id has an item without a fence at the start.
    pub is_of_unknown_age: bool,
    /// The number of deliveries after which a message moves to the dead-letter queue.
    pub receives: u8,
    /// What may go wrong.
    pub trouble: Trouble,
    /// The guard that is switched off, if any.
    pub mutant: Option<Mutant>,
    /// The property that this configuration is expected to break although every guard is in place.
    pub breaks: Option<&'static str>,
}

impl Config {
    /// Ticks from an invocation's start to its deadline.
    pub(super) const INVOCATION: i8 = 1;
    pub(super) const VISIBILITY: u8 = 2;

    /// Ticks by which a lease outlives its invocation.
    pub(super) fn lease_margin(&self) -> i8 {
        i8::from(!self.has(Mutant::NoLeaseMargin))
    }

    pub(super) fn key_of(&self, delivery: Delivery) -> usize {
        usize::from(self.keys[usize::from(delivery.message)])
    }

    /// Whether keys have two ids.
    pub(super) fn has_two_ids(&self) -> bool {
        self.versions.iter().any(|version| version.own > 0)
    }

    /// The key of an item.
    pub(super) fn key_of_item(&self, item: usize) -> usize {
        match self.has_two_ids() {
            true => 0,
            false => item,
        }
    }

    /// Whether fences and ages are part of the states.
    pub(super) fn has_ages(&self) -> bool {
        self.valid_for.is_some()
    }

    /// Whether this guard is switched off.
    pub(super) fn has(&self, mutant: Mutant) -> bool {
        self.mutant == Some(mutant)
    }

    /// The same configuration with a guard switched off.
    #[must_use]
    pub fn with(mut self, mutant: Mutant) -> Self {
        self.mutant = Some(mutant);
        self
    }

    /// Every configuration that the command line knows, smallest first.
    pub fn all() -> Vec<Self> {
        let mut all = Self::small();
        all.extend(Self::large());
        all
    }

    /// Configurations that take seconds, each with some of the trouble.
    pub fn small() -> Vec<Self> {
        let crash = Trouble::of("crash resend duplicate");
        let late = Trouble::of("resend failure duplicate");
        let silent = Trouble::of("silence duplicate cancel");
        let stale = Trouble::of("silence failure overrun");
        let again = Trouble::of("resend failure failure failure");
        let renewed = Trouble::of("resend failure renewal renewal");
        let forgotten_late = Trouble::of("resend duplicate forget");
        let forgotten_silent = Trouble::of("silence failure renewal forget");
        let twice = |name, trouble| Self {
            receives: 2,
            ..Self::new(name, Way::ClaimFirst, &[0], trouble)
        };
        vec![
            Self::new("claim-first-crash", Way::ClaimFirst, &[0], crash),
            Self::new("claim-first-late", Way::ClaimFirst, &[0], late),
            Self::new("claim-first-silent", Way::ClaimFirst, &[0], silent),
            Self::new("claim-first-stale", Way::ClaimFirst, &[0], stale),
            Self::new("claim-first-again", Way::ClaimFirst, &[0], again),
            twice("claim-first-renewed", renewed),
            twice("claim-first-forgotten-late", forgotten_late),
            twice("claim-first-forgotten-silent", forgotten_silent),
            Self::new("writes-late", Way::Writes, &[0], late),
            Self::new("writes-silent", Way::Writes, &[0], silent),
            Self::new("claimed-writes-late", Way::ClaimedWrites, &[0], late),
            Self::new("claimed-writes-stale", Way::ClaimedWrites, &[0], stale),
            Self::new("transaction-crash", Way::Transaction, &[0], crash),
            Self::new("transaction-silent", Way::Transaction, &[0], silent),
            Self::new("record-after-crash", Way::RecordAfter, &[0], crash),
            Self::new("record-after-silent", Way::RecordAfter, &[0], silent),
            Self::new("fifo-crash", Way::ClaimFirst, &[0, 1], crash).in_order(),
            Self::new("fifo-late", Way::ClaimFirst, &[0, 1], late).in_order(),
            Self::new("fifo-writes-late", Way::Writes, &[0, 1], late).in_order(),
            Self {
                skews: vec![0, 0, 2],
                breaks: Some(properties::ONE_LIVE_OWNER),
                ..Self::new("clocks-too-far-apart", Way::ClaimFirst, &[0], crash)
            },
        ]
        .into_iter()
        .chain(Self::aged())
        .collect()
    }

    /// Small configurations with fences and ages, of keys with one id or two.
    fn aged() -> Vec<Self> {
        let again = Trouble::of("failure failure");
        let late = Trouble::of("resend failure");
        let retried = Trouble::of("resend failure forget");
        let silent = Trouble::of("silence failure");
        let stale = Trouble::of("silence overrun");
        let forgotten = Trouble::of("failure forget forget");
        let reconciled = Trouble::of("failure forget");
        let duplicate = Trouble::of("duplicate");
        let refused = Trouble::of("failure duplicate");
        let unknown = |config| Self {
            is_of_unknown_age: true,
            ..config
        };
        let twice = |name, trouble| Self {
            receives: 2,
            ..Self::two_ids(name, trouble)
        };
        vec![
            Self::of_age("aged-forgotten", forgotten),
            unknown(Self::of_age("aged-unknown", forgotten)),
            Self::two_ids("two-ids-again", again),
            Self::two_ids("two-ids-late", late),
            twice("two-ids-retried", retried),
            Self::two_ids("two-ids-silent", silent),
            Self::two_ids("two-ids-stale", stale),
            Self::two_ids("two-ids-refused", refused),
            twice("two-ids-forgotten", forgotten),
            unknown(Self::two_ids("two-ids-unknown", reconciled)),
            Self {
                versions: vec![Version::ALONE, Version::NEW],
                breaks: Some(properties::ONE_LIVE_OWNER),
                ..Self::two_ids("two-ids-unread", duplicate)
            },
        ]
    }

    /// Large configurations of keys with two ids.
    fn large_aged() -> Vec<Self> {
        let late = Trouble::of("resend failure duplicate");
        let silent = Trouble::of("crash silence failure");
        let stale = Trouble::of("silence duplicate overrun");
        let forgotten = Trouble::of("silence failure forget forget");
        let apart = |name, trouble| Self {
            skews: vec![0, 0, 1],
            versions: vec![Version::OLD, Version::NEW, Version::NEW],
            ..Self::two_ids(name, trouble)
        };
        vec![
            apart("two-ids-late-large", late),
            apart("two-ids-silent-large", silent),
            apart("two-ids-stale-large", stale),
            apart("two-ids-forgotten-large", forgotten),
            Self {
                is_of_unknown_age: true,
                ..apart("two-ids-unknown-large", forgotten)
            },
        ]
    }

    fn of_age(name: &'static str, trouble: Trouble) -> Self {
        Self {
            valid_for: Some(4),
            skews: vec![0; 2],
            versions: vec![Version::ALONE; 2],
            ..Self::new(name, Way::ClaimFirst, &[0], trouble)
        }
    }

    fn two_ids(name: &'static str, trouble: Trouble) -> Self {
        Self {
            versions: vec![Version::OLD, Version::NEW],
            ..Self::of_age(name, trouble)
        }
    }

    /// Configurations that need a release build: `writes-large` has 14 million states, the others up to 7 million.
    fn large() -> Vec<Self> {
        let most = Trouble::of("crash resend silence failure");
        let crash = Trouble::of("crash resend failure");
        let fewer = Trouble::of("crash resend");
        let two = |name, flow, trouble| Self {
            receives: 2,
            ..Self::new(name, flow, &[0, 0, 1], trouble)
        };
        vec![
            two("writes-large", Way::Writes, most),
            two("transaction-large", Way::Transaction, crash),
            two("record-after-large", Way::RecordAfter, crash),
            two("fifo-large", Way::ClaimFirst, most).in_order(),
            two("fifo-writes-large", Way::Writes, most).in_order(),
            two("claimed-writes-large", Way::ClaimedWrites, fewer),
            two("claim-first-large", Way::ClaimFirst, fewer),
        ]
        .into_iter()
        .chain(Self::large_aged())
        .collect()
    }

    /// Uses a FIFO queue, which does not redeliver a message that is in flight.
    fn in_order(mut self) -> Self {
        self.fifo = true;
        self.trouble.duplicates = 0;
        self
    }

    fn new(name: &'static str, flow: Way, keys: &[u8], trouble: Trouble) -> Self {
        Self {
            name,
            flow,
            fifo: false,
            keys: keys.to_vec(),
            skews: vec![0, 0, 1],
            versions: vec![Version::ALONE; 3],
            valid_for: None,
            is_of_unknown_age: false,
            receives: 3,
            trouble,
            mutant: None,
            breaks: None,
        }
    }
}
