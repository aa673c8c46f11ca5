//! The options' values, checked as far as their text alone allows.

use std::time::Duration;

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result};

use crate::spelling::nearest;

/// The values of an option and the variants they stand for, the default first.
type Choices<const N: usize> = [(&'static str, &'static str); N];

pub(super) const MODES: Choices<3> = [
    ("claim_first", "ClaimFirst"),
    ("record_after", "RecordAfter"),
    ("transactional", "Transactional"),
];
pub(super) const PAYLOAD_MISMATCHES: Choices<3> =
    [("warn", "Warn"), ("reject", "Reject"), ("ignore", "Ignore")];
pub(super) const MISSING_KEYS: Choices<3> = [
    ("terminal", "Terminal"),
    ("process_unprotected", "ProcessUnprotected"),
    ("retry", "Retry"),
];
pub(super) const FIFO_FAILURES: Choices<3> = [
    ("return_group", "ReturnGroup"),
    ("return_batch", "ReturnBatch"),
    // What strict ordering is called elsewhere.
    ("strict", "ReturnBatch"),
];
pub(super) const REQUESTS: Choices<2> = [("batched", "Batched"), ("single", "Single")];
/// Off or on.
pub(super) const SWITCH: Choices<2> = [("false", "false"), ("true", "true")];
pub(super) const AFTER_DEAD_LETTERS: Choices<2> = [("stop", "Stop"), ("go_on", "GoOn")];

const MAX_NAMESPACE_LEN: usize = 255;
const WAIT: &str = "`wait` has a longest time: `in_progress = wait(\"5s\")`";
const SHORTEST_RETENTION: Duration = Duration::from_secs(1);

pub(super) fn namespace(value: &Expr) -> Result<LitStr> {
    let Some(text) = string(value) else {
        return Err(Error::new_spanned(
            value,
            "`namespace` is a string literal: `namespace = \"payments\"`",
        ));
    };
    let name = text.value();
    let problem = if name.trim().is_empty() {
        "`namespace` is empty: name the consumer, such as \"payments\", or leave the option out"
            .to_owned()
    } else if name.contains('#') {
        format!(
            "`namespace` can't hold a `#`, which ends it in the table: \"{}\"",
            name.replace('#', "-")
        )
    } else if name.len() > MAX_NAMESPACE_LEN {
        format!(
            "`namespace` has {} bytes: at most {MAX_NAMESPACE_LEN} are allowed",
            name.len()
        )
    } else {
        return Ok(text.clone());
    };
    Err(Error::new_spanned(value, problem))
}

/// A number from 1 on, with one to show in messages.
pub(super) fn count(name: &str, value: &Expr, example: usize) -> Result<usize> {
    if let Some(Lit::Int(number)) = literal(value)
        && let Ok(number @ 1..) = number.base10_parse()
    {
        return Ok(number);
    }
    let help = match literal(value) {
        Some(Lit::Str(text)) if text.value().parse::<usize>().is_ok_and(|number| number > 0) => {
            format!("write `{name} = {}`, without quotes", text.value())
        }
        _ => format!("at least 1, such as `{name} = {example}`"),
    };
    Err(Error::new_spanned(
        value,
        format!("`{name}` is a whole number: {help}"),
    ))
}

