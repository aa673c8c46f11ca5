//! Lambda's JSON lines.

use std::cell::Cell;
use std::error::Error;
use std::fmt::{self, Debug};
use std::io::Write;
use std::ops::Range;
use std::time::SystemTime;

use serde::Serialize;
use time::OffsetDateTime;
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::error::chain;

use super::output::Output;
use super::{OF_INVOCATION, RECORD};

/// Writes every event to stdout as one line: a flat object with `timestamp`, `level`, the event's fields, the fields of
/// the enclosing spans, and `target`. If several fields have the same name, the event's field wins, then the innermost
/// span's.
pub(super) struct JsonLines;

/// Bytes.
const MOST_KEPT: usize = 64 * 1024;

thread_local! {
    /// A buffer to reuse for lines and fields. The formatter takes it out. If formatting a value logs another line, that
    /// line gets an empty buffer.
    static SCRATCH: Cell<Object> = Cell::default();
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for JsonLines {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Object::scratch();
        attributes.record(&mut fields);
        if let Some(span) = context.span(id) {
            span.extensions_mut().replace(fields.clone());
        }
        fields.give_back();
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        // Formatted before the span is locked, because a value may log while it is formatted.
        let mut later = Object::scratch();
        values.record(&mut later);
        if let Some(span) = context.span(id)
            && let Some(fields) = span.extensions_mut().get_mut::<Object>()
        {
            for (name, member) in later.members() {
                fields.remove(name);
                fields.push(name, member);
            }
        }
        later.give_back();
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let metadata = event.metadata();
        let mut line = Object::scratch();
        line.begin(SystemTime::now(), metadata.level().as_str());
        event.record(&mut line);
        let is_of_message = metadata.target() == RECORD;
        for span in context.event_scope(event).into_iter().flatten() {
            if let Some(fields) = span.extensions().get::<Object>() {
                for (name, member) in fields.members() {
                    let is_left_out = is_of_message && OF_INVOCATION.contains(&name);
                    if !is_left_out && !line.has(name) {
                        line.push(name, member);
                    }
                }
            }
        }
        line.name("target");
        line.text(metadata.target());
        line.json.extend_from_slice(b"}\n");
        // Never fails.
        let _ = Output.make_writer_for(metadata).write_all(&line.json);
        line.give_back();
    }
}

/// The members of a JSON object in their written form: `,"name":value`.
#[derive(Clone, Default)]
struct Object {
    json: Vec<u8>,
    names: Vec<(&'static str, Range<usize>)>,
}

impl Object {
    fn scratch() -> Self {
        let mut object = SCRATCH.try_with(Cell::take).unwrap_or_default();
        object.json.clear();
        object.names.clear();
        object
    }

    /// Keeps the memory for the next line, unless the buffer is very large.
    fn give_back(self) {
        if self.json.capacity() > MOST_KEPT {
            return;
        }
        let _ = SCRATCH.try_with(|scratch| scratch.set(self));
    }

    /// The members that Lambda reads from a line.
    fn begin(&mut self, at: SystemTime, level: &str) {
        self.json.extend_from_slice(b"{\"timestamp\":\"");
        self.json.extend_from_slice(&rfc_3339(at));
        self.json.extend_from_slice(b"\",\"level\":\"");
        self.json.extend_from_slice(level.as_bytes());
        self.json.push(b'"');
    }

    fn members(&self) -> impl Iterator<Item = (&'static str, &[u8])> {
        let names = self.names.iter().cloned();
        names.map(|(name, at)| (name, &self.json[at]))
    }

    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|(other, _)| *other == name)
    }

    fn push(&mut self, name: &'static str, member: &[u8]) {
        let start = self.json.len();
        self.json.extend_from_slice(member);
        self.names.push((name, start..self.json.len()));
    }

    fn remove(&mut self, name: &str) {
        let Some(index) = self.names.iter().position(|(other, _)| *other == name) else {
            return;
        };
        let (_, removed) = self.names.remove(index);
        for (_, at) in &mut self.names[index..] {
            *at = at.start - removed.len()..at.end - removed.len();
        }
        self.json.drain(removed);
    }

    fn name(&mut self, name: &str) {
        self.json.push(b',');
        self.text(name);
        self.json.push(b':');
    }

    fn text(&mut self, text: &str) {
        json_text(&mut self.json, text);
    }

    fn value(&mut self, value: impl Serialize) {
        // Can't fail: writing to a `Vec` never fails, and every value here is valid JSON.
        let _ = serde_json::to_writer(&mut self.json, &value);
    }

    /// The last value of a field wins, as with `Span::record`.
    fn field(&mut self, field: &Field, write: impl FnOnce(&mut Self)) {
        let name = match field.name() {
            // A field for OpenTelemetry only.
            "otel.kind" => return,
            // The line has its own.
            "timestamp" => "timestamp_",
            "level" => "level_",
            "target" => "target_",
            name => name,
        };
        self.remove(name);
        let start = self.json.len();
        self.name(name);
        write(self);
        self.names.push((name, start..self.json.len()));
    }
}

/// Values that are JSON as they are.
macro_rules! values {
    ($($record:ident: $value:ty)*) => {$(
        fn $record(&mut self, field: &Field, value: $value) {
            self.field(field, |object| object.value(value));
        }
    )*};
}

impl Visit for Object {
    values! {
        record_f64: f64 record_i64: i64 record_u64: u64
        record_i128: i128 record_u128: u128 record_bool: bool
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.field(field, |object| object.text(value));
    }

    fn record_error(&mut self, field: &Field, value: &(dyn Error + 'static)) {
        self.field(field, |object| object.text(&chain(value)));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = fmt::from_fn(|f| {
            // serde_json panics if a value fails to format. The text that was written before is kept.
            let _ = write!(f, "{value:?}");
            Ok(())
        });
        self.field(field, |object| object.value(format_args!("{text}")));
    }
}

/// Adds a text.
pub(crate) fn json_text(json: &mut Vec<u8>, text: &str) {
    let to_escape = |byte| byte < b' ' || byte == b'"' || byte == b'\\';
    // Checks every byte without an early exit, so that the compiler can vectorize the loop.
    match text.bytes().fold(false, |any, byte| any | to_escape(byte)) {
        true => drop(serde_json::to_writer(json, text)),
        false => {
            json.push(b'"');
            json.extend_from_slice(text.as_bytes());
            json.push(b'"');
        }
    }
}

/// Formats a time in UTC, with milliseconds.
fn rfc_3339(at: SystemTime) -> [u8; 24] {
    let at = OffsetDateTime::from(at);
    let mut text = *b"0000-00-00T00:00:00.000Z";
    for (end, number) in [
        (4, at.year().unsigned_abs() % 10_000),
        (7, u8::from(at.month()).into()),
        (10, at.day().into()),
        (13, at.hour().into()),
        (16, at.minute().into()),
        (19, at.second().into()),
        (23, at.millisecond().into()),
    ] {
        let mut rest = number;
        for digit in text[..end].iter_mut().rev() {
            if rest == 0 {
                break;
            }
            *digit += (rest % 10) as u8;
            rest /= 10;
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    #[test]
    fn a_timestamp_has_the_date_and_the_time_to_the_millisecond() {
        for (millis, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_868_799_999, "2000-02-29T23:59:59.999Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_700_000_000_070, "2023-11-14T22:13:20.070Z"),
        ] {
            let text = super::rfc_3339(UNIX_EPOCH + Duration::from_millis(millis));
            assert_eq!(text, expected.as_bytes());
        }
    }
}
