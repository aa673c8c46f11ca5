//! The store ids of the keys. After a change of its namespace or secret, a version uses other ids for the same keys.

use std::collections::HashMap;
use std::sync::LazyLock;

use sqs_once::BusinessKey;
use sqs_once::key::{ItemId, KeySecret, Namespace};

use super::plan::MOST_KEYS;

/// The namespace and the secret of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Plain,
    Renamed,
    Secret,
    NextSecret,
}

impl Ids {
    pub(crate) const ALL: [Self; 4] = [Self::Plain, Self::Renamed, Self::Secret, Self::NextSecret];

    /// What a deployment may change: the namespace, or the secret, which only the second version may have.
    pub(crate) const CHANGES: [[Self; 2]; 3] = [
        [Self::Plain, Self::Renamed],
        [Self::Plain, Self::Secret],
        [Self::Secret, Self::NextSecret],
    ];

    /// The ids that contain this one.
    pub(crate) fn of(id: &ItemId) -> Self {
        Self::ALL[place_of(id) % Self::ALL.len()]
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Renamed => "renamed",
            _ => "sim",
        }
    }

    pub(crate) fn secret(self) -> Option<KeySecret> {
        let byte = match self {
            Self::Plain | Self::Renamed => return None,
            Self::Secret => 1,
            Self::NextSecret => 2,
        };
        KeySecret::new([byte; 32]).ok()
    }

    pub(crate) fn namespace(self) -> Namespace {
        let namespace = Namespace::new(self.name()).unwrap_or_else(|error| unreachable!("{error}"));
        match self.secret() {
            Some(secret) => namespace.key_secret(secret),
            None => namespace,
        }
    }

    pub(crate) fn id_of(self, key: usize) -> &'static ItemId {
        &IDS[key * Self::ALL.len() + self as usize]
    }
}

/// All ids of the first key, then all of the second, and so on. They are the same in every schedule.
static IDS: LazyLock<Vec<ItemId>> = LazyLock::new(|| {
    let namespaces = Ids::ALL.map(Ids::namespace);
    let all = |key: usize| {
        let key =
            BusinessKey::new(&format!("k{key}")).unwrap_or_else(|error| unreachable!("{error}"));
        namespaces.each_ref().map(|one| one.item_id(&key))
    };
    (0..MOST_KEYS).flat_map(all).collect()
});

static PLACES: LazyLock<HashMap<&ItemId, usize>> = LazyLock::new(|| IDS.iter().zip(0..).collect());

/// The number of an id among the ids of all keys.
pub(crate) fn place_of(id: &ItemId) -> usize {
    let place = PLACES.get(id);
    *place.unwrap_or_else(|| unreachable!("there is no other key"))
}

/// The key with this id.
pub(crate) fn key_of(id: &ItemId) -> usize {
    place_of(id) / Ids::ALL.len()
}

/// The store id of a key, where all versions use the same.
pub(crate) fn id_of(key: usize) -> &'static ItemId {
    Ids::Plain.id_of(key)
}
