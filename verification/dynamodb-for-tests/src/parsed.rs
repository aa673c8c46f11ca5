//! Expressions that were read before: clients send the same few texts again and again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::error::ApiError;
use crate::lexer::Tokens;

/// How many texts are kept.
const MOST: usize = 10_000;

/// An expression, and what it was read with.
#[derive(Debug)]
pub(crate) struct Parsed<T> {
    pub(crate) expression: T,
    /// Its `#names` and `:values`.
    pub(crate) placeholders: BTreeSet<String>,
    /// How many question marks it has.
    pub(crate) parameters: usize,
}

impl<T> Parsed<T> {
    pub(crate) fn read(
        text: &str,
        read: impl FnOnce(&mut Tokens) -> Result<T, ApiError>,
    ) -> Result<Self, ApiError> {
        let mut tokens = Tokens::new(text)?;
        let expression = read(&mut tokens)?;
        tokens.expect_end()?;
        Ok(Self {
            expression,
            placeholders: tokens.placeholders,
            parameters: tokens.parameters,
        })
    }
}

/// What was read before, by its text.
#[derive(Debug)]
pub(crate) struct Cache<T>(HashMap<String, Arc<Parsed<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Cache<T> {
    pub(crate) fn of(
        &mut self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<Parsed<T>, ApiError>,
    ) -> Result<Arc<Parsed<T>>, ApiError> {
        if let Some(parsed) = self.0.get(text) {
            return Ok(Arc::clone(parsed));
        }
        if self.0.len() >= MOST {
            self.0.clear();
        }
        let parsed = Arc::new(parse(text)?);
        self.0.insert(text.to_owned(), Arc::clone(&parsed));
        Ok(parsed)
    }
}
