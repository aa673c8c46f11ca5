//! Reads the lines that tell how messages ended.

use super::names::{Key, Names};
use super::unread;
use anyhow::{Context, Result, bail};
use flate2::read::MultiGzDecoder;
use indicatif::ProgressBar;
use serde::Deserialize;
use serde::de::value::{Error as ValueError, StrDeserializer};
use std::borrow::Cow;
use std::collections::hash_map::DefaultHasher;
use std::fs::File;
use std::hash::{Hash, Hasher};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// The `target` of the line that the library writes for every message.
const TARGET: &str = "sqs_once::record";

/// The codes of failures without an effect: the handler was not called, or nothing was written. After any other failure,
/// also one with a code of a later version, the effect may have happened.
const WITHOUT_EFFECT: [&str; 18] = [
    "key-missing",
    "key-invalid",
    "extractor-failed",
    "body-unreadable",
    "body-not-fetched",
    "envelope-unreadable",
    "preparation-panicked",
    "no-route",
    "in-progress",
    "payload-mismatch",
    "unknown-status",
    "not-claimed",
    "not-committed",
    "condition-not-met",
    "not-started",
    "no-room",
    "earlier-message",
    "behind-dead-letter",
];

/// The lines of all files.
#[derive(Debug, Default)]
pub(super) struct Lines {
    pub(super) ends: Vec<End>,
    pub(super) turns: Vec<Turn>,
    pub(super) names: Names,
    codes: Vec<Box<str>>,
    /// Lines of messages that could not be read.
    pub(super) unread: u64,
    /// The lines are of another library. They name whole keys, and no messages.
    pub(super) are_events: bool,
}

/// How a message ended in one of its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    /// A hash of the message id.
    pub(super) message: u64,
    /// Milliseconds since the epoch.
    pub(super) at: u64,
    /// `None` if the line has no key.
    pub(super) key: Option<Key>,
    pub(super) outcome: Outcome,
    /// The number of its code.
    pub(super) code: u16,
    /// How often SQS had delivered the message.
    pub(super) deliveries: u16,
    /// Attempts that may have had an effect beside the one of a processed message.
    pub(super) unknown: u16,
}

/// A message of a FIFO queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Turn {
    /// The digits that a line has of the group.
    pub(super) group: u64,
    pub(super) sequence: u128,
    /// Milliseconds since the epoch.
    pub(super) at: u64,
    pub(super) outcome: Outcome,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Outcome {
    Processed,
    Duplicate,
    Ignored,
    InProgress,
    Failed,
    Terminal,
    #[serde(other)]
    Unknown,
}

impl Outcome {
    /// Its name in the log.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Processed => "processed",
            Self::Duplicate => "duplicate",
            Self::Ignored => "ignored",
            Self::InProgress => "in_progress",
            Self::Failed => "failed",
            Self::Terminal => "terminal",
            Self::Unknown => "unknown",
        }
    }

    /// Whether the message needs no other delivery. A terminal one returns if it could not be moved.
    pub(super) fn is_end(self) -> bool {
        matches!(self, Self::Processed | Self::Duplicate | Self::Ignored)
    }
}

#[derive(Deserialize)]
struct Record<'a> {
    #[serde(borrow)]
    target: Cow<'a, str>,
    #[serde(borrow)]
    timestamp: Cow<'a, str>,
    #[serde(borrow)]
    message_id: Cow<'a, str>,
    #[serde(borrow)]
    key: Option<Cow<'a, str>>,
    #[serde(borrow)]
    group: Option<Cow<'a, str>>,
    #[serde(borrow)]
    sequence: Option<Cow<'a, str>>,
    outcome: Outcome,
    #[serde(borrow)]
    code: Option<Cow<'a, str>>,
    #[serde(borrow)]
    reason: Option<Cow<'a, str>>,
    receive_count: Option<u32>,
}

impl Turn {
    pub(super) fn is_effect(&self) -> bool {
        self.outcome == Outcome::Processed
    }
}

