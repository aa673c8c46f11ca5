//! The commands that deliver events again which an event bus did not deliver.

use crate::operate::moment;
use crate::print;
use serde_json::json;
use sqs_once::store::Timestamp;
use sqs_once_operate::BusFailure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime};

/// The most events of one subscriber: a pattern has at most 4096 characters, and a UUID in it 39.
const EVENTS: usize = 100;
/// How far a replay reads beyond the last event. The filter excludes other events.
const BEYOND: Duration = Duration::from_secs(60);

/// Prints for each subscriber how to replay the events of its failure records.
pub(super) fn note(failures: &[BusFailure]) {
    let mut subscribers: BTreeMap<_, BTreeSet<_>> = BTreeMap::new();
    let (whole, others): (Vec<_>, Vec<_>) = failures.iter().partition(|failure| {
        !failure.subscriber_arn.is_empty() && !failure.failed_messages.is_empty()
    });
    if !others.is_empty() {
        print::note("Some records name no subscriber or no event: look at them with `dlq show`.");
    }
    for failure in whole {
        let subscriber = (&*failure.bus_arn, &*failure.subscriber_arn);
        let events = failure.failed_messages.iter();
        let events = events.map(|event| (&*event.timestamp, &*event.event_id));
        subscribers.entry(subscriber).or_default().extend(events);
    }
    for ((bus, subscriber), events) in subscribers {
        let events: Vec<_> = events.into_iter().collect();
        for events in events.chunks(EVENTS) {
            print::note(&command(bus, subscriber, events));
        }
    }
    print::note(
        "Correct the cause before you replay these events. After they have arrived, delete the new subscriber, and \
         drop these messages.",
    );
}

/// The command of the AWS CLI that creates a subscriber like the first one, for these events alone. Each event has a time
/// and an id.
fn command(bus: &str, subscriber: &str, events: &[(&str, &str)]) -> String {
    let ids: Vec<_> = events.iter().map(|(_, id)| *id).collect();
    let name = format!("redrive-{}", ids.first().unwrap_or(&"events"));
    let pattern = json!({"aws:EventId": ids}).to_string();
    let filter = json!({"Filters": [{"Scope": "SYSTEM_METADATA", "Pattern": pattern}]});
    let times: Option<Vec<_>> = events.iter().map(|(time, _)| timestamp(time)).collect();
    let times = times.unwrap_or_default();
    let window = match (times.iter().min(), times.iter().max()) {
        (Some(first), Some(last)) => json!({
            "PointType": "TIMESTAMP", "StartingPoint": moment(*first), "EndPoint": moment(*last + BEYOND),
        }),
        // It reads all events that the bus keeps, and delivers these.
        _ => json!({"PointType": "HORIZON"}),
    };
    let same = "{Type: Type || 'UNORDERED', InvokeConfiguration: InvokeConfiguration, \
                Transformer: Transformer || {Type: 'RAW'}, OnFailureConfiguration: OnFailureConfiguration}";
    format!(
        "aws eventsv2 create-subscriber --name {} --event-bus-arn {} \\
    --starting-position POINT_IN_TIME --point-in-time-configuration {} \\
    --filter-configuration {} \\
    --cli-input-json \"$(aws eventsv2 describe-subscriber --subscriber-arn {} --output json \\
        --query \"{same}\")\"",
        quoted(&name),
        quoted(bus),
        quoted(&window.to_string()),
        quoted(&filter.to_string()),
        quoted(subscriber),
    )
}

fn timestamp(text: &str) -> Option<Timestamp> {
    let time = humantime::parse_rfc3339(text).ok()?;
    let since_epoch = time.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    Some(Timestamp::default() + since_epoch)
}

/// Quotes a text for a shell. What a message says must not run.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}
