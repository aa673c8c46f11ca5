//! Runs `cargo sqs-once dev` as a user does, on a project that cargo really builds.

use crate::project::{Lines, Project, Run, Running};
use serde_json::{Value, json};
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Stdio;

const TEMPLATE: &str = "
Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 60
      RedrivePolicy: { deadLetterTargetArn: !GetAtt Dead.Arn, maxReceiveCount: 2 }
  Dead:
    Type: AWS::SQS::Queue
  Payments:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 50
      Environment:
        Variables:
          SQS_ONCE_NAMESPACE: from-the-template
          SQS_ONCE_DLQ_URL: !Ref Dead
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
";

impl Project {
    /// Handles the event's messages until the queue is empty.
    fn handle(&self, arguments: &[&str]) -> Run {
        let always = ["--send", "event.json", "--until-empty"];
        Run::of(
            self.command("dev", &[&always, arguments].concat())
                .output()
                .unwrap(),
        )
    }

    fn start(&self, arguments: &[&str]) -> Running {
        Running::of(self.command("dev", arguments))
    }
}

impl Run {
    /// Counts the record lines with this message and this outcome.
    fn count(&self, id: &str, outcome: &str) -> usize {
        let words = |line: &&str| {
            let words: Vec<_> = line.split_whitespace().collect();
            words.get(2..4) == Some(&[id, outcome])
        };
        self.stdout.lines().filter(words).count()
    }
}

/// Sends a message as an SDK does.
fn send((endpoint, url): &(String, String), body: &str) {
    let address = endpoint.strip_prefix("http://").unwrap();
    let mut stream = TcpStream::connect(address).unwrap();
    let body = json!({"QueueUrl": url, "MessageBody": body}).to_string();
    let request = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nContent-Length: {}\r\n\
         Content-Type: application/x-amz-json-1.0\r\nX-Amz-Target: AmazonSQS.SendMessage\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

/// Requests a path of the page.
fn get(address: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

#[test]
fn messages_are_handled_once_and_remembered() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "good"), ("m-2", "good")]);
    let run = project.handle(&[]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        (run.count("m-1", "processed"), run.count("m-2", "processed")),
        (1, 1)
    );
    let end = "2 records: 2 processed\nleft in Orders: 0, in Dead: 0\n";
    assert!(run.stderr.ends_with(end), "{}", run.stderr);
    assert!(
        run.stderr.contains("namespace: from-the-template"),
        "{}",
        run.stderr
    );
    assert!(!run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'));

    assert_eq!(project.handle(&[]).count("m-1", "duplicate"), 1);
    assert_eq!(project.handle(&["--reset"]).count("m-1", "processed"), 1);
    let left = project.folder.path().join("target/sqs-once/running");
    assert!(!left.exists(), "copies of the binary are left");
}

