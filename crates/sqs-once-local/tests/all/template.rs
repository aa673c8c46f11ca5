//! Tests what is read from a template. The doctor's tests cover how a template may be written.

use sqs_once_local::{KeyAttribute, KeyType, TableDescription, Template, TemplateError};
use std::path::Path;
use std::time::Duration;

const TEMPLATE: &str = r#"
Transform: AWS::Serverless-2016-10-31
Globals:
  Function:
    Timeout: 30
Resources:
  Table:
    Type: AWS::DynamoDB::Table
    Properties:
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
  Orders:
    Type: AWS::Serverless::Function
    Metadata: { BuildProperties: { Binary: orders } }
    Properties:
      MemorySize: 256
      Environment:
        Variables:
          SQS_ONCE_TABLE: !Ref Table
"#;

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
fn a_table_is_called_by_its_logical_id_unless_its_name_is_a_literal() {
    let ttl = "      TimeToLiveSpecification: { AttributeName: expiration, Enabled: ";
    let name = "      TableName: !Sub \"${AWS::StackName}-t\"";
    for (properties, ttl_attribute) in [
        (KEY.to_owned(), None),
        (format!("{ttl}true }}{KEY}"), Some("expiration".to_owned())),
        (format!("{ttl}false }}{KEY}"), None),
        (format!("{name}{KEY}"), None),
    ] {
        let expected = TableDescription {
            name: "T".to_owned(),
            ttl_attribute,
            ..TableDescription::default()
        };
        assert_eq!(table(&properties).unwrap(), expected);
    }
    let template = Template::parse("Resources: { Topic: { Type: AWS::SNS::Topic } }").unwrap();
    assert_eq!(template.table(None).unwrap(), TableDescription::default());
    assert!(template.function(None).is_none());
}

#[test]
fn a_function_is_found_by_its_binary_and_never_runs_with_the_settings_of_another() {
    let template = Template::parse(TEMPLATE).unwrap();
    for binary in [None, Some("orders")] {
        let function = template.function(binary).unwrap();
        assert_eq!(function.site.id, "Orders");
        assert_eq!(function.timeout.known(), Some(&Duration::from_secs(30)));
        assert_eq!(function.memory_mb.known(), Some(&256));
    }
    let text = format!("{TEMPLATE}  Refunds: {{ Type: AWS::Lambda::Function }}\n");
    let two = Template::parse(&text).unwrap();
    assert_eq!(two.function(Some("orders")).unwrap().site.id, "Orders");
    for template in [template, two] {
        assert!(template.function(Some("refunds")).is_none());
    }
}

const REFERENCES: &str = r#"
Parameters:
  Stage: { Type: String, Default: test }
  Limit: { Type: Number, Default: 60 }
  Payments: { Type: String }
  Stored: { Type: "AWS::SSM::Parameter::Value<String>", Default: /payments/url }
Resources:
  Bodies: { Type: AWS::S3::Bucket }
  Archive: { Type: AWS::S3::Bucket, Properties: { BucketName: !Sub "${AWS::StackName}-${Stage}" } }
  Queue: { Type: AWS::SQS::Queue, Properties: { QueueName: { Ref: AWS::StackName } } }
  Groups: { Type: AWS::SQS::Queue, Properties: { QueueName: !Ref Payments, FifoQueue: true } }
  Topic: { Type: AWS::SNS::Topic }
  Keys:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: !Sub "${AWS::StackName}-keys"
      KeySchema: [{ AttributeName: id, KeyType: HASH }]
      AttributeDefinitions: [{ AttributeName: id, AttributeType: S }]
  Function:
    Type: AWS::Lambda::Function
    Properties:
      Environment:
        Variables:
"#;

