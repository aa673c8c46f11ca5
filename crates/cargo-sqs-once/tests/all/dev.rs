//! Runs `cargo sqs-once dev` as a user does, on a project that cargo really builds.

#[cfg(feature = "aws")]
use crate::project::command;
use crate::project::{Lines, Project, Run, Running, TEMPLATE, http};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::{Command, Stdio};

impl Project {
    /// The command that handles the event's messages until the queue is empty.
    fn handling(&self, arguments: &[&str]) -> Command {
        let always = ["--send", "event.json", "--until-empty"];
        self.command("dev", &[&always, arguments].concat())
    }

    fn handle(&self, arguments: &[&str]) -> Run {
        Run::of(self.handling(arguments))
    }

    fn start(&self, arguments: &[&str]) -> Running {
        Running::of(self.command("dev", arguments))
    }
}

impl Run {
    /// Checks how many record lines have this message and this outcome.
    #[track_caller]
    fn assert_lines(&self, expected: &[(&str, &str, usize)]) {
        for (id, outcome, count) in expected {
            let is_this = |line: &&str| {
                let words: Vec<_> = line.split_whitespace().collect();
                words.get(2..4) == Some(&[*id, *outcome])
            };
            let lines = self.stdout.lines().filter(is_this);
            assert_eq!(lines.count(), *count, "{id} {outcome}: {}", self.stdout);
        }
    }
}

/// Sends a message as an SDK does.
fn send((endpoint, url): &(String, String), body: &str) {
    let address = endpoint.strip_prefix("http://").unwrap();
    let body = json!({"QueueUrl": url, "MessageBody": body}).to_string();
    let head = format!(
        "POST / HTTP/1.1\r\nHost: {address}\r\nContent-Type: application/x-amz-json-1.0\r\n\
         X-Amz-Target: AmazonSQS.SendMessage\r\n"
    );
    let answer = http(address, &head, &body);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
}

#[test]
fn messages_are_handled_once_and_remembered() {
    let project = Project::new();
    project.event(&[("m-1", "good"), ("m-2", "good")]);
    let run = project.handle(&[]);
    run.assert_done();
    run.assert_lines(&[("m-1", "processed", 1), ("m-2", "processed", 1)]);
    let end = "2 messages: 2 processed\nleft in Orders: 0, in Dead: 0\n";
    assert!(run.stderr.ends_with(end), "{}", run.stderr);
    run.says("namespace: from-the-template");
    assert!(!run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'));

    let again = project.handle(&[]);
    again.assert_lines(&[("m-1", "duplicate", 1)]);
    let reset = project.handle(&["--reset"]);
    reset.assert_lines(&[("m-1", "processed", 1)]);
    let left = project.path("target/sqs-once/running");
    assert!(!left.exists(), "copies of the binary are left");
}

#[test]
fn what_fails_comes_back_and_ends_in_the_dead_letter_queue_and_in_the_report() {
    let project = Project::new();
    project.event(&[("m-good", ""), ("m-poison", "")]);
    let run = project.handle(&["--visibility-timeout", "300ms", "--report", "run.html"]);
    run.assert_failed_with("error: 1 message is in the dead-letter queue");
    run.assert_lines(&[("m-good", "processed", 1), ("m-poison", "terminal", 2)]);
    run.shows("not an order");
    run.says("m-poison  dead letter: received too often, moved to Dead");
    run.says("left in Orders: 0, in Dead: 1\nreport: run.html\n");

    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let report = std::fs::metadata(project.path("run.html")).unwrap();
        let mode = report.permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "a report has bodies");
    }
    let html = project.read("run.html");
    for text in ["m-good", "m-poison", "processed", r"not an\norder"] {
        assert!(html.contains(text), "{text} is not in the report");
    }
    project.write("src/main.rs", "nonsense");
    let run = project.handle(&["--report", "run.html"]);
    run.assert_failed_with("");
    assert_eq!(project.read("run.html"), html, "a failed build leaves it");
}

