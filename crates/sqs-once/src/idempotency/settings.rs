//! Settings of the protocol, from code and environment.

use std::sync::Arc;
use std::time::Duration;

use tracing::warn;

use crate::config::{
    ALSO_READ, AlsoRead, DEADLINE_MARGIN, EnvSettings, KEY_SECRET_ARN, LEASE_MARGIN, NAMESPACE,
    NAMESPACE_VARIABLE, RETENTION, SHORTEST_LEASE_MARGIN, SHORTEST_RETENTION,
};
use crate::env::not_set;
use crate::error::ConfigError;
use crate::key::{IdForm, KeyCodec, Namespace};
use crate::random::{OsRandom, Random};
#[cfg(feature = "secrets")]
use crate::secrets::fetch as fetched;
use crate::store::{OffStore, Store};
use crate::time::{Clock, SystemClock};

use super::cache::CompletedKeys;
use super::deadline::Margins;
use super::{Cache, Driver, KeyRules, Mode, OnUnknown};

const DEFAULT_RETENTION: Duration = Duration::from_secs(28 * 24 * 60 * 60);

/// How keys are named and kept. `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(crate) struct KeySettings {
    pub(crate) namespace: Option<Arc<str>>,
    /// The namespace of the attribute, which the environment overrides.
    pub(crate) declared_namespace: Option<Arc<str>>,
    pub(crate) ids: Option<IdForm>,
    /// `Some(None)` if the code turned the second lookup off.
    pub(crate) also_read: Option<Option<KeyCodec>>,
    pub(crate) retention: Option<Duration>,
}

/// Where items are kept, and for how long. `None` leaves a setting to the environment and the defaults.
#[derive(Clone, Default)]
pub(crate) struct StoreSettings {
    pub(crate) store: Option<Arc<dyn Store>>,
    pub(crate) cache: Option<Cache>,
    pub(crate) margins: Margins,
    pub(crate) clock: Option<Arc<dyn Clock>>,
    pub(crate) random: Option<Arc<dyn Random>>,
}

impl StoreSettings {
    /// Takes over the store, the clock and the random source of a driver.
    pub(crate) fn share(&mut self, driver: &Driver) {
        self.store = Some(Arc::clone(&driver.store));
        self.clock = Some(Arc::clone(&driver.clock));
        self.random = Some(Arc::clone(&driver.random));
    }

    async fn resolve(&self, env: &EnvSettings, mode: Mode) -> Result<Driver, ConfigError> {
        let store = match &self.store {
            _ if env.disabled => {
                warn!(
                    "SQS_ONCE_DISABLED is set: nothing is deduplicated, but for duplicates inside one batch"
                );
                Arc::new(OffStore)
            }
            Some(store) => Arc::clone(store),
            None if mode == Mode::Transaction => {
                return Err(ConfigError::missing(
                    "the setting `store`",
                    "is not set, but a transaction needs one",
                    "`.store(…)` with a store that has them, such as `PostgresStore::from_env()?`",
                ));
            }
            None => default_store().await?,
        };
        check(&*store, mode)?;
        self.check()?;
        Ok(Driver {
            store,
            clock: self.clock.clone().unwrap_or_else(|| Arc::new(SystemClock)),
            random: self.random.clone().unwrap_or_else(|| Arc::new(OsRandom)),
            margins: self.margins.or(env.lease_margin, env.deadline_margin),
        })
    }

    /// Checks values from the code by the same rules as values from the environment.
    fn check(&self) -> Result<(), ConfigError> {
        let Margins { lease, deadline } = self.margins;
        if let Some(margin) = lease.filter(|set| *set < SHORTEST_LEASE_MARGIN) {
            return Err(ConfigError::invalid(
                "the lease in the setting `margins`",
                format!("is {margin:?}"),
                LEASE_MARGIN,
            ));
        }
        if deadline.is_some_and(|margin| margin.is_zero()) {
            return Err(ConfigError::invalid(
                "the deadline in the setting `margins`",
                "is 0",
                DEADLINE_MARGIN,
            ));
        }
        if self.cache.is_some_and(Cache::is_empty) {
            return Err(ConfigError::invalid(
                "the setting `cache`",
                "has no room for a key",
                "a cache of 1 key or more, or no such setting",
            ));
        }
        Ok(())
    }
}

