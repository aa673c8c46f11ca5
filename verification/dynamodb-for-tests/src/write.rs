//! One write, alone or in a transaction: what its request says, and what comes of it.

use std::collections::HashMap;
use std::sync::Arc;

use serde::Deserialize;

use crate::condition::Condition;
use crate::error::ApiError;
use crate::operand::Placeholders;
use crate::parsed::{Cache, Parsed};
use crate::schema::ItemKey;
use crate::tables::Table;
use crate::units::Units;
use crate::update::Update;
use crate::value::{Item, Value, item_size};

/// The most bytes of an item.
const LARGEST_ITEM: usize = 400 * 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Put,
    Update,
    Delete,
    Check,
}

#[derive(Debug, Deserialize, PartialEq)]
#[serde(rename_all = "PascalCase")]
pub(crate) struct Write {
    pub(crate) table_name: String,
    #[serde(default)]
    key: Item,
    #[serde(default)]
    item: Item,
    condition_expression: Option<String>,
    update_expression: Option<String>,
    #[serde(default)]
    expression_attribute_names: HashMap<String, String>,
    #[serde(default)]
    expression_attribute_values: HashMap<String, Value>,
    return_values_on_condition_check_failure: Option<String>,
    /// These two are of writes that are alone.
    pub(crate) return_values: Option<String>,
    pub(crate) return_consumed_capacity: Option<String>,
}

/// The expressions that were read before.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    conditions: Cache<Condition>,
    updates: Cache<Update>,
}

/// A write that nothing is wrong with, as far as its request shows.
pub(crate) struct Prepared<'a> {
    pub(crate) kind: Kind,
    pub(crate) write: &'a Write,
    condition: Option<Arc<Parsed<Condition>>>,
    update: Option<Arc<Parsed<Update>>>,
}

/// What a write comes to.
pub(crate) struct Change {
    pub(crate) key: ItemKey,
    pub(crate) what: What,
    /// How large the larger is of the item that was and the item that is.
    pub(crate) size: usize,
}

pub(crate) enum What {
    Put(Item),
    Delete,
    Nothing,
}

impl Change {
    pub(crate) fn units(&self) -> Units {
        Units::of_write(self.size)
    }
}

impl Write {
    pub(crate) fn placeholders(&self) -> Placeholders<'_> {
        Placeholders {
            names: &self.expression_attribute_names,
            values: &self.expression_attribute_values,
            parameters: &[],
        }
    }
}

impl Expressions {
    pub(crate) fn prepare<'a>(
        &mut self,
        kind: Kind,
        write: &'a Write,
    ) -> Result<Prepared<'a>, ApiError> {
        let condition = write.condition_expression.as_deref().map(|text| {
            let read = |text: &str| Parsed::read(text, Condition::read);
            self.conditions.of(text, read)
        });
        let condition = condition.transpose()?;
        let update = write.update_expression.as_deref().map(|text| {
            let read = |text: &str| Parsed::read(text, Update::read);
            self.updates.of(text, read)
        });
        let update = update.transpose()?;
        if kind == Kind::Check && condition.is_none() {
            return Err(ApiError::validation("a check without a condition"));
        }
        let used = condition.iter().map(|condition| &condition.placeholders);
        let used = used.chain(update.iter().map(|update| &update.placeholders));
        let placeholders = write.placeholders();
        placeholders.check(used)?;
        if let Some(condition) = &condition {
            condition.expression.check(placeholders)?;
        }
        if let Some(update) = &update {
            update.expression.check(placeholders)?;
        }
        if item_size(&write.item) > LARGEST_ITEM {
            return Err(ApiError::validation(
                "Item size has exceeded the maximum allowed size",
            ));
        }
        Ok(Prepared {
            kind,
            write,
            condition,
            update,
        })
    }
}

impl Prepared<'_> {
    /// Which item it is of.
    pub(crate) fn key(&self, table: &Table) -> Result<ItemKey, ApiError> {
        match self.kind {
            Kind::Put => table.schema.of_item(&self.write.item),
            _ => table.schema.of_key(&self.write.key),
        }
    }

    /// What comes of it, if its condition is met.
    pub(crate) fn decide(&self, table: &Table) -> Result<Change, ApiError> {
        let key = self.key(table)?;
        let found = table.items.get(&key);
        let placeholders = self.write.placeholders();
        if let Some(update) = &self.update {
            let expression = &update.expression;
            if table
                .schema
                .names()
                .any(|name| expression.is_about(name, placeholders))
            {
                return Err(ApiError::of_item(
                    "One or more parameter values were invalid: Cannot update attribute. This attribute is part of the key",
                ));
            }
        }
        if let Some(condition) = &self.condition {
            let absent = Item::new();
            let held = condition
                .expression
                .holds(found.unwrap_or(&absent), placeholders)?;
            if !held {
                let shown = &self.write.return_values_on_condition_check_failure;
                return Err(ApiError::condition(found, wants_item(shown.as_deref())));
            }
        }
        let what = match self.kind {
            Kind::Put => What::Put(self.write.item.clone()),
            Kind::Delete => What::Delete,
            Kind::Check => What::Nothing,
            Kind::Update => {
                let mut item = found.unwrap_or(&self.write.key).clone();
                if let Some(update) = &self.update {
                    update.expression.apply(&mut item, placeholders)?;
                }
                What::Put(checked(item)?)
            }
        };
        let is = match &what {
            What::Put(item) => item_size(item),
            What::Delete | What::Nothing => 0,
        };
        let size = is.max(found.map_or(0, item_size));
        Ok(Change { key, what, size })
    }

    /// Whether its update is about the attribute `name`.
    pub(crate) fn is_about(&self, name: &str) -> bool {
        let update = self.update.as_ref();
        update.is_some_and(|update| update.expression.is_about(name, self.write.placeholders()))
    }

    /// How many bytes of a transaction it takes.
    pub(crate) fn size(&self) -> usize {
        let write = self.write;
        let values = write.expression_attribute_values.values();
        item_size(&write.item) + item_size(&write.key) + values.map(Value::size).sum::<usize>()
    }
}

/// An item that an update made, if it is not too large.
pub(crate) fn checked(item: Item) -> Result<Item, ApiError> {
    if item_size(&item) > LARGEST_ITEM {
        return Err(ApiError::of_item(
            "Item size to update has exceeded the maximum allowed size",
        ));
    }
    Ok(item)
}

pub(crate) fn wants_item(return_values: Option<&str>) -> bool {
    return_values == Some("ALL_OLD")
}
