//! The store beneath the SDK: the real `DynamoDbStore` and the real client, with DynamoDB's tables in memory.

use std::collections::BTreeSet;
use std::fmt::{self, Display};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use aws_sdk_dynamodb::config::http::{HttpRequest, HttpResponse};
use aws_sdk_dynamodb::config::retry::{RetryConfig, RetryPartition};
use aws_sdk_dynamodb::config::timeout::TimeoutConfig;
use aws_sdk_dynamodb::config::{
    BehaviorVersion, Credentials, Region, StalledStreamProtectionConfig,
};
use aws_sdk_dynamodb::{Client, Config};
use aws_smithy_runtime_api::client::http::{
    HttpConnector, HttpConnectorFuture, SharedHttpConnector, http_client_fn,
};
use aws_smithy_runtime_api::client::result::ConnectorError;
use aws_smithy_runtime_api::http::StatusCode;
use dynamodb_for_tests::{Answer, KeyType, Schema, Tables};
use serde_json::{Value as Json, json};
use sqs_once::DynamoDbStore;
use sqs_once::store::{Item, Owner, Store};

use super::mutant::Mutant;
use super::network::Broken;
use super::process::Process;
use super::sdk_items::{happened, item};
use super::sdk_mutants::without_guard;
use super::store::Backend;
use super::world::{World, id_of};

/// The table of the keys, and the table of the effects that commit with the records.
pub(super) const KEYS: &str = "keys";
pub(super) const EFFECTS: &str = "effects";

/// The timeouts of `DynamoDbStore::from_env`.
const ATTEMPT: Duration = Duration::from_secs(2);
const OPERATION: Duration = Duration::from_secs(8);

/// DynamoDB in one schedule.
#[derive(Debug)]
pub(crate) struct Dynamo {
    tables: Mutex<Tables>,
    mutant: Option<Mutant>,
}

impl Dynamo {
    pub(crate) fn new(mutant: Option<Mutant>) -> Self {
        let mut tables = Tables::new();
        for table in [KEYS, EFFECTS] {
            tables.create(table, Schema::partition_key("id", KeyType::S));
        }
        Self {
            tables: Mutex::new(tables),
            mutant,
        }
    }

    /// Carries a request out, and reports its changes to the witness.
    fn carry_out(&self, world: &World, process: &Process, request: &Request) -> Answer {
        let mut tables = self.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let (keys, ids) = (world.plan.keys, request.ids());
        let all = |tables: &Tables| -> Vec<(Option<Item>, u64)> {
            let one = |key| (item(tables, id_of(key)), happened(tables, key));
            (0..keys).map(one).collect()
        };
        let before = all(&tables);
        let sent = request.sent(world, self.mutant);
        let body = sent.to_string();
        let answer = tables.carry_out(&request.operation, body.as_bytes(), world.started.elapsed());
        if request.operation == "BatchGetItem" {
            for key in (0..keys).filter(|key| ids.contains(id_of(*key).as_str())) {
                world.witness().looked_up(process, key);
            }
        }
        let after = all(&tables);
        for (key, (before, after)) in before.iter().zip(&after).enumerate() {
            if before == after {
                continue;
            }
            let commits = after.1 > before.1;
            let message = world.witness().message_of(process, key);
            if let Some(owner) = request.owner_of(id_of(key).as_str()) {
                let (before, after) = (before.0.as_ref(), after.0.as_ref());
                world.witness().changed(key, owner, before, after, commits);
            }
            if commits {
                world.judge_order(message);
            }
        }
        answer
    }
}

impl Backend for Arc<Dynamo> {
    fn client(&self, world: &Arc<World>, process: &Process) -> Box<dyn Store> {
        let wire = Wire {
            world: Arc::clone(world),
            dynamo: Arc::clone(self),
            process: process.clone(),
        };
        Box::new(DynamoDbStore::new(client(wire), KEYS))
    }
}

fn client(wire: Wire) -> Client {
    let retries = match wire.world.plan.resends {
        // `tell` seeds the jitter.
        true => RetryConfig::standard(),
        false => RetryConfig::disabled(),
    };
    let connector = SharedHttpConnector::new(wire);
    let timeouts = TimeoutConfig::builder()
        .operation_attempt_timeout(ATTEMPT)
        .operation_timeout(OPERATION);
    let config = Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .region(Region::from_static("eu-central-1"))
        .credentials_provider(Credentials::new("local", "local", None, None, "simulation"))
        .http_client(http_client_fn(move |_, _| connector.clone()))
        .timeout_config(timeouts.build())
        .retry_config(retries)
        // Requests of other schedules must not use up this schedule's retries.
        .retry_partition(RetryPartition::custom("simulation").build())
        // The protection reads the machine's clock, which is not simulated.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled());
    Client::from_conf(config.build())
}

/// One request of DynamoDB's API.
#[derive(Clone)]
struct Request {
    operation: String,
    body: Json,
}

