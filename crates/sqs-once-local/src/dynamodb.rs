//! An embedded DynamoDB on a loopback port.
//!
//! Expired items are never deleted: the engine sweeps only on request. DynamoDB itself may keep an expired item for
//! days, so code must handle them anyway.

mod engine;

use crate::guard::{Port, Server};
use crate::table::TableDescription;
use dynoxide::{Database, DynoxideError};
use engine::Engine;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::error::Error;
use std::fs::{File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A DynamoDB inside this process, served over HTTP on 127.0.0.1.
///
/// It stops accepting connections when it is dropped or [stopped](LocalDynamoDb::stop). Its data is then lost, unless
/// it was opened with [`LocalDynamoDb::open`].
pub struct LocalDynamoDb {
    database: Database,
    engine: Arc<Engine>,
    server: Server,
    // Only one process may open a file: the engine's conditional writes are atomic within one process only.
    lock: Option<File>,
}

impl LocalDynamoDb {
    /// Starts a DynamoDB that keeps its tables in memory.
    ///
    /// # Errors
    /// [`DynamoDbError::Listen`] if no loopback port is available, [`DynamoDbError::Open`] if the engine can't start.
    pub async fn memory() -> Result<Self, DynamoDbError> {
        let path = Path::new(":memory:");
        let database = Database::memory().map_err(|error| open_error(path, error))?;
        Self::serve(database, None, 0).await
    }

    /// Starts a DynamoDB that keeps its tables in the file at `path`. Creates the file and its folder if they do not
    /// exist.
    ///
    /// # Errors
    /// [`DynamoDbError::InUse`] if another process has the file open, [`DynamoDbError::Open`] if it can't be opened or
    /// is not such a database, [`DynamoDbError::Listen`] if no loopback port is available.
    pub async fn open(path: &Path) -> Result<Self, DynamoDbError> {
        Self::open_on(0, path).await
    }

    /// Like [`LocalDynamoDb::open`], on a port. 0 means any free port.
    ///
    /// # Errors
    /// The errors of [`LocalDynamoDb::open`].
    pub async fn open_on(port: u16, path: &Path) -> Result<Self, DynamoDbError> {
        let lock = lock(path)?;
        let name = path.to_str().ok_or("the path is not UTF-8");
        let name = name.map_err(|error| open_error(path, error))?;
        // SQLite creates its other files with the same mode.
        private(path).map_err(|error| open_error(path, error))?;
        let database = Database::new(name).map_err(|error| open_error(path, error))?;
        Self::serve(database, Some(lock), port).await
    }

    /// Deletes the database at `path`. Succeeds if it does not exist.
    ///
    /// # Errors
    /// [`DynamoDbError::InUse`] if a process has it open, [`DynamoDbError::Open`] if it can't be deleted.
    pub fn remove(path: &Path) -> Result<(), DynamoDbError> {
        let _lock = lock(path)?;
        // SQLite keeps its write-ahead log and the log's index in two more files.
        for suffix in ["", "-wal", "-shm"] {
            match std::fs::remove_file(beside(path, suffix)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(open_error(path, error));
                }
                _ => {}
            }
        }
        Ok(())
    }

    async fn serve(
        database: Database,
        lock: Option<File>,
        port: u16,
    ) -> Result<Self, DynamoDbError> {
        let port = Port::take(port).await.map_err(DynamoDbError::Listen)?;
        let engine = Engine::new(database.clone());
        let server = port.serve(engine::routes(&engine), engine::LARGEST_REQUEST);
        Ok(Self {
            database,
            engine,
            server,
            lock,
        })
    }

    /// Stops serving and waits for in-flight requests. The database can be opened again afterwards.
    pub async fn stop(self) {
        drop(self.database);
        self.server.stop().await;
        self.engine.stop().await;
        drop(self.lock);
    }

    /// The endpoint for an AWS SDK, such as `http://127.0.0.1:40001`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.server.address())
    }

    /// Creates `table`. Accepts an existing table of the same name if its keys are the same.
    ///
    /// # Errors
    /// [`DynamoDbError::OtherKeys`] if a table of that name has other keys, [`DynamoDbError::Request`] if DynamoDB
    /// refuses the description.
    pub fn create_table(&self, table: &TableDescription) -> Result<(), DynamoDbError> {
        match self.describe_table(&table.name)? {
            None => {
                let sort_key = table.sort_key.iter().map(|key| (key, "RANGE"));
                let keys = std::iter::once((&table.partition_key, "HASH")).chain(sort_key);
                let definitions = keys.map(|(key, role)| {
                    let name = &key.name;
                    let kind = key.kind.as_str();
                    (
                        json!({"AttributeName": name, "KeyType": role}),
                        json!({"AttributeName": name, "AttributeType": kind}),
                    )
                });
                let (schema, types): (Vec<_>, Vec<_>) = definitions.unzip();
                self.database.create_table(request(json!({
                    "TableName": table.name,
                    "KeySchema": schema,
                    "AttributeDefinitions": types,
                    "BillingMode": "PAY_PER_REQUEST",
                }))?)?;
            }
            Some(existing) if existing == table.keys() => {}
            Some(existing) => {
                return Err(DynamoDbError::OtherKeys {
                    table: table.name.clone(),
                    existing,
                    wanted: table.keys(),
                });
            }
        }
        self.enable_ttl(table)
    }

    /// Turns on time to live. Leaves an existing setting alone, even on another attribute: this engine deletes nothing,
    /// so it makes no difference.
    fn enable_ttl(&self, table: &TableDescription) -> Result<(), DynamoDbError> {
        let Some(attribute) = &table.ttl_attribute else {
            return Ok(());
        };
        let name = request(json!({"TableName": table.name}))?;
        let described = self.database.describe_time_to_live(name)?;
        if described.time_to_live_description.attribute_name.is_some() {
            return Ok(());
        }
        self.database.update_time_to_live(request(json!({
            "TableName": table.name,
            "TimeToLiveSpecification": {"AttributeName": attribute, "Enabled": true},
        }))?)?;
        Ok(())
    }

    /// Describes the keys of the table `name` as [`TableDescription::keys`] does. Returns `None` if the table does not exist.
    fn describe_table(&self, name: &str) -> Result<Option<String>, DynamoDbError> {
        let described = request(json!({"TableName": name}))?;
        let table = match self.database.describe_table(described) {
            Ok(described) => answer(described.table)?,
            Err(DynoxideError::ResourceNotFoundException(_)) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let list = |name: &str| table[name].as_array().cloned().unwrap_or_default();
        let (schema, types) = (list("KeySchema"), list("AttributeDefinitions"));
        let keys = ["HASH", "RANGE"].into_iter().filter_map(|role| {
            let key = schema.iter().find(|key| key["KeyType"] == role)?;
            let name = key["AttributeName"].as_str()?;
            let kind = types.iter().find(|kind| kind["AttributeName"] == name)?;
            Some(format!("{name} ({})", kind["AttributeType"].as_str()?))
        });
        Ok(Some(keys.collect::<Vec<_>>().join(", ")))
    }

    /// Returns every item of `table` in DynamoDB's own JSON: `{"id": {"S": "…"}}`. The order is not defined. Only the
    /// first megabyte of items is returned.
    ///
    /// # Errors
    /// [`DynamoDbError::Request`] if the table does not exist.
    pub fn items(&self, table: &str) -> Result<Vec<Value>, DynamoDbError> {
        let scanned = self.database.scan(request(json!({"TableName": table}))?)?;
        scanned.items.into_iter().flatten().map(answer).collect()
    }

    /// Returns the item of `table` with this key, both in DynamoDB's own JSON, or `None` if it does not exist.
    ///
    /// # Errors
    /// [`DynamoDbError::Request`] if the table does not exist or the key does not fit it.
    pub fn item(&self, table: &str, key: Value) -> Result<Option<Value>, DynamoDbError> {
        let get = request(json!({"TableName": table, "Key": key}))?;
        let item = self.database.get_item(get)?.item;
        item.map(answer).transpose()
    }

    /// Puts `item`, in DynamoDB's own JSON, into `table`. Replaces an item with the same key.
    ///
    /// # Errors
    /// [`DynamoDbError::Request`] if the table does not exist or the item does not fit it.
    pub fn put_item(&self, table: &str, item: Value) -> Result<(), DynamoDbError> {
        let put = request(json!({"TableName": table, "Item": item}))?;
        self.database.put_item(put)?;
        Ok(())
    }
}

