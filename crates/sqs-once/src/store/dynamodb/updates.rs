//! The conditional writes to a table: statements of a batch, and updates of one item.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementRequest, ReturnValue, ReturnValuesOnConditionCheckFailure,
};

use crate::key::{Fingerprint, ItemId};
use crate::store::{Claim, Fence, Owner, Settlement, Settling};
use crate::time::Timestamp;

use super::table::{COMPLETED, IN_PROGRESS, Table, expiration, number, owned, text};

/// The counterpart of `Claim::admitted_by`.
const ADMITS_CLAIM: &str = "attribute_not_exists(#id) \
     OR (#status = :completed AND #expiration < :now_secs) \
     OR (#status = :inprogress AND #lease < :now \
         AND (attribute_not_exists(#owner) OR #owner <> :me)) \
     OR (#status = :inprogress AND attribute_not_exists(#lease) AND #expiration < :now_secs)";

/// The counterpart of `Settlement::admitted_by`, for a recording.
const ADMITS_RECORDING: &str = "attribute_not_exists(#id) OR #status = :inprogress \
     OR (#status = :completed AND #expiration < :now_secs)";

type Named<'a> = Vec<(&'a str, AttributeValue)>;

/// What a settlement does to its item.
pub(super) enum Write<'a> {
    /// It writes the item anew: a recording.
    Anew(Anew<'a>),
    /// It sets attributes of an item that has certain others.
    Set {
        id: &'a ItemId,
        set: Named<'a>,
        only_if: Named<'a>,
    },
}

/// What a claim or a recording writes. Of an item that stands there only the fence goes on, and for a
/// recording the lease.
pub(super) struct Anew<'a> {
    id: &'a ItemId,
    status: &'static str,
    lease_until: Option<Timestamp>,
    expiration: Timestamp,
    owner: Owner,
    now: Timestamp,
    fingerprint: Option<&'a str>,
    data: Option<&'a str>,
}

impl<'a> From<&'a Claim> for Anew<'a> {
    fn from(claim: &'a Claim) -> Self {
        Self {
            id: &claim.id,
            status: IN_PROGRESS,
            lease_until: Some(claim.lease_until),
            expiration: claim.expiration,
            owner: claim.owner,
            now: claim.now,
            fingerprint: claim.fingerprint.as_ref().map(Fingerprint::as_str),
            data: None,
        }
    }
}

impl Table {
    pub(super) fn write_of<'a>(&'a self, settlement: &'a Settlement) -> Write<'a> {
        let names = &self.names;
        let id = &settlement.id;
        let mine = (&*names.owner, text(settlement.owner.to_string()));
        match &settlement.settling {
            Settling::Complete {
                expiration: until,
                data,
            } => {
                let mut set = vec![
                    (&*names.status, text(COMPLETED)),
                    (&*names.expiration, expiration(*until)),
                ];
                set.extend(data.as_deref().map(|data| (&*names.data, text(data))));
                let only_if = vec![mine];
                Write::Set { id, set, only_if }
            }
            Settling::Release => Write::Set {
                id,
                set: vec![(&names.lease, number(0))],
                only_if: vec![mine, (&names.status, text(IN_PROGRESS))],
            },
            Settling::Record {
                now,
                expiration,
                fingerprint,
                data,
            } => Write::Anew(Anew {
                id,
                status: COMPLETED,
                lease_until: None,
                expiration: *expiration,
                owner: settlement.owner,
                now: *now,
                fingerprint: fingerprint.as_ref().map(Fingerprint::as_str),
                data: data.as_deref(),
            }),
        }
    }

    /// The statement of a write; one that writes an item anew is for a key that has none.
    pub(super) fn statement(&self, write: &Write<'_>) -> BatchStatementRequest {
        match write {
            Write::Anew(anew) => self.insert(anew),
            Write::Set { id, set, only_if } => {
                let of = |named: &[(&str, AttributeValue)], before: &str, between: &str| {
                    let names = named
                        .iter()
                        .map(|(name, _)| format!("{before}\"{name}\"=?"));
                    names.collect::<Vec<_>>().join(between)
                };
                let condition = [self.key_of(id), only_if.clone()].concat();
                let text = format!(
                    "UPDATE \"{}\" {} WHERE {}",
                    self.name,
                    of(set, "SET ", " "),
                    of(&condition, "", " AND "),
                );
                let values = set.iter().chain(&condition);
                statement(text, values.map(|(_, value)| value.clone()).collect())
            }
        }
    }

