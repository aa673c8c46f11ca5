//! The attribute's options: `key = …, namespace = "…", …`.

use proc_macro2::{TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::ext::IdentExt;
use syn::parse::{Parse, ParseStream, Parser};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprLit, Ident, Lit, LitStr, Result, Token, Type};

/// Each option with an example value for messages.
const OPTIONS: [(&str, &str); 7] = [
    ("key", "order.order_id"),
    ("decode", "Text"),
    ("envelope", "(Sns, EventBridge)"),
    ("namespace", "\"payments\""),
    ("fingerprint", "order.amount_cents"),
    ("mode", "record_after"),
    ("state", "App"),
];

/// Methods of the handler that are not options, each with its environment variable.
const OF_HANDLER: [(&str, Option<&str>); 13] = [
    ("attempt_timeout", None),
    ("backoff", None),
    ("depends_on", None),
    ("errors", None),
    ("ids", Some("SQS_ONCE_KEY_SECRET_ARN")),
    ("in_progress_wait", None),
    ("layer", None),
    ("missing_key", None),
    ("on_done", None),
    ("on_failure", None),
    ("payload_mismatch", None),
    ("retention", Some("SQS_ONCE_RETENTION")),
    ("unknown_outcome", None),
];

/// Methods of the consumer, each with its environment variable.
const OF_CONSUMER: [(&str, Option<&str>); 8] = [
    ("cache", None),
    ("concurrency", Some("SQS_ONCE_CONCURRENCY")),
    ("large_messages", Some("SQS_ONCE_LARGE_MESSAGES")),
    ("margins", None),
    ("pipe_target", None),
    ("queue", Some("SQS_ONCE_DLQ_URL")),
    ("store", Some("SQS_ONCE_TABLE")),
    ("telemetry", None),
];

/// The values of `mode` and their wrappers of a handler's function.
const MODES: [(&str, &str); 2] = [
    ("claim_first", "ClaimFirst"),
    ("record_after", "RecordAfter"),
];

const MAX_NAMESPACE_LEN: usize = 255;

/// The similarity, from 0 to 1, above which a name counts as a misspelling. High enough that `store` does not match
/// `state`, low enough that `margin` matches `margins`.
const NEAR: f64 = 0.8;

/// The attribute's options, checked as far as their syntax allows.
#[derive(Default)]
pub(crate) struct Options {
    pub(crate) key: Option<Expr>,
    decode: Option<Expr>,
    pub(crate) fingerprint: Option<Expr>,
    /// `fingerprint = none`.
    pub(crate) compares_nothing: bool,
    pub(crate) namespace: Option<LitStr>,
    /// The wrapper of the function, with the span of the option's value.
    pub(crate) mode: Option<Ident>,
    pub(crate) state: Option<Type>,
    /// Calls of the consumer's methods for the other options.
    pub(crate) settings: Vec<TokenStream>,
}

impl Options {
    /// Parses the options of `handler`. It reads all options before it fails, so that one compilation shows all errors.
    pub(crate) fn of(handler: &Ident, attribute: TokenStream) -> Result<Self> {
        let read = |input: ParseStream<'_>| Self::read(handler, input);
        read.parse2(attribute)
    }

