//! Values that AWS refuses.

use super::{Problem, RECEIVES};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::limits::{LARGEST_BATCH, LIMITS};
use crate::model::{Deployment, Pollers, Queue, Site};
use crate::remedy::Remedy;
use std::time::Duration;

const WINDOW: &str = "MaximumBatchingWindowInSeconds";

pub(super) fn refused(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    let mut check = |limit: &str, site: &Site, field: &Field<u64>| {
        problems.extend(outside(limit, site, field));
    };
    for Consumer { mapping, queue, .. } in deployment.consumers() {
        let is_fifo = queue.is_some_and(|queue| queue.is_fifo.known() == Some(&true));
        let (size, concurrency) = (&mapping.batch_size, &mapping.maximum_concurrency);
        let is_large = size.known().is_some_and(|size| *size > LARGEST_BATCH);
        let (site, of) = (&mapping.site, if is_fifo { " of a FIFO queue" } else { "" });
        let of_window = match is_fifo || !is_large {
            true => of,
            false => " with a batch size above 10",
        };
        let window = format!("{WINDOW}{of_window}");
        check(&format!("BatchSize{of}"), site, size);
        check(&window, site, &seconds(&mapping.window));
        check("ScalingConfig.MaximumConcurrency", site, concurrency);
        if let Some(Pollers { minimum, maximum }) = mapping.pollers.known() {
            check("ProvisionedPollerConfig.MinimumPollers", site, minimum);
            check("ProvisionedPollerConfig.MaximumPollers", site, maximum);
        }
    }
    for queue in deployment.consumed_and_dead_letters() {
        let (site, count) = (&queue.site, &queue.max_receive_count);
        let visibility = seconds(&queue.visibility_timeout);
        check("VisibilityTimeout", site, &visibility);
        check("MessageRetentionPeriod", site, &seconds(&queue.retention));
        check("DelaySeconds", site, &seconds(&queue.delay));
        check("RedrivePolicy.maxReceiveCount", site, count);
    }
    for function in deployment.consuming_functions() {
        let limit = match function.capacity_provider {
            Field::Missing => "Timeout",
            _ => "Timeout on Lambda Managed Instances",
        };
        check(limit, &function.site, &seconds(&function.timeout));
    }
    problems.extend(deployment.consumed_and_dead_letters().filter_map(name));
    problems
}

fn seconds(field: &Field<Duration>) -> Field<u64> {
    field.clone().and_then(|it| Some(it.as_secs()))
}

/// A setting outside the limit of this name.
fn outside(limit: &str, site: &Site, field: &Field<u64>) -> Option<Problem> {
    let limit = LIMITS.iter().find(|it| it.setting == limit)?;
    let (least, most) = (*limit.range.start(), *limit.range.end());
    let setting = limit.setting;
    let is_window = setting.starts_with(WINDOW);
    // Lambda's default is no window.
    let given = field.or(if is_window { 0 } else { least })?;
    let nearest = given.clamp(least, most);
    let message = format!(
        "{} has {given} as its {setting}, and AWS accepts {least} to {most}.",
        site.id
    );
    let names = setting.split(' ').next().unwrap_or_default().split('.');
    let names: Vec<&str> = names.collect();
    let hcl = format!("{} = {nearest}", limit.argument);
    let remedy = Remedy::set(field, site, &names, nearest, hcl);
    let problem = Problem::at(site.place_of(field), message, remedy);
    // Which value is meant is the user's choice, unless only one is near.
    let is_only = setting.contains("FIFO") || is_window && given < least;
    (nearest != given).then(|| problem.automatic_if(is_only))
}

fn name(queue: &Queue) -> Option<Problem> {
    let (id, name) = (&queue.site.id, queue.name.known()?);
    let is_fifo = queue.is_fifo.or(false)?;
    let message = match is_fifo {
        true => format!("The FIFO queue {id} has the name {name}, which does not end in .fifo."),
        false => format!("The queue {id} has the name {name}, and is no FIFO queue."),
    };
    let remedy = Remedy::Advice("End the name of a FIFO queue in .fifo, and no other queue's.");
    let is_wrong = name.ends_with(".fifo") != is_fifo;
    is_wrong.then(|| Problem::at(queue.site.place_of(&queue.name), message, remedy))
}

/// The receives that a FIFO queue needs for each message of a batch, since those behind a failed one return untried.
const RECEIVES_FOR_EACH: u64 = 2;

pub(super) fn fifo_receives(Consumer { mapping, queue, .. }: Consumer<'_>) -> Option<Problem> {
    let queue = queue.filter(|queue| queue.is_fifo.known() == Some(&true))?;
    let count = *queue.max_receive_count.known()?;
    let size = mapping.batch_size.or(LARGEST_BATCH)?;
    let size = size.clamp(1, LARGEST_BATCH);
    let needed = RECEIVES_FOR_EACH * size;
    let message = format!(
        "The FIFO queue {} moves a message to its dead-letter queue after {count} receives, and a batch has up to {size} \
         messages: it should be {needed} at least.",
        queue.site.id
    );
    let (field, site) = (&queue.max_receive_count, &queue.site);
    let problem = Problem::set(field, site, RECEIVES, needed, message);
    // A batch of one has nothing behind a failed message.
    (size > 1 && count < needed).then_some(problem)
}
