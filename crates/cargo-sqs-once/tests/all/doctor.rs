//! Runs `cargo sqs-once doctor` as a user does.

use crate::project::{Project, Run};
use serde_json::Value;
use std::fs;
use std::path::Path;

const TEMPLATE: &str = "\
Resources:
  Policy:
    Type: AWS::SQS::QueuePolicy
    Properties: { Queues: [!Ref Orders], PolicyDocument: { Statement: { Effect: Deny, Principal: '*', Action: 'sqs:*', Resource: '*', Condition: { Bool: { aws:SecureTransport: false } } } } }
  Dead: { Type: AWS::SQS::Queue, Properties: { MessageRetentionPeriod: 1209600 } }
  DeadPolicy: { Type: AWS::SQS::QueuePolicy, Properties: { Queues: [!Ref Dead], PolicyDocument: { Statement: { Effect: Deny, Principal: '*', Action: 'sqs:*', Resource: '*', Condition: { Bool: { aws:SecureTransport: false } } } } } }
  Alarm: { Type: AWS::CloudWatch::Alarm, Properties: { Dimensions: [{ Name: QueueName, Value: !GetAtt Dead.QueueName }],
    Namespace: AWS/SQS, MetricName: ApproximateNumberOfMessagesVisible, ComparisonOperator: GreaterThanThreshold, Threshold: 0 } }
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Runtime: provided.al2023
      Timeout: 30 # for a batch
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      RedrivePolicy:
        deadLetterTargetArn: !GetAtt Dead.Arn
        maxReceiveCount: 5
";

/// A folder with a template or another file, and a manifest that stops the search in parent folders.
fn with(file: &str, text: &str) -> Project {
    let project = Project::empty();
    project.write(file, text);
    project.write("Cargo.toml", "[workspace]\n");
    project
}

fn project(template: &str) -> Project {
    with("template.yaml", template)
}

fn doctor(project: &Project, arguments: &[&str]) -> Run {
    Run::of(project.command("doctor", arguments))
}

#[test]
fn a_finding_says_where_it_is_why_it_matters_and_what_to_write() {
    let run = doctor(&project(TEMPLATE), &[]);
    run.assert_failed_with("");
    let expected = "\
template.yaml:20:3: warning: The queue Orders's visibility timeout is 30 s (the default), the function Charge's timeout 30 s: it should be 180 s at least. [visibility-timeout-too-short]
  why: Lambda needs that time to retry a throttled batch. With less, messages return during the retries, and each receive counts towards the dead-letter queue.
  fix: --fix writes it
    Orders:
      Properties:
        VisibilityTimeout: 180
  see: file://GUIDE#visibility-timeout-too-short
  source: https://docs.aws.amazon.com/lambda/latest/dg/services-sqs-configure.html
1 finding: 0 errors, 1 warning, 0 notes
";
    // A released command links to docs.rs.
    let guide = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/doctor.md");
    let guide = dunce::canonicalize(guide).unwrap();
    let expected = expected.replace("GUIDE", guide.to_str().unwrap());
    assert_eq!(run.stdout, expected);
    assert_eq!(run.stderr, "");
}

#[test]
fn a_note_is_shown_and_fails_nothing() {
    let allows = TEMPLATE.replacen("Effect: Deny", "Effect: Allow", 1);
    let run = doctor(&project(&allows), &["--fix"]);
    run.assert_done();
    run.shows("template.yaml:20:3: note: The queue Orders accepts requests without TLS.");
    run.shows("1 fixed, 1 finding: 0 errors, 0 warnings, 1 note\n");
}

