//! Errors without the values that DynamoDB quotes in them: they are logged.

use std::cmp::Reverse;

use super::StoreError;

impl StoreError {
    /// Removes these values from the message, because a store may quote them.
    pub(super) fn without<'a>(mut self, values: impl IntoIterator<Item = &'a str>) -> Self {
        if let Some(message) = unquoted(&self.message, values) {
            self.message = message;
            // The source contains the same text.
            self.source = None;
        }
        self
    }
}

/// Replaces these values in a text of one line; `None` if it contains none.
pub(crate) fn unquoted<'a>(
    text: &str,
    values: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let in_one_line = |value: &str| value.split_whitespace().collect::<Vec<_>>().join(" ");
    let values = values.into_iter();
    let mut values: Vec<_> = values
        .flat_map(|value| [value.to_owned(), in_one_line(value)])
        .filter(|value| !value.is_empty())
        .collect();
    // One may be a part of another.
    values.sort_by_key(|value| Reverse(value.len()));
    values.iter().fold(None, |rest: Option<String>, value| {
        left_out(rest.as_deref().unwrap_or(text), value).or(rest)
    })
}

/// Replaces a value in a text, except inside longer words.
fn left_out(text: &str, value: &str) -> Option<String> {
    let is_apart = |at: usize| {
        let before = text[..at].chars().next_back();
        let after = text[at + value.len()..].chars().next();
        let mut around = before.into_iter().chain(after);
        !around.any(char::is_alphanumeric)
    };
    let mut rest = String::new();
    let mut from = 0;
    for (at, _) in text.match_indices(value).filter(|(at, _)| is_apart(*at)) {
        rest.push_str(&text[from..at]);
        rest.push('…');
        from = at + value.len();
    }
    rest.push_str(&text[from..]);
    (from > 0).then_some(rest)
}
