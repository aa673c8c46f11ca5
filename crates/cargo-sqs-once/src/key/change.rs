//! `cargo sqs-once key forget` and `key complete`.

use super::{ChangeArgs, CompleteArgs, Error, ForgetArgs, shown};
use crate::confirm::confirm;
use crate::operate::{keys, moment, namespace};
use crate::print;
use crate::private;
use serde_json::{Value, json};
use sqs_once::key::{ItemId, Namespace};
use sqs_once::random::OsRandom;
use sqs_once::store::Item;
use sqs_once::time::Timestamp;
use sqs_once_operate::{Change, Changed, Found, KeyName, State};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

/// A requested change, before its time is known.
enum Wanted {
    Forget,
    Complete {
        retention: Duration,
        readable_keys: bool,
    },
}

pub(super) async fn forget(
    args: ForgetArgs,
    now: impl Fn() -> Timestamp,
) -> Result<(), crate::error::Error> {
    change(&args.change, &Wanted::Forget, now).await
}

pub(super) async fn complete(
    args: CompleteArgs,
    now: impl Fn() -> Timestamp,
) -> Result<(), crate::error::Error> {
    let wanted = Wanted::Complete {
        retention: args.retention,
        readable_keys: args.readable_keys,
    };
    change(&args.change, &wanted, now).await
}

/// Shows the key, asks, writes the change and reports it.
async fn change(
    args: &ChangeArgs,
    wanted: &Wanted,
    now: impl Fn() -> Timestamp,
) -> Result<(), crate::error::Error> {
    let name = KeyName::read(&args.name.words).map_err(Error::from)?;
    let namespace = namespace(&args.table).map_err(Error::from)?;
    let (keys, place) = keys(&args.account, &args.table)
        .await
        .map_err(Error::from)?;
    let found = keys
        .find(&name, namespace.as_ref())
        .await
        .map_err(Error::from)?;
    let (id, seen) = one(found, wanted, &name, namespace)?;
    match &seen {
        Some(item) => print::note(shown::text(item, false, now()).trim_end()),
        None => print::note("nothing is known of this key"),
    }
    refuse_live(seen.as_ref(), args, now())?;
    let log = args.log.as_deref().map(Log::open).transpose()?;
    if !args.yes {
        let question = format!("{}: {}", place.name().await, wanted.question());
        confirm(&question, false).await.map_err(Error::from)?;
    }

    let at = now();
    let document = |item: &Item| shown::document(item, false, at);
    let line = |after: Value, error: Option<String>| {
        print::json_line(&json!({
            "at": moment(at),
            "by": user(),
            "action": wanted.name(),
            "table": place.table,
            "id": id.as_str(),
            "before": seen.as_ref().map_or(Value::Null, document),
            "after": after,
            "error": error,
        }))
    };
    let changed = keys
        .change(wanted.change(at), &id, seen.as_ref(), &OsRandom, at)
        .await;
    let changed = match changed {
        Ok(changed) => changed,
        Err(error) => {
            // The write may have succeeded despite the error.
            let line = line(Value::Null, Some(error.to_string()));
            if let Some(Err(unwritten)) = log.map(|log| log.append(&line)) {
                print::note(&unwritten.to_string());
            }
            return Err(Error::from(error).into());
        }
    };
    let after = match changed {
        Changed::Written(item) => item,
        Changed::Nothing => return Err(Error::NotFound.into()),
        Changed::Refused(found) => {
            match found {
                Some(item) => print::note(shown::text(&item, false, at).trim_end()),
                None => print::note("nothing is known of this key any more"),
            }
            return Err(Error::Changed.into());
        }
    };
    let line = line(document(&after), None);
    if let Some(log) = log {
        log.append(&line)?;
    }
    if args.json {
        print::result(line.as_bytes())
    } else {
        print::result(wanted.done(&id, &after).as_bytes())
    }
}

/// Returns the id of the one matching key, and its item if it exists.
fn one(
    mut found: Found,
    wanted: &Wanted,
    name: &KeyName,
    namespace: Option<Namespace>,
) -> Result<(ItemId, Option<Item>), Error> {
    if let Some(item) = found.items.pop() {
        return match found.items.len() {
            0 => Ok((item.id.clone(), Some(item))),
            others => Err(Error::Ambiguous(others + 1)),
        };
    }
    let Wanted::Complete { readable_keys, .. } = wanted else {
        return Err(Error::NotFound);
    };
    match (
        name.keys()
            .map_err(sqs_once_operate::Error::from)?
            .as_slice(),
        namespace,
    ) {
        ([key], Some(namespace)) => {
            let id = namespace.readable_keys(*readable_keys).item_id(key);
            Ok((id, None))
        }
        ([], _) | (_, None) => Err(Error::NotFound),
        (several, _) => Err(Error::Ambiguous(several.len())),
    }
}

fn refuse_live(seen: Option<&Item>, args: &ChangeArgs, now: Timestamp) -> Result<(), Error> {
    match seen {
        Some(item)
            if State::from_item(item, now) == State::InProgress && !args.even_in_progress =>
        {
            let until = item.lease_until.or(item.expiration);
            let until = until.map_or_else(|| "nobody knows when".to_owned(), moment);
            Err(Error::InProgress { until })
        }
        _ => Ok(()),
    }
}

impl Wanted {
    fn change(&self, now: Timestamp) -> Change {
        match self {
            Self::Forget => Change::Forget,
            Self::Complete { retention, .. } => Change::Complete {
                expiration: now + *retention,
            },
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Forget => "forget",
            Self::Complete { .. } => "complete",
        }
    }

    fn question(&self) -> String {
        match self {
            Self::Forget => "Forget it? The effect happens again with its next message.".to_owned(),
            Self::Complete { retention, .. } => format!(
                "Complete it? For {} its messages will have no effect.",
                humantime::format_duration(*retention)
            ),
        }
    }

    fn done(&self, id: &ItemId, after: &Item) -> String {
        let id = print::one_line(id.as_str());
        match (self, after.expiration) {
            (Self::Complete { .. }, Some(expiration)) => {
                format!("completed {id} until {}", moment(expiration))
            }
            (Self::Complete { .. }, None) => format!("completed {id} for ever"),
            (Self::Forget, _) => format!("forgot {id}: its next message runs"),
        }
    }
}

/// The user's name, from the environment.
fn user() -> Option<String> {
    ["USER", "USERNAME"]
        .into_iter()
        .find_map(|name| std::env::var(name).ok())
}

/// The file that `--log` appends to. It is opened before the change.
struct Log<'a> {
    path: &'a Path,
    file: File,
}

impl<'a> Log<'a> {
    fn open(path: &'a Path) -> Result<Self, Error> {
        let file = private::append(path);
        match file {
            Ok(file) => Ok(Self { path, file }),
            Err(source) => Err(Error::OpenLog {
                path: path.to_owned(),
                source,
            }),
        }
    }

    fn append(mut self, line: &str) -> Result<(), Error> {
        let written = self.file.write_all(format!("{line}\n").as_bytes());
        written
            .and_then(|()| self.file.sync_data())
            .map_err(|source| {
                print::note(line);
                let path = self.path.to_owned();
                Error::WriteLog { path, source }
            })
    }
}
