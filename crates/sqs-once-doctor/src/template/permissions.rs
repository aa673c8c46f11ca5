//! Permissions that a template grants to a function.

use super::Resource;
use super::evaluate::{Evaluator, View, place};
use super::node::Node;
use crate::field::{Field, Path, Step};
use crate::iam;
use crate::model::{Extend, Permissions, Scope, Statement};

/// The permissions of the function's role: inline policies, SAM policies, and policies attached to the role.
pub(super) fn of_function<'a>(
    evaluator: &Evaluator<'a>,
    function: &Resource<'a>,
    shared_policies: View<'a>,
) -> Permissions {
    let mut permissions = Permissions {
        is_complete: true,
        ..Permissions::default()
    };
    let is_sam = function.kind == "AWS::Serverless::Function";
    let role = evaluator.get(&function.properties, "Role");
    let role = evaluator.target(&role);
    let role_id = match (evaluator.of_type(&role, "AWS::IAM::Role"), role) {
        (Some(id), _) => id.to_owned(),
        (None, Field::Missing) if is_sam => {
            sam(evaluator, function, shared_policies, &mut permissions);
            // The logical ID that SAM gives the role.
            format!("{}Role", function.site.id)
        }
        // The role is defined elsewhere.
        _ => return Permissions::default(),
    };
    for (id, resource) in &evaluator.resources {
        let kind = resource.get("Type").and_then(Node::scalar);
        let path: Path = vec!["Resources".into(), (*id).into(), "Properties".into()];
        let Some(properties) = resource.get("Properties") else {
            continue;
        };
        let properties = View::Node(properties, path);
        match kind {
            Some("AWS::IAM::Role") if *id == role_id => {
                of_role(evaluator, &properties, &mut permissions);
            }
            Some("AWS::IAM::Policy" | "AWS::IAM::ManagedPolicy" | "AWS::IAM::RolePolicy")
                if is_attached(evaluator, &properties, &role_id) =>
            {
                let document = evaluator.get(&properties, "PolicyDocument");
                of_document(evaluator, &document, &mut permissions);
            }
            Some("AWS::Serverless::Connector") => permissions.is_complete = false,
            _ => {}
        }
        permissions.is_complete &= resource.get("Connectors").is_none();
    }
    // The role is a parameter, or the template does not define it.
    let has_role = evaluator.resources.contains_key(&*role_id);
    if !has_role && !is_sam {
        return Permissions::default();
    }
    permissions
}

fn is_attached<'a>(evaluator: &Evaluator<'a>, policy: &View<'a>, role: &str) -> bool {
    let is_role = |view: &View<'a>| match view {
        View::Node(node, _) => {
            let text = evaluator.text(node);
            text.as_deref() == Some(&format!("${{{role}}}"))
                || evaluator
                    .target(view)
                    .known()
                    .is_some_and(|target| target.is(role))
        }
        _ => false,
    };
    let roles = evaluator.list(&evaluator.get(policy, "Roles"));
    roles.known().into_iter().flatten().any(is_role) || is_role(&evaluator.get(policy, "RoleName"))
}

fn of_role<'a>(evaluator: &Evaluator<'a>, role: &View<'a>, permissions: &mut Permissions) {
    match evaluator.list(&evaluator.get(role, "Policies")) {
        Field::Missing => {}
        Field::Unknown => permissions.is_complete = false,
        Field::Known(policies, _) => {
            for policy in &policies {
                let document = evaluator.get(policy, "PolicyDocument");
                of_document(evaluator, &document, permissions);
            }
        }
    }
    managed(
        evaluator,
        &evaluator.get(role, "ManagedPolicyArns"),
        permissions,
    );
}

fn managed<'a>(evaluator: &Evaluator<'a>, list: &View<'a>, permissions: &mut Permissions) {
    match evaluator.list(list) {
        Field::Missing => {}
        Field::Unknown => permissions.is_complete = false,
        Field::Known(policies, _) => {
            for policy in &policies {
                let View::Node(node, path) = policy else {
                    permissions.is_complete = false;
                    continue;
                };
                let text = evaluator.text(node);
                match text.as_deref().and_then(iam::managed_policy) {
                    Some(actions) => {
                        // AWS managed policies apply to any resource. The doctor reports only those with wildcard
                        // actions.
                        let is_wide = actions.iter().any(|action| action.contains('*'));
                        let scope = if is_wide {
                            Scope::Everything
                        } else {
                            Scope::Unknown
                        };
                        add(permissions, node, path, actions, vec![scope]);
                    }
                    None => own_managed_policy(evaluator, policy, permissions),
                }
            }
        }
    }
}

/// A customer-managed policy that the template defines.
fn own_managed_policy<'a>(
    evaluator: &Evaluator<'a>,
    policy: &View<'a>,
    permissions: &mut Permissions,
) {
    let target = evaluator.target(policy);
    match evaluator.of_type(&target, "AWS::IAM::ManagedPolicy") {
        Some(id) => {
            let path: Path = vec!["Resources".into(), id.into()];
            let document = View::Node(evaluator.resources[id], path);
            let document = evaluator.dig(&document, &["Properties", "PolicyDocument"]);
            of_document(evaluator, &document, permissions);
        }
        None => permissions.is_complete = false,
    }
}

