//! Suggests the intended spelling of a name.

/// The similarity, from 0 to 1, above which a name counts as a misspelling. High enough that `store` does not match
/// `state`, low enough that `lease` matches `lease_margin`.
const NEAR: f64 = 0.8;

/// The known name nearest to `written`, if one is near enough.
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
