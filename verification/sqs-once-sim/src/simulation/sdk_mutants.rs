//! Removes guards from requests before they arrive.

use serde_json::Value as Json;

use super::mutant::Mutant;

impl Mutant {
    /// The mutants that also exist beneath the SDK, as conditions removed from requests.
    pub(super) const IN_REQUESTS: [Self; 11] = [
        Self::CompleteOthers,
        Self::ReleaseOthers,
        Self::ClaimCompleted,
        Self::ClaimLeased,
        Self::ClaimOwnLapsed,
        Self::ClaimFenceAlone,
        Self::ClaimStateAlone,
        Self::FenceStays,
        Self::CommitTwice,
        Self::CommitOverAll,
        Self::CommitOverClaims,
    ];
}

/// Removes a guard from a request that contains it.
pub(super) fn without_guard(mutant: Mutant, body: &mut Json) {
    match body {
        Json::Object(object) if object.contains_key("ConditionExpression") => {
            for text in ["ConditionExpression", "UpdateExpression"] {
                if let Some(Json::String(text)) = object.get_mut(text) {
                    *text = changed(mutant, text);
                }
            }
            // DynamoDB refuses values that no expression uses.
            let texts =
                ["ConditionExpression", "UpdateExpression"].map(|text| object[text].to_string());
            if let Some(Json::Object(values)) = object.get_mut("ExpressionAttributeValues") {
                values.retain(|name, _| texts.iter().any(|text| uses(text, name)));
            }
        }
        Json::Object(object) => {
            if let Some(Json::String(text)) = object.get_mut("Statement") {
                *text = changed_statement(mutant, text);
            }
            object
                .values_mut()
                .for_each(|value| without_guard(mutant, value));
        }
        Json::Array(list) => list
            .iter_mut()
            .for_each(|value| without_guard(mutant, value)),
        _ => {}
    }
}

const MINE: &str = "#owner = :me";
const ANYONES: &str = "(#owner = :me OR attribute_exists(#owner))";

fn changed(mutant: Mutant, text: &str) -> String {
    let is_release = text == "#owner = :me AND #status = :inprogress";
    // The claim of a single key that, as far as the worker knows, has no item. Its status is `:status`.
    let is_new = text == "attribute_not_exists(#id)";
    let over = text.strip_prefix("#fence = :seen AND ");
    let is_commit = text.starts_with("attribute_not_exists") && text.contains(MINE);
    match mutant {
        Mutant::CompleteOthers if text == MINE => ANYONES.to_owned(),
        Mutant::ReleaseOthers if is_release => text.replace(MINE, ANYONES),
        Mutant::ClaimCompleted if is_new => format!("{text} OR #status <> :status"),
        Mutant::ClaimLeased if is_new => format!("{text} OR #status = :status"),
        Mutant::ClaimOwnLapsed if is_new => {
            format!("{text} OR (#status = :status AND #owner = :me)")
        }
        Mutant::ClaimFenceAlone if over.is_some() => "#fence = :seen".to_owned(),
        Mutant::ClaimStateAlone => over.unwrap_or(text).to_owned(),
        Mutant::FenceStays => text.replace(
            "if_not_exists(#fence, :before_first) + :step",
            "if_not_exists(#fence, :before_first)",
        ),
        Mutant::CommitTwice if is_commit => text.replace(
            "#status = :completed AND",
            "#status = :completed AND #owner = :me OR #status = :completed AND",
        ),
        Mutant::CommitOverClaims if is_commit => text.replace(
            "#status = :inprogress AND",
            "#status = :inprogress OR #status = :inprogress AND",
        ),
        Mutant::CommitOverAll if is_commit => format!("attribute_exists(#id) OR {text}"),
        _ => text.to_owned(),
    }
}

fn changed_statement(mutant: Mutant, text: &str) -> String {
    let releases = text.contains(r#" AND "owner"=? AND "status"=?"#);
    let is_changed = match mutant {
        Mutant::CompleteOthers => !releases,
        Mutant::ReleaseOthers => releases,
        _ => false,
    };
    match is_changed {
        true => text.replace(
            r#""owner"=?"#,
            r#"("owner"=? OR attribute_exists("owner"))"#,
        ),
        false => text.to_owned(),
    }
}

/// Whether an expression uses exactly this placeholder, and not only a longer one that starts with it.
fn uses(text: &str, name: &str) -> bool {
    text.match_indices(name).any(|(at, _)| {
        let next = text[at + name.len()..].chars().next();
        next.is_none_or(|next| !next.is_ascii_alphanumeric() && next != '_')
    })
}
