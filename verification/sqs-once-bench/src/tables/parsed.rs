//! Expressions: the grammar, and a cache, because clients send the same few texts again and again.

use std::collections::HashMap;
use std::sync::Arc;

use pest::Parser;
use pest::iterators::Pair;

use super::error::Refusal;

#[derive(pest_derive::Parser)]
#[grammar = "tables/expression.pest"]
struct Grammar;

pub(super) type Part<'a> = Pair<'a, Rule>;

/// What the grammar reads.
pub(super) trait Expression: Sized {
    /// The rule for a text that is this expression and nothing else.
    const WHOLE: Rule;

    fn of(part: Part<'_>) -> Self;

    fn read(text: &str) -> Result<Self, Refusal> {
        let parts = Grammar::parse(Self::WHOLE, text);
        let parts = parts.map_err(|error| Refusal::validation(format!("Syntax error: {error}")));
        Ok(Self::of(first(&mut parts?)))
    }
}

/// The next part, which the grammar requires.
pub(super) fn first<'a>(parts: &mut impl Iterator<Item = Part<'a>>) -> Part<'a> {
    let part = parts.next();
    part.unwrap_or_else(|| unreachable!("the grammar requires it"))
}

/// The text of a part, without its quotes.
pub(super) fn word(part: &Part<'_>) -> String {
    part.as_str().trim_matches(['"', '\'']).to_owned()
}

/// Expressions by their texts.
pub(super) type Cache<T> = HashMap<String, Arc<T>>;

pub(super) fn cached<T>(
    cache: &mut Cache<T>,
    text: &str,
    read: impl FnOnce(&str) -> Result<T, Refusal>,
) -> Result<Arc<T>, Refusal> {
    if let Some(expression) = cache.get(text) {
        return Ok(Arc::clone(expression));
    }
    let expression = Arc::new(read(text)?);
    cache.insert(text.to_owned(), Arc::clone(&expression));
    Ok(expression)
}
