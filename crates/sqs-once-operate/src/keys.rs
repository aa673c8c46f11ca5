//! Keys in a table: finding, listing and changing them.

use sqs_once::key::{ItemId, Namespace};
use sqs_once::random::Random;
use sqs_once::store::dynamodb::{Listed, Listing, Page, PageStart};
use sqs_once::store::{DynamoDbStore, Item, Owner, Settled, Store, StoreError};
use sqs_once::time::Timestamp;

use crate::name::ids;
use crate::{Change, Error, KeyName};

/// The length of a complete hash: 64 digits after the `#`.
const WHOLE_HASH: usize = 64;

/// The keys in a table.
#[derive(Clone, Debug)]
pub struct Keys {
    store: DynamoDbStore,
}

/// The result of a search for a key.
#[derive(Debug, Default)]
pub struct Found {
    /// The matching items. Several if the name is ambiguous.
    pub items: Vec<Item>,
    /// The hashed IDs of the key. Empty if the search was by ID.
    pub ids: Vec<ItemId>,
}

/// The result of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// The item was written.
    Written(Box<Item>),
    /// Nothing had to change.
    Nothing,
    /// The item was not written, since another writer changed it. Contains the current item.
    Refused(Option<Box<Item>>),
}

impl Keys {
    /// The keys in a store's table.
    pub fn new(store: DynamoDbStore) -> Self {
        Self { store }
    }

    /// Searches for a key. A search by parts or by complete ID is one consistent read. A search by the start of an ID
    /// lists the table.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] if parts are given without a namespace, [`Error::Key`] if the parts are not a valid key,
    /// [`Error::Store`] if the table does not answer.
    pub async fn find(
        &self,
        name: &KeyName,
        namespace: Option<&Namespace>,
    ) -> Result<Found, Error> {
        let id = match name {
            KeyName::Id(id) => id,
            KeyName::Parts(_) => return self.find_parts(name, namespace).await,
        };
        let items = self.read(&[ItemId::from_stored(id.as_str())]).await?;
        let key = id.split_once('#').map_or("", |(_, key)| key);
        if !items.is_empty() || key.len() >= WHOLE_HASH || key.contains(':') {
            let ids = Vec::new();
            return Ok(Found { items, ids });
        }
        self.find_start(id).await
    }

    async fn find_parts(
        &self,
        name: &KeyName,
        namespace: Option<&Namespace>,
    ) -> Result<Found, Error> {
        let keys = name.keys()?;
        let namespace = namespace.ok_or(Error::NoNamespace)?;
        let forms: Vec<[ItemId; 2]> = keys.iter().map(|key| ids(key, namespace)).collect();
        let mut all: Vec<_> = forms.iter().flatten().cloned().collect();
        // A readable ID that would be too long is replaced by the hash, so both IDs may be equal.
        all.dedup();
        Ok(Found {
            items: self.read(&all).await?,
            ids: forms.into_iter().map(|[hashed, _]| hashed).collect(),
        })
    }

    /// Searches by the start of a hash from a log line. It may be the hash of the key or of a readable ID.
    async fn find_start(&self, start: &str) -> Result<Found, Error> {
        let namespace = start.split_once('#').map_or("", |(namespace, _)| namespace);
        for prefix in [start.to_owned(), format!("{namespace}#")] {
            let status = None;
            let listing = Listing { prefix, status };
            let mut found = Found::default();
            let mut from = None;
            loop {
                let (items, next) = self.page(&listing, from).await?;
                for (id, item) in items {
                    if id.as_str().starts_with(start) || id.short() == start {
                        found.items.push(item?);
                    }
                }
                from = next;
                if from.is_none() {
                    break;
                }
            }
            if !found.items.is_empty() {
                return Ok(found);
            }
        }
        Ok(Found::default())
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

    /// One page of a listing and the start of the next page: see [`DynamoDbStore::page`].
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not answer.
    pub async fn page(
        &self,
        listing: &Listing,
        from: Option<PageStart>,
    ) -> Result<(Vec<Listed>, Option<PageStart>), Error> {
        let Page { items, next } = self.store.page(listing, from).await?;
        Ok((items, next))
    }

    /// Changes a key, if its item is still the one in `seen`.
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not confirm or refuse the write.
    pub async fn change(
        &self,
        change: Change,
        id: &ItemId,
        seen: Option<&Item>,
        random: &dyn Random,
        now: Timestamp,
    ) -> Result<Changed, Error> {
        let owner = Owner::from_bits(random.bits());
        let Some(new) = change.write(id, seen, owner, now) else {
            return Ok(Changed::Nothing);
        };
        Ok(match self.replace(seen, &new).await? {
            Settled::Written => Changed::Written(Box::new(new)),
            Settled::Refused(found) => Changed::Refused(found),
        })
    }

    /// Writes the item of a [`Change`], if the table still has the item in `seen`.
    ///
    /// # Errors
    /// [`Error::Store`] if the table does not confirm or refuse the write.
    pub async fn replace(&self, seen: Option<&Item>, new: &Item) -> Result<Settled, Error> {
        Ok(self.store.replace(seen, new).await?)
    }
}
