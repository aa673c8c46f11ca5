//! Dead-letter queues of messages that keep failing.

use super::delivery::tls_policy;
use super::{Problem, words};
use crate::field::{Field, below};
use crate::model::{Deployment, Queue, Site};
use crate::remedy::{Remedy, resource};
use crate::template::Change;
use serde_json::json;

/// The minimum that AWS recommends.
const ADVISED_RECEIVES: u64 = 5;
const FEWEST_RECEIVES: u64 = 3;
/// 14 days, the longest retention that SQS allows.
const LONGEST: u64 = Queue::LONGEST_RETENTION.as_secs();

pub(super) fn missing(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .sources()
        .filter(|(queue, _)| queue.dead_letter_queue.is_missing())
        // A dead-letter queue needs no dead-letter queue of its own.
        .filter(|(queue, _)| {
            let is_of = |other: &Queue| {
                let target = other.dead_letter_queue.known();
                target.is_some_and(|target| target.is(&queue.site.id))
            };
            !deployment.queues.iter().any(is_of)
        })
        .map(|(queue, consumers)| {
            let has_other = consumers.iter().any(|consumer| {
                consumer
                    .function
                    .is_some_and(|it| it.has_async_dead_letters)
            });
            let hint = match has_other {
                true => " The function's own dead-letter queue gets asynchronous invocations only.",
                false => "",
            };
            let mut changes = redrive_to(
                &queue.site,
                &format!("{}DeadLetterQueue", queue.site.id),
                queue,
            );
            changes.push(Change::Set(
                below(
                    &queue.site.properties,
                    &["RedrivePolicy", "maxReceiveCount"],
                ),
                ADVISED_RECEIVES.into(),
            ));
            let remedy = Remedy::changes(
                changes,
                hcl_redrive(&queue.site, queue.is_fifo.known() == Some(&true)),
            );
            Problem {
                place: queue.site.place.clone(),
                message: format!(
                    "The queue {} has no dead-letter queue.{hint}",
                    queue.site.id
                ),
                remedy: if matches!(queue.is_fifo, Field::Unknown) {
                    remedy.by_hand()
                } else {
                    remedy
                },
            }
        })
        .collect()
}

