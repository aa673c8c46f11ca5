//! Tests what is read from a template.

use sqs_once_doctor::ReadError;
use sqs_once_local::{KeyAttribute, KeyType, TableDescription, Template, TemplateError};
use std::time::Duration;

const TEMPLATE: &str = r#"
AWSTemplateFormatVersion: "2010-09-09"
Transform: AWS::Serverless-2016-10-31
Globals:
  Function:
    Timeout: 30
    Environment:
      Variables:
        RUST_LOG: info
        SHARED: global
Resources:
  Queue:
    Type: AWS::SQS::Queue
    Properties:
      VisibilityTimeout: !If [Slow, 900, 180]
      RedrivePolicy:
        deadLetterTargetArn: !GetAtt DeadLetters.Arn
        maxReceiveCount: 5
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema:
        - { AttributeName: id, KeyType: HASH }
      AttributeDefinitions:
        - { AttributeName: id, AttributeType: S }
      TimeToLiveSpecification: { AttributeName: expiration, Enabled: true }
  Orders:
    Type: AWS::Serverless::Function
    Metadata:
      BuildMethod: rust-cargolambda
      BuildProperties:
        Binary: orders
    Properties:
      CodeUri: .
      MemorySize: 256
      Environment:
        Variables:
          SQS_ONCE_TABLE: !Ref Table
          SQS_ONCE_DLQ_URL: !Ref DeadLetters
          SQS_ONCE_CONCURRENCY: 16
          SHARED: own
          QUEUE: !Sub "https://${AWS::Region}/queue"
          PATTERN: "${order}"
          LONG_FORM: { Ref: Table }
"#;

/// A table resource with these properties.
fn table(properties: &str) -> Result<TableDescription, TemplateError> {
    let text =
        format!("Resources:\n  T:\n    Type: AWS::DynamoDB::Table\n    Properties:\n{properties}");
    Template::parse(&text)?.table(None)
}

const KEY: &str = "
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
";

#[test]
fn the_table_is_called_by_its_logical_id() {
    let template = Template::parse(TEMPLATE).unwrap();
    let expected = TableDescription {
        name: "Table".to_owned(),
        ..TableDescription::default()
    };
    assert_eq!(template.table(None).unwrap(), expected);
}

#[test]
fn the_function_is_found_with_its_settings() {
    let template = Template::parse(TEMPLATE).unwrap();
    let function = template.function(None).unwrap();
    assert_eq!(function.site.id, "Orders");
    assert_eq!(function.binary.known().unwrap(), "orders");
    assert_eq!(
        function.timeout.known(),
        Some(&Duration::from_secs(30)),
        "from Globals"
    );
    assert_eq!(function.memory_mb.known(), Some(&256));
    let other = template.function(Some("mail"));
    assert!(
        other.is_none(),
        "another binary never runs with its settings"
    );
}

#[test]
fn variables_are_literals_and_references_to_the_table() {
    let template = Template::parse(TEMPLATE).unwrap();
    let mut environment = template.environment(template.function(Some("orders")).unwrap());
    environment.sort();
    let expected = [
        ("LONG_FORM", "Table"),
        ("PATTERN", "${order}"),
        ("RUST_LOG", "info"),
        ("SHARED", "own"),
        ("SQS_ONCE_CONCURRENCY", "16"),
        ("SQS_ONCE_TABLE", "Table"),
    ];
    assert_eq!(
        environment,
        expected.map(|(name, value)| (name.to_owned(), value.to_owned()))
    );
}

#[test]
fn a_literal_table_name_and_a_sort_key_are_kept() {
    let described = table(
        "
      TableName: effects
      KeySchema: [{ AttributeName: pk, KeyType: HASH }, { AttributeName: sk, KeyType: RANGE }]
      AttributeDefinitions: [{ AttributeName: sk, AttributeType: N }, { AttributeName: pk, AttributeType: B }]
",
    );
    let key = |name: &str, kind| KeyAttribute {
        name: name.to_owned(),
        kind,
    };
    let expected = TableDescription {
        name: "effects".to_owned(),
        partition_key: key("pk", KeyType::B),
        sort_key: Some(key("sk", KeyType::N)),
        ttl_attribute: None,
    };
    assert_eq!(described.unwrap(), expected);
}

#[test]
fn a_computed_table_name_is_replaced_by_the_logical_id() {
    let described = table(&format!(
        "      TableName: !Sub \"${{AWS::StackName}}-t\"{KEY}"
    ))
    .unwrap();
    assert_eq!(described.name, "T");
}