#[test]
fn a_function_that_does_not_answer_properly_returns_its_batch() {
    let project = Project::new();
    let unreadable = "the whole batch returns to the queue: the answer is not an object";
    for (body, timeout, reason) in [
        ("hang", "400ms", "timed out"),
        ("crash", "50s", "exit status: 3"),
        ("answer with text", "50s", unreadable),
    ] {
        project.event(&[("m-1", body)]);
        let run = project.handle(&["--visibility-timeout", "1s", "--timeout", timeout]);
        run.assert_failed_with(reason);
        run.assert_lines(&[("m-1", "failed", 2)]);
    }
}

#[test]
fn json_is_everything_that_happens_and_nothing_else() {
    let project = Project::new();
    project.event(&[("m-1", "good")]);
    let run = project.handle(&["--format=json"]);
    run.assert_done();
    let lines = run.json();
    assert!(lines.iter().all(|line| line["at"].is_u64()));
    let about = |line: &&Value| line["happened"] != "logged" && line["environment"] != 2;
    let happened = lines.iter().filter(about);
    let happened = happened.map(|line| line["happened"].as_str().unwrap());
    let mut happened: Vec<_> = happened.collect();
    // The environment starts while the message is sent, so the order varies.
    happened[..2].sort_by_key(|one| *one != "sent");
    let expected =
        "sent environment_started received invoked record answered deleted environment_ended";
    assert_eq!(happened.join(" "), expected);
}

#[test]
fn faults_are_done_on_request_and_drawn_again_from_their_seed() {
    let project = Project::new();
    project.event(&[("m-1", "good")]);
    let run = project.handle(&["--fault=duplicate=100%", "--fault=outlive=100%", "--seed=1"]);
    run.assert_done();
    run.assert_lines(&[("m-1", "processed", 1), ("m-1", "duplicate", 1)]);
    run.says("faults: duplicate=100%, outlive=100%; --seed 1 repeats them");
    run.says("fault: delivered");
    for (wrong, example) in [
        ("kill=20", "20%"),
        ("cut=20%", "kill=5%"),
        ("kill", "kill=5%"),
    ] {
        let run = project.handle(&["--fault", wrong]);
        run.assert_refused_with(&format!("such as {example}"));
    }
}

#[cfg(feature = "aws")]
#[test]
fn an_outage_is_an_open_breaker_from_the_start_to_the_end_of_the_run() {
    let project = Project::new();
    for wrong in [
        "payments",
        ":2m",
        "payments:2",
        "a b:2m",
        "kill=payments:2m",
    ] {
        let refused = project.handle(&["--fault", &format!("unavailable={wrong}")]);
        let expected = "` is not a dependency and a time, such as unavailable=payments:2m";
        refused.assert_refused_with(&format!("`{wrong}{expected}"));
    }
    project.event(&[("m-1", "good")]);
    let run = |faults: &[&str], state: &str| {
        let mut dev = project.start(&[&["--send", "event.json"], faults].concat());
        let endpoint = dev.stderr.until("dynamodb: http");
        let (_, endpoint) = endpoint.split_once("dynamodb: ").unwrap();
        let mut show = command(&["sqs-once", "breaker", "show", "payments"]);
        let show = show.args(["--table", "Idempotency"]);
        let shown = Run::of(show.env("AWS_ENDPOINT_URL_DYNAMODB", endpoint));
        shown.assert_done();
        shown.shows(state);
        dev.interrupt();
        let (status, lines) = dev.end();
        assert_eq!(status, Some(0), "{lines:#?}");
        lines
    };
    let lines = run(&["--fault", "unavailable=payments:1h"], "open: ");
    let note = "fault: payments is unavailable for 1h".to_owned();
    assert!(lines.contains(&note), "{lines:#?}");
    run(&[], "closed: ");
}

