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
        duration_ms: Some(1.0),
        reason: None,
        key: None,
        receive_count: None,
    }
}

#[test]
fn the_failures_are_those_the_answer_lists() {
    let answer = r#"{"batchItemFailures": [{"itemIdentifier": "b"}, {"itemIdentifier": "c"}]}"#;
    assert_eq!(parse(answer).unwrap().failures(), ["b", "c"]);
}

#[test]
fn an_answer_that_lists_nothing_says_that_all_is_done() {
    for answer in [
        "null",
        "{}",
        r#"{"batchItemFailures": null}"#,
        r#"{"batchItemFailures": []}"#,
    ] {
        assert!(parse(answer).unwrap().failures().is_empty(), "{answer}");
    }
}

#[test]
fn an_answer_lambda_takes_for_a_failed_batch_is_an_error() {
    assert!(matches!(parse("oops"), Err(ResponseError::Json(_))));
    assert!(matches!(parse(""), Err(ResponseError::Json(_))));
    assert!(matches!(
        parse(r#""done""#),
        Err(ResponseError::NotAnObject)
    ));
    assert!(matches!(
        parse(r#"{"batchItemFailures": "b"}"#),
        Err(ResponseError::NotAList)
    ));
    for entry in [
        "{}",
        r#"{"itemIdentifier": null}"#,
        r#"{"itemIdentifier": ""}"#,
        r#"{"ItemIdentifier": "b"}"#,
    ] {
        let answer = format!(r#"{{"batchItemFailures": [{entry}]}}"#);
        assert!(
            matches!(parse(&answer), Err(ResponseError::NoIdentifier)),
            "{answer}"
        );
    }
    let unknown = parse(r#"{"batchItemFailures": [{"itemIdentifier": "z"}]}"#);
    assert!(matches!(unknown, Err(ResponseError::UnknownIdentifier(id)) if id == "z"));
}

#[test]
fn rows_are_in_the_order_of_the_batch_and_not_of_the_log() {
    let lines = vec![
        line("c", "duplicate"),
        line("a", "processed"),
        line("b", "processed"),
    ];
    let report = Report::new(&ids(&["a", "b", "c"]), lines, &parse("{}").unwrap());
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.message_id.as_str(), row.outcome.as_str()))
        .collect();
    assert_eq!(
        rows,
        [("a", "processed"), ("b", "processed"), ("c", "duplicate")]
    );
    assert_eq!(report.count("processed"), 2);
}

#[test]
fn two_records_with_one_message_id_have_a_row_each() {
    let lines = vec![line("a", "processed"), line("a", "duplicate")];
    let report = Report::new(&ids(&["a", "a"]), lines, &parse("{}").unwrap());
    let outcomes: Vec<_> = report.rows.iter().map(|row| row.outcome.as_str()).collect();
    assert_eq!(outcomes, ["processed", "duplicate"]);
}

#[test]
fn a_record_without_a_line_is_what_the_answer_says() {
    let answer = parse(r#"{"batchItemFailures": [{"itemIdentifier": "b"}]}"#).unwrap();
    let report = Report::new(&ids(&["a", "b"]), Vec::new(), &answer);
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.outcome.as_str(), row.reason.as_deref()))
        .collect();
    assert_eq!(
        rows,
        [
            ("acknowledged", Some("no record line")),
            ("failed", Some("no record line"))
        ]
    );
}
