//! `cargo sqs-once key forget` and `key complete`.

use super::{ChangeArgs, CompleteArgs, NOT_FOUND, shown};
use crate::confirm::confirm;
use crate::operate::{keys, moment, namespace};
use crate::print;
use crate::private;
use anyhow::{Context, Error, Result, anyhow, bail};
use serde_json::{Value, json};
use sqs_once::key::{ItemId, Namespace};
use sqs_once::random::OsRandom;
use sqs_once::store::Item;
use sqs_once::time::{Clock, SystemClock};
use sqs_once_operate::{Change, Changed, Found, KeyName, State};
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// Shows the key, asks, forgets or completes it, and reports the change.
pub(super) async fn change(args: &ChangeArgs, complete: Option<&CompleteArgs>) -> Result<()> {
    let name = KeyName::read(&args.name.words)?;
    let namespace = namespace(&args.table)?;
    let (keys, place) = keys(&args.table).await?;
    let found = keys.find(&name, namespace.as_ref()).await?;
    let (id, seen) = one(found, complete, &name, namespace)?;
    let now = SystemClock.now();
    let show = |item: &Item, at| print::note(shown::text(item, false, at).trim_end());
    match &seen {
        Some(item) => show(item, now),
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
    let log = args.log.as_deref().map(Log::open).transpose()?;
    if !args.yes {
        let question = match complete {
            None => "Forget it? The effect happens again with its next message.".to_owned(),
            Some(complete) => format!(
                "Complete it? For {} its messages will have no effect.",
                humantime::format_duration(complete.retention)
            ),
        };
        let question = format!("{}: {question}", place.name().await);
        confirm(&question, false).await?;
    }

    // The answer may have taken a while.
    let at = SystemClock.now();
    let document = |item: &Item| shown::document(item, false, at);
    let (action, change) = match complete {
        None => ("forget", Change::Forget),
        Some(complete) => {
            let expiration = at + complete.retention;
            ("complete", Change::Complete { expiration })
        }
    };
    let line = |after: Value, error: Option<String>| {
        print::json_line(&json!({
            "at": moment(at),
            "by": user(),
            "action": action,
            "table": place.table,
            "id": id.as_str(),
            "before": seen.as_ref().map_or(Value::Null, document),
            "after": after,
            "error": error,
        }))
    };
    let changed = keys.change(change, &id, seen.as_ref(), &OsRandom, at).await;
    let after = match changed {
        Ok(Changed::Written(item)) => item,
        Ok(Changed::Nothing) => bail!(NOT_FOUND),
        Ok(Changed::Refused(found)) => {
            match found {
                Some(item) => show(&item, at),
                None => print::note("the table no longer has this key"),
            }
            bail!("the key has changed since it was shown: nothing was written");
        }
        Err(error) => {
            // The write may have succeeded despite the error.
            let line = line(Value::Null, Some(error.to_string()));
            if let Some(Err(unwritten)) = log.map(|log| log.append(&line)) {
                print::note(&unwritten.to_string());
            }
            return Err(error.into());
        }
    };
    let line = line(document(&after), None);
    if let Some(log) = log {
        log.append(&line)?;
    }
    if args.json {
        return print::result(line);
    }
    let id = print::one_line(id.as_str());
    print::result(match (complete, after.expiration) {
        (None, _) => format!("forgot {id}: its next message runs"),
        (Some(_), None) => format!("completed {id} for ever"),
        (Some(_), Some(expiration)) => format!("completed {id} until {}", moment(expiration)),
    })
}

/// Returns the id of the one matching key, and its item if it exists.
fn one(
    mut found: Found,
    complete: Option<&CompleteArgs>,
    name: &KeyName,
    namespace: Option<Namespace>,
) -> Result<(ItemId, Option<Item>)> {
    if let Some(item) = found.items.pop() {
        return match found.items.len() {
            0 => Ok((item.id.clone(), Some(item))),
            others => Err(ambiguous(others + 1)),
        };
    }
    let Some(complete) = complete else {
        bail!(NOT_FOUND);
    };
    let keys = name.keys().map_err(sqs_once_operate::Error::from)?;
    match (keys.as_slice(), namespace) {
        ([key], Some(namespace)) => {
            let namespace = namespace.readable_keys(complete.readable_keys);
            Ok((namespace.item_id(key), None))
        }
        ([], _) | (_, None) => bail!(NOT_FOUND),
        (several, _) => Err(ambiguous(several.len())),
    }
}

fn ambiguous(keys: usize) -> Error {
    anyhow!(
        "this name matches {keys} keys: give the id of one, or the kind of each part (s:42 is text, i:42 an integer)"
    )
}

/// The user's name, from the environment.
fn user() -> Option<String> {
    let mut names = ["USER", "USERNAME"].into_iter();
    names.find_map(|name| std::env::var(name).ok())
}

/// The file that `--log` appends to. It is opened before the change.
struct Log<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Log<'a> {
    fn open(path: &'a Path) -> Result<Self> {
        let shown = path.display();
        let unopened = || format!("the log {shown} can't be written: nothing was changed");
        let file = private::append(path).with_context(unopened)?;
        Ok(Self { path, file })
    }

    fn append(mut self, line: &str) -> Result<()> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        let written = written.and_then(|()| self.file.sync_data());
        written.with_context(|| {
            print::note(line);
            let path = self.path.display();
            format!("the log {path} can't be written; its line is on standard error")
        })
    }
}
