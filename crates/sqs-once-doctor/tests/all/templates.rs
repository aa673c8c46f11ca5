//! Reading and editing templates, in addition to the rules' own templates.

use sqs_once_doctor::{ReadError, Source};
use std::path::Path;

const BELOW: &str = "visibility-timeout-below-function-timeout";

fn source(text: &str) -> Source {
    // A folder without a manifest.
    Source::new(Path::new("/nowhere/template.yaml"), text)
}

fn rules(text: &str) -> Vec<&'static str> {
    let findings = source(text).examine().unwrap();
    findings.iter().map(|finding| finding.rule.id).collect()
}

/// The text after all fixes.
fn fixed(text: &str) -> String {
    let fixes = source(text).fix().unwrap();
    let fixed = fixes.files.into_iter().next();
    fixed.map_or(text.to_owned(), |(_, text)| text)
}

#[track_caller]
fn assert_finds_but_does_not_fix(text: &str, rule: &str) {
    assert_eq!(rules(text), [rule]);
    assert_eq!(fixed(text), text);
}

/// A consumer whose queue has these properties and causes no other findings.
fn consumer(queue: &str) -> String {
    format!(
        "Parameters:
  Seconds: {{ Type: Number, Default: 1 }}
Conditions:
  Fast: !Equals [!Ref Seconds, 1]
Resources:
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Timeout: 30
      Events:
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            FunctionResponseTypes: [ReportBatchItemFailures]
  OnlyOverTls:
    Type: AWS::SQS::QueuePolicy
    Properties:
      Queues: [!Ref Orders, !Ref Dead]
      PolicyDocument:
        Statement:
          - Effect: Deny
            Principal: '*'
            Action: sqs:*
            Resource: '*'
            Condition: {{ Bool: {{ aws:SecureTransport: false }} }}
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      RedrivePolicy: {{ deadLetterTargetArn: !ImportValue Dead, maxReceiveCount: 5 }}
{queue}"
    )
}

#[test]
fn only_what_is_known_before_the_deployment_is_a_finding() {
    for unknown in [
        "!Ref Seconds",
        "!FindInMap [Timeouts, !Ref AWS::Region, Orders]",
        "!If [Fast, 200, !Ref AWS::NoValue]",
        "!If [Fast, !Ref Seconds, 200]",
        "'{{resolve:ssm:/orders/seconds}}'",
        "!Sub '${Seconds}'",
        "!Select [0, [10]]",
        "{ Ref: Seconds }",
        "{ 'Fn::ImportValue': Seconds }",
    ] {
        let text = consumer(&format!("      VisibilityTimeout: {unknown}\n"));
        assert_eq!(rules(&text), [""; 0], "{unknown}");
    }
    let ten = [
        "10",
        "'10'",
        "\"10\"",
        "!If [Fast, 10, 10]",
        "!Sub '10'",
        "!Join ['', [1, 0]]",
    ];
    for known in ten {
        let text = consumer(&format!("      VisibilityTimeout: {known}\n"));
        assert_eq!(rules(&text), [BELOW], "{known}");
    }
    let removed = consumer("      VisibilityTimeout: !Ref AWS::NoValue\n");
    assert_eq!(rules(&removed), ["visibility-timeout-too-short"]);
}

#[test]
fn an_outage_is_calculated_with_and_without_a_breaker_for_a_consumer_of_this_library() {
    let outages = |text: &str| {
        let findings = source(text).examine().unwrap();
        let outages = findings
            .into_iter()
            .filter(|it| it.rule.id == "outage-buries-messages");
        outages.map(|it| it.message).collect::<Vec<_>>()
    };
    let variables =
        "      Timeout: 30\n      Environment: { Variables: { SQS_ONCE_SERVICE: orders } }";
    let own = |text: &str| text.replace("      Timeout: 30", variables);
    let three = consumer("      VisibilityTimeout: 180\n")
        .replace("maxReceiveCount: 5", "maxReceiveCount: 3");
    let found = "The queue Orders survives an outage of 6 min without a breaker, and of 23 h 28 min with one, because \
                 maxReceiveCount is 3.";
    assert_eq!(outages(&own(&three)), [found]);
    assert_eq!(outages(&three), [""; 0]);
    let hour = consumer("      VisibilityTimeout: 1200\n      MessageRetentionPeriod: 3600\n");
    let found = "The queue Orders survives an outage of 1 h without a breaker, and of 1 h with one, because its messages \
                 expire after 1 h.";
    assert_eq!(outages(&own(&hour)), [found]);
    let unknown = three.replace("maxReceiveCount: 3", "maxReceiveCount: !Ref Seconds");
    assert_eq!(outages(&own(&unknown)), [""; 0]);
}

