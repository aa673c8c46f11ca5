//! Finds the listening sockets of `dev` and `invoke`, and attacks each of them.
//!
//! The operating system lists the sockets, so the test also finds a listener that nobody added here. One listener is a
//! deliberate exception: `sqs-once-local` opens a port for each connection to the embedded DynamoDB engine, connects to it and
//! closes it. That port is closed while the function waits.

use crate::project::{Project, Running, http};
use std::collections::HashSet;
use std::fs;

/// The state of a listening socket.
const LISTEN: &str = "0A";

/// The addresses that a process listens on, such as `0100007F:1F90`: words in this machine's byte order, and a port.
fn listeners(process: u32) -> Vec<String> {
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
                found.push(columns[1].to_owned());
            }
        }
    }
    found
}

#[test]
fn every_listener_of_dev_and_invoke_is_on_loopback_and_refuses_web_pages() {
    let project = Project::new();
    project.event(&[("m-1", "hang")]);
    let loopback = format!("{:08X}", u32::from_ne_bytes([127, 0, 0, 1]));
    for (command, arguments, expected) in [
        // The page, SQS, DynamoDB, S3 and the Runtime API of an environment.
        ("dev", &["--send", "event.json"][..], 5),
        // DynamoDB, SQS, S3 and the Runtime API.
        ("invoke", &["event.json"], 4),
    ] {
        let mut running = Running::of(project.command(command, arguments));
        // The function works on the event.
        running.stderr.until("namespace: ");
        let found = listeners(running.child.id());
        assert!(found.len() >= expected, "{command}: {found:?}");
        for listener in found {
            let (ip, port) = listener.split_once(':').unwrap();
            assert_eq!(ip, loopback, "{command}: {listener}");
            let address = format!("127.0.0.1:{}", u16::from_str_radix(port, 16).unwrap());
            let ask = |headers: &str| http(&address, &format!("GET / HTTP/1.1\r\n{headers}"), "");
            for headers in [
                "Host: evil.example\r\n".to_owned(),
                format!("Host: {address}\r\nOrigin: https://evil.example\r\n"),
                format!("Host: {address}\r\nSec-Fetch-Site: cross-site\r\n"),
            ] {
                let answer = ask(&headers);
                let is_refused = answer.starts_with("HTTP/1.1 403");
                assert!(is_refused, "{address}: {answer:?} to {headers}");
            }
            let own = ask(&format!("Host: {address}\r\n"));
            assert!(!own.starts_with("HTTP/1.1 403"), "{address}: {own:?}");
        }
    }
}
