//! The options `key` and `fingerprint`: an expression over the payload, or an extractor value.

use proc_macro2::{Span, TokenStream, TokenTree};
use quote::{ToTokens, quote_spanned};
use syn::spanned::Spanned;
use syn::{Error, Expr, ExprReference, Ident, Pat, PathSegment, Result, Token, parse_quote};

use crate::signature::{Signature, plain};

pub(crate) enum Key {
    /// An expression over the names that a pattern binds. The pattern matches a reference to the payload.
    OfPayload(Pat, Expr),
    /// A value that implements `KeyExtractor`.
    Extractor(Expr),
    /// Several of the above: `(order.order_id, MessageKey::attribute("tenant"))`.
    Tuple(Vec<Key>),
}

impl Key {
    pub(crate) fn of(key: Option<Expr>, signature: &Signature) -> Result<Self> {
        if let Some(key) = key {
            return Self::read("key", key, signature);
        }
        let (attribute, example) = (signature.kind.attribute, example(signature));
        let problem = format!(
            "a handler needs a business key, which identifies the event: `#[{attribute}(key = {example})]`"
        );
        Err(Error::new(Span::call_site(), problem))
    }

    pub(crate) fn read(option: &str, key: Expr, signature: &Signature) -> Result<Self> {
        if signature.kind.is_batch {
            return Self::of_each(option, key, signature);
        }
        let payload = &signature.payload;
        // A closure names its own argument, so a key over the payload contains no closure.
        let is_closure = |expr: &Expr| matches!(expr, Expr::Closure(_));
        if is_closure(&key)
            || matches!(&key, Expr::Tuple(parts) if parts.elems.iter().any(is_closure))
        {
            return Ok(Self::Extractor(key));
        }
        let tokens = key.to_token_stream();
        let uses_payload = |tokens| mentioned(tokens, &payload.argument.names).is_some();
        let mut others = signature.extractors.iter();
        let other = others.find_map(|other| mentioned(tokens.clone(), &other.names));
        // A closure inside of the key may give its own argument the name of another argument.
        let may_be_its_own = uses_payload(tokens.clone()) && tokens.to_string().contains('|');
        if let Some(name) = other.filter(|_| !may_be_its_own) {
            let example = example(signature);
            let mut problem = format!(
                "the {option} can only use the payload, the first argument: `{option} = {example}`"
            );
            if option == "key" {
                problem += ", or a message attribute: `key = MessageKey::attribute(\"…\")`";
            }
            return Err(Error::new(name.span(), problem));
        }
        if uses_payload(tokens.clone()) {
            let is_extractor =
                |part: &Expr| is_extractor(part) && !uses_payload(part.to_token_stream());
            return Ok(Self::mixed(option, &payload.pattern, key, is_extractor));
        }
        if matches!(key, Expr::Lit(_)) {
            return Err(constant(option, &key, signature));
        }
        Ok(Self::Extractor(key))
    }