#[test]
fn a_fix_is_written_once_and_the_file_keeps_its_permissions() {
    let folder = project(TEMPLATE);
    let path = folder.path("template.yaml");
    #[cfg(unix)]
    let mode = {
        use std::os::unix::fs::PermissionsExt;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        |path: &Path| fs::metadata(path).unwrap().permissions().mode()
    };
    let run = doctor(&folder, &["--fix"]);
    run.assert_done();
    let start = run.stdout.starts_with("template.yaml:20:3: fixed: ");
    let end = run.stdout.ends_with("1 fixed, nothing found\n");
    assert!(start && end, "{}", run.stdout);
    let fixed = format!("{TEMPLATE}      VisibilityTimeout: 180\n");
    assert_eq!(folder.read("template.yaml"), fixed);
    #[cfg(unix)]
    assert_eq!(mode(&path) & 0o777, 0o640);
    let again = doctor(&folder, &["template.yaml", "--fix"]);
    assert_eq!((again.status, &*again.stdout), (Some(0), "nothing found\n"));
    assert_eq!(folder.read("template.yaml"), fixed);
    let names: Vec<_> = fs::read_dir(folder.path("")).unwrap().collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn the_manifests_are_those_of_the_code_and_of_the_workspace_above() {
    let with_code = "      CodeUri: ./code\n      Timeout: 30";
    let folder = project(&TEMPLATE.replace("      Timeout: 30", with_code));
    let abort = "[profile.release]\npanic = \"abort\"\n";
    folder.write("code/Cargo.toml", &format!("[workspace]\n{abort}"));
    let of_panics = |run: &Run| -> Vec<String> {
        let lines = run.stdout.lines();
        let of_panics = lines.filter(|line| line.ends_with("[panic-abort]"));
        let files = of_panics.map(|line| line.split(':').next().unwrap().to_owned());
        files.collect()
    };
    assert_eq!(of_panics(&doctor(&folder, &[])), ["code/Cargo.toml"]);

    // The template is in a workspace member, and so is the current folder.
    folder.write("member/Cargo.toml", "[package]\nname = \"member\"\n");
    folder.write("member/template.yaml", TEMPLATE);
    folder.write("Cargo.toml", &format!("[workspace]\n{abort}"));
    let above = folder.path("Cargo.toml").display().to_string();
    let mut command = folder.command("doctor", &[]);
    let run = Run::of(command.current_dir(folder.path("member")));
    assert_eq!(of_panics(&run), [above], "{}", run.stderr);

    // Panic settings do not matter for a function that cargo does not build.
    let other = TEMPLATE.replace("provided.al2023", "python3.13");
    folder.write("template.yaml", &other);
    assert_eq!(of_panics(&doctor(&folder, &[])), [""; 0]);
}

#[test]
fn a_part_that_was_not_examined_is_named_and_fails_only_a_strict_run() {
    let queues =
        "  Fn::ForEach::Queues: [Name, [A, B], { '${Name}': { Type: AWS::SQS::Queue } }]\n";
    let fixed = TEMPLATE.replace(
        "    Properties:\n      Redrive",
        "    Properties:\n      VisibilityTimeout: 180\n      Redrive",
    );
    let folder = project(&[&fixed, queues].concat());
    let run = doctor(&folder, &[]);
    run.assert_done();
    run.shows(
        "template.yaml:27:3: note: Fn::ForEach::Queues was not examined. [part-not-examined]",
    );
    run.shows("    cargo sqs-once doctor processed.json");
    assert_eq!(doctor(&folder, &["--strict"]).status, Some(2));
    let allowed = ["--strict", "--allow", "part-not-examined"];
    doctor(&folder, &allowed).assert_done();
}

/// CDK writes the template again, so its app needs the change.
#[test]
fn a_finding_in_the_output_of_cdk_names_the_construct_and_writes_no_fix() {
    let fixable = "{\n\"Resources\": {
        \"OrdersQueue1A2B\": {
            \"Type\": \"AWS::SQS::Queue\",
            \"Properties\": { \"RedrivePolicy\": { \"maxReceiveCount\": 5, \"deadLetterTargetArn\": { \"Fn::ImportValue\": \"Dead\" } } },
            \"Metadata\": { \"aws:cdk:path\": \"payments/Orders/Queue/Resource\" }
        },
        \"Charge\": { \"Type\": \"AWS::Lambda::Function\", \"Properties\": { \"Timeout\": 30 } },
        \"Mapping\": { \"Type\": \"AWS::Lambda::EventSourceMapping\", \"Properties\": {
            \"FunctionName\": { \"Ref\": \"Charge\" },
            \"EventSourceArn\": { \"Fn::GetAtt\": [\"OrdersQueue1A2B\", \"Arn\"] },
            \"FunctionResponseTypes\": [\"ReportBatchItemFailures\"]
        } }\n    }\n}\n";
    let output = "cdk/cdk.out/payments.template.json";
    let folder = with(output, fixable);
    // Without a name, it is the template to examine.
    let run = doctor(&folder, &["--fix"]);
    run.assert_failed_with("");
    run.shows("[visibility-timeout-too-short]");
    run.shows(
        "  fix: in the CDK app, so that the construct payments/Orders/Queue/Resource makes this\n",
    );
    assert!(!run.stdout.contains("--fix writes it"), "{}", run.stdout);
    assert_eq!(folder.read(output), fixable);

    let sarif = doctor(&folder, &["--format=sarif"]).stdout;
    let sarif: Value = serde_json::from_str(&sarif).unwrap();
    let results = sarif["runs"][0]["results"].as_array().unwrap();
    let is_of_construct = |result: &Value| {
        let names = &result["locations"][0]["logicalLocations"];
        names[0]["fullyQualifiedName"] == "payments/Orders/Queue/Resource"
    };
    assert!(results.iter().any(is_of_construct), "{results:?}");
}

