//! Subscribers of custom event buses that send to queues.

use super::Problem;
use crate::model::{Deployment, Queue, Subscriber};
use crate::remedy::Remedy;

const OWN_QUEUE: &str = "Give the subscriber a queue of its own for its failures:\n\
                         OnFailureConfiguration: { Arn: the ARN of that queue }\n\
                         Its role needs sqs:SendMessage on it. Add an alarm on its messages.";

/// The subscriber's queue, if it sends to one.
fn queue<'a>(deployment: &'a Deployment, subscriber: &Subscriber) -> Option<&'a Queue> {
    deployment.queue(&subscriber.target)
}

pub(super) fn failures_dropped(
    deployment: &Deployment,
    subscriber: &Subscriber,
) -> Option<Problem> {
    let queue = queue(deployment, subscriber)?;
    let message = format!(
        "The subscriber {} to the queue {} has no OnFailureConfiguration.",
        subscriber.site.id, queue.site.id
    );
    let place = &subscriber.site.place;
    let is_missing = subscriber.failures.is_missing();
    is_missing.then(|| Problem::at(place, message, Remedy::Advice(OWN_QUEUE)))
}

pub(super) fn failures_in_a_consumers_queue(
    deployment: &Deployment,
    subscriber: &Subscriber,
) -> Option<Problem> {
    let queue = queue(deployment, subscriber)?;
    let failures = deployment.queue(&subscriber.failures)?;
    let dead = deployment.queue(&queue.dead_letter_queue);
    let is_of_consumer = failures.site.id == queue.site.id
        || dead.is_some_and(|dead| dead.site.id == failures.site.id);
    let message = format!(
        "The subscriber {} puts its failures into the consumer's queue {}.",
        subscriber.site.id, failures.site.id
    );
    let place = subscriber.site.place_of(&subscriber.failures);
    is_of_consumer.then(|| Problem::at(place, message, Remedy::Advice(OWN_QUEUE)))
}

pub(super) fn constant_deduplication(
    deployment: &Deployment,
    subscriber: &Subscriber,
) -> Option<Problem> {
    queue(deployment, subscriber)?;
    let id = subscriber.deduplication_id.known()?;
    let message = format!(
        "The subscriber {} gives each message the deduplication id {id:?}.",
        subscriber.site.id
    );
    let remedy = Remedy::Advice(
        "Derive it from the event:\n\
         MessageDeduplicationId: \"{% $events.SystemMetadata.`aws:EventId` %}\"",
    );
    let place = subscriber.site.place_of(&subscriber.deduplication_id);
    (!id.contains("{%")).then(|| Problem::at(place, message, remedy))
}

pub(super) fn order_lost(deployment: &Deployment, subscriber: &Subscriber) -> Option<Problem> {
    let queue = queue(deployment, subscriber)?;
    let is_ordered = subscriber.order.known().is_some_and(|it| it == "FIFO");
    let is_standard = queue.is_fifo.is_missing() || queue.is_fifo.known() == Some(&false);
    let message = format!(
        "The subscriber {} is FIFO, and its queue {} is not.",
        subscriber.site.id, queue.site.id
    );
    let remedy = Remedy::Advice(
        "Send to a FIFO queue, with MessageGroupId: \"{% $events.SystemMetadata.EventGroupId %}\",\n\
         or make the subscriber UNORDERED.",
    );
    let place = subscriber.site.place_of(&subscriber.order);
    (is_ordered && is_standard).then(|| Problem::at(place, message, remedy))
}
