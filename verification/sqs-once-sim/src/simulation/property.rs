//! Properties that hold in every schedule.

use std::fmt;

use clap::ValueEnum;

use crate::way::name;

/// A promise, checked at every step, with its words in reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Property {
    /// A message leaves its queue only when its effect is recorded, or a copy of it is in the dead-letter queue.
    #[value(name = "a message is acknowledged only if it is completed or a dead letter")]
    NothingLost,
    /// Once the weather is fair, every message finishes. Dead letters finish after they are redriven.
    #[value(name = "every message finishes after the last fault")]
    AllEnds,
    /// An effect that commits with its record happens once, and once more after each `key forget`.
    #[value(name = "an effect that commits with its record happens once")]
    CommitsOnce,
    /// Any other effect happens again only in one of the counted windows.
    #[value(name = "an effect is repeated only in the counted windows")]
    RepeatsInWindows,
    /// At most one handler of a key runs at a time, if keys are claimed. A worker whose key was forgotten does not count.
    #[value(name = "a key has at most one live owner")]
    OneOwner,
    /// Each claim of a key has a larger fence than all earlier ones.
    #[value(name = "fences grow with every claim")]
    FencesGrow,
    /// The effects of a message group happen in the order of its messages.
    #[value(name = "effects of a message group keep its order")]
    OrderKept,
    /// A settlement, such as a renewal, changes only its own claim.
    #[value(name = "a stale owner changes nothing")]
    StaleChangesNothing,
    /// No handler runs for a key that was already recorded as completed when the handler was admitted.
    #[value(name = "a completed key is not handled again")]
    RecordedIsOver,
    /// A claim that was released or completed never becomes active again.
    #[value(name = "a claim that has ended does not come back")]
    EndedStaysEnded,
    /// The claim of a cancelled handler is left to lapse: its effect may be in flight.
    #[value(name = "the claim of a cancelled handler is left to lapse")]
    CancelledLapses,
    /// A worker that learns that it owns a claim runs the handler or releases the claim.
    #[value(name = "a worker uses or releases every claim that it knows it owns")]
    OwnIsUsed,
    /// A process answers before its deadline whatever its network does, unless it is frozen or its clock is behind.
    #[value(name = "a process that is awake and whose clock is right answers before its deadline")]
    AnswersInTime,
    /// The attempt after `key forget` is a first one: its fence tells a time after that.
    #[value(name = "the attempt after `key forget` is a first one")]
    ForgottenIsNew,
    /// Fingerprints of different schemes never make a message with the same payload a payload mismatch.
    #[value(name = "fingerprints of different schemes do not conflict")]
    SchemesDiffer,
    /// If a hook after a success or a duplicate fails, its message returns.
    #[value(name = "a message is acknowledged after its hook")]
    HooksRun,
    /// A process that is awake, and whose requests arrive, renews the leases of code that outlives its invocation.
    #[value(name = "code that outlives its invocation keeps its key")]
    CodeKeepsItsKey,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&name(self))
    }
}

/// A violation of a property.
#[derive(Clone, Debug)]
pub struct Violation {
    /// The property.
    pub property: Property,
    /// What happened instead.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.property, self.what)
    }
}
