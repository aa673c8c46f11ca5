//! Alarms on dead-letter queues.

use super::Problem;
use crate::field::Field;
use crate::model::{Deployment, Metric, Queue};
use crate::remedy::{Remedy, resource};
use serde_json::json;

const RIGHT: &str = "ApproximateNumberOfMessagesVisible";
/// Metrics that rise, or stay above zero, when SQS moves a message to the queue.
const ALL_RIGHT: [&str; 2] = [RIGHT, "ApproximateAgeOfOldestMessage"];

/// The metrics of a queue that alarms watch. `None` if an alarm with unknown metrics may watch it.
fn watched<'a>(deployment: &'a Deployment, queue: &Queue) -> Option<Vec<&'a Metric>> {
    let mut watched = Vec::new();
    for metric in deployment.alarms.iter().flat_map(|alarm| &alarm.metrics) {
        let is_sqs = metric.namespace.known().is_none_or(|of| of == "AWS/SQS");
        match &metric.queue {
            Field::Known(target, _) if target.is(&queue.site.id) => watched.push(metric),
            Field::Unknown if is_sqs => return None,
            _ => {}
        }
    }
    Some(watched)
}

pub(super) fn missing(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    if deployment.has_more || !watched(deployment, queue)?.is_empty() {
        return None;
    }
    let id = &queue.site.id;
    let alarm = json!({
        "Type": "AWS::CloudWatch::Alarm",
        "Properties": {
            "AlarmDescription": "Messages failed repeatedly and moved here: find the cause, fix it, and redrive the queue.",
            "Namespace": "AWS/SQS",
            "MetricName": RIGHT,
            "Dimensions": [{ "Name": "QueueName", "Value": { "Fn::GetAtt": [id, "QueueName"] } }],
            "Statistic": "Maximum",
            "ComparisonOperator": "GreaterThanThreshold",
            "Threshold": 0,
            "Period": 60,
            "EvaluationPeriods": 1,
            "TreatMissingData": "notBreaching",
        },
    });
    let hcl = format!(
        "resource \"aws_cloudwatch_metric_alarm\" \"dead_letters\" {{\n  \
         alarm_name          = \"dead-letters\"\n  namespace           = \"AWS/SQS\"\n  \
         metric_name         = \"{RIGHT}\"\n  dimensions          = {{ QueueName = {id}.name }}\n  \
         statistic           = \"Maximum\"\n  comparison_operator = \"GreaterThanThreshold\"\n  \
         threshold           = 0\n  period              = 60\n  evaluation_periods  = 1\n  \
         treat_missing_data  = \"notBreaching\"\n}}"
    );
    let message =
        format!("No alarm watches the dead-letter queue {id}. Add AlarmActions that notify you.");
    let remedy = Remedy::changes(vec![resource(&format!("{id}Alarm"), alarm)], hcl);
    Some(Problem::at(&queue.site.place, message, remedy))
}

pub(super) fn wrong_metric(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    let watched = watched(deployment, queue)?;
    let names = watched.iter().map(|metric| metric.name.known());
    let names: Option<Vec<&String>> = names.collect();
    let is_right = names?.iter().any(|name| ALL_RIGHT.contains(&name.as_str()));
    let metric = watched.first().filter(|_| !is_right)?;
    let (name, place) = (metric.name.known()?, metric.name.place());
    let is_this = |of: &Metric| of.name.place() == place;
    let mut alarms = deployment.alarms.iter();
    let alarm = alarms.find(|alarm| alarm.metrics.iter().any(is_this))?;
    let (id, queue) = (&alarm.site.id, &queue.site.id);
    Some(Problem::set(
        &metric.name,
        &alarm.site,
        &["MetricName"],
        RIGHT,
        format!("metric_name = \"{RIGHT}\""),
        format!("The alarm {id} watches {name} of the dead-letter queue {queue}."),
    ))
}