#[test]
fn a_switched_off_mapping_consumes_nothing() {
    let off = "            Enabled: false\n            Queue:";
    let text = consumer("").replace("            Queue:", off);
    assert_eq!(rules(&text), [""; 0]);
}

#[test]
fn a_queue_is_recognised_however_it_is_named() {
    let text = consumer("      QueueName: !Sub ${AWS::StackName}-orders\n");
    for arn in [
        "{ 'Fn::GetAtt': [Orders, Arn] }",
        "!Sub ${Orders.Arn}",
        "!Sub 'arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:${Orders.QueueName}'",
        "!Sub 'arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:${AWS::StackName}-orders'",
        "!Join [':', [arn, aws, sqs, !Ref AWS::Region, !Ref AWS::AccountId, !GetAtt Orders.QueueName]]",
        "!Sub ['arn:aws:sqs:eu-central-1:1:${Name}', { Name: !GetAtt Orders.QueueName }]",
    ] {
        let text = text.replace("!GetAtt Orders.Arn", arn);
        assert_eq!(rules(&text), ["visibility-timeout-too-short"], "{arn}");
    }
}

const JSON: &str = r#"{
    "Resources": {
        "Charge": {
            "Type": "AWS::Lambda::Function",
            "Properties": { "Timeout": 10 }
        },
        "Mapping": {
            "Type": "AWS::Lambda::EventSourceMapping",
            "Properties": {
                "FunctionName": { "Ref": "Charge" },
                "EventSourceArn": { "Fn::GetAtt": ["Orders", "Arn"] },
                "FunctionResponseTypes": ["ReportBatchItemFailures"]
            }
        },
        "OnlyOverTls": {
            "Type": "AWS::SQS::QueuePolicy",
            "Properties": {
                "Queues": ["https://sqs.eu-central-1.amazonaws.com/123456789012/orders"],
                "PolicyDocument": {
                    "Statement": {
                        "Effect": "Deny",
                        "Principal": "*",
                        "Action": "sqs:*",
                        "Resource": "arn:aws:sqs:eu-central-1:123456789012:orders",
                        "Condition": { "Bool": { "aws:SecureTransport": "false" } }
                    }
                }
            }
        },
        "Orders": {
            "Type": "AWS::SQS::Queue",
            "Properties": {
                "QueueName": "orders",
                "VisibilityTimeout": 10
            }
        }
    }
}
"#;

#[test]
fn json_stays_json_as_people_write_it() {
    let found = ["dead-letter-queue-missing", "visibility-timeout-too-short"];
    assert_eq!(rules(JSON), found);
    let fixed = fixed(JSON);
    serde_json::from_str::<serde_json::Value>(&fixed).unwrap();
    assert!(fixed.contains("\"VisibilityTimeout\": 60\n"), "{fixed}");
    let added = "            \"Properties\": {
                \"RedrivePolicy\": {
                  \"maxReceiveCount\": 5,
                  \"deadLetterTargetArn\": {";
    assert!(fixed.contains(added), "{fixed}");
    assert_eq!(rules(&fixed), [""; 0]);
}

#[test]
fn a_fix_keeps_comments_order_and_line_ends() {
    let before = consumer(
        "      # As long as six charges take. # Really.
      VisibilityTimeout: 20   # was 10
      # The end.
Outputs: {} # nothing
",
    );
    let after = before.replace("VisibilityTimeout: 20 ", "VisibilityTimeout: 180 ");
    let name = consumer("      # First.\n      QueueName: orders # its name\n\nOutputs: {}\n");
    let named = name.replace("its name\n", "its name\n      VisibilityTimeout: 180\n");
    for (before, after) in [(before, after), (name, named)] {
        assert_eq!(fixed(&before), after);
        let crlf = |text: &str| text.replace('\n', "\r\n");
        assert_eq!(fixed(&crlf(&before)), crlf(&after));
    }
}

