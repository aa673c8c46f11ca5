//! A record of Lambda's event.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

/// The parts of a record that the consumer uses. Text without escapes in the JSON is borrowed.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RawRecord<'a> {
    #[serde(borrow)]
    pub(super) message_id: Option<Text<'a>>,
    #[serde(borrow)]
    pub(super) body: Option<Text<'a>>,
    #[cfg(feature = "sqs")]
    #[serde(borrow)]
    pub(super) receipt_handle: Option<Text<'a>>,
    #[serde(borrow, rename = "eventSourceARN")]
    pub(super) event_source_arn: Option<Text<'a>>,
    #[serde(borrow, rename = "attributes")]
    pub(super) system_attributes: Option<Pairs<'a>>,
    pub(super) message_attributes: Option<HashMap<String, SqsMessageAttribute>>,
}

impl<'a> RawRecord<'a> {
    /// Reads a record. A broken one, such as with half a surrogate pair in its body, keeps its id and message group.
    pub(crate) fn read(json: &'a RawValue) -> Self {
        serde_json::from_str(json.get())
            .unwrap_or_else(|_| Self::identity(json).unwrap_or_default())
    }

    fn identity(json: &'a RawValue) -> Option<Self> {
        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Identity<'a> {
            #[serde(borrow)]
            message_id: Option<Text<'a>>,
            #[serde(borrow, rename = "eventSourceARN")]
            event_source_arn: Option<&'a RawValue>,
            #[serde(borrow)]
            attributes: Option<&'a RawValue>,
        }
        let identity: Identity<'_> = part(json)?;
        Some(Self {
            message_id: identity.message_id,
            event_source_arn: identity.event_source_arn.and_then(part),
            system_attributes: identity.attributes.and_then(Pairs::readable),
            ..Self::default()
        })
    }
}

fn part<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

impl From<SqsMessage> for RawRecord<'_> {
    fn from(sqs: SqsMessage) -> Self {
        let pairs = sqs.attributes.into_iter();
        let pairs = pairs.map(|(name, value)| (name.into(), value.into()));
        Self {
            message_id: sqs.message_id.map(Text::from),
            body: sqs.body.map(Text::from),
            #[cfg(feature = "sqs")]
            receipt_handle: sqs.receipt_handle.map(Text::from),
            event_source_arn: sqs.event_source_arn.map(Text::from),
            system_attributes: Some(Pairs(pairs.collect())),
            message_attributes: Some(sqs.message_attributes),
        }
    }
}

/// A text of the event. Without this type, serde would not borrow a `Cow` inside an `Option` or a pair.
#[derive(Deserialize)]
#[serde(transparent)]
pub(super) struct Text<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl From<String> for Text<'_> {
    fn from(text: String) -> Self {
        Self(Cow::Owned(text))
    }
}

pub(super) struct Pairs<'a>(pub(super) Vec<(Text<'a>, Text<'a>)>);

impl<'a> Pairs<'a> {
    /// Reads the pairs of an object whose values are texts.
    fn readable(json: &'a RawValue) -> Option<Self> {
        let values: HashMap<String, &RawValue> = part(json)?;
        let pairs = values
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), part(value)?)));
        Some(Self(pairs.collect()))
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Pairs<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Attributes;

        impl<'de> Visitor<'de> for Attributes {
            type Value = Pairs<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Pairs<'de>, A::Error> {
                // SQS sets up to eight.
                let mut pairs = Vec::with_capacity(8);
                while let Some(pair) = map.next_entry()? {
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }

        deserializer.deserialize_map(Attributes)
    }
}
