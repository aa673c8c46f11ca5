//! A fault to inject, such as `kill=5%`.

use super::outage::Outage;
use sqs_once_local::{Faults, Percent};

/// The kinds of faults that happen to a share of the messages or invocations.
pub(super) const KINDS: [&str; 5] = ["duplicate", "kill", "drop-response", "slow", "outlive"];

/// What `--fault` names.
#[derive(Debug, Clone)]
pub(super) enum Fault {
    Share(String, Percent),
    Outage(Outage),
}

impl Fault {
    pub(super) fn parse(text: &str) -> Result<Self, Box<dyn std::error::Error + Send + Sync>> {
        match text.split_once('=') {
            Some(("unavailable", outage)) => Ok(Self::Outage(Outage::parse(outage)?)),
            Some((kind, share)) if KINDS.contains(&kind) => {
                Ok(Self::Share(kind.to_owned(), share.parse()?))
            }
            _ => {
                let kinds = KINDS.join(", ");
                Err(format!("expected one of {kinds} with a share, such as kill=5%, or unavailable=payments:2m").into())
            }
        }
    }
}

pub(super) fn share<'a>(faults: &'a mut Faults, kind: &str) -> &'a mut Percent {
    match kind {
        "duplicate" => &mut faults.duplicate,
        "kill" => &mut faults.kill,
        "drop-response" => &mut faults.drop_response,
        "slow" => &mut faults.slow,
        _ => &mut faults.outlive,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_its_own_share() {
        for kind in KINDS {
            let mut faults = Faults::default();
            *share(&mut faults, kind) = Percent::ALL;
            let shares = KINDS.map(|other| !share(&mut faults, other).is_zero());
            assert_eq!(shares, KINDS.map(|other| other == kind), "{kind}");
            let parsed = Fault::parse(&format!("{kind}=20%")).unwrap();
            assert!(matches!(parsed, Fault::Share(found, _) if found == kind));
        }
    }
}
