//! The conditional updates of one item.

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{ReturnValue, ReturnValuesOnConditionCheckFailure};

use crate::key::{Fingerprint, ItemId};
use crate::store::{Claim, Fence, Owner, Recording, Settlement, Settling};
use crate::time::Timestamp;

use super::table::{COMPLETED, IN_PROGRESS, Table, expiration, number, text};

/// The counterpart of `Claim::admitted_by`.
const ADMITS_CLAIM: &str = "attribute_not_exists(#id) \
     OR (#status = :completed AND #expiration < :now_secs) \
     OR (#status = :inprogress AND #lease < :now \
         AND (attribute_not_exists(#owner) OR #owner <> :me)) \
     OR (#status = :inprogress AND attribute_not_exists(#lease) AND #expiration < :now_secs)";

/// The counterpart of `Settlement::admitted_by`, for a recording.
const ADMITS_RECORDING: &str = "attribute_not_exists(#id) OR #status = :inprogress \
     OR (#status = :completed AND #expiration < :now_secs)";

/// The counterpart of `Settlement::admitted_by`, for a commit.
const ADMITS_COMMIT: &str = "attribute_not_exists(#id) \
     OR (#status = :completed AND #expiration < :now_secs) \
     OR (#status = :inprogress AND (#owner = :me OR #lease < :now \
         OR (attribute_not_exists(#lease) AND #expiration < :now_secs)))";

/// What a claim or a recording writes. Of an item that stands there only the fence goes on, and for a
/// recording the lease.
pub(super) struct Anew<'a> {
    pub(super) id: &'a ItemId,
    pub(super) status: &'static str,
    pub(super) lease_until: Option<Timestamp>,
    pub(super) expiration: Timestamp,
    pub(super) owner: Owner,
    pub(super) now: Timestamp,
    pub(super) fingerprint: Option<&'a str>,
    pub(super) data: Option<&'a str>,
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

impl<'a> Anew<'a> {
    pub(super) fn recording(settlement: &'a Settlement, recording: &'a Recording) -> Self {
        Self {
            id: &settlement.id,
            status: COMPLETED,
            lease_until: None,
            expiration: recording.expiration,
            owner: settlement.owner,
            now: recording.now,
            fingerprint: recording.fingerprint.as_ref().map(Fingerprint::as_str),
            data: recording.data.as_deref(),
        }
    }
}

impl Table {
    /// A claim of a key that may have an item.
    pub(super) fn claim_update(&self, client: &Client, claim: &Claim) -> UpdateItemFluentBuilder {
        self.write(client, &Anew::from(claim))
            .condition_expression(ADMITS_CLAIM)
            .expression_attribute_values(":now", number(claim.now.as_millis()))
    }

    /// A settlement of a key that may have an item: the counterpart of `Settlement::admitted_by`.
    pub(super) fn settlement_update(
        &self,
        client: &Client,
        settlement: &Settlement,
    ) -> UpdateItemFluentBuilder {
        let names = &self.names;
        match &settlement.settling {
            Settling::Complete {
                expiration: until,
                data,
            } => {
                let update = self
                    .update(client, &settlement.id, settlement.owner)
                    .condition_expression("#owner = :me")
                    .expression_attribute_names("#status", &names.status)
                    .expression_attribute_names("#expiration", &names.expiration)
                    .expression_attribute_values(":completed", text(COMPLETED))
                    .expression_attribute_values(":expiration", expiration(*until));
                match data.as_deref() {
                    None => update
                        .update_expression("SET #status = :completed, #expiration = :expiration"),
                    Some(data) => update
                        .expression_attribute_names("#data", &names.data)
                        .expression_attribute_values(":data", text(data))
                        .update_expression(
                            "SET #status = :completed, #expiration = :expiration, #data = :data",
                        ),
                }
            }
            Settling::Release => self
                .update(client, &settlement.id, settlement.owner)
                .condition_expression("#owner = :me AND #status = :inprogress")
                .expression_attribute_names("#status", &names.status)
                .expression_attribute_names("#lease", &names.lease)
                .expression_attribute_values(":inprogress", text(IN_PROGRESS))
                .expression_attribute_values(":lapsed", number(0))
                .update_expression("SET #lease = :lapsed"),
            Settling::Record(recording) => self
                .write(client, &Anew::recording(settlement, recording))
                .condition_expression(ADMITS_RECORDING),
            Settling::Commit(recording) => self
                .write(client, &Anew::recording(settlement, recording))
                .condition_expression(ADMITS_COMMIT)
                .expression_attribute_names("#lease", &names.lease)
                .expression_attribute_values(":now", number(recording.now.as_millis())),
        }
    }

    /// A claim or a recording.
    fn write(&self, client: &Client, anew: &Anew<'_>) -> UpdateItemFluentBuilder {
        let names = &self.names;
        let first = Fence::first(anew.now).get();
        let mut set = vec![
            "#status = :status",
            "#expiration = :expiration",
            "#owner = :me",
            "#fence = if_not_exists(#fence, :before_first) + :one",
        ];
        let mut remove = Vec::new();
        let mut update = self
            .update(client, anew.id, anew.owner)
            .expression_attribute_names("#id", self.id_name())
            .expression_attribute_names("#status", &names.status)
            .expression_attribute_names("#expiration", &names.expiration)
            .expression_attribute_names("#fence", &names.fence)
            .expression_attribute_names("#fingerprint", &names.fingerprint)
            .expression_attribute_names("#data", &names.data)
            .expression_attribute_values(":status", text(anew.status))
            .expression_attribute_values(":expiration", expiration(anew.expiration))
            .expression_attribute_values(":before_first", number(first.saturating_sub(1)))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":inprogress", text(IN_PROGRESS))
            .expression_attribute_values(":completed", text(COMPLETED))
            .expression_attribute_values(":now_secs", number(anew.now.as_secs()));
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

    /// What all updates have.
    fn update(&self, client: &Client, id: &ItemId, owner: Owner) -> UpdateItemFluentBuilder {
        client
            .update_item()
            .table_name(&self.name)
            .set_key(Some(self.key_of(id)))
            .expression_attribute_names("#owner", &self.names.owner)
            .expression_attribute_values(":me", text(owner.to_string()))
            // An answer that shows nothing is none of DynamoDB's.
            .return_values(ReturnValue::UpdatedNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }
}
