//! Reads the function, its table and its queues from a template or a Terraform configuration.

use crate::references::References;
use crate::table::{KeyAttribute, KeyType, TableDescription};
use sqs_once_doctor::{Deployment, Function, Mapping, Queue, ReadError, Source, Table};
use std::path::Path;

/// The parts of a template that are needed to run its function locally.
///
/// `sqs-once-doctor` reads the template. Values that only the deployment knows count as missing, but names and
/// environment variables have local values as far as possible.
#[derive(Debug, Clone)]
pub struct Template {
    deployment: Deployment,
    /// In the order of the deployment's tables.
    tables: Vec<TableDescription>,
    pub(crate) references: References,
}

impl Template {
    /// Reads the template at `path`.
    ///
    /// # Errors
    /// [`TemplateError::Read`] if the file can't be read or has no `Resources`, and [`TemplateError::Table`] if it describes
    /// a table that DynamoDB would refuse.
    pub fn read(path: &Path) -> Result<Self, TemplateError> {
        let source = Source::read(path)?;
        // A folder is a Terraform configuration, whose references name the kinds of resources.
        Self::new(&source, &std::fs::read_to_string(path).unwrap_or_default())
    }

    /// Parses a template in YAML or JSON.
    ///
    /// # Errors
    /// The errors of [`Template::read`].
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        Self::new(&Source::new(Path::new("template.yaml"), text), text)
    }

    fn new(source: &Source, text: &str) -> Result<Self, TemplateError> {
        let deployment = source.deployment()?;
        let tables = deployment.tables.iter().map(description);
        let template = Self {
            tables: tables.collect::<Result<_, _>>()?,
            deployment,
            references: References::parse(text),
        };
        Ok(template.named_by_references())
    }

    /// Sets the name of the stack, `AWS::StackName`, from which names may be made.
    pub fn in_stack(mut self, name: &str) -> Self {
        self.references.stack = Some(name.to_owned());
        self.named_by_references()
    }

    fn named_by_references(mut self) -> Self {
        for (table, described) in self.deployment.tables.iter().zip(&mut self.tables) {
            if let Some(name) = self.references.name(&table.site.id) {
                described.name = name;
            }
        }
        self
    }

    /// Returns the function whose binary is `binary`. Without a match, returns the template's only function unless it
    /// names another binary, so that a function never runs with the settings of another.
    pub fn function(&self, binary: Option<&str>) -> Option<&Function> {
        let functions = &self.deployment.functions;
        let of = |function: &Function| function.binary.known().cloned();
        functions
            .iter()
            .find(|function| binary.is_some() && of(function).as_deref() == binary)
            .or(match functions.as_slice() {
                [only] if binary.is_none() || of(only).is_none() => Some(only),
                _ => None,
            })
    }

    /// All functions.
    pub fn functions(&self) -> &[Function] {
        &self.deployment.functions
    }

    /// All queues.
    pub fn queues(&self) -> &[Queue] {
        &self.deployment.queues
    }

    /// The queue's name in the template, or else its resource's. The name of a FIFO queue ends in `.fifo`.
    pub fn queue_name(&self, queue: &Queue) -> String {
        let given = self.references.name(&queue.site.id);
        let given = given.or_else(|| queue.name.known().cloned());
        let name = given.unwrap_or_else(|| queue.site.id.clone());
        match queue.is_fifo.known() {
            Some(true) if !name.ends_with(".fifo") => format!("{name}.fifo"),
            _ => name,
        }
    }

    /// The dead-letter queue of `queue`, if it is in the template.
    pub fn dead_letters(&self, queue: &Queue) -> Option<&Queue> {
        self.deployment.queue(&queue.dead_letter_queue)
    }

    /// The event source mappings to `function`, each with the name of its queue if the template has that queue.
    pub fn mappings(&self, function: &Function) -> Vec<(&Mapping, Option<String>)> {
        let mappings = self.deployment.mappings.iter();
        let mappings = mappings.filter(|mapping| {
            let target = mapping.function.known();
            // A source that is not known may be a stream.
            mapping.queue.known().is_some() && target.is_some_and(|it| it.is(&function.site.id))
        });
        let queue = |mapping: &Mapping| {
            let queue = self.deployment.queue(&mapping.queue)?;
            Some(self.queue_name(queue))
        };
        mappings.map(|mapping| (mapping, queue(mapping))).collect()
    }

    /// All tables, including tables that are not for idempotency.
    pub fn tables(&self) -> &[TableDescription] {
        &self.tables
    }

    /// The table for the items of `function`: the one that its `SQS_ONCE_TABLE` refers to, or else the template's
    /// only table. The default table if the template has none.
    ///
    /// # Errors
    /// [`TemplateError::WhichTable`] if there are several tables and `SQS_ONCE_TABLE` refers to none of them.
    pub fn table(&self, function: Option<&Function>) -> Result<TableDescription, TemplateError> {
        let target = function.and_then(|function| function.reference("SQS_ONCE_TABLE").known());
        let tables = self.deployment.tables.iter().zip(&self.tables);
        let is_referred = |id: &str| target.is_some_and(|target| target.is(id));
        let referred = tables
            .clone()
            .find(|(table, _)| is_referred(&table.site.id));
        match (referred, self.tables.as_slice()) {
            (Some((_, table)), _) | (None, [table]) => Ok(table.clone()),
            (None, []) => Ok(TableDescription::default()),
            (None, _) => {
                let ids = tables.map(|(table, _)| table.site.id.clone());
                Err(TemplateError::WhichTable(ids.collect()))
            }
        }
    }

    pub(crate) fn table_of(&self, id: &str) -> Option<&TableDescription> {
        let mut tables = self.deployment.tables.iter().zip(&self.tables);
        let (_, described) = tables.find(|(table, _)| table.site.id == id)?;
        Some(described)
    }
}

fn description(table: &Table) -> Result<TableDescription, TemplateError> {
    let error = |problem: String| TemplateError::Table {
        id: table.site.id.clone(),
        problem,
    };
    let key = |name: &String| {
        let kind = table.attribute_types.get(name);
        let kind = kind.and_then(|kind| KeyType::from_name(kind));
        let kind = kind.ok_or_else(|| {
            error(format!(
                "AttributeDefinitions gives the key `{name}` no type S, N or B: \
                 add {{ AttributeName: {name}, AttributeType: S }}"
            ))
        })?;
        Ok::<_, TemplateError>(KeyAttribute {
            name: name.clone(),
            kind,
        })
    };
    let partition_key = table.partition_key.known();
    let partition_key =
        partition_key.ok_or_else(|| error("KeySchema names no HASH key".to_owned()))?;
    let has_ttl = table.ttl_is_enabled.known() == Some(&true);
    Ok(TableDescription {
        name: table.name.known().unwrap_or(&table.site.id).clone(),
        partition_key: key(partition_key)?,
        sort_key: table.sort_key.known().map(key).transpose()?,
        ttl_attribute: table.ttl_attribute.known().filter(|_| has_ttl).cloned(),
    })
}

/// The template can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The file can't be read, or is not a template.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// A table's description is invalid.
    #[error("the table `{id}` of the template can't be made: {problem}")]
    Table {
        /// The table's name in the template.
        id: String,
        /// The problem.
        problem: String,
    },
    /// The template describes several tables.
    #[error(
        "the template describes several tables ({list}): say which one with `SQS_ONCE_TABLE: !Ref …` \
         in the function's environment",
        list = .0.join(", ")
    )]
    WhichTable(
        /// Their names in the template.
        Vec<String>,
    ),
}
