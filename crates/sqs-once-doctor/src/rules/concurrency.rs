//! Limits on the number of function instances.

use super::Problem;
use crate::model::{Deployment, Function, Mapping};

/// The bounds of `MaximumConcurrency`.
const MAXIMUM: std::ops::RangeInclusive<u64> = 2..=1000;

pub(super) fn without_maximum(deployment: &Deployment) -> Vec<Problem> {
    problems(deployment, |function, mapping, reserved| {
        mapping.maximum_concurrency.is_missing().then(|| {
            format!(
                "The function {} has {reserved} reserved instances, and its mapping {} no MaximumConcurrency.",
                function.site.id, mapping.site.id
            )
        })
    })
}

pub(super) fn above_reserved(deployment: &Deployment) -> Vec<Problem> {
    problems(deployment, |function, mapping, reserved| {
        let maximum = *mapping.maximum_concurrency.known()?;
        (maximum > reserved).then(|| {
            format!(
                "The mapping {} may run {maximum} instances at once, and the function {} has {reserved} reserved.",
                mapping.site.id, function.site.id
            )
        })
    })
}

/// The problems of mappings whose function has reserved concurrency.
fn problems(
    deployment: &Deployment,
    message: impl Fn(&Function, &Mapping, u64) -> Option<String>,
) -> Vec<Problem> {
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let mapping = consumer.mapping;
        // A reservation of 0 switches the function off.
        if let Some(function) = consumer.function
            && let Some(&reserved) = function.reserved_concurrency.known()
            && reserved > 0
            && let Some(message) = message(function, mapping, reserved)
        {
            let maximum = reserved.clamp(*MAXIMUM.start(), *MAXIMUM.end());
            let mut problem = Problem::set(
                &mapping.maximum_concurrency,
                &mapping.site,
                &["ScalingConfig", "MaximumConcurrency"],
                maximum,
                format!("scaling_config {{\n  maximum_concurrency = {maximum}\n}}"),
                message,
            );
            if mapping.maximum_concurrency.place().is_none() {
                let place = function.reserved_concurrency.place();
                problem.place = place.unwrap_or(&mapping.site.place).clone();
            }
            // Several mappings share the reservation, and `MaximumConcurrency` cannot be below 2.
            let of_function = |it: Option<&Function>| it.is_some_and(|it| it.site == function.site);
            let mappings = deployment.consumers().filter(|it| of_function(it.function));
            let is_only = mappings.count() == 1;
            problems.push(problem.automatic_if(is_only && MAXIMUM.contains(&reserved)));
        }
    }
    problems
}
