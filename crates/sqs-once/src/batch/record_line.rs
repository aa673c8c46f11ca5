//! The log line of a record.

use tracing::{Level, debug, error, info, trace, warn};

use crate::key::ItemId;
use crate::record::{CorrelationId, Message};
use crate::report::{Outcome, RecordLevels, Report};

/// Logs how a record ended.
pub(super) fn log(record: &Message, report: &Report, levels: &RecordLevels) {
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
    match levels.level_of(report) {
        Level::ERROR => line!(error),
        Level::WARN => line!(warn),
        Level::INFO => line!(info),
        Level::DEBUG => line!(debug),
        Level::TRACE => line!(trace),
    }
}
