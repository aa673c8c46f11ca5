//! Update expressions: how they are read, and what they change.

use std::collections::BTreeSet;

use crate::error::ApiError;
use crate::lexer::Tokens;
use crate::number::Number;
use crate::operand::{Operand, Placeholders};
use crate::value::{Item, Set, Value};

/// What an update changes.
#[derive(Debug, Default)]
pub(crate) struct Update {
    pub(crate) set: Vec<(String, Operand)>,
    pub(crate) remove: Vec<String>,
    /// Adds to a number or a set.
    add: Vec<(String, String)>,
    /// Takes out of a set.
    delete: Vec<(String, String)>,
}

impl Update {
    pub(crate) fn read(tokens: &mut Tokens) -> Result<Self, ApiError> {
        let mut update = Self::default();
        loop {
            if update.set.is_empty() && tokens.keyword("SET") {
                list(tokens, &mut update.set, |tokens| {
                    let name = tokens.name()?;
                    tokens.expect_sign("=")?;
                    Ok((name, Operand::read_sum(tokens)?))
                })?;
            } else if update.remove.is_empty() && tokens.keyword("REMOVE") {
                list(tokens, &mut update.remove, Tokens::name)?;
            } else if update.add.is_empty() && tokens.keyword("ADD") {
                list(tokens, &mut update.add, named_value)?;
            } else if update.delete.is_empty() && tokens.keyword("DELETE") {
                list(tokens, &mut update.delete, named_value)?;
            } else {
                break;
            }
        }
        if update.targets().next().is_none() {
            return Err(tokens.unexpected());
        }
        Ok(update)
    }

    /// Finds what is wrong with it whatever the item holds.
    pub(crate) fn check(&self, placeholders: Placeholders<'_>) -> Result<(), ApiError> {
        let mut targets = BTreeSet::new();
        for name in self.targets() {
            if !targets.insert(placeholders.name(name)?) {
                return Err(ApiError::validation(
                    "Invalid UpdateExpression: Two document paths overlap with each other",
                ));
            }
        }
        let check = |value: &str, is_added: bool| match placeholders.value(value)? {
            Value::Texts(_) | Value::Numbers(_) | Value::Blobs(_) => Ok(()),
            Value::N(_) if is_added => Ok(()),
            value => Err(wrong_operand(value)),
        };
        self.add
            .iter()
            .try_for_each(|(_, value)| check(value, true))?;
        self.delete
            .iter()
            .try_for_each(|(_, value)| check(value, false))?;
        for (_, operand) in &self.set {
            check_constants(operand, placeholders)?;
        }
        Ok(())
    }

    /// Changes the item, or leaves it as it is when something is wrong.
    pub(crate) fn apply(
        &self,
        item: &mut Item,
        placeholders: Placeholders<'_>,
    ) -> Result<(), ApiError> {
        // Every operand sees the item as it was before.
        let mut changes = Vec::new();
        for (name, operand) in &self.set {
            let value = operand.present(item, placeholders)?.into_owned();
            changes.push((placeholders.name(name)?, Some(value)));
        }
        for (name, value) in &self.add {
            let (name, value) = (placeholders.name(name)?, placeholders.value(value)?);
            changes.push((name, Some(added(item.get(name), value)?)));
        }
        for (name, value) in &self.delete {
            let (name, value) = (placeholders.name(name)?, placeholders.value(value)?);
            if let Some(found) = item.get(name) {
                changes.push((name, without(found, value)?));
            }
        }
        for name in &self.remove {
            changes.push((placeholders.name(name)?, None));
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

    /// The attributes that it is about, or their placeholders.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        let set = self.set.iter().map(|(name, _)| name);
        let others = self.add.iter().chain(&self.delete).map(|(name, _)| name);
        set.chain(others).chain(&self.remove).map(String::as_str)
    }

    /// Whether the update is about the attribute `name`.
    pub(crate) fn is_about(&self, name: &str, placeholders: Placeholders<'_>) -> bool {
        self.targets()
            .any(|target| placeholders.name(target).is_ok_and(|target| target == name))
    }
}

/// One or more, separated by commas.
fn list<T>(
    tokens: &mut Tokens,
    all: &mut Vec<T>,
    mut read: impl FnMut(&mut Tokens) -> Result<T, ApiError>,
) -> Result<(), ApiError> {
    loop {
        all.push(read(tokens)?);
        if !tokens.sign(",") {
            return Ok(());
        }
    }
}

fn named_value(tokens: &mut Tokens) -> Result<(String, String), ApiError> {
    Ok((tokens.name()?, tokens.value()?))
}

/// Values that no sum and no list can be made of are found before the item is looked at.
fn check_constants(operand: &Operand, placeholders: Placeholders<'_>) -> Result<(), ApiError> {
    let check = |side: &Operand, fits: fn(&Value) -> bool| {
        check_constants(side, placeholders)?;
        match side.constant(placeholders) {
            Some(value) if !fits(value) => Err(wrong_operand(value)),
            _ => Ok(()),
        }
    };
    let is_number = |value: &Value| matches!(value, Value::N(_));
    let is_list = |value: &Value| matches!(value, Value::L(_));
    match operand {
        Operand::Plus(left, right) | Operand::Minus(left, right) => {
            check(left, is_number).and_then(|()| check(right, is_number))
        }
        Operand::ListAppend(first, second) => {
            check(first, is_list).and_then(|()| check(second, is_list))
        }
        Operand::IfNotExists(_, otherwise) => check_constants(otherwise, placeholders),
        _ => Ok(()),
    }
}

fn wrong_operand(value: &Value) -> ApiError {
    ApiError::validation(format!(
        "Invalid UpdateExpression: Incorrect operand type for operator or function; operand type: {}",
        value.type_name()
    ))
}

fn wrong_type() -> ApiError {
    ApiError::of_item("An operand in the update expression has an incorrect data type")
}

fn added(found: Option<&Value>, value: &Value) -> Result<Value, ApiError> {
    fn union<T: Ord + Clone>(left: &Set<T>, right: &Set<T>) -> Set<T> {
        Set(left.0.union(&right.0).cloned().collect())
    }
    Ok(match (found, value) {
        (None, value) => value.clone(),
        (Some(Value::N(found)), Value::N(value)) => {
            let sum: Option<Number> = found.plus(*value);
            Value::N(sum.ok_or_else(|| ApiError::of_item("Number overflow"))?)
        }
        (Some(Value::Texts(found)), Value::Texts(value)) => Value::Texts(union(found, value)),
        (Some(Value::Numbers(found)), Value::Numbers(value)) => Value::Numbers(union(found, value)),
        (Some(Value::Blobs(found)), Value::Blobs(value)) => Value::Blobs(union(found, value)),
        _ => return Err(wrong_type()),
    })
}

/// What is left of a set; nothing where it would be empty.
fn without(found: &Value, value: &Value) -> Result<Option<Value>, ApiError> {
    fn rest<T: Ord + Clone>(
        found: &Set<T>,
        value: &Set<T>,
        of: fn(Set<T>) -> Value,
    ) -> Option<Value> {
        let rest: BTreeSet<T> = found.0.difference(&value.0).cloned().collect();
        (!rest.is_empty()).then(|| of(Set(rest)))
    }
    match (found, value) {
        (Value::Texts(found), Value::Texts(value)) => Ok(rest(found, value, Value::Texts)),
        (Value::Numbers(found), Value::Numbers(value)) => Ok(rest(found, value, Value::Numbers)),
        (Value::Blobs(found), Value::Blobs(value)) => Ok(rest(found, value, Value::Blobs)),
        _ => Err(wrong_type()),
    }
}
