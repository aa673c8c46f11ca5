//! Finds the spelling that was meant.

/// How alike two names are, from 0 to 1, before one counts as a misspelling of the other. High enough
/// to keep `store` from becoming `state`, low enough for `lease` to become `lease_margin`.
const NEAR: f64 = 0.8;

/// The known name that `written` most likely stands for, if any is near.
pub(crate) fn nearest<'a>(
    written: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let written = written.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&written, name), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}
