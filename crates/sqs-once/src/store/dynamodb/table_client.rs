//! The requests to the store's table.

use std::collections::HashMap;
use std::slice;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::config::retry::RetryConfig;
use aws_sdk_dynamodb::config::{Builder, Config};
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::update_item::{UpdateItemError, UpdateItemOutput};
use aws_sdk_dynamodb::types::{
    BatchStatementError, BatchStatementErrorCodeEnum, KeysAndAttributes,
};
use futures_util::future::{join, join_all};

use crate::key::ItemId;
use crate::store::{
    Answers, Claim, Claimed, Fence, Item, Seen, Settled, Settlement, StoreError, StoreErrorKind,
};

use super::errors;
use super::statements::Statements;
use super::table::Table;

/// The number of times that a claim or a commit is sent if its refusals contain no item.
pub(super) const TRIES: usize = 2;

type StatementResult = Result<(), BatchStatementError>;

#[derive(Debug)]
pub(super) struct TableClient {
    pub(super) client: Client,
    pub(super) table: Table,
}

/// Whether the SDK retries a failed request.
#[derive(Clone, Copy)]
pub(super) enum Retries {
    AsConfigured,
    /// For requests whose result other messages wait for.
    No,
}

impl TableClient {
    pub(super) async fn claim_one(
        &self,
        claim: &Claim,
        retries: Retries,
    ) -> Result<Claimed, StoreError> {
        let mut claim = claim.clone();
        for _ in 0..TRIES {
            let mut request = self
                .table
                .claim_update(&claim)
                .request(&self.client)
                .customize();
            if let Retries::No = retries {
                request = request.config_override(one_attempt());
            }
            let refusal = match request.send().await {
                Ok(written) => return self.granted(&written),
                Err(error) => error,
            };
            if let Some(item) = self.refusing_item(refusal)? {
                return Ok(Claimed::Refused(Box::new(item)));
            }
            match self.read_one(&claim.id).await? {
                Some(item) => return Ok(Claimed::Refused(Box::new(item))),
                // The item that refused the claim is gone.
                None => claim.seen = Seen::Nothing,
            }
        }
        Err(without("the item that refused the claim"))
    }

    /// Sends an `INSERT` for each claim that has seen no item, and an update for each of the others.
    pub(super) async fn claim_batch(&self, claims: &[Claim]) -> Answers<Claimed> {
        let is_new = |claim: &&Claim| claim.seen == Seen::Nothing;
        if claims.iter().all(|claim| is_new(&claim)) {
            return self.insert_batch(claims).await;
        }
        let new: Vec<_> = claims.iter().filter(is_new).cloned().collect();
        let over = claims.iter().filter(|claim| !is_new(claim));
        let over = join_all(over.map(|claim| self.claim_one(claim, Retries::No)));
        let (new, over) = join(self.insert_batch(&new), over).await;
        let (mut new, mut over) = (new.into_iter(), over.into_iter());
        let in_order = claims.iter().filter_map(|claim| match is_new(&claim) {
            true => new.next(),
            false => over.next(),
        });
        in_order.collect()
    }

