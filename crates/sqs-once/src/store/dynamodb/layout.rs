//! The layout of a table: its key and the names of its attributes.

use crate::env::process_env;
use crate::error::ConfigError;

/// DynamoDB's limits for the names of tables and key attributes, and for the value of a partition key, in bytes.
const LONGEST_NAME: usize = 255;
const LONGEST_PARTITION_VALUE: usize = 2048;

/// The key of a table and the names of its attributes, for [`DynamoDbStore::layout`](super::DynamoDbStore::layout). Use
/// it to keep claims in an existing table. The defaults are the names of Powertools for AWS Lambda, with `owner` and
/// `fence` added.
///
/// | setting | default |
/// |---|---|
/// | [`partition_key`](Self::partition_key) | `id` |
/// | [`sort_key`](Self::sort_key) | none |
/// | [`partition_value`](Self::partition_value) | `idempotency#{function}`, with a sort key |
/// | [`status`](Self::status) | `status` |
/// | [`in_progress_expiration`](Self::in_progress_expiration) | `in_progress_expiration` |
/// | [`expiration`](Self::expiration) | `expiration` |
/// | [`validation`](Self::validation) | `validation` |
/// | [`data`](Self::data) | `data` |
/// | [`owner`](Self::owner) | `owner` |
/// | [`fence`](Self::fence) | `fence` |
///
/// A name has 1 to 255 ASCII letters, digits, `_`, `-` and `.`, and belongs to one attribute only. All consumers of a
/// key must use the same layout, as long as duplicates of the key matter. With another layout, the store does not find
/// the keys in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    pub(super) partition_key: String,
    sort_key: Option<String>,
    partition_value: Option<String>,
    pub(super) status: String,
    pub(super) lease: String,
    pub(super) expiration: String,
    pub(super) fingerprint: String,
    pub(super) data: String,
    pub(super) owner: String,
    pub(super) fence: String,
}

impl Default for TableLayout {
    fn default() -> Self {
        Self {
            partition_key: "id".to_owned(),
            sort_key: None,
            partition_value: None,
            status: "status".to_owned(),
            lease: "in_progress_expiration".to_owned(),
            expiration: "expiration".to_owned(),
            fingerprint: "validation".to_owned(),
            data: "data".to_owned(),
            owner: "owner".to_owned(),
            fence: "fence".to_owned(),
        }
    }
}

impl TableLayout {
    /// Sets the name of the partition key, an attribute of type S. Default: `id`. It holds the item id, or with a
    /// [`sort_key`](Self::sort_key) the [`partition_value`](Self::partition_value).
    #[must_use]
    pub fn partition_key(mut self, name: impl Into<String>) -> Self {
        self.partition_key = name.into();
        self
    }

    /// Sets the name of the sort key, an attribute of type S, which then holds the item id. Default: none.
    ///
    /// All items then share one partition key. DynamoDB gives a partition 1,000 write units a second, and more only
    /// after it splits the partition under load. A table without a sort key has no such limit.
    #[must_use]
    pub fn sort_key(mut self, name: impl Into<String>) -> Self {
        self.sort_key = Some(name.into());
        self
    }

    /// Sets the value of the partition key in a table with a sort key, 1 to 2048 bytes. Default:
    /// `idempotency#{function}` with the name of the Lambda function, from `AWS_LAMBDA_FUNCTION_NAME`. Set it, so that
    /// keys are still found after the function is renamed.
    #[must_use]
    pub fn partition_value(mut self, value: impl Into<String>) -> Self {
        self.partition_value = Some(value.into());
        self
    }

    /// Sets the attribute for the state of the key: `INPROGRESS` or `COMPLETED`. Default: `status`.
    #[must_use]
    pub fn status(mut self, name: impl Into<String>) -> Self {
        self.status = name.into();
        self
    }

    /// Sets the attribute for the time when the owner's lease lapses, in milliseconds since 1970. Default:
    /// `in_progress_expiration`.
    #[must_use]
    pub fn in_progress_expiration(mut self, name: impl Into<String>) -> Self {
        self.lease = name.into();
        self
    }

    /// Sets the attribute for the time until which duplicates are recognised, in seconds since 1970. Enable time to
    /// live on it. Default: `expiration`.
    #[must_use]
    pub fn expiration(mut self, name: impl Into<String>) -> Self {
        self.expiration = name.into();
        self
    }