#[test]
fn a_fix_that_would_change_anything_else_is_not_made() {
    let condition = consumer("      VisibilityTimeout: !If [Fast, 10, 10]\n");
    assert_finds_but_does_not_fix(&condition, BELOW);
    let aliased = consumer("      VisibilityTimeout: *seconds\n");
    let aliased = aliased.replace("Default: 1", "Default: &seconds 10");
    assert_finds_but_does_not_fix(&aliased, BELOW);
    let shared = consumer("      VisibilityTimeout: 10\n").replace(
        "Queue\n    Properties:\n",
        "Queue\n    Properties: &properties\n",
    ) + "  Others:\n    Type: AWS::SQS::Queue\n    Properties: *properties\n";
    assert_finds_but_does_not_fix(&shared, BELOW);
}

#[test]
fn no_fix_writes_a_longer_visibility_timeout_than_sqs_allows() {
    let text = consumer("      VisibilityTimeout: 8000\n").replace("Timeout: 30", "Timeout: 8000");
    let fixed = fixed(&text);
    assert!(fixed.contains("VisibilityTimeout: 43200\n"), "{fixed}");
    assert_eq!(rules(&fixed), ["function-timeout-too-long"]);
}

#[test]
fn functions_that_may_answer_anything_are_not_told_to_report_failures_by_a_fix() {
    let reports = "            FunctionResponseTypes: [ReportBatchItemFailures]\n";
    let python = consumer("      VisibilityTimeout: 180\n")
        .replace(reports, "")
        .replace("      Timeout", "      Runtime: python3.13\n      Timeout");
    assert_finds_but_does_not_fix(&python, "partial-batch-response-missing");
}

#[test]
fn the_old_dead_letter_queue_of_a_fifo_queue_stays() {
    const DEAD: &str =
        "  Dead:\n    Type: AWS::SQS::Queue\n    Properties: { MessageRetentionPeriod: 1209600 }\n";
    let text = consumer("      VisibilityTimeout: 180\n      FifoQueue: true\n")
        .replace("!ImportValue Dead", "!GetAtt Dead.Arn")
        + DEAD;
    let fixed = fixed(&text);
    for part in [
        DEAD,
        "deadLetterTargetArn: !GetAtt OrdersFifoDeadLetterQueue.Arn",
        "      FifoQueue: true\n      MessageRetentionPeriod: 1209600\n",
    ] {
        assert!(fixed.contains(part), "{fixed}");
    }
    assert_eq!(rules(&fixed), [""; 0]);
}

#[test]
fn a_text_that_is_not_a_deployment_is_an_error() {
    for text in ["", "a: 1"] {
        let refused = source(text).examine();
        assert!(matches!(refused, Err(ReadError::NoResources)), "{text}");
    }
    assert!(matches!(source("a: [").examine(), Err(ReadError::Yaml(_))));
    let deep = format!("Resources: {}{}", "[".repeat(5000), "]".repeat(5000));
    assert!(source(&deep).examine().is_err());
    let mut bomb = "a0: &a0 [x, x]\n".to_owned();
    for level in 1..40 {
        bomb += &format!("a{level}: &a{level} [*a{0}, *a{0}]\n", level - 1);
    }
    assert!(matches!(source(&bomb).examine(), Err(ReadError::TooLarge)));
}

#[test]
fn a_key_that_is_twice_in_a_mapping_is_an_error_with_both_lines() {
    let text = "Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: 30
      DelaySeconds: 0
      VisibilityTimeout: 180
";
    let refused = source(text).examine().unwrap_err().to_string();
    assert_eq!(
        refused,
        "`VisibilityTimeout` is on line 5 and again on line 7: remove one of the two"
    );
    let json = "{\"Resources\": {\"A\": {},\n \"A\": {}}}";
    let refused = source(json).examine();
    assert!(matches!(
        refused,
        Err(ReadError::DuplicateKey {
            first: 1,
            second: 2,
            ..
        })
    ));
}