impl KeySettings {
    /// Returns whether the code names a namespace.
    pub(crate) fn names_namespace(&self) -> bool {
        self.namespace.is_some() || self.declared_namespace.is_some()
    }

    /// Returns the settings of a route: its own, then the defaults of its router.
    pub(crate) fn within(&self, defaults: &Self) -> Self {
        let ids = self.ids.clone();
        Self {
            ids: ids.or_else(|| defaults.ids.clone()),
            retention: self.retention.or(defaults.retention),
            ..self.clone()
        }
    }

    pub(crate) async fn resolve(
        &self,
        shared: &StoreSettings,
        env: &EnvSettings,
        mode: Mode,
    ) -> Result<KeyRules, ConfigError> {
        if env.disabled && mode.commits_effects() {
            return Err(ConfigError::conflicting(
                "SQS_ONCE_DISABLED",
                "is set, but the effect commits through the store",
                "false for handlers and work that return `Writes` or take a transaction",
            ));
        }
        let driver = shared.resolve(env, mode).await?;
        let namespace = self.resolve_namespace(env)?;
        self.check()?;
        let (namespace, codec, also_read) = self.keys(env, namespace, mode).await?;
        let cache = shared.cache.filter(|_| !env.disabled);
        Ok(KeyRules {
            driver,
            namespace,
            codec,
            also_read,
            retention: self
                .retention
                .or(env.retention)
                .unwrap_or(DEFAULT_RETENTION),
            mode,
            completed: cache.map(|cache| Arc::new(CompletedKeys::new(cache))),
            on_unknown: OnUnknown::default(),
        })
    }

    fn resolve_namespace(&self, env: &EnvSettings) -> Result<Namespace, ConfigError> {
        let name = match (&self.namespace, &env.namespace, &self.declared_namespace) {
            (Some(name), ..) | (None, None, Some(name)) => name,
            (None, Some(namespace), _) => return Ok(namespace.clone()),
            (None, None, None) => {
                return Err(ConfigError::missing(
                    NAMESPACE_VARIABLE,
                    not_set(NAMESPACE_VARIABLE) + ", and the code sets no `.namespace(…)`",
                    "a name that no other consumer of this table has",
                ));
            }
        };
        Namespace::new(name).map_err(|_| {
            ConfigError::invalid("the setting `namespace`", format!("is {name:?}"), NAMESPACE)
        })
    }

    /// Resolves the settings for another mode. The result shares store, secret and cache with `other`.
    pub(crate) async fn resolve_beside(
        &self,
        other: &KeyRules,
        shared: &StoreSettings,
        env: &EnvSettings,
        mode: Mode,
    ) -> Result<KeyRules, ConfigError> {
        let fetched = other.namespace.secret().cloned().map(IdForm::Secret);
        let keys = Self {
            ids: fetched.or_else(|| self.ids.clone()),
            ..self.clone()
        };
        let shared = StoreSettings {
            store: Some(Arc::clone(&other.driver.store)),
            ..shared.clone()
        };
        let completed = other.completed.clone();
        let rules = keys.resolve(&shared, env, mode).await?;
        Ok(KeyRules { completed, ..rules })
    }

    /// Checks values from the code by the same rules as values from the environment.
    fn check(&self) -> Result<(), ConfigError> {
        if let Some(retention) = self.retention.filter(|set| *set < SHORTEST_RETENTION) {
            return Err(ConfigError::invalid(
                "the setting `retention`",
                format!("is {retention:?}"),
                RETENTION,
            ));
        }
        let own = match &self.ids {
            Some(IdForm::Codec(codec)) => Some(codec),
            _ => None,
        };
        let mut codecs = own.into_iter().chain(self.also_read.iter().flatten());
        codecs.try_for_each(KeyCodec::check)
    }

