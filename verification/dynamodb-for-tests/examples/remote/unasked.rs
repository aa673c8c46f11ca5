//! What a DynamoDB behind an endpoint is not asked: where ministack is known to answer, or to write, other things than
//! DynamoDB. All else it is asked.

use serde_json::{Value as Json, json};

use crate::requests::Request;

/// Requests, writes and statements that are left out of the histories.
pub(crate) struct Unasked {
    /// What they are, and what ministack does with them.
    pub(crate) what: &'static str,
    is: fn(&Json) -> bool,
}

/// Attributes that are numbers wherever they are.
const COUNTERS: [&str; 2] = ["fence", "times"];

pub(crate) const UNASKED: &[Unasked] = &[
    Unasked {
        what: "numbers other than short whole ones, which ministack adds with 28 digits and returns as they came",
        is: |body| {
            any_number(body, |text| {
                let number = text.parse::<i64>();
                text.len() > 14 || !number.is_ok_and(|number| number.to_string() == text)
            })
        },
    },
    Unasked {
        what: "keys that are not of the table in a transaction and in a statement, which ministack takes",
        is: |body| parts(body).skip(1).any(|part| !has_right_key(part)),
    },
    Unasked {
        what: "a table that there is not beside anything else that may be wrong: ministack sees another error first",
        is: |body| {
            let is_batch = body["RequestItems"].get("missing").is_some()
                || texts(body, "Statement").any(|text| text.contains("\"missing\""));
            let is_plain = body["TableName"] == "missing"
                && body.get("ConditionExpression").is_none()
                && body.get("UpdateExpression").is_none();
            is_batch || texts(body, "TableName").any(|table| table == "missing") && !is_plain
        },
    },
    Unasked {
        what: "reserved words in an update, which ministack refuses after the condition and as a cancellation",
        is: |body| {
            texts(body, "UpdateExpression").any(|text| {
                let mut words = text.split([' ', ',', '(', ')']);
                words.any(|word| ["status", "owner", "data"].contains(&word))
            })
        },
    },
    Unasked {
        what: "conditions with an attribute on the right: two that are absent are equal in ministack",
        is: |body| {
            texts(body, "ConditionExpression").any(|text| {
                let before = [" = ", " <> ", " < ", " <= ", " > ", " >= ", " IN (", ", "];
                before.iter().any(|before| {
                    text.split(before)
                        .skip(1)
                        .any(|right| !right.starts_with(':'))
                })
            })
        },
    },
    Unasked {
        what: "begins_with and size of what may be no text: ministack refuses the one, and takes the other for 0",
        is: |body| {
            let mut conditions = texts(body, "ConditionExpression");
            conditions.any(|text| text.contains("begins_with(") || text.contains("size("))
        },
    },
    Unasked {
        what: "list_append, which ministack does to what is no list",
        is: |body| texts(body, "UpdateExpression").any(|text| text.contains("list_append")),
    },
    Unasked {
        what: "sums of what may be no number, which are their left side in ministack: two attributes always are one",
        is: |body| parts(body).any(is_not_counted),
    },
];

/// The request without what is not asked, if anything is left.
pub(crate) fn asked(mut request: Request) -> Option<Request> {
    for list in ["TransactItems", "Statements"] {
        let Some(Json::Array(members)) = request.body.get_mut(list).map(Json::take) else {
            continue;
        };
        let is_asked = |member: &Json| !is_unasked(&json!({ list: [member] }));
        let members: Vec<_> = members.into_iter().filter(is_asked).collect();
        if members.is_empty() {
            return None;
        }
        request.operations = members.len();
        request.body[list] = members.into();
    }
    (!is_unasked(&request.body)).then_some(request)
}

fn is_unasked(body: &Json) -> bool {
    UNASKED.iter().any(|one| (one.is)(body))
}

/// Whether the key of a write or a statement is one of a table.
fn has_right_key(part: &Json) -> bool {
    let key = part.get("Key").or(part.get("Item"));
    let of = |name: &str| match key {
        Some(key) => &key[name],
        None => parameter(part, &[format!("'{name}':?"), format!("\"{name}\"=?")]),
    };
    let is_text = |name: &str| of(name)["S"].as_str().is_some_and(|text| text.len() == 2);
    let is_key = is_text("id") || is_text("pk") && of("sk").get("N").is_some();
    is_key && *of("more") == Json::Null
}

/// What a statement says in the first of these words.
fn parameter<'a>(statement: &'a Json, words: &[String]) -> &'a Json {
    let text = statement["Statement"].as_str().unwrap_or_default();
    let place = words.iter().find_map(|word| text.find(word));
    place.map_or(&Json::Null, |place| {
        &statement["Parameters"][text[..place].matches('?').count()]
    })
}

/// Whether an attribute that has to be a number becomes another thing, or one that need not be is part of a sum.
fn is_not_counted(part: &Json) -> bool {
    let is_number = |value: &Json| value.get("N").is_some();
    let mut counters = COUNTERS.iter();
    if let Some(text) = part["UpdateExpression"].as_str() {
        let values = &part["ExpressionAttributeValues"];
        let (mut counts, mut others) = (text.contains(" + ") || text.contains(" - "), false);
        for word in text.split([' ', ',', '(', ')']) {
            match word.strip_prefix('#').unwrap_or(word) {
                "" | "SET" | "REMOVE" | "ADD" | "DELETE" | "if_not_exists" | "=" | "+" | "-" => {}
                value if value.starts_with(':') => others |= !is_number(&values[value]),
                name => match COUNTERS.contains(&name) {
                    true => counts = true,
                    false => others = true,
                },
            }
        }
        return counts && others;
    }
    counters.any(|counter| {
        let written = [format!("'{counter}':?"), format!("SET \"{counter}\"=?")];
        let put = part["Item"].get(counter);
        let value = put.unwrap_or(parameter(part, &written));
        *value != Json::Null && !is_number(value)
    })
}

/// The request, the writes of a transaction, the statements of a batch.
fn parts(body: &Json) -> impl Iterator<Item = &Json> {
    let members = |list| body[list].as_array().into_iter().flatten();
    let writes = members("TransactItems").flat_map(|write| write.as_object());
    let writes = writes.flat_map(|write| write.values());
    std::iter::once(body)
        .chain(writes)
        .chain(members("Statements"))
}

/// What stands at a name in any part of a request.
fn texts<'a>(body: &'a Json, name: &'a str) -> impl Iterator<Item = &'a str> {
    parts(body).filter_map(move |part| part[name].as_str())
}

/// Whether one of the numbers in a request is such.
fn any_number(json: &Json, is: fn(&str) -> bool) -> bool {
    match json {
        Json::Object(object) => object.iter().any(|(name, value)| match value {
            Json::String(number) if name == "N" => is(number),
            _ => any_number(value, is),
        }),
        Json::Array(list) => list.iter().any(|one| any_number(one, is)),
        _ => false,
    }
}
