//! Limits on the number of function instances.

use super::Problem;
use crate::model::{Consumer, Deployment};
use crate::remedy::Remedy;

/// The bounds of `MaximumConcurrency`.
const MAXIMUM: std::ops::RangeInclusive<u64> = 2..=1000;

pub(super) fn without_maximum(deployment: &Deployment) -> Vec<Problem> {
    reserved(deployment)
        .filter(|(consumer, _)| consumer.mapping.maximum_concurrency.is_missing())
        .map(|(consumer, reserved)| {
            let message = format!(
                "The function {} has {reserved} reserved instances, and its mapping {} no MaximumConcurrency.",
                name(&consumer),
                consumer.mapping.site.id
            );
            problem(deployment, &consumer, reserved, message)
        })
        .collect()
}

pub(super) fn above_reserved(deployment: &Deployment) -> Vec<Problem> {
    reserved(deployment)
        .filter_map(|(consumer, reserved)| {
            let maximum = *consumer.mapping.maximum_concurrency.known()?;
            if maximum <= reserved {
                return None;
            }
            let message = format!(
                "The mapping {} may run {maximum} instances at once, and the function {} has {reserved} reserved.",
                consumer.mapping.site.id,
                name(&consumer)
            );
            Some(problem(deployment, &consumer, reserved, message))
        })
        .collect()
}

/// The consumers with reserved concurrency. A reservation of 0 switches the function off.
fn reserved(deployment: &Deployment) -> impl Iterator<Item = (Consumer<'_>, u64)> {
    deployment.consumers().filter_map(|consumer| {
        let reserved = *consumer.function?.reserved_concurrency.known()?;
        (reserved > 0).then_some((consumer, reserved))
    })
}

fn name<'a>(consumer: &Consumer<'a>) -> &'a str {
    consumer.function.map_or("", |function| &function.site.id)
}

fn problem(
    deployment: &Deployment,
    consumer: &Consumer<'_>,
    reserved: u64,
    message: String,
) -> Problem {
    let mapping = consumer.mapping;
    let maximum = reserved.clamp(*MAXIMUM.start(), *MAXIMUM.end());
    let remedy = Remedy::set(
        &mapping.maximum_concurrency,
        &mapping.site,
        &["ScalingConfig", "MaximumConcurrency"],
        maximum,
        format!("scaling_config {{\n  maximum_concurrency = {maximum}\n}}"),
    );
    // Several mappings share the reservation, and `MaximumConcurrency` cannot be below 2.
    let is_only = deployment
        .consumers()
        .filter(|other| name(other) == name(consumer))
        .count()
        == 1;
    let place = mapping.maximum_concurrency.place().or(consumer
        .function
        .and_then(|function| function.reserved_concurrency.place()));
    Problem {
        place: place.unwrap_or(&mapping.site.place).clone(),
        message,
        remedy: if is_only && MAXIMUM.contains(&reserved) {
            remedy
        } else {
            remedy.by_hand()
        },
    }
}
