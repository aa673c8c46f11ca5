//! A network between a client and DynamoDB or SQS, with faults on request. It counts requests.

#![allow(
    clippy::unwrap_used,
    reason = "a failure here is the failure of a test"
)]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::time::sleep;

/// The fates of a stand-in's requests.
#[derive(Debug, Default)]
pub struct Turns<T> {
    /// Those of the next requests.
    pub next: VecDeque<T>,
    /// That of all later ones.
    pub then: T,
}

impl<T: Clone> Turns<T> {
    /// Returns the fate of the next request.
    pub fn take(&mut self) -> T {
        let next = self.next.pop_front();
        next.unwrap_or_else(|| self.then.clone())
    }
}

/// The fate of a request.
#[derive(Clone, Debug, Default)]
pub enum Turn {
    /// The request and its answer pass.
    #[default]
    Pass,
    /// The server sees the request after the first time, even if the client is gone then. The answer leaves after the second.
    Late(Duration, Duration),
    /// The connection closes before the server sees the request.
    LoseRequest,
    /// The server executes the request, then the connection closes.
    LoseAnswer,
    /// The server executes the request, but the client receives this status and body.
    Garble(u16, String),
    /// The network answers without the server.
    Answer(u16, String),
    /// The network answers with what the function makes of the request.
    By(fn(&Value) -> (u16, Value)),
    /// The request is never answered.
    Hang,
    /// The client dies: before the server sees the request, or after the server has executed it. The request is never answered.
    Die(Death, Arc<Notify>),
}

/// When a client dies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Death {
    /// Before the server sees the request.
    Before,
    /// After the server has executed it.
    After,
}

/// Decides on a request by its operation and its body.
type Decide = Box<dyn FnMut(&str, &Value) -> Turn + Send>;

/// A proxy. It treats requests by their turns.
pub struct Wire {
    address: SocketAddr,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    upstream: Option<String>,
    turns: Turns<Turn>,
    decide: Option<Decide>,
    /// How many requests the server has yet to execute.
    in_flight: watch::Sender<usize>,
    connections: usize,
    seen: Vec<String>,
    bodies: Vec<Value>,
    answers: Vec<Value>,
}

impl Wire {
    /// A proxy to the server at `endpoint`.
    pub async fn to(endpoint: &str) -> Self {
        let upstream = Some(endpoint.strip_prefix("http://").unwrap().to_owned());
        Self::start(State {
            upstream,
            ..State::default()
        })
        .await
    }

    /// A proxy to the server at `endpoint`, with a function that chooses the turn of each request. It keeps no request.
    pub async fn deciding(
        endpoint: &str,
        decide: impl FnMut(&str, &Value) -> Turn + Send + 'static,
    ) -> Self {
        let wire = Self::to(endpoint).await;
        wire.state.lock().unwrap().decide = Some(Box::new(decide));
        wire
    }

    /// A proxy without a server, which treats every request alike.
    pub async fn always(turn: Turn) -> Self {
        let wire = Self::start(State::default()).await;
        wire.then(turn);
        wire
    }

    async fn start(state: State) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(Mutex::new(state));
        let shared = Arc::clone(&state);
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                shared.lock().unwrap().connections += 1;
                tokio::spawn(serve(connection, Arc::clone(&shared)));
            }
        });
        Self { address, state }
    }

    /// The URL of the proxy.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The number of connections so far.
    pub fn connections(&self) -> usize {
        self.state.lock().unwrap().connections
    }

    /// The operations since the previous call, in order.
    pub fn seen(&self) -> Vec<String> {
        std::mem::take(&mut self.state.lock().unwrap().seen)
    }

    /// The bodies of the requests since the previous call, in order.
    pub fn bodies(&self) -> Vec<Value> {
        std::mem::take(&mut self.state.lock().unwrap().bodies)
    }

    /// The capacity units that DynamoDB reported since the previous call.
    pub fn units(&self) -> f64 {
        let answers = std::mem::take(&mut self.state.lock().unwrap().answers);
        let units = answers
            .iter()
            .map(|body| consumed(&body["ConsumedCapacity"]));
        units.sum()
    }

    /// Waits until the server has executed every request that it is to see.
    pub async fn ended(&self) {
        let mut in_flight = self.state.lock().unwrap().in_flight.subscribe();
        in_flight.wait_for(|count| *count == 0).await.unwrap();
    }

    /// Sets the turns of the next requests. Later requests pass.
    pub fn next(&self, turns: impl IntoIterator<Item = Turn>) {
        self.state.lock().unwrap().turns.next = turns.into_iter().collect();
    }

    /// Sets the turn of every request after those of [`next`](Self::next).
    pub fn then(&self, turn: Turn) {
        self.state.lock().unwrap().turns.then = turn;
    }
}

