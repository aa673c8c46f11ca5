//! Limits on the number of function instances.

use super::{Problem, Setting};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::limits::MAXIMUM_CONCURRENCY;
use crate::model::{Deployment, Function, Mapping, Pollers};
use crate::remedy::Remedy;

/// Finds a mapping that may run more instances than its function has reserved, because it has no maximum, or else
/// because its maximum is larger.
pub(super) fn maximum(
    deployment: &Deployment,
    consumer: Consumer<'_>,
    is_missing: bool,
) -> Option<Problem> {
    let (mapping, function) = (consumer.mapping, consumer.function?);
    // AWS accepts no maximum beside provisioned pollers.
    if !mapping.pollers.is_missing() {
        return None;
    }
    let reserved = reserved(function)?;
    let (id, of) = (&mapping.site.id, &function.site.id);
    let message = match mapping.maximum_concurrency {
        Field::Missing if is_missing => format!(
            "The function {of} has {reserved} reserved instances, and its mapping {id} no MaximumConcurrency."
        ),
        Field::Known(maximum, _) if maximum > reserved && !is_missing => format!(
            "The mapping {id} may run {maximum} instances at once, and the function {of} has {reserved} reserved."
        ),
        _ => return None,
    };
    let maximum = reserved.clamp(*MAXIMUM_CONCURRENCY.start(), *MAXIMUM_CONCURRENCY.end());
    let setting = Setting(
        &["ScalingConfig", "MaximumConcurrency"],
        "scaling_config {\n  maximum_concurrency = {}\n}",
    );
    let (field, site) = (&mapping.maximum_concurrency, &mapping.site);
    let mut problem = Problem::set(field, site, setting, maximum, message);
    if is_missing {
        problem.place = function.reserved_concurrency.place()?.clone();
    }
    // `MaximumConcurrency` cannot be below 2.
    Some(
        problem
            .automatic_if(is_only(deployment, function) && MAXIMUM_CONCURRENCY.contains(&reserved)),
    )
}

/// The instances that are reserved for a function. A reservation of 0 switches the function off.
fn reserved(function: &Function) -> Option<u64> {
    let reserved = *function.reserved_concurrency.known()?;
    (reserved > 0).then_some(reserved)
}

/// Whether no other mapping shares the function's reservation.
fn is_only(deployment: &Deployment, function: &Function) -> bool {
    let of_function = |it: Option<&Function>| it.is_some_and(|it| it.site == function.site);
    let mappings = deployment.consumers().filter(|it| of_function(it.function));
    mappings.count() == 1
}

/// The invocations that one provisioned poller may have in flight.
const INVOKES: u64 = 10;

pub(super) fn provisioned_with_maximum(consumer: Consumer<'_>) -> Option<Problem> {
    let mapping = consumer.mapping;
    mapping.pollers.known()?;
    let place = mapping.maximum_concurrency.place()?;
    let message = format!(
        "The mapping {} has both MaximumConcurrency and ProvisionedPollerConfig.",
        mapping.site.id
    );
    let remedy = Remedy::Advice(
        "Remove ScalingConfig and set MaximumPollers: each poller runs up to 10 invocations at once.\n\
         Or remove ProvisionedPollerConfig.",
    );
    Some(Problem::at(place, message, remedy))
}

/// A problem of a mapping's largest number of pollers, which should be `count`.
fn most_pollers(mapping: &Mapping, pollers: &Pollers, count: u64, message: String) -> Problem {
    let setting = Setting(
        &["ProvisionedPollerConfig", "MaximumPollers"],
        "provisioned_poller_config {\n  maximum_pollers = {}\n}",
    );
    Problem::set(&pollers.maximum, &mapping.site, setting, count, message)
}

pub(super) fn minimum_above_maximum(consumer: Consumer<'_>) -> Option<Problem> {
    let mapping = consumer.mapping;
    let pollers = mapping.pollers.known()?;
    let (minimum, maximum) = pollers.range()?;
    let message = format!(
        "The mapping {} has at least {minimum} pollers and at most {maximum}.",
        mapping.site.id
    );
    // Which of the two is meant is the user's choice.
    (minimum > maximum).then(|| most_pollers(mapping, pollers, minimum, message).by_hand())
}

pub(super) fn pollers_above_reserved(
    deployment: &Deployment,
    consumer: Consumer<'_>,
) -> Option<Problem> {
    let (mapping, function) = (consumer.mapping, consumer.function?);
    let pollers = mapping.pollers.known()?;
    let (minimum, maximum) = pollers.range()?;
    let reserved = reserved(function)?;
    if maximum.saturating_mul(INVOKES) <= reserved || minimum > maximum {
        return None;
    }
    let message = format!(
        "The {maximum} pollers of the mapping {} may run {} instances at once, and the function {} has {reserved} \
         reserved.",
        mapping.site.id,
        maximum.saturating_mul(INVOKES),
        function.site.id
    );
    let enough = (reserved / INVOKES).max(minimum);
    let is_possible = enough * INVOKES <= reserved;
    let mut problem = most_pollers(mapping, pollers, enough, message);
    if !is_possible {
        let least = minimum.saturating_mul(INVOKES);
        problem.remedy = Remedy::set(
            &function.reserved_concurrency,
            &function.site,
            &["ReservedConcurrentExecutions"],
            least,
            format!("reserved_concurrent_executions = {least}"),
        );
    }
    Some(problem.automatic_if(is_possible && is_only(deployment, function)))
}
