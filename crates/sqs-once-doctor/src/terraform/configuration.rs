//! Evaluates a Terraform configuration into the parts of a plan's JSON that the doctor reads.
//!
//! A value that only AWS knows, such as a queue's ARN, becomes the text `${aws_sqs_queue.orders.arn}`. So references can be
//! followed through variables, locals and modules. A value that can't be evaluated is unknown, as in a plan.

use super::block::{Values, arguments, attribute, instances, value};
use super::expression::{complete, context, policy_document};
use crate::error::{ReadError, read};
use crate::field::position;
use hcl::eval::Context;
use hcl::{Block, Body, Expression, Map, Structure, Value};
use serde_json::{Value as Json, json};
use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// Deeper than real modules are nested.
const DEEPEST: usize = 6;
/// A reference to a reference to a reference needs three rounds.
const ROUNDS: usize = 25;

/// The attributes that the provider computes.
const COMPUTED: [&str; 15] = [
    "arn",
    "id",
    "url",
    "name",
    "function_name",
    "key_id",
    "invoke_arn",
    "qualified_arn",
    "stream_arn",
    "unique_id",
    "version",
    "endpoint",
    "dns_name",
    "hosted_zone_id",
    "event_bus_arn",
];
/// The computed attributes that a plan has in every resource.
const IN_PLAN: [&str; 5] = ["arn", "id", "url", "invoke_arn", "qualified_arn"];
/// The attributes of data sources.
const OF_DATA: [&str; 10] = [
    "arn",
    "id",
    "url",
    "name",
    "json",
    "region",
    "account_id",
    "user_id",
    "partition",
    "dns_suffix",
];
/// A position in a file.
pub(crate) type Spot = (PathBuf, (NonZeroUsize, NonZeroUsize));

/// An evaluated configuration.
#[derive(Default)]
pub(crate) struct Configuration {
    /// As in `terraform show -json`: `planned_values` and `resource_changes`.
    pub(crate) plan: Json,
    /// Where each resource and module is, by address.
    pub(crate) spots: HashMap<String, Spot>,
    /// The resources and modules that were not examined, by address.
    pub(crate) unread: Vec<String>,
    changes: Vec<Json>,
}

impl Configuration {
    /// Leaves out a part that can't be examined.
    fn leave(&mut self, name: String, spot: Spot) {
        self.spots.insert(name.clone(), spot);
        self.unread.push(name);
    }
}

/// Evaluates the configuration in `folder`, with the values of `terraform.tfvars` and `*.auto.tfvars`.
pub(crate) fn evaluate(folder: &Path) -> Result<Configuration, ReadError> {
    let mut all = Configuration::default();
    let mut inputs = Map::new();
    for path in files(folder, &["tfvars"])? {
        let name = name_of(&path);
        if name == "terraform.tfvars" || name.ends_with(".auto.tfvars") {
            let attributes = Body::from(parse(&path)?.0).into_attributes();
            let values = attributes.map(|it| (it.key.to_string(), Value::from(it.expr)));
            inputs.extend(values);
        }
    }
    let root = Module {
        folder: folder.to_owned(),
        prefix: String::new(),
        depth: 0,
        sources: &Sources::default(),
    };
    let (root, _) = root.evaluate(&inputs, &mut all)?;
    let files = files(folder, &["json"])?;
    for path in files.into_iter().filter(|it| is_part(it)) {
        all.leave(name_of(&path), (path, position("", 0)));
    }
    all.plan = json!({
        "planned_values": { "root_module": root },
        "resource_changes": all.changes,
    });
    Ok(all)
}

