//! Begins transactions that contain claims.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use futures_util::future::{BoxFuture, join, try_join};
use sqs_once::key::ItemId;
use sqs_once::store::{Begun, Claim, Claimed, Item, Status, StoreError, Transactions};
use tokio::time::{Instant, timeout};
use tokio_postgres::Row;
use tokio_postgres::error::SqlState;

use crate::pool::{ANSWER_TIMEOUT, Connection, Failure};
use crate::session::{BACK, Open, RELEASE, SAVEPOINT, failed};
use crate::statements::{ClaimOver, MARGIN, begin_text, millis};
use crate::store::by_id;
use crate::{PostgresStore, errors, rows};

/// How long several claims wait for other transactions on their keys, before the keys are claimed in smaller groups.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// How long each smaller group waits. Half of 100 keys need about 100 such waits.
const NEXT_WAIT: Duration = Duration::from_millis(2);
/// How long all groups wait together. After that the keys of the groups that are left count as held.
const ALL_WAITS: Duration = Duration::from_secs(2);

/// The answers to the claims of a transaction.
struct InTransaction {
    answers: Vec<Result<Claimed, StoreError>>,
    /// The server's ID of the transaction, if a claim was written.
    transaction: Option<String>,
}

impl Transactions for PostgresStore {
    fn begin<'a>(
        &'a self,
        claims: &'a [Claim],
        patience: Duration,
        limit: Duration,
    ) -> BoxFuture<'a, Result<Begun, StoreError>> {
        Box::pin(async move {
            // The server ends the wait for another transaction. Its answer may take a little longer.
            let patience = patience.max(FIRST_WAIT).min(limit);
            let longest = patience.saturating_add(ANSWER_TIMEOUT);
            let request = self.connections.request(longest, |connection| async move {
                // After an error the transaction is still open, so the connection must not return to the pool.
                let claimed = match self.claim_in(&connection, claims, patience, limit).await {
                    Err(Failure::Answered(error)) => Ok(Err(error)),
                    claimed => claimed.map(Ok),
                };
                (claimed, connection)
            });
            let (claimed, connection) = request.await?;
            let claimed = claimed?;
            let written = claims.iter().zip(&claimed.answers);
            let written = written.filter_map(|(claim, answer)| match answer {
                Ok(Claimed::Written { .. }) => Some(claim),
                _ => None,
            });
            let written: Vec<_> = written.collect();
            let is_open = claimed.transaction.is_some();
            let transaction = claimed.transaction.unwrap_or_default();
            // Dropping it rolls it back.
            let open = Open::new(connection, &written, transaction, self.clone());
            let open = is_open.then(|| Box::new(open) as _);
            Ok(Begun::new(claimed.answers, open))
        })
    }
}

impl PostgresStore {
    /// Begins a transaction and claims keys in it, in one round trip. If only the `BEGIN` fails, the claims commit on
    /// their own and expire with their lease.
    async fn claim_in(
        &self,
        connection: &Connection,
        claims: &[Claim],
        patience: Duration,
        limit: Duration,
    ) -> Result<InTransaction, Failure> {
        let (written, blocked) = match claims {
            [claim] if patience == limit => {
                let claimed = self.claim_one(connection, claim, patience).await?;
                (claimed, HashSet::new())
            }
            claims => self.claim_all(connection, claims, patience, limit).await?,
        };
        let mut granted: HashMap<ItemId, _> = by_id(&written, rows::fence);
        let is_refused =
            |claim: &&Claim| !granted.contains_key(&claim.id) && !blocked.contains(&claim.id);
        let refused = claims.iter().filter(is_refused);
        let refused: Vec<_> = refused.map(|claim| claim.id.as_str()).collect();
        // A refused claim has locked its row, so the row cannot change before this read.
        let mut found = self.found(connection, &refused).await?;
        let answers = claims.iter().map(|claim| {
            if let Some(fence) = granted.remove(&claim.id) {
                return Ok(Claimed::Written { fence: fence? });
            }
            if blocked.contains(&claim.id) {
                let item = Item::new(claim.id.clone(), Status::InProgress);
                return Ok(Claimed::Refused(Box::new(item)));
            }
            let invisible = || Err(failed("the row that refused the claim is not visible"));
            let item = found.remove(&claim.id).unwrap_or_else(invisible)?;
            Ok(Claimed::Refused(Box::new(item)))
        });
        let answers = answers.collect();
        let transaction = written.first().map(rows::transaction_id).transpose();
        Ok(InTransaction {
            answers,
            transaction: transaction.map_err(Failure::Answered)?,
        })
    }

    async fn claim_one(
        &self,
        connection: &Connection,
        claim: &Claim,
        patience: Duration,
    ) -> Result<Vec<Row>, Failure> {
        let (begin, claims) = (begin_text(patience, MARGIN), [claim]);
        let write = async {
            let written = self.statements.claim(connection, ClaimOver::Free, &claims);
            written.await.map_err(Failure::from)
        };
        let ((), written) = try_join(at_once(connection, &begin), write).await?;
        Ok(written)
    }

    /// Claims all keys together. If another transaction holds some of them for too long, halves the group until these keys
    /// are found, and returns them too.
    async fn claim_all(
        &self,
        connection: &Connection,
        claims: &[Claim],
        patience: Duration,
        limit: Duration,
    ) -> Result<(Vec<Row>, HashSet<ItemId>), Failure> {
        let (mut written, mut blocked) = (Vec::new(), HashSet::new());
        let mut wait = FIRST_WAIT.min(patience);
        let mut before = format!("{}; {SAVEPOINT}", begin_text(limit, MARGIN));
        // The handler's statements wait as long as those of a handler of one message.
        let after = format!("{RELEASE}; SET LOCAL lock_timeout = {}", millis(limit));
        let until = Instant::now() + ALL_WAITS.min(patience);
        let mut groups = vec![claims];
        while let Some(group) = groups.pop() {
            if wait == NEXT_WAIT && Instant::now() >= until {
                blocked.extend(group.iter().map(|claim| claim.id.clone()));
                continue;
            }
            let settings = format!("{before}; SET LOCAL lock_timeout = {}", millis(wait));
            let claims: Vec<_> = group.iter().collect();
            let claim = join(
                self.statements.claim(connection, ClaimOver::Free, &claims),
                connection.batch_execute(&after),
            );
            let claim = async { Ok(claim.await) };
            let ((), (claimed, ended)) = try_join(at_once(connection, &settings), claim).await?;
            match claimed {
                Ok(rows) => {
                    ended?;
                    written.extend(rows);
                    before = SAVEPOINT.to_owned();
                }
                Err(error) if error.code() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {
                    wait = NEXT_WAIT;
                    before = BACK.to_owned();
                    match group {
                        [claim] => {
                            blocked.insert(claim.id.clone());
                        }
                        group => {
                            let (first, second) = group.split_at(group.len() / 2);
                            groups.extend([second, first]);
                        }
                    }
                }
                Err(error) => return Err(error.into()),
            }
        }
        if before == BACK {
            at_once(connection, &format!("{before}; {after}")).await?;
        }
        Ok((written, blocked))
    }
}

/// Executes statements that wait for no lock. Their answer tells whether the connection is alive, while the claim that was
/// sent with them may wait.
async fn at_once(connection: &Connection, statements: &str) -> Result<(), Failure> {
    let answer = timeout(ANSWER_TIMEOUT, connection.batch_execute(statements)).await;
    let answer = answer.map_err(|_| Failure::Lost(errors::too_late(ANSWER_TIMEOUT)))?;
    answer.map_err(Failure::from)
}
