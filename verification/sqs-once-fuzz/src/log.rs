//! Captures the library's log.

use std::cell::RefCell;
use std::fmt::{Debug, Write};
use std::sync::Once;

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Appears in bodies, receipt handles and keys, and so must not appear in a log.
pub(crate) const CANARY: &str = "c4n4ry";

thread_local! {
    static LINES: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Captures what `run` logs on this thread, on every level.
pub(crate) fn of<T>(run: impl FnOnce() -> T) -> (T, String) {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // This must be the only subscriber: otherwise the checks would see no log.
        tracing::subscriber::set_global_default(Lines).expect("the first subscriber");
    });
    LINES.with_borrow_mut(String::clear);
    let result = run();
    (result, LINES.with_borrow(String::clone))
}

/// Records the values of all fields of the library's own events and spans.
struct Lines;

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("sqs_once")
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        LINES.with_borrow_mut(|lines| attributes.record(&mut Values(lines)));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        LINES.with_borrow_mut(|lines| values.record(&mut Values(lines)));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        LINES.with_borrow_mut(|lines| event.record(&mut Values(lines)));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

struct Values<'a>(&'a mut String);

impl Visit for Values<'_> {
    fn record_str(&mut self, _: &Field, value: &str) {
        self.0.push_str(value);
        self.0.push('\n');
    }

    fn record_debug(&mut self, _: &Field, value: &dyn Debug) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.0, "{value:?}");
    }

    // Numbers contain no secrets, and formatting them takes most of the time.
    fn record_f64(&mut self, _: &Field, _: f64) {}
    fn record_u64(&mut self, _: &Field, _: u64) {}
    fn record_bool(&mut self, _: &Field, _: bool) {}
}
