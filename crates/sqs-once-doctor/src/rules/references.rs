//! References of the wrong kind.

use super::Problem;
use crate::model::{Deployment, Form, Reference};
use crate::remedy::Remedy;
use serde_json::json;

pub(super) fn wrong(deployment: &Deployment, reference: &Reference) -> Option<Problem> {
    let text = reference.value.known()?;
    let queue = deployment.queue(&reference.target);
    let words = |form| match form {
        Form::Arn => "an ARN",
        Form::Url => "a URL",
        Form::Name => "a name",
    };
    let problem = match (&reference.other, reference.found) {
        (Some(other), _) => format!("{other}, which is no queue of this deployment"),
        (None, Some(found)) if found != reference.wanted => format!(
            "{} for the queue {text}, and needs {}",
            words(found),
            words(reference.wanted)
        ),
        _ => return None,
    };
    let id = queue.map_or(text, |queue| &queue.site.id);
    let (value, hcl) = match reference.wanted {
        Form::Arn => (json!({ "Fn::GetAtt": [id, "Arn"] }), "arn"),
        Form::Url => (json!({ "Ref": id }), "url"),
        Form::Name => (json!({ "Fn::GetAtt": [id, "QueueName"] }), "name"),
    };
    let message = format!("{} has {problem}.", reference.site.id);
    let hcl = format!("{id}.{hcl}");
    let (field, site) = (&reference.value, &reference.site);
    let remedy = Remedy::set(field, site, &[], value, hcl);
    let problem = Problem::at(site.place_of(field), message, remedy);
    Some(problem.automatic_if(queue.is_some() && reference.other.is_none()))
}
