//! Keys in a table: finding, listing and changing them.

use sqs_once::DynamoDbStore;
use sqs_once::key::{ItemId, Namespace};
use sqs_once::store::{Item, Settled, Store, StoreError};
use sqs_once::unstable::{self, Listed, Listing, Page};

use crate::name::ids;
use crate::{Error, KeyName};

/// The length of a complete hash: 64 digits after the `#`.
const WHOLE_HASH: usize = 64;

/// The keys in a table.
#[derive(Clone, Debug)]
pub struct Keys {
    store: DynamoDbStore,
}

impl Keys {
    /// The keys in a store's table.
    pub fn new(store: DynamoDbStore) -> Self {
        Self { store }
    }

    /// Searches for a key. Returns several items if the name is ambiguous. A search by parts or by complete ID is one
    /// consistent read. A search by the start of an ID lists the table.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] if parts are given without a namespace, [`Error::Key`] if the parts are not a valid key,
    /// [`Error::Store`] if the table does not answer.
    pub async fn find(
        &self,
        name: &KeyName,
        namespace: Option<&Namespace>,
    ) -> Result<Vec<Item>, Error> {
        let id = match name {
            KeyName::Id(id) => id,
            KeyName::Parts(_) => {
                let keys = name.keys()?;
                let namespace = namespace.ok_or(Error::NoNamespace)?;
                let mut ids: Vec<_> = keys.iter().flat_map(|key| ids(key, namespace)).collect();
                // A readable ID that would be too long is replaced by the hash, so both IDs may be equal.
                ids.dedup();
                return self.read(&ids).await;
            }
        };
        let items = self.read(&[ItemId::from_stored(id.as_str())]).await?;
        let key = id.split_once('#').map_or("", |(_, key)| key);
        if !items.is_empty() || key.len() >= WHOLE_HASH || key.contains(':') {
            return Ok(items);
        }
        self.find_start(id).await
    }

    /// Searches by the start of a hash from a log line. It may be the hash of the key or of a readable ID.
    async fn find_start(&self, start: &str) -> Result<Vec<Item>, Error> {
        let namespace = start.split_once('#').map_or("", |(namespace, _)| namespace);
        let mut found = Vec::new();
        for prefix in [start.to_owned(), format!("{namespace}#")] {
            let status = None;
            let listing = Listing { prefix, status };
            let walk = self.walk(&listing, |(id, item)| {
                if id.as_str().starts_with(start) || id.short() == start {
                    found.push(item?);
                }
                Ok::<_, Error>(true)
            });
            walk.await?;
            if !found.is_empty() {
                break;
            }
        }
        Ok(found)
    }

    /// Reads items consistently, and omits those that do not exist.
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not answer, or an item cannot be read.
    pub async fn read(&self, ids: &[ItemId]) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for answer in self.read_each(ids).await {
            items.extend(answer?);
        }
        Ok(items)
    }

    /// Reads items consistently, with a result for each ID.
    pub(crate) async fn read_each(&self, ids: &[ItemId]) -> Vec<Result<Option<Item>, StoreError>> {
        self.store.read(ids).await
    }

    /// Visits the items of a listing until `each` returns `false`: it scans the whole table (`dynamodb:Scan`), or queries
    /// the ids of a sort key (`dynamodb:Query`).
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not answer, and the errors of `each`.
    pub async fn walk<E: From<Error>>(
        &self,
        listing: &Listing,
        mut each: impl FnMut(Listed) -> Result<bool, E>,
    ) -> Result<(), E> {
        let mut from = None;
        loop {
            let Page { items, next } = unstable::page(&self.store, listing, from)
                .await
                .map_err(Error::from)?;
            for item in items {
                if !each(item)? {
                    return Ok(());
                }
            }
            match next {
                None => return Ok(()),
                next => from = next,
            }
        }
    }

    /// Writes the item of a [`Change`](crate::Change), if the table still has the item in `seen`.
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not confirm or refuse the write.
    pub async fn replace(&self, seen: Option<&Item>, new: &Item) -> Result<Settled, Error> {
        Ok(unstable::replace(&self.store, seen, new).await?)
    }
}
