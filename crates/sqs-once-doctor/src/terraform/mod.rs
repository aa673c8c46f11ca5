//! Reads a Terraform plan from the JSON of `terraform show -json`, or a configuration.
//!
//! Known values come from the plan. A value known only after the apply is looked up in the plan's configuration: a
//! reference there must name a resource of the same module. [`configuration`] evaluates a configuration into a plan.

mod block;
mod configuration;
mod expression;
mod functions;
mod parts;
mod policies;
mod resources;
mod senders;

use crate::error::ReadError;
use crate::field::{Field, Place};
use crate::model::{Admitted, Deployment, Format, Site, Target, Unread};
pub(crate) use configuration::{Spot, is_configuration, is_part};
use resources::{Resource, Resources, block};
use serde_json::Value;
use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

/// Reads a plan. `None` if the text is not a plan.
pub(crate) fn read(text: &str) -> Option<Deployment> {
    let plan: Value = serde_json::from_str(text).ok()?;
    plan.get("planned_values")?;
    Some(deployment(&plan))
}

/// Reads the configuration in a folder. Also returns the position of each resource and module, by address.
pub(crate) fn read_configuration(
    folder: &Path,
) -> Result<(Deployment, HashMap<String, Spot>), ReadError> {
    let configuration = configuration::evaluate(folder)?;
    let mut deployment = deployment(&configuration.plan);
    // A part that was not examined may have any resources.
    deployment.has_more = !configuration.unread.is_empty();
    for name in configuration.unread {
        let place = Place::of(&*name);
        deployment.unread.push(Unread { place, name });
    }
    Ok((deployment, configuration.spots))
}

/// Evaluates the Terraform configuration in `folder`, without Terraform and without AWS.
///
/// The result has the shape of `terraform show -json` for a plan, as far as the doctor reads it: `planned_values` and
/// `resource_changes`. A value that only AWS knows is a text such as `${aws_sqs_queue.orders.arn}`. Variables have the
/// values of `terraform.tfvars` and `*.auto.tfvars`, or their defaults.
///
/// # Errors
/// [`ReadError::Io`] for a file that cannot be read, and [`ReadError::Hcl`] for one that is not valid.
pub fn evaluate_terraform(folder: &Path) -> Result<Value, ReadError> {
    Ok(configuration::evaluate(folder)?.plan)
}

fn deployment(plan: &Value) -> Deployment {
    let resources = Resources::of(plan);
    let mut deployment = Deployment {
        format: Format::Terraform,
        ..Deployment::default()
    };
    let reader = |resource| Reader {
        resources: &resources,
        resource,
    };
    for of in resources.all.iter().map(reader) {
        match of.resource.kind {
            "aws_lambda_function" => deployment.functions.push(of.function()),
            "aws_lambda_event_source_mapping" => deployment.mappings.extend(of.mapping()),
            "aws_sqs_queue" => deployment.queues.push(of.queue()),
            "aws_dynamodb_table" => deployment.tables.push(of.table()),
            "aws_kms_key" => deployment.keys.push(of.kms_key()),
            "aws_cloudwatch_metric_alarm" => deployment.alarms.push(of.alarm()),
            "aws_pipes_pipe" => deployment.pipes.push(of.pipe()),
            "awscc_eventsv2_event_bus" => deployment.buses.push(of.bus()),
            "awscc_eventsv2_subscriber" => deployment.subscribers.push(of.subscriber()),
            _ => deployment.senders.extend(of.senders()),
        }
        deployment.references.extend(of.queue_reference());
    }
    // Some configurations set the redrive policy in a separate resource.
    for of in resources.all.iter().map(reader) {
        let is_redrive = of.resource.kind == "aws_sqs_queue_redrive_policy";
        if !is_redrive && of.resource.kind != "aws_sqs_queue_policy" {
            continue;
        }
        let queue = of.target(&["queue_url"]);
        for it in &mut deployment.queues {
            match queue.known() {
                Some(queue) if queue.is(&it.site.id) && is_redrive => {
                    (it.dead_letter_queue, it.max_receive_count) = of.redrive();
                }
                Some(queue) if queue.is(&it.site.id) => {
                    it.has_policy(of.denies_plain_http(&it.site.id), of.admits(&it.site.id));
                }
                // The policy may be for this queue.
                None if !is_redrive => it.has_policy(Field::Unknown, Admitted::unknown()),
                None if it.dead_letter_queue.is_missing() => it.dead_letter_queue = Field::Unknown,
                _ => {}
            }
        }
    }
    deployment
}

