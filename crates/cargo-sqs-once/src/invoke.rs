//! `cargo sqs-once invoke`: one event through the real binary.

use crate::cli::InvokeArgs;
use crate::error::Error;
use crate::print;
use crate::workspace::Workspace;
use sqs_once_local::{
    BatchResponse, Event, InvokeError, Launch, LocalDynamoDb, Report, TableDescription, Template,
};
use std::io::Read;
use std::path::Path;
use std::time::Duration;

const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_MEMORY_MB: u32 = 128;

pub(crate) async fn invoke(args: InvokeArgs) -> Result<(), Error> {
    let text = read_event(&args.event)?;
    let workspace = Workspace::find()?;
    let template = read_template(&workspace, args.template.as_deref())?;
    let in_template = template
        .as_ref()
        .and_then(|template| template.function(None)?.binary.as_deref());
    let binary = workspace.function(args.function.as_deref(), in_template)?;
    // Before the build, so that a mistake in either is not found out minutes later.
    let event = Event::parse(&text, &binary.name)?;
    let resource = template
        .as_ref()
        .and_then(|template| template.function(Some(&binary.name)));
    let table = match &template {
        Some(template) => template.table(resource)?,
        None => TableDescription::default(),
    };

    let executable = workspace.build(&binary, args.release, args.json)?;

    let database = workspace.database();
    if args.reset {
        LocalDynamoDb::remove(&database)?;
    }
    let dynamodb = LocalDynamoDb::open(&database).await?;
    dynamodb.create_table(&table)?;
    // What the function writes besides.
    for other in template.iter().flat_map(Template::tables) {
        dynamodb.create_table(other)?;
    }

    let mut launch = Launch::new(executable)
        .memory_mb(
            resource
                .and_then(|resource| resource.memory_mb)
                .unwrap_or(DEFAULT_MEMORY_MB),
        )
        .dynamodb(&dynamodb);
    if !args.json {
        launch = launch.on_line(print::log_line);
    }
    for (name, value) in resource.map_or(&[][..], |resource| &resource.environment) {
        // What the user's shell says is meant for this run.
        if std::env::var_os(name).is_none() {
            launch = launch.env(name, value);
        }
    }
    // The local table, whatever the template or the shell call the real one.
    let function = launch.env("SQS_ONCE_TABLE", &table.name).start().await?;

    let timeout = args
        .timeout
        .or(resource.and_then(|resource| resource.timeout))
        .unwrap_or(DEFAULT_TIMEOUT);
    let answer = function.invoke(event.payload(), timeout).await;
    let lines = function.stop().await;
    if let (Err(InvokeError::Exited { last_lines, .. }), true) = (&answer, args.json) {
        last_lines.iter().for_each(|line| print::log_line(line));
    }
    let answer = answer?;

    match BatchResponse::parse(&answer, event.message_ids()) {
        Ok(response) => {
            let report = Report::new(event.message_ids(), lines, &response);
            if args.json {
                print::json(&report, &response);
            } else {
                print::table(&report, &response);
            }
            print::result(&answer)
        }
        Err(error) => {
            print::result(&answer)?;
            Err(error.into())
        }
    }
}

fn read_event(path: &Path) -> Result<String, Error> {
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

fn read_template(workspace: &Workspace, given: Option<&Path>) -> Result<Option<Template>, Error> {
    let usual = workspace.root().join("template.yaml");
    let path = match given {
        Some(path) => path,
        None if usual.exists() => &usual,
        None => return Ok(None),
    };
    Ok(Some(Template::read(path)?))
}
