//! The services of a template that send to queues, and pipes that read from them.

use super::{Resource, Template, permissions};
use crate::iam::{EVENT_BRIDGE, S3, SNS};
use crate::model::{Bus, Deployment, Form, Pipe, Sender, Subscriber};

impl<'a> Template<'a> {
    /// Adds what a topic, a subscription, a bucket or a rule sends to.
    pub(super) fn senders(&self, resource: &Resource<'a>, deployment: &mut Deployment) {
        let (list, name, service): (&[&str], _, _) = match resource.kind {
            "AWS::SNS::Topic" => (&["Subscription"], "Endpoint", SNS),
            "AWS::SNS::Subscription" => (&[], "Endpoint", SNS),
            "AWS::S3::Bucket" => (
                &["NotificationConfiguration", "QueueConfigurations"],
                "Queue",
                S3,
            ),
            "AWS::Events::Rule" => (&["Targets"], "Arn", EVENT_BRIDGE),
            _ => return,
        };
        let listed = resource.at(list);
        let listed = match listed.node.is_unknown() {
            true => vec![listed],
            false => listed.items(),
        };
        for one in listed {
            let protocol = one.get("Protocol").literal();
            if protocol.known().is_some_and(|it| it != "sqs") {
                continue;
            }
            let queue = one.get(name);
            // A rule's target may be anything, and so may the endpoint of an unknown protocol.
            if service == S3 || protocol.known().is_some() {
                let reference = queue.reference(&resource.site, Form::Arn);
                deployment.references.push(reference);
            }
            deployment.senders.push(Sender {
                site: resource.site.clone(),
                service,
                queue: queue.target(),
            });
        }
    }

    pub(super) fn pipe(&self, resource: Resource<'a>) -> Pipe {
        let function = |name| self.behind_alias(resource.at(&[name]).target());
        let invocation = [
            "TargetParameters",
            "LambdaFunctionParameters",
            "InvocationType",
        ];
        Pipe {
            source: resource.at(&["Source"]).target(),
            enrichment: function("Enrichment"),
            target: function("Target"),
            invocation: resource.at(&invocation).literal(),
            site: resource.site,
        }
    }

    pub(super) fn subscriber(&self, resource: Resource<'a>) -> Subscriber {
        let invoke = resource.at(&["InvokeConfiguration"]);
        let deduplication_id = invoke.dig(&["SqsParameters", "MessageDeduplicationId"]);
        let role = invoke.get("RoleArn").target();
        Subscriber {
            bus: resource.at(&["EventBusArn"]).target(),
            permissions: permissions::of_role(self.evaluator, &role),
            start: resource.at(&["StartingPosition"]).literal(),
            is_replaced: false,
            target: invoke.get("TargetArn").target(),
            failures: resource.at(&["OnFailureConfiguration", "Arn"]).target(),
            order: resource.at(&["Type"]).literal(),
            deduplication_id: deduplication_id.literal(),
            site: resource.site,
        }
    }
}

pub(super) fn bus(resource: Resource<'_>) -> Bus {
    let retention = ["StorageConfiguration", "RetentionPeriodInDays"];
    Bus {
        retention_days: resource.at(&retention).number(),
        site: resource.site,
    }
}
