//! A network between a store and its server that loses answers and forgets connections.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Hands on what both sides say, until it is told otherwise.
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The answer to the next request with this in it is lost, and its connection with it.
    loses_commit: AtomicBool,
    /// The next COMMIT is lost on its way, and its connection with it.
    loses_before_commit: AtomicBool,
    /// The next COMMIT never arrives, and its connection stays open for the server.
    withholds_commit: AtomicBool,
    /// Connections of this number and below are forgotten: nothing comes through, and nobody is told.
    forgotten: AtomicUsize,
    connections: AtomicUsize,
    /// How often a client has spoken after its server had.
    turns: AtomicUsize,
}

const COMMIT: &[u8] = b"COMMIT\0";

impl Relay {
    /// In front of the server that `url` names.
    pub(crate) async fn before(url: &str) -> Self {
        let server = url.split('@').nth(1).unwrap().split('/').next().unwrap();
        let server: SocketAddr = server.parse().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let relay = Self {
            address: listener.local_addr().unwrap(),
            state: Arc::default(),
        };
        let state = Arc::clone(&relay.state);
        tokio::spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                let number = state.connections.fetch_add(1, Ordering::SeqCst) + 1;
                tokio::spawn(hand_on(client, server, Arc::clone(&state), number));
            }
        });
        relay
    }

    /// The same database, through the relay.
    pub(crate) fn url(&self, url: &str) -> String {
        let (user, server) = url.split_once('@').unwrap();
        let (_, database) = server.split_once('/').unwrap();
        format!("{user}@{}/{database}", self.address)
    }

    /// The round trips so far. A message that is sent before an answer to the one before it is none of its own.
    pub(crate) fn round_trips(&self) -> usize {
        self.state.turns.load(Ordering::SeqCst)
    }

    pub(crate) fn lose_the_answer_to_the_next_commit(&self) {
        self.state.loses_commit.store(true, Ordering::SeqCst);
    }

    pub(crate) fn lose_the_next_commit(&self) {
        self.state.loses_before_commit.store(true, Ordering::SeqCst);
    }

    pub(crate) fn withhold_the_next_commit(&self) {
        self.state.withholds_commit.store(true, Ordering::SeqCst);
    }

    pub(crate) fn forget_the_connections_there_are(&self) {
        let connections = self.state.connections.load(Ordering::SeqCst);
        self.state.forgotten.store(connections, Ordering::SeqCst);
    }
}

async fn hand_on(client: TcpStream, server: SocketAddr, state: Arc<State>, number: usize) {
    let server = TcpStream::connect(server).await.unwrap();
    let (mut from_client, mut to_client) = client.into_split();
    let (mut from_server, mut to_server) = server.into_split();
    let is_forgotten = || state.forgotten.load(Ordering::SeqCst) >= number;
    let answer_is_lost = AtomicBool::new(false);
    let server_spoke = AtomicBool::new(true);
    let there = async {
        while let Some(said) = heard(&mut from_client).await {
            if is_forgotten() {
                std::future::pending::<()>().await;
            }
            if server_spoke.swap(false, Ordering::SeqCst) {
                state.turns.fetch_add(1, Ordering::SeqCst);
            }
            if let Some(at) = position(&said, COMMIT) {
                if state.withholds_commit.swap(false, Ordering::SeqCst) {
                    // A message's kind and length stand before its text.
                    say(&mut to_server, &said[..at - 5]).await;
                    std::future::pending::<()>().await;
                }
                if state.loses_before_commit.swap(false, Ordering::SeqCst) {
                    return;
                }
                if state.loses_commit.swap(false, Ordering::SeqCst) {
                    answer_is_lost.store(true, Ordering::SeqCst);
                }
            }
            say(&mut to_server, &said).await;
        }
    };
    let back = async {
        while let Some(said) = heard(&mut from_server).await {
            if is_forgotten() {
                std::future::pending::<()>().await;
            }
            server_spoke.store(true, Ordering::SeqCst);
            if answer_is_lost.load(Ordering::SeqCst) {
                // The answer to the COMMIT may come behind the one to the completion.
                if contains(&said, COMMIT) || contains(&said, b"ROLLBACK\0") {
                    return;
                }
                continue;
            }
            say(&mut to_client, &said).await;
        }
    };
    tokio::select! {
        () = there => {}
        () = back => {}
    }
}

async fn heard(from: &mut (impl AsyncRead + Unpin)) -> Option<Vec<u8>> {
    let mut said = vec![0; 64 * 1024];
    let length = from.read(&mut said).await.ok()?;
    said.truncate(length);
    (length > 0).then_some(said)
}

async fn say(to: &mut (impl AsyncWrite + Unpin), said: &[u8]) {
    // Who has gone hears nothing; the other side is told by its own end.
    let _ = to.write_all(said).await;
}

fn contains(said: &[u8], what: &[u8]) -> bool {
    position(said, what).is_some()
}

fn position(said: &[u8], what: &[u8]) -> Option<usize> {
    said.windows(what.len()).position(|window| window == what)
}
