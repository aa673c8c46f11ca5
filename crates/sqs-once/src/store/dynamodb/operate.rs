//! Operations for tools, which no consumer calls: listing a table's items, and replacing an item.

use std::collections::HashMap;

use aws_sdk_dynamodb::types::{AttributeValue, ReturnValuesOnConditionCheckFailure};

use crate::key::ItemId;
use crate::store::{Item, Settled, Status, StoreError};

use super::layout::TableKey;
use super::table::{Attributes, COMPLETED, IN_PROGRESS, expiration, number, text};
use super::{DynamoDbStore, discreet, errors};

/// The selection of items to list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The prefix of their ids; empty for all.
    pub prefix: String,
    /// The state of their keys; `None` for all.
    pub status: Option<Status>,
}

/// An item of a page. Its id is present even if the rest of the item is not readable.
pub type Listed = (ItemId, Result<Item, StoreError>);

/// Some of the items of a table.
#[derive(Debug)]
pub struct Page {
    /// The items, in no particular order.
    pub items: Vec<Listed>,
    /// Where the next page starts; `None` after the last.
    pub next: Option<PageStart>,
}

/// Where a page starts.
#[derive(Clone, Debug)]
pub struct PageStart(Attributes);

/// Reads one page of a listing. `from` is [`Page::next`] of the previous page.
///
/// Listing scans the whole table (`dynamodb:Scan`). With a sort key, it queries the ids with this prefix
/// (`dynamodb:Query`). It costs a read unit for every 8 KB read, whatever it finds. It omits items without a
/// status, because this library did not write them. Writes of the last second may be missing.
///
/// # Errors
/// [`StoreError`] if DynamoDB gives no answer. An item that is not readable has its own error in the page.
pub async fn page(
    store: &DynamoDbStore,
    listing: &Listing,
    from: Option<PageStart>,
) -> Result<Page, StoreError> {
    let table = &store.requests.table;
    let mut names = HashMap::from([("#status".to_owned(), table.names.status.clone())]);
    let mut values = Attributes::new();
    let mut filter = "attribute_exists(#status)";
    if let Some(status) = &listing.status {
        filter = "#status = :status";
        values.insert(":status".to_owned(), text(status_text(status)));
    }
    let mut prefix = "";
    if !listing.prefix.is_empty() {
        prefix = " AND begins_with(#id, :prefix)";
        names.insert("#id".to_owned(), table.id_name().to_owned());
        values.insert(":prefix".to_owned(), text(&listing.prefix));
    }
    let start = from.map(|PageStart(key)| key);
    let client = &store.requests.client;
    let (items, next) = match &table.key {
        TableKey::Simple { .. } => {
            let request = client
                .scan()
                .table_name(&table.name)
                .filter_expression([filter, prefix].concat())
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values((!values.is_empty()).then_some(values))
                .set_exclusive_start_key(start);
            let answer = request.send().await.map_err(errors::request)?;
            (answer.items, answer.last_evaluated_key)
        }
        TableKey::Composite {
            partition, value, ..
        } => {
            names.insert("#partition".to_owned(), partition.clone());
            values.insert(":partition".to_owned(), text(value));
            let request = client
                .query()
                .table_name(&table.name)
                .key_condition_expression(["#partition = :partition", prefix].concat())
                .filter_expression(filter)
                .set_expression_attribute_names(Some(names))
                .set_expression_attribute_values(Some(values))
                .set_exclusive_start_key(start);
            let answer = request.send().await.map_err(errors::request)?;
            (answer.items, answer.last_evaluated_key)
        }
    };
    let items = items.unwrap_or_default();
    let items = items.iter().filter_map(|attributes| {
        let id = table.stored_id(attributes)?;
        Some((id, table.item(attributes)))
    });
    Ok(Page {
        items: items.collect(),
        next: next.filter(|key| !key.is_empty()).map(PageStart),
    })
}

/// Replaces the item `seen` by `new`, or creates `new` if no item was seen. The write is refused if the item has
/// changed since. The write is one `UpdateItem`, and keeps the attributes of other programs.
///
/// `new` needs an owner that no other write has. The owner identifies a write that was sent twice.
///
/// # Errors
/// [`StoreError`] if DynamoDB does not confirm the write.
pub async fn replace(
    store: &DynamoDbStore,
    seen: Option<&Item>,
    new: &Item,
) -> Result<Settled, StoreError> {
    let answer = replace_once(store, seen, new).await;
    let mut answers = discreet(vec![answer], || [new.id.as_str()].into_iter());
    answers.remove(0)
}