    pub(super) fn insert(&self, anew: &Anew<'_>) -> BatchStatementRequest {
        let names = &self.names;
        let mut attributes = self.key_of(anew.id);
        attributes.extend([
            (&*names.status, text(anew.status)),
            (&*names.expiration, expiration(anew.expiration)),
            (&*names.owner, text(anew.owner.to_string())),
            (&*names.fence, number(Fence::first(anew.now))),
        ]);
        let lease = anew.lease_until.map(|at| number(at.as_millis()));
        attributes.extend(lease.map(|lease| (&*names.lease, lease)));
        for (name, value) in [
            (&names.fingerprint, anew.fingerprint),
            (&names.data, anew.data),
        ] {
            attributes.extend(value.map(|value| (&**name, text(value))));
        }
        let (names, values): (Vec<_>, Vec<_>) = attributes.into_iter().unzip();
        let names: Vec<_> = names.iter().map(|name| format!("'{name}': ?")).collect();
        statement(
            format!(
                "INSERT INTO \"{}\" VALUE {{{}}}",
                self.name,
                names.join(", ")
            ),
            values,
        )
    }

    /// A claim of a key that may have an item.
    pub(super) fn claim_update(&self, client: &Client, claim: &Claim) -> UpdateItemFluentBuilder {
        self.update(client, &Anew::from(claim))
            .condition_expression(ADMITS_CLAIM)
            .expression_attribute_values(":now", number(claim.now.as_millis()))
            .return_values(ReturnValue::UpdatedNew)
    }

    /// A recording for a key that may have an item.
    pub(super) fn record_update(
        &self,
        client: &Client,
        recording: &Anew<'_>,
    ) -> UpdateItemFluentBuilder {
        self.update(client, recording)
            .condition_expression(ADMITS_RECORDING)
    }

    fn update(&self, client: &Client, anew: &Anew<'_>) -> UpdateItemFluentBuilder {
        let names = &self.names;
        let first = Fence::first(anew.now).get();
        let mut set = vec![
            "#status = :status",
            "#expiration = :expiration",
            "#owner = :me",
            "#fence = if_not_exists(#fence, :before_first) + :one",
        ];
        let mut remove = Vec::new();
        let mut update = client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(owned(self.key_of(anew.id))))
            .expression_attribute_names("#id", self.id_name())
            .expression_attribute_names("#status", &names.status)
            .expression_attribute_names("#expiration", &names.expiration)
            .expression_attribute_names("#owner", &names.owner)
            .expression_attribute_names("#fence", &names.fence)
            .expression_attribute_names("#fingerprint", &names.fingerprint)
            .expression_attribute_names("#data", &names.data)
            .expression_attribute_values(":status", text(anew.status))
            .expression_attribute_values(":expiration", expiration(anew.expiration))
            .expression_attribute_values(":me", text(anew.owner.to_string()))
            .expression_attribute_values(":before_first", number(first.saturating_sub(1)))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":inprogress", text(IN_PROGRESS))
            .expression_attribute_values(":completed", text(COMPLETED))
            .expression_attribute_values(":now_secs", number(anew.now.as_secs()))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
        if let Some(lease_until) = anew.lease_until {
            set.push("#lease = :lease");
            update = update
                .expression_attribute_names("#lease", &names.lease)
                .expression_attribute_values(":lease", number(lease_until.as_millis()));
        }
        match anew.fingerprint {
            Some(fingerprint) => {
                set.push("#fingerprint = :fingerprint");
                update = update.expression_attribute_values(":fingerprint", text(fingerprint));
            }
            None => remove.push("#fingerprint"),
        }
        match anew.data {
            Some(data) => {
                set.push("#data = :data");
                update = update.expression_attribute_values(":data", text(data));
            }
            None => remove.push("#data"),
        }
        let mut expression = format!("SET {}", set.join(", "));
        if !remove.is_empty() {
            expression.push_str(&format!(" REMOVE {}", remove.join(", ")));
        }
        update.update_expression(expression)
    }
}

fn statement(statement: String, parameters: Vec<AttributeValue>) -> BatchStatementRequest {
    BatchStatementRequest::builder()
        .statement(statement)
        .set_parameters(Some(parameters))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
        .build()
        .expect("a statement was given")
}