/// `Policies` of a SAM function: templates, statements, documents and names of managed policies.
fn sam<'a>(
    evaluator: &Evaluator<'a>,
    function: &Resource<'a>,
    shared: View<'a>,
    permissions: &mut Permissions,
) {
    if let View::Node(events, path) = evaluator.get(&function.properties, "Events")
        && events
            .entries()
            .iter()
            .any(|event| event.value.get("Type").and_then(Node::scalar) == Some("SQS"))
    {
        // SAM attaches this policy to the role of a function with an SQS event.
        let actions = iam::managed_policy("AWSLambdaSQSQueueExecutionRole").unwrap_or_default();
        let everything = vec![Scope::Unknown];
        add(permissions, events, &path, actions, everything);
    }
    for policies in [shared, evaluator.get(&function.properties, "Policies")] {
        match evaluator.list(&policies) {
            Field::Missing => {}
            Field::Unknown => permissions.is_complete = false,
            Field::Known(list, place) => {
                if matches!(&policies, View::Node(node, _) if node.entries().is_empty()) {
                    permissions.extend = Some(Extend::SamPolicies(place.path));
                }
                for policy in &list {
                    sam_policy(evaluator, policy, permissions);
                }
            }
        }
    }
    if permissions.extend.is_none()
        && matches!(
            evaluator.get(&function.properties, "Policies"),
            View::Missing
        )
    {
        let path = crate::field::below(&function.site.properties, &["Policies"]);
        permissions.extend = Some(Extend::SamPolicies(path));
    }
}

fn sam_policy<'a>(evaluator: &Evaluator<'a>, policy: &View<'a>, permissions: &mut Permissions) {
    let View::Node(node, path) = policy else {
        permissions.is_complete = false;
        return;
    };
    if node.get("Statement").is_some() {
        return of_document(evaluator, policy, permissions);
    }
    if node.get("Effect").is_some() {
        return of_statement(evaluator, policy, permissions);
    }
    match node.entries() {
        [template] if node.intrinsic().is_none() => {
            let Some((actions, parameter)) = iam::sam_policy_template(&template.key) else {
                return;
            };
            let view = evaluator.dig(policy, &[&template.key, parameter]);
            let scope = match evaluator.target(&view) {
                Field::Known(target, _) => Scope::One(target),
                _ => Scope::Unknown,
            };
            add(permissions, node, path, actions, vec![scope]);
        }
        _ => managed(evaluator, policy, permissions),
    }
}

fn of_document<'a>(evaluator: &Evaluator<'a>, document: &View<'a>, permissions: &mut Permissions) {
    let statements = evaluator.get(document, "Statement");
    match evaluator.list(&statements) {
        Field::Missing => {}
        Field::Unknown => permissions.is_complete = false,
        Field::Known(list, place) => {
            if matches!(&statements, View::Node(node, _) if node.entries().is_empty()) {
                permissions.extend = Some(Extend::Statements(place.path));
            }
            for statement in &list {
                of_statement(evaluator, statement, permissions);
            }
        }
    }
}

fn of_statement<'a>(evaluator: &Evaluator<'a>, view: &View<'a>, permissions: &mut Permissions) {
    let View::Node(node, path) = view else {
        permissions.is_complete = false;
        return;
    };
    let texts = |name: &str| -> Option<Vec<String>> {
        let list = evaluator.list(&evaluator.get(view, name));
        let text = |view: &View<'a>| match view {
            View::Node(node, _) => evaluator.text(node),
            _ => None,
        };
        list.known()?.iter().map(text).collect()
    };
    let effect = evaluator.literal(&evaluator.get(view, "Effect"));
    // `NotAction` and similar elements allow actions that they do not list.
    let Some((actions, effect)) = texts("Action").zip(effect.known()) else {
        permissions.is_complete = false;
        return;
    };
    let resources = match evaluator.list(&evaluator.get(view, "Resource")) {
        Field::Known(list, _) => list.iter().map(|it| scope(evaluator, it)).collect(),
        _ => vec![Scope::Unknown],
    };
    let mut at = path.clone();
    let mut here = *node;
    for name in ["Action", "Resource"] {
        if resources.contains(&Scope::Everything) == (name == "Resource")
            && let Some(value) = node.get(name)
        {
            at.push(Step::Key(name.to_owned()));
            here = value;
            break;
        }
    }
    permissions.statements.push(Statement {
        place: place(here, &at),
        allows: effect == "Allow",
        actions,
        resources,
    });
}

fn scope<'a>(evaluator: &Evaluator<'a>, view: &View<'a>) -> Scope {
    let View::Node(node, _) = view else {
        return Scope::Unknown;
    };
    match evaluator.text(node).as_deref() {
        Some("*") => Scope::Everything,
        Some(text) => iam::scope(text, |text| evaluator.target_of(text)),
        None => Scope::Unknown,
    }
}

fn add(
    permissions: &mut Permissions,
    node: &Node,
    path: &Path,
    actions: &[&str],
    resources: Vec<Scope>,
) {
    if actions.is_empty() {
        return;
    }
    permissions.statements.push(Statement {
        place: place(node, path),
        allows: true,
        actions: actions.iter().map(|&action| action.to_owned()).collect(),
        resources,
    });
}
