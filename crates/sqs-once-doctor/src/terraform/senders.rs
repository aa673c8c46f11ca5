//! The services of a plan that send to queues, pipes that read from them, and references to queues.

use super::{Reader, policies};
use crate::field::Field;
use crate::iam::{self, EVENT_BRIDGE, S3, SNS};
use crate::model::{Admitted, Bus, Form, Pipe, Reference, Sender, Subscriber, Target};
use serde_json::Value;

impl Reader<'_> {
    /// What a subscription, a bucket or a rule sends to.
    pub(super) fn senders(&self) -> Vec<Sender> {
        let (service, queues) = match self.resource.kind {
            "aws_sns_topic_subscription" if self.is_of_queue() != Some(false) => {
                (SNS, vec![self.target(&["endpoint"])])
            }
            "aws_cloudwatch_event_target" => (EVENT_BRIDGE, vec![self.target(&["arn"])]),
            "aws_s3_bucket_notification" => {
                let blocks = self.list("queue");
                let queue = |block: &Value| {
                    let arn = block["queue_arn"].as_str().map(str::to_owned);
                    self.named(Field::Known((), self.place()).and_then(|()| arn))
                };
                let several = match &blocks {
                    Field::Known(blocks, _) => blocks.iter().map(queue).collect(),
                    Field::Missing => Vec::new(),
                    Field::Unknown => vec![Field::Unknown],
                };
                (S3, several)
            }
            _ => return Vec::new(),
        };
        let sender = |queue| Sender {
            site: self.site(),
            service,
            queue,
        };
        queues.into_iter().map(sender).collect()
    }

    pub(super) fn subscriber(&self) -> Subscriber {
        let (invoke, sqs) = ("invoke_configuration", "sqs_parameters");
        Subscriber {
            site: self.site(),
            bus: self.target(&["event_bus_arn"]),
            permissions: policies::of_role(self, &[invoke, "role_arn"]),
            start: self.text(&["starting_position"]),
            is_replaced: self.resource.is_replaced,
            target: self.target(&[invoke, "target_arn"]),
            failures: self.target(&["on_failure_configuration", "arn"]),
            order: self.text(&["type"]),
            deduplication_id: self.text(&[invoke, sqs, "message_deduplication_id"]),
        }
    }

    pub(super) fn bus(&self) -> Bus {
        Bus {
            site: self.site(),
            retention_days: self.number(&["storage_configuration", "retention_period_in_days"]),
        }
    }

    /// Whether a subscription sends to a queue. `None` if only the deployment knows its protocol.
    fn is_of_queue(&self) -> Option<bool> {
        let protocol = self.text(&["protocol"]);
        protocol.known().map(|it| it == "sqs")
    }

    /// The resource that a text names.
    fn named(&self, text: Field<String>) -> Field<Target> {
        text.and_then(|it| (!self.resources.is_unknown(&it)).then(|| self.resources.named(&it)))
    }

    /// The services to which the resource's policy allows to send to the queue at `address`.
    pub(super) fn admits(&self, address: &str) -> Admitted {
        let is_queue = |text: &str| self.resources.named(text).is(address);
        match self.policy() {
            Field::Missing => Admitted::default(),
            Field::Unknown => Admitted::unknown(),
            Field::Known(policy, _) => iam::admits(&policy, &["sqs:SendMessage"], is_queue),
        }
    }

    /// The resource's reference to a queue.
    pub(super) fn queue_reference(&self) -> Option<Reference> {
        let (path, wanted): (&[&str], _) = match self.resource.kind {
            "aws_lambda_event_source_mapping" if self.may_be_sqs() => {
                (&["event_source_arn"], Form::Arn)
            }
            "aws_sns_topic_subscription" if self.is_of_queue() == Some(true) => {
                (&["endpoint"], Form::Arn)
            }
            "aws_sqs_queue" | "aws_sqs_queue_redrive_policy" => (&["redrive_policy"], Form::Arn),
            "aws_cloudwatch_metric_alarm" => (&["dimensions", "QueueName"], Form::Name),
            "aws_sqs_queue_policy" => (&["queue_url"], Form::Url),
            _ => return None,
        };
        let mut value = self.reference(path);
        if path == ["redrive_policy"] {
            value = value.and_then(|text| {
                let policy: Value = serde_json::from_str(&text).ok()?;
                Some(policy.get("deadLetterTargetArn")?.as_str()?.to_owned())
            });
        }
        let target = self.named(value.clone());
        let text = value.known().map_or("", String::as_str);
        let is_other = |target: &&Target| {
            text.starts_with("${") && self.resources.of_kind(target, "aws_sqs_queue").is_none()
        };
        Some(Reference {
            site: self.site(),
            wanted,
            found: policies::form(text),
            other: target.known().filter(is_other).map(|_| text.to_owned()),
            target,
            value,
        })
    }

    pub(super) fn pipe(&self) -> Pipe {
        let invocation = [
            "target_parameters",
            "lambda_function_parameters",
            "invocation_type",
        ];
        Pipe {
            site: self.site(),
            source: self.target(&["source"]),
            enrichment: self.function_of(&["enrichment"]),
            target: self.function_of(&["target"]),
            invocation: self.text(&invocation),
        }
    }
}
