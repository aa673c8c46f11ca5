//! Reads the function, its table and its queues from a SAM or CloudFormation template.

mod node;
mod queue;

pub use queue::{MappingResource, QueueResource};

use crate::table::{KeyAttribute, KeyType, TableDescription};
use node::{Reference, at, literal, text_at};
use saphyr::{LoadableYamlNode, Yaml};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The parts of a template that are needed to run its function locally.
///
/// Intrinsic functions are not evaluated, and properties that use them count as missing. The exceptions are references
/// to a table, which become the table's name, and references to a queue.
#[derive(Debug, Clone)]
pub struct Template {
    functions: Vec<FunctionResource>,
    tables: Vec<Table>,
    queues: Vec<QueueResource>,
    mappings: Vec<MappingResource>,
}

/// A Lambda function of a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FunctionResource {
    /// The resource's name in the template.
    pub logical_id: String,
    /// The binary that cargo-lambda builds for it (`Metadata.BuildProperties.Binary`).
    pub binary: Option<String>,
    /// Its timeout.
    pub timeout: Option<Duration>,
    /// Its memory size in MB.
    pub memory_mb: Option<u32>,
    /// Its environment variables whose values are literals or references to a table.
    pub environment: Vec<(String, String)>,
    /// Its environment variables that are the URL of a queue, each with that queue's name.
    pub queue_urls: Vec<(String, String)>,
}

#[derive(Debug, Clone)]
struct Table {
    logical_id: String,
    description: TableDescription,
}

impl Template {
    /// Reads the template at `path`.
    ///
    /// # Errors
    /// [`TemplateError::Read`] if the file can't be read, otherwise the errors of [`Template::parse`].
    pub fn read(path: &Path) -> Result<Self, TemplateError> {
        let text = std::fs::read_to_string(path).map_err(|source| TemplateError::Read {
            path: path.to_owned(),
            source,
        })?;
        Self::parse(&text)
    }

    /// Parses a template in YAML or JSON.
    ///
    /// # Errors
    /// [`TemplateError`] if the text is neither, has no `Resources`, or describes a table that DynamoDB would refuse.
    pub fn parse(text: &str) -> Result<Self, TemplateError> {
        let documents =
            Yaml::load_from_str(text).map_err(|source| TemplateError::Yaml(Box::new(source)))?;
        let root = documents.first().ok_or(TemplateError::NoResources)?;
        let resources = root
            .as_mapping_get("Resources")
            .and_then(Yaml::as_mapping)
            .ok_or(TemplateError::NoResources)?;
        let resources: Vec<(&str, &str, &Yaml<'_>)> = resources
            .iter()
            .filter_map(|(id, resource)| {
                Some((id.as_str()?, text_at(resource, &["Type"])?, resource))
            })
            .collect();

        let tables = resources
            .iter()
            .filter(|(_, kind, _)| *kind == "AWS::DynamoDB::Table")
            .map(|(id, _, resource)| table(id, resource))
            .collect::<Result<Vec<_>, _>>()?;
        let queues = queue::queues(&resources);
        let functions: Vec<_> = resources
            .iter()
            .filter(|(_, kind, _)| {
                matches!(*kind, "AWS::Serverless::Function" | "AWS::Lambda::Function")
            })
            .map(|(id, _, resource)| function(id, resource, root, &tables, &queues))
            .collect();
        let mappings = queue::mappings(&resources, &queues);
        Ok(Self {
            functions,
            tables,
            queues,
            mappings,
        })
    }

    /// Returns the function whose binary is `binary`. Without a match, returns the template's only function unless it
    /// names another binary, so that a function never runs with the settings of another.
    pub fn function(&self, binary: Option<&str>) -> Option<&FunctionResource> {
        self.functions
            .iter()
            .find(|function| binary.is_some() && function.binary.as_deref() == binary)
            .or(match self.functions.as_slice() {
                [only] if binary.is_none() || only.binary.is_none() => Some(only),
                _ => None,
            })
    }

    /// All functions.
    pub fn functions(&self) -> &[FunctionResource] {
        &self.functions
    }

    /// All queues.
    pub fn queues(&self) -> &[QueueResource] {
        &self.queues
    }

    /// The template's event source mappings from a queue to `function`.
    pub fn mappings<'a>(
        &'a self,
        function: &'a FunctionResource,
    ) -> impl Iterator<Item = &'a MappingResource> {
        self.mappings
            .iter()
            .filter(|mapping| mapping.function == function.logical_id)
    }

    /// All tables, including tables that are not for idempotency records.
    pub fn tables(&self) -> impl Iterator<Item = &TableDescription> {
        self.tables.iter().map(|table| &table.description)
    }

    /// The table for the records of `function`: the one that its `SQS_ONCE_TABLE` refers to, or else the template's
    /// only table. The default table if the template has none.
    ///
    /// # Errors
    /// [`TemplateError::WhichTable`] if there are several tables and `SQS_ONCE_TABLE` refers to none of them.
    pub fn table(
        &self,
        function: Option<&FunctionResource>,
    ) -> Result<TableDescription, TemplateError> {
        let wanted = function
            .and_then(|function| {
                function
                    .environment
                    .iter()
                    .find(|(name, _)| name == "SQS_ONCE_TABLE")
            })
            .map(|(_, value)| value.as_str());
        let referred = self
            .tables
            .iter()
            .find(|table| Some(table.description.name.as_str()) == wanted);
        match (referred, self.tables.as_slice()) {
            (Some(table), _) | (None, [table]) => Ok(table.description.clone()),
            (None, []) => Ok(TableDescription::default()),
            (None, several) => Err(TemplateError::WhichTable(
                several
                    .iter()
                    .map(|table| table.logical_id.clone())
                    .collect(),
            )),
        }
    }
}

