//! Converts Lambda's event to messages, record by record. A broken record fails alone.

use std::fmt;

use aws_lambda_events::event::sqs::SqsEvent;
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer};
use serde::de::{Error as _, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::record::{Message, RawRecord};

impl From<SqsEvent> for LenientEvent {
    fn from(event: SqsEvent) -> Self {
        Self {
            messages: linked(event.records.into_iter().map(RawRecord::from)),
            is_bare: false,
        }
    }
}

/// Creates the messages of an event, each with the one before it.
fn linked<'a>(records: impl ExactSizeIterator<Item = RawRecord<'a>>) -> Vec<Message> {
    let mut messages = Vec::with_capacity(records.len());
    for record in records {
        messages.push(Message::new(record, messages.last()));
    }
    messages
}

/// An SQS event whose records are parsed one by one from the original bytes.
///
/// One broken record, such as one with half a surrogate pair in its body, fails all of `SqsEvent`. Here it becomes a
/// message without a body, which fails alone. It borrows from its input, so it can be parsed only from a slice or a
/// string.
pub(crate) struct LenientEvent {
    pub(crate) messages: Vec<Message>,
    /// Whether it is a bare array of records, as an EventBridge pipe sends it.
    pub(crate) is_bare: bool,
}

impl<'de> Deserialize<'de> for LenientEvent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // serde's error would quote the event, and the runtime logs it.
        let event = deserializer.deserialize_any(AnyEvent);
        event.map_err(|_| {
            D::Error::custom("this is not an SQS event: expected an object with an array `Records`")
        })
    }
}

struct AnyEvent;

impl<'de> Visitor<'de> for AnyEvent {
    type Value = LenientEvent;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an SQS event")
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<LenientEvent, A::Error> {
        #[derive(Deserialize)]
        struct Event<'a> {
            // Parsed below, from the start. Here it would also be slow: the runtime's deserializer copies the name of every
            // field for the path in its errors.
            #[serde(borrow, rename = "Records")]
            records: &'a RawValue,
        }
        let event = Event::deserialize(MapAccessDeserializer::new(map))?;
        let messages = well_formed(event.records).or_else(|_| one_by_one(event.records));
        Ok(LenientEvent {
            messages: messages.map_err(A::Error::custom)?,
            is_bare: false,
        })
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<LenientEvent, A::Error> {
        let records = Vec::<&RawValue>::deserialize(SeqAccessDeserializer::new(seq))?;
        Ok(LenientEvent {
            messages: linked(records.into_iter().map(RawRecord::read)),
            is_bare: true,
        })
    }
}

/// Parses all records in one pass. Returns an error if a record is broken.
fn well_formed(records: &RawValue) -> serde_json::Result<Vec<Message>> {
    struct Messages;

    impl<'de> Visitor<'de> for Messages {
        type Value = Vec<Message>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an array of records")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<Message>, A::Error> {
            let mut messages = Vec::new();
            while let Some(record) = seq.next_element()? {
                messages.push(Message::new(record, messages.last()));
            }
            Ok(messages)
        }
    }

    serde_json::Deserializer::from_str(records.get()).deserialize_seq(Messages)
}

fn one_by_one(records: &RawValue) -> serde_json::Result<Vec<Message>> {
    let records: Vec<&RawValue> = serde_json::from_str(records.get())?;
    Ok(linked(records.into_iter().map(RawRecord::read)))
}
