//! The requests that a slice becomes.

use std::collections::HashMap;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::Config;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{
    BatchStatementError, BatchStatementErrorCodeEnum, BatchStatementRequest, KeysAndAttributes,
};
use futures_util::future::join_all;

use crate::key::ItemId;
use crate::store::{Claim, Claimed, Fence, Item, Settled, Settlement, StoreError, StoreErrorKind};

use super::errors;
use super::table::{Table, owned};
use super::writes::{Anew, Write};

/// How often a claim is sent that is refused without an item to show for it.
const TRIES: usize = 2;

/// What one statement of a batch came to.
type StatementResult = Result<(), BatchStatementError>;

#[derive(Debug)]
pub(super) struct Requests {
    pub(super) client: Client,
    pub(super) table: Table,
}

/// Whether the SDK sends a request again that failed.
#[derive(Clone, Copy)]
pub(super) enum Retries {
    AsConfigured,
    /// Others wait for the answer.
    No,
}

impl Requests {
    /// One conditional write: a claim of a key that may have an item already.
    pub(super) async fn claim_one(
        &self,
        claim: &Claim,
        retries: Retries,
    ) -> Result<Claimed, StoreError> {
        for _ in 0..TRIES {
            let mut request = self.table.claim_update(&self.client, claim).customize();
            if let Retries::No = retries {
                let once = Config::builder().retry_config(RetryConfig::disabled());
                request = request.config_override(once);
            }
            let refusal = match request.send().await {
                Ok(written) => return self.granted(&written),
                Err(error) => error,
            };
            if let Some(item) = self.refusing_item(refusal)? {
                return Ok(Claimed::Refused(Box::new(item)));
            }
            match self.read_one(&claim.id).await? {
                Some(item) if !claim.admitted_by(Some(&item)) => {
                    return Ok(Claimed::Refused(Box::new(item)));
                }
                // What refused the claim is gone or given back.
                _ => {}
            }
        }
        Err(without("the item that refused the claim"))
    }

