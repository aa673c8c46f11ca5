//! The conditional updates of one item.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::types::{
    AttributeValue, ReturnValue, ReturnValuesOnConditionCheckFailure, TransactWriteItem, Update,
};

use crate::key::{Fingerprint, ItemId};
use crate::store::item::longest_lease;
use crate::store::{
    Claim, Fence, Owner, RELEASED, Seen, Settlement, Settling, UnclaimedCompletion,
};
use crate::time::Timestamp;

use super::table::{Attributes, COMPLETED, IN_PROGRESS, Table, expiration, number, text};

/// The counterpart of `Claim::finds_free`.
macro_rules! free {
    () => {
        "((#status = :completed AND #expiration < :now_secs) \
         OR (#status = :inprogress AND #lease < :now \
             AND (attribute_not_exists(#owner) OR #owner <> :me)) \
         OR (#status = :inprogress AND attribute_not_exists(#lease) AND #expiration < :now_secs))"
    };
}

/// The counterparts of `Claim::admitted_by` for a claim that has seen nothing, an item, or an item without a fence.
const ADMITS_NEW: &str = "attribute_not_exists(#id)";
const ADMITS_OVER: &str = concat!("#fence = :seen AND ", free!());
const ADMITS_OVER_FOREIGN: &str = concat!("attribute_not_exists(#fence) AND ", free!());

/// The counterpart of `Settlement::admitted_by`, for an unclaimed completion.
const ADMITS_UNCLAIMED: &str = "attribute_not_exists(#id) OR #status = :inprogress \
     OR (#status = :completed AND #expiration < :now_secs)";

/// The counterparts of `Settlement::admitted_by` for a renewal, without and with a fence.
macro_rules! renews {
    () => {
        "#owner = :me AND #status = :inprogress AND #lease > :released AND #lease <= :longest"
    };
}
const ADMITS_RENEWAL: &str = renews!();
const ADMITS_CARRY_OVER: &str = concat!(renews!(), " AND (#fence = :claimed OR #fence <= :fence)");

/// The counterpart of `Settlement::admitted_by`, for a commit.
const ADMITS_COMMIT: &str = "attribute_not_exists(#id) \
     OR (#status = :completed AND #expiration < :now_secs) \
     OR (#status = :inprogress AND (#owner = :me OR #lease < :now \
         OR (attribute_not_exists(#lease) AND #expiration < :now_secs)))";

/// The attributes that a claim or an unclaimed completion writes, to a new item or over one. Both raise the fence; a recording keeps the
/// lease.
pub(super) struct WrittenItem<'a> {
    pub(super) id: &'a ItemId,
    pub(super) status: &'static str,
    pub(super) lease_until: Option<Timestamp>,
    pub(super) expiration: Timestamp,
    pub(super) owner: Owner,
    pub(super) now: Timestamp,
    pub(super) fingerprint: Option<&'a str>,
    pub(super) data: Option<&'a str>,
}

impl<'a> From<&'a Claim> for WrittenItem<'a> {
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

