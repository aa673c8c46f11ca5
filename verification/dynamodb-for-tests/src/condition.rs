//! Condition expressions: how they are read, and whether an item meets them.

use std::cmp::Ordering;

use crate::error::ApiError;
use crate::lexer::{Token, Tokens};
use crate::operand::{Operand, Placeholders};
use crate::value::{Item, Value};

/// A condition that an item meets or does not.
#[derive(Debug)]
pub(crate) enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Not(Box<Condition>),
    Exists(String),
    NotExists(String),
    /// The attribute is of the type that the value names.
    IsOf(String, Operand),
    BeginsWith(Operand, Operand),
    Contains(Operand, Operand),
    Compare(Operand, &'static str, Operand),
    Between(Operand, Operand, Operand),
    In(Operand, Vec<Operand>),
}

const TYPES: [&str; 10] = ["S", "N", "B", "BOOL", "NULL", "L", "M", "SS", "NS", "BS"];

impl Condition {
    pub(crate) fn read(tokens: &mut Tokens) -> Result<Self, ApiError> {
        let mut any = vec![Self::read_all(tokens)?];
        while tokens.keyword("OR") {
            any.push(Self::read_all(tokens)?);
        }
        Ok(Self::Or(any))
    }

    fn read_all(tokens: &mut Tokens) -> Result<Self, ApiError> {
        let mut all = vec![Self::read_one(tokens)?];
        while tokens.keyword("AND") {
            all.push(Self::read_one(tokens)?);
        }
        Ok(Self::And(all))
    }

    fn read_one(tokens: &mut Tokens) -> Result<Self, ApiError> {
        if tokens.keyword("NOT") {
            return Ok(Self::Not(Box::new(Self::read_one(tokens)?)));
        }
        if tokens.sign("(") {
            let inner = Self::read(tokens)?;
            tokens.expect_sign(")")?;
            return Ok(inner);
        }
        for (function, of) in [
            ("attribute_exists", Self::Exists as fn(String) -> Self),
            ("attribute_not_exists", Self::NotExists),
        ] {
            if tokens.function(function) {
                let name = tokens.name()?;
                tokens.expect_sign(")")?;
                return Ok(of(name));
            }
        }
        if tokens.function("attribute_type") {
            let name = tokens.name()?;
            tokens.expect_sign(",")?;
            let of = Operand::read(tokens)?;
            tokens.expect_sign(")")?;
            return Ok(Self::IsOf(name, of));
        }
        for (function, of) in [
            (
                "begins_with",
                Self::BeginsWith as fn(Operand, Operand) -> Self,
            ),
            ("contains", Self::Contains),
        ] {
            if tokens.function(function) {
                let whole = read_operand(tokens)?;
                tokens.expect_sign(",")?;
                let part = read_operand(tokens)?;
                tokens.expect_sign(")")?;
                return Ok(of(whole, part));
            }
        }
        Self::read_comparison(tokens)
    }

    fn read_comparison(tokens: &mut Tokens) -> Result<Self, ApiError> {
        let left = read_operand(tokens)?;
        if tokens.keyword("BETWEEN") {
            let low = read_operand(tokens)?;
            tokens.expect_keyword("AND")?;
            let high = read_operand(tokens)?;
            return Ok(Self::Between(left, low, high));
        }
        if tokens.keyword("IN") {
            tokens.expect_sign("(")?;
            let mut any = vec![read_operand(tokens)?];
            while tokens.sign(",") {
                any.push(read_operand(tokens)?);
            }
            tokens.expect_sign(")")?;
            return Ok(Self::In(left, any));
        }
        match tokens.take() {
            Some(Token::Sign(sign @ ("=" | "<>" | "<" | "<=" | ">" | ">="))) => {
                Ok(Self::Compare(left, sign, read_operand(tokens)?))
            }
            _ => Err(ApiError::validation(
                "Syntax error; a comparison lacks its comparator",
            )),
        }
    }

    /// Finds what is wrong with it whatever the item holds.
    pub(crate) fn check(&self, placeholders: Placeholders<'_>) -> Result<(), ApiError> {
        let ordered = |operand: &Operand| match operand.constant(placeholders) {
            Some(value) if !value.is_ordered() => Err(wrong_operand(value)),
            _ => Ok(()),
        };
        match self {
            Self::Or(all) | Self::And(all) => {
                all.iter().try_for_each(|one| one.check(placeholders))
            }
            Self::Not(inner) => inner.check(placeholders),
            Self::Exists(_) | Self::NotExists(_) | Self::In(..) => Ok(()),
            Self::Contains(whole, part) => are_two(whole, part, placeholders),
            Self::IsOf(_, of) => match of.constant(placeholders) {
                Some(Value::S(name)) if TYPES.contains(&name.as_str()) => Ok(()),
                Some(value) => Err(wrong_operand(value)),
                None => Err(ApiError::validation("Invalid attribute type name found")),
            },
            Self::BeginsWith(whole, start) => {
                let text = |operand: &Operand| match operand.constant(placeholders) {
                    None | Some(Value::S(_) | Value::B(_)) => Ok(()),
                    Some(value) => Err(wrong_operand(value)),
                };
                are_two(whole, start, placeholders)?;
                text(whole).and_then(|()| text(start))
            }
            Self::Compare(left, comparator, right) => {
                are_two(left, right, placeholders)?;
                match *comparator {
                    "=" | "<>" => Ok(()),
                    _ => ordered(left).and_then(|()| ordered(right)),
                }
            }
            Self::Between(operand, low, high) => {
                [operand, low, high].into_iter().try_for_each(ordered)?;
                let (low, high) = (low.constant(placeholders), high.constant(placeholders));
                match low.zip(high).map(|(low, high)| low.order(high)) {
                    None | Some(Some(Ordering::Less | Ordering::Equal)) => Ok(()),
                    Some(_) => Err(ApiError::validation(
                        "The BETWEEN operator requires an upper bound of the same type, and greater than or equal to lower bound",
                    )),
                }
            }
        }
    }

