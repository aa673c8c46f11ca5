//! A record of Lambda's event.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use aws_lambda_events::encodings::Base64Data;
use aws_lambda_events::event::sqs::{SqsMessage, SqsMessageAttribute};
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::decode::from_base64;

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
    /// Why there is no body, if there is none.
    #[serde(skip)]
    pub(super) no_body: NoBody,
}

impl<'a> RawRecord<'a> {
    /// Reads a record. One that is broken is read part by part: malformed metadata costs it neither its body nor its id.
    pub(crate) fn read(json: &'a RawValue) -> Self {
        serde_json::from_str(json.get())
            .unwrap_or_else(|_| Self::by_parts(json).unwrap_or_default())
    }

    /// A part that is given twice can't be read. Twice a part of the identity makes the record unnamed.
    fn by_parts(json: &'a RawValue) -> Option<Self> {
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
        #[derive(Default, Deserialize)]
        struct Body<'a> {
            #[serde(borrow)]
            body: Option<&'a RawValue>,
        }
        #[derive(Default, Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Rest<'a> {
            #[cfg(feature = "sqs")]
            #[serde(borrow)]
            receipt_handle: Option<&'a RawValue>,
            #[serde(borrow)]
            message_attributes: Option<&'a RawValue>,
        }
        let identity: Identity<'_> = part(json)?;
        let Body { body: unread } = part(json).unwrap_or_default();
        let rest: Rest<'_> = part(json).unwrap_or_default();
        let body = unread.and_then(part);
        Some(Self {
            message_id: identity.message_id,
            no_body: match (&body, unread) {
                (None, Some(unread)) => NoBody::of(unread),
                _ => NoBody::Absent,
            },
            body,
            #[cfg(feature = "sqs")]
            receipt_handle: rest.receipt_handle.and_then(part),
            event_source_arn: identity.event_source_arn.and_then(part),
            system_attributes: identity.attributes.and_then(Pairs::readable),
            message_attributes: rest.message_attributes.and_then(readable_attributes),
        })
    }
}

/// Why a message has no body.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NoBody {
    #[default]
    #[error("the message has no body")]
    Absent,
    #[error("the message's body is {0} and not text, as SQS would send it")]
    NotText(&'static str),
    #[error("the message's body is not valid Unicode, such as half a surrogate pair")]
    NotUnicode,
}

impl NoBody {
    fn of(body: &RawValue) -> Self {
        match body.get().as_bytes().first() {
            Some(b'"') => Self::NotUnicode,
            Some(b'{') => Self::NotText("an object"),
            Some(b'[') => Self::NotText("a list"),
            Some(b'n') => Self::Absent,
            _ => Self::NotText("a number or a boolean"),
        }
    }
}

fn part<'a, T: Deserialize<'a>>(json: &'a RawValue) -> Option<T> {
    serde_json::from_str(json.get()).ok()
}

/// Reads a text, or a number as the text that it is.
fn text_of(json: &RawValue) -> Option<String> {
    let is_number = json
        .get()
        .starts_with(|first: char| first == '-' || first.is_ascii_digit());
    match is_number {
        true => Some(json.get().to_owned()),
        false => part(json),
    }
}

/// Reads the message attributes of an object, each with what of it can be read.
fn readable_attributes(json: &RawValue) -> Option<HashMap<String, SqsMessageAttribute>> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Parts<'a> {
        #[serde(borrow)]
        data_type: Option<&'a RawValue>,
        #[serde(borrow)]
        string_value: Option<&'a RawValue>,
        #[serde(borrow)]
        binary_value: Option<&'a RawValue>,
    }
    let attributes: HashMap<String, &RawValue> = part(json)?;
    let attributes = attributes.into_iter().filter_map(|(name, json)| {
        let parts: Parts<'_> = part(json)?;
        let mut attribute = SqsMessageAttribute::default();
        attribute.data_type = parts.data_type.and_then(part);
        attribute.string_value = parts.string_value.and_then(text_of);
        attribute.binary_value = parts.binary_value.and_then(|value| {
            let text: String = part(value)?;
            let mut data = Base64Data::default();
            data.0 = from_base64(&text)?;
            Some(data)
        });
        let has_value = attribute.string_value.is_some() || attribute.binary_value.is_some();
        has_value.then_some((name, attribute))
    });
    Some(attributes.collect())
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
            no_body: NoBody::Absent,
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
    /// Reads the pairs of an object whose values are texts or numbers.
    fn readable(json: &'a RawValue) -> Option<Self> {
        let values: HashMap<String, &RawValue> = part(json)?;
        let pairs = values
            .into_iter()
            .filter_map(|(name, value)| Some((name.into(), text_of(value)?.into())));
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
