//! Where an implementation is known not to do as DynamoDB does.

use serde_json::{Value as Json, json};

/// A request, and what two of its answers came to.
pub(crate) struct Answers<'a> {
    pub(crate) operation: &'a str,
    pub(crate) body: &'a Json,
    /// Without their words.
    pub(crate) ours: &'a Json,
    pub(crate) theirs: &'a Json,
}

/// Any DynamoDB behind an endpoint; the one that it is compared with is ministack.
pub(crate) const REMOTE: &str = "the remote DynamoDB";

/// One that is made allowance for.
struct Deviation {
    engine: &'static str,
    /// What it does, and what DynamoDB does.
    what: &'static str,
    is: fn(&Answers<'_>) -> bool,
    met: usize,
}

/// All that are made allowance for. Each has to be met: one that is no longer there does not stay in the list.
pub(crate) struct Deviations(Vec<Deviation>);

impl Default for Deviations {
    fn default() -> Self {
        let of = |engine, what, is| Deviation {
            engine,
            what,
            is,
            met: 0,
        };
        Self(vec![
            of(
                "dynoxide",
                "UpdateItem that makes an item answers ALL_OLD with the key; in DynamoDB there is no item as it was before",
                |answers| {
                    answers.operation == "UpdateItem"
                        && answers.body["ReturnValues"] == "ALL_OLD"
                        && answers.ours.get("Attributes").is_none()
                        && answers.theirs["Attributes"] == answers.body["Key"]
                },
            ),
            of(
                REMOTE,
                "UpdateItem of attributes that there were not answers UPDATED_OLD with an empty map; DynamoDB with none",
                |answers| {
                    let mut theirs = answers.theirs.clone();
                    answers.operation == "UpdateItem"
                        && answers.body["ReturnValues"] == "UPDATED_OLD"
                        && taken(&mut theirs, "Attributes") == Some(json!({}))
                        && theirs == *answers.ours
                },
            ),
            of(
                REMOTE,
                "TransactWriteItems refuses an expression before a token in use; what DynamoDB does, it does not say",
                |answers| {
                    answers.operation == "TransactWriteItems"
                        && answers.ours["__type"] == "IdempotentParameterMismatchException"
                        && answers.theirs["__type"] == "ValidationException"
                },
            ),
        ])
    }
}

impl Deviations {
    /// Whether the two answers differ as is known of the engine.
    pub(crate) fn explain(&mut self, engine: &str, answers: &Answers<'_>) -> bool {
        let mut all = self.0.iter_mut();
        let Some(found) = all.find(|one| one.engine == engine && (one.is)(answers)) else {
            return false;
        };
        found.met += 1;
        true
    }

    /// Those of an engine, and how often each was met.
    pub(crate) fn of(&self, engine: &str) -> Vec<(&'static str, usize)> {
        let all = self.0.iter().filter(|one| one.engine == engine);
        all.map(|one| (one.what, one.met)).collect()
    }
}

/// A member of an object, which is then without it.
fn taken(json: &mut Json, name: &str) -> Option<Json> {
    json.as_object_mut().and_then(|object| object.remove(name))
}
