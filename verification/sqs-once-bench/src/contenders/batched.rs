//! Claims and completions in batches of 25, without a framework. The prototype sends them through the SDK, the bare
//! client without it. The statements are the same as sqs-once's.
//!
//! Up to `$BENCH_CONCURRENCY` claims and eight completions are in flight at once; sqs-once allows eight of each. Keys
//! with an existing item are read together, up to 100 per request, which is the minimum for duplicates.

use std::collections::HashSet;
use std::env;
use std::future::Future;

use futures_util::future::join_all;
use futures_util::stream::{self, StreamExt, TryStreamExt};
use sha2::{Digest, Sha256};
use sqs_once_bench::contract::{self, Order, RETENTION, Work};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

const STATEMENTS: usize = 25;
const COMPLETIONS_IN_FLIGHT: usize = 8;
const READS: usize = 100;

/// A key without an item.
pub(crate) const NO_ITEM: &str = "bench#";

pub(crate) enum Parameter {
    S(String),
    N(u64),
}

/// The result of one statement.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done,
    Duplicate,
    Refused,
}

pub(crate) trait Wire {
    /// Runs up to 25 statements of the same text.
    fn execute(
        &self,
        statement: &str,
        parameters: Vec<Vec<Parameter>>,
    ) -> impl Future<Output = Result<Vec<Outcome>, Error>>;

    /// Which of up to 100 items are completed.
    fn completed(&self, ids: &[String]) -> impl Future<Output = Result<HashSet<String>, Error>>;
}

pub(crate) struct Message {
    pub(crate) id: String,
    pub(crate) body: String,
}

/// A message that is being handled.
struct Record {
    message_id: String,
    item: String,
    owner: String,
}

pub(crate) fn claims_in_flight() -> Result<usize, Error> {
    Ok(env::var(contract::CONCURRENCY)?.parse()?)
}

/// Handles a batch, and returns the ids of the messages that failed.
pub(crate) async fn process<W: Wire>(
    wire: &W,
    table: &str,
    messages: Vec<Message>,
    deadline: u64,
    claims_in_flight: usize,
    work: Work,
) -> Result<Vec<String>, Error> {
    let mut seed = [0; 16];
    getrandom::fill(&mut seed)?;
    let seed = u128::from_ne_bytes(seed);
    let insert = format!(
        "INSERT INTO \"{table}\" VALUE {{'id': ?, 'status': ?, 'in_progress_expiration': ?, \
         'expiration': ?, 'owner': ?, 'fence': ?, 'validation': ?}}"
    );
    let complete = format!(
        "UPDATE \"{table}\" SET \"status\"=? SET \"expiration\"=? WHERE \"id\"=? AND \"owner\"=?"
    );
    let mut messages = messages.into_iter().zip(0_u128..);
    let chunks = std::iter::from_fn(|| {
        let chunk: Vec<_> = messages.by_ref().take(STATEMENTS).collect();
        (!chunk.is_empty()).then_some(chunk)
    });
    let (insert, complete) = (&insert, &complete);
    let ended: Vec<_> = stream::iter(chunks)
        .map(async |chunk| {
            let now = contract::now_ms();
            let mut records = Vec::with_capacity(chunk.len());
            let mut parameters = Vec::with_capacity(chunk.len());
            for (message, index) in chunk {
                let order: Order = serde_json::from_str(&message.body)?;
                let record = Record {
                    message_id: message.id,
                    item: format!("bench#{}", hex(order.order_id.as_bytes())),
                    owner: format!("{:032x}", seed.wrapping_add(index)),
                };
                parameters.push(vec![
                    Parameter::S(record.item.clone()),
                    Parameter::S("INPROGRESS".to_owned()),
                    Parameter::N(deadline + 3000),
                    Parameter::N(expiration(now)),
                    Parameter::S(record.owner.clone()),
                    Parameter::N(now),
                    Parameter::S(hex(message.body.as_bytes())),
                ]);
                records.push(record);
            }
            let outcomes = wire.execute(insert, parameters).await?;
            Ok::<_, Error>(records.into_iter().zip(outcomes).collect::<Vec<_>>())
        })
        .buffer_unordered(claims_in_flight)
        .map_ok(async |claimed| {
            let (mine, others): (Vec<_>, Vec<_>) = claimed
                .into_iter()
                .partition(|(_, outcome)| *outcome == Outcome::Done);
            if mine.is_empty() {
                return Ok(others);
            }
            join_all(mine.iter().map(|_| work.run())).await;
            let parameters = mine.iter().map(|(record, _)| {
                vec![
                    Parameter::S("COMPLETED".to_owned()),
                    Parameter::N(expiration(contract::now_ms())),
                    Parameter::S(record.item.clone()),
                    Parameter::S(record.owner.clone()),
                ]
            });
            let outcomes = wire.execute(complete, parameters.collect()).await?;
            let completed = mine.into_iter().map(|(record, _)| record).zip(outcomes);
            let refused = completed.filter(|(_, outcome)| *outcome != Outcome::Done);
            Ok::<_, Error>(others.into_iter().chain(refused).collect())
        })
        .try_buffer_unordered(COMPLETIONS_IN_FLIGHT)
        .try_collect()
        .await?;

    let (duplicates, failed): (Vec<_>, Vec<_>) = ended
        .into_iter()
        .flatten()
        .partition(|(_, outcome)| *outcome == Outcome::Duplicate);
    let items: Vec<_> = duplicates
        .iter()
        .map(|(record, _)| record.item.clone())
        .collect();
    let reads = join_all(items.chunks(READS).map(|items| wire.completed(items))).await;
    let reads: Vec<_> = reads.into_iter().collect::<Result<_, _>>()?;
    let done: HashSet<_> = reads.into_iter().flatten().collect();
    let open = duplicates
        .into_iter()
        .filter(|(record, _)| !done.contains(&record.item));
    Ok(failed
        .into_iter()
        .chain(open)
        .map(|(record, _)| record.message_id)
        .collect())
}

fn expiration(now_ms: u64) -> u64 {
    (now_ms + RETENTION.as_millis() as u64).div_ceil(1000)
}

fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digest = Sha256::digest(bytes);
    let digits = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits
        .map(|digit| char::from(DIGITS[usize::from(digit)]))
        .collect()
}
