//! The arguments that select an AWS account and a table.

use std::path::PathBuf;

use clap::Args;

/// Selects the account. Credentials come from the same sources as for the AWS CLI.
#[derive(Args)]
#[command(next_help_heading = "AWS")]
pub(crate) struct AccountArgs {
    /// The profile in your AWS settings [default: AWS_PROFILE, or else `default`]
    #[arg(long, value_name = "NAME")]
    pub(crate) profile: Option<String>,

    /// The AWS region [default: AWS_REGION, or else the profile's]
    #[arg(long, value_name = "REGION")]
    pub(crate) region: Option<String>,
}

/// Selects the table, its layout and its account.
#[derive(Args)]
#[command(next_help_heading = "Table")]
pub(crate) struct TableArgs {
    /// The DynamoDB table [default: SQS_ONCE_TABLE]
    #[arg(long, value_name = "NAME")]
    pub(crate) table: Option<String>,

    /// The table's partition key, if the consumer's `TableLayout` renames it
    #[arg(long, value_name = "NAME", hide_short_help = true)]
    pub(crate) partition_key: Option<String>,

    /// The table's sort key, if it has one; needs the partition value, too
    #[arg(
        long,
        value_name = "NAME",
        hide_short_help = true,
        requires = "partition_value"
    )]
    pub(crate) sort_key: Option<String>,

    /// The value of the partition key in a table with a sort key
    #[arg(
        long,
        value_name = "TEXT",
        hide_short_help = true,
        requires = "sort_key"
    )]
    pub(crate) partition_value: Option<String>,

    /// Another name of an attribute, such as owner=lock_owner; of status, in_progress_expiration, expiration,
    /// validation, data, owner, fence
    #[arg(long, value_name = "NAME=OTHER", hide_short_help = true, value_parser = attribute)]
    pub(crate) attribute: Vec<(&'static str, String)>,

    #[command(flatten)]
    pub(crate) account: AccountArgs,
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

    /// Write each change as a line of JSON
    #[arg(long)]
    pub(crate) json: bool,

    /// Append every change to this file before it is made, as a line of JSON: who, when, where and what
    #[arg(long, value_name = "FILE")]
    pub(crate) log: Option<PathBuf>,
}

/// The attributes that a table may rename.
const ATTRIBUTES: [&str; 7] = [
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
