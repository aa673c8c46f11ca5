//! Combines the template and the arguments into queues, poller settings and warnings.

use super::args::Settings;
use crate::launch::DEFAULT_TIMEOUT;
use anyhow::{Result, bail};
use humantime::format_duration;
use sqs_once_doctor::{Field, Function, Mapping, Queue};
use sqs_once_local::{PollerSettings, QueueError, QueueSettings, Queues, Redrive, Template};
use std::num::NonZeroU32;
use std::time::Duration;

const NO_MAPPING: &str = "the template has no such queue for this function; without --queue the function gets one of its own";
const DEFAULT_MAX_RECEIVE_COUNT: NonZeroU32 = NonZeroU32::MIN.saturating_add(2);

#[derive(Debug)]
pub(crate) struct Plan {
    /// The queue to poll.
    pub(crate) queue: String,
    /// Its dead-letter queue.
    pub(crate) dead_letters: Option<String>,
    /// Every queue.
    pub(crate) queues: Vec<(String, QueueSettings)>,
    pub(crate) poller: PollerSettings,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// `function` is the template's resource. `binary` is the name of the binary that runs.
    pub(crate) fn new(
        template: Option<&Template>,
        function: Option<&Function>,
        binary: &str,
        wanted: Option<&str>,
        given: &Settings,
    ) -> Result<Self> {
        let mut warnings = Vec::new();
        let (mapping, queue) = match (template, function) {
            (Some(template), Some(function)) if !given.fifo => {
                mapping(template.mappings(function), wanted)?
            }
            _ => (None, None),
        };
        if mapping.is_none() && wanted.is_some() {
            bail!(NO_MAPPING);
        }
        let mut queues = template.map(local).unwrap_or_default();
        let queue = queue.unwrap_or_else(|| own_queue(binary, given.fifo, &mut queues));
        if !reports_failures(mapping) {
            warnings.push(
                "the template's event source mapping has no `FunctionResponseTypes: [ReportBatchItemFailures]`: \
                 Lambda deletes the whole batch after any answer of the function, with its failed messages"
                    .to_owned(),
            );
        }
        if mapping.is_some_and(|mapping| !mapping.filter.is_missing()) {
            warnings.push(
                "FilterCriteria are not applied here: the function gets every message".to_owned(),
            );
        }
        let polled = queues.iter_mut().find(|(name, _)| *name == queue);
        let mut polled = polled.map(|(_, settings)| settings);
        if let (Some(polled), Some(timeout)) = (&mut polled, given.visibility_timeout) {
            polled.visibility_timeout = timeout;
        }
        let redrive = polled.as_ref().and_then(|polled| polled.redrive.as_ref());
        let dead_letters = redrive.map(|redrive| redrive.to.clone());
        if dead_letters.is_none() {
            warnings.push(format!(
                "`{queue}` has no dead-letter queue in the template: a message that keeps failing returns forever"
            ));
        }
        let poller = poller(mapping, function, given);
        if let Some(settings) = polled
            && settings.visibility_timeout < poller.timeout
        {
            warnings.push(format!(
                "messages are visible again after {}, while the function may have them for {}: they may be \
                 delivered twice",
                format_duration(settings.visibility_timeout),
                format_duration(poller.timeout)
            ));
        }
        Ok(Self {
            queue,
            dead_letters,
            queues,
            poller,
            warnings,
        })
    }

    pub(crate) fn create(&self, queues: &mut Queues) -> Result<(), QueueError> {
        // First create all queues without redrive policies, which may name later queues.
        for (name, settings) in &self.queues {
            let without = QueueSettings {
                redrive: None,
                ..settings.clone()
            };
            queues.create(name, without)?;
        }
        for (name, settings) in &self.queues {
            queues.create(name, settings.clone())?;
        }
        Ok(())
    }
}

/// The function's only mapping, or the one of the wanted queue, with the name of its queue.
fn mapping<'a>(
    mut mappings: Vec<(&'a Mapping, Option<String>)>,
    wanted: Option<&str>,
) -> Result<(Option<&'a Mapping>, Option<String>)> {
    if let Some(wanted) = wanted {
        let is_of = |mapping: &Mapping| mapping.queue.known().is_some_and(|it| it.is(wanted));
        mappings.retain(|(mapping, queue)| queue.as_deref() == Some(wanted) || is_of(mapping));
    }
    if mappings.len() > 1 {
        let names = mappings.into_iter().filter_map(|(_, queue)| queue);
        let known = names.collect::<Vec<_>>().join(", ");
        bail!("the template has several queues for this function: pick one with --queue ({known})");
    }
    let (mapping, queue) = mappings.pop().unzip();
    Ok((mapping, queue.flatten()))
}

