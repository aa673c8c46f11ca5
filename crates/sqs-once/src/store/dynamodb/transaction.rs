//! Commits of a handler's writes together with the record of their key, in one transaction.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::TransactWriteItemsError;
use aws_sdk_dynamodb::types::{CancellationReason, ReturnConsumedCapacity};

use crate::store::{Committed, Item, Settlement, StoreError, StoreErrorKind, unquoted};

use super::errors;
use super::table_client::{TRIES, TableClient, without};
use super::writes::{Conflict, Writes};

const CONDITION_NOT_MET: &str = "ConditionalCheckFailed";
const NOTHING_WRONG: &str = "None";

enum Cancelled {
    /// The key's item refused it. The answer may contain the item.
    ByKey(Option<Box<Item>>),
    /// The handler's writes were refused: by a condition, or with an error.
    ByWrites(Result<Box<Conflict>, StoreError>),
}

impl TableClient {
    /// Sends one transaction. Sends it again only if the item that refused it is gone.
    pub(super) async fn commit(
        &self,
        settlement: &Settlement,
        writes: &Writes,
    ) -> Result<Committed, StoreError> {
        self.leaves_the_key_alone(settlement, writes)?;
        for _ in 0..TRIES {
            let mut items = writes.items().to_vec();
            items.push(self.table.settlement_update(settlement).in_transaction());
            let request = self
                .client
                .transact_write_items()
                .set_transact_items(Some(items))
                // The token is the same whenever this settlement is sent, so DynamoDB carries it out only once in ten
                // minutes.
                .client_request_token(settlement.owner.to_string())
                // An answer without results is not from DynamoDB.
                .return_consumed_capacity(ReturnConsumedCapacity::Total);
            let error = match request.send().await {
                Ok(answer) if !answer.consumed_capacity().is_empty() => {
                    return Ok(Committed::Written);
                }
                Ok(_) => return Err(without("what was written")),
                Err(error) => error,
            };
            let quotable: Vec<_> = super::quotable(settlement).chain(writes.texts()).collect();
            let why = match self.cancelled(error, writes, &quotable)? {
                Cancelled::ByKey(Some(item)) => return Ok(Committed::Refused(item)),
                Cancelled::ByKey(None) => None,
                Cancelled::ByWrites(why) => Some(why),
            };
            // A duplicate's own writes are usually refused too, so the key's item decides.
            let item = self.read_one(&settlement.id).await;
            let item = item.map_err(|error| error.without(quotable))?;
            match (item, why) {
                (Some(item), _) if !settlement.admitted_by(Some(&item)) => {
                    return Ok(Committed::Refused(Box::new(item)));
                }
                (_, Some(why)) => return why.map(Committed::Conflict),
                // The item that refused the commit is gone or released.
                (_, None) => {}
            }
        }
        Err(without("the item that refused the commit"))
    }

    fn leaves_the_key_alone(
        &self,
        settlement: &Settlement,
        writes: &Writes,
    ) -> Result<(), StoreError> {
        let key = self.table.key_of(&settlement.id);
        let all = writes.all();
        match all.iter().find(|write| write.is_of(&self.table.name, &key)) {
            None => Ok(()),
            Some(write) => Err(other(format!(
                "{} changes the item that records the key, which handlers must not write",
                write.name()
            ))),
        }
    }

