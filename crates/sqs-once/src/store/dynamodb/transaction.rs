//! Commits of a handler's writes together with the completion of their key, in one transaction.

use std::collections::BTreeSet;

use aws_sdk_dynamodb::config::http::HttpResponse;
use aws_sdk_dynamodb::error::SdkError;
use aws_sdk_dynamodb::operation::transact_write_items::{
    TransactWriteItemsError, TransactWriteItemsOutput,
};
use aws_sdk_dynamodb::types::{CancellationReason, ReturnConsumedCapacity};
use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt};
use sha2::{Digest, Sha256};

use crate::key::{ItemId, hex};
use crate::store::{Answers, Committed, Item, StoreError, StoreErrorKind, unquoted};

use super::errors;
use super::packing::{Commit, packed};
use super::table_client::{Retries, TRIES, TableClient, one_attempt, without};
use super::writes::Conflict;

const CONDITION_NOT_MET: &str = "ConditionalCheckFailed";
const NOTHING_WRONG: &str = "None";
/// The number of times that commits share a transaction after DynamoDB has cancelled the one before.
const SHARED_TRIES: usize = 3;
/// The most transactions of one call that are in flight.
const IN_FLIGHT: usize = 8;

type Failed = SdkError<TransactWriteItemsError, HttpResponse>;

enum Cancelled {
    /// The key's item refused it. The answer may contain the item.
    ByKey(Option<Box<Item>>),
    /// The handler's writes were refused: by a condition, or with an error.
    ByWrites(Result<Box<Conflict>, StoreError>),
}

impl TableClient {
    /// Sends one transaction. Sends it again only if the item that refused it is gone.
    pub(super) async fn commit(&self, commit: Commit<'_>) -> Result<Committed, StoreError> {
        self.leaves_the_key_alone(commit)?;
        for _ in 0..TRIES {
            let error = match self.send(&[commit]).await {
                Ok(answer) => return confirmed(&answer),
                Err(error) => error,
            };
            let why = self.cancelled(error, commit);
            if let Some(decided) = self.decided(vec![(commit, why)]).await.pop()
                && let Some(committed) = decided.transpose()
            {
                return committed;
            }
        }
        Err(without("the item that refused the commit"))
    }