#[test]
fn a_serverless_configuration_names_the_template_to_examine_instead() {
    let text = "service: orders
provider: { name: aws, runtime: provided.al2023 }
functions:
  charge: { handler: charge, events: [{ sqs: arn:aws:sqs:eu-central-1:123456789012:orders }] }
resources:
  Resources:
    Orders: { Type: AWS::SQS::Queue }
";
    let refused = source(text).examine().unwrap_err().to_string();
    let template = "cargo sqs-once doctor .serverless/cloudformation-template-update-stack.json";
    assert!(refused.contains(template), "{refused}");
}

#[test]
fn a_dead_letter_queues_url_is_recognised_in_every_form() {
    let text = consumer("      VisibilityTimeout: 180").replace(
        "      Timeout: 30",
        "      Timeout: 30
      Role: !ImportValue Role
      Environment: { Variables: { SQS_ONCE_DLQ_URL: URL } }",
    ) + "
  Dead:
    Type: AWS::SQS::Queue
    Properties: { QueueName: orders-dead, MessageRetentionPeriod: 1209600 }
";
    for right in [
        "!Ref Dead",
        "!GetAtt Dead.QueueUrl",
        "{ 'Fn::GetAtt': [Dead, QueueUrl] }",
        "{ 'Fn::GetAtt': Dead.QueueUrl }",
        "!Sub 'https://sqs.${AWS::Region}.amazonaws.com/${AWS::AccountId}/orders-dead'",
        "!Ref Seconds",
    ] {
        assert_eq!(
            rules(&text.replace("URL }", &format!("{right} }}"))),
            [""; 0],
            "{right}"
        );
    }
    for wrong in [
        "!GetAtt Dead.Arn",
        "{ 'Fn::GetAtt': [Dead, Arn] }",
        "{ 'Fn::GetAtt': Dead.Arn }",
        "!GetAtt Dead.QueueName",
        "{ 'Fn::GetAtt': [Dead, QueueName] }",
        "orders-dead",
        "!GetAtt [Orders, QueueUrl]",
        "{ 'Fn::GetAtt': Orders.QueueUrl }",
    ] {
        let text = text.replace("URL }", &format!("{wrong} }}"));
        assert_eq!(rules(&text), ["dead-letter-url-wrong"], "{wrong}");
    }
}

#[test]
fn a_value_of_a_condition_is_judged_in_each_of_its_two_cases() {
    for (value, found) in [
        ("!If [Fast, 10, 20]", vec![BELOW, BELOW]),
        ("!If [Fast, 10, !Ref AWS::NoValue]", vec![BELOW]),
        ("!If [Fast, 180, 10]", vec![BELOW]),
        ("!If [Fast, !If [Other, 180, 10], 200]", vec![]),
        ("{ 'Fn::If': [Fast, 200, 180] }", vec![]),
    ] {
        let text = consumer(&format!("      VisibilityTimeout: {value}\n"));
        assert_eq!(rules(&text), found, "{value}");
        assert_eq!(fixed(&text), text, "{value}");
    }
    // The queue's value and the function's belong to the same case.
    let both = consumer("      VisibilityTimeout: !If [Fast, 180, 60]\n")
        .replace("Timeout: 30", "Timeout: !If [Fast, 30, 10]");
    assert_eq!(rules(&both), [""; 0]);
    // The queue exists only if the condition holds.
    let conditional = consumer("      VisibilityTimeout: !If [Fast, 180, 10]\n").replace(
        "  Orders:\n    Type",
        "  Orders:\n    Condition: Fast\n    Type",
    );
    assert_eq!(rules(&conditional), [""; 0]);
}

