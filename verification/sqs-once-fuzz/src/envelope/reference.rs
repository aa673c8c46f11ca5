//! Opens bodies independently of the library.

use std::collections::BTreeMap;

use crate::json::Members;

/// The content of a body.
pub(super) enum Inside {
    Payload(Box<Payload>),
    /// A missing or broken envelope.
    Wrong,
    /// An envelope that contains no event, and is valid.
    Nothing,
}

#[derive(Default)]
pub(super) struct Payload {
    pub(super) content: String,
    pub(super) attributes: BTreeMap<String, String>,
    pub(super) topic: Option<String>,
    pub(super) source: Option<Option<String>>,
    pub(super) object: Option<(String, String)>,
}

impl Payload {
    fn contradicts(&self, outer: &Self) -> bool {
        let mut ours = self.attributes.iter();
        ours.any(|(name, value)| {
            outer
                .attributes
                .get(name)
                .is_some_and(|other| other != value)
        })
    }
}

impl Inside {
    fn content(content: impl Into<String>) -> Payload {
        Payload {
            content: content.into(),
            ..Payload::default()
        }
    }

    fn of(payload: Payload) -> Self {
        Self::Payload(Box::new(payload))
    }

    /// Opens the inner envelope and keeps the outer one's metadata.
    pub(super) fn then(self, inner: fn(&str) -> Self) -> Self {
        let Self::Payload(outer) = self else {
            return self;
        };
        match inner(&outer.content) {
            // The library refuses an attribute to which two envelopes give different values.
            Self::Payload(inner) if inner.contradicts(&outer) => Self::Wrong,
            Self::Payload(inner) => Self::of(Payload {
                content: inner.content,
                attributes: outer
                    .attributes
                    .into_iter()
                    .chain(inner.attributes)
                    .collect(),
                topic: inner.topic.or(outer.topic),
                source: inner.source.or(outer.source),
                object: inner.object.or(outer.object),
            }),
            other => other,
        }
    }
}

pub(super) fn sns(body: &str) -> Inside {
    let untouched = || Inside::of(Inside::content(body));
    let Some(members) = Members::read(body) else {
        return untouched();
    };
    let topic = members
        .text("TopicArn")
        .filter(|arn| arn.starts_with("arn:"));
    let (Some(kind), Some(topic)) = (members.text("Type"), topic) else {
        return untouched();
    };
    match &*kind {
        "Notification" => {}
        "SubscriptionConfirmation" | "UnsubscribeConfirmation" => return Inside::Wrong,
        _ => return untouched(),
    }
    let Some(message) = members.text("Message") else {
        return Inside::Wrong;
    };
    let mut texts = BTreeMap::new();
    if let Some(attributes) = members.object("MessageAttributes") {
        for (name, _) in attributes.iter() {
            let Some(attribute) = attributes.object(name) else {
                continue;
            };
            let kind = attribute
                .text("Type")
                .filter(|kind| !kind.starts_with("Binary"));
            let value = kind.and_then(|_| attribute.text("Value"));
            texts.extend(value.map(|value| (name.to_owned(), value)));
        }
    }
    Inside::of(Payload {
        attributes: texts,
        topic: Some(topic),
        ..Inside::content(message)
    })
}

pub(super) fn event_bridge(body: &str) -> Inside {
    let members = Members::read(body);
    let detail = members.as_ref().and_then(|members| members.get("detail"));
    match (members.as_ref(), detail) {
        (Some(members), Some(detail)) => Inside::of(Payload {
            source: Some(members.text("source")),
            ..Inside::content(detail)
        }),
        _ => Inside::Wrong,
    }
}

pub(super) fn s3(body: &str) -> Inside {
    let Some(members) = Members::read(body) else {
        return Inside::Wrong;
    };
    let says = |name, value| members.text(name).as_deref() == Some(value);
    if says("Event", "s3:TestEvent")
        && says("Service", "Amazon S3")
        && members.count("Records") == 0
    {
        return Inside::Nothing;
    }
    match members.array("Records").as_deref() {
        Some([record]) => object(record.get()).map_or(Inside::Wrong, |object| {
            Inside::of(Payload {
                object: Some(object),
                ..Inside::content(record.get())
            })
        }),
        _ => Inside::Wrong,
    }
}

/// The bucket and key of an S3 record.
fn object(record: &str) -> Option<(String, String)> {
    let s3 = Members::read(record)?.object("s3")?;
    let bucket = s3.object("bucket")?.text("name")?;
    let key = s3.object("object")?.text("key")?;
    Some((bucket, decoded(&key)?))
}

/// Decodes a URL, byte by byte.
fn decoded(key: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(key.len());
    let mut rest = key.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digit = |at: usize| char::from(*after.get(at)?).to_digit(16);
        let escaped = digit(0).zip(digit(1)).filter(|_| byte == b'%');
        let (byte, after) = match escaped {
            Some((high, low)) => (u8::try_from(16 * high + low).ok()?, &after[2..]),
            None if byte == b'+' => (b' ', after),
            None => (byte, after),
        };
        bytes.push(byte);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

/// Opens any known envelope, up to four nested ones.
pub(super) fn auto(body: &str) -> Inside {
    let mut inside = Inside::of(Inside::content(body));
    for _ in 0..4 {
        let Inside::Payload(payload) = &inside else {
            break;
        };
        let Some(inner) = recognised(&payload.content) else {
            break;
        };
        inside = inside.then(inner);
    }
    inside
}

fn recognised(content: &str) -> Option<fn(&str) -> Inside> {
    let members = Members::read(content)?;
    let kind = members.text("Type").unwrap_or_default();
    let kinds = [
        "Notification",
        "SubscriptionConfirmation",
        "UnsubscribeConfirmation",
    ];
    let is_topic = |arn: String| arn.starts_with("arn:");
    if kinds.contains(&&*kind) && members.text("TopicArn").is_some_and(is_topic) {
        return Some(sns);
    }
    let texts = ["id", "detail-type", "source", "account", "region"];
    if texts.iter().all(|name| members.text(name).is_some()) && members.object("detail").is_some() {
        return Some(event_bridge);
    }
    let records = members.array("Records").unwrap_or_default();
    let first = records.first().and_then(|one| Members::read(one.get()));
    let of_s3 = |one: Members<'_>| {
        one.text("eventSource").as_deref() == Some("aws:s3") && one.object("s3").is_some()
    };
    if first.is_some_and(of_s3) || matches!(s3(content), Inside::Nothing) {
        return Some(s3);
    }
    None
}

/// The ids of the envelopes in a body.
pub(super) fn ids(body: &str) -> String {
    let mut ids = String::new();
    let mut content = Some(body.to_owned());
    for _ in 0..4 {
        let Some(text) = content.take() else { break };
        let Some(members) = Members::read(&text) else {
            // The content of a user's own envelope.
            content = text.split_once('|').map(|(_, payload)| payload.to_owned());
            continue;
        };
        for name in ["id", "MessageId"] {
            ids.push_str(&members.text(name).unwrap_or_default());
        }
        if let Some(attributes) = members.get("MessageAttributes") {
            ids.push_str(attributes);
        }
        let detail = || members.get("detail").map(str::to_owned);
        content = members.text("Message").or_else(detail);
    }
    ids
}
