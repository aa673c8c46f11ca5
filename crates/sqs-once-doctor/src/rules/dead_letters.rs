//! Dead-letter queues of messages that keep failing.

use super::delivery::tls_policy;
use super::{Problem, RECEIVES, Setting, words};
use crate::consumers::Consumer;
use crate::field::{Field, below};
use crate::limits::{LONGEST_RETENTION, LONGEST_VISIBILITY_TIMEOUT};
use crate::model::{Deployment, Function, Queue, Site, literal};
use crate::remedy::{Remedy, resource};
use crate::template::Change;
use serde_json::json;
use std::time::Duration;

/// The minimum that AWS recommends.
const ADVISED_RECEIVES: u64 = 5;
const FEWEST_RECEIVES: u64 = 3;
/// The outage for which the library's breaker plans by default.
const OUTAGE: Duration = Duration::from_secs(24 * 3600);
/// The longest time for which a breaker hides a message: a visibility timeout begins up to 16 minutes earlier, when
/// Lambda receives the message.
const LONGEST_WAIT: Duration =
    LONGEST_VISIBILITY_TIMEOUT.saturating_sub(Duration::from_secs(16 * 60));
/// 14 days, the longest retention that SQS allows.
const LONGEST: u64 = LONGEST_RETENTION.as_secs();
const DEFAULT: u64 = Queue::DEFAULT_RETENTION.as_secs();

