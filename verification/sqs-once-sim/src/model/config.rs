//! The size of a model, and how much may go wrong in it.

use super::properties;
use super::state::Delivery;
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
    pub skews: [i8; 3],
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
        let crash = Trouble {
            crashes: 1,
            resends: 1,
            duplicates: 1,
            ..Trouble::default()
        };
        let late = Trouble {
            resends: 1,
            failures: 1,
            duplicates: 1,
            ..Trouble::default()
        };
        let silent = Trouble {
            silences: 1,
            cancels: 1,
            duplicates: 1,
            ..Trouble::default()
        };
        let stale = Trouble {
            silences: 1,
            failures: 1,
            overruns: 1,
            ..Trouble::default()
        };
        let again = Trouble {
            resends: 1,
            failures: 3,
            ..Trouble::default()
        };
        let renewed = Trouble {
            resends: 1,
            failures: 1,
            renewals: 2,
            ..Trouble::default()
        };
        let forgotten_late = Trouble {
            resends: 1,
            duplicates: 1,
            forgets: 1,
            ..Trouble::default()
        };
        let forgotten_silent = Trouble {
            silences: 1,
            failures: 1,
            renewals: 1,
            forgets: 1,
            ..Trouble::default()
        };
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
                skews: [0, 0, 2],
                breaks: Some(properties::ONE_LIVE_OWNER),
                ..Self::new("clocks-too-far-apart", Way::ClaimFirst, &[0], crash)
            },
        ]
    }

    /// Configurations that need a release build: `writes-large` has 14 million states, the others up to 7 million.
    fn large() -> Vec<Self> {
        let most = Trouble {
            crashes: 1,
            resends: 1,
            silences: 1,
            failures: 1,
            ..Trouble::default()
        };
        let crash = Trouble {
            silences: 0,
            ..most
        };
        let fewer = Trouble {
            failures: 0,
            ..crash
        };
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
            skews: [0, 0, 1],
            receives: 3,
            trouble,
            mutant: None,
            breaks: None,
        }
    }
}
