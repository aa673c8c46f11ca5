//! Prepares a run of the function for `invoke` and `dev`: its event, template, table and environment variables.

use crate::error::Error;
use crate::workspace::Workspace;
use sqs_once_doctor::Function;
use sqs_once_local::{Launch, LocalDynamoDb, TableDescription, Template};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The default timeout of the function.
pub(crate) const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_MEMORY_MB: u32 = 128;

/// Opens the local DynamoDB with every table of the template.
pub(crate) async fn dynamodb(
    workspace: &Workspace,
    template: Option<&Template>,
    table: &TableDescription,
    reset: bool,
) -> Result<LocalDynamoDb, Error> {
    let database = workspace.database();
    if reset {
        LocalDynamoDb::remove(&database)?;
    }
    let dynamodb = LocalDynamoDb::open(&database).await?;
    dynamodb.create_table(table)?;
    // The function may write to the template's other tables as well.
    for other in template.map_or(&[][..], Template::tables) {
        dynamodb.create_table(other)?;
    }
    Ok(dynamodb)
}

/// A function of a template.
pub(crate) type Resource<'a> = (&'a Template, &'a Function);

/// Launches the function with the template's settings.
pub(crate) fn launch(
    executable: PathBuf,
    resource: Option<Resource<'_>>,
    table: &TableDescription,
    dynamodb: &LocalDynamoDb,
) -> Launch {
    let memory_mb = resource.and_then(|(_, function)| function.memory_mb.known().copied());
    let mut launch = Launch::new(executable)
        .memory_mb(memory_mb.unwrap_or(DEFAULT_MEMORY_MB))
        .dynamodb(dynamodb);
    let environment = resource.map(|(template, function)| template.environment(function));
    for (name, value) in environment.unwrap_or_default() {
        // A variable in the user's shell overrides the template's.
        if std::env::var_os(&name).is_none() {
            launch = launch.env(name, value);
        }
    }
    // Use the local table, even if the template or the shell names the real one.
    launch.env("SQS_ONCE_TABLE", &table.name)
}

pub(crate) fn read_event(path: &Path) -> Result<String, Error> {
    let read = if path.as_os_str() == "-" {
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).map(|_| text)
    } else {
        std::fs::read_to_string(path)
    };
    read.map_err(|source| Error::ReadEvent {
        path: path.to_owned(),
        source,
    })
}

pub(crate) fn read_template(
    workspace: &Workspace,
    given: Option<&Path>,
) -> Result<Option<Template>, Error> {
    let path = workspace.template(given);
    Ok(path.map(|path| Template::read(&path)).transpose()?)
}