pub(super) fn missing(
    deployment: &Deployment,
    (queue, consumers): (&Queue, Vec<Consumer<'_>>),
) -> Option<Problem> {
    let id = &queue.site.id;
    // A dead-letter queue needs no dead-letter queue of its own.
    let mut targets = deployment.queues.iter();
    let is_target = |it: &Queue| it.dead_letter_queue.known().is_some_and(|to| to.is(id));
    if !queue.dead_letter_queue.is_missing() || targets.any(is_target) {
        return None;
    }
    let mut functions = consumers.iter().filter_map(|consumer| consumer.function);
    let hint = match functions.any(|function| function.has_async_dead_letters) {
        true => " The function's own dead-letter queue gets asynchronous invocations only.",
        false => "",
    };
    let mut changes = redrive_to(&format!("{id}DeadLetterQueue"), queue);
    let count = below(&queue.site.properties, RECEIVES.0);
    changes.push(Change::Set(count, ADVISED_RECEIVES.into()));
    let hcl = hcl_redrive(&queue.site, queue.is_fifo.known() == Some(&true));
    let message = format!("The queue {id} has no dead-letter queue.{hint}");
    let remedy = Remedy::changes(changes, hcl).automatic_if(!queue.is_fifo.is_unknown());
    Some(Problem::at(&queue.site.place, message, remedy))
}

/// A new dead-letter queue for `queue`.
fn redrive_to(id: &str, queue: &Queue) -> Vec<Change> {
    let mut properties = json!({ "MessageRetentionPeriod": LONGEST, "SqsManagedSseEnabled": true });
    if queue.is_fifo.known() == Some(&true) {
        properties["FifoQueue"] = json!(true);
    }
    let target = ["RedrivePolicy", "deadLetterTargetArn"];
    let path = queue.site.path_of(&queue.dead_letter_queue, &target);
    let kind = json!({ "Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": properties });
    vec![
        resource(id, kind, &queue.site),
        tls_policy(id, &queue.site),
        Change::Set(path, json!({ "Fn::GetAtt": [id, "Arn"] })),
    ]
}

fn hcl_redrive(site: &Site, is_fifo: bool) -> String {
    let (name, fifo) = match is_fifo {
        true => ("dead_letters.fifo", "\n  fifo_queue                = true"),
        false => ("dead-letters", ""),
    };
    format!(
        "resource \"aws_sqs_queue\" \"dead_letters\" {{\n  name                      = \"{name}\"{fifo}\n  \
         message_retention_seconds = {LONGEST}\n}}\n\n# {}\nredrive_policy = jsonencode({{\n  \
         deadLetterTargetArn = aws_sqs_queue.dead_letters.arn\n  maxReceiveCount     = {ADVISED_RECEIVES}\n}})",
        site.id
    )
}

pub(super) fn max_receive_count(queue: &Queue) -> Option<Problem> {
    let id = &queue.site.id;
    let count = match queue.max_receive_count {
        Field::Known(count, _) if count < FEWEST_RECEIVES => count.to_string(),
        // SQS refuses such a policy.
        Field::Missing if !queue.dead_letter_queue.is_missing() => "unspecified".to_owned(),
        _ => return None,
    };
    let message = format!("The queue {id} has the maxReceiveCount {count}.");
    Some(received(queue, message))
}

/// A problem of a queue's maxReceiveCount, which should be the advised one.
fn received(queue: &Queue, message: String) -> Problem {
    let (field, site) = (&queue.max_receive_count, &queue.site);
    Problem::set(field, site, RECEIVES, ADVISED_RECEIVES, message)
}

/// Finds a queue that an outage of a day outlasts, even with a breaker.
pub(super) fn outage((queue, consumers): (&Queue, Vec<Consumer<'_>>)) -> Option<Problem> {
    let mut functions = consumers.iter().filter_map(|consumer| consumer.function);
    let count = *queue.max_receive_count.known()?;
    // The doctor can't see whether the code has a breaker. Other libraries have none.
    if count < FEWEST_RECEIVES || !functions.any(Function::uses_sqs_once) {
        return None;
    }
    let (retained, visibility) = (queue.retained()?, queue.visibility()?);
    // A delivery fails at once, so the waits between the deliveries are the time that they last.
    let waits = u32::try_from(count - 1).ok()?;
    let without = visibility.checked_mul(waits)?.min(retained);
    let deliveries = LONGEST_WAIT.checked_mul(waits)?;
    let with = deliveries.min(retained);
    if with > OUTAGE {
        return None;
    }
    let reason = match deliveries < retained {
        true => format!("maxReceiveCount is {count}"),
        false => format!("its messages expire after {}", hours(retained)),
    };
    let message = format!(
        "The queue {} survives an outage of {} without a breaker, and of {} with one, because {reason}.",
        queue.site.id,
        hours(without),
        hours(with),
    );
    let problem = match deliveries < retained {
        true => received(queue, message),
        false => kept(queue, DEFAULT, message),
    };
    // Only a consumer with a breaker needs it.
    Some(problem.by_hand())
}

/// A duration of hours and minutes, for example `23 h 28 min`.
fn hours(duration: Duration) -> String {
    let minutes = duration.as_secs() / 60;
    match (minutes / 60, minutes % 60) {
        (0, minutes) => format!("{minutes} min"),
        (hours, 0) => format!("{hours} h"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

/// A problem of a queue's retention, which should be `seconds`.
fn kept(queue: &Queue, seconds: u64, message: String) -> Problem {
    let argument = "message_retention_seconds = {}";
    let setting = Setting(&["MessageRetentionPeriod"], argument);
    Problem::set(&queue.retention, &queue.site, setting, seconds, message)
}

pub(super) fn retention((queue, dead_letters): (&Queue, &Queue)) -> Option<Problem> {
    // A FIFO queue restarts the retention period when it receives a moved message.
    if queue.is_fifo.or(false)? || dead_letters.is_fifo.or(false)? {
        return None;
    }
    let (source, retained) = (queue.retained()?, dead_letters.retained()?);
    if retained > source {
        return None;
    }
    let is_default = dead_letters.retention.is_missing();
    let message = format!(
        "The dead-letter queue {} keeps messages for {}{}, its source {} for {}.",
        dead_letters.site.id,
        words(retained),
        if is_default { " (the default)" } else { "" },
        queue.site.id,
        words(source)
    );
    let mut problem = kept(dead_letters, LONGEST, message);
    if source >= LONGEST_RETENTION {
        // The dead-letter queue already has the longest retention. How much the source's can be shortened is the
        // user's choice.
        problem.remedy = kept(queue, DEFAULT, String::new()).by_hand().remedy;
    }
    Some(problem)
}

pub(super) fn expires_before(queue: &Queue) -> Option<Problem> {
    let receives = u32::try_from(*queue.max_receive_count.known()?).ok()?;
    let (retained, visibility) = (queue.retained()?, queue.visibility()?);
    let tried = visibility.checked_mul(receives)?;
    let message = format!(
        "The queue {} keeps messages for {}; {receives} receives of {} each take {}.",
        queue.site.id,
        words(retained),
        words(visibility),
        words(tried)
    );
    let problem = kept(queue, DEFAULT, message).automatic_if(tried < Queue::DEFAULT_RETENTION);
    (tried >= retained).then_some(problem)
}

pub(super) fn other_type((queue, dead_letters): (&Queue, &Queue)) -> Option<Problem> {
    let is_fifo = queue.is_fifo.or(false)?;
    if dead_letters.is_fifo.or(false)? == is_fifo {
        return None;
    }
    // A queue's type cannot change. The remedy adds a queue; the old queue and its messages stay.
    let (own, other, name) = match is_fifo {
        true => ("FIFO", "standard", "Fifo"),
        false => ("standard", "FIFO", "Standard"),
    };
    let new = format!("{}{name}DeadLetterQueue", queue.site.id);
    let place = queue.site.place_of(&queue.dead_letter_queue);
    let message = format!(
        "The {own} queue {} has the {other} queue {} as its dead-letter queue. A new one takes its place; the old one \
         stays, until it is empty and you remove it.",
        queue.site.id, dead_letters.site.id
    );
    let remedy = Remedy::changes(redrive_to(&new, queue), hcl_redrive(&queue.site, is_fifo));
    Some(Problem::at(place, message, remedy))
}

pub(super) fn url(deployment: &Deployment, consumer: Consumer<'_>) -> Option<Problem> {
    const NAME: &str = "SQS_ONCE_DLQ_URL";
    let function = consumer.function?;
    let reference = function.reference(NAME);
    let target = reference.known()?;
    let is_source = consumer.queue.is_some_and(|it| target.is(&it.site.id));
    let text = function.variable(NAME).known();
    let is = |test: fn(&str) -> bool| text.is_some_and(|text| test(text));
    // Terraform's attribute is `arn`.
    let is_arn =
        is(|text| text.starts_with("arn:") || text.ends_with(".Arn}") || text.ends_with(".arn}"));
    let is_name = is(|text| {
        let is_literal = literal(text).is_some_and(|it| !it.is_empty() && !it.starts_with("http"));
        is_literal || text.ends_with(".QueueName}") || text.ends_with(".name}")
    });
    let problem = match (is_source, is_arn, is_name) {
        (true, _, _) => "is the queue that it consumes",
        (_, true, _) => "is an ARN, not a URL",
        (_, _, true) => "is a name, not a URL",
        _ => return None,
    };
    let dead_letters = consumer.queue.map(|queue| &queue.dead_letter_queue);
    let dead_letters = dead_letters.and_then(|target| deployment.queue(target));
    let (value, hcl) = match dead_letters {
        Some(queue) => (json!({ "Ref": queue.site.id }), &*queue.site.id),
        None => (
            json!("https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"),
            "aws_sqs_queue.dead_letters",
        ),
    };
    let names = ["Environment", "Variables", NAME];
    let hcl = format!("{NAME} = {hcl}.url");
    let site = &function.site;
    let remedy = Remedy::set(reference, site, &names, value, hcl);
    let message = format!("{NAME} of the function {} {problem}.", site.id);
    let problem = Problem::at(site.place_of(reference), message, remedy);
    Some(problem.automatic_if(dead_letters.is_some()))
}

/// Finds a durable function whose failed executions leave no trace.
pub(super) fn durable_failures_unseen(function: &Function) -> Option<Problem> {
    let id = &function.site.id;
    let message = format!("The durable function {id} has no dead-letter queue of its own.");
    let remedy = Remedy::Advice(
        "Give it a queue for the events of its failed executions, and an alarm on the queue's messages:\n\
         DeadLetterQueue: { Type: SQS, TargetArn: the ARN of that queue }",
    );
    let is_unseen = function.durable.known().is_some() && !function.has_async_dead_letters;
    is_unseen.then(|| Problem::at(&function.site.place, message, remedy))
}
