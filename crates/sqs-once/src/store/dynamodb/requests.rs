//! The requests that a slice becomes.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::builders::UpdateItemFluentBuilder;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{
    AttributeValue, BatchStatementError, BatchStatementErrorCodeEnum, BatchStatementRequest,
    KeysAndAttributes, ReturnValue, ReturnValuesOnConditionCheckFailure,
};
use futures_util::future::join_all;

use crate::key::{Fingerprint, ItemId};
use crate::store::{
    Claim, Claimed, Fence, Item, Settled, Settlement, Settling, StoreError, StoreErrorKind,
};
use crate::time::Timestamp;

use super::attributes::{
    Attributes, COMPLETED, DATA, EXPIRATION, FENCE, FINGERPRINT, ID, IN_PROGRESS, LEASE, OWNER,
    STATUS, expiration, item, number, text,
};
use super::errors;

/// What one statement of a batch came to.
type StatementResult = Result<(), BatchStatementError>;

/// What a claim or a recording keeps besides, if anything.
#[derive(Clone, Copy)]
struct Kept<'a> {
    fingerprint: Option<&'a str>,
    data: Option<&'a str>,
}

impl<'a> Kept<'a> {
    fn new(fingerprint: Option<&'a Fingerprint>, data: Option<&'a str>) -> Self {
        Self {
            fingerprint: fingerprint.map(Fingerprint::as_str),
            data,
        }
    }
}

#[derive(Debug)]
pub(super) struct Requests {
    client: Client,
    table: String,
}

impl Requests {
    pub(super) fn new(client: Client, table: String) -> Self {
        Self { client, table }
    }

    /// One conditional write: a claim of a key that may have an item already.
    pub(super) async fn claim_one(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let request = self.claim_update(claim).customize();
        claimed(request.send().await)
    }

    /// The same without the SDK's retries: others wait for its answer.
    async fn claim_once(&self, claim: &Claim) -> Result<Claimed, StoreError> {
        let once = Config::builder().retry_config(RetryConfig::disabled());
        let request = self.claim_update(claim).customize().config_override(once);
        claimed(request.send().await)
    }