/// Serves one connection, until a turn or the client closes it.
async fn serve(mut connection: TcpStream, state: Arc<Mutex<State>>) {
    while let Some(request) = message(&mut connection).await {
        let (turn, upstream) = {
            let state = &mut *state.lock().unwrap();
            let (operation, body) = (operation(&request), body(&request));
            let turn = match &mut state.decide {
                Some(decide) => decide(&operation, &body),
                None => {
                    state.seen.push(operation);
                    state.bodies.push(body);
                    state.turns.take()
                }
            };
            (turn, state.upstream.clone())
        };
        let late = match turn {
            Turn::Late(time, _) => Some(time),
            _ => None,
        };
        let count = |change: fn(&mut usize)| state.lock().unwrap().in_flight.send_modify(change);
        let pass = async || {
            count(|in_flight| *in_flight += 1);
            if let Some(late) = late {
                sleep(late).await;
            }
            let answer = ask(&upstream.unwrap(), &request).await;
            count(|in_flight| *in_flight -= 1);
            answer.expect("the server answers")
        };
        let answer = match turn {
            Turn::Pass => {
                let answer = pass().await;
                let mut state = state.lock().unwrap();
                if state.decide.is_none() {
                    state.answers.push(body(&answer));
                }
                answer
            }
            Turn::Late(_, time) => {
                let answer = pass().await;
                sleep(time).await;
                answer
            }
            Turn::LoseRequest => return,
            Turn::LoseAnswer => {
                pass().await;
                return;
            }
            Turn::Garble(status, body) => {
                pass().await;
                response(status, &body)
            }
            Turn::Answer(status, body) => response(status, &body),
            Turn::By(answer) => {
                let (status, body) = answer(&body(&request));
                response(status, &body.to_string())
            }
            Turn::Hang => std::future::pending().await,
            Turn::Die(death, dies) => {
                if death == Death::After {
                    pass().await;
                }
                dies.notify_one();
                // Its end of the connection closes.
                message(&mut connection).await;
                return;
            }
        };
        if connection.write_all(&answer).await.is_err() {
            return;
        }
    }
}

async fn ask(server: &str, request: &[u8]) -> Option<Vec<u8>> {
    let mut server = TcpStream::connect(server).await.ok()?;
    server.write_all(request).await.ok()?;
    message(&mut server).await
}

/// Reads one complete HTTP message. `None` at the end of the connection.
async fn message(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    loop {
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
        let text = String::from_utf8_lossy(&bytes);
        if let Some(head) = text.split_once("\r\n\r\n").map(|(head, _)| head) {
            let body: usize = header(head, "content-length")?.parse().ok()?;
            if bytes.len() >= head.len() + 4 + body {
                return Some(bytes);
            }
        }
    }
}

fn header<'a>(head: &'a str, name: &str) -> Option<&'a str> {
    head.lines().find_map(|line| {
        let (found, value) = line.split_once(':')?;
        found.eq_ignore_ascii_case(name).then(|| value.trim())
    })
}

fn operation(request: &[u8]) -> String {
    let text = String::from_utf8_lossy(request);
    let target = header(&text, "x-amz-target").unwrap();
    let operation = target.rsplit('.').next().unwrap();
    if operation == "BatchGetItem" && !text.contains("\"ConsistentRead\":true") {
        return "an inconsistent read".to_owned();
    }
    operation.to_owned()
}

fn body(message: &[u8]) -> Value {
    let text = String::from_utf8_lossy(message);
    serde_json::from_str(text.split_once("\r\n\r\n").unwrap().1).unwrap()
}

/// The capacity of one table, or of several.
fn consumed(capacity: &Value) -> f64 {
    match capacity {
        Value::Array(tables) => tables.iter().map(consumed).sum(),
        table => table["CapacityUnits"].as_f64().unwrap_or_default(),
    }
}

fn response(status: u16, body: &str) -> Vec<u8> {
    let (kind, length) = ("application/x-amz-json-1.0", body.len());
    format!("HTTP/1.1 {status} \r\ncontent-type: {kind}\r\ncontent-length: {length}\r\n\r\n{body}")
        .into_bytes()
}
