//! Limits on the number of function instances.

use super::Problem;
use crate::field::Field;
use crate::model::{Consumer, Deployment, Function};

/// The bounds of `MaximumConcurrency`.
const MAXIMUM: std::ops::RangeInclusive<u64> = 2..=1000;

/// Finds a mapping that may run more instances than its function has reserved, because it has no maximum, or else
/// because its maximum is larger.
pub(super) fn maximum(
    deployment: &Deployment,
    Consumer {
        mapping, function, ..
    }: Consumer<'_>,
    is_missing: bool,
) -> Option<Problem> {
    // AWS accepts no maximum beside provisioned pollers.
    let function = function.filter(|_| !mapping.is_provisioned)?;
    // A reservation of 0 switches the function off.
    let reserved = function.reserved_concurrency.known();
    let reserved = *reserved.filter(|reserved| **reserved > 0)?;
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
    let maximum = reserved.clamp(*MAXIMUM.start(), *MAXIMUM.end());
    let mut problem = Problem::set(
        &mapping.maximum_concurrency,
        &mapping.site,
        &["ScalingConfig", "MaximumConcurrency"],
        maximum,
        format!("scaling_config {{\n  maximum_concurrency = {maximum}\n}}"),
        message,
    );
    if is_missing {
        problem.place = function.reserved_concurrency.place()?.clone();
    }
    // Several mappings share the reservation, and `MaximumConcurrency` cannot be below 2.
    let of_function = |it: Option<&Function>| it.is_some_and(|it| it.site == function.site);
    let mappings = deployment.consumers().filter(|it| of_function(it.function));
    let is_only = mappings.count() == 1;
    Some(problem.automatic_if(is_only && MAXIMUM.contains(&reserved)))
}
