//! Arguments, events, projects and templates that are wrong: each run ends soon, and says what to do.

use crate::project::{LIMIT, Project, Run, TEMPLATE};
use std::fs;
use std::process::Stdio;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A run that builds nothing ends within this time. The others take as long as their build, which may wait for another one.
const WITHOUT_BUILD: Duration = Duration::from_secs(10);

const INVOKE: &str = "invoke event.json";
const DEV: &str = "dev --send event.json --until-empty";

/// Runs a command line, which fails with this text on standard error.
#[track_caller]
fn fails(project: &Project, line: &str, text: &str) {
    let arguments: Vec<&str> = line.split(' ').collect();
    let mut command = project.command(arguments[0], &arguments[1..]);
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped());
    let began = Instant::now();
    let child = command.stderr(Stdio::piped()).spawn().unwrap();
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || sender.send(child.wait_with_output()));
    let Ok(output) = receiver.recv_timeout(LIMIT) else {
        panic!("{line} has not ended");
    };
    let took = began.elapsed();
    let is_quick = took < WITHOUT_BUILD || project.is_built();
    assert!(is_quick, "{line} took {took:?}");
    let run = Run::ended(output.unwrap());
    assert_ne!(run.status, Some(0), "{line}: {}", run.stderr);
    run.says(text);
}

/// A project that works. It has an event.
fn working() -> Project {
    let project = Project::new();
    project.event(&[("m-1", "good")]);
    project
}

impl Project {
    /// Runs with one file changed, and changes it back.
    #[track_caller]
    fn fails_with(&self, path: &str, text: &str, line: &str, message: &str) {
        let file = self.folder.path().join(path);
        let before = fs::read_to_string(&file);
        self.write(path, text);
        fails(self, line, message);
        match before {
            Ok(text) => self.write(path, &text),
            Err(_) => fs::remove_file(file).unwrap(),
        }
    }

    fn is_built(&self) -> bool {
        self.folder.path().join("target/debug").exists()
    }
}

#[test]
fn wrong_arguments_are_said_before_anything_is_built() {
    let project = working();
    project.write("items.json", "[]");
    let no_event = "the event nowhere.json can't be read";
    let no_template = "nowhere can't be read";
    let no_items = "items in nowhere can't";
    let form_of_items = r#"{"TABLE": [{"id":"#;
    let no_folder = "can't be written to no/run.html";
    for (line, text) in [
        ("invok event.json", "'invoke'"),
        ("invoke", "<EVENT>"),
        ("invoke event.json --fuction x", "'--function'"),
        ("invoke event.json --timeout soon", "'--timeout <TIME>'"),
        ("invoke event.json --function refunds", "it has: payments"),
        ("invoke nowhere.json", no_event),
        ("invoke event.json --template nowhere", no_template),
        ("invoke event.json --template src", "name the template"),
        ("invoke event.json --items nowhere", no_items),
        ("invoke event.json --items items.json", form_of_items),
        ("dev --send nowhere.json", "nowhere.json can't be read"),
        ("dev --queue Refunds", "the function gets one of its own"),
        ("dev --queue https://queue.example/1/orders", "--region"),
        ("dev --report no/run.html", no_folder),
        ("dev --fault slowness=1%", "drop-response"),
        ("dev --fault kill=200%", "kill=200%"),
    ] {
        fails(&project, line, text);
    }
    assert!(!project.is_built());
}

#[test]
fn wrong_events_are_said_before_anything_is_built() {
    let project = working();
    let of_sns = r#"{"Records": [{"EventSource": "aws:sns", "Sns": {}}]}"#;
    let of_stream = r#"{"Records": [{"eventSource": "aws:kinesis"}]}"#;
    for (event, text) in [
        ("", "give an SQS event"),
        ("{\"Records\": [", "not valid JSON\n  because: EOF"),
        ("{}\n{", "line 2 is not valid JSON"),
        (of_sns, "that aws:sns puts into the queue"),
        (of_stream, "help: `invoke --raw` sends the event unchanged"),
    ] {
        project.fails_with("event.json", event, INVOKE, text);
    }
    let lacking = r#"{"Records": [{"messageId": "m-1"}]}"#;
    let sent = "each with a `messageId` and a `body`";
    project.fails_with("event.json", lacking, DEV, sent);
    assert!(!project.is_built());
}