#[test]
fn time_to_live_that_is_not_enabled_does_not_count() {
    let described = table(&format!(
        "      TimeToLiveSpecification: {{ AttributeName: expiration, Enabled: false }}{KEY}"
    ));
    assert_eq!(described.unwrap().ttl_attribute, None);
}

#[test]
fn a_template_without_a_table_gets_the_default_one() {
    let template = Template::parse("Resources: { Topic: { Type: AWS::SNS::Topic } }").unwrap();
    assert_eq!(template.table(None).unwrap(), TableDescription::default());
    assert!(template.function(None).is_none());
}

#[test]
fn of_several_tables_the_one_the_function_refers_to_is_taken() {
    let text = format!("{TEMPLATE}  Other:\n    Type: AWS::DynamoDB::Table\n    Properties:{KEY}");
    let template = Template::parse(&text).unwrap();
    let function = template.function(Some("orders"));
    assert_eq!(template.table(function).unwrap().name, "Table");

    let error = template.table(None).unwrap_err();
    assert!(error.to_string().contains("(Table, Other)"), "{error}");
}

#[test]
fn of_several_functions_the_one_with_the_binary_is_taken() {
    let text = format!(
        "{TEMPLATE}  Refunds:\n    Type: AWS::Lambda::Function\n    Properties: {{ Timeout: 5 }}\n"
    );
    let template = Template::parse(&text).unwrap();
    assert_eq!(template.function(Some("orders")).unwrap().site.id, "Orders");
    assert!(template.function(Some("refunds")).is_none());
}

#[test]
fn a_template_in_json_is_read_as_well() {
    let text = r#"{"Resources": {"T": {"Type": "AWS::DynamoDB::Table", "Properties": {
        "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}],
        "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}]}}}}"#;
    assert_eq!(
        Template::parse(text).unwrap().table(None).unwrap().name,
        "T"
    );
}

#[test]
fn what_is_no_template_is_an_error() {
    assert!(matches!(
        Template::parse("a: [unclosed"),
        Err(TemplateError::Read(ReadError::Yaml(_)))
    ));
    for text in ["", "just text", "Resources:", "Parameters: {}"] {
        assert!(
            matches!(
                Template::parse(text),
                Err(TemplateError::Read(ReadError::NoResources))
            ),
            "{text:?}"
        );
    }
}

#[test]
fn all_tables_of_a_template_are_listed() {
    let text = format!(
        "Resources:\n  Idempotency:\n    Type: AWS::DynamoDB::Table\n    Properties:\n{KEY}\n  Stock:\n    \
         Type: AWS::DynamoDB::Table\n    Properties:\n      TableName: stock\n{KEY}"
    );
    let template = Template::parse(&text).unwrap();
    let names = template.tables().iter().map(|table| &*table.name);
    assert!(names.eq(["Idempotency", "stock"]));
}

#[test]
fn a_template_that_is_not_there_is_named() {
    let error = Template::read("no/such/template.yaml".as_ref()).unwrap_err();
    assert!(
        error.to_string().contains("no/such/template.yaml"),
        "{error}"
    );
}

#[test]
fn a_table_that_cannot_be_is_named_with_its_fault() {
    let error = |properties: &str| table(properties).unwrap_err().to_string();
    assert_eq!(
        error("      BillingMode: PAY_PER_REQUEST\n"),
        "the table `T` of the template can't be made: KeySchema names no HASH key"
    );
    assert_eq!(
        error("      KeySchema: [{ AttributeName: id, KeyType: HASH }]\n"),
        "the table `T` of the template can't be made: AttributeDefinitions gives the key `id` no type S, N or B"
    );
    assert_eq!(
        error("      KeySchema: [{ KeyType: HASH }]\n"),
        "the table `T` of the template can't be made: KeySchema names no HASH key"
    );
}

