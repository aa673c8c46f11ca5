//! Properties that hold in every schedule.

use std::fmt;

/// A promise, checked at every step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// A message leaves its queue only when its effect is recorded, or a copy of it is in the dead-letter queue.
    NothingLost,
    /// Once the weather is fair, every message finishes. Dead letters finish after they are redriven.
    AllEnds,
    /// An effect that commits with its record happens once.
    CommitsOnce,
    /// Any other effect happens again only in one of the counted windows.
    RepeatsInWindows,
    /// At most one handler of a key runs at a time, if keys are claimed.
    OneOwner,
    /// Each claim of a key has a larger fence than all earlier ones.
    FencesGrow,
    /// The effects of a message group happen in the order of its messages.
    OrderKept,
    /// A settlement changes only its own claim.
    StaleChangesNothing,
    /// No handler runs for a key that was already recorded as completed when the handler was admitted.
    RecordedIsOver,
    /// A claim that was released or completed never becomes active again.
    EndedStaysEnded,
    /// The claim of a cancelled handler is left to lapse: its effect may be in flight.
    CancelledLapses,
    /// A worker that learns that it owns a claim runs the handler or releases the claim.
    OwnIsUsed,
    /// A process answers before its deadline whatever its network does, unless it is frozen or its clock is behind.
    AnswersInTime,
}

impl fmt::Display for Property {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NothingLost => {
                "nothing is acknowledged that is neither on record nor a dead letter"
            }
            Self::AllEnds => "every message is done once the weather is fair",
            Self::CommitsOnce => "an effect that commits with its record happens once",
            Self::RepeatsInWindows => "an effect is repeated in counted windows only",
            Self::OneOwner => "a key has one live owner at most",
            Self::FencesGrow => "fences grow with every claim",
            Self::OrderKept => "effects of a message group keep its order",
            Self::StaleChangesNothing => "a stale owner changes nothing",
            Self::RecordedIsOver => "what is on record is not handled again",
            Self::EndedStaysEnded => "a claim that has ended does not come back",
            Self::CancelledLapses => "what a cancelled handler had claimed is left to lapse",
            Self::OwnIsUsed => "a claim that its sender knows of is used or given back",
            Self::AnswersInTime => {
                "a process that is awake and whose clock is right answers before its deadline"
            }
        })
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
