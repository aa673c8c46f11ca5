//! The attribute's options: `key = …, namespace = "…", …`.

mod values;

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream};
use syn::{Error, Expr, Ident, Result, Token, Type};

use crate::spelling::nearest;

/// Each option with a value to show in messages.
const EXAMPLES: [(&str, &str); 30] = [
    ("key", "order.order_id"),
    ("decode", "Text"),
    ("envelope", "(Sns, EventBridge)"),
    ("correlation_id", "request_id"),
    ("namespace", "\"payments\""),
    ("concurrency", "16"),
    ("lease_margin", "\"3s\""),
    ("deadline_margin", "\"1s\""),
    ("record_timeout", "\"10s\""),
    ("retain", "\"28d\""),
    ("mode", "record_after"),
    ("claim", "first"),
    ("fingerprint", "order.amount_cents"),
    ("payload_mismatch", "reject"),
    ("missing_key", "retry"),
    ("readable_keys", "true"),
    ("key_codec", "keys_of_python()"),
    ("key_secret", "secret()"),
    ("also_read", "keys_before()"),
    ("cache", "1000"),
    ("requests", "single"),
    ("in_progress", "wait(\"5s\")"),
    ("fifo", "return_batch"),
    ("raise_on_total_failure", "true"),
    ("on_success", "reply"),
    ("on_duplicate", "reply"),
    ("on_failure", "alarm"),
    ("backoff", "exponential(\"2s\", \"15m\")"),
    ("after_dead_letter", "go_on"),
    ("state", "App"),
];

/// The options that `sqs-once` has only with its feature `sqs`, which is this crate's as well.
const OF_SQS: [&str; 2] = ["backoff", "after_dead_letter"];

/// What the consumer has a method for, and each deployment a value of its own in this variable.
const OF_DEPLOYMENT: [(&str, &str); 7] = [
    ("store", "SQS_ONCE_TABLE"),
    ("dead_letter_queue", "SQS_ONCE_DLQ_URL"),
    ("queue_url", "SQS_ONCE_QUEUE_URL"),
    ("visibility_timeout", "SQS_ONCE_VISIBILITY_TIMEOUT"),
    ("service", "SQS_ONCE_SERVICE"),
    ("record_level", "SQS_ONCE_RECORD_LEVELS"),
    ("metrics", "SQS_ONCE_METRICS"),
];

/// What the attribute says, checked as far as its text alone allows.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) key: Option<Expr>,
    decode: Option<Expr>,
    pub(crate) fingerprint: Option<Expr>,
    pub(crate) state: Option<Type>,
    /// The consumer's methods to call for the others.
    pub(crate) settings: Vec<TokenStream>,
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
        errors.extend(two_modes(&seen));
        let combined = errors.into_iter().reduce(|mut all, error| {
            all.combine(error);
            all
        });
        combined.map_or(Ok(options), Err)
    }
}

