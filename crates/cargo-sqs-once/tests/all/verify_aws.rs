//! Tests what `cargo sqs-once verify-aws` refuses and prints before it creates anything. `.ci/verify_aws.py` runs it to its end.

use crate::project::{Run, command};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;

fn verify(arguments: &[&str]) -> Command {
    command(&[&["sqs-once", "verify-aws", "--yes"], arguments].concat())
}

/// An AWS that denies every request. Returns its address.
fn denying() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut reader = BufReader::new(stream.try_clone().unwrap());
            let head = reader.by_ref().lines().map_while(Result::ok);
            let head = head.take_while(|line| !line.is_empty());
            let length = head.filter_map(|line| {
                let line = line.to_ascii_lowercase();
                line.strip_prefix("content-length: ")?.parse().ok()
            });
            let length = length.last().unwrap_or(0);
            // A client that is still sending would not read the answer.
            reader.read_exact(&mut vec![0; length]).unwrap();
            let body = r#"{"__type":"AccessDeniedException","message":"User x may not"}"#;
            let length = body.len();
            let answer = format!(
                "HTTP/1.1 400 Bad Request\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
            );
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    address
}

#[test]
fn the_cost_is_named_first_and_a_missing_permission_by_its_action() {
    let mut command = verify(&["--messages", "20000"]);
    let run = Run::of(command.env("AWS_ENDPOINT_URL", denying()));
    run.assert_failed_with("AWS denies logs:DescribeLogGroups: allow this action");
    let cost = run.stderr.find("It costs at most about $0.").unwrap();
    assert!(cost < run.stderr.find("error:").unwrap(), "{}", run.stderr);
    assert!(
        run.stderr.contains("It sends 20000 messages: 15400 orders"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr
            .contains("because: AccessDeniedException: User x may not"),
        "{}",
        run.stderr
    );
}

#[test]
fn a_file_that_is_not_a_zip_is_refused_before_any_request() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let run = Run::of(verify(&["--zip", file.path().to_str().unwrap()]));
    run.assert_failed_with("is not a zip: expected one with the file `bootstrap`");
}

#[test]
fn a_region_whose_endpoints_are_not_known_is_refused() {
    let run = Run::of(verify(&["--region", "cn-north-1"]));
    run.assert_failed_with("cn-north-1 is not in the partition `aws`");
}

#[test]
fn too_few_messages_for_every_kind_are_refused() {
    Run::of(verify(&["--messages", "99"])).assert_refused_with("99 is not in 100..=1000000");
}
