//! The environment variables that a template gives to its function, on this machine.

use crate::references::replaced;
use crate::template::Template;
use crate::{ACCOUNT_ID, REGION};
use sqs_once_doctor::{Field, Function};

impl Template {
    /// The function's environment variables, each with its value on this machine, or why it has none. References to
    /// resources are those of local ones, and parameters have their defaults.
    pub fn environment(
        &self,
        function: &Function,
        queue_url: impl Fn(&str) -> String,
    ) -> Vec<(String, Result<String, String>)> {
        let value = |value: &Field<String>| match value.known() {
            Some(text) => replaced(text, |reference| self.value(reference, &queue_url)),
            None => Err("only a deployment computes it".to_owned()),
        };
        let variables = function.environment.iter();
        let variables = variables.filter(|(_, text)| !text.is_missing());
        let variables = variables.map(|(name, text)| (name.clone(), value(text)));
        variables.collect()
    }

    fn value(
        &self,
        reference: &str,
        queue_url: &impl Fn(&str) -> String,
    ) -> Result<String, String> {
        if let Some(parameter) = self.references.parameter(reference) {
            return parameter;
        }
        let unknown = || match reference.split('.').next() {
            Some(id) if self.references.lack(id) => format!("the template has no `{id}`"),
            _ => format!("`{reference}` is known only after a deployment"),
        };
        let (resource, attribute) = match (self.resource(reference), reference.rsplit_once('.')) {
            (None, Some((id, attribute))) => (self.resource(id), attribute),
            (resource, _) => (resource, ""),
        };
        let (service, name) = resource.ok_or_else(unknown)?;
        let arn = |kind: &str| match &*service {
            "s3" => format!("arn:aws:s3:::{name}"),
            _ => format!("arn:aws:{service}:{REGION}:{ACCOUNT_ID}:{kind}{name}"),
        };
        Ok(match (&*service, attribute) {
            ("sqs", "" | "QueueUrl" | "url" | "id") => queue_url(&name),
            ("sns", "" | "TopicArn" | "id") => arn(""),
            ("states", "" | "Arn" | "arn" | "id") => arn("stateMachine:"),
            ("dynamodb", "Arn" | "arn") => arn("table/"),
            ("lambda", "Arn" | "arn") => arn("function:"),
            (_, "Arn" | "arn") => arn(""),
            (_, "" | "id" | "name" | "bucket" | "QueueName" | "TopicName") => name,
            _ => return Err(unknown()),
        })
    }

    /// The service and the name of a resource. Queues and tables have them as the local ones.
    fn resource(&self, id: &str) -> Option<(String, String)> {
        if let Some(queue) = self.queues().iter().find(|queue| queue.site.id == id) {
            return Some(("sqs".to_owned(), self.queue_name(queue)));
        }
        match self.table_of(id) {
            Some(table) => Some(("dynamodb".to_owned(), table.name.clone())),
            None => self.references.resource(id),
        }
    }
}
