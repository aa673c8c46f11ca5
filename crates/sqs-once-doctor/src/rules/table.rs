//! The table that stores the keys.

use super::{Problem, Setting};
use crate::field::below;
use crate::model::Table;
use crate::remedy::Remedy;
use crate::template::Change;

/// The library's default attribute names.
const KEY: &str = "id";
const EXPIRATION: &str = "expiration";
const ATTRIBUTE: Setting = Setting(&["TimeToLiveSpecification", "AttributeName"], TTL);
const TTL: &str = "ttl {\n  attribute_name = \"expiration\"\n  enabled        = true\n}";

/// Whether a table has the library's default layout. A table with another partition key has other attributes too.
fn is_usual(table: &Table) -> bool {
    table.partition_key.known().is_some_and(|key| key == KEY) && table.sort_key.is_missing()
}

pub(super) fn ttl_missing(table: &Table) -> Option<Problem> {
    let has_attribute = !table.ttl_attribute.is_missing();
    let is_on = has_attribute && table.ttl_is_enabled.or(true)?;
    if !is_usual(table) || table.is_strongly_consistent.or(false)? || is_on {
        return None;
    }
    let attribute = below(&table.site.properties, ATTRIBUTE.0);
    let attribute = Change::Set(attribute, EXPIRATION.into());
    let enabled = ["TimeToLiveSpecification", "Enabled"];
    let enabled = table.site.path_of(&table.ttl_is_enabled, &enabled);
    let enabled = Change::Set(enabled, true.into());
    let id = &table.site.id;
    // TTL may be off on purpose, but the attribute's name must still be right.
    let changes = match has_attribute {
        true => vec![enabled],
        false => vec![attribute, enabled],
    };
    let place = table.site.place_of(&table.ttl_is_enabled);
    let message = format!("The idempotency table {id} deletes nothing.");
    let remedy = Remedy::changes(changes, format!("# {id}\n{TTL}"));
    Some(Problem::at(place, message, remedy))
}

pub(super) fn ttl_attribute(table: &Table) -> Option<Problem> {
    let attribute = table.ttl_attribute.known()?;
    let is_wrong = attribute != EXPIRATION && table.ttl_is_enabled.or(true)?;
    let message = format!(
        "The idempotency table {} deletes by `{attribute}`, and its items expire by `{EXPIRATION}`. On a table that \
         exists, TTL has to be switched off before its attribute can be another one.",
        table.site.id
    );
    let (field, site) = (&table.ttl_attribute, &table.site);
    let problem = Problem::set(field, site, ATTRIBUTE, EXPIRATION, message);
    (is_usual(table) && is_wrong).then_some(problem)
}

/// Finds a global table with multi-Region strong consistency and TTL, or else without TTL.
pub(super) fn strongly_consistent(table: &Table, has_ttl: bool) -> Option<Problem> {
    let is_strong = *table.is_strongly_consistent.known()?;
    let attribute = table.ttl_attribute.place();
    let is_on = attribute.is_some() && table.ttl_is_enabled.or(true)?;
    if !is_strong || is_on != has_ttl {
        return None;
    }
    let id = &table.site.id;
    let (place, message) = match attribute.filter(|_| is_on) {
        Some(place) => (
            place,
            format!(
                "The global table {id} has multi-Region strong consistency, and no TTL beside it."
            ),
        ),
        None => (
            table.is_strongly_consistent.place()?,
            format!(
                "The global table {id} has multi-Region strong consistency: expired keys stay, and DynamoDB refuses transactions."
            ),
        ),
    };
    let remedy = Remedy::Advice(
        "Leave out MultiRegionConsistency, and send each queue's messages to the consumer of one Region.\n\
         Or keep it without TTL: delete expired items yourself, and use no handler that returns writes.",
    );
    Some(Problem::at(place, message, remedy))
}

/// Applies to any layout: without the table's items, the function processes old messages again.
pub(super) fn unprotected(table: &Table) -> Option<Problem> {
    let (field, site) = (&table.is_protected, &table.site);
    let message = format!(
        "The idempotency table {} can be deleted by one request.",
        site.id
    );
    let argument = "deletion_protection_enabled = {}";
    let setting = Setting(&["DeletionProtectionEnabled"], argument);
    (!field.or(false)?).then(|| Problem::set(field, site, setting, true, message))
}
