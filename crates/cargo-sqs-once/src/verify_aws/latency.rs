//! How long each statement of the store takes from this machine.

use super::error::VerifyError;
use super::wait::Waits;
use sqs_once::aws_sdk_dynamodb::Client;
use sqs_once::key::ItemId;
use sqs_once::random::{OsRandom, Random};
use sqs_once::store::{
    Claim, DynamoDbStore, Owner, Recording, Settlement, Settling, Store, StoreError,
    StoreErrorKind, Writes,
};
use sqs_once::time::{Clock, SystemClock, Timestamp};
use std::time::{Duration, Instant};

const BATCH: usize = 25;
pub(super) const BATCHES: usize = 40;
pub(super) const SINGLES: usize = 100;
/// All statements of one measurement.
pub(super) const STATEMENTS: usize = 2 * BATCHES * BATCH + 3 * SINGLES;

/// The times of one kind of statement.
pub(super) struct Statement {
    pub(super) name: &'static str,
    pub(super) times: Times,
}

/// Durations, in ascending order.
#[derive(Clone, Debug, Default)]
pub(super) struct Times(Vec<Duration>);

impl Times {
    pub(super) fn new(mut times: Vec<Duration>) -> Self {
        times.sort();
        Self(times)
    }

    pub(super) fn count(&self) -> usize {
        self.0.len()
    }

    /// The smallest time that is not exceeded by `percent` percent of all. `None` if there are no times.
    pub(super) fn percentile(&self, percent: usize) -> Option<Duration> {
        let rank = (self.0.len() * percent).div_ceil(100);
        self.0.get(rank.saturating_sub(1)).copied()
    }
}

/// Sends each kind of statement many times, one request after the other, and warms the connection up first.
///
/// The outer error is an interruption, the inner one that of the table.
pub(super) async fn measure(
    waits: &Waits<'_>,
    client: &Client,
    table: &str,
) -> Result<Result<Vec<Statement>, String>, VerifyError> {
    let store = DynamoDbStore::new(client.clone(), table);
    let kinds: [(&str, usize, usize); 2] = [
        ("25 keys in a request", BATCHES, BATCH),
        ("one key", SINGLES, 1),
    ];
    let measured = waits.unless_interrupted(async {
        pair(&store, 1).await?;
        let mut statements = Vec::new();
        for (which, rounds, keys) in kinds {
            let (mut claims, mut completions) = (Vec::new(), Vec::new());
            for _ in 0..rounds {
                let (claim, completion) = pair(&store, keys).await?;
                claims.push(claim);
                completions.push(completion);
            }
            let [claim, complete] = match which {
                "one key" => [
                    "claim one key (UpdateItem)",
                    "complete one key (UpdateItem)",
                ],
                _ => ["claim 25 keys (INSERT)", "complete 25 keys (UPDATE)"],
            };
            for (name, times) in [(claim, claims), (complete, completions)] {
                let times = Times::new(times);
                statements.push(Statement { name, times });
            }
        }
        let mut commits = Vec::new();
        for _ in 0..SINGLES {
            commits.push(commit(&store).await?);
        }
        statements.push(Statement {
            name: "commit one key (TransactWriteItems)",
            times: Times::new(commits),
        });
        Ok::<_, StoreError>(statements)
    });
    Ok(measured.await?.map_err(|error| error.to_string()))
}

/// Claims new keys and completes them.
async fn pair(store: &DynamoDbStore, keys: usize) -> Result<(Duration, Duration), StoreError> {
    let claims: Vec<_> = (0..keys).map(|_| claim()).collect();
    let started = Instant::now();
    let claimed = store.claim(&claims).await;
    let claiming = started.elapsed();
    claimed.into_iter().collect::<Result<Vec<_>, _>>()?;
    let complete = claims.iter().map(|claim| {
        let settling = Settling::complete(claim.expiration, None);
        Settlement::new(claim.id.clone(), claim.owner, settling)
    });
    let complete: Vec<_> = complete.collect();
    let started = Instant::now();
    let settled = store.settle(&complete).await;
    let completing = started.elapsed();
    settled.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok((claiming, completing))
}

async fn commit(store: &DynamoDbStore) -> Result<Duration, StoreError> {
    let Claim {
        id,
        owner,
        now,
        expiration,
        ..
    } = claim();
    let settling = Settling::Commit(Recording::new(now, expiration));
    let settlement = Settlement::new(id, owner, settling);
    let started = Instant::now();
    let atomic = store.atomic_writes();
    let none = || StoreError::new(StoreErrorKind::Other, "the store has no transactions");
    atomic
        .ok_or_else(none)?
        .commit(&settlement, &Writes::new())
        .await?;
    Ok(started.elapsed())
}

fn claim() -> Claim {
    const LEASE: Duration = Duration::from_secs(60);
    const RETENTION: Duration = Duration::from_secs(24 * 60 * 60);
    let now: Timestamp = SystemClock.now();
    let id = ItemId::from_stored(format!("latency#{:032x}", OsRandom.bits()));
    let owner = Owner::from_bits(OsRandom.bits());
    Claim::new(id, owner, now, now + LEASE, now + RETENTION)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(millis: impl IntoIterator<Item = u64>) -> Times {
        Times::new(millis.into_iter().map(Duration::from_millis).collect())
    }

    #[test]
    fn a_percentile_is_one_of_the_times_and_the_last_one_at_most() {
        let times = times((1..=200).rev());
        assert_eq!(times.percentile(50), Some(Duration::from_millis(100)));
        assert_eq!(times.percentile(99), Some(Duration::from_millis(198)));
        assert_eq!(times.percentile(100), Some(Duration::from_millis(200)));
        assert_eq!(times.percentile(0), Some(Duration::from_millis(1)));
    }

    #[test]
    fn few_times_have_percentiles_and_none_have_none() {
        assert_eq!(times([7]).percentile(99), Some(Duration::from_millis(7)));
        assert_eq!(times([]).percentile(50), None);
    }
}
