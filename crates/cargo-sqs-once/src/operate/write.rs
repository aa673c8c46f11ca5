//! Changes of items, and the file of `--log`, which lists every change with who made it, when and where.

use super::{Place, WriteArgs, moment};
use crate::confirm::confirm;
use crate::print;
use crate::private;
use anyhow::{Context, Error, Result, anyhow};
use serde_json::{Value, json};
use sqs_once::key::ItemId;
use sqs_once::store::{Item, Settled, Timestamp};
use sqs_once::unstable::new_owner;
use sqs_once_operate::{Change, Keys, SdkConfig, account};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::path::PathBuf;

/// Writes the line of a change before the change, so that a crash can't leave a change without a line. A change that is
/// not confirmed gets a second line, with the error.
pub(crate) struct Audit {
    file: Option<(PathBuf, File)>,
    by: Option<String>,
    region: String,
    account: Option<String>,
    /// The lines of changes that are not confirmed, by what they change.
    unconfirmed: RefCell<BTreeMap<String, Value>>,
}

impl Audit {
    /// Opens the file, before anything is changed. Resolves the credentials to find the account.
    pub(crate) async fn open(args: &WriteArgs, config: &SdkConfig) -> Result<Self> {
        let open = |path: &PathBuf| {
            let file = private::append(path);
            let shown = path.display();
            let file = file
                .with_context(|| format!("the log {shown} can't be written: nothing was changed"));
            Ok::<_, Error>((path.clone(), file?))
        };
        let mut names = ["USER", "USERNAME"].into_iter();
        Ok(Self {
            file: args.log.as_ref().map(open).transpose()?,
            by: names.find_map(|name| std::env::var(name).ok()),
            region: config.region().map(ToString::to_string).unwrap_or_default(),
            account: account(config).await,
            unconfirmed: RefCell::default(),
        })
    }

    /// Formats the place, such as `table orders-idempotency, eu-central-1, account 123456789012`.
    pub(crate) fn place(&self, table: &str) -> String {
        let region = &self.region;
        match &self.account {
            Some(account) => format!("table {table}, {region}, account {account}"),
            None => {
                format!("table {table}, {region}, an account that the credentials do not name")
            }
        }
    }

    /// Returns the line of a change: its own fields, and those of every change.
    pub(crate) fn line(&self, action: &str, mut fields: Value) -> Value {
        fields["at"] = moment(Timestamp::now()).into();
        fields["by"] = self.by.clone().into();
        fields["region"] = self.region.clone().into();
        fields["account"] = self.account.clone().into();
        fields["action"] = action.into();
        fields["error"] = Value::Null;
        fields
    }

    /// Writes the lines of changes that are made next, each with the name of what it changes.
    pub(crate) fn announce(&self, lines: impl IntoIterator<Item = (String, Value)>) -> Result<()> {
        if self.file.is_none() {
            return Ok(());
        }
        let lines: Vec<_> = lines.into_iter().collect();
        let written = self.append(lines.iter().map(|(_, line)| line));
        written.with_context(|| format!("{}: nothing more was changed", self.unwritten()))?;
        self.unconfirmed.borrow_mut().extend(lines);
        Ok(())
    }

    pub(crate) fn done(&self, name: &str) {
        self.unconfirmed.borrow_mut().remove(name);
    }

    /// Writes second lines for the changes that are not confirmed. They may have been made.
    pub(crate) fn failed(&self, error: &Error) {
        let lines = self.unconfirmed.take();
        self.write_failed(lines.into_values(), &format!("{error:#}"));
    }

    /// Writes a second line for a change that was refused.
    pub(crate) fn refused(&self, name: &str, error: &str) {
        let line = self.unconfirmed.borrow_mut().remove(name);
        self.write_failed(line, error);
    }

    fn write_failed(&self, lines: impl IntoIterator<Item = Value>, error: &str) {
        let mut lines: Vec<_> = lines.into_iter().collect();
        for line in &mut lines {
            line["at"] = moment(Timestamp::now()).into();
            line["error"] = error.into();
            if let Some(after) = line.get_mut("after") {
                *after = Value::Null;
            }
        }
        if self.append(lines.iter()).is_err() {
            print::note(&self.unwritten());
        }
    }

    fn append<'a>(&self, lines: impl Iterator<Item = &'a Value>) -> io::Result<()> {
        let lines: Vec<_> = lines.map(|line| print::json_line(line) + "\n").collect();
        match &self.file {
            Some((_, file)) if !lines.is_empty() => {
                let mut file: &File = file;
                file.write_all(lines.concat().as_bytes())?;
                file.sync_data()
            }
            _ => Ok(()),
        }
    }

    fn unwritten(&self) -> String {
        let path = self.file.as_ref().map(|(path, _)| path.display());
        let path = path.map_or_else(String::new, |path| path.to_string());
        format!("the log {path} can't be written")
    }
}

/// A change of an item that the user has seen.
pub(crate) struct ItemChange<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) place: &'a Place,
    pub(crate) args: &'a WriteArgs,
    pub(crate) action: &'static str,
    /// The kind of item, as messages name it.
    pub(crate) kind: &'static str,
    pub(crate) id: &'a ItemId,
    pub(crate) seen: Option<&'a Item>,
    /// Formats an item as JSON.
    pub(crate) document: &'a dyn Fn(&Item, Timestamp) -> Value,
    /// Formats an item for people.
    pub(crate) text: &'a dyn Fn(&Item, Timestamp) -> String,
}

impl ItemChange<'_> {
    /// Asks, writes the item unless it has changed since it was shown, and prints what was done.
    pub(crate) async fn make(
        self,
        question: &str,
        change: impl FnOnce(Timestamp) -> Change,
        done: impl FnOnce(&Item) -> String,
    ) -> Result<()> {
        let audit = Audit::open(self.args, &self.place.config).await?;
        let place = audit.place(&self.place.table);
        confirm(&format!("{place}: {question}"), self.args.yes).await?;
        // The answer may have taken a while.
        let at = Timestamp::now();
        let owner = new_owner();
        let new = change(at).write(self.id, self.seen, owner, at);
        let new = new.context("the change writes nothing")?;
        let line = self.write(&new, at, &audit).await?;
        print::result(match self.args.format.is_json() {
            true => line,
            false => done(&new),
        })
    }

    /// Writes the item. Returns the line of the change in the audit file.
    async fn write(&self, new: &Item, at: Timestamp, audit: &Audit) -> Result<String> {
        let (id, kind) = (new.id.as_str(), self.kind);
        let document = |item| (self.document)(item, at);
        let line = audit.line(
            self.action,
            json!({
                "table": self.place.table, "id": id,
                "before": self.seen.map(document), "after": document(new),
            }),
        );
        audit.announce([(id.to_owned(), line.clone())])?;
        let error: Error = match self.keys.replace(self.seen, new).await {
            Ok(Settled::Written) => {
                audit.done(id);
                return Ok(print::json_line(&line));
            }
            Ok(Settled::Refused(found)) => {
                match found {
                    Some(item) => print::note((self.text)(&item, at).trim_end()),
                    None => print::note(&format!("the table no longer has this {kind}")),
                }
                anyhow!("the {kind} has changed since it was shown: nothing was written")
            }
            Err(error) => error.into(),
        };
        audit.failed(&error);
        Err(error)
    }
}
