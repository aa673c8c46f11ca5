//! The bodies of batched requests.
//!
//! A new message costs two statements, so building them with the SDK's types would take a large part of a batch's CPU
//! time. They are written as JSON instead. Signing, sending, retrying and reading the answer remain the SDK's.

use std::array;
use std::io::Write;

use aws_sdk_dynamodb::config::http::HttpRequest;

use crate::key::ItemId;
use crate::store::item::{longest_lease, whole_secs};
use crate::store::{Claim, Fence, Owner, RELEASED, Settlement, Settling};
use crate::telemetry::json_text;

use super::layout::{TableKey, TableLayout};
use super::table::{COMPLETED, IN_PROGRESS, Table};
use super::updates::WrittenItem;

/// A little more than a usual statement with its parameters takes, in bytes.
const STATEMENT: usize = 640;

/// The texts of a table's statements, in JSON. They are created once for each table. There is one text for each
/// combination of optional attributes.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    /// Indexed by whether the item has a lease, a fingerprint, and data.
    insert: [[[String; 2]; 2]; 2],
    /// Indexed by whether the settlement has data.
    complete: [String; 2],
    release: String,
    /// Indexed by whether the settlement has a fence.
    renew: [String; 2],
}

impl Texts {
    pub(super) fn new(table: &str, key: &TableKey, names: &TableLayout) -> Self {
        let insert = |optional: [(usize, &str); 3]| {
            let optional = optional.into_iter().filter(|(given, _)| *given == 1);
            let written = [&names.status, &names.expiration, &names.owner, &names.fence];
            let all = key
                .names()
                .chain(written.map(String::as_str))
                .chain(optional.map(|(_, name)| name));
            let all: Vec<_> = all.map(|name| format!("'{name}':?")).collect();
            let all = all.join(",");
            in_json(&format!("INSERT INTO \"{table}\" VALUE {{{all}}}"))
        };
        let update = |set: &[&str], only_if: &[&str], and: &str| {
            let set: Vec<_> = set.iter().map(|name| format!("SET \"{name}\"=?")).collect();
            let condition = key.names().chain(only_if.iter().copied());
            let condition: Vec<_> = condition.map(|name| format!("\"{name}\"=?")).collect();
            in_json(&format!(
                "UPDATE \"{table}\" {} WHERE {}{and}",
                set.join(" "),
                condition.join(" AND ")
            ))
        };
        Self {
            insert: array::from_fn(|lease| {
                array::from_fn(|fingerprint| {
                    array::from_fn(|data| {
                        insert([
                            (lease, &names.lease),
                            (fingerprint, &names.fingerprint),
                            (data, &names.data),
                        ])
                    })
                })
            }),
            complete: [
                update(&[&names.status, &names.expiration], &[&names.owner], ""),
                update(
                    &[&names.status, &names.expiration, &names.data],
                    &[&names.owner],
                    "",
                ),
            ],
            release: update(&[&names.lease], &[&names.owner, &names.status], ""),
            renew: {
                let is_held = format!(" AND \"{0}\">? AND \"{0}\"<=?", names.lease);
                let replaces = format!("{is_held} AND (\"{0}\"=? OR \"{0}\"<=?)", names.fence);
                let only_if: [&str; 2] = [&names.owner, &names.status];
                [
                    update(&[&names.lease], &only_if, &is_held),
                    update(&[&names.lease, &names.fence], &only_if, &replaces),
                ]
            },
        }
    }
}

fn in_json(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// The statements of one request.
#[derive(Debug)]
pub(super) struct Statements {
    json: Vec<u8>,
    count: usize,
}

impl Statements {
    fn with_room_for(count: usize) -> Self {
        let mut json = Vec::with_capacity(count * STATEMENT);
        json.extend_from_slice(b"{\"Statements\":[");
        Self { json, count: 0 }
    }

    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// Returns the change that gives an empty request these statements.
    pub(super) fn into_body(mut self) -> impl Fn(&mut HttpRequest) + Send + Sync + 'static {
        self.json.extend_from_slice(b"]}");
        let length = self.json.len().to_string();
        move |request| {
            // The SDK calls this for each attempt.
            *request.body_mut() = self.json.clone().into();
            let headers = request.headers_mut();
            headers.insert("content-length", length.clone());
        }
    }

    /// Adds a statement. `parameters` adds its values.
    fn add(
        &mut self,
        text: &str,
        returns_item: bool,
        parameters: impl FnOnce(&mut Parameters<'_>),
    ) {
        if self.count > 0 {
            self.json.push(b',');
        }
        self.count += 1;
        self.json.extend_from_slice(b"{\"Statement\":");
        self.json.extend_from_slice(text.as_bytes());
        self.json.extend_from_slice(b",\"Parameters\":");
        let mut writer = Parameters {
            json: &mut self.json,
            separator: b'[',
        };
        parameters(&mut writer);
        let end: &[u8] = match returns_item {
            true => b"],\"ReturnValuesOnConditionCheckFailure\":\"ALL_OLD\"}",
            false => b"]}",
        };
        self.json.extend_from_slice(end);
    }
}

/// The parameters of one statement.
struct Parameters<'a> {
    json: &'a mut Vec<u8>,
    separator: u8,
}

