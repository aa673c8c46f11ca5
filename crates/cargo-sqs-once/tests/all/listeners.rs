//! Finds the listening sockets of `dev` and `invoke`, and attacks each of them.
//!
//! The operating system lists the sockets, so the test also finds a listener that nobody added here. One listener is a
//! deliberate exception: `sqs-once-local` opens a port for each connection to the embedded DynamoDB engine, connects to it and
//! closes it. That port is closed while the function waits.

use crate::project::{Project, Running, http};
use std::collections::HashSet;
use std::fs;
use std::net::{IpAddr, SocketAddr};

/// The state of a listening socket.
const LISTEN: &str = "0A";

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

#[test]
fn every_listener_of_dev_and_invoke_is_on_loopback_and_refuses_web_pages() {
    let project = Project::new();
    project.event(&[("m-1", "hang")]);
    for (command, arguments, expected) in [
        // The page, SQS, DynamoDB and the Runtime API of an environment.
        ("dev", &["--send", "event.json"][..], 4),
        // DynamoDB and the Runtime API.
        ("invoke", &["event.json"], 2),
    ] {
        let mut running = Running::of(project.command(command, arguments));
        // The function works on the event.
        running.stderr.until("namespace: ");
        let found = listeners(running.child.id());
        assert!(found.len() >= expected, "{command}: {found:?}");
        for listener in found {
            assert!(listener.ip().is_loopback(), "{command}: {listener}");
            let address = listener.to_string();
            let ask = |headers: &str| http(&address, &format!("GET / HTTP/1.1\r\n{headers}"), "");
            for headers in [
                "Host: evil.example\r\n".to_owned(),
                format!("Host: {listener}\r\nOrigin: https://evil.example\r\n"),
                format!("Host: {listener}\r\nSec-Fetch-Site: cross-site\r\n"),
            ] {
                let answer = ask(&headers);
                let is_refused = answer.starts_with("HTTP/1.1 403");
                assert!(is_refused, "{listener}: {answer:?} to {headers}");
            }
            let own = ask(&format!("Host: {listener}\r\n"));
            assert!(!own.starts_with("HTTP/1.1 403"), "{listener}: {own:?}");
        }
    }
}
