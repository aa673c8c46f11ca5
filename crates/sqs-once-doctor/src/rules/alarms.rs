//! Alarms on dead-letter queues.

use super::{Problem, Setting};
use crate::field::Field;
use crate::model::{Alarm, Deployment, Metric, Queue};
use crate::remedy::{Remedy, resource};
use serde_json::json;

const RIGHT: &str = "ApproximateNumberOfMessagesVisible";
/// Metrics that rise, or stay above zero, when SQS moves a message to the queue.
const ALL_RIGHT: [&str; 2] = [RIGHT, AGE];
const AGE: &str = "ApproximateAgeOfOldestMessage";

/// The alarms that watch a queue, each with its metric, and whether alarms with unknown metrics may watch it too.
fn watching<'a>(deployment: &'a Deployment, queue: &Queue) -> (Vec<(&'a Alarm, &'a Metric)>, bool) {
    let (mut watching, mut may_be_more) = (Vec::new(), false);
    for alarm in &deployment.alarms {
        for metric in &alarm.metrics {
            let namespace = metric.namespace.known();
            // AWS refuses a metric without a namespace or a name.
            let is_sqs = !metric.name.is_missing()
                && (metric.namespace.is_unknown() || namespace.is_some_and(|it| it == "AWS/SQS"));
            match &metric.queue {
                Field::Known(target, _) if is_sqs && target.is(&queue.site.id) => {
                    watching.push((alarm, metric));
                }
                Field::Unknown => may_be_more |= is_sqs,
                _ => {}
            }
        }
    }
    (watching, may_be_more)
}

/// Whether it is unknown if a right alarm watches the queue.
pub(super) fn may_be_watched(deployment: &Deployment, queue: &Queue) -> bool {
    let (watching, may_be_more) = watching(deployment, queue);
    let is_unknown = |(alarm, metric): &(&Alarm, &Metric)| {
        metric.namespace.is_unknown()
            || metric.name.is_unknown()
            || alarm.rings_at_one.known().is_none() && !is_age(metric)
    };
    match watching.is_empty() {
        true => may_be_more,
        false => watching.iter().all(is_unknown),
    }
}

fn is_age(metric: &Metric) -> bool {
    metric.name.known().is_some_and(|name| name == AGE)
}

pub(super) fn missing(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    let (watching, may_be_more) = watching(deployment, queue);
    if deployment.has_more || may_be_more || !watching.is_empty() {
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
    let remedy = Remedy::changes(
        vec![resource(&format!("{id}Alarm"), alarm, &queue.site)],
        hcl,
    );
    Some(Problem::at(&queue.site.place, message, remedy))
}

pub(super) fn wrong_metric(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    let (watching, may_be_more) = watching(deployment, queue);
    let mut names = watching.iter().map(|(_, metric)| metric.name.known());
    let may_be_right = |name: Option<&String>| name.is_none_or(|it| ALL_RIGHT.contains(&&**it));
    let is_right = may_be_more || names.any(may_be_right);
    let (alarm, metric) = watching.first().filter(|_| !is_right)?;
    let (id, queue, name) = (&alarm.site.id, &queue.site.id, metric.name.known()?);
    let message = format!("The alarm {id} watches {name} of the dead-letter queue {queue}.");
    let setting = Setting(&["MetricName"], "metric_name = {}");
    let (field, site) = (&metric.name, &alarm.site);
    Some(Problem::set(field, site, setting, RIGHT, message))
}

/// Finds a queue whose alarms all stay silent at the first dead letter.
pub(super) fn too_late(deployment: &Deployment, queue: &Queue) -> Option<Problem> {
    let (watching, may_be_more) = watching(deployment, queue);
    let is_late = |(alarm, metric): &(&Alarm, &Metric)| {
        let is_count = metric.name.known().is_some_and(|name| name == RIGHT);
        is_count && alarm.rings_at_one.known() == Some(&false)
    };
    let (alarm, _) = watching.first()?;
    let (id, queue) = (&alarm.site.id, &queue.site.id);
    let message = format!("The alarm {id} does not ring at one message in {queue}.");
    let argument = "threshold = {}\ncomparison_operator = \"GreaterThanThreshold\"";
    let (site, field) = (&alarm.site, &alarm.rings_at_one);
    let problem = Problem::set(field, site, Setting(&["Threshold"], argument), 0, message);
    // With another operator, zero is wrong too.
    (!may_be_more && watching.iter().all(is_late)).then(|| problem.by_hand())
}
