//! Permissions that a template grants to a function, or to another role.

use super::Resource;
use super::evaluate::{Evaluator, place};
use super::node::Node;
use super::view::View;
use crate::field::{Field, Path, below};
use crate::iam;
use crate::model::{Extend, Form, Permissions, Scope, Statement, Target};

/// The permissions of the function's role: inline policies, SAM policies, and policies attached to the role.
pub(super) fn of_function<'a>(
    evaluator: &'a Evaluator<'a>,
    function: &Resource<'a>,
    shared_policies: Option<View<'a>>,
) -> Permissions {
    let mut reader = Reader {
        evaluator,
        permissions: Permissions::complete(),
    };
    let is_sam = function.kind == "AWS::Serverless::Function";
    let role = function.at(&["Role"]).target();
    let role_id = match (evaluator.of_type(&role, "AWS::IAM::Role"), role) {
        (Some(id), _) => id.to_owned(),
        (None, Field::Missing) if is_sam => {
            reader.sam(function, shared_policies);
            // The logical ID that SAM gives the role.
            format!("{}Role", function.site.id)
        }
        // The role is defined elsewhere.
        _ => return Permissions::default(),
    };
    reader.all_of(&role_id);
    // The role is a parameter, or the template does not define it.
    let has_role = evaluator.resources.contains_key(&*role_id);
    if !has_role && !is_sam {
        return Permissions::default();
    }
    reader.permissions
}

/// The permissions of a role, if the template defines it.
pub(super) fn of_role<'a>(evaluator: &'a Evaluator<'a>, role: &Field<Target>) -> Permissions {
    let Some(id) = evaluator.of_type(role, "AWS::IAM::Role") else {
        return match role.is_missing() {
            true => Permissions::complete(),
            false => Permissions::default(),
        };
    };
    let mut reader = Reader {
        evaluator,
        permissions: Permissions::complete(),
    };
    reader.all_of(id);
    reader.permissions
}

fn is_attached(policy: &View<'_>, role: &str) -> bool {
    let is_role = |view: &View<'_>| {
        view.text().known() == Some(&format!("${{{role}}}"))
            || view.target().known().is_some_and(|it| it.is(role))
    };
    policy.get("Roles").items().iter().any(is_role) || is_role(&policy.get("RoleName"))
}

/// The path of a value that may be a list.
fn list_at(view: &View<'_>) -> Option<Path> {
    let is_list = |node: &&&Node| node.entries().is_empty();
    view.node.known().filter(is_list)?;
    Some(view.node.place()?.path.clone())
}

struct Reader<'a> {
    evaluator: &'a Evaluator<'a>,
    permissions: Permissions,
}

