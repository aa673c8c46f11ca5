//! The statements of a batch. Their texts are created once for each table.

use std::array;

use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementRequest, ReturnValuesOnConditionCheckFailure,
};

use crate::store::{Fence, Settlement, Settling};

use super::layout::{TableKey, TableLayout};
use super::table::{COMPLETED, IN_PROGRESS, Table, expiration, number, text};
use super::updates::WrittenItem;

/// The maximum number of parameters: two key attributes and all other attributes of an item.
const PARAMETERS: usize = 9;

/// The texts of a table's statements. There is one text for each combination of optional attributes.
#[derive(Clone, Debug)]
pub(super) struct Texts {
    /// Indexed by whether the item has a lease, a fingerprint, and data.
    insert: [[[String; 2]; 2]; 2],
    /// Indexed by whether the settlement has data.
    complete: [String; 2],
    release: String,
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
            format!("INSERT INTO \"{table}\" VALUE {{{}}}", all.join(","))
        };
        let update = |set: &[&str], only_if: &[&str]| {
            let set: Vec<_> = set.iter().map(|name| format!("SET \"{name}\"=?")).collect();
            let condition = key.names().chain(only_if.iter().copied());
            let condition: Vec<_> = condition.map(|name| format!("\"{name}\"=?")).collect();
            format!(
                "UPDATE \"{table}\" {} WHERE {}",
                set.join(" "),
                condition.join(" AND ")
            )
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
                update(&[&names.status, &names.expiration], &[&names.owner]),
                update(
                    &[&names.status, &names.expiration, &names.data],
                    &[&names.owner],
                ),
            ],
            release: update(&[&names.lease], &[&names.owner, &names.status]),
        }
    }
}

impl Table {
    /// Creates the `INSERT` of a claim, a recording or a commit, for a key without an item.
    pub(super) fn insert(&self, new: &WrittenItem<'_>) -> BatchStatementRequest {
        let [lease, fingerprint, data] = [
            new.lease_until.is_some(),
            new.fingerprint.is_some(),
            new.data.is_some(),
        ]
        .map(usize::from);
        let mut values = Vec::with_capacity(PARAMETERS);
        values.extend(self.key.values(new.id));
        values.extend([
            text(new.status),
            expiration(new.expiration),
            text(new.owner.to_string()),
            number(Fence::first(new.now).get()),
        ]);
        values.extend(new.lease_until.map(|at| number(at.as_millis())));
        values.extend(new.fingerprint.map(text));
        values.extend(new.data.map(text));
        let partiql = &self.texts.insert[lease][fingerprint][data];
        // If the key has an item, a read or a write that returns it follows.
        statement(partiql, values, None)
    }

    /// Creates the statement of a settlement. A recording or a commit succeeds only if the key has no item.
    pub(super) fn settlement(&self, settlement: &Settlement) -> BatchStatementRequest {
        let mut values = Vec::with_capacity(PARAMETERS);
        let partiql = match &settlement.settling {
            Settling::Complete {
                expiration: until,
                data,
            } => {
                values.extend([text(COMPLETED), expiration(*until)]);
                values.extend(data.as_deref().map(text));
                values.extend(self.key.values(&settlement.id));
                values.push(text(settlement.owner.to_string()));
                &self.texts.complete[usize::from(data.is_some())]
            }
            Settling::Release => {
                values.push(number(0));
                values.extend(self.key.values(&settlement.id));
                values.extend([text(settlement.owner.to_string()), text(IN_PROGRESS)]);
                &self.texts.release
            }
            Settling::Record(recording) | Settling::Commit(recording) => {
                return self.insert(&WrittenItem::recording(settlement, recording));
            }
        };
        let shown = ReturnValuesOnConditionCheckFailure::AllOld;
        statement(partiql, values, Some(shown))
    }
}

fn statement(
    partiql: &str,
    parameters: Vec<AttributeValue>,
    shown: Option<ReturnValuesOnConditionCheckFailure>,
) -> BatchStatementRequest {
    BatchStatementRequest::builder()
        .statement(partiql)
        .set_parameters(Some(parameters))
        .set_return_values_on_condition_check_failure(shown)
        .build()
        .expect("a statement was given")
}
