//! Settings of the consumer and its build.

use super::{Problem, words};
use crate::field::Field;
use crate::model::Deployment;
use crate::remedy::Remedy;
use serde_json::Value;
use std::time::Duration;

const DAY: u64 = 24 * 3600;

pub(super) fn retention(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let Some((function, queue)) = consumer.function.zip(consumer.queue) else {
            continue;
        };
        let variable = function.variable("SQS_ONCE_RETENTION");
        let Field::Known(text, place) = variable else {
            continue;
        };
        let dead_letters = match deployment.queue(&queue.dead_letter_queue) {
            Some(dead_letters) => dead_letters.retained(),
            None if queue.dead_letter_queue.is_missing() => Some(Duration::ZERO),
            None => None,
        };
        let Some(((kept, source), dead_letters)) =
            duration(text).zip(queue.retained()).zip(dead_letters)
        else {
            continue;
        };
        let needed = source + dead_letters;
        if kept >= needed {
            continue;
        }
        let days = format!("{}d", needed.as_secs().div_ceil(DAY));
        problems.push(Problem {
            place: place.clone(),
            message: format!(
                "The function {} remembers keys for {}; a message of the queue {} lives up to {} in it and {} in its \
                 dead-letter queue.",
                function.site.id,
                words(kept),
                queue.site.id,
                words(source),
                words(dead_letters)
            ),
            remedy: Remedy::set(
                variable,
                &function.site,
                &["Environment", "Variables", "SQS_ONCE_RETENTION"],
                days.as_str(),
                format!("SQS_ONCE_RETENTION = \"{days}\""),
            ),
        });
    }
    problems
}

pub(super) fn disabled(deployment: &Deployment) -> Vec<Problem> {
    variable(deployment, "SQS_ONCE_DISABLED", |value| {
        value.eq_ignore_ascii_case("true")
    })
    .map(|(function, field, place)| Problem {
        place,
        message: format!(
            "The function {} recognises no duplicates.",
            function.site.id
        ),
        remedy: Remedy::set(
            field,
            &function.site,
            &["Environment", "Variables", "SQS_ONCE_DISABLED"],
            Value::from("false"),
            "SQS_ONCE_DISABLED = \"false\"",
        ),
    })
    .collect()
}

pub(super) fn timeout_missing(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .consuming_functions()
        .filter(|function| function.uses_sqs_once() && function.timeout.is_missing())
        .map(|function| Problem {
            place: function.site.place.clone(),
            message: format!(
                "The function {} has no timeout of its own.",
                function.site.id
            ),
            // The right value depends on how long the function takes for a batch.
            remedy: Remedy::set(
                &function.timeout,
                &function.site,
                &["Timeout"],
                30,
                "timeout = 30",
            )
            .by_hand(),
        })
        .collect()
}

pub(super) fn deadline_margin(deployment: &Deployment) -> Vec<Problem> {
    const NAME: &str = "SQS_ONCE_DEADLINE_MARGIN";
    variable(deployment, NAME, |_| true)
        .filter_map(|(function, field, place)| {
            let margin = duration(field.known()?)?;
            let timeout = function.timeout.or(Duration::from_secs(3))?;
            (margin >= timeout).then(|| Problem {
                place,
                message: format!(
                    "The function {} stops {} before its deadline, and its timeout is {}.",
                    function.site.id,
                    words(margin),
                    words(timeout)
                ),
                remedy: Remedy::set(
                    field,
                    &function.site,
                    &["Environment", "Variables", NAME],
                    "1s",
                    format!("{NAME} = \"1s\""),
                )
                .by_hand(),
            })
        })
        .collect()
}

pub(super) fn password(deployment: &Deployment) -> Vec<Problem> {
    let mut problems = Vec::new();
    let functions = deployment.consuming_functions();
    for function in functions.filter(|function| function.uses_sqs_once()) {
        for (name, field) in &function.environment {
            let place = match field {
                Field::Known(value, place) if name == PASSWORD || has_password(value) => place,
                // Even a password that the template only references is in the environment after deployment.
                Field::Unknown if name == PASSWORD => &function.site.place,
                _ => continue,
            };
            let (field, variable) = match name == PASSWORD {
                true => (&Field::Missing, "DATABASE_URL"),
                false => (field, name.as_str()),
            };
            const TOKEN: &str = "postgresql://USER@HOST/DATABASE?auth=iam";
            problems.push(Problem {
                place: place.clone(),
                message: format!(
                    "The function {} has a password in {name}.",
                    function.site.id
                ),
                // The user must create the database user and grant the permission.
                remedy: Remedy::set(
                    field,
                    &function.site,
                    &["Environment", "Variables", variable],
                    TOKEN,
                    format!("{variable} = \"{TOKEN}\""),
                )
                .by_hand(),
            });
        }
    }
    problems
}

const PASSWORD: &str = "PGPASSWORD";

/// Whether the text is a PostgreSQL connection string with a password, as a URL or as `key=value` pairs.
fn has_password(text: &str) -> bool {
    let url = ["postgresql://", "postgres://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme));
    match url {
        Some(url) => {
            let user = url
                .split_once('@')
                .and_then(|(user, _)| user.split_once(':'));
            let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
            let mut parameters = parameters.split('&');
            user.is_some_and(|(_, password)| !password.is_empty())
                || parameters.any(|one| one.starts_with("password="))
        }
        None => {
            let pairs = || text.split_whitespace();
            pairs().any(|pair| pair.starts_with("host="))
                && pairs().any(|pair| pair.starts_with("password="))
        }
    }
}

/// The consuming functions that set the variable to such a value.
fn variable<'a>(
    deployment: &'a Deployment,
    name: &'a str,
    is_meant: impl Fn(&str) -> bool + 'a,
) -> impl Iterator<
    Item = (
        &'a crate::model::Function,
        &'a Field<String>,
        crate::field::Place,
    ),
> {
    deployment
        .consuming_functions()
        .filter_map(move |function| {
            let field = function.variable(name);
            match field {
                Field::Known(value, place) if is_meant(value) => {
                    Some((function, field, place.clone()))
                }
                _ => None,
            }
        })
}

pub(super) fn panic_abort(deployment: &Deployment) -> Vec<Problem> {
    // Programs other than Lambda functions may abort on panic.
    let mut functions = deployment.consuming_functions();
    let is_native = |runtime: &String| runtime.starts_with("provided");
    if !functions.any(|function| function.runtime.known().is_none_or(is_native)) {
        return Vec::new();
    }
    let manifests = deployment.manifests.iter();
    manifests
        .flat_map(|manifest| manifest.aborting.iter().map(move |it| (manifest, it)))
        .map(|(manifest, aborting)| Problem {
            place: aborting.place.clone(),
            message: format!("The profile {} sets panic = \"abort\".", aborting.profile),
            remedy: Remedy::Manifest {
                path: manifest.path.clone(),
                profile: aborting.profile.clone(),
            },
        })
        .collect()
}

/// Parses a duration as the library does: `500ms`, `3s`, `5m`, `12h`, `28d`.
fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|char: char| !char.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    let millis = match unit.trim() {
        "ms" => 1,
        "s" => 1000,
        "m" => 60 * 1000,
        "h" => 3600 * 1000,
        "d" => DAY * 1000,
        _ => return None,
    };
    number.checked_mul(millis).map(Duration::from_millis)
}
