//! Settings of the consumer and its build.

use super::{Problem, Setting, words};
use crate::consumers::Consumer;
use crate::field::Field;
use crate::manifest::Aborting;
use crate::model::{Deployment, Function, Queue};
use crate::remedy::Remedy;
use crate::variables::{duration_from, is_unknown, nearest, switch_from};
use std::time::Duration;

pub(super) const DAY: u64 = 24 * 3600;

/// How long the library remembers keys without a setting.
const DEFAULT_RETENTION: Duration = Duration::from_secs(28 * DAY);

pub(super) const RETENTION: &str = "SQS_ONCE_RETENTION";

/// How long a message lives in a queue, in its dead-letter queue, and in the queue after a redrive.
pub(super) fn lives(deployment: &Deployment, queue: &Queue) -> Option<[Duration; 3]> {
    let source = queue.retained()?;
    match deployment.queue(&queue.dead_letter_queue) {
        Some(dead_letters) => Some([source, dead_letters.retained()?, source]),
        None if queue.dead_letter_queue.is_missing() => {
            Some([source, Duration::ZERO, Duration::ZERO])
        }
        None => None,
    }
}

pub(super) fn retention(deployment: &Deployment, consumer: Consumer<'_>) -> Option<Problem> {
    let (function, queue) = consumer.function.zip(consumer.queue)?;
    let variable = function.variable(RETENTION);
    let (kept, default) = match variable {
        Field::Missing if function.uses_sqs_once() => (DEFAULT_RETENTION, " by default"),
        _ => (duration_from(variable.known()?)?, ""),
    };
    let [source, dead_letters, redriven] = lives(deployment, queue)?;
    let needed = source + dead_letters + redriven;
    let days = in_days(needed);
    let message = format!(
        "The function {} remembers keys for {}{default}; a message of the queue {} lives up to {} in it, {} in its dead-letter \
         queue and {} after a redrive.",
        function.site.id,
        words(kept),
        queue.site.id,
        words(source),
        words(dead_letters),
        words(redriven)
    );
    (kept < needed).then(|| Problem::variable(variable, function, RETENTION, &days, message))
}

/// A retention of at least this duration.
pub(super) fn in_days(needed: Duration) -> String {
    format!("{}d", needed.as_secs().div_ceil(DAY))
}

pub(super) fn disabled(function: &Function) -> Option<Problem> {
    const NAME: &str = "SQS_ONCE_DISABLED";
    let field = function.variable(NAME);
    let id = &function.site.id;
    let message = format!("The function {id} recognises no duplicates.");
    let is_set = switch_from(&field.known()?.trim().to_ascii_lowercase())?;
    is_set.then(|| Problem::variable(field, function, NAME, "false", message))
}

pub(super) fn unknown(
    (function, name, field): (&Function, &String, &Field<String>),
) -> Option<Problem> {
    let place = function.site.place_of(field);
    let id = &function.site.id;
    let mut message = format!("The function {id} has {name}, which is no variable of sqs-once.");
    if let Some(meant) = nearest(name) {
        message.push_str(&format!(" It may stand for {meant}."));
    }
    let remedy = Remedy::Advice("Rename the variable, or remove it.");
    is_unknown(name).then(|| Problem::at(place, message, remedy))
}

pub(super) fn timeout_missing(function: &Function) -> Option<Problem> {
    let (field, site) = (&function.timeout, &function.site);
    let message = format!("The function {} has no timeout of its own.", site.id);
    let setting = Setting(&["Timeout"], "timeout = {}");
    let problem = Problem::set(field, site, setting, 30, message);
    // The right value depends on how long the function takes for a batch.
    let is_missing = function.uses_sqs_once() && function.timeout.is_missing();
    is_missing.then(|| problem.by_hand())
}

pub(super) fn deadline_margin(function: &Function) -> Option<Problem> {
    const NAME: &str = "SQS_ONCE_DEADLINE_MARGIN";
    let field = function.variable(NAME);
    let margin = duration_from(field.known()?)?;
    let timeout = function.timeout.or(Duration::from_secs(3))?;
    let (id, stops, ends) = (&function.site.id, words(margin), words(timeout));
    let message =
        format!("The function {id} stops {stops} before its deadline, and its timeout is {ends}.");
    (margin >= timeout).then(|| Problem::variable(field, function, NAME, "1s", message).by_hand())
}

pub(super) fn password(
    (function, name, field): (&Function, &String, &Field<String>),
) -> Option<Problem> {
    const PASSWORD: &str = "PGPASSWORD";
    const TOKEN: &str = "postgresql://USER@HOST/DATABASE?auth=iam";
    let place = match field {
        Field::Known(value, place) if name == PASSWORD || has_password(value) => place,
        // Even a password that the template only references is in the environment after deployment.
        Field::Unknown if name == PASSWORD => &function.site.place,
        _ => return None,
    };
    let (field, variable) = match name == PASSWORD {
        true => (&Field::Missing, "DATABASE_URL"),
        false => (field, name.as_str()),
    };
    let id = &function.site.id;
    let message = format!("The function {id} has a password in {name}.");
    let mut problem = Problem::variable(field, function, variable, TOKEN, message);
    problem.place = place.clone();
    // The user must create the database user and grant the permission.
    Some(problem.by_hand())
}

/// Whether the text is a PostgreSQL connection string with a password, as a URL or as `key=value` pairs.
fn has_password(text: &str) -> bool {
    let mut schemes = ["postgresql://", "postgres://"].into_iter();
    let Some(url) = schemes.find_map(|scheme| text.strip_prefix(scheme)) else {
        let has = |start: &str| text.split_whitespace().any(|pair| pair.starts_with(start));
        return has("host=") && has("password=");
    };
    let user = url.split_once('@').map_or("", |(user, _)| user);
    let password = user.split_once(':').map_or("", |(_, password)| password);
    let parameters = url.split_once('?').map_or("", |(_, parameters)| parameters);
    let mut parameters = parameters.split('&');
    !password.is_empty() || parameters.any(|one| one.starts_with("password="))
}

pub(super) fn panic_abort(deployment: &Deployment) -> Vec<Problem> {
    // Programs other than Lambda functions may abort on panic.
    let mut functions = deployment.consuming_functions();
    let is_native = |runtime: &String| runtime.starts_with("provided");
    if !functions.any(|function| function.runtime.known().is_none_or(is_native)) {
        return Vec::new();
    }
    let mut problems = Vec::new();
    for manifest in &deployment.manifests {
        for Aborting { profile, place, .. } in &manifest.aborting {
            let message = format!("The profile {profile} sets panic = \"abort\".");
            let (path, profile) = (manifest.path.clone(), profile.clone());
            let remedy = Remedy::Manifest { path, profile };
            problems.push(Problem::at(place, message, remedy));
        }
    }
    problems
}
