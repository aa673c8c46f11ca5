//! Opens the queue and its table, and selects messages, from the arguments.

use super::{ATTRIBUTE, CauseArgs, ChangeArgs, QueueArgs, SelectionArgs, StateArg};
use crate::operate::{keys_in, namespace, table};
use crate::print;
use anyhow::{Result, bail};
use aws_sdk_sqs::Client;
use sqs_once::unstable::JsonPointer;
use sqs_once_operate::{
    DeadLetters, KeyFrom, PartFrom, SdkConfig, Selection, Standing, sdk_config,
};

/// Opens the queue, joined with the table if the arguments name one. Also returns the settings of the account.
pub(super) async fn queue(args: &QueueArgs) -> Result<(DeadLetters, SdkConfig)> {
    let namespace = namespace(&args.consumer)?;
    let key_from = match args.key_from.is_empty() {
        true => None,
        false => Some(KeyFrom {
            parts: args.key_from.iter().map(|place| part(place)).collect(),
            namespace: namespace.ok_or(sqs_once_operate::Error::NoNamespace)?,
        }),
    };
    let config = sdk_config(None, None).await?;
    let keys = table(&args.table).map(|table| keys_in(&config, table, &args.table));
    let (keys, client) = (keys.transpose()?, Client::new(&config));
    let queue = match args.queue.contains("://") {
        true => DeadLetters::new(client, &args.queue, keys),
        false => DeadLetters::named(client, &args.queue, keys).await?,
    };
    Ok((queue.key_from(key_from), config))
}

fn part(place: &str) -> PartFrom {
    match place.strip_prefix(ATTRIBUTE) {
        Some(name) => PartFrom::Attribute(name.to_owned()),
        None => PartFrom::Body(JsonPointer::new(place)),
    }
}

pub(super) fn selection(args: &ChangeArgs) -> Result<Selection> {
    let SelectionArgs {
        ids, state, cause, ..
    } = &args.selection;
    Ok(Selection {
        ids: ids.iter().cloned().collect(),
        standings: standings(state, &args.queue)?,
        ..by_cause(cause)
    })
}

pub(super) fn by_cause(args: &CauseArgs) -> Selection {
    Selection {
        groups: args.group.iter().cloned().collect(),
        message_groups: args.message_group.iter().cloned().collect(),
        reasons: args.reason.clone(),
        sources: args.source_queue.iter().map(|queue| name(queue)).collect(),
        ..Selection::default()
    }
}

/// The name at the end of a queue's ARN or URL.
pub(super) fn name(queue: &str) -> String {
    let name = queue.trim_end_matches('/').rsplit([':', '/']).next();
    name.unwrap_or_default().to_owned()
}

pub(super) fn standings(states: &[StateArg], queue: &QueueArgs) -> Result<Vec<Standing>> {
    if !states.is_empty() && table(&queue.table).is_none() {
        bail!("--state needs the table: give --table, or set SQS_ONCE_TABLE");
    }
    let standings = states.iter().map(|state| match state {
        StateArg::UnknownKey => Standing::UnknownKey,
        StateArg::NeverStarted => Standing::NeverStarted,
        StateArg::InProgress => Standing::InProgress,
        StateArg::Failed => Standing::Failed,
        StateArg::Completed => Standing::Completed,
        StateArg::OtherPayload => Standing::OtherPayload,
        StateArg::Unreadable => Standing::Unreadable,
    });
    Ok(standings.collect())
}

/// Notes the messages of a FIFO queue that SQS returns only after others are gone.
pub(super) async fn note_behind(queue: &DeadLetters, seen: usize) -> Result<()> {
    if !queue.is_fifo() {
        return Ok(());
    }
    let (messages, _) = queue.count().await?;
    let behind = usize::try_from(messages).map_or(0, |messages| messages.saturating_sub(seen));
    if behind > 0 {
        print::note(&format!(
            "about {behind} more messages were not looked at: of a message group, SQS gives the first ten until these are gone"
        ));
    }
    Ok(())
}

/// Notes messages in flight, which explain why a queue with messages returns none.
pub(super) async fn note_in_flight(queue: &DeadLetters) -> Result<()> {
    let (_, in_flight) = queue.count().await?;
    if in_flight > 0 {
        let minutes = DeadLetters::HOLD.as_secs() / 60;
        print::note(&format!(
            "about {in_flight} messages are in flight: somebody else is looking at them, or a run that was killed; \
             what it held comes back after {minutes} minutes"
        ));
    }
    Ok(())
}
