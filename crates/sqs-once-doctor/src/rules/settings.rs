//! Settings of the consumer and its build.

use super::{Problem, words};
use crate::field::Field;
use crate::model::{Deployment, Function};
use crate::remedy::Remedy;
use std::time::Duration;

const DAY: u64 = 24 * 3600;

pub(super) fn retention(deployment: &Deployment) -> Vec<Problem> {
    const NAME: &str = "SQS_ONCE_RETENTION";
    let mut problems = Vec::new();
    for consumer in deployment.consumers() {
        let Some((function, queue)) = consumer.function.zip(consumer.queue) else {
            continue;
        };
        let variable = function.variable(NAME);
        let Some(text) = variable.known() else {
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
        let message = format!(
            "The function {} remembers keys for {}; a message of the queue {} lives up to {} in it and {} in its \
             dead-letter queue.",
            function.site.id,
            words(kept),
            queue.site.id,
            words(source),
            words(dead_letters)
        );
        problems.push(Problem::variable(variable, function, NAME, &days, message));
    }
    problems
}

pub(super) fn disabled(deployment: &Deployment) -> Vec<Problem> {
    const NAME: &str = "SQS_ONCE_DISABLED";
    let problem = |function: &Function| {
        let field = function.variable(NAME);
        let message = format!(
            "The function {} recognises no duplicates.",
            function.site.id
        );
        let is_set = field.known()?.eq_ignore_ascii_case("true");
        is_set.then(|| Problem::variable(field, function, NAME, "false", message))
    };
    deployment
        .consuming_functions()
        .filter_map(problem)
        .collect()
}

pub(super) fn timeout_missing(deployment: &Deployment) -> Vec<Problem> {
    deployment
        .consuming_functions()
        .filter(|function| function.uses_sqs_once() && function.timeout.is_missing())
        .map(|function| {
            let problem = Problem::set(
                &function.timeout,
                &function.site,
                &["Timeout"],
                30,
                "timeout = 30",
                format!(
                    "The function {} has no timeout of its own.",
                    function.site.id
                ),
            );
            // The right value depends on how long the function takes for a batch.
            problem.by_hand()
        })
        .collect()
}

pub(super) fn deadline_margin(deployment: &Deployment) -> Vec<Problem> {
    const NAME: &str = "SQS_ONCE_DEADLINE_MARGIN";
    let problem = |function: &Function| {
        let field = function.variable(NAME);
        let margin = duration(field.known()?)?;
        let timeout = function.timeout.or(Duration::from_secs(3))?;
        let message = format!(
            "The function {} stops {} before its deadline, and its timeout is {}.",
            function.site.id,
            words(margin),
            words(timeout)
        );
        (margin >= timeout)
            .then(|| Problem::variable(field, function, NAME, "1s", message).by_hand())
    };
    deployment
        .consuming_functions()
        .filter_map(problem)
        .collect()
}

pub(super) fn password(deployment: &Deployment) -> Vec<Problem> {
    const PASSWORD: &str = "PGPASSWORD";
    const TOKEN: &str = "postgresql://USER@HOST/DATABASE?auth=iam";
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
            let message = format!(
                "The function {} has a password in {name}.",
                function.site.id
            );
            // The user must create the database user and grant the permission.
            let mut problem =
                Problem::variable(field, function, variable, TOKEN, message).by_hand();
            problem.place = place.clone();
            problems.push(problem);
        }
    }
    problems
}

/// Whether the text is a PostgreSQL connection string with a password, as a URL or as `key=value` pairs.
fn has_password(text: &str) -> bool {
    let mut schemes = ["postgresql://", "postgres://"].into_iter();
    let Some(url) = schemes.find_map(|scheme| text.strip_prefix(scheme)) else {
        let has = |start: &str| text.split_whitespace().any(|pair| pair.starts_with(start));
        return has("host=") && has("password=");
    };
    let user = url
        .split_once('@')
        .and_then(|(user, _)| user.split_once(':'));
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    user.is_some_and(|(_, password)| !password.is_empty())
        || parameters
            .split('&')
            .any(|one| one.starts_with("password="))
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