#[test]
fn a_function_inherits_what_sams_globals_set() {
    let globals = "Globals:
  Function:
    Timeout: 60
    ReservedConcurrentExecutions: 5
    CapacityProviderConfig: { Arn: !ImportValue CapacityProvider }
    Environment: { Variables: { SQS_ONCE_DISABLED: 'true', SQS_ONCE_TABLE: keys } }
    VpcConfig: { SubnetIds: !Ref Seconds }
";
    let text = consumer("      VisibilityTimeout: 180\n").replace("      Timeout: 30\n", "");
    let inherited = [
        "deduplication-disabled",
        "permission-missing",
        "reserved-concurrency-without-maximum",
        "visibility-timeout-too-short",
    ];
    let mut found = rules(&(globals.to_owned() + &text));
    found.sort_unstable();
    assert_eq!(found, inherited);
    // A longer timeout is refused, if no capacity provider is inherited.
    let slow = globals.replace("Timeout: 60", "Timeout: 901") + &text.replace("180", "5406");
    assert!(!rules(&slow).contains(&"function-timeout-too-long"));
    let own = slow.replace("    CapacityProviderConfig", "    # ");
    assert!(rules(&own).contains(&"function-timeout-too-long"));
    // The function's own values come first.
    let own = "    Properties:
      Timeout: 30
      ReservedConcurrentExecutions: !Ref Seconds
      Environment: { Variables: { SQS_ONCE_DISABLED: 'false' } }
      Role: !ImportValue Role
      Events:";
    let own = text.replacen("    Properties:\n      Events:", own, 1);
    assert_eq!(rules(&(globals.to_owned() + &own)), [""; 0]);
}

#[test]
fn what_language_extensions_compute_is_unknown() {
    let queue = "      VisibilityTimeout: { 'Fn::Length': !Ref Names }
      DelaySeconds: !FindInMap [Delays, !Ref AWS::Region, Orders, { DefaultValue: 5 }]
";
    let policy = "{ deadLetterTargetArn: !ImportValue Dead, maxReceiveCount: 5 }";
    let text = consumer(queue).replace(policy, "{ 'Fn::ToJsonString': { maxReceiveCount: 1 } }");
    assert_ne!(text, consumer(queue));
    let text = format!("Transform: [AWS::LanguageExtensions, AWS::Serverless-2016-10-31]\n{text}");
    assert_eq!(rules(&text), [""; 0]);
    let variables = "      Timeout: 30
      Policies: { 'Fn::ToJsonString': [{ Effect: Allow, Action: s3:GetObject, Resource: '*' }] }
      Environment:
        Variables:
          SQS_ONCE_TABLE: { 'Fn::Select': [{ 'Fn::Length': !Ref Names }, [keys]] }
";
    assert_eq!(
        rules(&text.replace("      Timeout: 30\n", variables)),
        [""; 0]
    );
}

#[test]
fn a_queue_and_a_table_and_a_function_may_have_one_name() {
    let template = consumer("      VisibilityTimeout: 180")
        .replace(
            "      RedrivePolicy: { deadLetterTargetArn: !ImportValue Dead, maxReceiveCount: 5 }",
            "      QueueName: !Ref AWS::StackName
      RedrivePolicy:
        deadLetterTargetArn: !Sub arn:aws:sqs:${AWS::Region}:${AWS::AccountId}:orders
        maxReceiveCount: 5",
        )
        .replace(
            "      Timeout: 30",
            "      FunctionName: orders\n      Timeout: 30",
        )
        + "
  Dead:
    Type: AWS::SQS::Queue
    Properties: { QueueName: orders, MessageRetentionPeriod: 1209600 }
  Table:
    Type: AWS::DynamoDB::Table
    Properties: { TableName: orders }
  Zone:
    Type: AWS::DynamoDB::Table
    Properties: { TableName: !Ref AWS::StackName }
  Alarm:
    Type: AWS::CloudWatch::Alarm
    Properties:
      Namespace: AWS/SQS
      MetricName: METRIC
      Dimensions: [{ Name: QueueName, Value: orders }]
";
    let right = template.replace("METRIC", "ApproximateNumberOfMessagesVisible");
    assert_eq!(rules(&right), [""; 0]);
    let wrong = template.replace("METRIC", "NumberOfMessagesSent");
    assert_eq!(rules(&wrong), ["dead-letter-alarm-wrong-metric"]);
}

