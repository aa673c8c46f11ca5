//! A store that keeps each item as a JSON object in a bucket.
//!
//! A database is suitable if it can replace an item only if nobody has changed it since it was read.

use std::sync::Arc;

use futures_util::future::join_all;
use object_store::{Error, ObjectStore, ObjectStoreExt, PutMode, UpdateVersion, path::Path};
use serde_json::{Value, json};
use sqs_once::key::{Fingerprint, ItemId};
use sqs_once::store::{
    Claim, Claimed, Fence, Item, Owner, Settled, Settlement, Status, Store, StoreError,
    StoreErrorKind, StoreFuture, Timestamp,
};

pub(crate) struct Bucket(pub(crate) Arc<dyn ObjectStore>);

/// `admitted_by` decides whether a write is allowed, and `write` what it writes. A store only has to make both one step.
impl Store for Bucket {
    fn claim<'a>(&'a self, claims: &'a [Claim]) -> StoreFuture<'a, Claimed> {
        let claims = claims.iter().map(async |claim| {
            let allows = |found: Option<&Item>| claim.admitted_by(found);
            let changed = self.change(&claim.id, allows, |found| claim.write(found));
            Ok(match changed.await? {
                Ok(item) => Claimed::Written {
                    fence: item.fence.unwrap_or_default(),
                },
                Err(found) => Claimed::Refused(Box::new(found.ok_or_else(nothing)?)),
            })
        });
        Box::pin(join_all(claims))
    }

    fn settle<'a>(&'a self, settlements: &'a [Settlement]) -> StoreFuture<'a, Settled> {
        let settlements = settlements.iter().map(async |settlement| {
            let allows = |found: Option<&Item>| settlement.admitted_by(found);
            let changed = self.change(&settlement.id, allows, |found| settlement.write(found));
            Ok(match changed.await? {
                Ok(_) => Settled::Written,
                Err(found) => Settled::Refused(found.map(Box::new)),
            })
        });
        Box::pin(join_all(settlements))
    }

    fn read<'a>(&'a self, ids: &'a [ItemId]) -> StoreFuture<'a, Option<Item>> {
        let read = async |id| Ok(self.read(id).await?.map(|(item, _)| item));
        Box::pin(join_all(ids.iter().map(read)))
    }
}

impl Bucket {
    pub(crate) async fn read(
        &self,
        id: &ItemId,
    ) -> Result<Option<(Item, UpdateVersion)>, StoreError> {
        let object = match self.0.get(&path(id)).await {
            Err(Error::NotFound { .. }) => return Ok(None),
            object => object.map_err(unanswered)?,
        };
        let (e_tag, version) = (object.meta.e_tag.clone(), object.meta.version.clone());
        let bytes = object.bytes().await.map_err(unanswered)?;
        let item = decode(id, &bytes).ok_or_else(|| {
            StoreError::new(
                StoreErrorKind::BadItem,
                "an object of the bucket is no item",
            )
        })?;
        Ok(Some((item, UpdateVersion { e_tag, version })))
    }

    /// Replaces the item if `allows` says so. Else returns the item that was found.
    pub(crate) async fn change(
        &self,
        id: &ItemId,
        allows: impl Fn(Option<&Item>) -> bool,
        write: impl Fn(Option<&Item>) -> Item,
    ) -> Result<Result<Item, Option<Item>>, StoreError> {
        loop {
            let (found, mode) = match self.read(id).await? {
                Some((item, version)) => (Some(item), PutMode::Update(version)),
                None => (None, PutMode::Create),
            };
            if !allows(found.as_ref()) {
                return Ok(Err(found));
            }
            let item = write(found.as_ref());
            match self
                .0
                .put_opts(&path(id), encode(&item).into(), mode.into())
                .await
            {
                // Another worker was faster: look at its item.
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => {}
                Err(error) => return Err(unanswered(error)),
                Ok(_) => return Ok(Ok(item)),
            }
        }
    }
}

pub(crate) fn path(id: &ItemId) -> Path {
    Path::from_iter([id.as_str()]) // escapes what is special in a path
}

/// A claim of a key without an item is always allowed.
fn nothing() -> StoreError {
    StoreError::new(StoreErrorKind::Other, "a claim was refused by no item")
}

/// The write may have happened. A second attempt finds out.
fn unanswered(error: Error) -> StoreError {
    StoreError::new(StoreErrorKind::Unanswered, "the bucket did not answer").with_source(error)
}

fn encode(item: &Item) -> Vec<u8> {
    let status = match &item.status {
        Status::InProgress => "INPROGRESS",
        Status::Completed => "COMPLETED",
        Status::Unknown(status) => status,
    };
    let item = json!({
        "status": status,
        "lease_until": item.lease_until.map(Timestamp::as_millis),
        "expiration": item.expiration.map(Timestamp::as_secs),
        "fingerprint": item.fingerprint.as_ref().map(Fingerprint::as_str),
        "data": item.data.as_deref(),
        "owner": item.owner.map(|owner| owner.to_string()),
        "fence": item.fence.map(Fence::get),
    });
    item.to_string().into_bytes()
}

fn decode(id: &ItemId, bytes: &[u8]) -> Option<Item> {
    let json: Value = serde_json::from_slice(bytes).ok()?;
    let status = match json["status"].as_str()? {
        "INPROGRESS" => Status::InProgress,
        "COMPLETED" => Status::Completed,
        status => Status::Unknown(status.to_owned()),
    };
    let mut item = Item::new(id.clone(), status);
    item.lease_until = json["lease_until"].as_u64().map(Timestamp::from_millis);
    item.expiration = json["expiration"].as_u64().map(Timestamp::from_secs);
    item.fingerprint = json["fingerprint"].as_str().map(Fingerprint::from_stored);
    item.data = json["data"].as_str().map(Arc::from);
    item.owner = json["owner"].as_str().and_then(Owner::from_stored);
    item.fence = json["fence"].as_u64().map(Fence::from_stored);
    Some(item)
}