    /// An `INSERT` each; those whose key has an item already go on from there.
    pub(super) async fn claim_batch(&self, claims: &[Claim]) -> Vec<Result<Claimed, StoreError>> {
        let inserts = claims
            .iter()
            .map(|claim| self.table.insert(&Anew::from(claim)));
        let results = match self.execute(inserts.collect()).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); claims.len()],
        };
        let mut answers: Vec<Option<_>> = Vec::with_capacity(claims.len());
        for (claim, result) in claims.iter().zip(results) {
            answers.push(match result {
                Ok(()) => Some(Ok(Claimed::Written {
                    fence: Fence::first(claim.now),
                })),
                Err(error) if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) => None,
                Err(error) => Some(Err(errors::statement(&error))),
            });
        }
        let open = claims.iter().zip(&answers);
        let open = open.filter(|(_, answer)| answer.is_none());
        let open: Vec<_> = open.map(|(claim, _)| claim).collect();
        let mut late = self.claim_over(&open).await.into_iter();
        let answers = answers
            .into_iter()
            .map(|answer| answer.or_else(|| late.next()));
        answers.flatten().collect()
    }

    /// Claims keys that have an item already. Most are duplicates, which one read tells of them all; what
    /// the item may not refuse is written one by one.
    async fn claim_over(&self, claims: &[&Claim]) -> Vec<Result<Claimed, StoreError>> {
        if let [claim] = claims {
            return vec![self.claim_one(claim, Retries::No).await];
        }
        let ids: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
        let found = self.read_batch(&ids).await;
        let decided = claims
            .iter()
            .zip(found)
            .map(async |(claim, found)| match found? {
                Some(item) if !claim.admitted_by(Some(&item)) => {
                    Ok(Claimed::Refused(Box::new(item)))
                }
                _ => self.claim_one(claim, Retries::No).await,
            });
        join_all(decided).await
    }

    pub(super) async fn settle_batch(
        &self,
        settlements: &[Settlement],
    ) -> Vec<Result<Settled, StoreError>> {
        let writes = settlements.iter().map(|one| self.table.write_of(one));
        let writes: Vec<_> = writes.collect();
        let statements = writes.iter().map(|write| self.table.statement(write));
        let results = match self.execute(statements.collect()).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); settlements.len()],
        };
        let answers =
            writes
                .iter()
                .zip(results)
                .map(async |(write, result)| match (result, write) {
                    (Ok(()), _) => Ok(Settled::Written),
                    (Err(error), _)
                        if is(&error, &BatchStatementErrorCodeEnum::ConditionalCheckFailed) =>
                    {
                        let item = error.item().map(|item| self.table.item(item));
                        Ok(Settled::Refused(item.transpose()?.map(Box::new)))
                    }
                    (Err(error), Write::Anew(recording))
                        if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) =>
                    {
                        self.record_over(recording).await
                    }
                    (Err(error), _) => Err(errors::statement(&error)),
                });
        self.explained(settlements, join_all(answers).await).await
    }

    /// Records over an item that stands there.
    async fn record_over(&self, recording: &Anew<'_>) -> Result<Settled, StoreError> {
        let request = self.table.record_update(&self.client, recording);
        match request.send().await {
            Ok(_) => Ok(Settled::Written),
            Err(error) => Ok(Settled::Refused(self.refusing_item(error)?.map(Box::new))),
        }
    }

    /// Looks, in one request, for the items of those that were refused without one: DynamoDB may have
    /// left it out, and what it says decides whether a record is acknowledged.
    async fn explained(
        &self,
        settlements: &[Settlement],
        mut answers: Vec<Result<Settled, StoreError>>,
    ) -> Vec<Result<Settled, StoreError>> {
        let unexplained: Vec<_> = settlements
            .iter()
            .zip(&mut answers)
            .filter(|(_, answer)| matches!(answer, Ok(Settled::Refused(None))))
            .collect();
        let ids = unexplained
            .iter()
            .map(|(settlement, _)| settlement.id.clone());
        let found = self.read_batch(&ids.collect::<Vec<_>>()).await;
        for ((_, answer), found) in unexplained.into_iter().zip(found) {
            *answer = found.map(|item| Settled::Refused(item.map(Box::new)));
        }
        answers
    }

    async fn read_one(&self, id: &ItemId) -> Result<Option<Item>, StoreError> {
        let mut items = self.read_all(std::slice::from_ref(id)).await?;
        items.remove(id).transpose()
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
        let keys = ids.iter().map(|id| owned(self.table.key_of(id))).collect();
        let request = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(true)
            .build()
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Other, "building a read").with_source(error)
            })?;
        let table = &self.table.name;
        let answer = self
            .client
            .batch_get_item()
            .request_items(table, request)
            .send()
            .await
            .map_err(errors::request)?;
        let mut items = HashMap::with_capacity(ids.len());
        let found = answer.responses().ok_or_else(|| without("items"))?;
        for attributes in found.get(table).into_iter().flatten() {
            if let Some(id) = self.table.stored_id(attributes) {
                items.insert(id, self.table.item(attributes));
            }
        }
        for attributes in answer
            .unprocessed_keys()
            .and_then(|tables| tables.get(table))
            .into_iter()
            .flat_map(KeysAndAttributes::keys)
        {
            if let Some(id) = self.table.stored_id(attributes) {
                let throttled = StoreError::new(StoreErrorKind::Throttled, "an unprocessed key");
                items.insert(id, Err(throttled));
            }
        }
        Ok(items)
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

    fn granted(&self, written: &UpdateItemOutput) -> Result<Claimed, StoreError> {
        let fence = written
            .attributes()
            .and_then(|new| new.get(&self.table.names.fence)?.as_n().ok()?.parse().ok())
            .ok_or_else(|| without("the fence of the claim"))?;
        Ok(Claimed::Written {
            fence: Fence::from_stored(fence),
        })
    }

    /// The item that refused a conditional write, if it was shown; any other error stays one.
    fn refusing_item(
        &self,
        error: SdkError<UpdateItemError, HttpResponse>,
    ) -> Result<Option<Item>, StoreError> {
        match error.as_service_error() {
            Some(UpdateItemError::ConditionalCheckFailedException(refusal)) => {
                let item = refusal.item().map(|item| self.table.item(item));
                item.transpose()
            }
            _ => Err(errors::request(error)),
        }
    }
}

fn is(error: &BatchStatementError, code: &BatchStatementErrorCodeEnum) -> bool {
    error.code() == Some(code)
}

fn without(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        format!("the answer came without {what}"),
    )
}