#[test]
fn what_a_merge_key_brings_in_is_not_missing() {
    let template = consumer("      VisibilityTimeout: 180").replace(
        "            FunctionResponseTypes: [ReportBatchItemFailures]",
        "            <<: *defaults",
    );
    let template = format!(
        "Metadata:\n  Defaults: &defaults\n    FunctionResponseTypes: [ReportBatchItemFailures]\n{template}"
    );
    assert_eq!(rules(&template), [""; 0]);
}

#[test]
fn a_mapping_to_an_alias_is_one_to_its_function() {
    let template = "
Resources:
  Charge: { Type: AWS::Lambda::Function, Properties: { Timeout: 60, Role: !ImportValue Role } }
  Version: { Type: AWS::Lambda::Version, Properties: { FunctionName: !Ref Charge } }
  Live: { Type: AWS::Lambda::Alias, Properties: { FunctionName: !GetAtt Charge.Arn, Name: live } }
  Mapping:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      FunctionName: !Ref Live
      EventSourceArn: !GetAtt Orders.Arn
      FunctionResponseTypes: [ReportBatchItemFailures]
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      RedrivePolicy: { deadLetterTargetArn: !ImportValue Dead, maxReceiveCount: 5 }
  Policy: { Type: AWS::SQS::QueuePolicy, Properties: { Queues: !ImportValue Queues } }
";
    let found = ["visibility-timeout-below-function-timeout"];
    assert_eq!(rules(template), found);
    assert_eq!(rules(&template.replace("!Ref Live", "!Ref Version")), found);
}

#[test]
fn a_resource_that_is_all_queues_or_all_tables_is_a_wildcard() {
    for (action, resource) in [
        ("sqs:DeleteMessage", "\"arn:aws:sqs:*:*:*\""),
        (
            "dynamodb:DeleteItem",
            "!Sub \"arn:${AWS::Partition}:dynamodb:${AWS::Region}:${AWS::AccountId}:table/*\"",
        ),
    ] {
        let policies = format!(
            "      Timeout: 30
      Policies:
        - Statement:
            - {{ Effect: Allow, Action: {action}, Resource: {resource} }}"
        );
        let template =
            consumer("      VisibilityTimeout: 180").replace("      Timeout: 30", &policies);
        assert_eq!(rules(&template), ["permission-wildcard"], "{resource}");
        let narrow = template
            .replace("*:*:*", "*:*:orders")
            .replace("/*", "/orders");
        assert_eq!(rules(&narrow), [""; 0], "{resource}");
    }
}

#[test]
fn a_role_without_any_action_on_tables_is_found_though_the_table_is_elsewhere() {
    for (table, arn) in [
        ("orders-keys", "table/orders-keys"),
        ("!Ref Seconds", "table/${Seconds}"),
    ] {
        let variables = format!(
            "      Timeout: 30
      Environment: {{ Variables: {{ SQS_ONCE_TABLE: {table} }} }}
      Policies:
        - {{ Effect: Allow, Action: s3:GetObject, Resource: '*' }}"
        );
        let template =
            consumer("      VisibilityTimeout: 180").replace("      Timeout: 30", &variables);
        assert_eq!(rules(&template), ["permission-missing"], "{table}");
        let fixed = fixed(&template);
        assert!(fixed.contains(arn), "{fixed}");
        assert_eq!(rules(&fixed), [""; 0], "{table}");
        // A policy for some table may be for this one.
        let other = template.replace("s3:GetObject", "dynamodb:UpdateItem");
        assert_ne!(rules(&other), ["permission-missing"], "{table}");
        let elsewhere = template.replace("- { Effect: Allow", "- !ImportValue Policy # ");
        assert_eq!(rules(&elsewhere), [""; 0], "{table}");
    }
}

