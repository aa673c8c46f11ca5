//! Shows, lists, forgets and completes keys.

use super::{ChangeArgs, CompleteArgs, KeyArgs, KeyCommand, KeyNameArgs, ListArgs, ShowArgs};
use super::{IdsArg, StateArg, shown};
use crate::operate::{ConsumerArgs, ItemChange, List, distance, keys, moment, namespace, row};
use crate::print::{self, one_line};
use anyhow::{Error, Result, anyhow, bail, ensure};
use serde_json::json;
use sqs_once::key::{ItemId, Namespace};
use sqs_once::store::{Item, Status, Timestamp};
use sqs_once::unstable::{Listed, Listing, block};
use sqs_once_operate::{BreakerName, Change, KeyName, Keys, State};

const NOT_FOUND: &str = "the table does not have this key: no message with it was ever claimed, or its completion has \
                         expired and is gone";

/// The length of a whole hash, in hexadecimal digits.
const WHOLE_HASH: usize = 64;

pub(crate) async fn key(args: KeyArgs) -> Result<()> {
    match args.command {
        KeyCommand::Show(args) => show(args).await,
        KeyCommand::List(args) => list(args).await,
        KeyCommand::Forget(args) => change(&args, None).await,
        KeyCommand::Complete(args) => change(&args.change, Some(&args)).await,
    }
}

/// Reads the key's name. A breaker's item is not a key.
fn key_name(args: &KeyNameArgs) -> Result<KeyName> {
    if let [word] = &args.words[..]
        && let Some(name) = BreakerName::from_id(word)
    {
        bail!("{word} is a breaker: use `cargo sqs-once breaker show {name}`");
    }
    Ok(KeyName::read(&args.words)?)
}

/// Searches for a key. The block of a message group is not a key.
async fn find(keys: &Keys, name: &KeyName, namespace: Option<&Namespace>) -> Result<Vec<Item>> {
    let found = keys.find(name, namespace).await?;
    if let Some(block) = found.iter().find(|item| is_block(&item.id)) {
        let id = one_line(block.id.as_str());
        bail!("{id} is the block of a message group: use `cargo sqs-once dlq blocks`");
    }
    Ok(found)
}

/// Whether an id is that of a block. A key's id has 64 digits or a `:`.
fn is_block(id: &ItemId) -> bool {
    let digits = id.as_str().strip_prefix(block::PREFIX);
    digits.is_some_and(|digits| digits.len() == 32 && !digits.contains(':'))
}

/// Prints how the words of a key were read. Its id is a hash, which would not show a wrong namespace or kind.
fn note_name(name: &KeyName, namespace: Option<&Namespace>) {
    if let (KeyName::Parts(_), Some(namespace)) = (name, namespace) {
        let (namespace, name) = (one_line(namespace.as_str()), one_line(&name.to_string()));
        print::note(&format!("the key {name} in the namespace {namespace}"));
    }
}

async fn show(args: ShowArgs) -> Result<()> {
    let name = key_name(&args.name)?;
    let namespace = namespace(&args.consumer)?;
    let (keys, _) = keys(&args.table).await?;
    note_name(&name, namespace.as_ref());
    let found = find(&keys, &name, namespace.as_ref()).await?;
    ensure!(!found.is_empty(), not_found(&name, &args.consumer));
    let now = Timestamp::now();
    if args.format.is_json() {
        let mut documents = found
            .iter()
            .map(|item| shown::document(item, args.data, now));
        return documents.try_for_each(|document| print::json(&document));
    }
    let texts = found.iter().map(|item| shown::text(item, args.data, now));
    print::result(texts.collect::<Vec<_>>().join("\n").trim_end())
}

