//! Condition expressions: how they are read, and whether an item meets them.

use std::cmp::Ordering;

use super::error::Refusal;
use super::operand::{Operand, Placeholders};
use super::parsed::{Part, Rule, first, word};
use super::value::Item;

#[derive(Debug)]
pub(super) enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Exists(String),
    NotExists(String),
    Compare(Operand, String, Operand),
}

impl Condition {
    pub(super) fn of(part: Part<'_>) -> Self {
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

    /// Whether the item meets the condition. A missing item has no attributes.
    pub(super) fn holds(
        &self,
        item: Option<&Item>,
        placeholders: Placeholders<'_>,
    ) -> Result<bool, Refusal> {
        let has = |name| Ok(item.is_some_and(|item| item.contains_key(name)));
        match self {
            Self::Or(any) => {
                for one in any {
                    if one.holds(item, placeholders)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Self::And(all) => {
                for one in all {
                    if !one.holds(item, placeholders)? {
                        return Ok(false);
                    }
                }
                Ok(true)
            }
            Self::Exists(name) => has(placeholders.name(name)?),
            Self::NotExists(name) => has(placeholders.name(name)?).map(|has: bool| !has),
            Self::Compare(left, comparator, right) => {
                let left = left.value(item, placeholders)?;
                let right = right.value(item, placeholders)?;
                let order = left.zip(right).and_then(|(left, right)| left.order(&right));
                // A missing attribute, or one of another type, differs and has no order.
                Ok(match comparator.as_str() {
                    "=" => order == Some(Ordering::Equal),
                    "<>" => order != Some(Ordering::Equal),
                    "<" => order == Some(Ordering::Less),
                    "<=" => order.is_some_and(Ordering::is_le),
                    ">" => order == Some(Ordering::Greater),
                    _ => order.is_some_and(Ordering::is_ge),
                })
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