#[test]
fn a_missing_permission_is_explained_by_what_needs_it() {
    let template = consumer("      VisibilityTimeout: 180").replace(
        "      Timeout: 30",
        "      Timeout: 30
      Environment: { Variables: { SQS_ONCE_DLQ_URL: !Ref Terminal } }",
    ) + "
  Terminal:
    Type: AWS::SQS::Queue
    Properties: { MessageRetentionPeriod: 1209600 }
";
    let findings = source(&template).examine().unwrap();
    let messages: Vec<_> = findings.iter().map(|it| it.message.as_str()).collect();
    let delayed = "The role of the function Charge does not allow sqs:ChangeMessageVisibility on Orders. The \
                   function delays the messages that another worker holds.";
    let sent = "The role of the function Charge does not allow sqs:SendMessage on Terminal. The function sends \
                terminal messages there.";
    assert!(messages.contains(&delayed), "{messages:?}");
    assert!(messages.contains(&sent), "{messages:?}");
}

#[test]
fn each_replica_of_a_global_table_is_protected() {
    let template = consumer("      VisibilityTimeout: 180\n").replace(
        "      Timeout: 30",
        "      Timeout: 30
      Role: !ImportValue Role
      Environment: { Variables: { SQS_ONCE_TABLE: !Ref Keys } }",
    ) + "  Keys:
    Type: AWS::DynamoDB::GlobalTable
    Properties:
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      TimeToLiveSpecification: { AttributeName: expiration, Enabled: true }
      Replicas:
        - Region: eu-west-1
          DeletionProtectionEnabled: true
        - Region: eu-west-2
        - Region: eu-central-1
          DeletionProtectionEnabled: false
";
    assert_eq!(rules(&template), ["table-not-protected"]);
    let fixed = fixed(&template);
    assert_eq!(
        fixed.matches("DeletionProtectionEnabled: true").count(),
        3,
        "{fixed}"
    );
    assert_eq!(rules(&fixed), [""; 0]);
}

#[test]
fn a_byte_order_mark_stays_in_front() {
    let template = format!("\u{feff}{}", consumer("      VisibilityTimeout: 60"));
    let expected = template.replace("Timeout: 60", "Timeout: 180");
    assert_eq!(fixed(&template), expected);
}

#[test]
fn only_a_statement_that_denies_every_request_without_tls_does() {
    let template = consumer("      VisibilityTimeout: 180\n");
    let changed = |change: &str| {
        let (from, to) = change.split_once(" => ").unwrap();
        let changed = template.replace(from, to);
        assert_ne!(changed, template, "{change}");
        changed
    };
    for change in [
        "Effect: Deny => Effect: Allow",
        "Principal: '*' => Principal: { Service: sns.amazonaws.com }",
        "Principal: '*' => NotPrincipal: { AWS: !Ref Admin }",
        "Action: sqs:* => Action: sqs:ReceiveMessage",
        "Resource: '*' => Resource: !GetAtt Charge.Arn",
        "SecureTransport: false => SecureTransport: true",
        "SecureTransport: false => SecureTransport: false, aws:SourceAccount: 1",
        "{ Bool: { => { StringEquals: { aws:SourceAccount: 1 }, Bool: {",
        "[!Ref Orders, !Ref Dead] => [!Ref Charge]",
    ] {
        assert_finds_but_does_not_fix(&changed(change), "queue-accepts-plain-http");
    }
    for change in [
        "Principal: '*' => Principal: { AWS: ['*'] }",
        "Action: sqs:* => Action: ['sqs:Send*', 'SQS:ReceiveMessage', 'sqs:D*']",
        "Resource: '*' => Resource: !GetAtt Orders.Arn",
        "{ Bool: => { BoolIfExists:",
        "aws:SecureTransport: false => AWS:securetransport: ['false']",
        // These are known only at deployment time.
        "Effect: Deny => Effect: !Ref Seconds",
        "Principal: '*' => Principal: !ImportValue Everybody",
        "Condition:  => Condition: !If [Fast, { Bool: {} }, !Ref AWS::NoValue] #",
        "- Effect: Deny => - !If [Fast, { Effect: Deny }, !Ref AWS::NoValue]\n          - Effect: Allow",
        "[!Ref Orders, !Ref Dead] => [!Ref Seconds]",
    ] {
        assert_eq!(rules(&changed(change)), [""; 0], "{change}");
    }
}