async fn list(args: ListArgs) -> Result<()> {
    let now = Timestamp::now();
    let namespace = namespace(&args.consumer)?;
    let states: Vec<State> = args.state.iter().map(|state| state.state()).collect();
    let listing = Listing {
        prefix: namespace.map_or_else(String::new, |name| format!("{}#", name.as_str())),
        status: common_status(&states),
    };
    let (keys, _) = keys(&args.table).await?;
    let list = List {
        json: args.format.is_json(),
        limit: args.limit.get(),
        heading: ["state", "lease", "expires", "key"],
        none: "no such keys",
    };
    let print = list.print(&keys, &listing, |item| {
        is_wanted(item, &states, now).then(|| match args.format.is_json() {
            true => json_line(item, now),
            false => line(item, now),
        })
    });
    print.await
}

/// The status that DynamoDB can filter by, if all states share one.
fn common_status(states: &[State]) -> Option<Status> {
    let all = |these: &[State]| states.iter().all(|state| these.contains(state));
    if states.is_empty() {
        None
    } else if all(&[State::InProgress, State::Lapsed, State::Released]) {
        Some(Status::InProgress)
    } else if all(&[State::Completed, State::Expired]) {
        Some(Status::Completed)
    } else {
        None
    }
}

/// Whether to list an item. Items that can't be read are in no state, but the user should see them.
/// The items of breakers and of blocked message groups are not keys.
fn is_wanted((id, item): &Listed, states: &[State], now: Timestamp) -> bool {
    let state = match item {
        _ if BreakerName::from_id(id.as_str()).is_some() => return false,
        _ if is_block(id) => return false,
        Ok(item) => State::from_item(item, now),
        Err(_) => State::Unknown,
    };
    states.is_empty() || states.contains(&state)
}

fn line((id, item): &Listed, now: Timestamp) -> String {
    let id = one_line(id.as_str());
    let Ok(item) = item else {
        return row(["unreadable", "", "", &id]);
    };
    let distance = |time: Option<Timestamp>| time.map_or(String::new(), |time| distance(time, now));
    let state = State::from_item(item, now);
    let lease = distance(shown::lease(item, state));
    row([state.name(), &lease, &distance(item.expiration), &id])
}

fn json_line((id, item): &Listed, now: Timestamp) -> String {
    match item {
        Ok(item) => print::json_line(&shown::document(item, false, now)),
        Err(error) => print::json_line(
            &json!({"id": id.as_str(), "state": "unreadable", "error": error.to_string()}),
        ),
    }
}

impl StateArg {
    fn state(self) -> State {
        match self {
            Self::InProgress => State::InProgress,
            Self::Lapsed => State::Lapsed,
            Self::Released => State::Released,
            Self::Completed => State::Completed,
            Self::Expired => State::Expired,
            Self::Unknown => State::Unknown,
        }
    }
}

/// Shows the key, asks, forgets or completes it, and reports the change.
async fn change(args: &ChangeArgs, complete: Option<&CompleteArgs>) -> Result<()> {
    let name = key_name(&args.name)?;
    let namespace = namespace(&args.consumer)?;
    let (keys, place) = keys(&args.table).await?;
    note_name(&name, namespace.as_ref());
    let found = find(&keys, &name, namespace.as_ref()).await?;
    let (id, seen) = one(found, args, complete, &name, namespace)?;
    let now = Timestamp::now();
    match &seen {
        Some(item) => print::note(shown::text(item, false, now).trim_end()),
        None => print::note("the table does not have this key"),
    }
    if let Some(item) = &seen
        && State::from_item(item, now) == State::InProgress
        && !args.even_in_progress
    {
        let until = item.lease_until.or(item.expiration);
        let until = until.map_or_else(|| "an unknown time".to_owned(), moment);
        bail!(
            "a worker is processing this key until {until}: wait until then, or give \
             --even-in-progress if the effect may happen twice"
        );
    }
    let (action, question) = match complete {
        None => {
            let question = "Forget it? The effect happens again with its next message.";
            ("forget", question.to_owned())
        }
        Some(complete) => {
            let duration = humantime::format_duration(complete.duration);
            let question = format!("For {duration} its messages will have no effect.");
            ("complete", format!("Complete it? {question}"))
        }
    };
    let change = ItemChange {
        keys: &keys,
        place: &place,
        args: &args.write,
        action,
        kind: "key",
        id: &id,
        seen: seen.as_ref(),
        document: &|item, at| shown::document(item, false, at),
        text: &|item, at| shown::text(item, false, at),
    };
    let write = |at| match complete {
        None => Change::Forget,
        Some(complete) => Change::Complete {
            expiration: at + complete.duration,
        },
    };
    let id = print::one_line(id.as_str());
    let done = |item: &Item| match (complete, item.expiration) {
        (None, _) => format!(
            "forgot {id}: its next message runs, as a first attempt with the idempotency token of earlier ones"
        ),
        (Some(_), None) => format!("completed {id} for ever"),
        (Some(_), Some(expiration)) => format!("completed {id} until {}", moment(expiration)),
    };
    change.make(&question, write, done).await
}

