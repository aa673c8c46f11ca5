//! The log lines of a test.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;

use crate::no_secrets;

pub(crate) type Line = HashMap<String, String>;

/// The log lines of this thread.
pub(crate) struct Log {
    lines: Arc<Mutex<Vec<Line>>>,
    _guard: DefaultGuard,
}

impl Log {
    pub(crate) fn capture() -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let layer = Capture(Arc::clone(&lines));
        Self {
            lines,
            _guard: no_secrets::watch::beside(layer),
        }
    }

    /// Removes and returns the lines of one target.
    pub(crate) fn take(&self, target: &str) -> Vec<Line> {
        let mut lines = self.lines.lock().unwrap();
        let taken = lines.extract_if(.., |line| line["target"] == target);
        taken.collect()
    }

    pub(crate) fn all(&self) -> String {
        format!("{:?}", self.lines.lock().unwrap())
    }
}

struct Capture(Arc<Mutex<Vec<Line>>>);

impl<S: tracing::Subscriber> tracing_subscriber::Layer<S> for Capture {
    fn on_event(&self, event: &tracing::Event<'_>, _: tracing_subscriber::layer::Context<'_, S>) {
        let mut fields = Fields(Line::new());
        event.record(&mut fields);
        let mut line = fields.0;
        line.insert("target".to_owned(), event.metadata().target().to_owned());
        line.insert("level".to_owned(), event.metadata().level().to_string());
        let is_record = event.metadata().target() == "sqs_once::record";
        let is_whole = line.contains_key("code") == line.contains_key("reason");
        assert!(is_whole || !is_record, "a reason without a code: {line:?}");
        self.0.lock().unwrap().push(line);
    }
}

struct Fields(Line);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().to_owned(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0.insert(field.name().to_owned(), format!("{value:?}"));
    }
}