async fn replace_once(
    store: &DynamoDbStore,
    seen: Option<&Item>,
    new: &Item,
) -> Result<Settled, StoreError> {
    let table = &store.requests.table;
    let write = Replacement::new(&table.names, table.id_name(), seen, new);
    let request = store
        .requests
        .client
        .update_item()
        .table_name(&table.name)
        .set_key(Some(table.key_of(&new.id)))
        .update_expression(write.update())
        .condition_expression(write.conditions.join(" AND "))
        .set_expression_attribute_names(Some(write.names))
        .set_expression_attribute_values(Some(write.values))
        .return_values_on_condition_check_failure(ReturnValuesOnConditionCheckFailure::AllOld);
    let Err(error) = request.send().await else {
        return Ok(Settled::Written);
    };
    let found = match store.requests.refusing_item(error)? {
        Some(item) => Some(item),
        // DynamoDB may omit the item from the answer.
        None => store.requests.read_one(&new.id).await?,
    };
    let is_ours = |item: &Item| item.owner.is_some() && item.owner == new.owner;
    Ok(match found {
        Some(item) if is_ours(&item) => Settled::Written,
        found => Settled::Refused(found.map(Box::new)),
    })
}

const EXPIRATION: &str = "expiration";

/// Reads an attribute's value from an item.
type ValueOf = fn(&Item) -> Option<AttributeValue>;

#[derive(Default)]
struct Replacement {
    set: Vec<String>,
    remove: Vec<String>,
    conditions: Vec<String>,
    names: HashMap<String, String>,
    values: Attributes,
}

impl Replacement {
    fn new(names: &super::TableLayout, id_name: &str, seen: Option<&Item>, new: &Item) -> Self {
        let mut write = Self::default();
        if seen.is_none() {
            write.names.insert("#id".to_owned(), id_name.to_owned());
            let absent = "attribute_not_exists(#id)".to_owned();
            write.conditions.push(absent);
        }
        let status = |item: &Item| Some(text(status_text(&item.status)));
        let lease = |item: &Item| item.lease_until.map(|at| number(at.as_millis()));
        let expires = |item: &Item| item.expiration.map(expiration);
        let owner = |item: &Item| item.owner.map(|owner| text(owner.to_string()));
        let fence = |item: &Item| item.fence.map(|fence| number(fence.get()));
        let validation = |item: &Item| item.fingerprint.as_ref().map(|print| text(print.as_str()));
        let data = |item: &Item| item.data.as_deref().map(text);
        // Every completion or claim changes at least one of these, so the others need no comparison.
        let compared: [(&str, &str, ValueOf); 5] = [
            ("status", &names.status, status),
            ("lease", &names.lease, lease),
            (EXPIRATION, &names.expiration, expires),
            ("owner", &names.owner, owner),
            ("fence", &names.fence, fence),
        ];
        let others: [(&str, &str, ValueOf); 2] = [
            ("validation", &names.fingerprint, validation),
            ("data", &names.data, data),
        ];
        for (attributes, is_compared) in [(&compared[..], seen.is_some()), (&others, false)] {
            for (placeholder, name, value) in attributes {
                let (before, after) = (seen.and_then(value), value(new));
                write.attribute(placeholder, name, before, after, is_compared);
            }
        }
        write
    }

    /// Adds an attribute: its new value, and the condition on its old one.
    fn attribute(
        &mut self,
        placeholder: &str,
        name: &str,
        before: Option<AttributeValue>,
        after: Option<AttributeValue>,
        compared: bool,
    ) {
        let changed = before != after;
        if !changed && !compared {
            return;
        }
        self.names
            .insert(format!("#{placeholder}"), name.to_owned());
        if compared {
            self.conditions.push(match &before {
                // The number in the table may have a fraction, and was rounded up when it was read.
                Some(before) if placeholder == EXPIRATION => {
                    let below = AttributeValue::N(one_less(before));
                    self.values.insert(format!(":below_{placeholder}"), below);
                    format!(
                        "#{placeholder} > :below_{placeholder} AND #{placeholder} <= :seen_{placeholder}"
                    )
                }
                Some(_) => format!("#{placeholder} = :seen_{placeholder}"),
                // Powertools may write NULL instead of omitting a value.
                None => {
                    self.values.insert(":null".to_owned(), text("NULL"));
                    format!(
                        "(attribute_not_exists(#{placeholder}) OR attribute_type(#{placeholder}, :null))"
                    )
                }
            });
        }
        if let Some(before) = before.filter(|_| compared) {
            self.values.insert(format!(":seen_{placeholder}"), before);
        }
        match after {
            _ if !changed => {}
            Some(after) => {
                let set = format!("#{placeholder} = :new_{placeholder}");
                self.set.push(set);
                self.values.insert(format!(":new_{placeholder}"), after);
            }
            None => self.remove.push(format!("#{placeholder}")),
        }
    }

    fn update(&self) -> String {
        let mut update = String::new();
        if !self.set.is_empty() {
            update.push_str(&format!("SET {}", self.set.join(", ")));
        }
        if !self.remove.is_empty() {
            update.push_str(&format!(" REMOVE {}", self.remove.join(", ")));
        }
        update
    }
}

fn one_less(number: &AttributeValue) -> String {
    let number = number.as_n().map_or("", String::as_str);
    let number: i128 = number.parse().unwrap_or_default();
    (number - 1).to_string()
}

fn status_text(status: &Status) -> &str {
    match status {
        Status::InProgress => IN_PROGRESS,
        Status::Completed => COMPLETED,
        Status::Unknown(status) => status,
    }
}