impl Options {
    /// The call that starts the consumer.
    pub(crate) fn start(&self, payload: &Type) -> TokenStream {
        match &self.decode {
            Some(decoder) => quote!(::sqs_once::consumer_with::<#payload>(#decoder)),
            None => quote!(::sqs_once::consumer::<#payload>()),
        }
    }

    fn read(&mut self, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        let option = name.to_string();
        available(name, cfg!(feature = "sqs"))?;
        match &*option {
            "key" => self.key = Some(value(name, input)?),
            "fingerprint" => self.fingerprint = Some(value(name, input)?),
            "decode" => self.decode = Some(code(name, input)?),
            "state" => self.state = Some(value(name, input)?),
            _ => self.settings.push(setting(name, input)?),
        }
        Ok(())
    }
}

/// The method to call on the consumer for an option.
fn setting(name: &Ident, input: ParseStream<'_>) -> Result<TokenStream> {
    let option = name.to_string();
    let value = || value::<Expr>(name, input);
    Ok(match &*option {
        "namespace" => {
            let namespace = values::namespace(&value()?)?;
            quote!(.namespace(#namespace))
        }
        "concurrency" => {
            let concurrency = values::count(&option, &value()?, 16)?;
            quote!(.concurrency(#concurrency))
        }
        "retain" => {
            let retain = values::retain(&value()?)?;
            quote!(.retention(#retain))
        }
        "lease_margin" => {
            let margin = values::duration(&option, &value()?)?;
            quote!(.lease_margin(#margin))
        }
        "deadline_margin" => {
            let problem = "Lambda would end the function before its answer is out";
            let margin = values::positive(&option, &value()?, problem)?;
            quote!(.deadline_margin(#margin))
        }
        "record_timeout" => {
            let problem = "every handler would be cancelled at once; without the option they may run until \
                           the deadline is near";
            let timeout = values::positive(&option, &value()?, problem)?;
            quote!(.record_timeout(#timeout))
        }
        "mode" => {
            let mode = values::choice(&option, &value()?, &values::MODES)?;
            quote!(.mode(::sqs_once::policy::Mode::#mode))
        }
        "claim" => {
            values::claim(&value()?)?;
            quote!(.mode(::sqs_once::policy::Mode::ClaimFirst))
        }
        "payload_mismatch" => {
            let mismatch = values::choice(&option, &value()?, &values::PAYLOAD_MISMATCHES)?;
            quote!(.payload_mismatch(::sqs_once::policy::PayloadMismatch::#mismatch))
        }
        "missing_key" => {
            let missing_key = values::choice(&option, &value()?, &values::MISSING_KEYS)?;
            quote!(.missing_key(::sqs_once::policy::MissingKey::#missing_key))
        }
        "readable_keys" => {
            let readable = values::choice(&option, &value()?, &values::SWITCH)?;
            quote!(.readable_keys(#readable))
        }
        "cache" => {
            let cache = values::cache(&value()?)?;
            quote!(.cache(::sqs_once::policy::Cache::#cache))
        }
        "requests" => {
            let requests = values::choice(&option, &value()?, &values::REQUESTS)?;
            quote!(.requests(::sqs_once::policy::Requests::#requests))
        }
        "in_progress" => {
            let policy = values::in_progress(&value()?)?;
            quote!(.in_progress(::sqs_once::policy::InProgress::#policy))
        }
        "fifo" => {
            let failure = values::choice(&option, &value()?, &values::FIFO_FAILURES)?;
            quote!(.fifo(::sqs_once::policy::FifoFailure::#failure))
        }
        "raise_on_total_failure" => {
            let raise = values::choice(&option, &value()?, &values::SWITCH)?;
            quote!(.raise_on_total_failure(#raise))
        }
        "envelope" | "correlation_id" | "key_codec" | "key_secret" | "also_read" | "on_success"
        | "on_duplicate" | "on_failure" => {
            let code = code(name, input)?;
            quote!(.#name(#code))
        }
        "backoff" => {
            let backoff = values::backoff(&value()?)?;
            quote!(.backoff(::sqs_once::policy::Backoff::#backoff))
        }
        "after_dead_letter" => {
            let after = values::choice(&option, &value()?, &values::AFTER_DEAD_LETTERS)?;
            quote!(.after_dead_letter(::sqs_once::policy::AfterDeadLetter::#after))
        }
        unknown => return Err(unknown_option(unknown, name.span())),
    })
}

/// Refuses two options that both set the mode.
fn two_modes(seen: &[Ident]) -> Option<Error> {
    let claim = seen.iter().find(|name| *name == "claim")?;
    seen.iter().find(|name| *name == "mode")?;
    Some(Error::new(
        claim.span(),
        "`claim = first` is another name of `mode = claim_first`: keep one of `claim` and `mode`",
    ))
}

/// Refuses an option that `sqs-once` was built without.
fn available(name: &Ident, has_sqs: bool) -> Result<()> {
    if has_sqs || !OF_SQS.iter().any(|option| name == option) {
        return Ok(());
    }
    Err(Error::new(
        name.span(),
        format!(
            "`{name}` needs SQS's client: enable the feature `sqs` of sqs-once in Cargo.toml, \
             `features = [\"sqs\"]`"
        ),
    ))
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

/// A value that is the user's own code, whose type the consumer's method checks.
fn code(name: &Ident, input: ParseStream<'_>) -> Result<Expr> {
    let code = value(name, input)?;
    values::code(&name.to_string(), &code, example(name))?;
    Ok(code)
}

fn value<T: Parse>(name: &Ident, input: ParseStream<'_>) -> Result<T> {
    let equals: Option<Token![=]> = input.parse()?;
    if equals.is_none() || input.is_empty() || input.peek(Token![,]) {
        let example = example(name);
        return Err(Error::new(
            name.span(),
            format!("`{name}` needs a value: `{name} = {example}`"),
        ));
    }
    input.parse()
}

fn example(name: &Ident) -> &'static str {
    let example = EXAMPLES.iter().find(|(option, _)| name == option);
    example.map_or("…", |(_, example)| example)
}

/// Goes on to the next comma, past a value that is not wanted.
fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

fn unknown_option(name: &str, span: Span) -> Error {
    if let Some((_, variable)) = OF_DEPLOYMENT.iter().find(|(method, _)| *method == name) {
        let help = format!(
            "`{name}` is no option, since it differs from one deployment to the next: set `{variable}`, or \
             call `.{name}(…)` on the consumer"
        );
        return Error::new(span, help);
    }
    let known = EXAMPLES.map(|(option, _)| option);
    let help = match nearest(name, known) {
        Some(meant) => format!("did you mean `{meant}`?"),
        None => format!("the options are `{}`", known.join("`, `")),
    };
    Error::new(span, format!("unknown option `{name}`: {help}"))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use super::*;

    #[test]
    fn the_attributes_docs_and_the_guide_list_every_option() {
        let pages = [
            include_str!("lib.rs"),
            include_str!("../../../docs/options.md"),
        ];
        for (option, example) in EXAMPLES {
            let row = format!("| `{option} = {example}`");
            for page in pages {
                assert!(page.contains(&row), "a page has no row {row}");
            }
        }
    }

    #[test]
    fn an_option_of_the_feature_sqs_names_the_feature_where_it_is_off() {
        for option in OF_SQS {
            let name = Ident::new(option, Span::call_site());
            assert!(available(&name, true).is_ok());
            let error = available(&name, false).unwrap_err().to_string();
            assert!(
                error.contains("enable the feature `sqs` of sqs-once"),
                "{error}"
            );
        }
        let name = Ident::new("concurrency", Span::call_site());
        assert!(available(&name, false).is_ok());
    }
}
