//! Prints what the doctor knows of a deployment, with roles instead of names: `cargo run --example deployment -- template.yaml`.
//!
//! Deployments by SAM, CDK and Terraform that do the same print the same.

use sqs_once_doctor::{
    Deployment, Field, Function, Mapping, Metric, Queue, Scope, Source, Table, Target,
};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{Debug, Display};
use std::path::PathBuf;

#[expect(clippy::print_stdout, reason = "it is what the example is for")]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args_os().nth(1).map(PathBuf::from);
    let path = path.ok_or("it takes the path of a template, or the folder of a configuration")?;
    let deployment = Source::read(&path)?.deployment()?;
    for line in Roles::of(&deployment).lines(&deployment) {
        println!("{line}");
    }
    Ok(())
}

/// The purpose of each resource, by its name.
struct Roles(BTreeMap<String, String>);

impl Roles {
    fn of(deployment: &Deployment) -> Self {
        let mut roles = BTreeMap::new();
        let is_of_bus = |queue: &Queue| {
            let mut failures = deployment.subscribers.iter().map(|it| it.failures.known());
            failures.any(|it| it.is_some_and(|to| to.is(&queue.site.id)))
        };
        for queue in &deployment.queues {
            let role = match queue.dead_letter_queue {
                _ if is_of_bus(queue) => "the queue of undelivered events",
                Field::Missing => "the dead-letter queue",
                _ => "the queue",
            };
            roles.insert(queue.site.id.clone(), role.to_owned());
        }
        for table in &deployment.tables {
            let role = format!("the table of {}", value(&table.partition_key));
            roles.insert(table.site.id.clone(), role);
        }
        for function in &deployment.functions {
            roles.insert(function.site.id.clone(), "the function".to_owned());
        }
        Self(roles)
    }

    fn lines(&self, deployment: &Deployment) -> BTreeSet<String> {
        let functions = deployment.functions.iter().flat_map(|it| self.function(it));
        let mappings = deployment.mappings.iter().flat_map(|it| self.mapping(it));
        let queues = deployment.queues.iter().flat_map(|it| self.queue(it));
        let tables = deployment.tables.iter().flat_map(|it| self.table(it));
        let alarms = deployment.alarms.iter().map(|alarm| {
            let watched: BTreeSet<_> = alarm.metrics.iter().map(|it| self.metric(it)).collect();
            let watched: Vec<_> = watched.into_iter().collect();
            format!("an alarm watches {}", watched.join(", "))
        });
        let senders = (deployment.senders.iter())
            .map(|it| format!("{} sends to {}", it.service, self.target(&it.queue)));
        let subscribers = deployment.subscribers.iter().map(|it| {
            let (queue, failures) = (self.target(&it.target), self.target(&it.failures));
            let (order, id) = (value(&it.order), value(&it.deduplication_id));
            format!(
                "a subscriber sends to {queue} in order {order} by {id}, failures to {failures}"
            )
        });
        (functions.chain(mappings).chain(queues).chain(tables))
            .chain(alarms)
            .chain(senders)
            .chain(subscribers)
            .collect()
    }

    fn function(&self, function: &Function) -> Vec<String> {
        let mut lines = vec![
            format!("function: timeout {}", value(&function.timeout)),
            format!("function: runtime {}", value(&function.runtime)),
            format!("function: memory {}", value(&function.memory_mb)),
            format!(
                "function: reserves {}",
                value(&function.reserved_concurrency)
            ),
        ];
        for (name, text) in &function.environment {
            let set = match (function.reference(name), text.known()) {
                (Field::Missing, Some(text)) if !text.contains("${") => text.clone(),
                (reference, _) => self.target(reference),
            };
            lines.push(format!("function: {name} = {set}"));
        }
        for statement in &function.permissions.statements {
            let effect = if statement.allows { "may" } else { "may not" };
            for resource in &statement.resources {
                let resource = match resource {
                    Scope::Everything => "everything".to_owned(),
                    Scope::One(target) => self.named(target),
                    _ => "something else".to_owned(),
                };
                let actions = statement.actions.iter();
                lines.extend(actions.map(|it| format!("function: {effect} {it} on {resource}")));
            }
        }
        lines
    }

    fn mapping(&self, mapping: &Mapping) -> Vec<String> {
        vec![
            format!("mapping: from {}", self.target(&mapping.queue)),
            format!("mapping: {} a batch", value(&mapping.batch_size)),
            format!("mapping: waits {}", value(&mapping.window)),
            format!("mapping: at most {}", value(&mapping.maximum_concurrency)),
            format!(
                "mapping: item failures {}",
                or(&mapping.reports_failures, false)
            ),
        ]
    }

    fn queue(&self, queue: &Queue) -> Vec<String> {
        let role = &self.0[&queue.site.id];
        vec![
            format!("{role}: FIFO {}", or(&queue.is_fifo, false)),
            format!("{role}: visibility {}", value(&queue.visibility_timeout)),
            format!("{role}: retention {}", value(&queue.retention)),
            format!(
                "{role}: dead letters to {}",
                self.target(&queue.dead_letter_queue)
            ),
            format!("{role}: after {} receives", value(&queue.max_receive_count)),
            format!(
                "{role}: deduplicates {}",
                or(&queue.content_based_deduplication, false)
            ),
            format!("{role}: encrypted {}", value(&queue.is_encrypted_by_sqs)),
            format!(
                "{role}: denies plain HTTP {}",
                or(&queue.denies_plain_http, false)
            ),
        ]
    }

    fn table(&self, table: &Table) -> Vec<String> {
        let role = &self.0[&table.site.id];
        vec![
            format!("{role}: sorted by {}", value(&table.sort_key)),
            format!("{role}: expires by {}", value(&table.ttl_attribute)),
            format!("{role}: TTL {}", or(&table.ttl_is_enabled, false)),
            format!("{role}: protected {}", or(&table.is_protected, false)),
        ]
    }

    fn metric(&self, metric: &Metric) -> String {
        let (namespace, name) = (value(&metric.namespace), value(&metric.name));
        format!("{namespace} {name} of {}", self.target(&metric.queue))
    }

    fn target(&self, field: &Field<Target>) -> String {
        match field {
            Field::Known(target, _) => self.named(target),
            Field::Missing => "nothing".to_owned(),
            Field::Unknown => "something else".to_owned(),
        }
    }

    fn named(&self, target: &Target) -> String {
        let own = self.0.iter().filter(|(id, _)| target.is(id));
        // Of a queue and a function with one name, the queue.
        let role = own.map(|(_, role)| role.as_str()).max();
        role.unwrap_or("something else").to_owned()
    }
}

fn value<T: Debug>(field: &Field<T>) -> String {
    match field {
        Field::Known(value, _) => format!("{value:?}"),
        Field::Missing => "the default".to_owned(),
        Field::Unknown => "computed".to_owned(),
    }
}

fn or<T: Copy + Display>(field: &Field<T>, default: T) -> String {
    (field.or(default)).map_or_else(|| "computed".to_owned(), |value| value.to_string())
}
