//! A table's keys: finding them, listing them, and putting them right.

use std::collections::HashSet;

use sqs_once::key::{ItemId, Namespace};
use sqs_once::random::Random;
use sqs_once::store::dynamodb::{Listed, Listing, Page, PageStart};
use sqs_once::store::{DynamoDbStore, Item, Owner, Settled, Store, StoreError};
use sqs_once::time::Timestamp;

use crate::name::ids;
use crate::{Change, Error, KeyName};

/// How long an id has become when nothing can follow: 64 digits behind the `#`.
const WHOLE_HASH: usize = 64;

/// The keys that a table holds.
#[derive(Clone, Debug)]
pub struct Keys {
    store: DynamoDbStore,
}

/// What was found of a key.
#[derive(Debug, Default)]
pub struct Found {
    /// The items that it may be. More than one when the name says too little.
    pub items: Vec<Item>,
    /// The ids that the key would have, hashed; none where it was looked for by an id.
    pub ids: Vec<ItemId>,
}

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It was written: this is there now.
    Written(Box<Item>),
    /// There was nothing to do.
    Nothing,
    /// Not written: since it was looked at, the key has become this.
    Refused(Option<Box<Item>>),
}

impl Keys {
    /// The keys in a store's table.
    pub fn new(store: DynamoDbStore) -> Self {
        Self { store }
    }

    /// Looks for a key. By its parts or its whole id that is one consistent read; by the start of an id it
    /// lists the table.
    ///
    /// # Errors
    /// [`Error::NoNamespace`] when parts come without a namespace, [`Error::Key`] when they can't be a key,
    /// [`Error::Store`] when the table gives no answer.
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
        // A readable id that would be too long is the hash.
        let mut known = HashSet::new();
        all.retain(|id| known.insert(id.clone()));
        Ok(Found {
            items: self.read(&all).await?,
            ids: forms.into_iter().map(|[hashed, _]| hashed).collect(),
        })
    }

    /// By what a log line shows: the start of a hash, be it the key's or that of a readable id.
    async fn find_start(&self, start: &str) -> Result<Found, Error> {
        let mut found = Found::default();
        let namespace = start.split_once('#').map_or("", |(namespace, _)| namespace);
        for prefix in [start.to_owned(), format!("{namespace}#")] {
            let listing = Listing {
                prefix,
                status: None,
            };
            let mut from = None;
            loop {
                let Page { items, next } = self.store.page(&listing, from).await?;
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
                break;
            }
        }
        Ok(found)
    }

    /// Reads items, consistently; those that are there.
    ///
    /// # Errors
    /// [`Error::Store`] when the table gives no answer, or one of the items can't be read.
    pub async fn read(&self, ids: &[ItemId]) -> Result<Vec<Item>, Error> {
        let mut items = Vec::new();
        for answer in self.read_each(ids).await {
            items.extend(answer?);
        }
        Ok(items)
    }

    /// The same, with an answer for each id.
    pub(crate) async fn read_each(&self, ids: &[ItemId]) -> Vec<Result<Option<Item>, StoreError>> {
        self.store.read(ids).await
    }

    /// One page of a listing, and where the next one starts: see [`DynamoDbStore::page`].
    ///
    /// # Errors
    /// [`Error::Store`] when the table gives no answer.
    pub async fn page(
        &self,
        listing: &Listing,
        from: Option<PageStart>,
    ) -> Result<(Vec<Listed>, Option<PageStart>), Error> {
        let Page { items, next } = self.store.page(listing, from).await?;
        Ok((items, next))
    }

    /// Changes a key, if it still is what was `seen` of it.
    ///
    /// # Errors
    /// [`Error::Store`] when the table does not say whether it was written.
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
        Ok(match self.store.replace(seen, &new).await? {
            Settled::Written => Changed::Written(Box::new(new)),
            Settled::Refused(found) => Changed::Refused(found),
        })
    }
}