fn local(template: &Template) -> Vec<(String, QueueSettings)> {
    let settings = |queue: &Queue| {
        let default = QueueSettings::default();
        let or = |given: &Field<Duration>, default| given.known().copied().unwrap_or(default);
        let to = template.dead_letters(queue);
        let to = to.map(|queue| template.queue_name(queue));
        let times = queue.max_receive_count.known();
        let times = times
            .and_then(|&times| u32::try_from(times).ok())
            .and_then(NonZeroU32::new);
        QueueSettings {
            visibility_timeout: or(&queue.visibility_timeout, default.visibility_timeout),
            delay: or(&queue.delay, default.delay),
            retention: or(&queue.retention, default.retention),
            content_based_deduplication: queue.content_based_deduplication.known() == Some(&true),
            redrive: to.map(|to| Redrive {
                to,
                // A plan knows the queue's redrive policy only if the dead-letter queue exists.
                max_receive_count: times.unwrap_or(DEFAULT_MAX_RECEIVE_COUNT).get(),
            }),
            ..default
        }
    };
    let queues = template.queues().iter();
    queues
        .map(|queue| (template.queue_name(queue), settings(queue)))
        .collect()
}

/// Whether failures that the function reports count. They do if the template has no mapping.
fn reports_failures(mapping: Option<&Mapping>) -> bool {
    mapping.is_none_or(|mapping| mapping.reports_failures.known() == Some(&true))
}

/// Adds a queue that is not in the template, and its dead-letter queue.
fn own_queue(binary: &str, fifo: bool, queues: &mut Vec<(String, QueueSettings)>) -> String {
    let suffix = if fifo { ".fifo" } else { "" };
    let (queue, dead_letters) = (format!("{binary}{suffix}"), format!("{binary}-dlq{suffix}"));
    let redrive = Some(Redrive {
        to: dead_letters.clone(),
        max_receive_count: DEFAULT_MAX_RECEIVE_COUNT.get(),
    });
    for (name, redrive) in [(dead_letters, None), (queue.clone(), redrive)] {
        // The template may contain a queue of this name that its mappings do not poll.
        queues.retain(|(known, _)| *known != name);
        let settings = QueueSettings {
            content_based_deduplication: fifo,
            redrive,
            ..QueueSettings::default()
        };
        queues.push((name, settings));
    }
    queue
}

