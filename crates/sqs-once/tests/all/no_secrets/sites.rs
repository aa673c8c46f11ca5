//! The places in the source that log, with their text.

use std::collections::BTreeMap;
use std::error::Error;
use std::path::Path;
use std::{fmt, fs};

use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::guides::files;

/// A file under `src` and a line number.
pub(crate) type Site = (String, u32);

const SAID_AT: &str = "said at ";
const SOURCE: &str = "sqs-once/src/";

/// Prints all log events from now on: every event of this crate, and the events of other crates that its logging
/// allows.
pub(crate) fn watch() {
    let quiet = ["lambda_runtime", "aws_", "hyper", "rustls"];
    let levels = Targets::new()
        .with_default(LevelFilter::TRACE)
        .with_targets(quiet.map(|target| (target, LevelFilter::DEBUG)))
        .with_targets(
            // Both log the keys of objects in S3.
            [
                "aws_sdk_s3",
                "aws_smithy_runtime::client::orchestrator::endpoints",
            ]
            .map(|target| (target, LevelFilter::INFO)),
        );
    tracing_subscriber::registry()
        .with(levels)
        .with(Watch)
        .init();
}

struct Watch;

impl<S: Subscriber> Layer<S> for Watch {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        print(attributes.metadata(), |fields| attributes.record(fields));
    }

    fn on_record(&self, _: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut fields = Fields(String::new());
        values.record(&mut fields);
        println!("recorded{}", fields.0);
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        print(event.metadata(), |fields| event.record(fields));
    }
}

fn print(metadata: &Metadata<'_>, record: impl FnOnce(&mut Fields)) {
    let mut fields = Fields(String::new());
    record(&mut fields);
    let file = metadata.file().unwrap_or_default();
    let line = metadata.line().unwrap_or_default();
    // Events of other crates have other paths, which do not matter.
    if let Some((_, file)) = file.replace('\\', "/").split_once(SOURCE) {
        println!("{SAID_AT}{file}:{line}");
    }
    let (level, target, name) = (metadata.level(), metadata.target(), metadata.name());
    println!("{level} {target} {name}{}", fields.0);
}

struct Fields(String);

impl Visit for Fields {
    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.0.push_str(&format!(" {field}={value} {value:?}"));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

/// The places that logged.
pub(crate) fn said(output: &str) -> impl Iterator<Item = Site> {
    let sites = output.lines().filter_map(|line| line.split_once(SAID_AT));
    sites.map(|(_, site)| {
        let (file, line) = site.rsplit_once(':').unwrap();
        (file.to_owned(), line.parse().unwrap())
    })
}

/// The logging calls in the source, each with its text.
pub(crate) fn in_source() -> BTreeMap<Site, String> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut sites = BTreeMap::new();
    for path in files(&source, "rs") {
        let text = fs::read_to_string(&path).unwrap();
        let lines: Vec<_> = text.lines().collect();
        let file = path.strip_prefix(&source).unwrap();
        let file = file.to_str().unwrap().replace('\\', "/");
        for (at, _) in lines.iter().enumerate().filter(|(_, line)| logs(line)) {
            let text = lines[at..lines.len().min(at + 6)].join(" ");
            sites.insert((file.clone(), u32::try_from(at + 1).unwrap()), text);
        }
    }
    assert!(sites.len() > 20, "there are more places than {sites:?}");
    sites
}

/// Whether a line calls one of tracing's macros, or one of this crate's macros on top of them.
fn logs(line: &str) -> bool {
    const MACROS: &str = "error warn info debug trace event line error_span warn_span info_span debug_span trace_span span enabled";
    if line.trim_start().starts_with("//") {
        return false;
    }
    let calls = |name: &str| {
        line.match_indices(&format!("{name}!(")).any(|(at, _)| {
            let before = line[..at].chars().next_back();
            !before.is_some_and(|before| before.is_alphanumeric() || "_$".contains(before))
        })
    };
    // A function with its own span.
    MACROS.split(' ').any(calls) || line.contains("#[instrument") || line.contains("::instrument]")
}
