//! What earlier runs left, because they were killed.

use super::account::Account;
use super::delete::{Deletion, delete};
use super::error::VerifyError;
use super::names::{Prefix, Resource};
use super::wait::Waits;
use crate::confirm::ask;
use crate::print;
use anyhow::Result;
use std::collections::BTreeSet;

/// The resources that earlier runs created, by name and tag. Runs that are still going are among them.
async fn find(
    account: &Account,
    waits: &Waits<'_>,
) -> Result<Vec<(Prefix, Resource)>, VerifyError> {
    let mut found = Vec::new();
    for resource in account.candidates(waits).await? {
        waits.go_on()?;
        let Some(prefix) = Prefix::of(&resource.name) else {
            continue;
        };
        let existing = account.find(waits, &resource).await?;
        if existing.is_some_and(|existing| existing.is_of(&prefix)) {
            found.push((prefix, resource));
        }
    }
    Ok(found)
}

/// Notes what earlier runs left. Deletes nothing, because another run may be using it.
pub(super) async fn note(account: &Account, waits: &Waits<'_>) -> Result<(), VerifyError> {
    let found = find(account, waits).await?;
    let prefixes: BTreeSet<_> = found.iter().map(|(prefix, _)| prefix.as_str()).collect();
    if !prefixes.is_empty() {
        let prefixes = prefixes.into_iter().collect::<Vec<_>>().join(", ");
        print::note(&format!(
            "Other runs left something, or are not done: {prefixes}. If they are not running any more, --clean deletes it."
        ));
    }
    Ok(())
}

/// Shows what earlier runs left, asks, and deletes it.
pub(super) async fn clean(
    account: &Account,
    waits: &Waits<'_>,
    place: &str,
    yes: bool,
) -> Result<()> {
    let found = find(account, waits).await?;
    if found.is_empty() {
        return print::result(format!("earlier runs left nothing in {place}"));
    }
    for (_, resource) in &found {
        print::note(&resource.to_string());
    }
    let question = format!("Delete these {} resources in {place}?", found.len());
    ask(&question, yes, waits.interrupt).await?;
    let mut deleted = 0;
    for (prefix, resource) in &found {
        waits.go_on()?;
        let deletion = delete(account, waits, prefix, resource).await?;
        deleted += usize::from(deletion == Deletion::Deleted);
    }
    print::result(format!("deleted {deleted} resources"))
}