    fn claim_update(&self, claim: &Claim) -> UpdateItemFluentBuilder {
        let set = "SET #status = :inprogress, #lease = :lease, #expiration = :expiration, \
                   #owner = :me, #fence = if_not_exists(#fence, :before_first) + :one";
        let first = Fence::first(claim.now).get();
        self.update(&claim.id, set, Kept::new(claim.fingerprint.as_ref(), None))
            // The counterpart of `Claim::admitted_by`.
            .condition_expression(
                "attribute_not_exists(#id) \
                 OR (#status = :completed AND #expiration < :now_secs) \
                 OR (#status = :inprogress AND #lease < :now \
                     AND (attribute_not_exists(#owner) OR #owner <> :me)) \
                 OR (#status = :inprogress AND attribute_not_exists(#lease) \
                     AND #expiration < :now_secs)",
            )
            .expression_attribute_names("#id", ID)
            .expression_attribute_names("#lease", LEASE)
            .expression_attribute_values(":inprogress", text(IN_PROGRESS))
            .expression_attribute_values(":completed", text(COMPLETED))
            .expression_attribute_values(":lease", number(claim.lease_until.as_millis()))
            .expression_attribute_values(":expiration", expiration(claim.expiration))
            .expression_attribute_values(":me", text(claim.owner.to_string()))
            .expression_attribute_values(":before_first", number(first.saturating_sub(1)))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":now", number(claim.now.as_millis()))
            .expression_attribute_values(":now_secs", number(claim.now.as_secs()))
            .return_values(ReturnValue::UpdatedNew)
    }

    /// An `INSERT` each; those whose key has an item already are claimed again one by one.
    pub(super) async fn claim_batch(&self, claims: &[Claim]) -> Vec<Result<Claimed, StoreError>> {
        let statements = claims.iter().map(|claim| {
            self.insert(
                vec![
                    (ID, text(claim.id.as_str())),
                    (STATUS, text(IN_PROGRESS)),
                    (LEASE, number(claim.lease_until.as_millis())),
                    (EXPIRATION, expiration(claim.expiration)),
                    (OWNER, text(claim.owner.to_string())),
                    (FENCE, number(Fence::first(claim.now))),
                ],
                Kept::new(claim.fingerprint.as_ref(), None),
            )
        });
        let results = match self.execute(statements.collect()).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); claims.len()],
        };
        join_all(
            claims
                .iter()
                .zip(results)
                .map(async |(claim, result)| match result {
                    Ok(()) => Ok(Claimed::Written {
                        fence: Fence::first(claim.now),
                    }),
                    Err(error) if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) => {
                        self.claim_once(claim).await
                    }
                    Err(error) => Err(errors::statement(&error)),
                }),
        )
        .await
    }

    pub(super) async fn settle_batch(
        &self,
        settlements: &[Settlement],
    ) -> Vec<Result<Settled, StoreError>> {
        let statements = settlements.iter().map(|settlement| self.settle(settlement));
        let results = match self.execute(statements.collect()).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); settlements.len()],
        };
        join_all(
            settlements
                .iter()
                .zip(results)
                .map(
                    async |(settlement, result)| match (result, &settlement.settling) {
                        (Ok(()), _) => Ok(Settled::Written),
                        (Err(error), _)
                            if is(&error, &BatchStatementErrorCodeEnum::ConditionalCheckFailed) =>
                        {
                            let refusing = error.item().map(item).transpose()?;
                            Ok(Settled::Refused(refusing.map(Box::new)))
                        }
                        (
                            Err(error),
                            Settling::Record {
                                now,
                                expiration,
                                fingerprint,
                                data,
                            },
                        ) if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) => {
                            let kept = Kept::new(fingerprint.as_ref(), data.as_deref());
                            self.record_over(settlement, *now, *expiration, kept).await
                        }
                        (Err(error), _) => Err(errors::statement(&error)),
                    },
                ),
        )
        .await
    }

    /// Reads up to 100 items, consistently.
    pub(super) async fn read_batch(&self, ids: &[ItemId]) -> Vec<Result<Option<Item>, StoreError>> {
        match self.read_all(ids).await {
            Ok(mut items) => ids.iter().map(|id| items.remove(id).transpose()).collect(),
            Err(error) => vec![Err(error); ids.len()],
        }
    }

    async fn read_all(
        &self,
        ids: &[ItemId],
    ) -> Result<HashMap<ItemId, Result<Item, StoreError>>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let keys = ids
            .iter()
            .map(|id| HashMap::from([(ID.to_owned(), text(id.as_str()))]))
            .collect();
        let request = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(true)
            .build()
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Other, "building a read").with_source(error)
            })?;
        let answer = self
            .client
            .batch_get_item()
            .request_items(&self.table, request)
            .send()
            .await
            .map_err(errors::request)?;
        let mut items = HashMap::with_capacity(ids.len());
        let found = answer.responses().ok_or_else(|| without("items"))?;
        for attributes in found.get(&self.table).into_iter().flatten() {
            if let Some(id) = stored_id(attributes) {
                items.insert(id, item(attributes));
            }
        }
        for attributes in answer
            .unprocessed_keys()
            .and_then(|tables| tables.get(&self.table))
            .into_iter()
            .flat_map(KeysAndAttributes::keys)
        {
            if let Some(id) = stored_id(attributes) {
                let throttled = StoreError::new(StoreErrorKind::Throttled, "an unprocessed key");
                items.insert(id, Err(throttled));
            }
        }
        Ok(items)
    }

    fn settle(&self, settlement: &Settlement) -> BatchStatementRequest {
        let owner = settlement.owner.to_string();
        let id = text(settlement.id.as_str());
        match &settlement.settling {
            Settling::Complete {
                expiration: until,
                data,
            } => {
                let mut set = format!("SET \"{STATUS}\"=? SET \"{EXPIRATION}\"=?");
                let mut parameters = vec![text(COMPLETED), expiration(*until)];
                if let Some(data) = data {
                    set.push_str(&format!(" SET \"{DATA}\"=?"));
                    parameters.push(text(&**data));
                }
                parameters.extend([id, text(owner)]);
                let condition = format!("\"{ID}\"=? AND \"{OWNER}\"=?");
                self.update_statement(&set, &condition, parameters)
            }
            Settling::Release => self.update_statement(
                &format!("SET \"{LEASE}\"=?"),
                &format!("\"{ID}\"=? AND \"{OWNER}\"=? AND \"{STATUS}\"=?"),
                vec![number(0), id, text(owner), text(IN_PROGRESS)],
            ),
            Settling::Record {
                now,
                expiration: until,
                fingerprint,
                data,
            } => self.insert(
                vec![
                    (ID, id),
                    (STATUS, text(COMPLETED)),
                    (EXPIRATION, expiration(*until)),
                    (OWNER, text(owner)),
                    (FENCE, number(Fence::first(*now))),
                ],
                Kept::new(fingerprint.as_ref(), data.as_deref()),
            ),
        }
    }

    /// Records over an item that stands there.
    async fn record_over(
        &self,
        settlement: &Settlement,
        now: Timestamp,
        until: Timestamp,
        kept: Kept<'_>,
    ) -> Result<Settled, StoreError> {
        let set = "SET #status = :completed, #expiration = :expiration, #owner = :me, \
                   #fence = if_not_exists(#fence, :before_first) + :one";
        let first = Fence::first(now).get();
        let request = self
            .update(&settlement.id, set, kept)
            // The counterpart of `Settlement::admitted_by`.
            .condition_expression(
                "attribute_not_exists(#id) OR #status = :inprogress OR (#status = :completed \
                 AND #expiration < :now_secs)",
            )
            .expression_attribute_values(":inprogress", text(IN_PROGRESS))
            .expression_attribute_values(":completed", text(COMPLETED))
            .expression_attribute_values(":expiration", expiration(until))
            .expression_attribute_values(":me", text(settlement.owner.to_string()))
            .expression_attribute_values(":before_first", number(first.saturating_sub(1)))
            .expression_attribute_values(":one", number(1))
            .expression_attribute_values(":now_secs", number(now.as_secs()));
        match request.send().await {
            Ok(_) => Ok(Settled::Written),
            Err(error) => Ok(Settled::Refused(refusing_item(error)?.map(Box::new))),
        }
    }

    /// An update that leaves `kept` in place of an older item's fingerprint and data.
    fn update(&self, id: &ItemId, set: &str, kept: Kept<'_>) -> UpdateItemFluentBuilder {
        let (mut set, mut remove) = (set.to_owned(), Vec::new());
        let mut values = HashMap::new();
        for (name, value) in [("fingerprint", kept.fingerprint), ("data", kept.data)] {
            match value {
                Some(value) => {
                    set.push_str(&format!(", #{name} = :{name}"));
                    values.insert(format!(":{name}"), text(value));
                }
                None => remove.push(format!("#{name}")),
            }
        }
        if !remove.is_empty() {
            set.push_str(&format!(" REMOVE {}", remove.join(", ")));
        }
        self.client
            .update_item()
            .table_name(&self.table)
            .key(ID, text(id.as_str()))
            .update_expression(set)
            .expression_attribute_names("#status", STATUS)
            .expression_attribute_names("#expiration", EXPIRATION)
            .expression_attribute_names("#owner", OWNER)
            .expression_attribute_names("#fence", FENCE)
            .expression_attribute_names("#id", ID)
            .expression_attribute_names("#data", DATA)
            .expression_attribute_names("#fingerprint", FINGERPRINT)
            .set_expression_attribute_values(Some(values))
            .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld)
    }

    fn insert(
        &self,
        mut attributes: Vec<(&str, AttributeValue)>,
        kept: Kept<'_>,
    ) -> BatchStatementRequest {
        attributes.extend(kept.fingerprint.map(|value| (FINGERPRINT, text(value))));
        attributes.extend(kept.data.map(|value| (DATA, text(value))));
        let (names, values): (Vec<_>, Vec<_>) = attributes.into_iter().unzip();
        let names: Vec<_> = names.iter().map(|name| format!("'{name}': ?")).collect();
        let table = &self.table;
        statement(
            format!("INSERT INTO \"{table}\" VALUE {{{}}}", names.join(", ")),
            values,
        )
    }

    fn update_statement(
        &self,
        set: &str,
        condition: &str,
        parameters: Vec<AttributeValue>,
    ) -> BatchStatementRequest {
        let table = &self.table;
        statement(
            format!("UPDATE \"{table}\" {set} WHERE {condition}"),
            parameters,
        )
    }

    /// Runs up to 25 statements; the results are in their order.
    async fn execute(
        &self,
        statements: Vec<BatchStatementRequest>,
    ) -> Result<Vec<StatementResult>, StoreError> {
        if statements.is_empty() {
            return Ok(Vec::new());
        }
        let count = statements.len();
        let answer = self
            .client
            .batch_execute_statement()
            .set_statements(Some(statements))
            .send()
            .await
            .map_err(errors::request)?;
        let responses = answer.responses.unwrap_or_default();
        if responses.len() != count {
            return Err(errors::miscounted(count, responses.len()));
        }
        Ok(responses
            .into_iter()
            .map(|response| response.error.map_or(Ok(()), Err))
            .collect())
    }
}

