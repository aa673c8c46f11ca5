//! The log's one line a record.

use tracing::{error, info, warn};

use crate::key::ItemId;
use crate::record::{CorrelationId, Message};

use super::ledger::{Outcome, Report};

/// The line of one record at its end.
pub(super) fn log(record: &Message, report: &Report) {
    let message = match report.outcome {
        Outcome::Processed => "record processed",
        Outcome::Duplicate => "record duplicate",
        Outcome::Ignored => "record ignored",
        Outcome::InProgress => "record in progress",
        Outcome::Failed => "record failed",
        Outcome::Terminal => "record terminal",
    };
    macro_rules! line {
        ($level:ident) => {
            $level!(
                target: "sqs_once::record",
                outcome = report.outcome.as_str(),
                message_id = record.id(),
                duration_ms = report.duration.map(|duration| duration.as_secs_f64() * 1000.0),
                reason = report.reason,
                key = report.key.as_ref().map(ItemId::short),
                correlation_id = record.correlation_id().map(CorrelationId::as_str),
                receive_count = record.receive_count(),
                message,
            )
        };
    }
    match report.outcome {
        Outcome::Processed | Outcome::Duplicate if report.reason.is_some() => line!(warn),
        Outcome::Processed | Outcome::Duplicate | Outcome::Ignored | Outcome::InProgress => {
            line!(info)
        }
        Outcome::Failed => line!(warn),
        Outcome::Terminal => line!(error),
    }
}
