//! A network between a store and its server that withholds a commit, drops connections and counts round trips.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};

/// Forwards the traffic of both sides until a fault is set.
pub(crate) struct Relay {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// Loses the next COMMIT and keeps the connection to the server open.
    withholds_commit: AtomicBool,
    /// Silently drops all traffic of connections up to this number.
    forgotten: AtomicUsize,
    connections: AtomicUsize,
    /// The number of times that a client sent after its server.
    turns: AtomicUsize,
}

const COMMIT: &[u8] = b"COMMIT\0";

impl Relay {
    /// A relay in front of the server in `url`.
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

    /// The URL of the same database through the relay.
    pub(crate) fn url(&self, url: &str) -> String {
        let (user, server) = url.split_once('@').unwrap();
        let (_, database) = server.split_once('/').unwrap();
        format!("{user}@{}/{database}", self.address)
    }

    /// The round trips so far. A message sent before the previous answer arrived is not a round trip of its own.
    pub(crate) fn round_trips(&self) -> usize {
        self.state.turns.load(Ordering::SeqCst)
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
    let server_spoke = AtomicBool::new(true);
    let there = async {
        while let Some(said) = heard(&mut from_client).await {
            if is_forgotten() {
                std::future::pending::<()>().await;
            }
            if server_spoke.swap(false, Ordering::SeqCst) {
                state.turns.fetch_add(1, Ordering::SeqCst);
            }
            let commit = said.windows(COMMIT.len()).position(|text| text == COMMIT);
            if let Some(at) = commit
                && state.withholds_commit.swap(false, Ordering::SeqCst)
            {
                // A message's type and length precede its text.
                say(&mut to_server, &said[..at - 5]).await;
                std::future::pending::<()>().await;
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
    // If this side is gone, the other side notices when its own connection ends.
    let _ = to.write_all(said).await;
}
