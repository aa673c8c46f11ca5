//! Permissions that a template grants to a function.

use super::Resource;
use super::evaluate::{Evaluator, View, place};
use super::node::Node;
use crate::field::{Field, Path, below};
use crate::iam;
use crate::model::{Extend, Form, Permissions, Scope, Statement, Target};

/// The permissions of the function's role: inline policies, SAM policies, and policies attached to the role.
pub(super) fn of_function<'a>(
    evaluator: &Evaluator<'a>,
    function: &Resource<'a>,
    shared_policies: View<'a>,
) -> Permissions {
    let mut reader = Reader {
        evaluator,
        permissions: Permissions::complete(),
    };
    let is_sam = function.kind == "AWS::Serverless::Function";
    let role = evaluator.target_at(&function.properties, "Role");
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
    for (id, resource) in &evaluator.resources {
        let kind = resource.get("Type").and_then(Node::scalar);
        let path: Path = vec!["Resources".into(), (*id).into(), "Properties".into()];
        let Some(properties) = resource.get("Properties") else {
            continue;
        };
        let properties = View::Node(properties, path);
        match kind {
            Some("AWS::IAM::Role") if *id == role_id => reader.role(&properties),
            Some("AWS::IAM::Policy" | "AWS::IAM::ManagedPolicy" | "AWS::IAM::RolePolicy")
                if is_attached(evaluator, &properties, &role_id) =>
            {
                reader.document(&evaluator.get(&properties, "PolicyDocument"));
            }
            Some("AWS::Serverless::Connector") => reader.permissions.is_complete = false,
            _ => {}
        }
        reader.permissions.is_complete &= resource.get("Connectors").is_none();
    }
    // The role is a parameter, or the template does not define it.
    let has_role = evaluator.resources.contains_key(&*role_id);
    if !has_role && !is_sam {
        return Permissions::default();
    }
    reader.permissions
}

fn is_attached<'a>(evaluator: &Evaluator<'a>, policy: &View<'a>, role: &str) -> bool {
    let is_role = |view: &View<'a>| {
        let target = evaluator.target(view);
        evaluator.view_text(view) == Some(format!("${{{role}}}"))
            || target.known().is_some_and(|target| target.is(role))
    };
    let roles = evaluator.list(&evaluator.get(policy, "Roles"));
    roles.known().into_iter().flatten().any(is_role) || is_role(&evaluator.get(policy, "RoleName"))
}

struct Reader<'e, 'a> {
    evaluator: &'e Evaluator<'a>,
    permissions: Permissions,
}

impl<'a> Reader<'_, 'a> {
    /// The policies of a list. The permissions are incomplete if the list is unknown.
    fn list(&mut self, view: &View<'a>) -> Vec<View<'a>> {
        match self.evaluator.list(view) {
            Field::Known(policies, _) => return policies,
            Field::Unknown => self.permissions.is_complete = false,
            Field::Missing => {}
        }
        Vec::new()
    }

    fn role(&mut self, role: &View<'a>) {
        for policy in self.list(&self.evaluator.get(role, "Policies")) {
            self.document(&self.evaluator.get(&policy, "PolicyDocument"));
        }
        self.managed(&self.evaluator.get(role, "ManagedPolicyArns"));
    }

    fn managed(&mut self, list: &View<'a>) {
        for policy in self.list(list) {
            let View::Node(node, path) = &policy else {
                self.permissions.is_complete = false;
                continue;
            };
            let name = self.evaluator.text(node).unwrap_or_default();
            if !self.permissions.add_managed(&name, place(node, path)) {
                self.own_managed_policy(&policy);
            }
        }
    }

    /// A customer-managed policy that the template defines.
    fn own_managed_policy(&mut self, policy: &View<'a>) {
        let target = self.evaluator.target(policy);
        match self.evaluator.of_type(&target, "AWS::IAM::ManagedPolicy") {
            Some(id) => {
                let path: Path = vec!["Resources".into(), id.into()];
                let policy = View::Node(self.evaluator.resources[id], path);
                let names = ["Properties", "PolicyDocument"];
                self.document(&self.evaluator.dig(&policy, &names));
            }
            None => self.permissions.is_complete = false,
        }
    }

    /// `Policies` of a SAM function: templates, statements, documents and names of managed policies.
    fn sam(&mut self, function: &Resource<'a>, shared: View<'a>) {
        let is_sqs = |event: &Node| event.get("Type").and_then(Node::scalar) == Some("SQS");
        if let View::Node(events, path) = self.evaluator.get(&function.properties, "Events")
            && events.entries().iter().any(|event| is_sqs(&event.value))
        {
            // SAM attaches this policy to the role of a function with an SQS event.
            let place = place(events, &path);
            self.permissions
                .add_managed("AWSLambdaSQSQueueExecutionRole", place);
        }
        let own = self.evaluator.get(&function.properties, "Policies");
        let is_missing = matches!(own, View::Missing);
        for policies in [shared, own] {
            if let View::Node(node, path) = &policies
                && node.entries().is_empty()
            {
                self.permissions.extend = Some(Extend::SamPolicies(path.clone()));
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
        let View::Node(node, path) = policy else {
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
                let view = self.evaluator.dig(policy, &[&template.key, parameter]);
                let form = self.evaluator.view_text(&view);
                let form = form.and_then(|text| self.evaluator.form(&text));
                let scope = match self.evaluator.target(&view) {
                    // The template would become an ARN with a URL or an ARN in it.
                    Field::Known(..)
                        if parameter == "QueueName" && form.is_some_and(|it| it != Form::Name) =>
                    {
                        Scope::One(Target::Other(String::new()))
                    }
                    Field::Known(target, _) => Scope::One(target),
                    _ => Scope::Unknown,
                };
                self.permissions.add(place(node, path), actions, scope);
            }
            _ => self.managed(policy),
        }
    }

    fn document(&mut self, document: &View<'a>) {
        let statements = self.evaluator.get(document, "Statement");
        if let View::Node(node, path) = &statements
            && node.entries().is_empty()
        {
            self.permissions.extend = Some(Extend::Statements(path.clone()));
        }
        for statement in self.list(&statements) {
            self.statement(&statement);
        }
    }

    fn statement(&mut self, view: &View<'a>) {
        let evaluator = self.evaluator;
        let texts = |name: &str| -> Option<Vec<Option<String>>> {
            let list = evaluator.list(&evaluator.get(view, name));
            let texts = list.known()?.iter().map(|it| evaluator.view_text(it));
            Some(texts.collect())
        };
        let actions: Option<Vec<String>> =
            texts("Action").and_then(|all| all.into_iter().collect());
        let effect = evaluator.literal_at(view, "Effect");
        // `NotAction` and similar elements allow actions that they do not list.
        let (View::Node(node, path), Some(actions), Some(effect)) = (view, actions, effect.known())
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
            Some(value) => place(value, &below(path, &[name])),
            None => place(node, path),
        };
        self.permissions.statements.push(Statement {
            place,
            allows: effect == "Allow",
            actions,
            resources,
        });
    }
}
