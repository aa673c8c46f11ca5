//! `TransactWriteItems`: all of its writes, or none.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::answer::{Capacity, Done, done, is_asked_for, read};
use crate::error::ApiError;
use crate::tables::Tables;
use crate::units::Units;
use crate::write::{Kind, Prepared, Write};

const MOST_WRITES: usize = 100;
const MOST_BYTES: usize = 4 * 1024 * 1024;
const LONGEST_TOKEN: usize = 36;
/// How long a token is remembered.
const REMEMBERED: Duration = Duration::from_secs(600);

/// The transactions of the last ten minutes that had a token.
pub(crate) type Tokens = HashMap<String, Remembered>;

#[derive(Debug)]
pub(crate) struct Remembered {
    at: Duration,
    writes: Vec<OneWrite>,
    /// How large the item of each write was.
    sizes: Vec<usize>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Transaction {
    transact_items: Vec<OneWrite>,
    client_request_token: Option<String>,
    return_consumed_capacity: Option<String>,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
struct OneWrite {
    put: Option<Write>,
    update: Option<Write>,
    delete: Option<Write>,
    condition_check: Option<Write>,
}

#[derive(Serialize)]
#[serde(rename_all = "PascalCase")]
struct Committed<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    consumed_capacity: Option<Vec<Capacity<'a>>>,
}

impl OneWrite {
    fn write(&self) -> Result<(Kind, &Write), ApiError> {
        let all = [
            (Kind::Put, &self.put),
            (Kind::Update, &self.update),
            (Kind::Delete, &self.delete),
            (Kind::Check, &self.condition_check),
        ];
        let mut given = all
            .into_iter()
            .filter_map(|(kind, write)| Some((kind, write.as_ref()?)));
        match (given.next(), given.next()) {
            (Some(write), None) => Ok(write),
            _ => Err(ApiError::validation(
                "TransactItems can only contain one of Check, Put, Update or Delete",
            )),
        }
    }
}

impl Tables {
    pub(crate) fn transact_write(&mut self, body: &[u8], now: Duration) -> Result<Done, ApiError> {
        let transaction: Transaction = read(body)?;
        let items = transaction.transact_items;
        if !(1..=MOST_WRITES).contains(&items.len()) {
            return Err(ApiError::validation("a transaction has 1 to 100 writes"));
        }
        let token = transaction.client_request_token;
        if let Some(token) = &token
            && !(1..=LONGEST_TOKEN).contains(&token.len())
        {
            return Err(ApiError::validation("a token has 1 to 36 characters"));
        }
        let writes = items.iter().map(OneWrite::write);
        let writes: Vec<_> = writes.collect::<Result<_, _>>()?;
        let asked = is_asked_for(transaction.return_consumed_capacity.as_deref());
        self.tokens
            .retain(|_, earlier| now.saturating_sub(earlier.at) < REMEMBERED);
        let earlier = token.as_ref().and_then(|token| self.tokens.get(token));
        if let Some(earlier) = earlier {
            if earlier.writes != items {
                return Err(ApiError::other_parameters());
            }
            // What was done already is read, and not written.
            let units = earlier
                .sizes
                .iter()
                .map(|size| Units::of_read(*size, true).twice());
            return committed(&writes, units, asked);
        }
        let prepared = writes
            .iter()
            .map(|(kind, write)| self.expressions.prepare(*kind, write));
        let prepared: Vec<_> = prepared.collect::<Result<_, _>>()?;
        let changes = self.decide(&prepared)?;
        let sizes: Vec<_> = changes.iter().map(|change| change.size).collect();
        for (write, change) in prepared.iter().zip(changes) {
            self.table(&write.write.table_name)?.apply(change);
        }
        let units = sizes.iter().map(|size| Units::of_write(*size).twice());
        let done = committed(&writes, units, asked)?;
        if let Some(token) = token {
            let remembered = Remembered {
                at: now,
                writes: items,
                sizes,
            };
            self.tokens.insert(token, remembered);
        }
        Ok(done)
    }

    fn decide(&mut self, writes: &[Prepared<'_>]) -> Result<Vec<crate::write::Change>, ApiError> {
        let mut keys = BTreeSet::new();
        for write in writes {
            let name = &write.write.table_name;
            let key = match write.key(self.table(name)?) {
                Ok(key) => key,
                // It is this write's, and said below.
                Err(error) if error.cancels() => continue,
                Err(error) => return Err(error),
            };
            if !keys.insert((name, key)) {
                return Err(ApiError::validation(
                    "Transaction request cannot include multiple operations on one item",
                ));
            }
        }
        if writes.iter().map(Prepared::size).sum::<usize>() > MOST_BYTES {
            return Err(ApiError::validation(
                "Collection size of items exceeded, or the aggregate size of the items in the transaction exceeds 4 MB",
            ));
        }
        let mut changes = Vec::with_capacity(writes.len());
        let mut refusals = Vec::with_capacity(writes.len());
        for write in writes {
            match write.decide(self.table(&write.write.table_name)?) {
                Ok(change) => {
                    changes.push(change);
                    refusals.push(None);
                }
                Err(error) if error.cancels() => refusals.push(Some(error)),
                Err(error) => return Err(error),
            }
        }
        if refusals.iter().any(Option::is_some) {
            return Err(ApiError::cancelled(&refusals));
        }
        Ok(changes)
    }
}

fn committed(
    writes: &[(Kind, &Write)],
    units: impl Iterator<Item = Units>,
    asked: bool,
) -> Result<Done, ApiError> {
    let (mut all, mut tables) = (Units::default(), BTreeMap::<&str, Units>::new());
    for ((_, write), units) in writes.iter().zip(units) {
        let of_table = tables.entry(&write.table_name).or_default();
        *of_table = *of_table + units;
        all = all + units;
    }
    let consumed = tables
        .iter()
        .map(|(name, units)| Capacity::of_transaction(name, *units));
    let answer = Committed {
        consumed_capacity: asked.then(|| consumed.collect()),
    };
    done(&answer, all)
}