#[test]
fn wrong_projects_and_templates_are_said_before_anything_is_built() {
    let project = working();
    let without = "[workspace]\n[package]\nname = \"payments\"\n";
    let no_function = "depends on sqs-once or lambda_runtime";
    let two_functions = "with --function (payments, refunds)";
    let [broken, empty] = [
        "template.yaml can't be used",
        "is it a SAM or CloudFormation template",
    ];
    for (path, text, message) in [
        ("Cargo.toml", "[workspace", "Cargo.toml:1"),
        ("Cargo.toml", without, no_function),
        ("src/bin/refunds.rs", "", two_functions),
        ("template.yaml", "Resources: [", broken),
        ("template.yaml", "", empty),
    ] {
        project.fails_with(path, text, INVOKE, message);
    }
    for (from, to, message) in [
        (
            "KeySchema: [{ AttributeName: id",
            "KeySchema: [{ AttributeName: pk",
            "add { AttributeName: pk, ",
        ),
        (
            "KeyType: HASH",
            "KeyType: RANGE",
            "KeySchema names no HASH key",
        ),
        (
            "  Dead:\n    Type: AWS::SQS::Queue",
            "  Dead: { Type: AWS::DynamoDB::Table, Properties: { } }",
            "Dead",
        ),
    ] {
        let template = TEMPLATE.replace(from, to);
        project.fails_with("template.yaml", &template, INVOKE, message);
    }
    fs::remove_file(project.folder.path().join("Cargo.toml")).unwrap();
    fails(&project, INVOKE, "go to the folder of your Cargo.toml");
    assert!(!project.is_built());
}

#[test]
fn a_function_without_its_variables_is_told_which_and_why() {
    let project = working();
    let namespace = "from-the-template";
    let properties = "    Properties:\n      Timeout";
    let named = format!("    Metadata: {{ BuildProperties: {{ Binary: refunds }} }}\n{properties}");
    for (from, to, message) in [
        (namespace, "!Ref Name", "because the template has no `Name`"),
        (namespace, "!ImportValue Name", "shell: SQS_ONCE_NAMESPACE="),
        (properties, &named, "correct BuildProperties.Binary"),
        (
            "AWS::Serverless::Function",
            "AWS::S3::Bucket",
            "no function",
        ),
    ] {
        let template = TEMPLATE.replace(from, to);
        project.fails_with("template.yaml", &template, INVOKE, message);
    }
    fs::remove_file(project.folder.path().join("template.yaml")).unwrap();
    fails(&project, INVOKE, "--template names one");
}

#[test]
fn a_function_that_fails_is_told_how() {
    let project = working();
    let ends = "fn main() { std::process::exit(9) }";
    let panics = "fn main() { panic!(\"no table\") }";
    let returned = "calls `sqs_once::run`, which does not return";
    let ended = "did not start\n  because: the function ended before it answered: exit status: 9";
    for (source, message) in [
        ("fn main() { nonsense }", "cannot find value `nonsense`"),
        ("fn main() {}", returned),
        (ends, ended),
        (panics, "no table"),
    ] {
        project.fails_with("src/main.rs", source, INVOKE, message);
    }
    let poison = r#"{"messageId": "poison", "body": ""}"#;
    let brief = "invoke event.json --timeout 200ms";
    let until_dead = "dev --send event.json --until-empty --visibility-timeout 9ms";
    for (event, line, message) in [
        ("crash", INVOKE, "--reset removes them at once"),
        ("error", INVOKE, "an error: NoTable: which table?"),
        ("hang", brief, "--timeout gives it"),
        ("answer with text", INVOKE, "Lambda would not accept"),
        (poison, until_dead, "Dead"),
    ] {
        project.fails_with("event.json", event, line, message);
    }
    project.write("items.json", r#"{"Stock": [{"id": {"S": "o-1"}}]}"#);
    fails(&project, "invoke event.json --items items.json", "`Stock`");
    let other = TEMPLATE.replace("AttributeType: S", "AttributeType: N");
    let reset = "--reset starts with an empty database";
    project.fails_with("template.yaml", &other, INVOKE, reset);
}