impl Record<'_> {
    fn turn(&self, at: u64) -> Option<Turn> {
        Some(Turn {
            group: u64::from_str_radix(self.group.as_deref()?, 16).ok()?,
            sequence: self.sequence.as_deref()?.parse().ok()?,
            at,
            outcome: self.outcome,
        })
    }

    /// Whether an attempt may have had an effect beside the one of a processed message.
    fn leaves_unknown(&self) -> bool {
        let code = self.code.as_deref().unwrap_or_default();
        match self.outcome {
            // Another worker had completed the key.
            Outcome::Processed => code == "lease-lost",
            Outcome::Failed | Outcome::Terminal | Outcome::Unknown => {
                // Failed and cancelled calls have the same code.
                let is_untried = || {
                    let reason = self.reason.as_deref()?.strip_prefix("unavailable: ")?;
                    Some(reason.split_once(": ")?.1 == "its breaker is open")
                };
                let is_untried = code == "unavailable" && is_untried() == Some(true);
                !is_untried && !WITHOUT_EFFECT.contains(&code)
            }
            Outcome::Duplicate | Outcome::Ignored | Outcome::InProgress => false,
        }
    }
}

impl Lines {
    /// Reads a file of the function's log.
    pub(super) fn read_log(&mut self, path: &Path, bar: &ProgressBar) -> Result<()> {
        each_line(path, bar, |line| {
            self.read_records(line);
            Ok(())
        })
    }

    /// Reads a list of effects and duplicates.
    pub(super) fn read_events(&mut self, path: &Path, bar: &ProgressBar) -> Result<()> {
        self.are_events = true;
        let mut number = 0;
        each_line(path, bar, |line| {
            number += 1;
            if let Some(end) = self.event(line.trim()) {
                self.ends.push(end);
            } else if number > 1 && !line.trim().is_empty() {
                bail!(
                    "{}:{number} is not TIME,KEY,effect or TIME,KEY,duplicate, with the time as \
                     2026-09-21T14:13:20Z",
                    path.display()
                );
            }
            Ok(())
        })
    }

    fn event(&mut self, line: &str) -> Option<End> {
        let (at, rest) = line.split_once(',')?;
        let (key, outcome) = rest.rsplit_once(',')?;
        Some(End {
            at: millis(at)?,
            outcome: match outcome {
                "effect" => Outcome::Processed,
                "duplicate" => Outcome::Duplicate,
                _ => return None,
            },
            key: Some(self.names.whole(key)),
            message: self.ends.len() as u64,
            code: 0,
            deliveries: 0,
            unknown: 0,
        })
    }

    /// The number of a code.
    pub(super) fn code(&mut self, code: &str) -> u16 {
        let known = self.codes.iter().position(|known| **known == *code);
        let number = known.unwrap_or(self.codes.len());
        if known.is_none() && number < usize::from(u16::MAX) {
            self.codes.push(code.into());
        }
        u16::try_from(number).unwrap_or(u16::MAX)
    }

    pub(super) fn code_name(&self, number: u16) -> &str {
        let name = self.codes.get(usize::from(number));
        name.map_or("another code", |name| name)
    }

    /// Reads the objects in a line: as they are, in texts of JSON (`aws logs`), or in fields of CSV (the console).
    fn read_records(&mut self, line: &str) {
        if !line.contains(TARGET) {
            return;
        }
        let mut rest = line;
        let mut found = false;
        while let Some(start) = rest.find('{') {
            let object = &rest[start..];
            let (text, length) = if object.starts_with(r#"{"timestamp""#) {
                let length = first_value(object);
                (
                    Cow::Borrowed(object.get(..length).unwrap_or_default()),
                    length,
                )
            } else if object.starts_with(r#"{\"timestamp\""#) && start > 0 {
                let mut texts = serde_json::Deserializer::from_str(&rest[start - 1..]).into_iter();
                match texts.next() {
                    Some(Ok(text)) => (Cow::Owned(text), texts.byte_offset() - 1),
                    _ => (Cow::Borrowed(""), 1),
                }
            } else if object.starts_with(r#"{""timestamp"""#) {
                let field = object.replace("\"\"", "\"");
                let length = first_value(&field);
                // The quotes of the field itself are not doubled.
                let doubled = field[..length].matches('"').count();
                (Cow::Owned(field), length + doubled)
            } else {
                rest = &object[1..];
                continue;
            };
            found |= self.read_record(&text);
            rest = object.get(length.max(1)..).unwrap_or_default();
        }
        self.unread += u64::from(!found && !self.read_text(line));
    }

