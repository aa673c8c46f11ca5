//! The arguments that select a table and its keys.

use crate::cli::Format;
use std::path::PathBuf;

use clap::Args;

/// Selects the table and its layout.
#[derive(Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct TableArgs {
    /// The DynamoDB table, in the account of AWS_PROFILE and AWS_REGION [default: SQS_ONCE_TABLE]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// The name of an attribute in this table, such as owner=lock_owner, if the consumer's `TableLayout` renames it; of id
    /// (the partition key), sort_key, status, in_progress_expiration, expiration, validation, data, owner, fence
    #[arg(long, value_name = "NAME=OTHER", hide_short_help = true, value_parser = attribute)]
    pub(crate) attribute: Vec<(&'static str, String)>,

    /// The value of the partition key in a table with a sort key
    #[arg(long, value_name = "TEXT", hide_short_help = true)]
    pub(crate) partition_value: Option<String>,
}

/// Selects the consumer that has made the keys.
#[derive(Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct ConsumerArgs {
    /// The consumer's namespace, which precedes the `#` in the table [default: SQS_ONCE_NAMESPACE]
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<String>,

    /// A file with the secret that hashes the consumer's keys, if it uses one; trailing line breaks of text are ignored
    #[arg(long, value_name = "PATH", hide_short_help = true)]
    pub(crate) key_secret_file: Option<PathBuf>,
}

/// Arguments of every change.
#[derive(Args)]
pub(crate) struct WriteArgs {
    /// Don't ask
    #[arg(long, short)]
    pub(crate) yes: bool,

    /// The form of the result; `json` has a line for each change
    #[arg(long, value_enum, default_value_t)]
    pub(crate) format: Format,

    /// Append every change to this file before it is made, as a line of JSON: who, when, where and what
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// The attributes that a table may rename, and its sort key.
const ATTRIBUTES: [&str; 9] = [
    "id",
    "sort_key",
    "status",
    "in_progress_expiration",
    "expiration",
    "validation",
    "data",
    "owner",
    "fence",
];

fn attribute(text: &str) -> Result<(&'static str, String), String> {
    let (name, other) = text
        .split_once('=')
        .ok_or("expected NAME=OTHER, such as owner=lock_owner")?;
    let attribute = ATTRIBUTES.into_iter().find(|known| *known == name);
    let attribute = attribute.ok_or_else(|| format!("there is no attribute `{name}`"))?;
    Ok((attribute, other.to_owned()))
}
