//! A proxy between a process and its database that breaks connections at chosen messages, and counts round trips.

use std::future::pending;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

use super::chance::Chance;

/// A fault at one message from a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConnectionFault {
    /// The connection breaks before the message is sent.
    LoseRequest,
    /// The connection breaks after the message is sent, and the server executes it.
    LoseAnswer,
    /// The connection breaks for the client, but the server receives the message a while later.
    Delay,
    /// The process dies before the message is sent.
    DieBefore,
    /// The process dies after the message is sent.
    DieAfter,
}

impl ConnectionFault {
    pub(crate) const ALL: [Self; 5] = [
        Self::LoseRequest,
        Self::LoseAnswer,
        Self::Delay,
        Self::DieBefore,
        Self::DieAfter,
    ];
}

/// When faults occur.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FaultSchedule {
    /// This fault at this message, counted from 0.
    Once(usize, ConnectionFault),
    /// A random fault at one in `once_in` messages, during the first `messages` messages.
    Storm { once_in: u64, messages: usize },
}

/// The faults of one scenario, shared by all its processes.
pub(crate) struct Faults {
    schedule: FaultSchedule,
    chance: Chance,
    messages: AtomicUsize,
    log: Mutex<Vec<String>>,
    struck: watch::Sender<bool>,
}

impl Faults {
    pub(crate) fn new(schedule: FaultSchedule, chance: Chance) -> Arc<Self> {
        Arc::new(Self {
            schedule,
            chance,
            messages: AtomicUsize::new(0),
            log: Mutex::default(),
            struck: watch::Sender::new(false),
        })
    }

    /// The number of messages that clients have sent.
    pub(crate) fn messages(&self) -> usize {
        self.messages.load(Ordering::Relaxed)
    }

    pub(crate) fn note(&self, line: String) {
        self.log.lock().unwrap().push(line);
    }

    /// The faults that occurred, for a failure message.
    pub(crate) fn story(&self) -> String {
        self.log.lock().unwrap().join("\n")
    }

    /// Completes when a fault has occurred.
    pub(crate) async fn struck(&self) {
        let mut struck = self.struck.subscribe();
        // An error would mean that the sender is gone, but `self` holds it.
        let _ = struck.wait_for(|struck| *struck).await;
    }

    fn fault(&self, kind: char) -> Option<ConnectionFault> {
        let at = self.messages.fetch_add(1, Ordering::Relaxed);
        let fault = match self.schedule {
            FaultSchedule::Once(when, fault) => (at == when).then_some(fault),
            FaultSchedule::Storm { once_in, messages } => {
                let comes = at < messages && self.chance.below(once_in) == 0;
                let all = ConnectionFault::ALL;
                comes.then(|| all[self.chance.below(all.len() as u64) as usize])
            }
        };
        if let Some(fault) = fault {
            self.struck.send_replace(true);
            self.note(format!("message {at} ({kind}): {fault:?}"));
        }
        fault
    }
}

const COMMIT: &[u8] = b"COMMIT\0";

/// The connections from one process to its database.
pub(crate) struct Proxy {
    pub(crate) port: u16,
    server: u16,
    faults: Arc<Faults>,
    death: watch::Sender<bool>,
    /// Loses the next COMMIT and keeps the connection to the server open.
    withholds_commit: AtomicBool,
    connections: AtomicUsize,
    /// Silently drops all traffic of connections up to this number.
    forgotten: AtomicUsize,
    /// The number of times that a client sent after its server.
    turns: AtomicUsize,
}

impl Proxy {
    /// A proxy to the server in `url` without faults, and the URL of the same database through it.
    pub(crate) async fn before(url: &str) -> (Arc<Self>, String) {
        let (user, server) = url.split_once("@127.0.0.1:").unwrap();
        let (port, database) = server.split_once('/').unwrap();
        let calm = FaultSchedule::Storm {
            once_in: 1,
            messages: 0,
        };
        let faults = Faults::new(calm, Chance::from_seed(0));
        let proxy = Self::to(port.parse().unwrap(), &faults).await;
        let port = proxy.port;
        let url = format!("{user}@127.0.0.1:{port}/{database}?sslmode=disable");
        (proxy, url)
    }

