//! `cargo sqs-once invoke`: sends one event to the real binary.

use crate::cli::InvokeArgs;
use crate::error::Error;
use crate::launch;
use crate::print;
use crate::workspace::Workspace;
use sqs_once_local::{BatchResponse, Event, InvokeError, Report, TableDescription};

pub(crate) async fn invoke(args: InvokeArgs) -> Result<(), Error> {
    let text = launch::read_event(&args.event)?;
    let workspace = Workspace::find()?;
    let template = launch::read_template(&workspace, args.template.as_deref())?;
    let in_template = template
        .as_ref()
        .and_then(|template| template.function(None)?.binary.known())
        .map(String::as_str);
    let binary = workspace.function(args.function.as_deref(), in_template)?;
    // Read the event and the template before the build, so that an error in them shows at once.
    let event = Event::parse(&text, &binary.name)?;
    let resource = template
        .as_ref()
        .and_then(|template| Some((template, template.function(Some(&binary.name))?)));
    let table = match &template {
        Some(template) => template.table(resource.map(|(_, function)| function))?,
        None => TableDescription::default(),
    };

    let executable = workspace.build(&binary, args.release, args.json)?;

    let dynamodb = launch::dynamodb(&workspace, template.as_ref(), &table, args.reset).await?;
    let mut launch = launch::launch(executable, resource, &table, &dynamodb);
    if !args.json {
        launch = launch.on_line(print::log_line);
    }
    let function = launch.start().await?;

    let timeout = args
        .timeout
        .or(resource.and_then(|(_, function)| function.timeout.known().copied()))
        .unwrap_or(launch::DEFAULT_TIMEOUT);
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
            print::answer(&answer)
        }
        Err(error) => {
            print::answer(&answer)?;
            Err(error.into())
        }
    }
}
