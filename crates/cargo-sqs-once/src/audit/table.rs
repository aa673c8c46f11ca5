//! Reads the table: an export in DynamoDB JSON, or the output of a scan.

use super::lines::{each_line, open};
use super::names::{Key, Names};
use super::unread;
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use sqs_once::key::ItemId;
use std::fmt;
use std::path::Path;

#[derive(Debug, Default)]
pub(super) struct Table {
    /// Sorted by key, once all files are read.
    items: Vec<Item>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) key: Key,
    pub(super) is_completed: bool,
    /// In milliseconds since the epoch.
    pub(super) expiration: Option<u64>,
    /// When the lease of a claim lapses, in milliseconds since the epoch. Of a claim that was not released.
    pub(super) lease: Option<u64>,
}

#[derive(Deserialize)]
struct Attributes {
    id: Option<Text>,
    status: Option<Text>,
    expiration: Option<Number>,
    in_progress_expiration: Option<Number>,
}

#[derive(Deserialize)]
struct Text {
    #[serde(rename = "S")]
    text: String,
}

#[derive(Deserialize)]
struct Number {
    #[serde(rename = "N")]
    number: String,
}

/// A line of an export.
#[derive(Deserialize)]
struct Exported {
    #[serde(rename = "Item")]
    item: Attributes,
}

impl Table {
    pub(super) fn read(&mut self, path: &Path, names: &mut Names, bar: &ProgressBar) -> Result<()> {
        let before = self.items.len();
        let is_export = {
            let mut reader = open(path, &ProgressBar::hidden())?;
            let start = reader.fill_buf().with_context(|| unread(path))?;
            start.trim_ascii_start().starts_with(br#"{"Item""#)
        };
        let mut read = Read { table: self, names };
        if is_export {
            each_line(path, bar, |line| {
                if let Ok(Exported { item }) = serde_json::from_str(line) {
                    read.item(item);
                }
                Ok(())
            })?;
        } else {
            let mut json = serde_json::Deserializer::from_reader(open(path, bar)?);
            let scanned = read.deserialize(&mut json);
            scanned.with_context(|| format!("{}, as the output of a scan", unread(path)))?;
        }
        ensure!(
            self.items.len() > before,
            "{} has no item of a key: give an export in DynamoDB JSON, or the output of `aws dynamodb scan`",
            path.display()
        );
        Ok(())
    }

    pub(super) fn sort(&mut self) {
        self.items.sort_unstable_by_key(|item| item.key);
    }

    pub(super) fn items(&self) -> &[Item] {
        &self.items
    }

    /// The items whose ids begin with the digits of a key.
    pub(super) fn of(&self, key: Key) -> &[Item] {
        let start = self.items.partition_point(|item| item.key < key);
        let end = self.items.partition_point(|item| item.key <= key);
        &self.items[start..end]
    }
}

/// Reads `{"Items": […]}`, one item at a time.
struct Read<'a> {
    table: &'a mut Table,
    names: &'a mut Names,
}

impl Read<'_> {
    fn item(&mut self, item: Attributes) {
        let (Some(id), Some(status)) = (item.id, item.status) else {
            return;
        };
        let number = |value: Option<Number>| value?.number.parse::<u64>().ok();
        let lease = number(item.in_progress_expiration);
        let short = ItemId::from_stored(id.text).short();
        self.table.items.push(Item {
            key: self.names.key(&short),
            is_completed: status.text == "COMPLETED",
            expiration: number(item.expiration).map(|seconds| seconds.saturating_mul(1_000)),
            lease: lease.filter(|lease| *lease > 0 && status.text == "INPROGRESS"),
        });
    }
}

impl<'de> DeserializeSeed<'de> for Read<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Read<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with a list named Items")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Read { table, names } = self;
        while let Some(name) = map.next_key::<String>()? {
            match &*name {
                "Items" => map.next_value_seed(Read {
                    table: &mut *table,
                    names: &mut *names,
                })?,
                _ => map.next_value::<IgnoredAny>().map(drop)?,
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<(), A::Error> {
        while let Some(item) = items.next_element()? {
            self.item(item);
        }
        Ok(())
    }
}
