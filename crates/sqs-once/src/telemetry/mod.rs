//! Logs in Lambda's format.
//!
//! What may come from outside is a text in a field (`error = error.to_string()`), never displayed (`%error`): in the text
//! format only the former is escaped, and a line break in the latter would begin a line of its own.

mod json;

use std::env;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::fmt;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use json::JsonLines;

/// Below `debug` these log whole requests: bodies, receipt handles, credentials.
const QUIET: [&str; 4] = ["lambda_runtime", "aws_", "hyper", "rustls"];

/// Sets up logging on stdout, unless the program did so already: JSON lines where Lambda is
/// configured for them (`AWS_LAMBDA_LOG_FORMAT=JSON`), text otherwise. `RUST_LOG` or
/// `AWS_LAMBDA_LOG_LEVEL` choose the level; the default is `info`. Those in [`QUIET`] stay at `debug` unless
/// `RUST_LOG` names them.
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
    let chosen = env::var("RUST_LOG")
        .ok()
        .and_then(|filter| filter.parse().ok());
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
    let quiet = chosen
        .default_level()
        .unwrap_or(LevelFilter::OFF)
        .min(LevelFilter::DEBUG);
    let unnamed = QUIET
        .into_iter()
        .filter(|target| chosen.iter().all(|(named, _)| named != *target));
    let unnamed: Vec<_> = unnamed.map(|target| (target, quiet)).collect();
    chosen.with_targets(unnamed)
}
