//! Connects to the account and the table that arguments and environment select.

use super::{ConsumerArgs, TableArgs};
use anyhow::{Context, Result};
use sqs_once::DynamoDbStore;
use sqs_once::key::{KeySecret, Namespace};
use sqs_once::sdk::dynamodb::Client;
use sqs_once::store::TableLayout;
use sqs_once_operate::{Keys, SdkConfig, sdk_config};

/// The selected table and its AWS settings.
pub(crate) struct Place {
    pub(crate) table: String,
    pub(crate) config: SdkConfig,
}

/// Connects to the table's keys. Also returns which table that is.
pub(crate) async fn keys(args: &TableArgs) -> Result<(Keys, Place)> {
    let table = table(args).context("which table? Give --table, or set SQS_ONCE_TABLE")?;
    let config = sdk_config(None, None).await?;
    Ok((
        keys_in(&config, table.clone(), args)?,
        Place { table, config },
    ))
}

pub(crate) fn keys_in(config: &SdkConfig, table: String, args: &TableArgs) -> Result<Keys> {
    let store = DynamoDbStore::new(Client::new(config), table);
    Ok(Keys::new(store.layout(layout(args))?))
}

/// The table, if the arguments or the environment name one.
pub(crate) fn table(args: &TableArgs) -> Option<String> {
    args.table.clone().or_else(|| variable("SQS_ONCE_TABLE"))
}

/// The consumer's namespace, if the arguments or the environment name one.
pub(crate) fn namespace(args: &ConsumerArgs) -> Result<Option<Namespace>> {
    let name = args.namespace.clone();
    let name = name.or_else(|| variable("SQS_ONCE_NAMESPACE"));
    let Some(namespace) = name.map(Namespace::new).transpose()? else {
        return Ok(None);
    };
    let Some(path) = &args.key_secret_file else {
        return Ok(Some(namespace));
    };
    let unread = || {
        format!(
            "the file of --key-secret-file, {}, can't be read",
            path.display()
        )
    };
    let secret = std::fs::read(path).with_context(unread)?;
    Ok(Some(namespace.key_secret(KeySecret::from_stored(secret)?)))
}

fn layout(args: &TableArgs) -> TableLayout {
    let mut layout = TableLayout::default();
    if let Some(value) = &args.partition_value {
        layout = layout.partition_value(value);
    }
    for (attribute, name) in &args.attribute {
        layout = match *attribute {
            "id" => layout.partition_key(name),
            "sort_key" => layout.sort_key(name),
            "status" => layout.status(name),
            "in_progress_expiration" => layout.in_progress_expiration(name),
            "expiration" => layout.expiration(name),
            "validation" => layout.validation(name),
            "data" => layout.data(name),
            "owner" => layout.owner(name),
            "fence" => layout.fence(name),
            _ => layout,
        };
    }
    layout
}

/// An empty variable counts as unset, as it does for the AWS SDK.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
