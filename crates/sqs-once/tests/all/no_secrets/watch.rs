//! Looks through every log line and span of this process for parts of messages.

use std::backtrace::Backtrace;
use std::collections::HashSet;
use std::error::Error;
use std::fmt::{self, Write as _};
use std::io;
use std::sync::{Mutex, Once, OnceLock};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::DefaultGuard;
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Layer, Registry};

use super::SECRETS;

/// The variable of a process that runs without the watch, because the library sets up its log.
pub(crate) const UNWATCHED: &str = "TEST_UNWATCHED";
/// The variable of a process that prints each place that logs, once.
pub(crate) const SITES: &str = "TEST_SITES";
/// The prefix of such a line.
pub(crate) const SAID_AT: &str = "said at ";
/// A process that has logged a secret prints this before it ends.
pub(crate) const LEAKED: &str = "a secret in the log of ";

/// The crates that the library's own log keeps quiet: at a more detailed level, they log whole requests.
const QUIET: [(&str, LevelFilter); 7] = [
    // The DynamoDB of the tests.
    ("dynoxide", LevelFilter::OFF),
    ("lambda_runtime", LevelFilter::DEBUG),
    ("aws_", LevelFilter::DEBUG),
    ("aws_sdk_s3", LevelFilter::INFO),
    (
        "aws_smithy_runtime::client::orchestrator::endpoints",
        LevelFilter::INFO,
    ),
    ("hyper", LevelFilter::DEBUG),
    ("rustls", LevelFilter::DEBUG),
];

/// The places that this process has reached, if it prints them.
static REACHED: OnceLock<Mutex<HashSet<(&str, u32)>>> = OnceLock::new();

/// Watches all threads of this process from now on.
pub(crate) fn everywhere() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os(UNWATCHED).is_some() {
            return;
        }
        if std::env::var_os(SITES).is_some() {
            REACHED.get_or_init(Mutex::default);
        }
        let subscriber = tracing_subscriber::registry().with(watch());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// A subscriber of this thread with this layer and the watch.
pub(crate) fn beside(layer: impl Layer<Registry> + Send + Sync) -> DefaultGuard {
    everywhere();
    let watch = std::env::var_os(UNWATCHED).is_none().then(watch);
    let subscriber = tracing_subscriber::registry().with(layer).with(watch);
    tracing::subscriber::set_default(subscriber)
}

fn watch<S: Subscriber + for<'a> LookupSpan<'a>>() -> impl Layer<S> {
    let levels = Targets::new().with_default(LevelFilter::TRACE);
    let levels = levels.with_targets(QUIET);
    Watch.with_filter(levels)
}

struct Watch;

impl<S: Subscriber> Layer<S> for Watch {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        look(attributes.metadata(), |fields| attributes.record(fields));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        look_through(&fields.0, || "a field of a span".to_owned());
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        look(event.metadata(), |fields| event.record(fields));
    }
}

fn look(metadata: &Metadata<'static>, record: impl FnOnce(&mut Fields)) {
    let file = metadata.file().unwrap_or_default();
    let line = metadata.line().unwrap_or_default();
    if let Some(reached) = REACHED.get()
        && reached.lock().unwrap().insert((file, line))
    {
        say(io::stdout(), &format!("\n{SAID_AT}{file}:{line}\n"));
    }
    // Most spans have none.
    if !metadata.fields().is_empty() {
        let mut fields = Fields(String::with_capacity(256));
        record(&mut fields);
        look_through(&fields.0, || format!("{file}:{line}"));
    }
}

pub(super) fn secret_in(text: &str) -> Option<&'static str> {
    SECRETS.into_iter().find(|secret| text.contains(secret))
}

/// Ends the process if the text contains a secret: a panic here could be caught, or end a thread that no test joins.
pub(crate) fn look_through(text: &str, place: impl FnOnce() -> String) {
    if let Some(secret) = secret_in(text) {
        let thread = std::thread::current();
        let (name, place) = (thread.name().unwrap_or("a thread"), place());
        let trace = Backtrace::force_capture();
        let said = format!("\n{LEAKED}{name}: {secret:?} at {place}:{text}\n{trace}\n");
        say(io::stderr(), &said);
        std::process::exit(101);
    }
}

/// Prints the places that the output of another process lists.
pub(crate) fn pass_on(said: &str) {
    for line in said.lines().filter(|line| line.starts_with(SAID_AT)) {
        say(io::stdout(), &format!("\n{line}\n"));
    }
}

/// Writes past the test harness, which keeps what tests print.
fn say(mut to: impl io::Write, text: &str) {
    to.write_all(text.as_bytes()).unwrap();
}

struct Fields(String);

/// Formats only what can contain a secret, because some tests log a million lines.
impl Visit for Fields {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.push(' ');
        self.0.push_str(value);
    }

    fn record_u64(&mut self, _: &Field, _: u64) {}

    fn record_i64(&mut self, _: &Field, _: i64) {}

    fn record_f64(&mut self, _: &Field, _: f64) {}

    fn record_bool(&mut self, _: &Field, _: bool) {}

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        write!(self.0, " {field}={value} {value:?}").unwrap();
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        write!(self.0, " {field}={value:?}").unwrap();
    }
}
