//! Subscribers of custom event buses that send to queues.

use super::settings::{DAY, RETENTION, in_days, lives};
use super::{Problem, words};
use crate::consumers::Consumer;
use crate::iam::ENCRYPT;
use crate::model::{Deployment, Queue, Subscriber};
use crate::remedy::Remedy;
use crate::variables::duration_from;
use std::time::Duration;

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
    // A function may consume reports. But a queue with events or with dead letters is for no reports.
    let targets = deployment.subscribers.iter();
    let targets = targets.filter_map(|it| deployment.queue(&it.target));
    let own = deployment.queue(&queue.dead_letter_queue);
    let sent_to = deployment.consumers();
    let sent_to = sent_to.filter_map(|consumer| deployment.sent_to(&consumer));
    let dead = deployment.dead_letter_queues().chain(own).chain(sent_to);
    let is_of_consumer = targets.chain(dead).any(|it| it.site == failures.site);
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
    is_constant(id).then(|| Problem::at(place, message, remedy))
}

/// Whether a text is no JSONata expression, or one of literals alone.
fn is_constant(text: &str) -> bool {
    let inside = text.trim().strip_prefix("{%");
    let Some(expression) = inside.and_then(|it| it.strip_suffix("%}")) else {
        return !text.contains("{%");
    };
    // Every second part is in quotes.
    let mut outside = expression.split(['\'', '"']).step_by(2);
    let is_literal = |char: char| char.is_ascii_digit() || char.is_whitespace() || char == '&';
    !expression.contains('$') && outside.all(|part| part.chars().all(is_literal))
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

/// Finds a function that forgets keys while a bus can still replay their events. A shorter time is for another rule.
pub(super) fn replay_outlives_keys(
    deployment: &Deployment,
    consumer: Consumer<'_>,
) -> Option<Problem> {
    let (function, source) = consumer.function.zip(consumer.queue)?;
    let variable = function.variable(RETENTION);
    let kept = duration_from(variable.known()?)?;
    let sends = |it: &&Subscriber| queue(deployment, it).is_some_and(|it| it.site == source.site);
    let subscribers = deployment.subscribers.iter().filter(sends);
    let buses = subscribers.filter_map(|it| deployment.bus(&it.bus));
    let days = buses.filter_map(|it| Some((it.retention_days.known()?, &it.site.id)));
    let (days, bus) = days.max()?;
    let replayed = Duration::from_secs(days.checked_mul(DAY)?);
    let copy: Duration = lives(deployment, source)?.into_iter().sum();
    let needed = replayed.checked_add(copy)?;
    let message = format!(
        "The function {} remembers keys for {}; the bus {bus} can replay events for {}, and a message of the queue {} \
         lives up to {}.",
        function.site.id,
        words(kept),
        words(replayed),
        source.site.id,
        words(copy)
    );
    let problem = || Problem::variable(variable, function, RETENTION, &in_days(needed), message);
    (copy..needed).contains(&kept).then(problem)
}

/// Finds a subscriber whose role may not send to its queues, or may not use their keys.
pub(super) fn permission_missing(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for subscriber in &deployment.subscribers {
        let queues = [&subscriber.target, &subscriber.failures];
        for queue in queues.into_iter().filter_map(|it| deployment.queue(it)) {
            let mut need = |id: &str, actions: &[&str]| {
                let may = |action: &&&str| subscriber.permissions.may(action, id);
                let missing = actions.iter().filter(|it| !may(it)).copied();
                let missing: Vec<&str> = missing.collect();
                if !missing.is_empty() {
                    let message = format!(
                        "The role of the subscriber {} does not allow {} on {id}.",
                        subscriber.site.id,
                        missing.join(", ")
                    );
                    let remedy = Remedy::Advice(
                        "Allow the role the actions in one of its policies, with the ARN as the resource.",
                    );
                    problems.push(Problem::at(&subscriber.site.place, message, remedy));
                }
            };
            need(&queue.site.id, &["sqs:SendMessage"]);
            // Another key's policy may admit the role itself.
            let key = deployment.key(&queue.key);
            if let Some(key) = key.filter(|key| key.delegates == Some(true)) {
                need(&key.site.id, &ENCRYPT);
            }
        }
    }
    problems
}

/// Finds a subscriber that a plan replaces, so that events between the two are not delivered.
pub(super) fn replaced(deployment: &Deployment, subscriber: &Subscriber) -> Option<Problem> {
    let queue = queue(deployment, subscriber)?;
    let message = format!(
        "The plan deletes the subscriber {} to the queue {} and creates it anew.",
        subscriber.site.id, queue.site.id
    );
    let remedy = Remedy::Advice(
        "Create a subscriber of another name beside it, and delete this one later.\n\
         Or let the new one start before the deployment: starting_position = \"POINT_IN_TIME\"",
    );
    let is_back = subscriber
        .start
        .known()
        .is_some_and(|it| it == "POINT_IN_TIME");
    let is_found = subscriber.is_replaced && !is_back;
    is_found.then(|| Problem::at(&subscriber.site.place, message, remedy))
}
