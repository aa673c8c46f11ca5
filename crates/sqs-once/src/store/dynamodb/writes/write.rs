//! One write, as checks and messages see it.

use std::fmt;

use aws_sdk_dynamodb::types::TransactWriteItem;

use crate::store::dynamodb::table::Attributes;

/// Which of a handler's [`Writes`](super::Writes) it is. It shows nothing of what is in the write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WriteName {
    index: usize,
    operation: WriteOperation,
    table: String,
}

impl WriteName {
    #[cfg(feature = "serde_dynamo")]
    pub(super) fn put(index: usize, table: String) -> Self {
        Self {
            index,
            operation: WriteOperation::Put,
            table,
        }
    }

    /// Its place among the writes, counted from 0.
    pub fn index(&self) -> usize {
        self.index
    }

    /// `put`, `update`, `delete` or `check`.
    pub fn operation(&self) -> &'static str {
        self.operation.names().0
    }

    /// The table, as the handler named it.
    pub fn table(&self) -> &str {
        &self.table
    }
}

/// ``write 1 (update of table `stock`)``
impl fmt::Display for WriteName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            index,
            operation,
            table,
        } = self;
        let (operation, preposition, _) = operation.names();
        let table = table.escape_debug();
        write!(
            f,
            "write {index} ({operation} {preposition} table `{table}`)"
        )
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

/// A look at one write.
pub(crate) struct Write<'a> {
    pub(crate) index: usize,
    pub(crate) operation: WriteOperation,
    pub(crate) table: &'a str,
    /// The whole item of a put, the key of any other.
    pub(crate) attributes: &'a Attributes,
    /// The values of its expressions.
    pub(crate) values: Option<&'a Attributes>,
}

impl<'a> Write<'a> {
    pub(super) fn of(index: usize, item: &'a TransactWriteItem) -> Option<Self> {
        let view = |operation, table, attributes, values| Self {
            index,
            operation,
            table,
            attributes,
            values,
        };
        if let Some(put) = item.put() {
            let values = put.expression_attribute_values();
            Some(view(
                WriteOperation::Put,
                put.table_name(),
                put.item(),
                values,
            ))
        } else if let Some(update) = item.update() {
            let values = update.expression_attribute_values();
            Some(view(
                WriteOperation::Update,
                update.table_name(),
                update.key(),
                values,
            ))
        } else if let Some(delete) = item.delete() {
            let values = delete.expression_attribute_values();
            Some(view(
                WriteOperation::Delete,
                delete.table_name(),
                delete.key(),
                values,
            ))
        } else {
            let check = item.condition_check()?;
            let values = check.expression_attribute_values();
            Some(view(
                WriteOperation::Check,
                check.table_name(),
                check.key(),
                values,
            ))
        }
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

    /// What the function's role must be allowed to do on the table.
    pub(crate) fn action(&self) -> &'static str {
        self.operation.names().2
    }

    /// Whether it is of the item that has this key.
    pub(crate) fn is_of(&self, table: &str, key: &Attributes) -> bool {
        let has = |(name, value)| self.attributes.get(name) == Some(value);
        self.table == table && key.iter().all(has)
    }
}