impl<'a> WrittenItem<'a> {
    pub(super) fn recording(
        settlement: &'a Settlement,
        recording: &'a UnclaimedCompletion,
    ) -> Self {
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

/// A conditional update of one item, alone or in a transaction.
pub(super) struct ItemUpdate {
    table: String,
    key: Attributes,
    update: String,
    condition: &'static str,
    names: HashMap<String, String>,
    values: Attributes,
}

impl ItemUpdate {
    pub(super) fn request(self, client: &Client) -> UpdateItemFluentBuilder {
        client
            .update_item()
            .table_name(self.table)
            .set_key(Some(self.key))
            .update_expression(self.update)
            .condition_expression(self.condition)
            .set_expression_attribute_names(Some(self.names))
            .set_expression_attribute_values(Some(self.values))
            // An answer without results is not from DynamoDB.
            .return_values(ReturnValue::UpdatedNew)
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    pub(super) fn in_transaction(self) -> TransactWriteItem {
        let update = Update::builder()
            .table_name(self.table)
            .set_key(Some(self.key))
            .update_expression(self.update)
            .condition_expression(self.condition)
            .set_expression_attribute_names(Some(self.names))
            .set_expression_attribute_values(Some(self.values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
            .build()
            .expect("a table, a key and an update were given");
        TransactWriteItem::builder().update(update).build()
    }

    fn name(mut self, placeholder: &str, name: &str) -> Self {
        self.names.insert(placeholder.to_owned(), name.to_owned());
        self
    }

    fn value(mut self, placeholder: &str, value: AttributeValue) -> Self {
        self.values.insert(placeholder.to_owned(), value);
        self
    }
}

impl Table {
    /// Creates the update of a claim, for a key that may have an item.
    pub(super) fn claim_update(&self, claim: &Claim) -> ItemUpdate {
        let new = WrittenItem::from(claim);
        let over = |condition| {
            self.write_over(&new, condition)
                .value(":now", number(claim.now.as_millis()))
        };
        match claim.seen {
            Seen::Nothing => self.write(&new, ADMITS_NEW).name("#id", self.id_name()),
            Seen::Item(Some(fence)) => over(ADMITS_OVER).value(":seen", number(fence.get())),
            // Counts from 1: `Fence::after`.
            Seen::Item(None) => over(ADMITS_OVER_FOREIGN).value(":before_first", number(0)),
            Seen::Expired(None) => over(ADMITS_OVER_FOREIGN),
            Seen::Expired(Some(fence)) => {
                let first = Fence::first(claim.now).max(fence.next());
                over(ADMITS_OVER)
                    .value(":seen", number(fence.get()))
                    .value(":step", number(first.get() - fence.get()))
            }
        }
    }

    /// Creates the update of a settlement, for a key that may have an item: `Settlement::admitted_by`.
    pub(super) fn settlement_update(&self, settlement: &Settlement) -> ItemUpdate {
        let names = &self.names;
        match &settlement.settling {
            Settling::Complete {
                expiration: until,
                data,
            } => {
                let mut set = "SET #status = :completed, #expiration = :expiration".to_owned();
                if data.is_some() {
                    set.push_str(", #data = :data");
                }
                let update = self
                    .update(&settlement.id, settlement.owner, set, "#owner = :me")
                    .name("#status", &names.status)
                    .name("#expiration", &names.expiration)
                    .value(":completed", text(COMPLETED))
                    .value(":expiration", expiration(*until));
                match data.as_deref() {
                    None => update,
                    Some(data) => update.name("#data", &names.data).value(":data", text(data)),
                }
            }
            Settling::Release => self
                .update(
                    &settlement.id,
                    settlement.owner,
                    "SET #lease = :released".to_owned(),
                    "#owner = :me AND #status = :inprogress",
                )
                .name("#status", &names.status)
                .name("#lease", &names.lease)
                .value(":inprogress", text(IN_PROGRESS))
                .value(":released", number(RELEASED.as_millis())),
            Settling::Renew { lease_until, fence } => {
                let (set, condition) = match fence {
                    None => ("SET #lease = :lease", ADMITS_RENEWAL),
                    Some(_) => ("SET #lease = :lease, #fence = :fence", ADMITS_CARRY_OVER),
                };
                let update = self
                    .update(&settlement.id, settlement.owner, set.to_owned(), condition)
                    .name("#status", &names.status)
                    .name("#lease", &names.lease)
                    .value(":inprogress", text(IN_PROGRESS))
                    .value(":released", number(RELEASED.as_millis()))
                    .value(":longest", number(longest_lease(*lease_until).as_millis()))
                    .value(":lease", number(lease_until.as_millis()));
                match fence {
                    None => update,
                    Some(fence) => update
                        .name("#fence", &names.fence)
                        .value(":claimed", number(fence.claimed.get()))
                        .value(":fence", number(fence.follows.get())),
                }
            }
            Settling::CompleteUnclaimed(recording) => {
                let new = WrittenItem::recording(settlement, recording);
                self.write_over(&new, ADMITS_UNCLAIMED)
                    .name("#id", self.id_name())
            }
            Settling::Commit(recording) => self
                .write_over(
                    &WrittenItem::recording(settlement, recording),
                    ADMITS_COMMIT,
                )
                .name("#id", self.id_name())
                .name("#lease", &names.lease)
                .value(":now", number(recording.now.as_millis())),
        }
    }

    /// Creates the update of a claim or an unclaimed completion whose condition reads the existing item.
    fn write_over(&self, new: &WrittenItem<'_>, condition: &'static str) -> ItemUpdate {
        self.write(new, condition)
            .value(":inprogress", text(IN_PROGRESS))
            .value(":completed", text(COMPLETED))
            .value(":now_secs", number(new.now.as_secs()))
    }

    fn write(&self, new: &WrittenItem<'_>, condition: &'static str) -> ItemUpdate {
        let names = &self.names;
        let mut set = vec![
            "#status = :status",
            "#expiration = :expiration",
            "#owner = :me",
            "#fence = if_not_exists(#fence, :before_first) + :step",
        ];
        let mut remove = Vec::new();
        if new.lease_until.is_some() {
            set.push("#lease = :lease");
        }
        match new.fingerprint {
            Some(_) => set.push("#fingerprint = :fingerprint"),
            None => remove.push("#fingerprint"),
        }
        match new.data {
            Some(_) => set.push("#data = :data"),
            None => remove.push("#data"),
        }
        let mut expression = format!("SET {}", set.join(", "));
        if !remove.is_empty() {
            expression.push_str(&format!(" REMOVE {}", remove.join(", ")));
        }
        let first = Fence::first(new.now).get();
        let mut update = self
            .update(new.id, new.owner, expression, condition)
            .name("#status", &names.status)
            .name("#expiration", &names.expiration)
            .name("#fence", &names.fence)
            .name("#fingerprint", &names.fingerprint)
            .name("#data", &names.data)
            .value(":status", text(new.status))
            .value(":expiration", expiration(new.expiration))
            .value(":before_first", number(first.saturating_sub(1)))
            .value(":step", number(1));
        if let Some(lease_until) = new.lease_until {
            update = update
                .name("#lease", &names.lease)
                .value(":lease", number(lease_until.as_millis()));
        }
        if let Some(fingerprint) = new.fingerprint {
            update = update.value(":fingerprint", text(fingerprint));
        }
        if let Some(data) = new.data {
            update = update.value(":data", text(data));
        }
        update
    }

    fn update(
        &self,
        id: &ItemId,
        owner: Owner,
        update: String,
        condition: &'static str,
    ) -> ItemUpdate {
        let update = ItemUpdate {
            table: self.name.clone(),
            key: self.key_of(id),
            update,
            condition,
            names: HashMap::new(),
            values: HashMap::new(),
        };
        update
            .name("#owner", &self.names.owner)
            .value(":me", text(owner.to_string()))
    }
}
