//! Helpers to read a template's YAML.

use saphyr::Yaml;

/// Returns the node at a path of names.
pub(super) fn at<'a, 'input>(node: &'a Yaml<'input>, path: &[&str]) -> Option<&'a Yaml<'input>> {
    path.iter()
        .try_fold(node, |node, name| node.as_mapping_get(name))
}

pub(super) fn text_at<'a>(node: &'a Yaml<'_>, path: &[&str]) -> Option<&'a str> {
    at(node, path)?.as_str()
}

/// Returns a whole number, which templates may also write as a string.
pub(super) fn number_at(node: &Yaml<'_>, path: &[&str]) -> Option<u32> {
    literal(at(node, path)?)?.parse().ok()
}

pub(super) fn is_true_at(node: &Yaml<'_>, path: &[&str]) -> bool {
    at(node, path)
        .and_then(literal)
        .is_some_and(|flag| flag.eq_ignore_ascii_case("true"))
}

/// Returns a scalar as text. Returns `None` for a tagged value, a mapping or a sequence.
pub(super) fn literal(value: &Yaml<'_>) -> Option<String> {
    if matches!(value, Yaml::Tagged(..)) {
        return None;
    }
    value
        .as_str()
        .map(str::to_owned)
        .or_else(|| value.as_integer().map(|number| number.to_string()))
        .or_else(|| value.as_floating_point().map(|number| number.to_string()))
        .or_else(|| value.as_bool().map(|flag| flag.to_string()))
}

/// A reference to a resource: `!Ref Queue`, `!GetAtt Queue.Arn`, or the long form of either.
pub(super) struct Reference<'a> {
    pub(super) logical_id: &'a str,
    pub(super) attribute: Option<&'a str>,
}

impl<'a> Reference<'a> {
    pub(super) fn of(value: &'a Yaml<'_>) -> Option<Self> {
        let (name, node) = match value {
            Yaml::Tagged(tag, node) => (tag.suffix.as_str(), &**node),
            value => {
                let (name, node) = value.as_mapping()?.iter().next()?;
                let name = name.as_str()?;
                (name.strip_prefix("Fn::").unwrap_or(name), node)
            }
        };
        match name {
            "Ref" => Some(Self {
                logical_id: node.as_str()?,
                attribute: None,
            }),
            "GetAtt" => {
                let parts = node.as_sequence().map(Vec::as_slice);
                let (logical_id, attribute) = match parts {
                    Some([logical_id, attribute]) => (logical_id.as_str()?, attribute.as_str()?),
                    Some(_) => return None,
                    None => node.as_str()?.split_once('.')?,
                };
                Some(Self {
                    logical_id,
                    attribute: Some(attribute),
                })
            }
            _ => None,
        }
    }
}