    /// Sends an `INSERT` for each claim, and reads the items of keys that already have one.
    async fn insert_batch(&self, claims: &[Claim]) -> Answers<Claimed> {
        let results = match self.execute(self.table.inserts(claims)).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); claims.len()],
        };
        let answer = |(claim, result): (&Claim, StatementResult)| match result {
            Ok(()) => Some(Ok(Claimed::Written {
                fence: Fence::first(claim.now),
            })),
            Err(error) if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) => None,
            Err(error) => Some(Err(errors::statement(&error))),
        };
        let answers: Vec<_> = claims.iter().zip(results).map(answer).collect();
        let open = open(claims, &answers);
        filled(answers, self.refused_batch(&open).await)
    }

    /// Reads the items that refused claims of new keys. One read costs less than refused writes.
    async fn refused_batch(&self, claims: &[&Claim]) -> Answers<Claimed> {
        let ids: Vec<_> = claims.iter().map(|claim| claim.id.clone()).collect();
        let found = self.read_batch(&ids, Retries::No).await;
        let decided = claims
            .iter()
            .zip(found)
            .map(async |(claim, found)| match found? {
                Some(item) => Ok(Claimed::Refused(Box::new(item))),
                // The item that refused the claim is gone.
                None => self.claim_one(claim, Retries::No).await,
            });
        join_all(decided).await
    }

    /// Sends one conditional write, and a read if the refusal does not contain the item.
    pub(super) async fn settle_one(&self, settlement: &Settlement) -> Answers<Settled> {
        let answer = self.settle_over(settlement).await;
        self.explained(slice::from_ref(settlement), vec![answer])
            .await
    }

    /// Sends one statement for each settlement, and an update for an unclaimed completion or a commit whose key already has an item.
    pub(super) async fn settle_batch(&self, settlements: &[Settlement]) -> Answers<Settled> {
        let results = match self.execute(self.table.settlements(settlements)).await {
            Ok(results) => results,
            Err(error) => return vec![Err(error); settlements.len()],
        };
        let answer = |result: StatementResult| match result {
            Ok(()) => Some(Ok(Settled::Written)),
            Err(error) if is(&error, &BatchStatementErrorCodeEnum::ConditionalCheckFailed) => {
                let item = error.item().map(|item| self.table.item(item)).transpose();
                Some(item.map(|item| Settled::Refused(item.map(Box::new))))
            }
            Err(error) if is(&error, &BatchStatementErrorCodeEnum::DuplicateItem) => None,
            Err(error) => Some(Err(errors::statement(&error))),
        };
        let answers: Vec<_> = results.into_iter().map(answer).collect();
        let open = open(settlements, &answers);
        let late = join_all(open.into_iter().map(|one| self.settle_over(one))).await;
        self.explained(settlements, filled(answers, late)).await
    }

    async fn settle_over(&self, settlement: &Settlement) -> Result<Settled, StoreError> {
        let request = self
            .table
            .settlement_update(settlement)
            .request(&self.client);
        match request.send().await {
            Ok(written) if written.attributes().is_some() => Ok(Settled::Written),
            Ok(_) => Err(without("what was written")),
            Err(error) => Ok(Settled::Refused(self.refusing_item(error)?.map(Box::new))),
        }
    }

    /// Reads the items that are missing from refusals, in one request. DynamoDB may omit the item, but its status
    /// decides whether a message is acknowledged.
    async fn explained(
        &self,
        settlements: &[Settlement],
        mut answers: Answers<Settled>,
    ) -> Answers<Settled> {
        let unexplained: Vec<_> = settlements
            .iter()
            .zip(&mut answers)
            .filter(|(_, answer)| matches!(answer, Ok(Settled::Refused(None))))
            .collect();
        let ids = unexplained
            .iter()
            .map(|(settlement, _)| settlement.id.clone());
        let ids: Vec<_> = ids.collect();
        let found = self.read_batch(&ids, Retries::AsConfigured).await;
        for ((_, answer), found) in unexplained.into_iter().zip(found) {
            *answer = found.map(|item| Settled::Refused(item.map(Box::new)));
        }
        answers
    }

    pub(super) async fn read_one(&self, id: &ItemId) -> Result<Option<Item>, StoreError> {
        let mut items = self
            .read_all(slice::from_ref(id), Retries::AsConfigured)
            .await?;
        items.remove(id).transpose()
    }

    /// Reads up to 100 items, consistently.
    pub(super) async fn read_batch(
        &self,
        ids: &[ItemId],
        retries: Retries,
    ) -> Answers<Option<Item>> {
        match self.read_all(ids, retries).await {
            Ok(mut items) => ids.iter().map(|id| items.remove(id).transpose()).collect(),
            Err(error) => vec![Err(error); ids.len()],
        }
    }

    async fn read_all(
        &self,
        ids: &[ItemId],
        retries: Retries,
    ) -> Result<HashMap<ItemId, Result<Item, StoreError>>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let keys = ids.iter().map(|id| self.table.key_of(id)).collect();
        let request = KeysAndAttributes::builder()
            .set_keys(Some(keys))
            .consistent_read(true)
            .build()
            .map_err(|error| {
                StoreError::new(StoreErrorKind::Other, "building a read").with_source(error)
            })?;
        let table = &self.table.name;
        let request = self.client.batch_get_item().request_items(table, request);
        let mut request = request.customize();
        if let Retries::No = retries {
            request = request.config_override(one_attempt());
        }
        let answer = request.send().await.map_err(errors::request)?;
        let mut items = HashMap::with_capacity(ids.len());
        let tables = answer.responses().ok_or_else(|| without("items"))?;
        let found = match tables.get(table) {
            Some(found) => found.as_slice(),
            None if tables.is_empty() => &[],
            // The answer has items under another table name. They may be ours, so the key may not be free.
            None => return Err(without("the table's items")),
        };
        for attributes in found {
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

    /// Runs up to 25 statements and returns their results in the same order.
    async fn execute(&self, statements: Statements) -> Result<Vec<StatementResult>, StoreError> {
        let count = statements.count();
        if count == 0 {
            return Ok(Vec::new());
        }
        let answer = self
            .client
            .batch_execute_statement()
            .customize()
            .mutate_request(statements.into_body())
            .send()
            .await
            .map_err(errors::batch)?;
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

    /// Returns the item that refused a conditional write, if the refusal contains it, or any other error.
    pub(super) fn refusing_item(
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

/// Returns the entries of a slice that have no answer yet.
fn open<'a, E, T>(entries: &'a [E], answers: &[Option<T>]) -> Vec<&'a E> {
    let pairs = entries.iter().zip(answers);
    let open = pairs.filter(|(_, answer)| answer.is_none());
    open.map(|(entry, _)| entry).collect()
}

/// Fills the gaps in `answers` with the late ones, in order.
fn filled<T>(answers: Vec<Option<T>>, late: Vec<T>) -> Vec<T> {
    let mut late = late.into_iter();
    let mut all = Vec::with_capacity(answers.len());
    let given = answers.into_iter();
    all.extend(given.filter_map(|answer| answer.or_else(|| late.next())));
    all
}

pub(super) fn one_attempt() -> Builder {
    Config::builder().retry_config(RetryConfig::disabled())
}

fn is(error: &BatchStatementError, code: &BatchStatementErrorCodeEnum) -> bool {
    error.code() == Some(code)
}

pub(super) fn without(what: &str) -> StoreError {
    StoreError::new(
        StoreErrorKind::Other,
        format!("the answer came without {what}"),
    )
}