/// Reads one resource.
pub(crate) struct Reader<'a> {
    pub(crate) resources: &'a Resources<'a>,
    pub(crate) resource: &'a Resource<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn other(&self, resource: &'a Resource<'a>) -> Self {
        Self { resource, ..*self }
    }

    fn site(&self) -> Site {
        Site {
            id: self.resource.address.to_owned(),
            place: self.place(),
            properties: Vec::new(),
            condition: None,
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place::of(self.resource.address)
    }

    /// A planned value. A block is a list, of which this reads the first element.
    pub(crate) fn field<T>(
        &self,
        path: &[&str],
        parse: impl FnOnce(&Value) -> Option<T>,
    ) -> Field<T> {
        let mut value = self.resource.values;
        for (depth, name) in path.iter().enumerate() {
            if value.as_array().is_some_and(Vec::is_empty) {
                return Field::Missing;
            }
            value = match block(value).get(name) {
                Some(value) => value,
                None if self.resources.leaves_out(self.resource, path[0]) => {
                    return Field::Missing;
                }
                // Terraform writes null for an absent value and omits an unknown one.
                None if self.resource.is_unknown(&path[..=depth]) => return Field::Unknown,
                None => return Field::Missing,
            };
        }
        match value {
            Value::Null => Field::Missing,
            value => Field::Known(value, self.place()).and_then(parse),
        }
    }

    /// A text. A text with a value that only AWS knows is unknown.
    pub(crate) fn text(&self, path: &[&str]) -> Field<String> {
        let text = self.reference(path);
        text.and_then(|text| Some(text).filter(|text| !text.contains("${")))
    }

    /// A text, in which a value that only AWS knows is `${aws_sqs_queue.orders.arn}`.
    pub(crate) fn reference(&self, path: &[&str]) -> Field<String> {
        self.field(path, |value| match value {
            Value::String(text) => Some(text.clone()),
            Value::Bool(_) | Value::Number(_) => Some(value.to_string()),
            _ => None,
        })
    }

    /// The blocks or values of an attribute.
    pub(crate) fn list(&self, name: &str) -> Field<Vec<Value>> {
        self.field(&[name], |value| value.as_array().cloned())
    }

    /// The function that a value names, also by an alias.
    pub(crate) fn function_of(&self, path: &[&str]) -> Field<Target> {
        self.behind(path, "aws_lambda_alias", "function_name")
    }

    /// The target of a value. If it is a resource of this kind, the target of the resource's attribute instead.
    fn behind(&self, path: &[&str], kind: &str, attribute: &str) -> Field<Target> {
        let target = self.target(path);
        let alias = target.known();
        match alias.and_then(|it| self.resources.of_kind(it, kind)) {
            Some(alias) => self.other(alias).target(&[attribute]),
            None => target,
        }
    }

    /// Whether a block is there.
    fn block(&self, name: &str) -> Field<()> {
        match self.list(name) {
            Field::Known(blocks, _) if blocks.is_empty() => Field::Missing,
            other => other.and_then(|_| Some(())),
        }
    }

    fn number(&self, path: &[&str]) -> Field<u64> {
        self.field(path, number)
    }

    fn seconds(&self, path: &[&str]) -> Field<Duration> {
        self.number(path)
            .and_then(|seconds| Some(Duration::from_secs(seconds)))
    }

    fn flag(&self, path: &[&str]) -> Field<bool> {
        self.field(path, Value::as_bool)
    }

    /// The target of a value, by the planned value or by its expression in the configuration.
    pub(crate) fn target(&self, path: &[&str]) -> Field<Target> {
        match self.reference(path) {
            Field::Missing => Field::Missing,
            // A variable or a data source may be any resource.
            Field::Known(text, _) if self.resources.is_unknown(&text) => Field::Unknown,
            Field::Known(text, place) => Field::Known(self.resources.named(&text), place),
            Field::Unknown => self.referred(path, None),
        }
    }

    /// The only resource, of this kind or of any, that an attribute's expression refers to.
    fn referred(&self, path: &[&str], kind: Option<&str>) -> Field<Target> {
        match self.resources.referred(self.resource, path, kind) {
            Some(address) => Field::Known(Target::Own(address), self.place()),
            None => Field::Unknown,
        }
    }
}

/// A number, which may be written as text.
fn number(value: &Value) -> Option<u64> {
    match value {
        Value::String(text) => text.parse().ok(),
        value => value.as_u64(),
    }
}
