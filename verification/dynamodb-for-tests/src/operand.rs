//! What expressions are made of: placeholders, and operands that have a value.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use crate::error::ApiError;
use crate::lexer::{Token, Tokens};
use crate::value::{Item, Value};

/// What the placeholders of an expression stand for.
#[derive(Clone, Copy)]
pub(crate) struct Placeholders<'a> {
    /// `#name`
    pub(crate) names: &'a HashMap<String, String>,
    /// `:value`
    pub(crate) values: &'a HashMap<String, Value>,
    /// `?`, in their order
    pub(crate) parameters: &'a [Value],
}

impl<'a> Placeholders<'a> {
    pub(crate) fn name<'b>(self, name: &'b str) -> Result<&'b str, ApiError>
    where
        'a: 'b,
    {
        if !name.starts_with('#') {
            return Ok(name);
        }
        let meant = self.names.get(name).map(String::as_str);
        meant.ok_or_else(|| undefined("name", name))
    }

    pub(crate) fn value(self, name: &str) -> Result<&'a Value, ApiError> {
        self.values
            .get(name)
            .ok_or_else(|| undefined("value", name))
    }

    /// Finds placeholders that mean nothing, and meanings that no expression uses.
    pub(crate) fn check<'b>(
        self,
        used: impl Iterator<Item = &'b BTreeSet<String>> + Clone,
    ) -> Result<(), ApiError> {
        for placeholder in used.clone().flatten() {
            if placeholder.starts_with('#') {
                self.name(placeholder)?;
            } else {
                self.value(placeholder)?;
            }
        }
        let mut defined = self.names.keys().chain(self.values.keys());
        match defined.find(|name| !used.clone().any(|used| used.contains(*name))) {
            None => Ok(()),
            Some(name) => Err(ApiError::validation(format!(
                "Value provided in ExpressionAttributeNames or ExpressionAttributeValues unused in expressions: {name}"
            ))),
        }
    }
}

fn undefined(what: &str, name: &str) -> ApiError {
    ApiError::validation(format!(
        "An expression attribute {what} used in expression is not defined: {name}"
    ))
}

/// Something that has a value, or has none because an attribute is absent.
#[derive(Debug)]
pub(crate) enum Operand {
    Attribute(String),
    Value(String),
    Parameter(usize),
    /// Of conditions only.
    Size(String),
    /// These are of updates only.
    IfNotExists(String, Box<Operand>),
    ListAppend(Box<Operand>, Box<Operand>),
    Plus(Box<Operand>, Box<Operand>),
    Minus(Box<Operand>, Box<Operand>),
}

const WRONG_TYPE: &str = "An operand in the update expression has an incorrect data type";

impl Operand {
    pub(crate) fn value<'a>(
        &'a self,
        item: &'a Item,
        placeholders: Placeholders<'a>,
    ) -> Result<Option<Cow<'a, Value>>, ApiError> {
        let computed = |value: Value| Ok(Some(Cow::Owned(value)));
        match self {
            Self::Attribute(name) => Ok(item.get(placeholders.name(name)?).map(Cow::Borrowed)),
            Self::Value(name) => placeholders.value(name).map(Cow::Borrowed).map(Some),
            Self::Parameter(index) => match placeholders.parameters.get(*index) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => Err(ApiError::validation("fewer parameters than question marks")),
            },
            Self::Size(name) => {
                let found = item.get(placeholders.name(name)?);
                let size = found.and_then(Value::measured);
                Ok(size.map(|size| Cow::Owned(Value::N(size.into()))))
            }
            Self::IfNotExists(name, otherwise) => match item.get(placeholders.name(name)?) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => otherwise.value(item, placeholders),
            },
            Self::ListAppend(first, second) => {
                let first = first.present(item, placeholders)?.into_owned();
                let second = second.present(item, placeholders)?.into_owned();
                match (first, second) {
                    (Value::L(mut first), Value::L(second)) => {
                        first.extend(second);
                        computed(Value::L(first))
                    }
                    _ => Err(ApiError::of_item(WRONG_TYPE)),
                }
            }
            Self::Plus(left, right) | Self::Minus(left, right) => {
                let left = left.present(item, placeholders)?;
                let right = right.present(item, placeholders)?;
                let (Value::N(left), Value::N(right)) = (&*left, &*right) else {
                    return Err(ApiError::of_item(WRONG_TYPE));
                };
                let sum = match self {
                    Self::Plus(..) => left.plus(*right),
                    _ => left.minus(*right),
                };
                let sum = sum.ok_or_else(|| ApiError::of_item("Number overflow"))?;
                computed(Value::N(sum))
            }
        }
    }

    /// The value that an update needs.
    pub(crate) fn present<'a>(
        &'a self,
        item: &'a Item,
        placeholders: Placeholders<'a>,
    ) -> Result<Cow<'a, Value>, ApiError> {
        self.value(item, placeholders)?.ok_or_else(|| {
            ApiError::of_item(
                "The provided expression refers to an attribute that does not exist in the item",
            )
        })
    }

    /// The value that it is whatever the item holds.
    pub(crate) fn constant<'a>(&self, placeholders: Placeholders<'a>) -> Option<&'a Value> {
        match self {
            Self::Value(name) => placeholders.values.get(name),
            Self::Parameter(index) => placeholders.parameters.get(*index),
            _ => None,
        }
    }

    /// Reads an attribute or a value.
    pub(crate) fn read(tokens: &mut Tokens) -> Result<Self, ApiError> {
        if tokens.sign("?") {
            tokens.parameters += 1;
            return Ok(Self::Parameter(tokens.parameters - 1));
        }
        match tokens.peek() {
            Some(Token::Word(word)) if word.starts_with(':') => tokens.value().map(Self::Value),
            _ => tokens.name().map(Self::Attribute),
        }
    }

    /// Reads what an update sets an attribute to.
    pub(crate) fn read_sum(tokens: &mut Tokens) -> Result<Self, ApiError> {
        let left = Self::read_call(tokens)?;
        if tokens.sign("+") {
            let right = Self::read_call(tokens)?;
            return Ok(Self::Plus(Box::new(left), Box::new(right)));
        }
        if tokens.sign("-") {
            let right = Self::read_call(tokens)?;
            return Ok(Self::Minus(Box::new(left), Box::new(right)));
        }
        Ok(left)
    }

    fn read_call(tokens: &mut Tokens) -> Result<Self, ApiError> {
        if tokens.function("if_not_exists") {
            let name = tokens.name()?;
            tokens.expect_sign(",")?;
            let otherwise = Self::read_call(tokens)?;
            tokens.expect_sign(")")?;
            return Ok(Self::IfNotExists(name, Box::new(otherwise)));
        }
        if tokens.function("list_append") {
            let first = Self::read_call(tokens)?;
            tokens.expect_sign(",")?;
            let second = Self::read_call(tokens)?;
            tokens.expect_sign(")")?;
            return Ok(Self::ListAppend(Box::new(first), Box::new(second)));
        }
        Self::read(tokens)
    }
}
