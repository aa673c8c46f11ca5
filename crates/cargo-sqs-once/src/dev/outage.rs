//! Plays an outage of a dependency: its breaker is open at the start of the run.

use crate::print;
use anyhow::{Result, ensure};
use humantime::{format_duration, parse_duration};
use serde_json::{Value, json};
use sqs_once_local::{LocalDynamoDb, TableDescription};
use std::time::{Duration, SystemTime};

/// The owner of the items that are written here.
const OWNER: &str = "000000000000000000000000de000000";
/// How long the library keeps the item of an open breaker, counted from its opening.
const KEPT: Duration = Duration::from_secs(60 * 24 * 60 * 60);
const LONGEST_NAME: usize = 50;

/// An outage to play, such as `payments:2m`.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    dependency: String,
    lasts: Duration,
}

impl Outage {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        let is_name =
            |name: &str| (1..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed);
        let parsed = text.rsplit_once(':').filter(|(name, _)| is_name(name));
        let parsed = parsed.and_then(|(name, lasts)| {
            let (dependency, lasts) = (name.to_owned(), parse_duration(lasts).ok()?);
            Some(Self { dependency, lasts })
        });
        parsed.ok_or_else(|| {
            format!("`{text}` is not a dependency and a time, such as unavailable=payments:2m")
        })
    }
}

/// The breakers that are open. Dropping it closes those that no environment has claimed.
pub(crate) struct Outages<'a> {
    played: Vec<&'a Outage>,
    dynamodb: &'a LocalDynamoDb,
    table: &'a TableDescription,
}

impl<'a> Outages<'a> {
    /// Opens the breakers. Environments that start later read them.
    pub(crate) fn begin(
        played: Vec<&'a Outage>,
        dynamodb: &'a LocalDynamoDb,
        table: &'a TableDescription,
    ) -> Result<Self> {
        ensure!(
            played.is_empty() || table.sort_key.is_none(),
            "--fault unavailable needs a table without a sort key, and {} has one",
            table.name
        );
        let outages = Self {
            played,
            dynamodb,
            table,
        };
        for Outage { dependency, lasts } in &outages.played {
            outages.write(dependency, "INPROGRESS", *lasts, KEPT)?;
            let lasts = format_duration(*lasts);
            print::note(&format!("fault: {dependency} is unavailable for {lasts}"));
        }
        Ok(outages)
    }

    fn key(&self, dependency: &str) -> Value {
        json!({ &self.table.partition_key.name: {"S": format!("breaker#{dependency}")} })
    }

    /// Writes the item of a breaker, as the library's claims and completions do.
    fn write(&self, name: &str, status: &str, lasts: Duration, kept: Duration) -> Result<()> {
        let now = SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
        let mut item = self.key(name);
        item["status"] = json!({"S": status});
        item["owner"] = json!({"S": OWNER});
        item["fence"] = json!({"N": now.as_millis().to_string()});
        let until = now.saturating_add(lasts);
        item["in_progress_expiration"] = json!({"N": until.as_millis().to_string()});
        let expiration = until.max(now + kept).as_secs();
        item["expiration"] = json!({"N": expiration.to_string()});
        Ok(self.dynamodb.put_item(&self.table.name, item)?)
    }

    fn end(&self, dependency: &str) -> Result<()> {
        let item = self.dynamodb.item(&self.table.name, self.key(dependency))?;
        match item {
            Some(item) if item["owner"]["S"] == OWNER => {
                self.write(dependency, "COMPLETED", Duration::ZERO, Duration::ZERO)
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Outages<'_> {
    fn drop(&mut self) {
        for Outage { dependency, .. } in &self.played {
            // Without this, the outage ends when its time is over.
            let _ = self.end(dependency);
        }
    }
}
