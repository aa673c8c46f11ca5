//! Finds the listening sockets of `dev` and `invoke`, and attacks each of them.
//!
//! The operating system lists the sockets, so the test also finds a listener that nobody added here. One listener is a
//! deliberate exception: `sqs-once-local` opens a port for each connection to the embedded DynamoDB engine, connects to it and
//! closes it. That port is closed while the function waits.

use crate::project::{LIMIT, Project, Running};
use std::collections::HashSet;
use std::fs;
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream};

/// The state of a listening socket.
const LISTEN: &str = "0A";

const TEMPLATE: &str = "
Resources:
  Payments:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 60
      Environment: { Variables: { SQS_ONCE_NAMESPACE: listeners } }
";

/// The addresses that a process listens on.
fn listeners(process: u32) -> Vec<SocketAddr> {
    let files = fs::read_dir(format!("/proc/{process}/fd")).unwrap();
    let sockets: HashSet<String> = files
        .filter_map(|file| {
            let target = fs::read_link(file.unwrap().path()).ok()?;
            let inode = target.to_str()?.strip_prefix("socket:[")?;
            Some(inode.strip_suffix(']')?.to_owned())
        })
        .collect();
    let mut found = Vec::new();
    for table in ["tcp", "tcp6"] {
        let table = fs::read_to_string(format!("/proc/{process}/net/{table}")).unwrap();
        for line in table.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            if columns[3] == LISTEN && sockets.contains(columns[9]) {
                found.push(address(columns[1]));
            }
        }
    }
    found
}

/// Reads an address such as `0100007F:1F90`: 32-bit words in this machine's byte order, and a port.
fn address(text: &str) -> SocketAddr {
    let (ip, port) = text.split_once(':').unwrap();
    let words = (0..ip.len()).step_by(8).map(|at| &ip[at..at + 8]);
    let bytes: Vec<u8> = words
        .flat_map(|word| u32::from_str_radix(word, 16).unwrap().to_ne_bytes())
        .collect();
    let ip = match <[u8; 4]>::try_from(&*bytes) {
        Ok(bytes) => IpAddr::from(bytes),
        Err(_) => IpAddr::from(<[u8; 16]>::try_from(&*bytes).unwrap()),
    };
    SocketAddr::new(ip, u16::from_str_radix(port, 16).unwrap())
}

/// The status line of the answer to a request with these headers.
fn ask(listener: SocketAddr, headers: &str) -> String {
    let mut stream = TcpStream::connect(listener).unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let request = format!("GET / HTTP/1.1\r\nConnection: close\r\n{headers}\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    let answer = String::from_utf8_lossy(&answer);
    answer.lines().next().unwrap_or_default().to_owned()
}

/// Waits until the function works on an event, and then attacks every listener of the command.
fn attack(mut running: Running, expected: usize) {
    running.stderr.until("namespace: ");
    let found = listeners(running.child.id());
    assert!(found.len() >= expected, "{found:?}");
    for listener in found {
        assert!(listener.ip().is_loopback(), "{listener}");
        for headers in [
            "Host: evil.example\r\n".to_owned(),
            format!("Host: {listener}\r\nOrigin: https://evil.example\r\n"),
            format!("Host: {listener}\r\nSec-Fetch-Site: cross-site\r\n"),
        ] {
            let answer = ask(listener, &headers);
            assert!(
                answer.starts_with("HTTP/1.1 403"),
                "{listener}: {answer:?} to {headers}"
            );
        }
        let own = ask(listener, &format!("Host: {listener}\r\n"));
        assert!(!own.starts_with("HTTP/1.1 403"), "{listener}: {own:?}");
    }
}

#[test]
fn every_listener_of_dev_is_on_loopback_and_refuses_web_pages() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "hang")]);
    let dev = Running::of(project.command("dev", &["--send", "event.json"]));
    // The page, SQS, DynamoDB and the Runtime API of an environment.
    attack(dev, 4);
}

#[test]
fn every_listener_of_invoke_is_on_loopback_and_refuses_web_pages() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "hang")]);
    let invoke = Running::of(project.command("invoke", &["event.json"]));
    // DynamoDB and the Runtime API.
    attack(invoke, 2);
}