const WITH_QUEUES: &str = r#"
Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub "${AWS::StackName}-orders"
      VisibilityTimeout: 181
      MessageRetentionPeriod: "345600"
      DelaySeconds: 2
      RedrivePolicy:
        deadLetterTargetArn: !GetAtt Dead.Arn
        maxReceiveCount: 5
  Dead:
    Type: AWS::SQS::Queue
  Groups:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: groups
      FifoQueue: true
      ContentBasedDeduplication: true
      RedrivePolicy:
        deadLetterTargetArn: arn:aws:sqs:eu-central-1:123456789012:elsewhere.fifo
        maxReceiveCount: 5
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Environment:
        Variables:
          DEAD_URL: !Ref Dead
          ORDERS_URL: { "Fn::GetAtt": [Orders, QueueUrl] }
          ORDERS_ARN: !GetAtt Orders.Arn
      Events:
        Timer: { Type: Schedule, Properties: { Schedule: rate(1 minute) } }
        Orders:
          Type: SQS
          Properties:
            Queue: !GetAtt Orders.Arn
            BatchSize: 25
            MaximumBatchingWindowInSeconds: 1
            FunctionResponseTypes: [ReportBatchItemFailures]
            ScalingConfig: { MaximumConcurrency: 10 }
  Ship:
    Type: AWS::Lambda::Function
  ShipGroups:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      FunctionName: !GetAtt Ship.Arn
      EventSourceArn: { "Fn::GetAtt": Groups.Arn }
      FilterCriteria: { Filters: [] }
  ShipStream:
    Type: AWS::Lambda::EventSourceMapping
    Properties:
      FunctionName: !Ref Ship
      EventSourceArn: !GetAtt Table.StreamArn
"#;

#[test]
fn queues_are_read_with_what_they_do() {
    let template = Template::parse(WITH_QUEUES).unwrap();
    let seconds = |seconds| Some(Duration::from_secs(seconds));
    let [orders, dead, groups] = template.queues() else {
        panic!("{:?}", template.queues());
    };
    assert_eq!(
        Template::queue_name(orders),
        "Orders",
        "a computed name is replaced"
    );
    assert_eq!(orders.visibility_timeout.known().copied(), seconds(181));
    assert_eq!(orders.retention.known().copied(), seconds(345_600));
    assert_eq!(orders.delay.known().copied(), seconds(2));
    assert_eq!(template.dead_letters(orders).unwrap().site.id, "Dead");
    assert_eq!(orders.max_receive_count.known(), Some(&5));
    assert!(dead.dead_letter_queue.is_missing() && dead.visibility_timeout.is_missing());
    assert_eq!(Template::queue_name(groups), "groups.fifo");
    assert_eq!(groups.content_based_deduplication.known(), Some(&true));
    let elsewhere = template.dead_letters(groups);
    assert!(elsewhere.is_none(), "its dead-letter queue is elsewhere");
}

#[test]
fn mappings_are_found_in_sams_events_and_as_resources() {
    let template = Template::parse(WITH_QUEUES).unwrap();
    let mappings = |id: &str| {
        let mut functions = template.functions().iter();
        template.mappings(functions.find(|one| one.site.id == id).unwrap())
    };
    let [(charge, queue)] = &mappings("Charge")[..] else {
        panic!("{template:?}");
    };
    assert_eq!(queue.as_deref(), Some("Orders"));
    assert_eq!(charge.batch_size.known(), Some(&25));
    assert_eq!(charge.window.known(), Some(&Duration::from_secs(1)));
    assert_eq!(charge.maximum_concurrency.known(), Some(&10));
    assert!(charge.reports_failures.known() == Some(&true) && !charge.has_filter);
    let [(ship, queue)] = &mappings("Ship")[..] else {
        panic!("{template:?}");
    };
    assert_eq!(queue.as_deref(), Some("groups.fifo"));
    assert!(ship.batch_size.is_missing() && ship.window.is_missing());
    assert!(ship.reports_failures.is_missing() && ship.has_filter);
}

#[test]
fn variables_that_are_the_url_of_a_queue_are_told_apart() {
    let template = Template::parse(WITH_QUEUES).unwrap();
    let mut urls = template.queue_urls(&template.functions()[0]);
    urls.sort();
    let expected = [("DEAD_URL", "Dead"), ("ORDERS_URL", "Orders")];
    assert_eq!(
        urls,
        expected.map(|(name, queue)| (name.to_owned(), queue.to_owned()))
    );
}

#[test]
fn a_value_that_no_deployment_can_change_is_known_however_it_is_written() {
    let text = WITH_QUEUES
        .replace(
            "VisibilityTimeout: 181",
            "VisibilityTimeout: !If [Slow, 900, 900]",
        )
        .replace("DelaySeconds: 2", "DelaySeconds: !Sub '3'")
        .replace("!GetAtt Dead.Arn", "!Sub '${Dead.Arn}'");
    let template = Template::parse(&text).unwrap();
    let orders = &template.queues()[0];
    let seconds = orders.visibility_timeout.known().map(Duration::as_secs);
    assert_eq!(seconds, Some(900));
    assert_eq!(orders.delay.known(), Some(&Duration::from_secs(3)));
    assert_eq!(template.dead_letters(orders).unwrap().site.id, "Dead");
}