/// A new dead-letter queue for `queue`.
fn redrive_to(site: &Site, id: &str, queue: &Queue) -> Vec<Change> {
    let mut properties = json!({ "MessageRetentionPeriod": LONGEST, "SqsManagedSseEnabled": true });
    if queue.is_fifo.known() == Some(&true) {
        properties["FifoQueue"] = json!(true);
    }
    let path = match queue.dead_letter_queue.place() {
        Some(place) => place.path.clone(),
        None => below(&site.properties, &["RedrivePolicy", "deadLetterTargetArn"]),
    };
    let kind = json!({ "Type": "AWS::SQS::Queue", "DeletionPolicy": "Retain", "UpdateReplacePolicy": "Retain", "Properties": properties });
    vec![
        resource(id, kind),
        tls_policy(id),
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

pub(super) fn max_receive_count(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .sources()
        .filter_map(|(queue, _)| {
            let count = *queue.max_receive_count.known()?;
            (count < FEWEST_RECEIVES).then(|| Problem {
                place: queue
                    .max_receive_count
                    .place()
                    .unwrap_or(&queue.site.place)
                    .clone(),
                message: format!(
                    "The queue {} gives a message up after {count} {}.",
                    queue.site.id,
                    if count == 1 { "receive" } else { "receives" }
                ),
                remedy: Remedy::set(
                    &queue.max_receive_count,
                    &queue.site,
                    &["RedrivePolicy", "maxReceiveCount"],
                    ADVISED_RECEIVES,
                    format!("maxReceiveCount = {ADVISED_RECEIVES} # in redrive_policy"),
                ),
            })
        })
        .collect()
}

pub(super) fn retention(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .redrives()
        .filter_map(|(queue, dead_letters)| {
            // A FIFO queue restarts the retention period when it receives a moved message.
            if queue.is_fifo.or(false)? || dead_letters.is_fifo.or(false)? {
                return None;
            }
            let (source, kept) = (queue.retained()?, dead_letters.retained()?);
            if kept > source {
                return None;
            }
            let is_default = dead_letters.retention.is_missing();
            let message = format!(
                "The dead-letter queue {} keeps messages for {}{}, its source {} for {}.",
                dead_letters.site.id,
                words(kept),
                if is_default { " (the default)" } else { "" },
                queue.site.id,
                words(source)
            );
            let remedy = if source < Queue::LONGEST_RETENTION {
                Remedy::set(
                    &dead_letters.retention,
                    &dead_letters.site,
                    &["MessageRetentionPeriod"],
                    LONGEST,
                    format!("message_retention_seconds = {LONGEST}"),
                )
            } else {
                // The dead-letter queue already has the longest retention. How much the source's can be shortened is
                // the user's choice.
                let seconds = Queue::DEFAULT_RETENTION.as_secs();
                Remedy::set(
                    &queue.retention,
                    &queue.site,
                    &["MessageRetentionPeriod"],
                    seconds,
                    format!("message_retention_seconds = {seconds}"),
                )
                .by_hand()
            };
            Some(Problem {
                place: dead_letters
                    .retention
                    .place()
                    .unwrap_or(&dead_letters.site.place)
                    .clone(),
                message,
                remedy,
            })
        })
        .collect()
}

pub(super) fn expires_before(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .sources()
        .filter_map(|(queue, _)| {
            let receives = u32::try_from(*queue.max_receive_count.known()?).ok()?;
            let (retained, visibility) = (queue.retained()?, queue.visibility()?);
            let tried = visibility.checked_mul(receives)?;
            (tried >= retained).then(|| Problem {
                place: queue.retention.place().unwrap_or(&queue.site.place).clone(),
                message: format!(
                    "The queue {} keeps messages for {}; {receives} receives of {} each take {}.",
                    queue.site.id,
                    words(retained),
                    words(visibility),
                    words(tried)
                ),
                remedy: {
                    let seconds = Queue::DEFAULT_RETENTION.as_secs();
                    let remedy = Remedy::set(
                        &queue.retention,
                        &queue.site,
                        &["MessageRetentionPeriod"],
                        seconds,
                        format!("message_retention_seconds = {seconds}"),
                    );
                    if tried < Queue::DEFAULT_RETENTION {
                        remedy
                    } else {
                        remedy.by_hand()
                    }
                },
            })
        })
        .collect()
}

pub(super) fn fifo(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .redrives()
        .filter(|(queue, dead_letters)| {
            queue.is_fifo.or(false) == Some(true) && dead_letters.is_fifo.or(false) == Some(false)
        })
        .map(|(queue, dead_letters)| {
            // A queue's type cannot change. The remedy adds a FIFO queue; the old queue and its messages stay.
            let id = format!("{}FifoDeadLetterQueue", queue.site.id);
            Problem {
                place: queue.dead_letter_queue.place().unwrap_or(&queue.site.place).clone(),
                message: format!(
                    "The FIFO queue {} has the standard queue {} as its dead-letter queue. A new one takes its \
                     place; the old one stays, until it is empty and you remove it.",
                    queue.site.id, dead_letters.site.id
                ),
                remedy: Remedy::changes(redrive_to(&queue.site, &id, queue), hcl_redrive(&queue.site, true)),
            }
        })
        .collect()
}

pub(super) fn url(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let Some(function) = consumer.function else {
            continue;
        };
        let Field::Known(target, place) = function.reference("SQS_ONCE_DLQ_URL") else {
            continue;
        };
        let is_source = consumer
            .queue
            .is_some_and(|queue| target.is(&queue.site.id));
        let text = function.variable("SQS_ONCE_DLQ_URL").known();
        let is_arn = text.is_some_and(|text| text.starts_with("arn:") || text.ends_with(".Arn}"));
        let problem = match (is_source, is_arn) {
            (true, _) => "is the queue that it consumes",
            (_, true) => "is an ARN, not a URL",
            _ => continue,
        };
        let dead_letters = consumer.queue.map(|queue| &queue.dead_letter_queue);
        let dead_letters = dead_letters.and_then(|target| deployment.queue(target));
        let id = dead_letters.map(|queue| queue.site.id.clone());
        let value = match &id {
            Some(id) => json!({ "Ref": id }),
            None => json!("https://sqs.REGION.amazonaws.com/ACCOUNT/NAME"),
        };
        let remedy = Remedy::set(
            function.reference("SQS_ONCE_DLQ_URL"),
            &function.site,
            &["Environment", "Variables", "SQS_ONCE_DLQ_URL"],
            value,
            format!(
                "SQS_ONCE_DLQ_URL = {}.url",
                id.as_deref().unwrap_or("aws_sqs_queue.dead_letters")
            ),
        );
        problems.push(Problem {
            place: place.clone(),
            message: format!(
                "SQS_ONCE_DLQ_URL of the function {} {problem}.",
                function.site.id
            ),
            remedy: if id.is_some() {
                remedy
            } else {
                remedy.by_hand()
            },
        });
    }
    problems
}