/// The call that makes a `Cache`: of so many keys, or of so many for so long.
pub(super) fn cache(value: &Expr) -> Result<TokenStream> {
    let Expr::Tuple(pair) = ungrouped(value) else {
        let keys = count("cache", value, 1000)?;
        return Ok(quote!(of(#keys)));
    };
    let mut parts = pair.elems.iter();
    let (Some(keys), Some(expiry), None) = (parts.next(), parts.next(), parts.next()) else {
        return Err(Error::new_spanned(
            value,
            "`cache` is a number of keys, and how long they are remembered: `cache = (1000, \"1m\")`",
        ));
    };
    let keys = count("cache", keys, 1000)?;
    let expiry = positive("cache", expiry, "nothing would be remembered")?;
    Ok(quote!(of(#keys).expiring_after(#expiry)))
}

/// Refuses a literal where code is meant, with some to show in messages.
pub(super) fn code(name: &str, value: &Expr, example: &str) -> Result<()> {
    if literal(value).is_none() {
        return Ok(());
    }
    Err(Error::new_spanned(
        value,
        format!(
            "`{name}` names a value or a function of your code, without quotes: `{name} = {example}`"
        ),
    ))
}

pub(super) fn retain(value: &Expr) -> Result<Constant> {
    let retain = duration("retain", value)?;
    if retain.0 < SHORTEST_RETENTION {
        return Err(Error::new_spanned(
            value,
            "`retain` is one second at least: no duplicate would be recognised; it should be as long as a \
             message can live in the queue and its DLQ, such as \"28d\"",
        ));
    }
    Ok(retain)
}

/// A duration that is not zero, which would be a `problem`.
pub(super) fn positive(name: &str, value: &Expr, problem: &str) -> Result<Constant> {
    let duration = duration(name, value)?;
    if duration.0.is_zero() {
        let message = format!("`{name}` can't be zero: {problem}");
        return Err(Error::new_spanned(value, message));
    }
    Ok(duration)
}

/// The variant of `InProgress`.
pub(super) fn in_progress(value: &Expr) -> Result<TokenStream> {
    if let Some(arguments) = call("wait", value) {
        let [longest] = &arguments[..] else {
            return Err(Error::new_spanned(value, WAIT));
        };
        let problem = "not to wait is `in_progress = return_to_queue`";
        let longest = positive("wait", longest, problem)?;
        return Ok(quote!(Wait(#longest)));
    }
    match &*written(value) {
        "return_to_queue" => Ok(quote!(ReturnToQueue)),
        "wait" => Err(Error::new_spanned(value, WAIT)),
        written => {
            let help = match nearest(written, ["return_to_queue"]) {
                Some(meant) => format!("did you mean `{meant}`?"),
                None => "it is `return_to_queue` (the default) or `wait(\"5s\")`".to_owned(),
            };
            let message = format!("unknown in_progress: {help}");
            Err(Error::new_spanned(value, message))
        }
    }
}

/// The call that makes a `Backoff`.
pub(super) fn backoff(value: &Expr) -> Result<TokenStream> {
    let arguments = call("exponential", value).unwrap_or_default();
    let [floor, ceiling] = &arguments[..] else {
        return Err(Error::new_spanned(
            value,
            "`backoff` has a floor and a ceiling: `backoff = exponential(\"2s\", \"15m\")`",
        ));
    };
    let shortest = positive("floor", floor, "a backoff of zero is none")?;
    let longest = duration("ceiling", ceiling)?;
    if shortest.0 > longest.0 {
        return Err(Error::new_spanned(
            value,
            "`backoff`'s floor is above its ceiling: the shorter time comes first",
        ));
    }
    Ok(quote!(exponential(#shortest, #longest)))
}

/// A duration, which becomes the code for it.
pub(super) struct Constant(Duration);

impl ToTokens for Constant {
    fn to_tokens(&self, tokens: &mut TokenStream) {
        let (secs, nanos) = (self.0.as_secs(), self.0.subsec_nanos());
        tokens.extend(quote!(::core::time::Duration::new(#secs, #nanos)));
    }
}

pub(super) fn duration(name: &str, value: &Expr) -> Result<Constant> {
    if let Some(duration) = string(value).and_then(|text| parse_duration(&text.value())) {
        return Ok(Constant(duration));
    }
    let help = match literal(value) {
        Some(Lit::Int(number)) if parse_duration(&number.to_string()).is_some() => {
            format!(": write \"{number}\", in quotes")
        }
        _ => ", a whole number and a unit in quotes: \"500ms\", \"3s\", \"5m\", \"12h\" or \"28d\""
            .to_owned(),
    };
    Err(Error::new_spanned(
        value,
        format!("`{name}` is a duration{help}"),
    ))
}

fn parse_duration(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (number, unit) = text.split_at(digits);
    let millis_in_unit = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        _ => return None,
    };
    let number: u64 = number.parse().ok()?;
    number
        .checked_mul(millis_in_unit)
        .map(Duration::from_millis)
}

/// Accepts the one word that `claim` takes.
pub(super) fn claim(value: &Expr) -> Result<()> {
    let problem = match (string(value).map(LitStr::value), &*written(value)) {
        (None, "first") => return Ok(()),
        (Some(text), _) if text == "first" => "write `claim = first`, without quotes",
        _ => {
            "unknown claim: it is `first`, which claims the key before a handler that returns `Writes`; leave the \
             option out to claim it with the writes"
        }
    };
    Err(Error::new_spanned(value, problem))
}

/// The variant that a word stands for.
pub(super) fn choice(name: &str, value: &Expr, choices: &[(&str, &str)]) -> Result<Ident> {
    let quoted = string(value);
    let written = quoted.map_or_else(|| written(value), LitStr::value);
    let chosen = choices.iter().find(|(word, _)| *word == written);
    let problem = match (chosen, quoted) {
        (Some((_, variant)), None) => return Ok(Ident::new(variant, Span::call_site())),
        (Some(_), Some(_)) => format!("write `{name} = {written}`, without quotes"),
        (None, _) => match nearest(&written, choices.iter().map(|(word, _)| *word)) {
            Some(meant) => format!("unknown {name}: did you mean `{meant}`?"),
            None => {
                let mut words = choices.iter().map(|(word, _)| format!("`{word}`"));
                let default = words.next().unwrap_or_default();
                let others: Vec<_> = words.collect();
                let others = others.join(" or ");
                format!("unknown {name}: it is {default} (the default) or {others}")
            }
        },
    };
    Err(Error::new_spanned(value, problem))
}

fn written(value: &Expr) -> String {
    value.to_token_stream().to_string()
}

/// The arguments, if an expression calls the function `name`.
fn call(name: &str, value: &Expr) -> Option<Vec<Expr>> {
    let Expr::Call(call) = ungrouped(value) else {
        return None;
    };
    let is_meant = matches!(&*call.func, Expr::Path(path) if path.path.is_ident(name));
    is_meant.then(|| call.args.iter().cloned().collect())
}

fn literal(value: &Expr) -> Option<&Lit> {
    match ungrouped(value) {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

/// A macro's `$value:expr` arrives in an invisible group.
fn ungrouped(value: &Expr) -> &Expr {
    match value {
        Expr::Group(group) => ungrouped(&group.expr),
        _ => value,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Some(text),
        _ => None,
    }
}