impl<'a> Reader<'a> {
    /// The policies of a list. The permissions are incomplete if the list is unknown.
    fn list(&mut self, view: &View<'a>) -> Vec<View<'a>> {
        match view.list() {
            Field::Known(policies, _) => return policies,
            Field::Unknown => self.permissions.is_complete = false,
            Field::Missing => {}
        }
        Vec::new()
    }

    /// The policies of a role, and those attached to it.
    fn all_of(&mut self, role: &str) {
        let evaluator = self.evaluator;
        for (id, resource) in &evaluator.resources {
            let kind = resource.get("Type").and_then(Node::scalar);
            let path: Path = vec!["Resources".into(), (*id).into(), "Properties".into()];
            let Some(properties) = resource.get("Properties") else {
                continue;
            };
            let properties = evaluator.view(properties, path);
            match kind {
                Some("AWS::IAM::Role") if *id == role => self.role(&properties),
                Some("AWS::IAM::Policy" | "AWS::IAM::ManagedPolicy" | "AWS::IAM::RolePolicy")
                    if is_attached(&properties, role) =>
                {
                    self.document(&properties.get("PolicyDocument"));
                }
                Some("AWS::Serverless::Connector") => self.permissions.is_complete = false,
                _ => {}
            }
            self.permissions.is_complete &= resource.get("Connectors").is_none();
        }
    }

    fn role(&mut self, role: &View<'a>) {
        for policy in self.list(&role.get("Policies")) {
            self.document(&policy.get("PolicyDocument"));
        }
        self.managed(&role.get("ManagedPolicyArns"));
    }

    fn managed(&mut self, list: &View<'a>) {
        for policy in self.list(list) {
            let Some(place) = policy.node.place() else {
                self.permissions.is_complete = false;
                continue;
            };
            let text = policy.text();
            let name = text.known().map_or("", String::as_str);
            if !self.permissions.add_managed(name, place.clone()) {
                self.own_managed_policy(&policy);
            }
        }
    }

    /// A customer-managed policy that the template defines.
    fn own_managed_policy(&mut self, policy: &View<'a>) {
        let kind = "AWS::IAM::ManagedPolicy";
        match self.evaluator.of_type(&policy.target(), kind) {
            Some(id) => {
                let policy = self.evaluator.resource(id);
                self.document(&policy.dig(&["Properties", "PolicyDocument"]));
            }
            None => self.permissions.is_complete = false,
        }
    }

    /// `Policies` of a SAM function: templates, statements, documents and names of managed policies.
    fn sam(&mut self, function: &Resource<'a>, shared: Option<View<'a>>) {
        let is_sqs = |event: &Node| event.get("Type").and_then(Node::scalar) == Some("SQS");
        if let Field::Known(events, place) = function.at(&["Events"]).node
            && events.entries().iter().any(|event| is_sqs(&event.value))
        {
            // SAM attaches this policy to the role of a function with an SQS event.
            self.permissions
                .add_managed("AWSLambdaSQSQueueExecutionRole", place);
        }
        let own = function.at(&["Policies"]);
        let is_missing = own.node.is_missing();
        for policies in shared.into_iter().chain([own]) {
            if let Some(path) = list_at(&policies) {
                self.permissions.extend = Some(Extend::SamPolicies(path));
            }
            for policy in self.list(&policies) {
                self.sam_policy(&policy);
            }
        }
        if self.permissions.extend.is_none() && is_missing {
            let path = below(&function.site.properties, &["Policies"]);
            self.permissions.extend = Some(Extend::SamPolicies(path));
        }
    }

    fn sam_policy(&mut self, policy: &View<'a>) {
        let Field::Known(node, place) = &policy.node else {
            self.permissions.is_complete = false;
            return;
        };
        if node.get("Statement").is_some() {
            return self.document(policy);
        }
        if node.get("Effect").is_some() {
            return self.statement(policy);
        }
        match node.entries() {
            [template] if node.intrinsic().is_none() => {
                let Some((actions, parameter)) = iam::sam_policy_template(&template.key) else {
                    return;
                };
                let view = policy.dig(&[&template.key, parameter]);
                let form = view.text();
                let form = form.known().and_then(|text| self.evaluator.form(text));
                let is_other = parameter == "QueueName" && form.is_some_and(|it| it != Form::Name);
                let scope = match view.target() {
                    // The template would become an ARN with a URL or an ARN in it.
                    Field::Known(..) if is_other => Scope::One(Target::Other(String::new())),
                    Field::Known(target, _) => Scope::One(target),
                    _ => Scope::Unknown,
                };
                self.permissions.add(place.clone(), actions, scope);
            }
            _ => self.managed(policy),
        }
    }

    fn document(&mut self, document: &View<'a>) {
        let statements = document.get("Statement");
        if let Some(path) = list_at(&statements) {
            self.permissions.extend = Some(Extend::Statements(path));
        }
        for statement in self.list(&statements) {
            self.statement(&statement);
        }
    }

    fn statement(&mut self, view: &View<'a>) {
        // AWS refuses a statement without these elements.
        let lacks = |names: &[&str]| names.iter().all(|it| view.get(it).node.is_missing());
        if lacks(&["Effect"])
            || lacks(&["Action", "NotAction"])
            || lacks(&["Resource", "NotResource"])
        {
            return;
        }
        let evaluator = self.evaluator;
        let texts = |name: &str| -> Option<Vec<Option<String>>> {
            let list = view.get(name).list();
            let texts = list.known()?.iter().map(|it| it.text().known().cloned());
            Some(texts.collect())
        };
        let actions: Option<Vec<String>> =
            texts("Action").and_then(|all| all.into_iter().collect());
        let effect = view.get("Effect").literal();
        // `NotAction` and similar elements allow actions that they do not list.
        let (Field::Known(node, own), Some(actions), Some(effect)) =
            (&view.node, actions, effect.known())
        else {
            self.permissions.is_complete = false;
            return;
        };
        // A policy takes ARNs. A name or a URL names no resource.
        let target = |text: &str| match evaluator.form(text) {
            Some(Form::Name | Form::Url) => Some(Target::Other(text.to_owned())),
            _ => evaluator.target_of(text),
        };
        let scope = |text: Option<String>| match text.as_deref() {
            Some(text) => iam::scope(text, target),
            None => Scope::Unknown,
        };
        let resources = match texts("Resource") {
            Some(resources) => resources.into_iter().map(scope).collect(),
            None => vec![Scope::Unknown],
        };
        let name = match resources.contains(&Scope::Everything) {
            true => "Resource",
            false => "Action",
        };
        let place = match node.get(name) {
            Some(value) => place(value, &below(&own.path, &[name])),
            None => own.clone(),
        };
        self.permissions.statements.push(Statement {
            place,
            allows: effect == "Allow",
            actions,
            resources,
        });
    }
}
