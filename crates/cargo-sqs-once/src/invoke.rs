//! `cargo sqs-once invoke`: sends one event to the real binary.

use crate::cli::InvokeArgs;
use crate::error::NotStarted;
use crate::launch::{self, Subject};
use crate::print;
use anyhow::{Context, Error, Result};
use sqs_once_local::{
    BatchResponse, Event, InvokeError, LocalSqs, QueueSettings, Queues, Report, Template,
};

pub(crate) async fn invoke(args: InvokeArgs) -> Result<()> {
    let text = launch::read_event(&args.event)?;
    let subject = Subject::find(&args.function)?;
    // Read the event before the build, so that an error in it shows at once.
    let event = match args.raw {
        true => None,
        false => Some(Event::parse(&text, &queue(&subject))?),
    };
    let executable = subject.build(args.format.is_json())?;

    let storage = subject.storage(args.function.reset, [0, 0]).await?;
    let sqs = LocalSqs::start(queues(&subject, event.as_ref())?).await;
    let sqs = sqs.context("the local queues can't listen on 127.0.0.1")?;
    let mut launch = subject.launch(executable, &storage, &sqs);
    let differences = subject.differences(&sqs);
    if !args.format.is_json() {
        launch = launch.on_line(print::log_line);
        launch::print_differences(&differences);
    }
    let function = launch.start().await?;

    let described = subject
        .function()
        .and_then(|it| it.timeout.known().copied());
    let timeout = args
        .timeout
        .or(described)
        .unwrap_or(launch::DEFAULT_TIMEOUT);
    let payload = match &event {
        Some(event) => event.payload(),
        None => text.into(),
    };
    let answer = match function.ready().await {
        Ok(()) => function.invoke(payload, timeout).await.map_err(Error::from),
        Err(error) => Err(Error::from(error).context(NotStarted { differences })),
    };
    let lines = function.stop().await;
    let ended = answer.as_ref().err().and_then(Error::downcast_ref);
    if let (Some(InvokeError::Exited { last_lines, .. }), true) = (ended, args.format.is_json()) {
        last_lines.iter().for_each(|line| print::log_line(line));
    }
    let answer = answer?;
    let printed = print::escaped(&String::from_utf8_lossy(&answer));
    let Some(event) = event else {
        return print::result(printed);
    };

    let response = BatchResponse::parse(&answer, event.message_ids());
    if let Ok(response) = &response {
        let report = Report::new(event.message_ids(), lines, response);
        match args.format.is_json() {
            true => print::json_table(&report, response),
            false => {
                print::table(&report, response);
                print_sent(&sqs)?;
                storage.print_executions();
            }
        }
    }
    // The answer should be JSON.
    print::result(printed)?;
    let refused = "Lambda would not accept the function's answer, and would retry the whole batch";
    response.map(drop).context(refused)
}

/// The queue of an event that names none: the function's only one in the template, or else one of its own name.
fn queue(subject: &Subject) -> String {
    let mapped = || {
        let mappings = subject.template.as_ref()?.mappings(subject.function()?);
        let mut queues = mappings.into_iter().filter_map(|(_, queue)| queue);
        queues.next().filter(|_| queues.next().is_none())
    };
    mapped().unwrap_or_else(|| subject.binary.name.clone())
}

/// The queues that the function can reach: the template's, the shell's dead-letter queue, and those of the event. No
/// queue has the event's messages.
fn queues(subject: &Subject, event: Option<&Event>) -> Result<Queues> {
    let mut queues = Queues::default();
    let named = |template: &Template| {
        let queues = template.queues().iter();
        queues
            .map(|queue| template.queue_name(queue))
            .collect::<Vec<_>>()
    };
    let template = subject.template.as_ref().map(named).unwrap_or_default();
    let shell = std::env::var("SQS_ONCE_DLQ_URL").ok();
    // The last part of a queue's URL is its name.
    let shell = shell.and_then(|url| Some(url.rsplit('/').next()?.to_owned()));
    for name in template.into_iter().chain(shell) {
        queues.create(&name, QueueSettings::default())?;
    }
    if let Some(event) = event {
        queues.accept_receipts(event);
    }
    Ok(queues)
}

/// Prints how many messages the function sent to each queue.
fn print_sent(sqs: &LocalSqs) -> Result<()> {
    let queues = sqs.queues();
    for name in queues.names() {
        let count = queues.len(name)?;
        if count > 0 {
            print::note(&format!("sent to {name}: {count}"));
        }
    }
    Ok(())
}
