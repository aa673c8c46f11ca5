//! Operands, conditions and updates: how they are read, and what they make of an item.

use std::cmp::Ordering;
use std::collections::HashMap;

use super::error::Refusal;
use super::parsed::{Expression, Part, Rule, first, word};
use super::value::{Item, Value};

/// The meaning of the placeholders in an expression.
#[derive(Clone, Copy)]
pub(super) struct Placeholders<'a> {
    /// `#name`
    pub(super) names: &'a HashMap<String, String>,
    /// `:value`
    pub(super) values: &'a HashMap<String, Value>,
    /// `?`, in their order
    pub(super) parameters: &'a [Value],
}

impl<'a> Placeholders<'a> {
    fn name<'b>(self, name: &'b str) -> &'b str
    where
        'a: 'b,
    {
        self.names.get(name).map_or(name, String::as_str)
    }
}

/// Something that has a value, or has none because an attribute is absent.
#[derive(Debug)]
pub(super) enum Operand {
    Attribute(String),
    Value(String),
    Parameter(usize),
    /// These are in updates only.
    IfNotExists(String, Box<Operand>),
    Plus(Box<Operand>, Box<Operand>),
}

impl Operand {
    pub(super) fn of(part: Part<'_>) -> Self {
        // A parameter is the next question mark.
        let before = &part.get_input()[..part.as_span().start()];
        let (rule, text) = (part.as_rule(), word(&part));
        let mut inner = part.into_inner();
        match rule {
            Rule::parameter => Self::Parameter(before.matches('?').count()),
            Rule::value => Self::Value(text),
            Rule::name => Self::Attribute(text),
            Rule::sum => {
                let left = Box::new(Self::of(first(&mut inner)));
                Self::Plus(left, Box::new(Self::of(first(&mut inner))))
            }
            _ => {
                let name = word(&first(&mut inner));
                Self::IfNotExists(name, Box::new(Self::of(first(&mut inner))))
            }
        }
    }

    /// The value. A sum has one only if both of its terms are numbers.
    pub(super) fn value(
        &self,
        item: Option<&Item>,
        placeholders: Placeholders<'_>,
    ) -> Option<Value> {
        let found = |name: &str| item?.get(placeholders.name(name)).cloned();
        let value = |operand: &Self| operand.value(item, placeholders);
        match self {
            Self::Attribute(name) => found(name),
            Self::Value(name) => placeholders.values.get(name).cloned(),
            Self::Parameter(index) => placeholders.parameters.get(*index).cloned(),
            Self::IfNotExists(name, otherwise) => found(name).or_else(|| value(otherwise)),
            Self::Plus(left, right) => match (value(left)?, value(right)?) {
                (Value::N(left), Value::N(right)) => Some(Value::N(left.plus(right))),
                _ => None,
            },
        }
    }
}

#[derive(Debug)]
pub(super) enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Exists(String),
    NotExists(String),
    Compare(Operand, String, Operand),
}

impl Expression for Condition {
    const WHOLE: Rule = Rule::only_condition;

    fn of(part: Part<'_>) -> Self {
        let rule = part.as_rule();
        let mut inner = part.into_inner();
        match rule {
            Rule::condition => Self::Or(inner.map(Self::of).collect()),
            Rule::all => Self::And(inner.map(Self::of).collect()),
            Rule::exists => Self::Exists(word(&first(&mut inner))),
            Rule::not_exists => Self::NotExists(word(&first(&mut inner))),
            _ => {
                let left = Operand::of(first(&mut inner));
                let comparator = word(&first(&mut inner));
                Self::Compare(left, comparator, Operand::of(first(&mut inner)))
            }
        }
    }
}

impl Condition {
    /// Whether the item meets the condition. A missing item has no attributes.
    pub(super) fn holds(&self, item: Option<&Item>, placeholders: Placeholders<'_>) -> bool {
        let has = |name| item.is_some_and(|item| item.contains_key(placeholders.name(name)));
        match self {
            Self::Or(any) => any.iter().any(|one| one.holds(item, placeholders)),
            Self::And(all) => all.iter().all(|one| one.holds(item, placeholders)),
            Self::Exists(name) => has(name),
            Self::NotExists(name) => !has(name),
            Self::Compare(left, comparator, right) => {
                let left = left.value(item, placeholders);
                let right = right.value(item, placeholders);
                let order = left.zip(right).and_then(|(left, right)| left.order(&right));
                // A missing attribute, or one of another type, differs and has no order.
                match comparator.as_str() {
                    "=" => order == Some(Ordering::Equal),
                    "<>" => order != Some(Ordering::Equal),
                    "<" => order == Some(Ordering::Less),
                    "<=" => order.is_some_and(Ordering::is_le),
                    ">" => order == Some(Ordering::Greater),
                    _ => order.is_some_and(Ordering::is_ge),
                }
            }
        }
    }

    /// The value that every item must have in the attribute `name`.
    pub(super) fn wanted<'a>(&'a self, name: &str) -> Option<&'a Operand> {
        match self {
            Self::Or(any) if any.len() == 1 => any[0].wanted(name),
            Self::And(all) => all.iter().find_map(|one| one.wanted(name)),
            Self::Compare(Operand::Attribute(found), comparator, value)
                if found == name && comparator == "=" =>
            {
                Some(value)
            }
            _ => None,
        }
    }
}

/// The changes of an update.
#[derive(Debug, Default)]
pub(super) struct Update {
    set: Vec<(String, Operand)>,
    remove: Vec<String>,
}

impl Expression for Update {
    const WHOLE: Rule = Rule::only_update;

    fn of(part: Part<'_>) -> Self {
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
}

impl Update {
    /// Changes the item, or leaves it unchanged if it returns an error.
    pub(super) fn apply(
        &self,
        item: &mut Item,
        placeholders: Placeholders<'_>,
    ) -> Result<(), Refusal> {
        // Every operand sees the item before the update.
        let mut changes = Vec::with_capacity(self.set.len() + self.remove.len());
        for (name, operand) in &self.set {
            let Some(value) = operand.value(Some(item), placeholders) else {
                return Err(Refusal::validation("the item lacks what the update needs"));
            };
            changes.push((placeholders.name(name), Some(value)));
        }
        let removed = self.remove.iter();
        changes.extend(removed.map(|name| (placeholders.name(name), None)));
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
    pub(super) fn set_in(&self, item: &Item, placeholders: Placeholders<'_>) -> Item {
        let names = self.set.iter().map(|(name, _)| placeholders.name(name));
        let set = names.filter_map(|name| item.get_key_value(name));
        set.map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    }
}
