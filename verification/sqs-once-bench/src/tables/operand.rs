//! The parts of expressions: placeholders, and operands that have a value.

use std::borrow::Cow;
use std::collections::{BTreeSet, HashMap};

use super::error::Refusal;
use super::parsed::{Part, Rule, first, word};
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
    pub(super) fn name<'b>(self, name: &'b str) -> Result<&'b str, Refusal>
    where
        'a: 'b,
    {
        if !name.starts_with('#') {
            return Ok(name);
        }
        let meant = self.names.get(name).map(String::as_str);
        meant.ok_or_else(|| undefined(name))
    }

    fn value(self, name: &str) -> Result<&'a Value, Refusal> {
        self.values.get(name).ok_or_else(|| undefined(name))
    }

    /// Finds placeholders without a meaning, and meanings that no expression uses.
    pub(super) fn check<'b>(
        self,
        used: impl Iterator<Item = &'b BTreeSet<String>> + Clone,
    ) -> Result<(), Refusal> {
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
            Some(name) => Err(Refusal::validation(format!(
                "unused in expressions: {name}"
            ))),
        }
    }
}

fn undefined(name: &str) -> Refusal {
    Refusal::validation(format!("used in an expression, and not defined: {name}"))
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
    pub(super) fn value<'a>(
        &'a self,
        item: Option<&'a Item>,
        placeholders: Placeholders<'a>,
    ) -> Result<Option<Cow<'a, Value>>, Refusal> {
        let found = |name: &str| {
            let name = placeholders.name(name)?;
            Ok::<_, Refusal>(item.and_then(|item| item.get(name)))
        };
        match self {
            Self::Attribute(name) => Ok(found(name)?.map(Cow::Borrowed)),
            Self::Value(name) => placeholders.value(name).map(Cow::Borrowed).map(Some),
            Self::Parameter(index) => match placeholders.parameters.get(*index) {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => Err(Refusal::validation("fewer parameters than question marks")),
            },
            Self::IfNotExists(name, otherwise) => match found(name)? {
                Some(value) => Ok(Some(Cow::Borrowed(value))),
                None => otherwise.value(item, placeholders),
            },
            Self::Plus(left, right) => {
                let left = left.present(item, placeholders)?;
                let right = right.present(item, placeholders)?;
                match (&*left, &*right) {
                    (Value::N(left), Value::N(right)) => {
                        Ok(Some(Cow::Owned(Value::N(left.plus(*right)))))
                    }
                    _ => Err(Refusal::validation("a sum is of numbers")),
                }
            }
        }
    }

    /// The value that an update needs.
    pub(super) fn present<'a>(
        &'a self,
        item: Option<&'a Item>,
        placeholders: Placeholders<'a>,
    ) -> Result<Cow<'a, Value>, Refusal> {
        let value = self.value(item, placeholders)?;
        value.ok_or_else(|| Refusal::validation("the item lacks an attribute of the update"))
    }

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
}
