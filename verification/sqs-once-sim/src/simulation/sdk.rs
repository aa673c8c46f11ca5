//! The store beneath the SDK: the real `DynamoDbStore` and the real client, with dynoxide as DynamoDB.

use std::collections::BTreeSet;
use std::fmt::from_fn;
use std::sync::Arc;
use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::config::{Builder, retry::RetryPartition};
use aws_smithy_runtime_api::client::orchestrator::{HttpRequest, HttpResponse};
use aws_smithy_runtime_api::client::result::ConnectorError;
use parking_lot::Mutex;
use serde_json::{Value as Json, json};
use sqs_once::DynamoDbStore;
use sqs_once::store::{Item, Owner};

use super::mutant::Mutant;
use super::network::Broken;
use super::process::Process;
use super::sdk_mutants::without_guard;
use super::sdk_tables::{Answer, KEYS, Tables};
use super::store::Backend;
use super::wire;
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
        let mut stored = self.stored.lock();
        let sent = request.sent(world, self.mutant);
        let answer = self.tables.carry_out(&request.operation, sent);
        for key in request.keys(world) {
            if request.operation == "BatchGetItem" {
                world.witness().looked_up(process, key);
                continue;
            }
            let id = world.id_of(key);
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
        let client = client(Arc::clone(world), Arc::clone(&dynamo), process.clone());
        Box::new(DynamoDbStore::new(client, KEYS))
    })
}

fn client(world: Arc<World>, dynamo: Arc<Dynamo>, process: Process) -> Client {
    let retries = match world.plan.resends {
        // `tell` seeds the jitter.
        true => RetryConfig::standard(),
        false => RetryConfig::disabled(),
    };
    let serve = move |request| {
        let (world, dynamo) = (Arc::clone(&world), Arc::clone(&dynamo));
        serve(world, dynamo, process.clone(), request)
    };
    let settings = wire::settings(serve, ATTEMPT, Some(OPERATION), retries);
    // Requests of other schedules must not use up this schedule's retries.
    let partition = RetryPartition::custom("simulation").build();
    Client::from_conf(Builder::from(&settings).retry_partition(partition).build())
}

#[derive(Clone)]
struct Request {
    operation: String,
    body: Json,
}

impl Request {
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
        keys.filter(|key| ids.contains(world.id_of(*key).as_str()))
            .collect()
    }

    /// The owner in the request that writes this item. The store's writes are single requests, updates in a
    /// transaction, or statements.
    fn owner_of(&self, id: &str) -> Option<Owner> {
        let mut updates = self.body["TransactItems"].as_array().into_iter().flatten();
        let update = updates.find(|one| one["Update"]["Key"]["id"]["S"] == id);
        let write = update.map_or(&self.body, |one| &one["Update"]);
        let owner = &write["ExpressionAttributeValues"][":me"]["S"];
        if let Some(owner) = owner.as_str() {
            return Owner::from_stored(owner);
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
        texts(own).iter().find_map(|text| Owner::from_stored(text))
    }
}

async fn serve(
    world: Arc<World>,
    dynamo: Arc<Dynamo>,
    process: Process,
    request: HttpRequest,
) -> Result<HttpResponse, ConnectorError> {
    let request = Request {
        operation: wire::operation(&request).to_owned(),
        body: wire::body(&request),
    };
    let (operation, keys) = (request.operation.clone(), request.keys(&world));
    let named = from_fn(move |f| {
        f.write_str(&operation)?;
        keys.iter().try_for_each(|key| write!(f, " k{key}"))
    });
    let carry_out = {
        let (world, process, request) = (Arc::clone(&world), process.clone(), request.clone());
        move || dynamo.carry_out(&world, &process, &request)
    };
    match world.network.pass(&process, named, carry_out).await {
        Ok(answer) => Ok(wire::answer(answer.status, answer.body)),
        Err(Broken::Connection) => Err(wire::broken()),
        Err(Broken::Throttled) => {
            let throttled = json!({"__type": error("ThrottlingException")});
            Ok(wire::answer(400, throttled))
        }
        Err(Broken::Conflict) => Ok(wire::answer(400, conflict(&request))),
        Err(Broken::Failed) => Ok(wire::answer(500, "")),
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