    fn cancelled(
        &self,
        error: SdkError<TransactWriteItemsError, HttpResponse>,
        writes: &Writes,
        quotable: &[&str],
    ) -> Result<Cancelled, StoreError> {
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                self.decisive_reason(cancelled.cancellation_reasons(), writes, quotable)
            }
            // An earlier copy was carried out. The key's item shows its result.
            Some(TransactWriteItemsError::IdempotentParameterMismatchException(_)) => {
                let text =
                    "another request of the same attempt was carried out in the last ten minutes";
                let error = other(text.to_owned()).with_source(error);
                Ok(Cancelled::ByWrites(Err(error)))
            }
            _ => Err(self.failed(error, writes, quotable)),
        }
    }

    /// Finds the decisive cancellation reason. A refusal by the key's item comes first, then transient errors.
    fn decisive_reason(
        &self,
        reasons: &[CancellationReason],
        writes: &Writes,
        quotable: &[&str],
    ) -> Result<Cancelled, StoreError> {
        let all = writes.all();
        let Some((own, others)) = reasons
            .split_last()
            .filter(|(_, others)| others.len() == all.len())
        else {
            return Err(other(format!(
                "a transaction of {} writes was cancelled with {} reasons",
                all.len() + 1,
                reasons.len()
            )));
        };
        if own.code() == Some(CONDITION_NOT_MET) {
            let item = own.item().map(|item| self.table.item(item)).transpose()?;
            return Ok(Cancelled::ByKey(item.map(Box::new)));
        }
        let own_failure = failure(own, quotable)
            .map(|(kind, text)| StoreError::new(kind, format!("the record of the key: {text}")));
        let failures = all.iter().zip(others).filter_map(|(write, reason)| {
            let (kind, text) = failure(reason, quotable)?;
            Some(StoreError::new(
                of_write(kind),
                format!("{}: {text}", write.name()),
            ))
        });
        let failures: Vec<_> = failures.collect();
        let passing = own_failure
            .iter()
            .chain(&failures)
            .find(|error| error.is_transient());
        if let Some(error) = passing.or(own_failure.as_ref()) {
            return Err(error.clone());
        }
        let unmet = all
            .iter()
            .zip(others)
            .filter(|(_, reason)| reason.code() == Some(CONDITION_NOT_MET));
        let conflicts =
            unmet.map(|(write, reason)| Conflict::new(write.name(), reason.item().cloned()));
        let why = match writes.decisive(conflicts.collect()) {
            Some(conflict) => Ok(Box::new(conflict)),
            None => Err(failures
                .into_iter()
                .next()
                .unwrap_or_else(|| without("its reason"))),
        };
        Ok(Cancelled::ByWrites(why))
    }

    /// Converts the error of a failed request. A transaction concerns several tables, and DynamoDB may not name the one
    /// that failed, so the message lists them.
    fn failed(
        &self,
        error: SdkError<TransactWriteItemsError, HttpResponse>,
        writes: &Writes,
        quotable: &[&str],
    ) -> StoreError {
        let all = writes.all();
        let own = format!("dynamodb:UpdateItem on `{}`", self.table.name);
        errors::request_and(error, quotable, |kind, message| match kind {
            StoreErrorKind::AccessDenied => {
                let needed = all
                    .iter()
                    .map(|write| format!("{} on `{}`", write.action(), write.table));
                let needed: BTreeSet<_> = needed.chain([own]).collect();
                message.push_str(&format!("; this commit needs {}", listed(needed)));
            }
            // The store's own table was there when the function started.
            StoreErrorKind::TableNotFound if !all.is_empty() => {
                *kind = StoreErrorKind::Other;
                let tables = all
                    .iter()
                    .map(|write| write.table)
                    .chain([&*self.table.name]);
                let tables: BTreeSet<_> = tables.map(|table| format!("`{table}`")).collect();
                message.push_str(&format!(
                    "; this commit needs the tables {}",
                    listed(tables)
                ));
            }
            _ if message.contains("multiple operations on one item") => {
                let of_table =
                    |table: &str| all.iter().filter(|write| write.table == table).count();
                let may_be = all
                    .iter()
                    .filter(|write| write.is_put() && of_table(write.table) > 1);
                let names: Vec<_> = may_be.map(|write| write.name().to_string()).collect();
                if !names.is_empty() {
                    message.push_str(&format!("; these may be: {}", listed(names)));
                }
            }
            _ => *kind = of_write(*kind),
        })
    }
}

/// Returns the error of one write without the values that DynamoDB quotes, unless it has none but an unmet condition.
fn failure(reason: &CancellationReason, quotable: &[&str]) -> Option<(StoreErrorKind, String)> {
    let code = reason.code()?;
    if [NOTHING_WRONG, CONDITION_NOT_MET].contains(&code) {
        return None;
    }
    let message = reason.message().unwrap_or_default();
    let text = format!("{code}: {message}");
    let text = unquoted(&text, quotable.iter().copied()).unwrap_or(text);
    Some((errors::by_code(code, message), text))
}

/// Changes the kind for a handler's write: a wrong key in one message's write must not look like an unusable store.
fn of_write(kind: StoreErrorKind) -> StoreErrorKind {
    match kind {
        StoreErrorKind::KeySchema => StoreErrorKind::Other,
        kind => kind,
    }
}

fn listed(all: impl IntoIterator<Item = String>) -> String {
    all.into_iter().collect::<Vec<_>>().join(", ")
}

fn other(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Other, message)
}
