//! What the references of a template are on this machine.

use crate::{ACCOUNT_ID, REGION};
use saphyr::{LoadableYamlNode, Yaml};
use std::collections::BTreeMap;

/// The properties that name a resource.
const NAMES: [&str; 5] = [
    "BucketName",
    "FunctionName",
    "QueueName",
    "TableName",
    "TopicName",
];

/// The parts of a template that references lead to.
#[derive(Debug, Clone, Default)]
pub(crate) struct References {
    /// The stack's name, which a deployment chooses.
    pub(crate) stack: Option<String>,
    /// For each resource its type, and its name in the syntax of `Fn::Sub`.
    resources: BTreeMap<String, (String, Option<String>)>,
    /// The defaults of the parameters.
    parameters: BTreeMap<String, Option<String>>,
}

impl References {
    /// Reads a template. The doctor has read it before, so it is neither too large nor too deep.
    pub(crate) fn parse(text: &str) -> Self {
        let documents = Yaml::load_from_str(text.trim_start_matches('\u{feff}'));
        let documents = documents.unwrap_or_default();
        let entries = |section: &str| {
            let section = documents.first().and_then(|it| it.as_mapping_get(section));
            let entries = section.and_then(Yaml::as_mapping).into_iter().flatten();
            entries.filter_map(|(name, value)| {
                let kind = value.as_mapping_get("Type").and_then(Yaml::as_str);
                Some((name.as_str()?.to_owned(), kind?.to_owned(), value))
            })
        };
        let resources = entries("Resources").map(|(id, kind, resource)| {
            let properties = resource.as_mapping_get("Properties");
            let mut names = NAMES.iter();
            let name = names.find_map(|name| text_of(properties?.as_mapping_get(name)?));
            (id, (kind, name))
        });
        let parameters = entries("Parameters").map(|(name, kind, parameter)| {
            let default = parameter.as_mapping_get("Default").and_then(scalar);
            // The default of a parameter in SSM is the name of its value.
            (name, default.filter(|_| !kind.starts_with("AWS::SSM::")))
        });
        Self {
            stack: None,
            resources: resources.collect(),
            parameters: parameters.collect(),
        }
    }

    /// The name that the template gives to a resource, if it is known before a deployment.
    pub(crate) fn name(&self, id: &str) -> Option<String> {
        let (_, name) = self.resources.get(id)?;
        let unknown = || Err(String::new());
        replaced(name.as_ref()?, |name| {
            self.parameter(name).unwrap_or_else(unknown)
        })
        .ok()
    }

    /// The value of a parameter, also of one of AWS's own.
    pub(crate) fn parameter(&self, name: &str) -> Option<Result<String, String>> {
        let own = match name {
            "AWS::Region" => REGION,
            "AWS::AccountId" => ACCOUNT_ID,
            "AWS::Partition" => "aws",
            "AWS::URLSuffix" => "amazonaws.com",
            "AWS::StackName" => self.stack.as_deref()?,
            _ => {
                let default = self.parameters.get(name)?.clone();
                let missing = || format!("the parameter `{name}` has no default");
                return Some(default.ok_or_else(missing));
            }
        };
        Some(Ok(own.to_owned()))
    }

    /// Whether the template, which is not Terraform's, has no resource of this name.
    pub(crate) fn lack(&self, id: &str) -> bool {
        let is_own = id.contains("::");
        !is_own && !self.resources.is_empty() && !self.resources.contains_key(id)
    }

    /// The service and the name of a resource.
    pub(crate) fn resource(&self, id: &str) -> Option<(String, String)> {
        let Some((kind, _)) = self.resources.get(id) else {
            // An address of Terraform, such as `module.orders.aws_s3_bucket.bodies`.
            let mut parts = id.rsplit('.');
            let (name, kind) = (parts.next()?, parts.next()?);
            let service = kind.strip_prefix("aws_")?.split('_').next()?;
            let service = match service {
                "sfn" => "states",
                service => service,
            };
            return Some((service.to_owned(), name.to_owned()));
        };
        let service = match &**kind {
            "AWS::Serverless::Function" => "lambda".to_owned(),
            "AWS::Serverless::StateMachine" | "AWS::StepFunctions::StateMachine" => {
                "states".to_owned()
            }
            kind => kind.split("::").nth(1)?.to_ascii_lowercase(),
        };
        let unnamed = || match &*service {
            "s3" => id.to_ascii_lowercase(),
            _ => id.to_owned(),
        };
        let name = self.name(id).unwrap_or_else(unnamed);
        Some((service, name))
    }
}

/// Replaces the references in a text in the syntax of `Fn::Sub`.
pub(crate) fn replaced(
    text: &str,
    value: impl Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let mut parts = text.split("${");
    let mut replaced = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.split_once('}') {
            Some((reference, rest)) if !reference.starts_with('!') => {
                replaced += &(value(reference)? + rest);
            }
            _ => replaced += &format!("${{{}", part.strip_prefix('!').unwrap_or(part)),
        }
    }
    Ok(replaced)
}

/// A name in the syntax of `Fn::Sub`: a text, `Ref`, or `Fn::Sub` without variables of its own.
fn text_of(value: &Yaml<'_>) -> Option<String> {
    let (function, argument) = match value {
        Yaml::Tagged(tag, argument) => (tag.suffix.as_str(), &**argument),
        Yaml::Mapping(entries) => {
            let (function, argument) = entries.iter().next()?;
            (function.as_str()?.trim_start_matches("Fn::"), argument)
        }
        text => return Some(scalar(text)?.replace("${", "${!")),
    };
    match (function, argument.as_str()?) {
        ("Ref", name) => Some(format!("${{{name}}}")),
        ("Sub", text) => Some(text.to_owned()),
        _ => None,
    }
}

fn scalar(value: &Yaml<'_>) -> Option<String> {
    let number = || Some(value.as_integer()?.to_string());
    let flag = || Some(value.as_bool()?.to_string());
    let text = value.as_str().map(str::to_owned);
    text.or_else(number).or_else(flag)
}
