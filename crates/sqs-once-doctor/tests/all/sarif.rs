//! SARIF, as code scanning reads it.

use sqs_once_doctor::{RULES, Source, sarif};
use std::path::Path;

const TEMPLATE: &str = "Resources:
  Orders:
    Type: AWS::SQS::Queue
  Charge:
    Type: AWS::Serverless::Function
    Properties:
      Events:
        Orders:
          Type: SQS
          Properties: { Queue: !GetAtt Orders.Arn }
";

#[test]
fn every_rule_is_described_and_every_result_says_what_and_where() {
    let source = Source::new(Path::new("a folder/template.yaml"), TEMPLATE);
    let log = sarif(&source.examine().unwrap());
    assert_eq!(log["version"], "2.1.0");
    let run = &log["runs"][0];
    let rules = run["tool"]["driver"]["rules"].as_array().unwrap();
    assert_eq!(rules.len(), RULES.len());
    let results = run["results"].as_array().unwrap();
    assert_eq!(results.len(), 3, "{results:#?}");
    for result in results {
        let rule = &rules[usize::try_from(result["ruleIndex"].as_u64().unwrap()).unwrap()];
        assert_eq!(rule["id"], result["ruleId"]);
        let (id, link) = (&rule["id"], &rule["helpUri"]);
        let is_linked = |it: &str| it.contains("doctor") && it.ends_with(id.as_str().unwrap());
        assert!(link.as_str().is_some_and(is_linked), "{link}");
        let text = result["message"]["text"].as_str().unwrap();
        assert!(text.contains("Instead:\n"), "{text}");
    }
    let mut all = results.iter();
    let missing = all.find(|it| it["ruleId"] == "dead-letter-queue-missing");
    let location = &missing.unwrap()["locations"][0];
    let place = &location["physicalLocation"];
    assert_eq!(place["artifactLocation"]["uri"], "a%20folder/template.yaml");
    assert_eq!(place["region"]["startLine"], 2);
    assert_eq!(place["region"]["startColumn"], 3);
    let logical = &location["logicalLocations"][0];
    assert_eq!(logical["fullyQualifiedName"], "Orders");
}

#[test]
fn without_findings_there_is_a_run_with_no_results() {
    let log = sarif(&[]);
    assert_eq!(log["runs"][0]["results"], serde_json::json!([]));
}