/// The files of a folder with one of these extensions, sorted by name.
fn files(folder: &Path, extensions: &[&str]) -> Result<Vec<PathBuf>, ReadError> {
    let error = |source| ReadError::Io {
        path: folder.to_owned(),
        source,
    };
    let mut files = Vec::new();
    let folder = match folder == Path::new("") {
        true => Path::new("."),
        false => folder,
    };
    for entry in fs::read_dir(folder).map_err(error)? {
        let path = entry.map_err(error)?.path();
        let extension = path.extension().and_then(|it| it.to_str());
        if extension.is_some_and(|it| extensions.contains(&it)) && path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Whether a folder has a Terraform configuration.
pub(crate) fn is_configuration(folder: &Path) -> bool {
    let files = files(folder, &["tf", "tofu", "json"]);
    files.is_ok_and(|files| files.iter().any(|it| is_part(it)))
}

/// Whether a file is a part of a Terraform configuration, by its name. The doctor does not evaluate those in JSON.
pub(crate) fn is_part(path: &Path) -> bool {
    let name = name_of(path);
    [".tf", ".tofu", ".tf.json", ".tofu.json"]
        .iter()
        .any(|end| name.ends_with(end))
}

fn name_of(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default();
    name.to_string_lossy().into_owned()
}

fn parse(path: &Path) -> Result<(hcl::edit::structure::Body, String), ReadError> {
    let text = read(path)?;
    match hcl::edit::parser::parse_body(&text) {
        Ok(body) => Ok((body, text)),
        Err(source) => Err(ReadError::Hcl {
            path: path.to_owned(),
            source: source.into(),
        }),
    }
}

/// The blocks of a folder's files, each with its position. Blocks of override files are merged into those that they name.
fn blocks(folder: &Path) -> Result<Vec<(Block, Spot)>, ReadError> {
    use hcl::edit::Span;
    let (mut files, tofu) = (files(folder, &["tf"])?, files(folder, &["tofu"])?);
    // OpenTofu reads a file of its own instead of Terraform's.
    files.retain(|it| !tofu.contains(&it.with_extension("tofu")));
    files.extend(tofu);
    let (overrides, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|it| is_override(it));
    let mut blocks: Vec<(Block, Spot)> = Vec::new();
    for path in others.iter().chain(&overrides) {
        let (body, text) = parse(path)?;
        for block in body.into_blocks() {
            let place = position(&text, block.span().map_or(0, |span| span.start));
            let block = Block::from(block);
            let mut same = blocks
                .iter_mut()
                .filter(|(it, _)| it.identifier == block.identifier && it.labels == block.labels);
            match same.next().filter(|_| is_override(path)) {
                Some((named, _)) => merge(&mut named.body, block.body),
                None => blocks.push((block, (path.clone(), place))),
            }
        }
    }
    Ok(blocks)
}

/// Whether Terraform merges the file's blocks into those of other files.
fn is_override(path: &Path) -> bool {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    stem == "override" || stem.ends_with("_override")
}

/// Arguments replace those of the same name, and nested blocks replace all of their type.
fn merge(body: &mut Body, overriding: Body) {
    let is_replaced = |it: &Structure| {
        overriding.iter().any(|by| match (it, by) {
            (Structure::Attribute(it), Structure::Attribute(by)) => it.key == by.key,
            (Structure::Block(it), Structure::Block(by)) => nested(it) == nested(by),
            _ => false,
        })
    };
    body.0.retain(|it| !is_replaced(it));
    body.0.extend(overriding);
}

/// The type of the nested blocks that a block is or makes.
fn nested(block: &Block) -> &str {
    let label = block.labels().first().map(|it| it.as_str());
    label
        .filter(|_| block.identifier() == "dynamic")
        .unwrap_or(block.identifier())
}

type Blocks = Rc<[(Block, Spot)]>;

/// The blocks of each folder that was read. Several modules, or several rounds of one, can have the same folder.
#[derive(Default)]
struct Sources(RefCell<HashMap<PathBuf, Blocks>>);

impl Sources {
    fn blocks(&self, folder: &Path) -> Result<Blocks, ReadError> {
        if let Some(blocks) = self.0.borrow().get(folder) {
            return Ok(Rc::clone(blocks));
        }
        let blocks: Blocks = blocks(folder)?.into();
        let mut known = self.0.borrow_mut();
        known.insert(folder.to_owned(), Rc::clone(&blocks));
        Ok(blocks)
    }
}

/// What the expressions of a module refer to, by the start of the reference.
type Scope = Map<String, Value>;

/// Inserts a value, if it is known.
fn insert(scope: &mut Scope, path: &[&str], value: impl Into<Option<Value>>) {
    let (Some((last, groups)), Some(value)) = (path.split_last(), value.into()) else {
        return;
    };
    let mut at = scope;
    for group in groups {
        let entry = at.entry((*group).to_owned());
        let Value::Object(inner) = entry.or_insert_with(|| Map::new().into()) else {
            return;
        };
        at = inner;
    }
    at.insert((*last).to_owned(), value);
}

/// A module that is evaluated.
struct Module<'a> {
    folder: PathBuf,
    /// The start of its resources' addresses.
    prefix: String,
    /// The number of modules around it.
    depth: usize,
    sources: &'a Sources,
}

impl Module<'_> {
    /// Evaluates a module: its JSON as in a plan's `planned_values`, and its outputs.
    fn evaluate(
        &self,
        inputs: &Map<String, Value>,
        all: &mut Configuration,
    ) -> Result<(Json, Value), ReadError> {
        let Self { folder, prefix, .. } = self;
        let blocks = self.sources.blocks(folder)?;
        let mut scope = Scope::new();
        let path = folder.to_string_lossy();
        insert(&mut scope, &["path", "module"], Value::from(&*path));
        insert(&mut scope, &["path", "root"], Value::from(&*path));
        insert(&mut scope, &["path", "cwd"], Value::from("."));
        insert(
            &mut scope,
            &["terraform", "workspace"],
            Value::from("default"),
        );
        for group in ["var", "local", "module", "data"] {
            scope.insert(group.to_owned(), Map::new().into());
        }
        for (block, _) in blocks.iter() {
            if let ("variable", [name]) = (block.identifier(), block.labels()) {
                let name = name.as_str();
                let variable = variable(name, block.body(), inputs);
                insert(&mut scope, &["var", name], variable);
            }
        }
        for _ in 0..ROUNDS {
            let before = scope.clone();
            let context = context(&before);
            for (block, _) in blocks.iter() {
                let labels: Vec<&str> = block.labels().iter().map(|it| it.as_str()).collect();
                match (block.identifier(), labels.as_slice()) {
                    ("locals", []) => {
                        for local in block.body().attributes() {
                            let value = value(&local.expr, &context);
                            insert(&mut scope, &["local", local.key.as_str()], value);
                        }
                    }
                    ("resource", [kind, name]) => {
                        let address = format!("{prefix}{kind}.{name}");
                        let value = referred(block.body(), &context, &address, &COMPUTED);
                        insert(&mut scope, &[kind, name], value);
                    }
                    ("data", [kind, name]) => {
                        let address = format!("{prefix}data.{kind}.{name}");
                        let value = referred(block.body(), &context, &address, &OF_DATA);
                        insert(&mut scope, &["data", kind, name], value);
                    }
                    ("module", [name]) => {
                        let mut ignored = Configuration::default();
                        let found = self.call(block, &context, &mut ignored)?;
                        let outputs = found.map(|(_, outputs)| outputs);
                        insert(&mut scope, &["module", name], outputs);
                    }
                    _ => {}
                }
            }
            if scope == before {
                break;
            }
        }
        self.written(&blocks, &scope, all)
    }

    /// Evaluates the instances of a called module. `None` if the module can't be read here.
    fn call(
        &self,
        block: &Block,
        context: &Context<'_>,
        all: &mut Configuration,
    ) -> Result<Option<(Vec<Json>, Value)>, ReadError> {
        let name = block.labels().first().map_or("", |it| it.as_str());
        let source = attribute(block.body(), "source").and_then(|it| value(it, context));
        let source = source.as_ref().and_then(Value::as_str).unwrap_or_default();
        let is_local = ["./", "../", "/"]
            .iter()
            .any(|start| source.starts_with(start));
        let instances = instances(block.body(), context);
        let Some(instances) = instances.filter(|_| is_local && self.depth < DEEPEST) else {
            return Ok(None);
        };
        let mut modules = Vec::new();
        let mut outputs = Values::default();
        for instance in instances {
            let context = instance.context(context);
            let (inputs, _) = arguments(block.body(), &context);
            let address = format!("{}module.{name}{}", self.prefix, instance.index);
            let called = Module {
                folder: self.folder.join(source),
                prefix: format!("{address}."),
                depth: self.depth + 1,
                sources: self.sources,
            };
            let (mut module, output) = called.evaluate(&inputs, all)?;
            module["address"] = address.into();
            modules.push(module);
            outputs.add(instance.key.as_ref(), output);
        }
        Ok(Some((modules, outputs.done())))
    }

    /// Writes an evaluated module as a plan has it.
    fn written(
        &self,
        blocks: &[(Block, Spot)],
        scope: &Scope,
        all: &mut Configuration,
    ) -> Result<(Json, Value), ReadError> {
        let prefix = &self.prefix;
        let context = context(scope);
        let (mut resources, mut modules) = (Vec::new(), Vec::new());
        let mut outputs = Map::new();
        for (block, spot) in blocks {
            let labels: Vec<&str> = block.labels().iter().map(|it| it.as_str()).collect();
            match (block.identifier(), labels.as_slice()) {
                ("resource", [kind, name]) => {
                    let base = format!("{prefix}{kind}.{name}");
                    let Some(instances) = instances(block.body(), &context) else {
                        all.leave(base, spot.clone());
                        continue;
                    };
                    for instance in instances {
                        let context = instance.context(&context);
                        let address = format!("{base}{}", instance.index);
                        let (mut known, unknown) = arguments(block.body(), &context);
                        for name in IN_PLAN {
                            let text = || format!("${{{address}.{name}}}").into();
                            known.entry(name.to_owned()).or_insert_with(text);
                        }
                        all.spots.insert(address.clone(), spot.clone());
                        resources.push(json!({
                            "address": address, "mode": "managed", "type": kind, "name": name,
                            "index": instance.key, "values": known,
                        }));
                        let change = json!({ "after_unknown": unknown });
                        all.changes
                            .push(json!({ "address": address, "change": change }));
                    }
                }
                ("module", [name]) => match self.call(block, &context, all)? {
                    Some((called, _)) => modules.extend(called),
                    None => all.leave(format!("{prefix}module.{name}"), spot.clone()),
                },
                ("output", [name]) => {
                    let output = attribute(block.body(), "value");
                    let output = output.and_then(|it| value(it, &context));
                    outputs.extend(output.map(|value| ((*name).to_owned(), value)));
                }
                _ => {}
            }
        }
        let module = json!({ "resources": resources, "child_modules": modules });
        Ok((module, outputs.into()))
    }
}

