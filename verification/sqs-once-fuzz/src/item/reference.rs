//! Reads items independently of the library.

use serde_json::Value;
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Fence, Item, Owner, Status, Timestamp};

/// The attribute names, which depend on the layout.
pub(super) struct Names {
    pub(super) id: &'static str,
    pub(super) status: &'static str,
    pub(super) expiration: &'static str,
}

impl Names {
    pub(super) const DEFAULT: Self = Self {
        id: "id",
        status: "status",
        expiration: "expiration",
    };
}

/// Collects every object in `json` that is an item.
pub(super) fn collect(json: &Value, names: &Names, found: &mut Vec<Item>) {
    found.extend(item(json, names));
    match json {
        Value::Array(values) => values.iter().for_each(|one| collect(one, names, found)),
        Value::Object(members) => members.values().for_each(|one| collect(one, names, found)),
        _ => {}
    }
}

/// An attribute, which may be absent.
enum Attribute<'a> {
    Absent,
    Text(&'a str),
    Number(&'a str),
    Other,
}

fn attribute<'a>(item: &'a Value, name: &str) -> Attribute<'a> {
    let Some(value) = item.get(name).filter(|value| !value.is_null()) else {
        return Attribute::Absent;
    };
    match (value["S"].as_str(), value["N"].as_str(), &value["NULL"]) {
        (Some(text), ..) => Attribute::Text(text),
        (_, Some(number), _) => Attribute::Number(number),
        (.., Value::Bool(_)) => Attribute::Absent,
        _ => Attribute::Other,
    }
}

/// `None` if no item of the protocol looks like this.
fn item(json: &Value, names: &Names) -> Option<Item> {
    let text = |name| match attribute(json, name) {
        Attribute::Absent => Some(None),
        Attribute::Text(text) => Some(Some(text)),
        _ => None,
    };
    let number_by = |name, read: fn(&str) -> Option<u64>| match attribute(json, name) {
        Attribute::Absent => Some(None),
        Attribute::Number(number) => read(number).map(Some),
        _ => None,
    };
    let number = |name| number_by(name, |number| number.parse().ok());
    let owner = match text("owner")? {
        None => None,
        Some(owner) => Some(self::owner(owner)?),
    };
    let mut item = Item::new(
        ItemId::from_stored(text(names.id)??),
        match text(names.status)?? {
            "INPROGRESS" => Status::InProgress,
            "COMPLETED" => Status::Completed,
            other => Status::Unknown(other.to_owned()),
        },
    );
    item.lease_until = number("in_progress_expiration")?.map(Timestamp::from_millis);
    item.expiration = number_by(names.expiration, next_whole)?.map(Timestamp::from_secs);
    item.fingerprint = text("validation")?
        .filter(|fingerprint| !fingerprint.is_empty())
        .map(Fingerprint::from_stored);
    item.data = text("data").flatten().map(Into::into);
    item.owner = owner;
    item.fence = number("fence")?.map(Fence::from_stored);
    Some(item)
}

/// Parses 32 hexadecimal digits.
fn owner(text: &str) -> Option<Owner> {
    let digits = text.chars().map(|char| char.to_digit(16));
    let digits: Vec<_> = digits.collect::<Option<_>>()?;
    let bits = digits
        .iter()
        .fold(0, |bits, digit| bits << 4 | u128::from(*digit));
    (digits.len() == 32).then(|| Owner::from_bits(bits))
}

/// The number, or the next whole one if it has a fraction, as in items of Powertools for TypeScript.
fn next_whole(number: &str) -> Option<u64> {
    let Some((whole, digits)) = number.split_once('.') else {
        return number.parse().ok();
    };
    let is_fraction = digits.chars().all(|digit| digit.is_ascii_digit());
    let has_rest = !digits.trim_end_matches('0').is_empty();
    let whole: u64 = whole.parse().ok().filter(|_| is_fraction)?;
    whole.checked_add(u64::from(has_rest))
}