#[test]
fn programs_get_json_and_code_scanning_gets_sarif() {
    let folder = project(TEMPLATE);
    let run = doctor(&folder, &["--format=json"]);
    run.assert_failed_with("");
    let json: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!(json["findings"][0]["rule"], "visibility-timeout-too-short");
    assert_eq!(json["findings"][0]["line"], 20);
    assert_eq!(json["fixed"], serde_json::json!([]));

    let run = doctor(&folder, &["--format=sarif"]);
    run.assert_failed_with("");
    let sarif: Value = serde_json::from_str(&run.stdout).unwrap();
    let result = &sarif["runs"][0]["results"][0];
    assert_eq!(result["ruleId"], "visibility-timeout-too-short");
    let location = &result["locations"][0]["physicalLocation"];
    assert_eq!(location["artifactLocation"]["uri"], "template.yaml");
}

#[test]
fn an_allowed_rule_finds_and_fixes_nothing() {
    let folder = project(TEMPLATE);
    let allow = ["--allow", "visibility-timeout-too-short"];
    let run = doctor(&folder, &[&["--fix"], &allow[..]].concat());
    assert_eq!((run.status, &*run.stdout), (Some(0), "nothing found\n"));
    assert_eq!(folder.read("template.yaml"), TEMPLATE);
    let unknown = doctor(&folder, &["--allow", "visibility"]);
    unknown.assert_refused_with("dead-letter-queue-missing");
}

#[test]
fn what_can_not_be_examined_says_what_to_do() {
    let empty = Project::empty();
    doctor(&empty, &[]).assert_failed_with("name the template, the plan or the folder");
    empty.write("cdk.json", "{}");
    doctor(&empty, &[]).assert_failed_with("npx cdk synth");

    let folder = project("Resources: [");
    let run = doctor(&folder, &[]);
    run.assert_failed_with("template.yaml was not examined");
    run.says("not valid YAML");
}

#[test]
fn a_terraform_configuration_is_examined_with_the_line_of_each_finding() {
    let main = r#"
resource "aws_sqs_queue" "orders" {
  visibility_timeout_seconds = 30
}

resource "aws_lambda_function" "ship" {
  runtime = "provided.al2023"
  timeout = 30
}

resource "aws_lambda_event_source_mapping" "orders" {
  event_source_arn        = aws_sqs_queue.orders.arn
  function_name           = aws_lambda_function.ship.arn
  function_response_types = ["ReportBatchItemFailures"]
}
"#;
    let folder = with("terraform/main.tf", main);
    let run = doctor(&folder, &[]);
    run.assert_failed_with("");
    run.shows(
        "terraform/main.tf:2:1: error: The queue aws_sqs_queue.orders has no dead-letter queue.",
    );
    run.shows("visibility_timeout_seconds = 180");

    // `--fix` leaves Terraform alone, but not the manifest.
    let abort = "[workspace]\n[profile.release]\npanic = \"abort\"\n";
    folder.write("Cargo.toml", abort);
    let fixed = doctor(&folder, &["--fix"]);
    fixed.assert_failed_with("");
    fixed.shows("1 fixed, ");
    assert_eq!(folder.read("Cargo.toml"), abort.replace("abort", "unwind"));
    assert_eq!(folder.read("terraform/main.tf"), main);
}

#[test]
fn nothing_from_a_template_writes_to_the_terminal_but_text() {
    let evil = TEMPLATE.replace("Orders", "\"Or\\e[31mders\"").replace(
        "!GetAtt \"Or\\e[31mders\".Arn",
        "{\"Fn::GetAtt\": [\"Or\\e[31mders\", Arn]}",
    );
    let run = doctor(&project(&evil), &[]);
    run.assert_failed_with("");
    run.shows("visibility-timeout-too-short");
    assert!(!run.stdout.contains('\x1b'), "{:?}", run.stdout);
}
