//! Expressions: the grammar, and a cache, because clients send the same few texts again and again.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pest::Parser;
use pest::iterators::Pair;

use super::error::Refusal;

#[derive(pest_derive::Parser)]
#[grammar = "tables/expression.pest"]
struct Grammar;

pub(super) type Part<'a> = Pair<'a, Rule>;

const MOST: usize = 10_000;

/// What the grammar reads.
pub(super) trait Expression {
    /// The rule for a text that is this expression and nothing else.
    const WHOLE: Rule;

    fn of(part: Part<'_>) -> Self;
}

#[derive(Debug)]
pub(super) struct Parsed<T> {
    pub(super) expression: T,
    /// Its `#names` and `:values`.
    pub(super) placeholders: BTreeSet<String>,
    /// The number of its question marks.
    pub(super) parameters: usize,
}

impl<T: Expression> Parsed<T> {
    pub(super) fn read(text: &str) -> Result<Self, Refusal> {
        let mut parts = Grammar::parse(T::WHOLE, text)
            .map_err(|error| Refusal::validation(format!("Syntax error: {error}")))?;
        let all = || parts.clone().flatten();
        let words = all().filter(|part| matches!(part.as_rule(), Rule::name | Rule::value));
        let words = words.map(|part| word(&part));
        let parameters = all().filter(|part| part.as_rule() == Rule::parameter);
        Ok(Self {
            placeholders: words.filter(|word| word.starts_with(['#', ':'])).collect(),
            parameters: parameters.count(),
            expression: T::of(first(&mut parts)),
        })
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
#[derive(Debug)]
pub(super) struct Cache<T>(HashMap<String, Arc<Parsed<T>>>);

impl<T> Default for Cache<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T> Cache<T> {
    pub(super) fn of(
        &mut self,
        text: &str,
        parse: impl FnOnce(&str) -> Result<Parsed<T>, Refusal>,
    ) -> Result<Arc<Parsed<T>>, Refusal> {
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
