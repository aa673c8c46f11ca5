//! A server starts, keeps its data when it is killed, and cleans up. The tests of `sqs-once-postgres` cover its password
//! and its certificates.

#![allow(clippy::unwrap_used, reason = "a test")]

use postgres_for_tests::Server;
use std::io::{self, BufRead, BufReader};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use sysinfo::{Pid, ProcessStatus, System};
use tokio_postgres::{Client, Config, NoTls};

async fn connect(url: &str) -> Result<Client, tokio_postgres::Error> {
    let (client, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

async fn text(client: &Client, query: &str) -> String {
    client.query_one(query, &[]).await.unwrap().get(0)
}

async fn execute(client: &Client, statement: &str) {
    client.batch_execute(statement).await.unwrap();
}

#[derive(Debug)]
struct Parts {
    processes: Vec<Pid>,
    data: PathBuf,
    /// The System V shared memory that marks the data as in use.
    memory: String,
    port: u16,
}

impl Parts {
    async fn of(url: &str) -> Self {
        let client = connect(url).await.unwrap();
        let mut processes: Vec<Pid> = client
            .query("SELECT pid::text FROM pg_stat_activity", &[])
            .await
            .unwrap()
            .iter()
            .map(|row| row.get::<_, &str>(0).parse().unwrap())
            .collect();
        let data = PathBuf::from(text(&client, "SHOW data_directory").await);
        let lock = std::fs::read_to_string(data.join("postmaster.pid")).unwrap();
        let lock: Vec<_> = lock.lines().collect();
        processes.push(lock[0].parse().unwrap());
        let memory = lock[6].split_whitespace().nth(1).unwrap().to_owned();
        let port = url.parse::<Config>().unwrap().get_ports()[0];
        Self {
            processes,
            data,
            memory,
            port,
        }
    }

    /// A process that has ended may remain a zombie until the init process waits for it.
    fn running(&self) -> Vec<&Pid> {
        let system = System::new_all();
        let runs = |process: &&Pid| {
            let process = system.process(**process);
            process.is_some_and(|process| process.status() != ProcessStatus::Zombie)
        };
        self.processes.iter().filter(runs).collect()
    }

    fn has_memory(&self) -> bool {
        let ipcs = Command::new("ipcs").arg("-m").output().unwrap();
        let table = String::from_utf8(ipcs.stdout).unwrap();
        table
            .lines()
            .any(|line| line.split_whitespace().nth(1) == Some(&self.memory))
    }

    fn assert_gone(&self) {
        assert!(!self.has_memory(), "memory {} is left", self.memory);
        assert_eq!(self.running(), Vec::<&Pid>::new());
        assert!(!self.data.exists(), "{} is left", self.data.display());
        TcpStream::connect(("127.0.0.1", self.port)).unwrap_err();
    }
}

#[tokio::test]
async fn what_was_committed_survives_a_kill_and_what_was_not_does_not() {
    let server = Server::start();
    let url = server.create_database();
    let client = connect(&url).await.unwrap();
    execute(&client, "CREATE TABLE orders (id text)").await;
    execute(&client, "INSERT INTO orders VALUES ('committed')").await;
    execute(&client, "BEGIN; INSERT INTO orders VALUES ('open')").await;

    server.kill();

    client.batch_execute("COMMIT").await.unwrap_err();
    connect(&url).await.unwrap_err();
    server.restart();
    let client = connect(&url).await.unwrap();
    let orders = text(&client, "SELECT string_agg(id, ', ') FROM orders").await;
    assert_eq!(orders, "committed");
}

#[tokio::test]
async fn a_kill_ends_every_process_and_a_restart_takes_the_same_port() {
    let server = Server::start();
    let before = Parts::of(&server.connection_string()).await;
    assert!(before.processes.len() > 3, "{before:?}");
    assert_eq!(before.running().len(), before.processes.len());
    assert!(before.has_memory());

    server.kill();
    assert_eq!(before.running(), Vec::<&Pid>::new());
    server.kill();

    server.restart();
    let after = Parts::of(&server.connection_string()).await;
    assert_eq!((after.port, &after.data), (before.port, &before.data));
}

/// Only a backend that waits for something notices that the server has died.
#[tokio::test]
async fn a_kill_ends_a_query_that_computes() {
    let server = Server::start();
    let busy = connect(&server.connection_string()).await.unwrap();
    let process = text(&busy, "SELECT pg_backend_pid()::text").await;
    let for_ever = "DO $$ BEGIN LOOP END LOOP; END $$";
    let query = tokio::spawn(async move { busy.batch_execute(for_ever).await });
    let observer = connect(&server.connection_string()).await.unwrap();
    let state = format!("SELECT state FROM pg_stat_activity WHERE pid = {process}");
    while text(&observer, &state).await != "active" {}
    let parts = Parts::of(&server.connection_string()).await;
    assert!(parts.processes.contains(&process.parse().unwrap()));

    server.kill();

    assert_eq!(parts.running(), Vec::<&Pid>::new());
    query.await.unwrap().unwrap_err();
}

#[tokio::test]
async fn a_restart_of_a_running_server_is_a_crash_and_a_restart_and_leaves_others_alone() {
    let (server, other) = (Server::start(), Server::start());
    let client = connect(&server.connection_string()).await.unwrap();
    let beside = connect(&other.connection_string()).await.unwrap();
    server.restart();
    client.query_one("SELECT 1", &[]).await.unwrap_err();
    connect(&server.connection_string()).await.unwrap();
    assert_eq!(text(&beside, "SELECT 'alive'").await, "alive");
}

#[tokio::test]
async fn a_dropped_server_leaves_nothing_whether_it_runs_or_was_killed() {
    for is_killed in [false, true] {
        let server = Server::start();
        let parts = Parts::of(&server.connection_string()).await;
        if is_killed {
            server.kill();
        }
        drop(server);
        parts.assert_gone();
    }
}

#[tokio::test]
async fn a_killed_test_process_leaves_nothing() {
    let mut process = Command::new(env!("CARGO_BIN_EXE_postgres-for-tests"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut url = String::new();
    let mut stdout = BufReader::new(process.stdout.take().unwrap());
    stdout.read_line(&mut url).unwrap();
    let parts = Parts::of(url.trim()).await;

    process.kill().unwrap();

    process.wait().unwrap();
    // The guardian also has this standard error open, and ends last.
    let stderr = io::read_to_string(process.stderr.take().unwrap()).unwrap();
    assert_eq!(stderr, "");
    parts.assert_gone();
}
