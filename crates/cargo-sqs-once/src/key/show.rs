//! `cargo sqs-once key show`.

use super::{Error, ShowArgs, shown};
use crate::operate::{keys, namespace};
use crate::print;
use sqs_once::time::Timestamp;
use sqs_once_operate::KeyName;

pub(super) async fn show(args: ShowArgs, now: Timestamp) -> Result<(), crate::error::Error> {
    let found = found(&args).await?;
    if args.json {
        for item in &found {
            let line = print::json_line(&shown::document(item, args.data, now));
            print::result(line.as_bytes())?;
        }
        return Ok(());
    }
    let texts: Vec<_> = found
        .iter()
        .map(|item| shown::text(item, args.data, now))
        .collect();
    print::result(texts.join("\n").trim_end().as_bytes())
}

async fn found(args: &ShowArgs) -> Result<Vec<sqs_once::store::Item>, Error> {
    let name = KeyName::read(&args.name.words)?;
    let namespace = namespace(&args.table)?;
    let (keys, _) = keys(&args.account, &args.table).await?;
    let found = keys.find(&name, namespace.as_ref()).await?;
    match found.items.is_empty() {
        true => Err(Error::NotFound),
        false => Ok(found.items),
    }
}