#[test]
fn what_fails_comes_back_and_ends_in_the_dead_letter_queue() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "good"), ("m-2", "poison")]);
    let run = project.handle(&["--visibility-timeout", "300ms"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert_eq!(
        (run.count("m-1", "processed"), run.count("m-2", "terminal")),
        (1, 2)
    );
    assert!(run.stdout.contains("not an order"), "{}", run.stdout);
    for line in [
        "m-2  dead letter: received too often, moved to Dead",
        "left in Orders: 0, in Dead: 1",
        "error: 1 message is in the dead-letter queue",
    ] {
        assert!(run.stderr.contains(line), "{line}: {}", run.stderr);
    }
}

#[test]
fn a_function_that_crashes_or_takes_too_long_returns_its_batch() {
    let project = Project::new(TEMPLATE);
    let arguments = ["--visibility-timeout", "1s", "--timeout", "400ms"];
    for (body, reason) in [("hang", "timed out"), ("crash", "exit status: 3")] {
        project.event(&[("m-1", body)]);
        let run = project.handle(&arguments);
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert_eq!(run.count("m-1", "failed"), 2, "{}", run.stdout);
        assert!(run.stderr.contains(reason), "{}", run.stderr);
    }
}

#[test]
fn an_answer_that_lambda_can_not_read_is_said() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "answer with text")]);
    let run = project.handle(&["--visibility-timeout", "300ms", "--max-receive-count", "1"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let said = "the whole batch comes back: the answer is not an object";
    assert!(run.stderr.contains(said), "{}", run.stderr);
}

#[test]
fn json_is_everything_that_happens_and_nothing_else() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "good")]);
    let run = project.handle(&["--json"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let lines = run
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    assert!(lines.iter().all(|line| line["at"].is_u64()));
    let about = |line: &&Value| line["happened"] != "logged" && line["environment"] != 2;
    let happened = lines
        .iter()
        .filter(about)
        .map(|line| line["happened"].as_str().unwrap());
    let expected = [
        "sent",
        "environment_started",
        "received",
        "invoked",
        "record",
        "answered",
        "deleted",
        "environment_ended",
    ];
    let mut happened: Vec<_> = happened.collect();
    // The environment starts while the message is sent, so the order varies.
    happened[..2].sort_by_key(|one| *one != "sent");
    assert_eq!(happened, expected);
}

#[test]
fn faults_are_done_on_request_and_drawn_again_from_their_seed() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "good")]);
    let run = project.handle(&["--duplicate", "100%", "--seed", "1"]);
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        (run.count("m-1", "processed"), run.count("m-1", "duplicate")),
        (1, 1)
    );
    assert!(
        run.stderr
            .contains("faults: duplicate 100%; --seed 1 draws them again"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("fault: delivered"), "{}", run.stderr);

    let run = project.handle(&["--kill", "20"]);
    assert_eq!(run.status, Some(2));
    assert!(run.stderr.contains("such as 20%"), "{}", run.stderr);
}

#[test]
fn a_message_can_be_sent_to_it_and_ctrl_c_ends_it() {
    let project = Project::new(TEMPLATE);
    let mut dev = project.start(&[]);
    let queue = dev.queue();
    assert!(queue.1.ends_with("/Orders"), "{queue:?}");
    dev.stderr.until("aws sqs send-message");
    send(&queue, "good");
    dev.stdout.until("processed");
    dev.interrupt();
    let (status, said) = dev.end();
    assert_eq!(status, Some(0), "{said:#?}");
    assert_eq!(said.last().unwrap(), "left in Orders: 0, in Dead: 0");
}

/// A terminal sends Ctrl-C to the whole process group, and so to the function as well.
#[cfg(unix)]
#[test]
fn ctrl_c_in_a_terminal_lets_the_invocation_under_way_finish() {
    use std::os::unix::process::CommandExt;

    let project = Project::new(TEMPLATE);
    let door = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = format!("wait for {}", door.local_addr().unwrap());
    project.event(&[("m-under-way", &wait), ("m-left", "good")]);
    let arguments = ["--send", "event.json", "--until-empty"];
    let one_at_a_time = ["--batch-size", "1", "--concurrency", "1"];
    let mut command = project.command("dev", &[arguments.as_slice(), &one_at_a_time].concat());
    command.process_group(0);
    let mut dev = Running::of(command);
    let (function, _) = door.accept().unwrap();
    dev.interrupt_group();
    dev.stderr
        .until("ending when the invocations under way have");
    drop(function);
    let line = dev.stdout.until("m-under-way");
    assert!(line.contains("processed"), "{line}");
    let (status, said) = dev.end();
    assert!(
        said.contains(&"left in Orders: 1, in Dead: 0".to_owned()),
        "{said:#?}"
    );
    assert_eq!(status, Some(1), "the queue was to be empty");
}

