//! Condition and update expressions: how they are read, and what they come to.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::HashMap;

use super::error::ApiError;
use super::lexer::{Token, Tokens};
use super::value::{Item, Value};

/// What the placeholders of an expression stand for.
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
    pub(super) fn name<'b>(self, name: &'b str) -> Result<&'b str, ApiError>
    where
        'a: 'b,
    {
        if !name.starts_with('#') {
            return Ok(name);
        }
        let meant = self.names.get(name).map(String::as_str);
        meant.ok_or_else(|| ApiError::validation(format!("no attribute name for {name}")))
    }
}

/// Something that has a value, or has none because an attribute is absent.
#[derive(Debug)]
pub(super) enum Operand {
    Attribute(String),
    Value(String),
    Parameter(usize),
    IfNotExists(String, Box<Operand>),
    Sum(Box<Operand>, Box<Operand>, i128),
}

impl Operand {
    pub(super) fn value<'a>(
        &self,
        item: &'a Item,
        placeholders: Placeholders<'a>,
    ) -> Result<Option<Cow<'a, Value>>, ApiError> {
        match self {
            Self::Attribute(name) => Ok(item.get(placeholders.name(name)?).map(Cow::Borrowed)),
            Self::Value(name) => match placeholders.values.get(name) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => Err(ApiError::validation(format!("no value for {name}"))),
            },
            Self::Parameter(index) => match placeholders.parameters.get(*index) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => Err(ApiError::validation("fewer parameters than question marks")),
            },
            Self::IfNotExists(name, otherwise) => match item.get(placeholders.name(name)?) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => otherwise.value(item, placeholders),
            },
            Self::Sum(left, right, sign) => {
                let left = left.value(item, placeholders)?;
                let right = right.value(item, placeholders)?;
                match (left, right) {
                    (Some(left), Some(right)) => Ok(Some(Cow::Owned(left.plus(&right, *sign)?))),
                    _ => Err(ApiError::validation("an operand of + or - is absent")),
                }
            }
        }
    }

    /// Reads an attribute, a value, or a call of `if_not_exists`. `parameters` counts the question
    /// marks.
    pub(super) fn read(tokens: &mut Tokens, parameters: &mut usize) -> Result<Self, ApiError> {
        if tokens.sign("?") {
            *parameters += 1;
            return Ok(Self::Parameter(*parameters - 1));
        }
        if tokens.keyword("if_not_exists") {
            tokens.expect_sign("(")?;
            let name = tokens.name()?;
            tokens.expect_sign(",")?;
            let otherwise = Self::read(tokens, parameters)?;
            tokens.expect_sign(")")?;
            return Ok(Self::IfNotExists(name, Box::new(otherwise)));
        }
        match tokens.name()? {
            name if name.starts_with(':') => Ok(Self::Value(name)),
            name => Ok(Self::Attribute(name)),
        }
    }
}

/// A condition that an item meets or does not.
#[derive(Debug)]
pub(super) enum Condition {
    Or(Vec<Condition>),
    And(Vec<Condition>),
    Not(Box<Condition>),
    Exists(String),
    NotExists(String),
    Compare(Operand, &'static str, Operand),
}

impl Condition {
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut tokens = Tokens::new(text)?;
        let condition = Self::read(&mut tokens, &mut 0)?;
        tokens.expect_end()?;
        Ok(condition)
    }

    pub(super) fn read(tokens: &mut Tokens, parameters: &mut usize) -> Result<Self, ApiError> {
        let mut any = vec![Self::read_all(tokens, parameters)?];
        while tokens.keyword("OR") {
            any.push(Self::read_all(tokens, parameters)?);
        }
        Ok(Self::Or(any))
    }

    fn read_all(tokens: &mut Tokens, parameters: &mut usize) -> Result<Self, ApiError> {
        let mut all = vec![Self::read_one(tokens, parameters)?];
        while tokens.keyword("AND") {
            all.push(Self::read_one(tokens, parameters)?);
        }
        Ok(Self::And(all))
    }

    fn read_one(tokens: &mut Tokens, parameters: &mut usize) -> Result<Self, ApiError> {
        if tokens.keyword("NOT") {
            return Ok(Self::Not(Box::new(Self::read_one(tokens, parameters)?)));
        }
        if tokens.sign("(") {
            let inner = Self::read(tokens, parameters)?;
            tokens.expect_sign(")")?;
            return Ok(inner);
        }
        for (function, of) in [
            ("attribute_exists", Self::Exists as fn(String) -> Self),
            ("attribute_not_exists", Self::NotExists),
        ] {
            if tokens.keyword(function) {
                tokens.expect_sign("(")?;
                let name = tokens.name()?;
                tokens.expect_sign(")")?;
                return Ok(of(name));
            }
        }
        let left = Operand::read(tokens, parameters)?;
        let comparator = match tokens.take() {
            Some(Token::Sign(sign @ ("=" | "<>" | "<" | "<=" | ">" | ">="))) => sign,
            _ => return Err(ApiError::validation("a comparison lacks its comparator")),
        };
        Ok(Self::Compare(
            left,
            comparator,
            Operand::read(tokens, parameters)?,
        ))
    }