fn table(logical_id: &str, resource: &Yaml<'_>) -> Result<Table, TemplateError> {
    let error = |problem: &str| TemplateError::Table {
        logical_id: logical_id.to_owned(),
        problem: problem.to_owned(),
    };
    let list = |name: &str| {
        at(resource, &["Properties", name])
            .and_then(Yaml::as_sequence)
            .map_or(&[][..], Vec::as_slice)
    };
    let key = |role: &str| {
        let Some(schema) = list("KeySchema")
            .iter()
            .find(|key| text_at(key, &["KeyType"]) == Some(role))
        else {
            return Ok(None);
        };
        let name = text_at(schema, &["AttributeName"])
            .ok_or_else(|| error("an entry of KeySchema has no AttributeName"))?;
        let kind = list("AttributeDefinitions")
            .iter()
            .find(|definition| text_at(definition, &["AttributeName"]) == Some(name))
            .and_then(|definition| text_at(definition, &["AttributeType"]))
            .and_then(KeyType::from_name)
            .ok_or_else(|| {
                error(&format!(
                    "AttributeDefinitions gives the key `{name}` no type S, N or B"
                ))
            })?;
        Ok(Some(KeyAttribute {
            name: name.to_owned(),
            kind,
        }))
    };
    let ttl = at(resource, &["Properties", "TimeToLiveSpecification"]);
    let ttl_enabled = ttl
        .and_then(|ttl| at(ttl, &["Enabled"]))
        .and_then(literal)
        .is_some_and(|enabled| enabled.eq_ignore_ascii_case("true"));
    Ok(Table {
        logical_id: logical_id.to_owned(),
        description: TableDescription {
            name: text_at(resource, &["Properties", "TableName"])
                .unwrap_or(logical_id)
                .to_owned(),
            partition_key: key("HASH")?.ok_or_else(|| error("KeySchema has no HASH key"))?,
            sort_key: key("RANGE")?,
            ttl_attribute: ttl
                .filter(|_| ttl_enabled)
                .and_then(|ttl| text_at(ttl, &["AttributeName"]))
                .map(str::to_owned),
        },
    })
}

fn function(
    logical_id: &str,
    resource: &Yaml<'_>,
    root: &Yaml<'_>,
    tables: &[Table],
    queues: &[QueueResource],
) -> FunctionResource {
    // SAM's Globals apply to every function that does not override them.
    let property = |name: &str| {
        at(resource, &["Properties", name]).or_else(|| at(root, &["Globals", "Function", name]))
    };
    let number = |name: &str| literal(property(name)?)?.parse::<u32>().ok();
    let mut environment: Vec<(String, String)> = Vec::new();
    let mut queue_urls: Vec<(String, String)> = Vec::new();
    let globals = at(root, &["Globals", "Function", "Environment", "Variables"]);
    let own = at(resource, &["Properties", "Environment", "Variables"]);
    for (name, value) in [globals, own]
        .into_iter()
        .flatten()
        .filter_map(Yaml::as_mapping)
        .flatten()
    {
        let Some(name) = name.as_str() else { continue };
        environment.retain(|(known, _)| known != name);
        queue_urls.retain(|(known, _)| known != name);
        let reference = Reference::of(value);
        let table = reference.as_ref().and_then(|one| table_name(one, tables));
        if let Some(value) = literal(value).or(table) {
            environment.push((name.to_owned(), value));
        } else if let Some(queue) = reference.and_then(|one| queue::url_of(&one, queues)) {
            queue_urls.push((name.to_owned(), queue));
        }
    }
    FunctionResource {
        logical_id: logical_id.to_owned(),
        binary: text_at(resource, &["Metadata", "BuildProperties", "Binary"]).map(str::to_owned),
        timeout: number("Timeout").map(|seconds| Duration::from_secs(seconds.into())),
        memory_mb: number("MemorySize"),
        environment,
        queue_urls,
    }
}

/// The name of the referenced table.
fn table_name(reference: &Reference<'_>, tables: &[Table]) -> Option<String> {
    if reference.attribute.is_some() {
        return None;
    }
    let is_it = |table: &&Table| table.logical_id == reference.logical_id;
    let table = tables.iter().find(is_it)?;
    Some(table.description.name.clone())
}

/// The template can't be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TemplateError {
    /// The file can't be read.
    #[error("the template {path} can't be read", path = path.display())]
    Read {
        /// The template's file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The text is not YAML.
    #[error("the template is not valid YAML")]
    Yaml(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The template has no resources.
    #[error("the template has no `Resources`: is it a SAM or CloudFormation template?")]
    NoResources,
    /// A table's description is invalid.
    #[error("the table `{logical_id}` of the template can't be made: {problem}")]
    Table {
        /// The table's name in the template.
        logical_id: String,
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