fn claimed(
    answer: Result<UpdateItemOutput, SdkError<UpdateItemError, HttpResponse>>,
) -> Result<Claimed, StoreError> {
    match answer {
        Ok(written) => {
            let fence = written
                .attributes()
                .and_then(|new| new.get(FENCE)?.as_n().ok()?.parse().ok())
                .ok_or_else(|| without("the fence of the claim"))?;
            Ok(Claimed::Written {
                fence: Fence::from_stored(fence),
            })
        }
        Err(error) => match refusing_item(error)? {
            Some(item) => Ok(Claimed::Refused(Box::new(item))),
            None => Err(without("the item that refused the claim")),
        },
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

fn is(error: &BatchStatementError, code: &BatchStatementErrorCodeEnum) -> bool {
    error.code() == Some(code)
}

fn stored_id(attributes: &Attributes) -> Option<ItemId> {
    let id = attributes.get(ID)?.as_s().ok()?;
    Some(ItemId::from_stored(id.as_str()))
}

/// The item that refused a conditional write; any other error stays one.
fn refusing_item(
    error: SdkError<UpdateItemError, HttpResponse>,
) -> Result<Option<Item>, StoreError> {
    match error.as_service_error() {
        Some(UpdateItemError::ConditionalCheckFailedException(refusal)) => {
            refusal.item().map(item).transpose()
        }
        _ => Err(errors::request(error)),
    }
}

fn without(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        format!("the answer came without {what}"),
    )
}