    /// Parses the value for a batch handler, which has no argument with a single payload. The value names the payload
    /// itself, by `|order| …` or by the variable whose fields it uses.
    fn of_each(option: &str, mut key: Expr, signature: &Signature) -> Result<Self> {
        // A macro's `$key:expr` arrives in an invisible group.
        while let Expr::Group(group) = key {
            key = *group.expr;
        }
        if let Expr::Closure(closure) = &key
            && closure.inputs.len() == 1
            && let Some(pattern) = closure.inputs.first()
            // A closure with a typed argument is a key extractor.
            && !matches!(pattern, Pat::Type(_))
        {
            let mut pattern = pattern.clone();
            plain(&mut pattern);
            return Ok(Self::OfPayload(pattern, (*closure.body).clone()));
        }
        if let Some(name) = root(&key) {
            return Ok(Self::mixed(option, &parse_quote!(#name), key, is_extractor));
        }
        match key {
            Expr::Lit(_) => Err(constant(option, &key, signature)),
            Expr::Path(_)
            | Expr::Call(_)
            | Expr::MethodCall(_)
            | Expr::Struct(_)
            | Expr::Tuple(_)
            | Expr::Closure(_) => Ok(Self::Extractor(key)),
            _ => Err(Error::new_spanned(
                &key,
                format!("name one message's payload here: `{option} = |order| …`"),
            )),
        }
    }

    /// Takes a key's tuple apart if some of its parts are extractors. A fingerprint is of the payload only.
    fn mixed(option: &str, pattern: &Pat, key: Expr, is_extractor: impl Fn(&Expr) -> bool) -> Self {
        match key {
            Expr::Tuple(tuple) if option == "key" && tuple.elems.iter().any(&is_extractor) => {
                let parts = tuple
                    .elems
                    .into_iter()
                    .map(|part| match is_extractor(&part) {
                        true => Self::Extractor(part),
                        false => Self::OfPayload(pattern.clone(), part),
                    });
                Self::Tuple(parts.collect())
            }
            key => Self::OfPayload(pattern.clone(), key),
        }
    }
}

/// Returns whether an expression is the value of a type, by Rust's naming conventions: `MessageGroup`,
/// `MessageKey::attribute("tenant")`. A constant is all upper-case, a function lower-case, and a variant follows its type.
fn is_extractor(expr: &Expr) -> bool {
    let is_type = |segment: Option<&PathSegment>| {
        let name = segment.map(|segment| segment.ident.to_string());
        name.is_some_and(|name| {
            name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase)
        })
    };
    let ends_in = |path: &syn::Path, types: [bool; 2]| {
        let mut segments = path.segments.iter().rev();
        let last = is_type(segments.next());
        [is_type(segments.next()), last] == types
    };
    match expr {
        Expr::Path(path) => ends_in(&path.path, [false, true]),
        Expr::Call(call) => match &*call.func {
            Expr::Path(path) => ends_in(&path.path, [true, false]),
            _ => false,
        },
        Expr::Paren(paren) => is_extractor(&paren.expr),
        Expr::Group(group) => is_extractor(&group.expr),
        _ => false,
    }
}

fn constant(option: &str, key: &Expr, signature: &Signature) -> Error {
    let example = example(signature);
    let problem = format!(
        "every message would have the same {option}: use the payload, such as `{option} = {example}`"
    );
    Error::new_spanned(key, problem)
}

/// Returns the variable whose fields an expression uses: `order` in `(order.tenant, order.id.to_lowercase())`.
fn root(expr: &Expr) -> Option<&Ident> {
    let base = match expr {
        Expr::Field(field) => &*field.base,
        Expr::MethodCall(call) => &*call.receiver,
        Expr::Index(index) => &*index.expr,
        Expr::Cast(cast) => return root(&cast.expr),
        Expr::Reference(reference) => return root(&reference.expr),
        Expr::Paren(paren) => return root(&paren.expr),
        Expr::Group(group) => return root(&group.expr),
        Expr::Tuple(tuple) => {
            let of_payload = tuple.elems.iter().filter(|part| !is_extractor(part));
            let mut roots = of_payload.map(root);
            let first = roots.next()??;
            return roots.all(|other| other == Some(first)).then_some(first);
        }
        _ => return None,
    };
    match base {
        Expr::Path(path) => path.path.get_ident().filter(|name| is_variable(name)),
        _ => root(base),
    }
}

/// Returns whether a name is a variable and not a constant, by Rust's naming conventions.
fn is_variable(name: &Ident) -> bool {
    let is_upper = name.to_string().starts_with(char::is_uppercase);
    name != "self" && !is_upper
}

/// Returns an example key for messages, with the user's names.
fn example(signature: &Signature) -> String {
    if signature.kind.is_batch {
        return "order.order_id".to_owned();
    }
    let payload = &signature.payload;
    match (&payload.pattern, payload.argument.names.first()) {
        (Pat::Ident(_), Some(payload)) => format!("{payload}.order_id"),
        (_, Some(field)) => field.to_string(),
        (_, None) => "sqs_once::key::MessageKey::attribute(\"order-id\")".to_owned(),
    }
}

/// Returns a reference to the key that `expr` computes. A tuple of fields becomes a tuple of references, since its
/// fields cannot be moved out of the payload.
pub(crate) fn by_reference(expr: &Expr) -> TokenStream {
    let span = expr.span();
    match expr {
        Expr::Tuple(tuple) => {
            let parts = tuple.elems.iter().map(by_reference);
            quote_spanned!(span=> &(#(#parts,)*))
        }
        Expr::Paren(paren) => by_reference(&paren.expr),
        Expr::Group(group) => by_reference(&group.expr),
        _ => ExprReference {
            attrs: Vec::new(),
            // The key's own span, so that an error underlines the key and not the attribute.
            and_token: Token![&](span),
            mutability: None,
            expr: Box::new(expr.clone()),
        }
        .into_token_stream(),
    }
}

/// Returns the first use of one of `names` as a variable. It searches tokens, because a key may use variables inside a
/// macro: `format!("{}/{}", order.tenant, order.id)`.
fn mentioned(tokens: TokenStream, names: &[Ident]) -> Option<Ident> {
    let tokens: Vec<TokenTree> = tokens.into_iter().collect();
    let punct = |at: Option<usize>, expected: char| {
        let token = at.and_then(|at| tokens.get(at));
        matches!(token, Some(TokenTree::Punct(punct)) if punct.as_char() == expected)
    };
    tokens
        .iter()
        .enumerate()
        .find_map(|(at, token)| match token {
            TokenTree::Ident(ident) => {
                let before = |back| at.checked_sub(back);
                let is_field = punct(before(1), '.') && !punct(before(2), '.');
                let in_path = punct(before(1), ':') && punct(before(2), ':');
                let is_lifetime = punct(before(1), '\'');
                // `order::` starts a path, `order:` names a field.
                let is_name = punct(Some(at + 1), ':');
                let is_variable = !(is_field || in_path || is_lifetime || is_name);
                (is_variable && names.contains(ident)).then(|| ident.clone())
            }
            TokenTree::Group(group) => {
                let in_macro = punct(at.checked_sub(1), '!');
                let inner = group.stream();
                mentioned(inner.clone(), names)
                    .or_else(|| in_macro.then(|| captured(inner, names))?)
            }
            _ => None,
        })
}

/// Returns a use of one of `names` inside a format string: `"{order_id}"`, `"{order_id:>8}"`.
fn captured(arguments: TokenStream, names: &[Ident]) -> Option<Ident> {
    let TokenTree::Literal(format) = arguments.into_iter().next()? else {
        return None;
    };
    let text = format.to_string();
    let mut names = names.iter();
    let name = names.find(|name| {
        text.contains(&format!("{{{name}}}")) || text.contains(&format!("{{{name}:"))
    })?;
    Some(Ident::new(&name.to_string(), format.span()))
}