    /// Whether the item meets the condition; an item that is not there has no attributes.
    pub(crate) fn holds(
        &self,
        item: &Item,
        placeholders: Placeholders<'_>,
    ) -> Result<bool, ApiError> {
        Ok(match self {
            Self::Or(any) => {
                for one in any {
                    if one.holds(item, placeholders)? {
                        return Ok(true);
                    }
                }
                false
            }
            Self::And(all) => {
                for one in all {
                    if !one.holds(item, placeholders)? {
                        return Ok(false);
                    }
                }
                true
            }
            Self::Not(inner) => !inner.holds(item, placeholders)?,
            Self::Exists(name) => item.contains_key(placeholders.name(name)?),
            Self::NotExists(name) => !item.contains_key(placeholders.name(name)?),
            Self::IsOf(name, of) => {
                let found = item.get(placeholders.name(name)?);
                let wanted = of.constant(placeholders);
                matches!((found, wanted), (Some(found), Some(Value::S(wanted))) if found.type_name() == wanted)
            }
            Self::BeginsWith(whole, start) => {
                let whole = whole.value(item, placeholders)?;
                let pair = whole.zip(start.value(item, placeholders)?);
                pair.is_some_and(|(whole, start)| whole.begins_with(&start))
            }
            Self::Contains(whole, part) => {
                let whole = whole.value(item, placeholders)?;
                let pair = whole.zip(part.value(item, placeholders)?);
                pair.is_some_and(|(whole, part)| whole.contains(&part))
            }
            Self::Compare(left, comparator, right) => {
                let left = left.value(item, placeholders)?;
                let right = right.value(item, placeholders)?;
                let Some((left, right)) = left.zip(right) else {
                    // What is absent differs from everything, and has no order.
                    return Ok(*comparator == "<>");
                };
                let order = left.order(&right);
                match *comparator {
                    "=" => left == right,
                    "<>" => left != right,
                    "<" => order == Some(Ordering::Less),
                    "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    ">" => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                }
            }
            Self::Between(operand, low, high) => {
                let Some(found) = operand.value(item, placeholders)? else {
                    return Ok(false);
                };
                let low = low.value(item, placeholders)?;
                let high = high.value(item, placeholders)?;
                let above = low.and_then(|low| found.order(&low));
                let below = high.and_then(|high| found.order(&high));
                matches!(above, Some(Ordering::Greater | Ordering::Equal))
                    && matches!(below, Some(Ordering::Less | Ordering::Equal))
            }
            Self::In(operand, any) => {
                let Some(found) = operand.value(item, placeholders)? else {
                    return Ok(false);
                };
                for one in any {
                    if one.value(item, placeholders)?.as_ref() == Some(&found) {
                        return Ok(true);
                    }
                }
                false
            }
        })
    }

    /// The value that the condition wants the attribute `name` to have, where it says so at its top.
    pub(crate) fn wanted<'a>(&'a self, name: &str) -> Option<&'a Operand> {
        match self {
            Self::Or(any) if any.len() == 1 => any[0].wanted(name),
            Self::And(all) => all.iter().find_map(|one| one.wanted(name)),
            Self::Compare(Operand::Attribute(found), "=", value) if found == name => Some(value),
            _ => None,
        }
    }
}

fn read_operand(tokens: &mut Tokens) -> Result<Operand, ApiError> {
    if tokens.function("size") {
        let name = tokens.name()?;
        tokens.expect_sign(")")?;
        return Ok(Operand::Size(name));
    }
    Operand::read(tokens)
}

/// Nothing is compared with itself.
fn are_two(
    left: &Operand,
    right: &Operand,
    placeholders: Placeholders<'_>,
) -> Result<(), ApiError> {
    match (left, right) {
        (Operand::Attribute(left), Operand::Attribute(right))
            if placeholders.name(left)? == placeholders.name(right)? =>
        {
            Err(ApiError::validation(
                "The first operand must be distinct from the remaining operands for this operator or function",
            ))
        }
        _ => Ok(()),
    }
}

fn wrong_operand(value: &Value) -> ApiError {
    ApiError::validation(format!(
        "Incorrect operand type for operator or function; operand type: {}",
        value.type_name()
    ))
}
