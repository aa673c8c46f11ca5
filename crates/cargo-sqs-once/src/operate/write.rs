//! Changes of an item that the user has seen.

use super::Audit;
use crate::print;
use anyhow::{Error, Result, anyhow};
use serde_json::{Value, json};
use sqs_once::store::{Item, Settled};
use sqs_once_operate::Keys;

/// A change of an item.
pub(crate) struct ItemChange<'a> {
    pub(crate) keys: &'a Keys,
    pub(crate) table: &'a str,
    pub(crate) action: &'static str,
    /// The kind of item, as messages name it.
    pub(crate) kind: &'static str,
    pub(crate) seen: Option<&'a Item>,
    /// Formats an item as JSON.
    pub(crate) document: &'a dyn Fn(&Item) -> Value,
    /// Formats an item for people.
    pub(crate) text: &'a dyn Fn(&Item) -> String,
}

impl ItemChange<'_> {
    /// Writes the item unless it has changed since it was shown. Returns the line of the change in the audit file.
    pub(crate) async fn write(self, new: &Item, audit: &mut Audit) -> Result<String> {
        let (id, kind) = (new.id.as_str(), self.kind);
        let line = audit.line(
            self.action,
            json!({
                "table": self.table, "id": id,
                "before": self.seen.map(self.document), "after": (self.document)(new),
            }),
        );
        audit.before([(id.to_owned(), line.clone())])?;
        let error: Error = match self.keys.replace(self.seen, new).await {
            Ok(Settled::Written) => {
                audit.done(id);
                return Ok(print::json_line(&line));
            }
            Ok(Settled::Refused(found)) => {
                match found {
                    Some(item) => print::note((self.text)(&item).trim_end()),
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