/// Values in the template, and what they are here, or why they are nothing.
const VALUES: &str = r#"
"${order}" => ${order}
!Ref Stage => test
{ Ref: Limit } => 60
!Sub "https://${AWS::Region}/${Stage}" => https://eu-central-1/test
!Ref Bodies => bodies
!Ref Archive => shop-test
!Sub "${Queue.Arn}=${Bodies}/in/*" => arn:aws:sqs:eu-central-1:123456789012:shop=bodies/in/*
!Ref Queue => url of shop
{ Fn::GetAtt: [Queue, QueueUrl] } => url of shop
!Ref Groups => url of Groups.fifo
!Ref Topic => arn:aws:sns:eu-central-1:123456789012:Topic
!Ref Keys => shop-keys
!GetAtt Keys.Arn => arn:aws:dynamodb:eu-central-1:123456789012:table/shop-keys
!Ref Function => Function
!GetAtt Function.Arn => arn:aws:lambda:eu-central-1:123456789012:function:Function
!Ref Payments => not: the parameter `Payments` has no default
!Ref Stored => not: the parameter `Stored` has no default
!Ref Nothing => not: the template has no `Nothing`
!GetAtt Keys.StreamArn => not: `Keys.StreamArn` is known only after a deployment
!ImportValue other => not: only a deployment computes it
"#;

#[test]
fn references_are_those_of_local_resources_and_what_has_no_value_says_why() {
    for (value, expected) in VALUES.lines().filter_map(|line| line.split_once(" => ")) {
        let template = Template::parse(&format!("{REFERENCES}          VALUE: {value}\n"));
        let template = template.unwrap().in_stack("shop");
        let function = &template.functions()[0];
        let environment = template.environment(function, |queue| format!("url of {queue}"));
        let expected = match expected.strip_prefix("not: ") {
            Some(reason) => Err(reason.to_owned()),
            None => Ok(expected.to_owned()),
        };
        assert_eq!(environment, [("VALUE".to_owned(), expected)], "{value}");
    }
}

#[test]
fn a_literal_table_name_and_a_sort_key_are_kept() {
    let properties = "
      TableName: effects
      KeySchema: [{ AttributeName: pk, KeyType: HASH }, { AttributeName: sk, KeyType: RANGE }]
      AttributeDefinitions: [{ AttributeName: sk, AttributeType: N }, { AttributeName: pk, AttributeType: B }]
";
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
    assert_eq!(table(properties).unwrap(), expected);
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
fn a_table_that_cannot_be_is_named_with_its_fault() {
    let no_key = "KeySchema names no HASH key";
    for (properties, fault) in [
        ("BillingMode: PAY_PER_REQUEST", no_key),
        (
            "KeySchema: [{ AttributeName: id, KeyType: HASH }]",
            "AttributeDefinitions gives the key `id` no type S, N or B: add { AttributeName: id, AttributeType: S }",
        ),
        ("KeySchema: [{ KeyType: HASH }]", no_key),
    ] {
        let error = table(&format!("      {properties}\n")).unwrap_err();
        let expected = format!("the table `T` of the template can't be made: {fault}");
        assert_eq!(error.to_string(), expected);
    }
}

const WITH_QUEUES: &str = r#"
Resources:
  Orders:
    Type: AWS::SQS::Queue
    Properties:
      QueueName: !Sub "${AWS::StackName}-orders"
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
fn queues_have_their_names_and_their_dead_letter_queues() {
    let template = Template::parse(WITH_QUEUES).unwrap();
    let [orders, dead, groups] = template.queues() else {
        panic!("{:?}", template.queues());
    };
    assert_eq!(template.queue_name(orders), "Orders", "without a stack");
    let in_stack = template.clone().in_stack("shop");
    assert_eq!(in_stack.queue_name(orders), "shop-orders");
    assert_eq!(template.dead_letters(orders).unwrap().site.id, "Dead");
    assert!(template.dead_letters(dead).is_none());
    assert_eq!(template.queue_name(groups), "groups.fifo");
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
    let [(_, Some(queue))] = &mappings("Charge")[..] else {
        panic!("{template:?}");
    };
    assert_eq!(queue, "Orders");
    let [(ship, Some(queue))] = &mappings("Ship")[..] else {
        panic!("{template:?}");
    };
    assert_eq!(queue, "groups.fifo");
    assert!(ship.reports_failures.is_missing() && !ship.filter.is_missing());
}

#[test]
fn a_terraform_configuration_has_its_function_queues_and_tables() {
    let folder = "../sqs-once-doctor/tests/configurations/good";
    let template = Template::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap();
    let function = template.function(Some("charge")).unwrap();
    assert!(template.function(Some("refund")).is_none());
    let [(_, Some(queue))] = &template.mappings(function)[..] else {
        panic!("one mapping");
    };
    assert_eq!(queue, "orders-default");
    let table = template.table(Some(function)).unwrap();
    assert_eq!(table.name, "orders-default-keys");
    let variable = |name: &str, value: &str| (name.to_owned(), Ok(value.to_owned()));
    let url = variable("SQS_ONCE_DLQ_URL", "url of orders-default-dead");
    let table = variable("SQS_ONCE_TABLE", "orders-default-keys");
    let environment = template.environment(function, |queue| format!("url of {queue}"));
    assert_eq!(environment, [url, table]);
}