/// Returns the id of the one matching key, and its item if it exists.
fn one(
    mut found: Vec<Item>,
    args: &ChangeArgs,
    complete: Option<&CompleteArgs>,
    name: &KeyName,
    namespace: Option<Namespace>,
) -> Result<(ItemId, Option<Item>)> {
    let keys = name.keys().map_err(sqs_once_operate::Error::from)?;
    let ids = |form| -> Vec<ItemId> {
        let namespace = namespace.clone();
        let namespace = namespace.map(|it| it.readable_keys(form == IdsArg::Readable));
        let ids = |it: Namespace| keys.iter().map(|key| it.item_id(key)).collect();
        namespace.map(ids).unwrap_or_default()
    };
    let form = complete.and_then(|complete| complete.ids);
    if let Some(form) = form.filter(|_| !keys.is_empty()) {
        let ids = ids(form);
        found.retain(|item| ids.contains(&item.id));
    }
    if let Some(item) = found.pop() {
        return match found.len() {
            0 => Ok((item.id.clone(), Some(item))),
            others => Err(ambiguous(others + 1)),
        };
    }
    ensure!(complete.is_some(), not_found(name, &args.consumer));
    if let Some(id) = whole_id(name) {
        return Ok((id, None));
    }
    match (form, &*ids(IdsArg::Hashed), &*ids(IdsArg::Readable)) {
        (_, [], _) => bail!(not_found(name, &args.consumer)),
        (Some(IdsArg::Hashed), [id], _) | (Some(IdsArg::Readable), _, [id]) => {
            Ok((id.clone(), None))
        }
        (None, [hashed], [readable]) => bail!(
            "the table does not have this key. To create it, give the form of its consumer's ids: --ids hashed, for \
             {}, or --ids readable, for {}{}",
            one_line(hashed.as_str()),
            one_line(readable.as_str()),
            perhaps_secret(&args.consumer)
        ),
        (_, several, _) => Err(ambiguous(several.len())),
    }
}

/// The message that the table does not have a key.
fn not_found(name: &KeyName, consumer: &ConsumerArgs) -> String {
    let secret = match name {
        KeyName::Parts(_) => perhaps_secret(consumer),
        _ => "",
    };
    format!("{NOT_FOUND}{secret}")
}

/// A hint at the secret that the ids may have, if none is given.
fn perhaps_secret(consumer: &ConsumerArgs) -> &'static str {
    match consumer.key_secret_file {
        None => ". If its ids are hashed with a secret, give --key-secret-file",
        Some(_) => "",
    }
}

/// The id that the name is, unless it is only the start of one.
fn whole_id(name: &KeyName) -> Option<ItemId> {
    let KeyName::Id(id) = name else {
        return None;
    };
    let (_, key) = id.split_once('#')?;
    let is_whole = key.len() == WHOLE_HASH || key.contains(':');
    is_whole.then(|| ItemId::from_stored(id.as_str()))
}

fn ambiguous(keys: usize) -> Error {
    anyhow!(
        "this name matches {keys} keys: give the id of one, or the kind of each part (s:42 is text, i:42 an integer)"
    )
}
