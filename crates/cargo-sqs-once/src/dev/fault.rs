//! A fault to inject, such as `kill=5%`.

use super::outage::{Outage, OutageError};
use sqs_once_local::{Faults, Percent, PercentError};
use std::str::FromStr;

/// What `--fault` names.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Fault {
    Share(Kind, Percent),
    Outage(Outage),
}

/// A fault that happens to a share of the messages or invocations.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Duplicate,
    Kill,
    DropResponse,
    Slow,
    Outlive,
}

impl Kind {
    pub(crate) const ALL: [(&str, Self); 5] = [
        ("duplicate", Self::Duplicate),
        ("kill", Self::Kill),
        ("drop-response", Self::DropResponse),
        ("slow", Self::Slow),
        ("outlive", Self::Outlive),
    ];

    /// The share of this kind.
    pub(crate) fn of(self, faults: &mut Faults) -> &mut Percent {
        match self {
            Self::Duplicate => &mut faults.duplicate,
            Self::Kill => &mut faults.kill,
            Self::DropResponse => &mut faults.drop_response,
            Self::Slow => &mut faults.slow,
            Self::Outlive => &mut faults.outlive,
        }
    }
}

impl FromStr for Fault {
    type Err = FaultError;

    fn from_str(text: &str) -> Result<Self, FaultError> {
        let (kind, value) = text.split_once('=').ok_or(FaultError::Kind)?;
        if kind == "unavailable" {
            return Ok(Self::Outage(value.parse()?));
        }
        let known = Kind::ALL.iter().find(|(name, _)| *name == kind);
        let (_, kind) = known.ok_or(FaultError::Kind)?;
        Ok(Self::Share(*kind, value.parse()?))
    }
}

/// The text is no fault.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum FaultError {
    #[error(
        "expected duplicate, kill, drop-response, slow or outlive with a share, such as kill=5%, or \
         unavailable=payments:2m"
    )]
    Kind,
    #[error(transparent)]
    Share(#[from] PercentError),
    #[error(transparent)]
    Outage(#[from] OutageError),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_a_kind_and_a_share_or_an_outage() {
        let mut faults = Faults::default();
        for (name, kind) in Kind::ALL {
            let fault: Fault = format!("{name}=20%").parse().unwrap();
            let Fault::Share(found, share) = fault else {
                panic!("{name} has no share");
            };
            assert_eq!(found, kind);
            *kind.of(&mut faults) = share;
            let wrong = format!("{name}=20").parse::<Fault>();
            assert!(matches!(wrong, Err(FaultError::Share(_))), "{name}");
        }
        let twenty = "20%".parse().unwrap();
        let all = [
            faults.duplicate,
            faults.kill,
            faults.drop_response,
            faults.slow,
            faults.outlive,
        ];
        assert_eq!(all, [twenty; 5]);
        let outage = "unavailable=payments:2m".parse::<Fault>();
        assert!(matches!(outage, Ok(Fault::Outage(_))));
        for wrong in ["kill", "killed=5%", "=5%", ""] {
            assert_eq!(wrong.parse::<Fault>(), Err(FaultError::Kind), "{wrong}");
        }
    }
}