    /// Commits all of these in as few transactions as possible, and returns their answers in order. A commit that causes a
    /// cancellation does not keep the others from committing.
    pub(super) async fn commit_all(&self, commits: &[Commit<'_>]) -> Answers<Committed> {
        let chains = packed(commits).into_iter();
        let chains: Vec<_> = chains.map(|chain| self.commit_chain(chain)).collect();
        let answers: Vec<_> = stream::iter(chains).buffered(IN_FLIGHT).collect().await;
        answers.into_iter().flatten().collect()
    }

    /// Sends transactions one after the other.
    async fn commit_chain(&self, chain: Vec<Vec<Commit<'_>>>) -> Answers<Committed> {
        let mut answers = Vec::new();
        for transaction in chain {
            answers.extend(self.commit_together(transaction).await);
        }
        answers
    }

    /// Commits these in one transaction. After a cancellation, decides those that it names, and sends the others again.
    async fn commit_together(&self, commits: Vec<Commit<'_>>) -> Answers<Committed> {
        let mut answers: Vec<_> = commits.iter().map(|_| None).collect();
        for _ in 0..SHARED_TRIES {
            let open: Vec<_> = (0..commits.len())
                .filter(|&at| answers[at].is_none())
                .collect();
            if open.len() < 2 {
                break;
            }
            let sent: Vec<_> = open.iter().map(|&at| commits[at]).collect();
            let error = match self.send(&sent).await {
                Ok(answer) => {
                    let confirmed = confirmed(&answer);
                    open.iter()
                        .for_each(|&at| answers[at] = Some(confirmed.clone()));
                    break;
                }
                Err(error) => error,
            };
            let Some(reasons) = reasons_of_each(&error, &sent) else {
                let values: Vec<_> = sent.iter().flat_map(quotable).collect();
                let error = errors::request_and(error, &values, |_, _| {});
                // Any other error may concern one of them only.
                if error.is_transient() || error.kind() == StoreErrorKind::NoCredentials {
                    open.iter()
                        .for_each(|&at| answers[at] = Some(Err(error.clone())));
                }
                break;
            };
            let is_wrong = |reasons: &[CancellationReason]| {
                let mut codes = reasons.iter().filter_map(CancellationReason::code);
                codes.any(|code| code != NOTHING_WRONG)
            };
            let (places, refused): (Vec<_>, Vec<_>) = open
                .iter()
                .zip(reasons)
                .filter(|(_, reasons)| is_wrong(reasons))
                .map(|(&at, reasons)| {
                    (
                        at,
                        (commits[at], self.decisive_reason(reasons, commits[at])),
                    )
                })
                .unzip();
            if refused.is_empty() {
                break;
            }
            for (at, decided) in places.into_iter().zip(self.decided(refused).await) {
                answers[at] = decided.transpose();
            }
        }
        // Sends those that are still open alone, so that none of them refuses another.
        let answers = commits
            .iter()
            .zip(answers)
            .map(async |(commit, answer)| match answer {
                Some(answer) => answer,
                None => self.commit(*commit).await,
            });
        join_all(answers).await
    }

    /// Sends one transaction once.
    async fn send(&self, commits: &[Commit<'_>]) -> Result<TransactWriteItemsOutput, Failed> {
        let mut items = Vec::new();
        for (settlement, writes) in commits {
            items.extend_from_slice(writes.items());
            items.push(self.table.settlement_update(settlement).in_transaction());
        }
        let request = self
            .client
            .transact_write_items()
            .set_transact_items(Some(items))
            .client_request_token(token(commits))
            // An answer without results is not from DynamoDB.
            .return_consumed_capacity(ReturnConsumedCapacity::Total);
        // The caller sends it again, and knows then which of its copies had no answer.
        let request = request.customize().config_override(one_attempt());
        request.send().await
    }

    /// Decides on refused commits. `None` for one whose refusing item is gone or released: the caller sends it again.
    async fn decided(
        &self,
        refused: Vec<(Commit<'_>, Result<Cancelled, StoreError>)>,
    ) -> Answers<Option<Committed>> {
        let is_open = |why: &Result<Cancelled, StoreError>| {
            matches!(why, Ok(Cancelled::ByKey(None) | Cancelled::ByWrites(_)))
        };
        // A duplicate's own writes are usually refused too, so the key's item decides.
        let open = refused.iter().filter(|(_, why)| is_open(why));
        let ids: Vec<ItemId> = open
            .map(|((settlement, _), _)| settlement.id.clone())
            .collect();
        let mut found = self
            .read_batch(&ids, Retries::AsConfigured)
            .await
            .into_iter();
        let mut decided = Vec::with_capacity(refused.len());
        for (commit, why) in refused {
            let item = is_open(&why).then(|| found.next()).flatten();
            decided.push(decision(commit, why, item));
        }
        decided
    }

    fn leaves_the_key_alone(&self, (settlement, writes): Commit<'_>) -> Result<(), StoreError> {
        let key = self.table.key_of(&settlement.id);
        let all = writes.all();
        match all.iter().find(|write| write.is_of(&self.table.name, &key)) {
            None => Ok(()),
            Some(write) => Err(other(format!(
                "{} changes the item of the key, which handlers must not write",
                write.name()
            ))),
        }
    }

    fn cancelled(&self, error: Failed, commit: Commit<'_>) -> Result<Cancelled, StoreError> {
        match error.as_service_error() {
            Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) => {
                self.decisive_reason(cancelled.cancellation_reasons(), commit)
            }
            // An earlier copy was carried out. The key's item shows its result.
            Some(TransactWriteItemsError::IdempotentParameterMismatchException(_)) => {
                let text =
                    "another request of the same attempt was carried out in the last ten minutes";
                let error = other(text.to_owned()).with_source(error);
                Ok(Cancelled::ByWrites(Err(error)))
            }
            _ => Err(self.failed(error, commit)),
        }
    }

    /// Finds the decisive cancellation reason. A refusal by the key's item comes first, then transient errors.
    fn decisive_reason(
        &self,
        reasons: &[CancellationReason],
        commit: Commit<'_>,
    ) -> Result<Cancelled, StoreError> {
        let quotable: Vec<_> = quotable(&commit).collect();
        let writes = commit.1;
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
        let own_failure = failure(own, &quotable)
            .map(|(kind, text)| StoreError::new(kind, format!("the key's completion: {text}")));
        let failures = all.iter().zip(others).filter_map(|(write, reason)| {
            let (kind, text) = failure(reason, &quotable)?;
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
    fn failed(&self, error: Failed, commit: Commit<'_>) -> StoreError {
        let quotable: Vec<_> = quotable(&commit).collect();
        let all = commit.1.all();
        let own = format!("dynamodb:UpdateItem on `{}`", self.table.name);
        errors::request_and(error, &quotable, |kind, message| match kind {
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

/// Returns a token that is the same whenever the same commits are sent together, so DynamoDB carries them out only once in
/// ten minutes.
fn token(commits: &[Commit<'_>]) -> String {
    if let [(settlement, _)] = commits {
        return settlement.owner.to_string();
    }
    let mut hash = Sha256::new();
    for (settlement, _) in commits {
        hash.update(settlement.owner.to_string());
    }
    hex(&hash.finalize()[..16])
}

fn confirmed(answer: &TransactWriteItemsOutput) -> Result<Committed, StoreError> {
    match answer.consumed_capacity() {
        [] => Err(without("what was written")),
        _ => Ok(Committed::Written),
    }
}

/// Returns the cancellation reasons of each commit, if DynamoDB gave one for each item.
fn reasons_of_each<'a>(
    error: &'a Failed,
    commits: &[Commit<'_>],
) -> Option<Vec<&'a [CancellationReason]>> {
    let Some(TransactWriteItemsError::TransactionCanceledException(cancelled)) =
        error.as_service_error()
    else {
        return None;
    };
    let mut rest = cancelled.cancellation_reasons();
    let mut of_each = Vec::with_capacity(commits.len());
    for (_, writes) in commits {
        let (reasons, others) = rest.split_at_checked(writes.len() + 1)?;
        of_each.push(reasons);
        rest = others;
    }
    rest.is_empty().then_some(of_each)
}

/// Decides on a refused commit. `item` is the key's item, unless it was not read.
fn decision(
    commit: Commit<'_>,
    why: Result<Cancelled, StoreError>,
    item: Option<Result<Option<Item>, StoreError>>,
) -> Result<Option<Committed>, StoreError> {
    let why = match why? {
        Cancelled::ByKey(Some(item)) => return Ok(Some(Committed::Refused(item))),
        Cancelled::ByKey(None) => None,
        Cancelled::ByWrites(why) => Some(why),
    };
    let item = item.unwrap_or_else(|| Err(without("the key's item")));
    match item.map_err(|error| error.without(quotable(&commit)))? {
        Some(item) if !commit.0.admitted_by(Some(&item)) => {
            Ok(Some(Committed::Refused(Box::new(item))))
        }
        _ => why.map(|why| why.map(Committed::Conflict)).transpose(),
    }
}

/// Returns the values that DynamoDB may quote in errors of a commit.
fn quotable<'a>((settlement, writes): &Commit<'a>) -> impl Iterator<Item = &'a str> + use<'a> {
    super::quotable(settlement).chain(writes.texts())
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
