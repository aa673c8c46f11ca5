//! What `key` and `dlq` say if they find no credentials.

use crate::project::{Run, command};
use std::io::{Read, Write};
use std::net::TcpListener;

/// A metadata service that forbids every request.
fn forbidding() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map(Result::unwrap) {
            let _ = stream.read(&mut [0; 4096]).unwrap();
            let answer =
                b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).unwrap();
        }
    });
    endpoint
}

#[test]
fn each_lack_of_credentials_has_its_own_sentence_and_the_chain_is_told_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    // The SDK accepts blanks and a comment.
    let text = "[ profile  prod ]\t# of the team\noutput = json\n";
    std::fs::write(&config, text).unwrap();
    let at = ("AWS_REGION", "eu-central-1");
    let off = ("AWS_EC2_METADATA_DISABLED", "true");
    let forbidden = "the metadata service of this machine gives no credentials";
    let profile = |name| ("AWS_PROFILE", name);
    let on = ("AWS_EC2_METADATA_SERVICE_ENDPOINT", &*forbidding());
    for (variables, sentence) in [
        (
            [at, profile("prdo")],
            "the AWS profile `prdo` does not exist",
        ),
        (
            [off, profile("prod")],
            "the AWS profile `prod` has no region",
        ),
        ([off, off], "no AWS region is known: set AWS_REGION"),
        ([at, off], "sign in, such as by `aws sso login`"),
        ([at, on], forbidden),
    ] {
        for arguments in [["key", "list", "--table=t"], ["dlq", "list", "--queue=q"]] {
            let mut command = command(&arguments);
            for name in ["AWS_ACCESS_KEY_ID", "AWS_REGION", off.0] {
                command.env_remove(name);
            }
            command.env("AWS_CONFIG_FILE", &config).envs(variables);
            let run = Run::of(&mut command);
            run.assert_failed_with(sentence);
            assert!(run.stderr.lines().count() <= 2, "{}", run.stderr);
            let chains = run.stderr.matches("Attempted").count();
            assert!(chains <= 1, "{}", run.stderr);
        }
    }
}

#[test]
fn a_broken_file_of_profiles_is_named_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let config = folder.path().join("config");
    std::fs::write(&config, "[profile prod\n").unwrap();
    let mut command = command(&["dlq", "list", "--queue=q"]);
    command.env_remove("AWS_ACCESS_KEY_ID");
    let command = command
        .env("AWS_CONFIG_FILE", &config)
        .env("AWS_PROFILE", "prod");
    let run = Run::of(command);
    run.assert_failed_with("the AWS profiles can't be read: correct the file");
    run.says(&format!("{} on line 1", config.display()));
}