fn poller(
    mapping: Option<&Mapping>,
    function: Option<&Function>,
    given: &Settings,
) -> PollerSettings {
    let default = PollerSettings::default();
    let of_mapping = |value: fn(&Mapping) -> &Field<u64>| {
        let number = u32::try_from(*value(mapping?).known()?).ok()?;
        NonZeroU32::new(number)
    };
    let batch_size = of_mapping(|mapping| &mapping.batch_size);
    let concurrency = of_mapping(|mapping| &mapping.maximum_concurrency);
    let window = mapping.and_then(|mapping| mapping.window.known().copied());
    let timeout = function.and_then(|function| function.timeout.known().copied());
    PollerSettings {
        batch_size: batch_size.unwrap_or(default.batch_size),
        window: window.unwrap_or(Duration::ZERO),
        concurrency: given
            .environments
            .or(concurrency)
            .unwrap_or(default.concurrency),
        timeout: given.timeout.or(timeout).unwrap_or(DEFAULT_TIMEOUT),
        reports_failures: reports_failures(mapping),
        ..default
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEMPLATE: &str = "
Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 181
      MessageRetentionPeriod: 345601
      DelaySeconds: 2
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 5 }
  Dead: { Type: AWS::SQS::Queue }
  Other: { Type: AWS::SQS::Queue }
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 30
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            BatchSize: 25
            MaximumBatchingWindowInSeconds: 1
            FunctionResponseTypes: [ReportBatchItemFailures]
            ScalingConfig: { MaximumConcurrency: 10 }
";

    fn plan(template: &str, wanted: Option<&str>, given: &Settings) -> Result<Plan> {
        let template = Template::parse(template).unwrap();
        let function = template.function(None);
        Plan::new(Some(&template), function, "charge", wanted, given)
    }

    fn settings<'a>(plan: &'a Plan, queue: &str) -> &'a QueueSettings {
        let found = plan.queues.iter().find(|(name, _)| name == queue);
        &found.unwrap().1
    }

    #[test]
    fn the_template_says_what_is_polled_and_how() {
        let plan = plan(TEMPLATE, None, &Settings::default()).unwrap();
        assert_eq!(plan.queue, "Orders");
        assert_eq!(plan.dead_letters.as_deref(), Some("Dead"));
        let redrive = Some(Redrive {
            to: "Dead".to_owned(),
            max_receive_count: 5,
        });
        let expected = QueueSettings {
            visibility_timeout: Duration::from_secs(181),
            retention: Duration::from_secs(345_601),
            delay: Duration::from_secs(2),
            redrive,
            ..QueueSettings::default()
        };
        assert_eq!(settings(&plan, "Orders"), &expected);
        let poller = PollerSettings {
            batch_size: NonZeroU32::new(25).unwrap(),
            concurrency: NonZeroU32::new(10).unwrap(),
            window: Duration::from_secs(1),
            timeout: Duration::from_secs(30),
            reports_failures: true,
            ..PollerSettings::default()
        };
        assert_eq!(plan.poller, poller);
        assert_eq!(plan.warnings, [""; 0]);
        plan.create(&mut Queues::default()).unwrap();
    }

    #[test]
    fn the_arguments_have_the_last_word() {
        let given = Settings {
            environments: NonZeroU32::new(1),
            timeout: Some(Duration::from_secs(2)),
            visibility_timeout: Some(Duration::from_secs(12)),
            fifo: false,
        };
        let plan = plan(TEMPLATE, None, &given).unwrap();
        let orders = settings(&plan, "Orders");
        assert_eq!(orders.visibility_timeout, Duration::from_secs(12));
        let poller = PollerSettings {
            batch_size: NonZeroU32::new(25).unwrap(),
            concurrency: NonZeroU32::MIN,
            window: Duration::from_secs(1),
            timeout: Duration::from_secs(2),
            ..PollerSettings::default()
        };
        assert_eq!(plan.poller, poller);
    }

    #[test]
    fn without_a_template_the_queue_has_the_functions_name_and_a_dead_letter_queue() {
        let plan = Plan::new(None, None, "charge", None, &Settings::default()).unwrap();
        assert_eq!(plan.queue, "charge");
        assert_eq!(plan.dead_letters.as_deref(), Some("charge-dlq"));
        assert_eq!(plan.poller, PollerSettings::default());
        let fifo = true;
        let given = Settings {
            fifo,
            ..Settings::default()
        };
        let plan = Plan::new(None, None, "charge", None, &given).unwrap();
        assert_eq!(plan.queue, "charge.fifo");
        assert_eq!(plan.dead_letters.as_deref(), Some("charge-dlq.fifo"));
        plan.create(&mut Queues::default()).unwrap();
    }

    #[test]
    fn what_would_lose_or_double_messages_is_said() {
        let template = TEMPLATE
            .replace("FunctionResponseTypes: [", "Ignored: [")
            .replace("VisibilityTimeout: 181", "VisibilityTimeout: 10")
            .replace("RedrivePolicy: {", "Ignored: {");
        let plan = plan(&template, None, &Settings::default()).unwrap();
        let all = plan.warnings.join("\n");
        let words = [
            "ReportBatchItemFailures",
            "delivered twice",
            "no dead-letter queue",
        ];
        for word in words {
            assert!(all.contains(word), "{word}: {all}");
        }
        assert!(!plan.poller.reports_failures);
    }

    #[test]
    fn of_several_queues_one_must_be_picked() {
        let more = "        More: { Type: SQS, Properties: { Queue: !GetAtt Other.Arn } }\n";
        let template = format!("{TEMPLATE}{more}");
        let error = plan(&template, None, &Settings::default()).unwrap_err();
        assert!(error.to_string().contains("Orders, Other"), "{error}");
        let picked = plan(&template, Some("Other"), &Settings::default()).unwrap();
        assert_eq!(picked.queue, "Other");
        let error = plan(&template, Some("None"), &Settings::default()).unwrap_err();
        assert_eq!(error.to_string(), NO_MAPPING);
    }
}