    fn read(handler: &Ident, input: ParseStream<'_>) -> Result<Self> {
        let mut options = Self::default();
        let mut seen: Vec<Ident> = Vec::new();
        let mut errors: Vec<Error> = Vec::new();
        while !input.is_empty() {
            let name = option_name(input)?;
            if seen.contains(&name) {
                let problem = format!("`{name}` is given twice: keep one of them");
                errors.push(Error::new(name.span(), problem));
                skip_value(input)?;
            } else if let Err(error) = options.read_one(handler, &name, input) {
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

    fn read_one(&mut self, handler: &Ident, name: &Ident, input: ParseStream<'_>) -> Result<()> {
        match &*name.to_string() {
            "key" => self.key = Some(value(name, input)?),
            "fingerprint" => match value(name, input)? {
                Expr::Path(path) if path.path.is_ident("none") => self.compares_nothing = true,
                part => self.fingerprint = Some(part),
            },
            "decode" => self.decode = Some(code(name, input)?),
            "state" => self.state = Some(value(name, input)?),
            "envelope" => {
                let envelope = code(name, input)?;
                self.settings.push(quote!(.#name(#envelope)));
            }
            "namespace" => self.namespace = Some(checked_namespace(&value(name, input)?)?),
            "mode" => self.mode = Some(mode(&value(name, input)?)?),
            unknown => {
                let problem = not_an_option(unknown, handler);
                return Err(Error::new(name.span(), problem));
            }
        }
        Ok(())
    }

    pub(crate) fn start(&self, payload: &Type) -> TokenStream {
        match &self.decode {
            Some(decoder) => quote!(::sqs_once::Handler::decode::<#payload, _>(#decoder)),
            None => quote!(::sqs_once::Handler::json::<#payload>()),
        }
    }
}

fn option_name(input: ParseStream<'_>) -> Result<Ident> {
    let is_option = input.peek(Ident::peek_any) && (input.peek2(Token![=]) || is_last(input));
    if is_option {
        return Ident::parse_any(input);
    }
    Err(input.error("expected `option = value`, such as `key = order.order_id`"))
}

/// Returns whether the option is only a name, without a value.
fn is_last(input: ParseStream<'_>) -> bool {
    let ahead = input.fork();
    Ident::parse_any(&ahead).is_ok() && (ahead.is_empty() || ahead.peek(Token![,]))
}

/// Parses a value that is the user's code. The consumer's method checks its type.
fn code(name: &Ident, input: ParseStream<'_>) -> Result<Expr> {
    let code = value(name, input)?;
    if literal(&code).is_none() {
        return Ok(code);
    }
    let example = example(name);
    Err(Error::new_spanned(
        code,
        format!(
            "`{name}` names a value or a function of your code, without quotes: `{name} = {example}`"
        ),
    ))
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
    let example = OPTIONS.iter().find(|(option, _)| name == option);
    example.map_or("…", |(_, example)| example)
}

fn skip_value(input: ParseStream<'_>) -> Result<()> {
    while !input.is_empty() && !input.peek(Token![,]) {
        input.parse::<TokenTree>()?;
    }
    Ok(())
}

/// Returns an error message for an unknown option, with the code to write instead.
fn not_an_option(name: &str, handler: &Ident) -> String {
    match name {
        "claim" => return "`claim` is not an option: write `mode = claim_first`".to_owned(),
        "retries" | "max_retries" | "attempts" | "max_attempts" => {
            return format!(
                "`{name}` is not an option: the queue's `maxReceiveCount` sets how often a message is delivered, and \
                 `{handler}::handler().backoff(…)` the pauses between"
            );
        }
        _ => {}
    }
    let options = OPTIONS.map(|(option, _)| option);
    let methods = || OF_HANDLER.iter().chain(&OF_CONSUMER);
    let known = methods().map(|(method, _)| *method);
    let Some(meant) = nearest(name, options.into_iter().chain(known)) else {
        let options = options.join("`, `");
        return format!(
            "unknown option `{name}`: the options are `{options}`; all other settings are methods of \
             `{handler}::handler()` and `{handler}::consumer()`"
        );
    };
    let Some((_, variable)) = methods().find(|(method, _)| *method == meant) else {
        return format!("unknown option `{name}`: did you mean `{meant}`?");
    };
    let of = match OF_HANDLER.iter().any(|(method, _)| *method == meant) {
        true => "handler",
        false => "consumer",
    };
    let problem = match name == meant {
        true => format!("`{name}` is a method of the {of} and not an option"),
        false => format!("unknown option `{name}`"),
    };
    let feature = match meant {
        "large_messages" => " (feature `s3`)",
        _ => "",
    };
    let variable = variable.map(|variable| format!(", or set `{variable}`"));
    let variable = variable.unwrap_or_default();
    format!("{problem}: call `{handler}::{of}().{meant}(…)`{feature}{variable}")
}

fn checked_namespace(value: &Expr) -> Result<LitStr> {
    let Some(text) = string(value) else {
        let problem = "`namespace` is a string literal: `namespace = \"payments\"`";
        return Err(Error::new_spanned(value, problem));
    };
    let name = text.value();
    let length = name.len();
    let problem = if name.trim().is_empty() {
        "`namespace` is empty: name the consumer, such as \"payments\"".to_owned()
    } else if name.contains('#') {
        let name = name.replace('#', "-");
        format!("`namespace` can't contain a `#`, which ends it in the table: \"{name}\"")
    } else if length > MAX_NAMESPACE_LEN {
        format!("`namespace` has {length} bytes: at most {MAX_NAMESPACE_LEN} are allowed")
    } else {
        return Ok(text.clone());
    };
    Err(Error::new_spanned(value, problem))
}

fn mode(value: &Expr) -> Result<Ident> {
    let quoted = string(value).map(LitStr::value);
    let is_quoted = quoted.is_some();
    let written = quoted.unwrap_or_else(|| value.to_token_stream().to_string());
    let chosen = MODES.iter().find(|(word, _)| *word == written);
    let words = MODES.map(|(word, _)| word);
    let problem = match (chosen, nearest(&written, words)) {
        (Some((_, variant)), _) if !is_quoted => return Ok(Ident::new(variant, value.span())),
        (Some(_), _) => format!("write `mode = {written}`, without quotes"),
        (None, Some(meant)) => format!("unknown mode: did you mean `{meant}`?"),
        (None, None) => format!("unknown mode: the modes are `{}`", words.join("`, `")),
    };
    Err(Error::new_spanned(value, problem))
}

fn literal(value: &Expr) -> Option<&Lit> {
    match value {
        // A macro's `$value:expr` arrives in an invisible group.
        Expr::Group(group) => literal(&group.expr),
        Expr::Lit(ExprLit { lit, .. }) => Some(lit),
        _ => None,
    }
}

fn string(value: &Expr) -> Option<&LitStr> {
    match literal(value) {
        Some(Lit::Str(text)) => Some(text),
        _ => None,
    }
}

/// Returns the known name that is nearest to `written`, if it is near enough.
fn nearest<'a>(written: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let written = written.to_lowercase();
    known
        .into_iter()
        .map(|name| (strsim::jaro_winkler(&written, name), name))
        .filter(|(likeness, _)| *likeness >= NEAR)
        .max_by(|(one, _), (other, _)| one.total_cmp(other))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test")]

    use std::collections::BTreeSet;
    use std::fs;
    use std::path::Path;

    use super::*;

    const GUIDE: &str = include_str!("../../../docs/options.md");

    #[test]
    fn the_attributes_docs_and_the_guide_list_every_option() {
        for (option, example) in OPTIONS {
            let row = format!("| `{option} = {example}`");
            for page in [include_str!("lib.rs"), GUIDE] {
                assert!(page.contains(&row), "a page has no row {row}");
            }
        }
    }

    #[test]
    fn every_setting_is_an_option_or_a_method_that_messages_name() {
        let sources = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/sqs-once/src");
        let setters = |files: &[&str]| {
            let mut setters = BTreeSet::new();
            for file in files {
                let source = fs::read_to_string(Path::new(sources).join(file)).unwrap();
                for function in source.split("    pub fn ").skip(1) {
                    let name = function.split(['(', '<']).next().unwrap();
                    setters.insert(name.to_owned());
                }
            }
            setters
        };
        let names = |methods: &[(&str, Option<&str>)]| -> BTreeSet<String> {
            methods.iter().map(|(name, _)| (*name).to_owned()).collect()
        };
        let of_consumer = ["consumer/options.rs", "idempotency/shared_settings.rs"];
        assert_eq!(names(&OF_CONSUMER), setters(&of_consumer));
        let mut of_handler = setters(&["consumer/handler_options.rs"]);
        // Set by options.
        for other in ["envelope", "namespace"] {
            assert!(of_handler.remove(other), "{other}");
        }
        assert_eq!(names(&OF_HANDLER), of_handler);
    }

    #[test]
    fn the_guide_names_every_variable_that_messages_name() {
        let methods = OF_HANDLER.iter().chain(&OF_CONSUMER);
        for variable in methods.filter_map(|(_, variable)| *variable) {
            assert!(GUIDE.contains(variable), "{variable}");
        }
    }
}