/// Builds an engine request from the API's own JSON.
fn request<T: DeserializeOwned>(json: Value) -> Result<T, DynamoDbError> {
    serde_json::from_value(json).map_err(DynamoDbError::Json)
}

/// Converts an engine's answer to the API's own JSON.
fn answer(answer: impl Serialize) -> Result<Value, DynamoDbError> {
    serde_json::to_value(answer).map_err(DynamoDbError::Json)
}

/// Creates the file, if it does not exist, with mode 0600: it holds business keys and the values of completions.
fn private(path: &Path) -> io::Result<File> {
    let mut options = File::options();
    options.create(true).append(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn lock(path: &Path) -> Result<File, DynamoDbError> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder).map_err(|error| open_error(path, error))?;
    }
    let lock = private(&beside(path, ".lock")).map_err(|error| open_error(path, error))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(DynamoDbError::InUse {
            path: path.to_owned(),
        }),
        Err(TryLockError::Error(error)) => Err(open_error(path, error)),
    }
}

fn open_error(path: &Path, source: impl Into<Box<dyn Error + Send + Sync>>) -> DynamoDbError {
    DynamoDbError::Open {
        path: path.to_owned(),
        source: source.into(),
    }
}

/// An error of the embedded DynamoDB.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DynamoDbError {
    /// The database could not be opened, created or deleted.
    #[error("the local DynamoDB at {path} can't be opened", path = path.display())]
    Open {
        /// The database's file.
        path: PathBuf,
        /// The cause.
        source: Box<dyn Error + Send + Sync>,
    },
    /// Another process has the database open.
    #[error(
        "the local DynamoDB at {path} is in use by another process: wait for it or stop it",
        path = path.display()
    )]
    InUse {
        /// The database's file.
        path: PathBuf,
    },
    /// No loopback port is available.
    #[error("the local DynamoDB can't listen on 127.0.0.1")]
    Listen(#[source] io::Error),
    /// A table of that name exists with other keys.
    #[error(
        "the table `{table}` exists with the keys {existing}, but {wanted} is wanted: \
         delete the local database to start afresh"
    )]
    OtherKeys {
        /// The table's name.
        table: String,
        /// The table's keys, such as `id (S)`.
        existing: String,
        /// The keys that were requested.
        wanted: String,
    },
    /// DynamoDB refused a request.
    #[error("the local DynamoDB refused a request")]
    Request(#[source] Box<dyn Error + Send + Sync>),
    /// A request or an answer is not in DynamoDB's JSON form.
    #[error("not in DynamoDB's JSON form, such as {{\"id\": {{\"S\": \"…\"}}}}")]
    Json(#[source] serde_json::Error),
}

impl From<DynoxideError> for DynamoDbError {
    fn from(error: DynoxideError) -> Self {
        DynamoDbError::Request(Box::new(error))
    }
}