    /// Reads one object. Returns whether it is a line of the log, of a message or not.
    fn read_record(&mut self, text: &str) -> bool {
        let mut records = serde_json::Deserializer::from_str(text).into_iter::<Record<'_>>();
        let Some(Ok(record)) = records.next() else {
            // Lines of handlers have no outcome.
            return !text.contains(r#""target":"sqs_once::record""#);
        };
        record.target != TARGET || self.add(&record)
    }

    /// Reads a line of Lambda's log format `Text`.
    fn read_text(&mut self, line: &str) -> bool {
        let Some((before, fields)) = line.split_once(" sqs_once::record: ") else {
            return false;
        };
        // A quote within a value is escaped.
        let field = |name: &str| {
            let (_, value) = fields.split_once(&format!("{name}=\""))?;
            Some(Cow::Borrowed(value.split_once('"')?.0))
        };
        let record = || {
            let outcome = field("outcome")?;
            Some(Record {
                target: TARGET.into(),
                timestamp: before
                    .split(' ')
                    .find(|word| millis(word).is_some())?
                    .into(),
                message_id: field(" message_id")?,
                key: field(" key"),
                group: field(" group"),
                sequence: field(" sequence"),
                outcome: Outcome::deserialize(StrDeserializer::<ValueError>::new(&outcome)).ok()?,
                code: field(" code"),
                reason: field(" reason"),
                // Texts come before it.
                receive_count: fields
                    .rsplit_once(" receive_count=")
                    .and_then(|(_, count)| count.split(' ').next()?.parse().ok()),
            })
        };
        record().is_some_and(|record| self.add(&record))
    }

    /// Adds a message's end. Returns whether its time can be read.
    fn add(&mut self, record: &Record<'_>) -> bool {
        let Some(at) = millis(&record.timestamp) else {
            return false;
        };
        self.turns.extend(record.turn(at));
        let end = End {
            message: hash(&record.message_id),
            at,
            key: record.key.as_ref().map(|key| self.names.key(key)),
            outcome: record.outcome,
            code: self.code(record.code.as_deref().unwrap_or("no code")),
            deliveries: u16::try_from(record.receive_count.unwrap_or_default()).unwrap_or(u16::MAX),
            unknown: record.leaves_unknown().into(),
        };
        self.ends.push(end);
        true
    }
}

/// The length of the JSON value at the start of a text, or 1.
fn first_value(text: &str) -> usize {
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<serde::de::IgnoredAny>();
    match values.next() {
        Some(Ok(_)) => values.byte_offset(),
        _ => 1,
    }
}

fn millis(time: &str) -> Option<u64> {
    let time = humantime::parse_rfc3339_weak(time).ok()?;
    u64::try_from(time.duration_since(UNIX_EPOCH).ok()?.as_millis()).ok()
}

fn hash(text: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

/// Calls a function for each line of a file, which may be compressed.
pub(super) fn each_line(
    path: &Path,
    bar: &ProgressBar,
    mut each: impl FnMut(&str) -> Result<()>,
) -> Result<()> {
    let mut reader = open(path, bar)?;
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = reader.read_until(b'\n', &mut line);
        if read.with_context(|| unread(path))? == 0 {
            return Ok(());
        }
        each(&String::from_utf8_lossy(&line))?;
    }
}

/// Opens a file. One that begins as gzip is decompressed.
pub(super) fn open(path: &Path, bar: &ProgressBar) -> Result<Box<dyn BufRead>> {
    let file = File::open(path).with_context(|| unread(path))?;
    let mut reader = BufReader::with_capacity(1 << 16, bar.wrap_read(file));
    let start = reader.fill_buf().with_context(|| unread(path))?;
    Ok(match start.starts_with(&[0x1f, 0x8b]) {
        true => Box::new(BufReader::with_capacity(
            1 << 16,
            MultiGzDecoder::new(reader),
        )),
        false => Box::new(reader),
    })
}