    /// Returns the namespace with its secret, the codec of the ids, and the codec of the other ids.
    async fn keys(
        &self,
        env: &EnvSettings,
        namespace: Namespace,
        mode: Mode,
    ) -> Result<(Namespace, KeyCodec, Option<KeyCodec>), ConfigError> {
        let namespace = namespace.readable_keys(matches!(self.ids, Some(IdForm::Readable)));
        let without = namespace.clone();
        let secret = match (&self.ids, &env.key_secret_arn) {
            // The store is disabled.
            _ if env.disabled => None,
            (Some(IdForm::Secret(secret)), _) => Some(secret.clone()),
            (_, None) => None,
            (Some(IdForm::Readable), Some(_)) => return Err(no_secret("the ids are readable")),
            (Some(IdForm::Codec(_)), Some(_)) => {
                return Err(no_secret("the ids are those of another library"));
            }
            (Some(IdForm::Hashed) | None, Some(arn)) => Some(fetched(KEY_SECRET_ARN, arn).await?),
        };
        let namespace = match &secret {
            None => namespace,
            Some(secret) => namespace.key_secret(secret.clone()),
        };
        let codec = match &self.ids {
            Some(IdForm::Codec(codec)) => codec.clone(),
            _ => namespace.clone().into(),
        };
        let also_read = match (&self.also_read, &env.also_read) {
            (Some(also_read), _) => also_read.clone(),
            (None, Some(AlsoRead::Nothing)) => None,
            (None, Some(AlsoRead::WithoutSecret)) => Some(without.into()),
            (None, Some(AlsoRead::SecretArn(_))) if env.disabled => None,
            (None, Some(AlsoRead::SecretArn(arn))) => {
                let other = fetched(ALSO_READ, arn).await?;
                Some(without.key_secret(other).into())
            }
            (None, None) if secret.is_none() => None,
            (None, None) if mode.commits_effects() => {
                return Err(ConfigError::missing(
                    ALSO_READ,
                    "is not set, but a secret hashes the keys, and an effect that commits with the completion of its \
                     key can't look under the ids without the secret as well",
                    "nothing, or ids that are `.read_alone()`, where the table holds no keys that this namespace has hashed \
                     without the secret",
                ));
            }
            (None, None) => Some(without.into()),
        };
        check_also_read(also_read.as_ref(), &codec, mode)?;
        Ok((namespace, codec, also_read))
    }
}

#[cfg(feature = "dynamodb")]
async fn default_store() -> Result<Arc<dyn Store>, ConfigError> {
    Ok(Arc::new(
        crate::store::dynamodb::DynamoDbStore::from_env().await?,
    ))
}

#[cfg(not(feature = "dynamodb"))]
async fn default_store() -> Result<Arc<dyn Store>, ConfigError> {
    Err(ConfigError::unsupported(
        "the setting `store`",
        "is not set, and sqs-once was built without its feature `dynamodb`",
        "`.store(…)` with a store, or the feature for the table that SQS_ONCE_TABLE names",
    ))
}

#[cfg(not(feature = "secrets"))]
async fn fetched(variable: &'static str, _: &str) -> Result<crate::key::KeySecret, ConfigError> {
    Err(ConfigError::unsupported(
        variable,
        "names a secret, but sqs-once was built without its feature `secrets`",
        "the feature, or no such variable and a secret that the code sets",
    ))
}

/// Returns the error for a setting under which a secret would hide nothing.
fn no_secret(why: &str) -> ConfigError {
    ConfigError::conflicting(
        KEY_SECRET_ARN,
        format!("is set, but {why}"),
        "either of the two",
    )
}

fn check_also_read(
    also_read: Option<&KeyCodec>,
    codec: &KeyCodec,
    mode: Mode,
) -> Result<(), ConfigError> {
    let problem = match also_read {
        Some(also_read) if also_read == codec => "is where its keys are already",
        // Another version could commit between the lookup and the commit.
        Some(_) if mode.commits_effects() => {
            "is set, but the effect commits with the completion of its key, which can't look at two ids at once"
        }
        _ => return Ok(()),
    };
    Err(ConfigError::conflicting(
        "the setting `also_read`",
        problem,
        "another codec or namespace, for handlers and work that neither return `Writes` nor take a transaction",
    ))
}

fn check(store: &dyn Store, mode: Mode) -> Result<(), ConfigError> {
    if mode.is_of_writes() && store.atomic_writes().is_none() {
        return Err(ConfigError::unsupported(
            "the setting `store`",
            "can't commit `Writes`",
            "`DynamoDbStore`",
        ));
    }
    if mode == Mode::Transaction && store.transactions().is_none() {
        return Err(ConfigError::unsupported(
            "the setting `store`",
            "has no transactions",
            "a store that has them, such as `PostgresStore`",
        ));
    }
    Ok(())
}