#[test]
fn it_is_built_anew_on_a_change_and_the_last_build_runs_on_while_that_fails() {
    let project = Project::new(TEMPLATE);
    let mut dev = project.start(&[]);
    let queue = dev.queue();
    dev.stderr.until("environment started");

    project.write("src/main.rs", "fn main() { nonsense }");
    dev.stderr.until("cannot find value `nonsense`");
    dev.stderr.until("the last build runs on");
    send(&queue, "good");
    dev.stdout.until("processed");

    let changed = include_str!("fixture/function.rs").replace("\"duplicate\"", "\"ignored\"");
    project.write(
        "src/main.rs",
        &changed.replace("\"processed\"", "\"ignored\""),
    );
    dev.stderr.until("built: new environments run it");
    dev.stderr
        .until("environment ended: the function was built anew");
    send(&queue, "good");
    dev.stdout.until("ignored");

    project.write("template.yaml", &TEMPLATE.replace("50", "49"));
    dev.stderr.until("the template has changed");
    dev.interrupt();
    assert_eq!(dev.end().0, Some(0));
}

#[test]
fn it_ends_when_nobody_reads_on() {
    let project = Project::new(TEMPLATE);
    let mut child = project
        .command("dev", &["--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut stderr = Lines::of(child.stderr.take().unwrap());
    stderr.until("SQS: ");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-1", "good")]);
    for arguments in [&["--json"][..], &[]] {
        let full = fs::OpenOptions::new()
            .write(true)
            .open("/dev/full")
            .unwrap();
        let always = ["--send", "event.json", "--until-empty"];
        let mut command = project.command("dev", &[&always, arguments].concat());
        let run = Run::of(command.stdout(full).output().unwrap());
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains("No space left"), "{}", run.stderr);
    }
}

#[test]
fn without_a_template_it_goes_by_its_arguments() {
    let project = Project::new(TEMPLATE);
    fs::remove_file(project.folder.path().join("template.yaml")).unwrap();
    project.event(&[("m-1", "good"), ("m-2", "good"), ("m-3", "good")]);
    let mut command = project.command(
        "dev",
        &[
            "--send",
            "event.json",
            "--until-empty",
            "--fifo",
            "--batch-size",
            "2",
            "--concurrency",
            "1",
        ],
    );
    let run = Run::of(command.env("SQS_ONCE_NAMESPACE", "shell").output().unwrap());
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    let said = "polling payments.fifo: batches of up to 2, window 0s, up to 1 environments";
    assert!(run.stderr.contains(said), "{}", run.stderr);
    assert!(
        run.stderr
            .ends_with("left in payments.fifo: 0, in payments-dlq.fifo: 0\n"),
        "{}",
        run.stderr
    );
}

#[test]
fn mistakes_are_found_before_anything_is_built() {
    let project = Project::new(TEMPLATE);
    project.write("bad.json", r#"{"Records": [{"messageId": "m-1"}]}"#);
    for (arguments, message) in [
        (
            &["--send", "nowhere.json"][..],
            "nowhere.json can't be read",
        ),
        (&["--send", "bad.json"], "each with a `body` that is a text"),
        (&["--queue", "Refunds"], "the template has no such queue"),
        (
            &["--report", "nowhere/run.html"],
            "the report can't be written to nowhere/run.html",
        ),
        (
            &["--template", "nowhere.yaml"],
            "nowhere.yaml can't be read",
        ),
    ] {
        let run = Run::of(project.command("dev", arguments).output().unwrap());
        assert_eq!(run.status, Some(1), "{}", run.stderr);
        assert!(run.stderr.contains(message), "{}", run.stderr);
    }
    assert!(!project.folder.path().join("target").exists());
}

#[test]
fn its_page_shows_what_happens() {
    let project = Project::new(TEMPLATE);
    let mut dev = project.start(&[]);
    let queue = dev.queue();
    let page = dev.stderr.until("page: ");
    let address = page.strip_prefix("page: http://").unwrap();
    let address = address.strip_suffix('/').unwrap();
    send(&queue, "good");
    let line = dev.stdout.until("processed");
    let id = line.split_whitespace().nth(2).unwrap();

    let html = get(address, "/");
    assert!(
        html.contains("<!DOCTYPE html>") || html.contains("<!doctype html>"),
        "{html}"
    );
    let story = get(address, "/story?since=0");
    assert!(story.contains(id) && story.contains("processed"), "{story}");
}

#[test]
fn the_report_is_the_run_in_one_file_whatever_it_came_to() {
    let project = Project::new(TEMPLATE);
    project.event(&[("m-good", "good"), ("m-poison", "poison")]);
    let run = project.handle(&["--visibility-timeout", "300ms", "--report", "run.html"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let html = fs::read_to_string(project.folder.path().join("run.html")).unwrap();
    for said in ["m-good", "m-poison", "processed", r"not an\norder"] {
        assert!(html.contains(said), "{said} is not in the report");
    }

    project.write("src/main.rs", "nonsense");
    let run = project.handle(&["--report", "run.html"]);
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    let kept = fs::read_to_string(project.folder.path().join("run.html")).unwrap();
    assert_eq!(kept, html, "there is no other run to tell of");
}

#[test]
fn a_port_that_is_taken_is_named() {
    let project = Project::new(TEMPLATE);
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let run = Run::of(project.command("dev", &["--port", &port]).output().unwrap());
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains(&format!("127.0.0.1:{port}")),
        "{}",
        run.stderr
    );
}

#[test]
fn help_ends_in_examples() {
    let project = Project::new(TEMPLATE);
    let run = Run::of(project.command("dev", &["--help"]).output().unwrap());
    let (_, examples) = run.stdout.split_once("Examples:\n").unwrap();
    assert!(examples.contains("cargo sqs-once dev --send events/orders.json --until-empty"));
}

/// `dev` treats this local queue like any other SQS endpoint.
#[cfg(feature = "aws")]
#[test]
fn messages_of_any_sqs_endpoint_are_handled_and_deleted() {
    use sqs_once_local::{LocalSqs, NewMessage, QueueSettings, Queues};
    use std::time::SystemTime;

    let project = Project::new(TEMPLATE);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut queues = Queues::default();
    queues
        .create("elsewhere", QueueSettings::default())
        .unwrap();
    for id in ["m-1", "m-2"] {
        let message = NewMessage::new(id, "good");
        queues
            .send("elsewhere", message, SystemTime::now())
            .unwrap();
    }
    let sqs = runtime.block_on(LocalSqs::start(queues)).unwrap();
    let url = sqs.url("elsewhere");
    let mut command = project.command("dev", &["--queue-url", &url, "--until-empty"]);
    let run = Run::of(
        command
            .env("AWS_EC2_METADATA_DISABLED", "true")
            .output()
            .unwrap(),
    );
    assert_eq!(run.status, Some(0), "{}", run.stderr);
    assert_eq!(
        (run.count("m-1", "processed"), run.count("m-2", "processed")),
        (1, 1)
    );
    assert!(
        run.stderr.contains("no other consumer gets it"),
        "{}",
        run.stderr
    );
    assert!(
        run.stderr.contains(r#"dead letters: Some("")"#),
        "a dead letter would be lost in a local queue: {}",
        run.stderr
    );
    assert_eq!(sqs.queues().len("elsewhere").unwrap(), 0);

    let gone = format!("{url}-gone");
    let run = Run::of(
        project
            .command("dev", &["--queue-url", &gone])
            .output()
            .unwrap(),
    );
    assert_eq!(run.status, Some(1), "{}", run.stderr);
    assert!(
        run.stderr.contains("SQS refused GetQueueAttributes"),
        "{}",
        run.stderr
    );
    let run = Run::of(
        project
            .command("dev", &["--queue-url", &url, "--send", "x"])
            .output()
            .unwrap(),
    );
    assert_eq!(run.status, Some(2));
}
