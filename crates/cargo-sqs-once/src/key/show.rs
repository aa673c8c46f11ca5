//! `cargo sqs-once key show`.

use super::{NOT_FOUND, ShowArgs, key_name, shown};
use crate::operate::{keys, namespace};
use crate::print;
use anyhow::{Result, ensure};
use sqs_once::time::{Clock, SystemClock};

pub(super) async fn show(args: ShowArgs) -> Result<()> {
    let name = key_name(&args.name)?;
    let namespace = namespace(&args.consumer)?;
    let (keys, _) = keys(&args.table).await?;
    let found = keys.find(&name, namespace.as_ref()).await?.items;
    ensure!(!found.is_empty(), NOT_FOUND);
    let now = SystemClock.now();
    if args.json {
        let mut documents = found
            .iter()
            .map(|item| shown::document(item, args.data, now));
        return documents.try_for_each(|document| print::json(&document));
    }
    let texts = found.iter().map(|item| shown::text(item, args.data, now));
    print::result(texts.collect::<Vec<_>>().join("\n").trim_end())
}