/// Whether nothing is unknown.
fn is_known(unknown: &serde_json::Map<String, Json>) -> bool {
    let mut all = unknown.values();
    all.all(|it| match it {
        Json::Array(blocks) => {
            let mut blocks = blocks.iter().filter_map(Json::as_object);
            blocks.all(is_known)
        }
        _ => false,
    })
}

/// A variable's value: from the caller, or its default. A text that only the deployment knows is `${var.NAME}`.
fn variable(name: &str, body: &Body, inputs: &Map<String, Value>) -> Option<Value> {
    let kind = attribute(body, "type");
    let given = inputs.get(name).cloned().or_else(|| {
        let default = attribute(body, "default")?;
        value(default, &context(&Scope::new()))
    });
    match (given, kind) {
        (Some(value), Some(kind)) => Some(complete(kind, value)),
        (Some(value), None) => Some(value),
        (None, Some(Expression::Variable(kind))) if kind.as_str() == "string" => {
            Some(format!("${{var.{name}}}").into())
        }
        (None, _) => None,
    }
}

/// What other expressions see of a resource: its arguments, and a text for each computed attribute.
fn referred(body: &Body, context: &Context<'_>, address: &str, computed: &[&str]) -> Value {
    let mut values = Values::default();
    for instance in instances(body, context).unwrap_or_default() {
        let context = instance.context(context);
        let address = format!("{address}{}", instance.index);
        let (known, unknown) = arguments(body, &context);
        let text = |name: &&str| {
            // The name of a resource identifies it as its ID does, except that a queue's ID is its URL. A key's ID is its
            // `key_id`. A bus has its ARN under its own name.
            let attribute = match *name {
                "event_bus_arn" => "arn",
                "name" if address.contains("aws_sqs_queue.") => "name",
                "name" | "function_name" | "key_id" if computed == COMPUTED => "id",
                name => name,
            };
            (
                (*name).to_owned(),
                format!("${{{address}.{attribute}}}").into(),
            )
        };
        let mut attributes: Map<String, Value> = computed.iter().map(text).collect();
        attributes.retain(|name, _| !unknown.contains_key(name));
        if address.contains("data.aws_iam_policy_document.") {
            attributes.swap_remove("json");
            let json = policy_document(&known).filter(|_| is_known(&unknown));
            attributes.extend(json.map(|it| ("json".to_owned(), it.into())));
        }
        attributes.extend(known);
        values.add(instance.key.as_ref(), attributes.into());
    }
    values.done()
}
