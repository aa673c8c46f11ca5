//! One write: a view of it, for checks and messages, and the conflict that it can have.

use std::collections::HashMap;
use std::fmt;

use aws_sdk_dynamodb::types::{AttributeValue, TransactWriteItem};

use crate::store::dynamodb::table::Attributes;

/// The index, operation and table of one of a handler's [`Writes`](super::Writes). It contains nothing of the written
/// values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WriteName {
    index: usize,
    operation: WriteOperation,
    table: String,
}

impl WriteName {
    pub(super) fn put(index: usize, table: String) -> Self {
        Self {
            index,
            operation: WriteOperation::Put,
            table,
        }
    }
}

/// ``write 1 (update of table `stock`)``
impl fmt::Display for WriteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (operation, preposition, _) = self.operation.names();
        let (index, table) = (self.index, self.table.escape_debug());
        write!(
            f,
            "write {index} ({operation} {preposition} table `{table}`)"
        )
    }
}

/// A handler's write whose condition was not met, for [`Writes::on_conflict`](super::Writes::on_conflict).
#[derive(Clone, PartialEq)]
pub struct Conflict {
    write: WriteName,
    item: Option<HashMap<String, AttributeValue>>,
}

impl Conflict {
    pub(crate) fn new(write: WriteName, item: Option<HashMap<String, AttributeValue>>) -> Self {
        Self { write, item }
    }

    /// Returns the index of the write, counted from 0.
    pub fn index(&self) -> usize {
        self.write.index
    }

    /// Returns `put`, `update`, `delete` or `check`.
    pub fn operation(&self) -> &'static str {
        self.write.operation.names().0
    }

    /// Returns the table as the handler named it.
    pub fn table(&self) -> &str {
        &self.write.table
    }

    /// Returns the item that did not meet the condition. `None` if there was no item, or if the write did not request
    /// it with `return_values_on_condition_check_failure(AllOld)`.
    pub fn item(&self) -> Option<&HashMap<String, AttributeValue>> {
        self.item.as_ref()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: its condition was not met", self.write)
    }
}

/// Omits the contents of the item.
impl fmt::Debug for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conflict")
            .field("write", &self.write)
            .field("has_item", &self.item.is_some())
            .finish()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WriteOperation {
    Put,
    Update,
    Delete,
    Check,
}

impl WriteOperation {
    fn names(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Put => ("put", "into", "dynamodb:PutItem"),
            Self::Update => ("update", "of", "dynamodb:UpdateItem"),
            Self::Delete => ("delete", "from", "dynamodb:DeleteItem"),
            Self::Check => ("check", "of", "dynamodb:ConditionCheckItem"),
        }
    }
}

pub(crate) struct Write<'a> {
    pub(crate) index: usize,
    pub(crate) operation: WriteOperation,
    pub(crate) table: &'a str,
    /// The whole item of a put, or the key of any other write.
    pub(crate) attributes: &'a Attributes,
    pub(crate) values: Option<&'a Attributes>,
}

impl<'a> Write<'a> {
    pub(super) fn of(index: usize, item: &'a TransactWriteItem) -> Option<Self> {
        let view = |operation, table, attributes| Self {
            index,
            operation,
            table,
            attributes,
            values: None,
        };
        let (write, values) = if let Some(put) = item.put() {
            let write = view(WriteOperation::Put, put.table_name(), put.item());
            (write, put.expression_attribute_values())
        } else if let Some(update) = item.update() {
            let write = view(WriteOperation::Update, update.table_name(), update.key());
            (write, update.expression_attribute_values())
        } else if let Some(delete) = item.delete() {
            let write = view(WriteOperation::Delete, delete.table_name(), delete.key());
            (write, delete.expression_attribute_values())
        } else {
            let check = item.condition_check()?;
            let write = view(WriteOperation::Check, check.table_name(), check.key());
            (write, check.expression_attribute_values())
        };
        Some(Self { values, ..write })
    }

    pub(crate) fn name(&self) -> WriteName {
        WriteName {
            index: self.index,
            operation: self.operation,
            table: self.table.to_owned(),
        }
    }

    pub(crate) fn is_put(&self) -> bool {
        self.operation == WriteOperation::Put
    }

    /// Returns all values that an error message of DynamoDB may quote.
    pub(super) fn texts(&self) -> Vec<&'a str> {
        let mut texts = Vec::new();
        let values = self.attributes.values();
        let values = values.chain(self.values.into_iter().flat_map(|values| values.values()));
        values.for_each(|value| add_texts(value, &mut texts));
        texts
    }

    /// Returns the action that the function's role needs on the table.
    pub(crate) fn action(&self) -> &'static str {
        self.operation.names().2
    }

    /// Returns whether the write changes the item with this key in this table.
    pub(crate) fn is_of(&self, table: &str, key: &Attributes) -> bool {
        let has = |(name, value)| self.attributes.get(name) == Some(value);
        self.table == table && key.iter().all(has)
    }
}

fn add_texts<'a>(of: &'a AttributeValue, texts: &mut Vec<&'a str>) {
    match of {
        AttributeValue::S(text) | AttributeValue::N(text) => texts.push(text),
        AttributeValue::Ss(all) | AttributeValue::Ns(all) => {
            texts.extend(all.iter().map(String::as_str));
        }
        AttributeValue::L(all) => all.iter().for_each(|one| add_texts(one, texts)),
        AttributeValue::M(all) => all.values().for_each(|one| add_texts(one, texts)),
        // DynamoDB does not quote bytes, and the other types reveal nothing.
        _ => {}
    }
}