impl Parameters<'_> {
    fn text(&mut self, text: &str) {
        self.begin(b"{\"S\":");
        json_text(self.json, text);
        self.json.push(b'}');
    }

    fn owner(&mut self, owner: Owner) {
        self.begin(b"{\"S\":\"");
        // Writing to a `Vec` can't fail, here and below.
        let _ = write!(self.json, "{owner}\"}}");
    }

    fn number(&mut self, number: u64) {
        self.begin(b"{\"N\":\"");
        let _ = serde_json::to_writer(&mut *self.json, &number);
        self.json.extend_from_slice(b"\"}");
    }

    fn key(&mut self, key: &TableKey, id: &ItemId) {
        if let TableKey::Composite { value, .. } = key {
            self.text(value);
        }
        self.text(id.as_str());
    }

    fn begin(&mut self, value: &[u8]) {
        self.json.push(self.separator);
        self.json.extend_from_slice(value);
        self.separator = b',';
    }
}

impl Table {
    /// Creates the `INSERT` of each claim, for keys without an item.
    pub(super) fn inserts(&self, claims: &[Claim]) -> Statements {
        let mut statements = Statements::with_room_for(claims.len());
        for claim in claims {
            self.insert(&mut statements, &WrittenItem::from(claim));
        }
        statements
    }

    /// Creates the statement of each settlement. An unclaimed completion or a commit succeeds only if the key has no item.
    pub(super) fn settlements(&self, settlements: &[Settlement]) -> Statements {
        let mut statements = Statements::with_room_for(settlements.len());
        for settlement in settlements {
            self.settlement(&mut statements, settlement);
        }
        statements
    }

    /// If the key has an item, a read or a write that returns it follows.
    fn insert(&self, statements: &mut Statements, new: &WrittenItem<'_>) {
        let [lease, fingerprint, data] = [
            new.lease_until.is_some(),
            new.fingerprint.is_some(),
            new.data.is_some(),
        ]
        .map(usize::from);
        let text = &self.texts.insert[lease][fingerprint][data];
        statements.add(text, false, |parameters| {
            parameters.key(&self.key, new.id);
            parameters.text(new.status);
            parameters.number(whole_secs(new.expiration).as_secs());
            parameters.owner(new.owner);
            parameters.number(Fence::first(new.now).get());
            if let Some(until) = new.lease_until {
                parameters.number(until.as_millis());
            }
            for text in new.fingerprint.into_iter().chain(new.data) {
                parameters.text(text);
            }
        });
    }

    fn settlement(&self, statements: &mut Statements, settlement: &Settlement) {
        let (id, owner) = (&settlement.id, settlement.owner);
        match &settlement.settling {
            Settling::Complete { expiration, data } => {
                let text = &self.texts.complete[usize::from(data.is_some())];
                statements.add(text, true, |parameters| {
                    parameters.text(COMPLETED);
                    parameters.number(whole_secs(*expiration).as_secs());
                    if let Some(data) = data {
                        parameters.text(data);
                    }
                    parameters.key(&self.key, id);
                    parameters.owner(owner);
                });
            }
            Settling::Release => statements.add(&self.texts.release, true, |parameters| {
                parameters.number(RELEASED.as_millis());
                parameters.key(&self.key, id);
                parameters.owner(owner);
                parameters.text(IN_PROGRESS);
            }),
            Settling::Renew { lease_until, fence } => {
                let text = &self.texts.renew[usize::from(fence.is_some())];
                statements.add(text, true, |parameters| {
                    parameters.number(lease_until.as_millis());
                    if let Some(fence) = fence {
                        parameters.number(fence.follows.get());
                    }
                    parameters.key(&self.key, id);
                    parameters.owner(owner);
                    parameters.text(IN_PROGRESS);
                    parameters.number(RELEASED.as_millis());
                    parameters.number(longest_lease(*lease_until).as_millis());
                    if let Some(fence) = fence {
                        parameters.number(fence.claimed.get());
                        parameters.number(fence.follows.get());
                    }
                });
            }
            Settling::CompleteUnclaimed(recording) | Settling::Commit(recording) => {
                self.insert(statements, &WrittenItem::recording(settlement, recording));
            }
        }
    }
}