#[test]
fn a_message_can_be_sent_to_it_its_page_shows_it_and_ctrl_c_ends_it() {
    let project = Project::new();
    project.write("events/sample.txt", "it's a sample");
    let mut dev = project.start(&[]);
    let queue = dev.queue();
    assert!(queue.1.ends_with("/Orders"), "{queue:?}");
    let example = dev.stderr.until("aws sqs send-message");
    let body = r"--message-body 'it'\''s a sample'";
    assert!(example.ends_with(body), "{example}");
    let page = dev.stderr.until("page: ");
    let page = page.strip_prefix("page: http://").unwrap();
    let page = page.trim_end_matches('/');
    send(&queue, "good");
    let line = dev.stdout.until("processed");
    let id = line.split_whitespace().nth(2).unwrap();

    let get = |path: &str| {
        let head = format!("GET {path} HTTP/1.1\r\nHost: {page}\r\n");
        let answer = http(page, &head, "");
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        answer
    };
    assert!(get("/").to_lowercase().contains("<!doctype html>"));
    let story = get("/story?since=0");
    assert!(story.contains(id) && story.contains("processed"), "{story}");

    dev.interrupt();
    let (status, lines) = dev.end();
    assert_eq!(status, Some(0), "{lines:#?}");
    assert_eq!(lines.last().unwrap(), "left in Orders: 0, in Dead: 0");
}

/// A terminal sends Ctrl-C to the whole process group, and so to the function as well.
#[cfg(unix)]
#[test]
fn ctrl_c_in_a_terminal_lets_the_invocation_in_flight_finish() {
    use std::os::unix::process::CommandExt;

    let project = Project::new();
    let door = TcpListener::bind("127.0.0.1:0").unwrap();
    let wait = format!("wait for {}", door.local_addr().unwrap());
    project.event(&[("m-in-flight", &wait), ("m-left", "good")]);
    let queue = "            Queue:";
    let single = TEMPLATE.replace(queue, &format!("            BatchSize: 1\n{queue}"));
    project.write("template.yaml", &single);
    let mut command = project.handling(&["--environments", "1"]);
    command.process_group(0);
    let mut dev = Running::of(command);
    let (function, _) = door.accept().unwrap();
    dev.interrupt_group();
    dev.stderr.until("ending after the invocations in flight");
    drop(function);
    // On a loaded machine the answer can arrive before the record's line.
    let line = dev.stdout.until("processed");
    assert!(line.contains("m-in-flight"), "{line}");
    let (status, lines) = dev.end();
    let left = "left in Orders: 1, in Dead: 0".to_owned();
    assert!(lines.contains(&left), "{lines:#?}");
    assert_eq!(status, Some(1), "the queue was to be empty");
}

#[test]
fn it_is_rebuilt_on_a_change_and_the_last_build_keeps_running_while_that_fails() {
    let project = Project::new();
    let mut dev = project.start(&[]);
    let queue = dev.queue();
    dev.stderr.until("environment started");

    project.write("src/main.rs", "fn main() { nonsense }");
    dev.stderr.until("cannot find value `nonsense`");
    dev.stderr.until("the last build keeps running");
    send(&queue, "good");
    dev.stdout.until("processed");

    let function = include_str!("fixture/function.rs").replace("\"duplicate\"", "\"ignored\"");
    let function = function.replace("\"processed\"", "\"ignored\"");
    project.write("src/main.rs", &function);
    dev.stderr.until("built: new environments run it");
    dev.stderr
        .until("environment ended: the function was rebuilt");
    send(&queue, "good");
    dev.stdout.until("ignored");

    project.write("template.yaml", &TEMPLATE.replace("50", "49"));
    dev.stderr.until("the template has changed");
    dev.interrupt();
    assert_eq!(dev.end().0, Some(0));
}