    /// Sets the attribute for the payload's fingerprint. Default: `validation`.
    #[must_use]
    pub fn validation(mut self, name: impl Into<String>) -> Self {
        self.fingerprint = name.into();
        self
    }

    /// Sets the attribute for the completion's value. Default: `data`.
    #[must_use]
    pub fn data(mut self, name: impl Into<String>) -> Self {
        self.data = name.into();
        self
    }

    /// Sets the attribute for the owner of the claim. Default: `owner`.
    #[must_use]
    pub fn owner(mut self, name: impl Into<String>) -> Self {
        self.owner = name.into();
        self
    }

    /// Sets the attribute for the number that grows with every claim of the key. Default: `fence`.
    #[must_use]
    pub fn fence(mut self, name: impl Into<String>) -> Self {
        self.fence = name.into();
        self
    }

    pub(super) fn key(&self) -> Result<TableKey, ConfigError> {
        self.check_names()?;
        let partition = self.partition_key.clone();
        match (&self.sort_key, &self.partition_value) {
            (None, None) => Ok(TableKey::Simple { partition }),
            (None, Some(_)) => Err(ConfigError::conflicting(
                "the table layout",
                "has a `partition_value` but no `sort_key`",
                "both or neither: a table without a sort key has the item id in its partition key",
            )),
            (Some(sort), value) => Ok(TableKey::Composite {
                partition,
                value: partition_value(value.as_deref())?,
                sort: sort.clone(),
            }),
        }
    }

    fn check_names(&self) -> Result<(), ConfigError> {
        let mut names = vec![
            ("partition_key", &self.partition_key),
            ("status", &self.status),
            ("in_progress_expiration", &self.lease),
            ("expiration", &self.expiration),
            ("validation", &self.fingerprint),
            ("data", &self.data),
            ("owner", &self.owner),
            ("fence", &self.fence),
        ];
        names.extend(self.sort_key.as_ref().map(|name| ("sort_key", name)));
        for (at, &(setting, name)) in names.iter().enumerate() {
            if !is_name(name, 1) {
                return Err(ConfigError::invalid(
                    format!("the table layout's `{setting}`"),
                    format!("is {name:?}"),
                    format!("1 to {LONGEST_NAME} ASCII letters, digits, `_`, `-` and `.`"),
                ));
            }
            let earlier = names[..at].iter().find(|(_, earlier)| *earlier == name);
            if let Some(&(other, _)) = earlier {
                return Err(ConfigError::conflicting(
                    format!("the table layout's `{other}` and `{setting}`"),
                    format!("are both {name:?}"),
                    "different names",
                ));
            }
        }
        Ok(())
    }
}

#[derive(Clone, Debug)]
pub(super) enum TableKey {
    /// The partition key holds the item id.
    Simple { partition: String },
    /// The partition key has the same value in all items. The sort key holds the item id.
    Composite {
        partition: String,
        value: String,
        sort: String,
    },
}

/// Returns whether a name of a table or an attribute is valid. PartiQL statements quote names, so a name must not
/// contain a character that ends the quotation.
pub(super) fn is_name(name: &str, shortest: usize) -> bool {
    let is_allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    (shortest..=LONGEST_NAME).contains(&name.len()) && name.bytes().all(is_allowed)
}

fn partition_value(set: Option<&str>) -> Result<String, ConfigError> {
    let value = match set {
        Some(value) => value.to_owned(),
        None => process_env("AWS_LAMBDA_FUNCTION_NAME")
            .map(|function| format!("idempotency#{function}"))
            .ok_or_else(|| {
                ConfigError::missing(
                    "the table layout",
                    "has a `sort_key` but no `partition_value`, and AWS_LAMBDA_FUNCTION_NAME, from which the default is \
                     made, is not set",
                    "one of them",
                )
            })?,
    };
    match value.len() {
        1..=LONGEST_PARTITION_VALUE => Ok(value),
        len => Err(ConfigError::invalid(
            "the table layout's `partition_value`",
            format!("has {len} bytes"),
            format!("1 to {LONGEST_PARTITION_VALUE}"),
        )),
    }
}
