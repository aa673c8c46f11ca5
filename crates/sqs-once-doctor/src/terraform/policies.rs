//! Permissions that a plan grants to a role.

use super::Reader;
use crate::field::Field;
use crate::iam::{self, one_or_many};
use crate::model::{Form, Permissions, Statement, Target};
use serde_json::Value;

/// The permissions that the plan contains of the role that an attribute names.
pub(super) fn of_role(from: &Reader<'_>, path: &[&str]) -> Permissions {
    let mut permissions = Permissions::complete();
    let role = from.target(path);
    let role = role.known();
    let Some(role) = role.and_then(|role| from.resources.of_kind(role, "aws_iam_role")) else {
        return Permissions::default();
    };
    let role = role.address;
    for resource in &from.resources.all {
        let of = from.other(resource);
        let is_on_role = || match of.target(&["role"]) {
            Field::Known(target, _) => Some(target.is(role)),
            _ => None,
        };
        match resource.kind {
            "aws_iam_role" if resource.address == role => {
                let managed = of.list("managed_policy_arns");
                for arn in managed.known().into_iter().flatten() {
                    let arn = arn.as_str().unwrap_or_default();
                    permissions.is_complete &= permissions.add_managed(arn, of.place());
                }
                let inline = of.list("inline_policy");
                for policy in inline.known().into_iter().flatten() {
                    let document = policy.get("policy").and_then(Value::as_str);
                    self::document(&of, document, &mut permissions);
                }
                let is_unknown = |list| matches!(list, Field::Unknown);
                permissions.is_complete &= !is_unknown(managed) && !is_unknown(inline);
            }
            "aws_iam_role_policy" | "aws_iam_role_policy_attachment" => match is_on_role() {
                Some(true) if resource.kind == "aws_iam_role_policy" => {
                    let policy = of.reference(&["policy"]);
                    document(&of, policy.known().map(String::as_str), &mut permissions);
                }
                Some(true) => attached(&of, &mut permissions),
                Some(false) => {}
                None => permissions.is_complete = false,
            },
            "aws_iam_policy_attachment" | "aws_iam_role_policies_exclusive" => {
                permissions.is_complete = false;
            }
            _ => {}
        }
    }
    permissions
}

fn attached(attachment: &Reader<'_>, permissions: &mut Permissions) {
    let target = attachment.target(&["policy_arn"]);
    let Some(target) = target.known() else {
        permissions.is_complete = false;
        return;
    };
    let own = attachment.resources.of_kind(target, "aws_iam_policy");
    match (own, target) {
        (Some(resource), _) => {
            let policy = attachment.other(resource);
            let text = policy.reference(&["policy"]);
            document(&policy, text.known().map(String::as_str), permissions);
        }
        (None, Target::Other(arn)) => {
            permissions.is_complete &= permissions.add_managed(arn, attachment.place());
        }
        (None, _) => permissions.is_complete = false,
    }
}

fn document(of: &Reader<'_>, text: Option<&str>, permissions: &mut Permissions) {
    let document: Option<Value> = text.and_then(|text| serde_json::from_str(text).ok());
    let Some(document) = document else {
        permissions.is_complete = false;
        return;
    };
    let all = |value| one_or_many(value).iter().filter(|one| !one.is_null());
    for statement in all(&document["Statement"]) {
        if statement.get("Action").is_none() {
            permissions.is_complete = false;
            continue;
        }
        let texts = |name: &str| all(&statement[name]).filter_map(Value::as_str);
        let target = |text: &str| match form(text) {
            _ if of.resources.is_unknown(text) => None,
            // A policy takes ARNs. A name or a URL names no resource.
            Some(Form::Name | Form::Url) => Some(Target::Other(text.to_owned())),
            _ => Some(of.resources.named(text)),
        };
        let resources = texts("Resource").map(|text| iam::scope(text, target));
        permissions.statements.push(Statement {
            place: of.place(),
            allows: statement["Effect"] == "Allow",
            actions: texts("Action").map(str::to_owned).collect(),
            resources: resources.collect(),
        });
    }
}

/// Whether a text is an ARN, a URL or a name, as far as that is known.
pub(super) fn form(text: &str) -> Option<Form> {
    let attribute = text.strip_prefix("${").and_then(|it| it.strip_suffix('}'));
    match attribute.and_then(|it| it.rsplit_once('.')) {
        Some((_, "arn")) => Some(Form::Arn),
        Some((address, "id" | "url")) if address.contains("aws_sqs_queue.") => Some(Form::Url),
        Some((_, "id" | "name")) => Some(Form::Name),
        Some(_) => None,
        None => Form::of(text),
    }
}
