//! Update expressions: how they are read, and how they change an item.

use super::error::Refusal;
use super::operand::{Operand, Placeholders};
use super::parsed::{Part, Rule, first, word};
use super::value::Item;

/// The changes of an update.
#[derive(Debug, Default)]
pub(super) struct Update {
    set: Vec<(String, Operand)>,
    remove: Vec<String>,
}

impl Update {
    pub(super) fn of(part: Part<'_>) -> Self {
        let mut update = Self::default();
        for part in part.into_inner() {
            let is_set = part.as_rule() == Rule::assignment;
            let mut inner = part.into_inner();
            let name = word(&first(&mut inner));
            match is_set {
                true => update.set.push((name, Operand::of(first(&mut inner)))),
                false => update.remove.push(name),
            }
        }
        update
    }

    /// Changes the item, or leaves it unchanged if it returns an error.
    pub(super) fn apply(
        &self,
        item: &mut Item,
        placeholders: Placeholders<'_>,
    ) -> Result<(), Refusal> {
        // Every operand sees the item before the update.
        let mut changes = Vec::with_capacity(self.set.len() + self.remove.len());
        for (name, operand) in &self.set {
            let value = operand.present(Some(item), placeholders)?.into_owned();
            changes.push((placeholders.name(name)?, Some(value)));
        }
        for name in &self.remove {
            changes.push((placeholders.name(name)?, None));
        }
        if changes.iter().any(|(name, _)| *name == "id") {
            return Err(Refusal::validation("an update changes no key"));
        }
        for (name, value) in changes {
            match (item.get_mut(name), value) {
                (Some(present), Some(value)) => *present = value,
                (None, Some(value)) => drop(item.insert(name.into(), value)),
                (_, None) => drop(item.remove(name)),
            }
        }
        Ok(())
    }

    /// The attributes of the changed item that the update has set.
    pub(super) fn set_in(
        &self,
        item: &Item,
        placeholders: Placeholders<'_>,
    ) -> Result<Item, Refusal> {
        let mut set = Item::new();
        for (name, _) in &self.set {
            let found = item.get_key_value(placeholders.name(name)?);
            set.extend(found.map(|(name, value)| (name.clone(), value.clone())));
        }
        Ok(set)
    }
}
