//! Logs in Lambda's format.
//!
//! Text from outside is logged as a string field (`error = error.to_string()`), never displayed (`%error`): the text format
//! escapes only the former, and a line break in the latter would start a new line.

mod invocation;
mod json;
mod metrics;
mod output;
mod settings;
#[cfg(feature = "opentelemetry")]
pub(crate) mod spans;

use std::env;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Filter, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, fmt};

use crate::env::process_env;
pub use crate::report::Outcome;
pub(crate) use invocation::Identity;
use invocation::Sampling;
use json::JsonLines;
#[cfg(feature = "dynamodb")]
pub(crate) use json::json_text;
pub use metrics::Metrics;
pub(crate) use metrics::{BatchMetrics, Meter, Seen};
use output::Output;
pub(crate) use output::flush;
#[cfg(feature = "opentelemetry")]
pub(crate) use settings::AfterAnswer;
pub use settings::Telemetry;

/// The target of the line about each message.
pub(crate) const RECORD: &str = "sqs_once::record";

/// The fields of an invocation that the line about a message does not have. They would be a fifth of the log.
const OF_INVOCATION: [&str; 2] = ["xray_trace_id", "cold_start"];

/// The kind of spans that process messages, for OpenTelemetry. Only the field `otel.kind` can set it; a field without a
/// value is not logged.
pub(crate) const CONSUMER: Option<&str> = match cfg!(feature = "opentelemetry") {
    true => Some("consumer"),
    false => None,
};

/// The variable that sets the share of sampled invocations, which Powertools reads as well.
pub(crate) const SAMPLE_RATE: &str = "POWERTOOLS_LOGGER_SAMPLE_RATE";

/// The most detailed level of crates that would log whole requests at a more detailed one: bodies, receipt handles,
/// credentials, the keys of objects in S3, and the parameters of SQL statements.
const QUIET: [(&str, LevelFilter); 7] = [
    ("lambda_runtime", LevelFilter::DEBUG),
    ("aws_", LevelFilter::DEBUG),
    ("aws_sdk_s3", LevelFilter::INFO),
    (
        "aws_smithy_runtime::client::orchestrator::endpoints",
        LevelFilter::INFO,
    ),
    ("hyper", LevelFilter::DEBUG),
    ("rustls", LevelFilter::DEBUG),
    ("tokio_postgres", LevelFilter::INFO),
];

/// A duration in milliseconds, as logs and metrics have it. CloudWatch charges for each digit, so none is below a
/// microsecond.
pub(crate) fn millis(duration: Duration) -> f64 {
    duration.as_micros() as f64 / 1000.0
}

/// Sets up logging on stdout, unless the program already did: JSON lines if Lambda is configured for them
/// (`AWS_LAMBDA_LOG_FORMAT=JSON`), otherwise text. `RUST_LOG` or `AWS_LAMBDA_LOG_LEVEL` sets the level; the default is
/// `info`. The crates in [`QUIET`] log at most at their level there, unless `RUST_LOG` names them. Sampled invocations
/// log at `debug` and above.
pub(crate) fn init() {
    let is_json =
        env::var("AWS_LAMBDA_LOG_FORMAT").is_ok_and(|format| format.eq_ignore_ascii_case("json"));
    let text = fmt::layer().with_ansi(false).with_writer(Output);
    match (is_json, sampling()) {
        (true, None) => set_up(JsonLines, levels()),
        (true, Some(sampling)) => set_up(JsonLines, sampling),
        (false, None) => set_up(text, levels()),
        (false, Some(sampling)) => set_up(text, sampling),
    }
}

/// This filter applies only to the log. Traces have another filter.
fn set_up<L, F>(log: L, filter: F)
where
    L: Layer<Registry> + Send + Sync,
    F: Filter<Registry> + Send + Sync + 'static,
{
    let registry = tracing_subscriber::registry().with(log.with_filter(filter));
    #[cfg(feature = "opentelemetry")]
    let registry = registry.with(spans::layer());
    // Fails if the program has its own subscriber, which then stays in use.
    let _ = registry.try_init();
}

/// Used only if configured, because checking the spans around every event costs time.
fn sampling() -> Option<Sampling> {
    process_env(SAMPLE_RATE)?;
    let usual = levels();
    let level = usual.default_level().unwrap_or(LevelFilter::OFF);
    let sampled = usual.clone().with_default(level.max(LevelFilter::DEBUG));
    Some(Sampling { usual, sampled })
}

fn levels() -> Targets {
    let chosen = process_env("RUST_LOG");
    let chosen = chosen.and_then(|filter| filter.parse().ok());
    let chosen: Targets = chosen.unwrap_or_else(|| {
        let level = match env::var("AWS_LAMBDA_LOG_LEVEL").as_deref() {
            Ok("TRACE") => LevelFilter::TRACE,
            Ok("DEBUG") => LevelFilter::DEBUG,
            Ok("WARN") => LevelFilter::WARN,
            Ok("ERROR" | "FATAL") => LevelFilter::ERROR,
            _ => LevelFilter::INFO,
        };
        Targets::new().with_default(level)
    });
    let default = chosen.default_level().unwrap_or(LevelFilter::OFF);
    let mut unnamed = QUIET
        .map(|(target, level)| (target, default.min(level)))
        .to_vec();
    unnamed.retain(|(target, _)| chosen.iter().all(|(named, _)| named != *target));
    chosen.with_targets(unnamed)
}
