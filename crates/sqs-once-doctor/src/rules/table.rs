//! The table that stores the keys.

use super::Problem;
use crate::field::below;
use crate::model::{Deployment, Table};
use crate::remedy::Remedy;
use crate::template::Change;

/// The library's default attribute names.
const KEY: &str = "id";
const EXPIRATION: &str = "expiration";

/// The tables with the library's default layout. A table with another partition key has other attributes too.
fn tables(deployment: &Deployment) -> impl Iterator<Item = &Table> {
    deployment
        .key_tables()
        .map(|(table, _)| table)
        .filter(|table| {
            table.partition_key.known().is_some_and(|key| key == KEY) && table.sort_key.is_missing()
        })
}

pub(super) fn ttl_missing(deployment: &Deployment) -> Vec<Problem> {
    tables(deployment)
        .filter(|table| {
            let is_off = table.ttl_is_enabled.known() == Some(&false);
            is_off || (table.ttl_is_enabled.is_missing() && table.ttl_attribute.is_missing())
        })
        .map(|table| {
            let path =
                |name: &str| below(&table.site.properties, &["TimeToLiveSpecification", name]);
            let attribute = Change::Set(path("AttributeName"), EXPIRATION.into());
            let enabled = match table.ttl_is_enabled.place() {
                Some(place) => Change::Set(place.path.clone(), true.into()),
                None => Change::Set(path("Enabled"), true.into()),
            };
            let hcl = format!(
                "# {}\nttl {{\n  attribute_name = \"{EXPIRATION}\"\n  enabled        = true\n}}",
                table.site.id
            );
            // TTL may be off on purpose, but the attribute's name must still be right.
            let changes = match table.ttl_attribute.is_missing() {
                true => vec![attribute, enabled],
                false => vec![enabled],
            };
            let place = table.ttl_is_enabled.place().unwrap_or(&table.site.place);
            Problem {
                place: place.clone(),
                message: format!("The idempotency table {} deletes nothing.", table.site.id),
                remedy: Remedy::changes(changes, hcl),
            }
        })
        .collect()
}

pub(super) fn ttl_attribute(deployment: &Deployment) -> Vec<Problem> {
    tables(deployment)
        .filter_map(|table| {
            let attribute = table.ttl_attribute.known()?;
            (attribute != EXPIRATION && table.ttl_is_enabled.or(true)?).then(|| {
                Problem::set(
                    &table.ttl_attribute,
                    &table.site,
                    &["TimeToLiveSpecification", "AttributeName"],
                    EXPIRATION,
                    format!("ttl {{\n  attribute_name = \"{EXPIRATION}\"\n  enabled        = true\n}}"),
                    format!(
                        "The idempotency table {} deletes by `{attribute}`, and its items expire by `{EXPIRATION}`. On \
                         a table that exists, TTL has to be switched off before its attribute can be another one.",
                        table.site.id
                    ),
                )
            })
        })
        .collect()
}

/// Applies to any layout: without the table's items, the function processes old messages again.
pub(super) fn unprotected(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .key_tables()
        .map(|(table, _)| table)
        .filter(|table| table.is_protected.or(false) == Some(false))
        .map(|table| {
            Problem::set(
                &table.is_protected,
                &table.site,
                &["DeletionProtectionEnabled"],
                true,
                "deletion_protection_enabled = true",
                format!(
                    "The idempotency table {} can be deleted by one request.",
                    table.site.id
                ),
            )
        })
        .collect()
}
