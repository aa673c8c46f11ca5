//! The store ids of the keys. After a change of its namespace or secret, a version uses other ids for the same keys. A
//! router uses one namespace for each route.

use std::collections::HashMap;
use std::sync::LazyLock;

use sqs_once::BusinessKey;
use sqs_once::key::{ItemId, KeySecret, Namespace};

use super::plan::MOST_KEYS;

/// The routes of a router: of keys with an even number, and with an odd one. Two keys, one of each route, have one text. A
/// route's namespace is its name.
pub(crate) const ROUTES: [&str; 2] = ["even", "odd"];

pub(crate) fn route_of(key: usize) -> usize {
    key % ROUTES.len()
}

/// The namespace and the secret of a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ids {
    Plain,
    Renamed,
    Secret,
    NextSecret,
    /// A router's.
    Routed,
}

impl Ids {
    pub(crate) const ALL: [Self; 5] = [
        Self::Plain,
        Self::Renamed,
        Self::Secret,
        Self::NextSecret,
        Self::Routed,
    ];

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

    pub(crate) fn name(self, route: usize) -> &'static str {
        match self {
            Self::Renamed => "renamed",
            Self::Routed => ROUTES[route],
            _ => "sim",
        }
    }

    /// The number in the text of a key.
    pub(crate) fn text_of(self, key: usize) -> usize {
        match self {
            Self::Routed => key / ROUTES.len(),
            _ => key,
        }
    }

    pub(crate) fn secret(self) -> Option<KeySecret> {
        let byte = match self {
            Self::Plain | Self::Renamed | Self::Routed => return None,
            Self::Secret => 1,
            Self::NextSecret => 2,
        };
        KeySecret::new([byte; 32]).ok()
    }

    pub(crate) fn namespace(self, route: usize) -> Namespace {
        let namespace = Namespace::new(self.name(route));
        let namespace = namespace.unwrap_or_else(|error| unreachable!("{error}"));
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
    let all = |key: usize| {
        Ids::ALL.map(|ids| {
            let text = BusinessKey::new(&format!("k{}", ids.text_of(key)));
            let text = text.unwrap_or_else(|error| unreachable!("{error}"));
            ids.namespace(route_of(key)).item_id(&text)
        })
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