    /// Whether the item meets the condition; an item that is not there has no attributes.
    pub(super) fn holds(
        &self,
        item: &Item,
        placeholders: Placeholders<'_>,
    ) -> Result<bool, ApiError> {
        // No shortcut: a placeholder that is missing is an error wherever it stands.
        let each = |conditions: &[Self]| {
            let held = conditions.iter().map(|one| one.holds(item, placeholders));
            held.collect::<Result<Vec<_>, _>>()
        };
        match self {
            Self::Or(any) => Ok(each(any)?.contains(&true)),
            Self::And(all) => Ok(!each(all)?.contains(&false)),
            Self::Not(inner) => Ok(!inner.holds(item, placeholders)?),
            Self::Exists(name) => Ok(item.contains_key(placeholders.name(name)?)),
            Self::NotExists(name) => Ok(!item.contains_key(placeholders.name(name)?)),
            Self::Compare(left, comparator, right) => {
                let left = left.value(item, placeholders)?;
                let right = right.value(item, placeholders)?;
                let (Some(left), Some(right)) = (left, right) else {
                    // What is absent differs from everything, and has no order.
                    return Ok(*comparator == "<>");
                };
                let order = left.order(&right);
                Ok(match *comparator {
                    "=" => left.equals(&right),
                    "<>" => !left.equals(&right),
                    "<" => order == Some(Ordering::Less),
                    "<=" => matches!(order, Some(Ordering::Less | Ordering::Equal)),
                    ">" => order == Some(Ordering::Greater),
                    _ => matches!(order, Some(Ordering::Greater | Ordering::Equal)),
                })
            }
        }
    }

    /// The value that the condition wants the attribute `name` to have, where it says so at its top.
    pub(super) fn wanted<'a>(&'a self, name: &str) -> Option<&'a Operand> {
        match self {
            Self::Or(any) if any.len() == 1 => any[0].wanted(name),
            Self::And(all) => all.iter().find_map(|one| one.wanted(name)),
            Self::Compare(Operand::Attribute(found), "=", value) if found == name => Some(value),
            _ => None,
        }
    }
}

/// What an update changes.
#[derive(Debug, Default)]
pub(super) struct Update {
    pub(super) set: Vec<(String, Operand)>,
    pub(super) remove: Vec<String>,
}

impl Update {
    pub(super) fn parse(text: &str) -> Result<Self, ApiError> {
        let mut tokens = Tokens::new(text)?;
        let mut update = Self::default();
        while tokens.peek().is_some() {
            if tokens.keyword("SET") {
                loop {
                    let name = tokens.name()?;
                    tokens.expect_sign("=")?;
                    let value = read_sum(&mut tokens)?;
                    update.set.push((name, value));
                    if !tokens.sign(",") {
                        break;
                    }
                }
            } else {
                tokens.expect_keyword("REMOVE")?;
                loop {
                    update.remove.push(tokens.name()?);
                    if !tokens.sign(",") {
                        break;
                    }
                }
            }
        }
        Ok(update)
    }

    /// Changes the item, or leaves it as it is when something is wrong.
    pub(super) fn apply(
        &self,
        item: &mut Item,
        placeholders: Placeholders<'_>,
    ) -> Result<(), ApiError> {
        // Every operand sees the item as it was before.
        let set = self.set.iter().map(|(name, operand)| {
            let value = operand.value(item, placeholders)?;
            let value = value.ok_or_else(|| ApiError::validation("set to what is absent"))?;
            Ok((placeholders.name(name)?, value.into_owned()))
        });
        let set: Vec<_> = set.collect::<Result<_, ApiError>>()?;
        let remove = self.remove.iter().map(|name| placeholders.name(name));
        for name in remove.collect::<Result<Vec<_>, _>>()? {
            item.remove(name);
        }
        for (name, value) in set {
            match item.get_mut(name) {
                Some(present) => *present = value,
                None => drop(item.insert(name.into(), value)),
            }
        }
        Ok(())
    }

    /// Whether the update sets the attribute `name`.
    pub(super) fn sets(&self, name: &str, placeholders: Placeholders<'_>) -> bool {
        let mut set = self.set.iter();
        set.any(|(set, _)| placeholders.name(set).is_ok_and(|set| set == name))
    }
}

fn read_sum(tokens: &mut Tokens) -> Result<Operand, ApiError> {
    let left = Operand::read(tokens, &mut 0)?;
    let sign = match (tokens.sign("+"), tokens.sign("-")) {
        (true, _) => 1,
        (_, true) => -1,
        _ => return Ok(left),
    };
    let right = Operand::read(tokens, &mut 0)?;
    Ok(Operand::Sum(Box::new(left), Box::new(right), sign))
}