#[test]
fn it_ends_when_nobody_reads_on() {
    let project = Project::new();
    let mut command = project.command("dev", &["--format=json"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    Lines::of(child.stderr.take().unwrap()).until("SQS: ");
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_an_error() {
    let project = Project::new();
    project.event(&[("m-1", "good")]);
    for arguments in [&["--format=json"][..], &[]] {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let mut command = project.handling(arguments);
        Run::of(command.stdout(full.unwrap())).assert_failed_with("No space left");
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let project = Project::new();
    // Below the ports that the system gives to connections, which would take the ports before this one at any time.
    let listen = |port: u16| TcpListener::bind(("127.0.0.1", port)).ok();
    let is_after_free_ones = |port: &u16| (port - 3..*port).all(|before| listen(before).is_some());
    let mut ports = (20_003..32_000).step_by(4).filter(is_after_free_ones);
    let taken = ports.find_map(listen).unwrap();
    let port = taken.local_addr().unwrap().port();
    // The queues get the port, and then the page, DynamoDB and S3.
    for before in 0..4 {
        let given = (port - before).to_string();
        let run = Run::of(project.command("dev", &["--port", &given]));
        run.assert_failed_with(&port.to_string());
        run.says("127.0.0.1");
    }
}

/// `dev` treats this local queue like any other SQS endpoint.
#[cfg(feature = "aws")]
#[test]
fn messages_of_any_sqs_endpoint_are_handled_and_deleted() {
    use sqs_once_local::{LocalSqs, NewMessage, QueueSettings, Queues};
    use std::time::SystemTime;

    let project = Project::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut queues = Queues::default();
    let name = "elsewhere";
    queues.create(name, QueueSettings::default()).unwrap();
    for id in ["m-1", "m-2"] {
        let message = NewMessage::new(id, "good");
        queues.send(name, message, SystemTime::now()).unwrap();
    }
    let sqs = runtime.block_on(LocalSqs::start(queues)).unwrap();
    let url = sqs.url(name);
    let run = Run::of(project.command("dev", &["--queue", &url, "--until-empty"]));
    run.assert_done();
    run.assert_lines(&[("m-1", "processed", 1), ("m-2", "processed", 1)]);
    run.says("no other consumer gets them");
    // A dead letter would be lost in a local queue.
    run.says(r#"dead letters: Some("")"#);
    assert_eq!(sqs.queues().len(name).unwrap(), 0);

    let run = Run::of(project.command("dev", &["--queue", &format!("{url}-gone")]));
    run.assert_failed_with("SQS did not carry out sqs:GetQueueAttributes");
    let run = Run::of(project.command("dev", &["--queue", &url, "--send", "x"]));
    run.assert_failed_with("--send, --fifo and --visibility-timeout are for a local queue");
}

#[cfg(feature = "aws")]
#[test]
fn other_programs_find_its_tables_queues_and_objects() {
    let project = Project::new();
    let item = |id| json!({"id": {"S": id}, "status": {"S": "COMPLETED"}});
    let items = json!({"Idempotency": [item("payments#s:o-1"), item("payments#s:o-2")]});
    project.write("items.json", &items.to_string());
    project.event(&[("m-poison", "")]);
    let arguments = ["--items", "items.json", "--send", "event.json"];
    let mut dev = project.start(&[&arguments[..], &["--visibility-timeout", "300ms"]].concat());
    dev.stderr.until("DynamoDB: http://127.0.0.1:");
    let environment = dev.stderr.until("  export ");
    let environment = environment.split(' ').filter_map(|it| it.split_once('='));
    let run = |arguments: &[&str]| {
        let mut other = command(&[&["sqs-once"], arguments].concat());
        other.env_remove("AWS_REGION");
        let run = Run::of(other.envs(environment.clone()));
        run.assert_done();
        run.stdout
    };
    let listed = run(&["key", "list"]);
    for id in ["payments#s:o-1", "payments#s:o-2"] {
        assert!(listed.contains(id), "{listed}");
    }
    dev.stderr.until("moved to Dead");
    let letters = run(&["dlq", "list", "--queue", "Dead", "--all"]);
    dev.interrupt();
    assert_eq!(dev.end().0, Some(0));
    assert!(letters.contains("m-poison"), "{letters}");
}
