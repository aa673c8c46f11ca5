//! The attribute's options: `key = …, namespace = "…", …`.

use std::time::Duration;

use proc_macro2::{Span, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token, Type};

use crate::spelling::nearest;

/// Each option with a value to show in messages.
const EXAMPLES: [(&str, &str); 10] = [
    ("key", "order.order_id"),
    ("namespace", "\"payments\""),
    ("concurrency", "16"),
    ("lease_margin", "\"3s\""),
    ("retain", "\"28d\""),
    ("mode", "record_after"),
    ("fingerprint", "order.amount_cents"),
    ("payload_mismatch", "reject"),
    ("missing_key", "retry"),
    ("state", "App"),
];

/// The values of an option and the variants they stand for, the default first.
type Choices<const N: usize> = [(&'static str, &'static str); N];

const MODES: Choices<2> = [
    ("claim_first", "ClaimFirst"),
    ("record_after", "RecordAfter"),
];
const PAYLOAD_MISMATCHES: Choices<3> =
    [("warn", "Warn"), ("reject", "Reject"), ("ignore", "Ignore")];
const MISSING_KEYS: Choices<3> = [
    ("terminal", "Terminal"),
    ("process_unprotected", "ProcessUnprotected"),
    ("retry", "Retry"),
];

const MAX_NAMESPACE_LEN: usize = 255;

/// What the attribute says, checked as far as its text alone allows.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) key: Option<Expr>,
    pub(crate) namespace: Option<LitStr>,
    pub(crate) concurrency: Option<usize>,
    pub(crate) lease_margin: Option<Duration>,
    pub(crate) retain: Option<Duration>,
    /// The variant of `Mode`.
    pub(crate) mode: Option<Ident>,
    pub(crate) fingerprint: Option<Expr>,
    /// The variant of `PayloadMismatch`.
    pub(crate) payload_mismatch: Option<Ident>,
    /// The variant of `MissingKey`.
    pub(crate) missing_key: Option<Ident>,
    pub(crate) state: Option<Type>,
}

impl Parse for Options {
    /// Reads every option it can before it fails, so that one compilation shows all mistakes.
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        let mut errors: Vec<Error> = Vec::new();
        while !input.is_empty() {
            let name = option_name(input)?;
            if seen.contains(&name) {
                errors.push(Error::new(
                    name.span(),
                    format!("`{name}` is given twice: keep one of them"),
                ));
                skip_value(input)?;
            } else if let Err(error) = options.read(&name, input) {
                errors.push(error);
                skip_value(input)?;
            }
            seen.push(name);
            if !input.is_empty() {
                input.parse::<Token![,]>()?;
            }
        }
        let combined = errors.into_iter().reduce(|mut all, error| {
            all.combine(error);
            all
        });
        combined.map_or(Ok(options), Err)
    }
}

impl Options {
    fn read(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        match name.to_string().as_str() {
            "key" => self.key = Some(value(name, input)?),
            "namespace" => self.namespace = Some(namespace(&value(name, input)?)?),
            "concurrency" => self.concurrency = Some(concurrency(&value(name, input)?)?),
            "lease_margin" => self.lease_margin = Some(duration(name, &value(name, input)?)?),
            "retain" => self.retain = Some(retain(name, &value(name, input)?)?),
            "mode" => self.mode = Some(choice(name, &value(name, input)?, &MODES)?),
            "fingerprint" => self.fingerprint = Some(value(name, input)?),
            "payload_mismatch" => {
                let value = value(name, input)?;
                self.payload_mismatch = Some(choice(name, &value, &PAYLOAD_MISMATCHES)?);
            }
            "missing_key" => {
                let value = value(name, input)?;
                self.missing_key = Some(choice(name, &value, &MISSING_KEYS)?);
            }
            "state" => self.state = Some(value(name, input)?),
            unknown => return Err(unknown_option(unknown, name.span())),
        }
        Ok(())
    }
}

fn option_name(input: ParseStream<'_>) -> Result<Ident> {
    let is_option = input.peek(Ident::peek_any) && (input.peek2(Token![=]) || is_last(input));
    if is_option {
        return Ident::parse_any(input);
    }
    Err(input.error("expected `option = value`, such as `key = order.order_id`"))
}

/// Whether a name stands alone, its value forgotten.
fn is_last(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    Ident::parse_any(&ahead).is_ok() && (ahead.is_empty() || ahead.peek(Token![,]))
}

fn value<T: Parse>(name: &Ident, input: ParseStream<'_>) -> Result<T> {
    let equals: Option<Token![=]> = input.parse()?;
    if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
        let example = EXAMPLES.iter().find(|(option, _)| name == option);
        let example = example.map_or("…", |(_, example)| example);
        return Err(Error::new(
            name.span(),
            format!("`{name}` needs a value: `{name} = {example}`"),
        ));
    }
    input.parse()
}

/// Goes on to the next comma, past a value that is not wanted.
fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn unknown_option(name: &str, span: Span) -> Error {
    let known = EXAMPLES.map(|(option, _)| option);
    let help = match nearest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the options are `{}`", known.join("`, `")),
    };
    Error::new(span, format!("unknown option `{name}`: {help}"))
}

fn namespace(value: &Expr) -> Result<LitStr> {
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

fn concurrency(value: &Expr) -> Result<usize> {
    if let Some(Lit::Int(number)) = literal(value)
        && let Ok(number @ 1..) = number.base10_parse()
    {
        return Ok(number);
    }
    let help = match literal(value) {
        Some(Lit::Str(text)) if text.value().parse::<usize>().is_ok_and(|number| number > 0) => {
            format!("write `concurrency = {}`, without quotes", text.value())
        }
        _ => "at least 1, such as `concurrency = 16`".to_owned(),
    };
    Err(Error::new_spanned(
        value,
        format!("`concurrency` is a whole number: {help}"),
    ))
}

fn retain(name: &Ident, value: &Expr) -> Result<Duration> {
    let retain = duration(name, value)?;
    if retain.is_zero() {
        return Err(Error::new_spanned(
            value,
            "`retain` can't be zero: no duplicate would be recognised; it should be longer than a message \
             lives in the queue and its DLQ, such as \"28d\"",
        ));
    }
    Ok(retain)
}

fn duration(name: &Ident, value: &Expr) -> Result<Duration> {
    if let Some(duration) = string(value).and_then(|text| parse_duration(&text.value())) {
        return Ok(duration);
    }
    let help = match literal(value) {
        Some(Lit::Int(number)) if parse_duration(&number.to_string()).is_some() => {
            format!(": write `{name} = \"{number}\"`, in quotes")
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

/// The variant that a word stands for.
fn choice(name: &Ident, value: &Expr, choices: &[(&str, &str)]) -> Result<Ident> {
    let quoted = string(value);
    let written = quoted.map_or_else(|| value.to_token_stream().to_string(), LitStr::value);
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

/// The literal that an expression is. A macro's `$value:expr` arrives in an invisible group.
fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        Expr::Group(group) => literal(&group.expr),
        _ => None,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Some(text),
        _ => None,
    }
}
