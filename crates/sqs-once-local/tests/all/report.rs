//! Tests how Lambda interprets an answer, and how the report combines answer and log.

use sqs_once_local::{BatchResponse, RecordLine, Report, ResponseError};

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

fn parse(answer: &str) -> Result<BatchResponse, ResponseError> {
    BatchResponse::parse(answer.as_bytes(), &ids(&["a", "b", "c"]))
}

fn line(message_id: &str, outcome: &str) -> RecordLine {
    RecordLine {
        message_id: message_id.to_owned(),
        outcome: outcome.to_owned(),
        ..RecordLine::default()
    }
}

#[test]
fn the_failures_are_those_the_answer_lists_and_none_if_it_lists_nothing() {
    let two = r#"{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "c"}]}"#;
    for (answer, failures) in [
        (two, &["b", "c"][..]),
        ("null", &[]),
        ("{}", &[]),
        (r#"{"batchItemFailures": null}"#, &[]),
        (r#"{"batchItemFailures": []}"#, &[]),
    ] {
        assert_eq!(parse(answer).unwrap().failures(), failures, "{answer}");
    }
}

#[test]
fn an_answer_that_lambda_treats_as_a_failed_batch_is_an_error() {
    for answer in ["oops", ""] {
        assert!(matches!(parse(answer), Err(ResponseError::Json(_))));
    }
    for answer in [r#""done""#, "[]"] {
        assert!(matches!(parse(answer), Err(ResponseError::NotAnObject)));
    }
    let text = parse(r#"{"batchItemFailures": "b"}"#);
    assert!(matches!(text, Err(ResponseError::NotAList)));
    for entry in [
        "{}",
        r#"{"itemIdentifier": null}"#,
        r#"{"itemIdentifier": ""}"#,
        r#"{"ItemIdentifier": "b"}"#,
        r#"{"messageId": "b"}"#,
    ] {
        let answer = parse(&format!(r#"{{"batchItemFailures": [{entry}]}}"#));
        let is_unnamed = matches!(answer, Err(ResponseError::NoIdentifier));
        assert!(is_unnamed, "{entry}");
    }
    let unknown = parse(r#"{"batchItemFailures": [{"itemIdentifier": "z"}]}"#);
    assert!(matches!(unknown, Err(ResponseError::UnknownIdentifier(id)) if id == "z"));
}

/// The message id, the outcome and the reason of each row of a report on these messages.
fn rows(message_ids: &[&str], lines: &[(&str, &str)], answer: &str) -> Vec<[String; 3]> {
    let lines = lines
        .iter()
        .map(|(id, outcome)| line(id, outcome))
        .collect();
    let report = Report::new(&ids(message_ids), lines, &parse(answer).unwrap());
    for row in &report.rows {
        let same = report.rows.iter().filter(|one| one.outcome == row.outcome);
        assert_eq!(report.count(&row.outcome), same.count());
    }
    let rows = report.rows.into_iter();
    rows.map(|row| [row.message_id, row.outcome, row.reason.unwrap_or_default()])
        .collect()
}

#[test]
fn a_report_has_a_row_for_each_record_in_the_order_of_the_batch() {
    let lines = [("b", "duplicate"), ("a", "processed"), ("b", "processed")];
    let answer = r#"{"batchItemFailures": [{"itemIdentifier": "c"}]}"#;
    let expected = [
        ["a", "processed", ""],
        ["b", "duplicate", ""],
        ["b", "processed", ""],
        ["c", "failed", "no log line"],
        ["z", "acknowledged", "no log line"],
    ];
    assert_eq!(rows(&["a", "b", "b", "c", "z"], &lines, answer), expected);
}
