//! Logs in Lambda's format.

mod json;

use std::env;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use json::JsonLines;

/// Sets up logging on stdout, unless the program did so already: JSON lines where Lambda is
/// configured for them (`AWS_LAMBDA_LOG_FORMAT=JSON`), text otherwise. `RUST_LOG` or
/// `AWS_LAMBDA_LOG_LEVEL` choose the level; the default is `info`.
pub(crate) fn init() {
    let json =
        env::var("AWS_LAMBDA_LOG_FORMAT").is_ok_and(|format| format.eq_ignore_ascii_case("json"));
    let filtered = tracing_subscriber::registry().with(levels());
    // Fails when the program has its own subscriber, which then stays.
    let _ = match json {
        true => filtered.with(JsonLines).try_init(),
        false => filtered.with(fmt::layer().with_ansi(false)).try_init(),
    };
}

fn levels() -> Targets {
    if let Ok(Ok(targets)) = env::var("RUST_LOG").map(|filter| filter.parse()) {
        return targets;
    }
    let level = match env::var("AWS_LAMBDA_LOG_LEVEL").as_deref() {
        Ok("TRACE") => LevelFilter::TRACE,
        Ok("DEBUG") => LevelFilter::DEBUG,
        Ok("WARN") => LevelFilter::WARN,
        Ok("ERROR" | "FATAL") => LevelFilter::ERROR,
        _ => LevelFilter::INFO,
    };
    // Below this level these log whole requests: bodies, receipt handles, credentials.
    let quiet = level.min(LevelFilter::DEBUG);
    let quiet_targets = ["lambda_runtime", "aws_", "hyper", "rustls"];
    Targets::new()
        .with_default(level)
        .with_targets(quiet_targets.map(|target| (target, quiet)))
}