impl Request {
    fn of(request: &HttpRequest) -> Self {
        let target = request.headers().get("x-amz-target").unwrap_or_default();
        let body = request.body().bytes().unwrap_or_default();
        Self {
            operation: target.rsplit('.').next().unwrap_or_default().to_owned(),
            body: serde_json::from_slice(body).unwrap_or_default(),
        }
    }

    /// The body that DynamoDB evaluates: without the guard that is switched off, and sometimes without the client
    /// request token, as if its ten minutes had passed.
    fn sent(&self, world: &World, mutant: Option<Mutant>) -> Json {
        let mut body = self.body.clone();
        if let Some(body) = body.as_object_mut()
            && body.contains_key("ClientRequestToken")
            && world.chance.once_in(2)
        {
            body.remove("ClientRequestToken");
        }
        if let Some(mutant) = mutant {
            without_guard(mutant, &mut body);
        }
        body
    }

    /// The ids of the [`KEYS`] items in the request.
    fn ids(&self) -> BTreeSet<String> {
        fn collect(json: &Json, ids: &mut BTreeSet<String>) {
            match json {
                Json::Object(object) => object.values().for_each(|value| collect(value, ids)),
                Json::Array(list) => list.iter().for_each(|value| collect(value, ids)),
                Json::String(text) if text.contains('#') => drop(ids.insert(text.clone())),
                _ => {}
            }
        }
        let mut ids = BTreeSet::new();
        collect(&self.body, &mut ids);
        ids
    }

    /// The owner in the request that writes this item. The store's writes are single requests, the last in a
    /// transaction, or statements.
    fn owner_of(&self, id: &str) -> Option<Owner> {
        let last = self.body["TransactItems"]
            .as_array()
            .and_then(|all| all.last());
        let write = last.map_or(&self.body, |last| &last["Update"]);
        let owner = &write["ExpressionAttributeValues"][":me"]["S"];
        if let Some(owner) = owner.as_str() {
            return Owner::from_stored(owner).ok();
        }
        let statements = self.body["Statements"].as_array()?;
        let mut parameters = statements
            .iter()
            .filter_map(|one| one["Parameters"].as_array());
        let texts = |parameters: &'_ Vec<Json>| -> Vec<String> {
            let texts = parameters.iter().filter_map(|one| one["S"].as_str());
            texts.map(str::to_owned).collect()
        };
        let own = parameters.find(|all| texts(all).iter().any(|text| text == id))?;
        // No other text parameter has the format of an owner.
        texts(own)
            .iter()
            .find_map(|text| Owner::from_stored(text).ok())
    }
}

/// A request in the timeline: the operation, and its keys.
struct Named {
    operation: String,
    keys: Vec<usize>,
}

impl Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.operation)?;
        self.keys.iter().try_for_each(|key| write!(f, " k{key}"))
    }
}

/// A process's connection to DynamoDB.
#[derive(Clone)]
struct Wire {
    world: Arc<World>,
    dynamo: Arc<Dynamo>,
    process: Process,
}

impl fmt::Debug for Wire {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl HttpConnector for Wire {
    fn call(&self, request: HttpRequest) -> HttpConnectorFuture {
        let Self {
            world,
            dynamo,
            process,
        } = self.clone();
        let request = Request::of(&request);
        let ids = request.ids();
        let named = Named {
            operation: request.operation.clone(),
            keys: (0..world.plan.keys)
                .filter(|key| ids.contains(id_of(*key).as_str()))
                .collect(),
        };
        HttpConnectorFuture::new(async move {
            let carry_out = {
                let (world, process, request) =
                    (Arc::clone(&world), process.clone(), request.clone());
                move || dynamo.carry_out(&world, &process, &request)
            };
            match world.network.pass(&process, named, carry_out).await {
                Ok(answer) => Ok(response(answer.status, answer.body)),
                Err(Broken::Connection) => Err(ConnectorError::io("the connection broke".into())),
                Err(Broken::Throttled) => {
                    Ok(refusal(json!({"__type": error("ThrottlingException")})))
                }
                Err(Broken::Conflict) => Ok(refusal(conflict(&request))),
                Err(Broken::Failed) => Ok(response(500, String::new())),
            }
        })
    }
}

/// DynamoDB's answer while another transaction is in flight on one of the items.
fn conflict(request: &Request) -> Json {
    match request.body["TransactItems"].as_array() {
        None => json!({"__type": error("TransactionConflictException")}),
        Some(items) => {
            let mut reasons = vec![json!({"Code": "None"}); items.len()];
            reasons[0] = json!({"Code": "TransactionConflict"});
            json!({"__type": error("TransactionCanceledException"), "CancellationReasons": reasons})
        }
    }
}

fn error(name: &str) -> String {
    format!("com.amazonaws.dynamodb.v20120810#{name}")
}

fn refusal(body: Json) -> HttpResponse {
    response(400, body.to_string())
}

fn response(status: u16, body: String) -> HttpResponse {
    let status = StatusCode::try_from(status).unwrap_or_else(|error| unreachable!("{error}"));
    HttpResponse::new(status, body.into())
}