    /// A proxy to the server on this port.
    pub(crate) async fn to(server: u16, faults: &Arc<Faults>) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Arc::new(Self {
            port: listener.local_addr().unwrap().port(),
            server,
            faults: Arc::clone(faults),
            death: watch::Sender::new(false),
            withholds_commit: AtomicBool::new(false),
            connections: AtomicUsize::new(0),
            forgotten: AtomicUsize::new(0),
            turns: AtomicUsize::new(0),
        });
        let accepting = Arc::clone(&proxy);
        tokio::spawn(async move {
            loop {
                let client = tokio::select! {
                    client = listener.accept() => client,
                    () = accepting.death() => return,
                };
                let Ok((client, _)) = client else { return };
                let proxy = Arc::clone(&accepting);
                tokio::spawn(async move {
                    // An error is a connection that has ended.
                    let _ = proxy.pass(client).await;
                });
            }
        });
        proxy
    }

    /// Stops all traffic in both directions, as if the process was killed.
    pub(crate) fn die(&self) {
        self.death.send_replace(true);
    }

    /// Completes when the process is dead.
    pub(crate) async fn death(&self) {
        let mut dead = self.death.subscribe();
        // An error would mean that the sender is gone, but `self` holds it.
        let _ = dead.wait_for(|dead| *dead).await;
    }

    pub(crate) fn is_dead(&self) -> bool {
        *self.death.borrow()
    }

    /// The round trips so far. A message sent before the previous answer arrived is not a round trip of its own.
    pub(crate) fn round_trips(&self) -> usize {
        self.turns.load(Ordering::SeqCst)
    }

    pub(crate) fn withhold_the_next_commit(&self) {
        self.withholds_commit.store(true, Ordering::SeqCst);
    }

    pub(crate) fn forget_the_connections_there_are(&self) {
        let connections = self.connections.load(Ordering::SeqCst);
        self.forgotten.store(connections, Ordering::SeqCst);
    }

    async fn unless_forgotten(&self, connection: usize) {
        if self.forgotten.load(Ordering::SeqCst) >= connection {
            pending::<()>().await;
        }
    }

    async fn pass(&self, client: TcpStream) -> io::Result<()> {
        let number = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
        let server = TcpStream::connect(("127.0.0.1", self.server)).await?;
        client.set_nodelay(true)?;
        server.set_nodelay(true)?;
        let (from_client, mut to_client) = client.into_split();
        let (mut from_server, to_server) = server.into_split();
        let server_spoke = AtomicBool::new(true);
        let back = async {
            let mut said = vec![0; 64 * 1024];
            while let Ok(length @ 1..) = from_server.read(&mut said).await {
                self.unless_forgotten(number).await;
                server_spoke.store(true, Ordering::SeqCst);
                if to_client.write_all(&said[..length]).await.is_err() {
                    break;
                }
            }
            // The client learns of the end.
            drop(to_client);
            pending::<()>().await;
        };
        tokio::select! {
            ended = self.requests(from_client, to_server, number, &server_spoke) => ended?,
            () = back => {}
            () = self.death() => {}
        }
        Ok(())
    }

    /// Forwards messages until the client ends or a fault occurs.
    async fn requests(
        &self,
        mut from: OwnedReadHalf,
        mut to: OwnedWriteHalf,
        connection: usize,
        server_spoke: &AtomicBool,
    ) -> io::Result<()> {
        // The first message of the protocol has no type byte.
        let first = body(&mut from).await?;
        to.write_all(&first).await?;
        loop {
            let kind = from.read_u8().await?;
            let mut message = vec![kind];
            message.extend(body(&mut from).await?);
            self.unless_forgotten(connection).await;
            if server_spoke.swap(false, Ordering::SeqCst) {
                self.turns.fetch_add(1, Ordering::SeqCst);
            }
            let is_commit = &message[5..] == COMMIT;
            if is_commit && self.withholds_commit.swap(false, Ordering::SeqCst) {
                pending::<()>().await;
            }
            match self.faults.fault(kind.into()) {
                None => to.write_all(&message).await?,
                Some(ConnectionFault::LoseRequest) => return Ok(()),
                Some(ConnectionFault::LoseAnswer) => return to.write_all(&message).await,
                Some(fault @ (ConnectionFault::DieBefore | ConnectionFault::DieAfter)) => {
                    if fault == ConnectionFault::DieAfter {
                        to.write_all(&message).await?;
                    }
                    self.die();
                    return Ok(());
                }
                Some(ConnectionFault::Delay) => {
                    let late = self.faults.chance.millis(1..200);
                    tokio::spawn(async move {
                        sleep(late).await;
                        // Reads the data that the client sent along with this message.
                        let mut rest = vec![0; 64 * 1024];
                        let len = from.try_read(&mut rest).unwrap_or(0);
                        message.extend(&rest[..len]);
                        // Fails if the server is gone.
                        let _ = to.write_all(&message).await;
                        sleep(Duration::from_millis(5)).await;
                    });
                    return Ok(());
                }
            }
        }
    }
}

/// Reads a message after its type byte: the length, which includes itself, and the content.
async fn body(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let len = from.read_u32().await?;
    let mut message = len.to_be_bytes().to_vec();
    message.resize(usize::try_from(len).unwrap(), 0);
    from.read_exact(&mut message[4..]).await?;
    Ok(message)
}
