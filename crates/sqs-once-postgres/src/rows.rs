//! Conversions between rows, statement parameters and the protocol's types.

use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{Fence, Item, Owner, Status, StoreError, StoreErrorKind, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

/// The columns of an item, in the order that [`item`] reads.
pub(crate) const COLUMNS: &str =
    "id, status, in_progress_expiration, expiration, validation, data, owner, fence";

/// Reads an item from a row of [`COLUMNS`].
pub(crate) fn item(row: &Row) -> Result<Item, StoreError> {
    let status: String = get(row, 1)?;
    let data: Option<&[u8]> = get(row, 5)?;
    let owner: Option<&str> = get(row, 6)?;
    let status = match status.as_str() {
        "INPROGRESS" => Status::InProgress,
        "COMPLETED" => Status::Completed,
        _ => Status::Unknown(status),
    };
    let mut item = Item::new(id(row)?, status);
    item.lease_until = number(row, 2)?.map(Timestamp::from_millis);
    item.expiration = number(row, 3)?.map(Timestamp::from_secs);
    item.fingerprint = get::<Option<String>>(row, 4)?.map(Fingerprint::from_stored);
    let data = data.map(std::str::from_utf8).transpose();
    let data = data.map_err(|error| unreadable("data").with_source(error))?;
    item.data = data.map(Into::into);
    let owner = owner.map(|owner| Owner::from_stored(owner).ok_or_else(|| unreadable("owner")));
    item.owner = owner.transpose()?;
    item.fence = number(row, 7)?.map(Fence::from_stored);
    Ok(item)
}

/// Reads the ID in a row's first column.
pub(crate) fn id(row: &Row) -> Result<ItemId, StoreError> {
    Ok(ItemId::from_stored(get::<String>(row, 0)?))
}

/// Reads the fence of a claimed row.
pub(crate) fn fence(row: &Row) -> Result<Fence, StoreError> {
    let fence = number(row, 1)?.ok_or_else(|| unreadable("fence"))?;
    Ok(Fence::from_stored(fence))
}

/// Reads the ID of the transaction that wrote a claimed row.
pub(crate) fn transaction_id(row: &Row) -> Result<String, StoreError> {
    get(row, 2)
}

/// Converts a number to a column value. Values above the column's range saturate.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a time to whole seconds, rounded up so that no item expires early.
pub(crate) fn whole_secs(at: Timestamp) -> i64 {
    signed(at.as_millis().div_ceil(1000))
}

fn number(row: &Row, column: usize) -> Result<Option<u64>, StoreError> {
    let number: Option<i64> = get(row, column)?;
    let number = number.map(u64::try_from).transpose();
    number.map_err(|error| unreadable(row.columns()[column].name()).with_source(error))
}

fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column)
        .map_err(|error| StoreError::new(StoreErrorKind::BadItem, "a column").with_source(error))
}

fn unreadable(column: &str) -> StoreError {
    let problem =
        format!("the column `{column}` has a value that no version of the protocol writes");
    StoreError::new(StoreErrorKind::BadItem, problem)
}
