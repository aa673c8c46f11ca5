//! The store beneath the SDK: the real `DynamoDbStore` and the real client, with dynoxide as DynamoDB.

use std::collections::BTreeSet;
use std::fmt::{self, from_fn};
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
use serde_json::{Value as Json, json};
use sqs_once::DynamoDbStore;
use sqs_once::store::{Item, Owner};

use super::ids::id_of;
use super::mutant::Mutant;
use super::network::Broken;
use super::process::Process;
use super::sdk_mutants::without_guard;
use super::sdk_tables::{Answer, KEYS, Tables};
use super::store::Backend;
use super::world::World;

/// The timeouts of `DynamoDbStore::from_env`.
const ATTEMPT: Duration = Duration::from_secs(2);
const OPERATION: Duration = Duration::from_secs(8);

pub(crate) struct Dynamo {
    tables: Tables,
    /// The item of each key, and how often its effect has happened, after the latest request.
    stored: Mutex<Vec<(Option<Item>, u64)>>,
    mutant: Option<Mutant>,
}

impl Dynamo {
    pub(crate) fn new(keys: usize, mutant: Option<Mutant>) -> Self {
        Self {
            tables: Tables::new(),
            stored: Mutex::new(vec![(None, 0); keys]),
            mutant,
        }
    }

    /// Carries a request out, and reports its changes to the witness.
    fn carry_out(&self, world: &World, process: &Process, request: &Request) -> Answer {
        let mut stored = self.stored.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = request.sent(world, self.mutant);
        let answer = self.tables.carry_out(&request.operation, sent);
        for key in request.keys(world) {
            if request.operation == "BatchGetItem" {
                world.witness().looked_up(process, key);
                continue;
            }
            let id = id_of(key);
            let after = (self.tables.item(id), self.tables.happened(key));
            let before = std::mem::replace(&mut stored[key], after.clone());
            if before == after {
                continue;
            }
            let commits = after.1 > before.1;
            let message = world.witness().message_of(process, key);
            if let Some(owner) = request.owner_of(id.as_str()) {
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

pub(crate) fn backend(dynamo: Dynamo) -> Box<Backend> {
    let dynamo = Arc::new(dynamo);
    Box::new(move |world, process| {
        let wire = Wire {
            world: Arc::clone(world),
            dynamo: Arc::clone(&dynamo),
            process: process.clone(),
        };
        Box::new(DynamoDbStore::new(client(wire), KEYS))
    })
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

    fn keys(&self, world: &World) -> Vec<usize> {
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
        let keys = 0..world.plan.keys;
        keys.filter(|key| ids.contains(id_of(*key).as_str()))
            .collect()
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
        let (operation, keys) = (request.operation.clone(), request.keys(&world));
        let named = from_fn(move |f| {
            f.write_str(&operation)?;
            keys.iter().try_for_each(|key| write!(f, " k{key}"))
        });
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
