//! Parses the annotated function and checks whether it can be a handler.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, FnArg, GenericArgument, Ident, Item, ItemFn, Lifetime, Pat, PatIdent, PatType,
    PathArguments, Result, ReturnType, Type, TypeImplTrait,
};

/// An attribute, with its terms for messages.
pub(crate) struct Kind {
    pub(crate) attribute: &'static str,
    /// Whether the function takes a `Batch` of payloads.
    pub(crate) is_batch: bool,
    noun: &'static str,
    name: &'static str,
    argument: &'static str,
    output: &'static str,
}

pub(crate) const HANDLER: &Kind = &Kind {
    attribute: "handler",
    is_batch: false,
    noun: "payload",
    name: "charge",
    argument: "order: OrderPlaced",
    output: "Result<(), HandlerError>",
};

pub(crate) const BATCH_HANDLER: &Kind = &Kind {
    attribute: "batch_handler",
    is_batch: true,
    noun: "batch",
    name: "insert",
    argument: "orders: Batch<OrderPlaced>",
    output: "Result<BatchOutcome, HandlerError>",
};

pub(crate) struct Signature {
    pub(crate) kind: &'static Kind,
    pub(crate) payload: Payload,
    pub(crate) extractors: Vec<Argument>,
    pub(crate) output: Option<Type>,
}

pub(crate) struct Payload {
    /// The payload's type: the argument's own type, or the type inside `Batch`.
    pub(crate) ty: Type,
    /// The argument's pattern, which matches a reference to the payload.
    pub(crate) pattern: Pat,
    pub(crate) argument: Argument,
}

pub(crate) struct Argument {
    pub(crate) ty: Type,
    pub(crate) names: Vec<Ident>,
}

pub(crate) fn function(kind: &'static Kind, item: TokenStream) -> Result<ItemFn> {
    match syn::parse2(item.clone()) {
        Ok(function) => Ok(function),
        Err(error) if syn::parse2::<Item>(item).is_err() => Err(error),
        Err(_) => {
            let problem = format!(
                "`#[{}]` goes on an `async fn` that takes the {}: `async fn {}({}) -> {}`",
                kind.attribute, kind.noun, kind.name, kind.argument, kind.output
            );
            Err(Error::new(Span::call_site(), problem))
        }
    }
}

impl Signature {
    pub(crate) fn of(kind: &'static Kind, function: &ItemFn) -> Result<Self> {
        let signature = &function.sig;
        let name = &signature.ident;
        if let Some(receiver) = signature.receiver() {
            let problem = "a handler is a free function: move it out of the `impl` block, and take what is shared \
                between messages as an argument `State<App>`";
            return Err(Error::new_spanned(receiver, problem));
        }
        if signature.asyncness.is_none() {
            let problem = format!("a handler is asynchronous: write `async fn {name}`");
            return Err(Error::new(signature.fn_token.span, problem));
        }
        if !signature.generics.params.is_empty() {
            let problem = "a handler can't be generic, because its types would be unknown: write the types out, \
                and pass what varies as an argument `State<App>`";
            return Err(Error::new_spanned(&signature.generics, problem));
        }
        let mut arguments = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some(argument),
            FnArg::Receiver(_) => None,
        });
        let Some(payload) = arguments.next() else {
            let Kind { noun, argument, .. } = kind;
            let problem = format!(
                "a handler takes the {noun} as its first argument: `async fn {name}({argument})`"
            );
            return Err(Error::new_spanned(name, problem));
        };
        let payload = Payload::of(kind, payload)?;
        let extractors = arguments.map(|argument| Ok(Argument::of(argument)?.0));
        Ok(Self {
            kind,
            payload,
            extractors: extractors.collect::<Result<_>>()?,
            output: match &signature.output {
                ReturnType::Default => None,
                ReturnType::Type(_, ty) => Some((**ty).clone()),
            },
        })
    }

    /// Returns the type inside an argument `State<…>`.
    pub(crate) fn state(&self) -> Option<&Type> {
        let mut extractors = self.extractors.iter();
        extractors.find_map(|argument| inside("State", &argument.ty))
    }
}

impl Payload {
    fn of(kind: &'static Kind, argument: &PatType) -> Result<Self> {
        if let Type::Reference(reference) = &*argument.ty {
            let noun = kind.noun;
            let problem = format!("a handler owns its {noun}: take it by value, without the `&`");
            return Err(Error::new_spanned(reference, problem));
        }
        if is_extractor(&argument.ty) {
            let problem = format!(
                "the {} comes first, and extractors after it: `async fn {}({}, State(app): State<App>)`",
                kind.noun, kind.name, kind.argument
            );
            return Err(Error::new_spanned(&argument.ty, problem));
        }
        if !kind.is_batch && inside("Batch", &argument.ty).is_some() {
            let problem = "a handler takes one payload: for a `Batch` of them use `#[sqs_once::batch_handler]`";
            return Err(Error::new_spanned(&argument.ty, problem));
        }
        let mut borrowed = Borrowed(None);
        borrowed.visit_type_mut(&mut (*argument.ty).clone());
        if let Some(lifetime) = borrowed.0 {
            let problem = "a payload owns its data, because its handler outlives the event's bytes: declare the \
                fields as `String` or another owned type, and remove the lifetime";
            return Err(Error::new_spanned(lifetime, problem));
        }
        let (argument, pattern) = Argument::of(argument)?;
        let ty = match kind.is_batch {
            false => argument.ty.clone(),
            true => payload_of_batch(&argument.ty)?,
        };
        Ok(Self {
            ty,
            pattern,
            argument,
        })
    }
}

fn payload_of_batch(ty: &Type) -> Result<Type> {
    if let Some(payload) = inside("Batch", ty) {
        return Ok(payload.clone());
    }
    let payload = inside("Vec", ty).unwrap_or(ty);
    let payload = payload.to_token_stream().to_string().replace(' ', "");
    let problem = format!(
        "a batch handler takes all messages of a batch at once: `Batch<{payload}>` instead of one \
         payload or a list of them; for one message at a time use `#[sqs_once::handler]`"
    );
    Err(Error::new_spanned(ty, problem))
}

impl Argument {
    fn of(argument: &PatType) -> Result<(Self, Pat)> {
        let mut ty = (*argument.ty).clone();
        let mut generic = ImplTrait(None);
        generic.visit_type_mut(&mut ty);
        if let Some(span) = generic.0 {
            let problem = "an argument `impl …` makes the handler generic, and its type would be unknown: \
                write the type out";
            return Err(Error::new(span, problem));
        }
        let mut pattern = (*argument.pat).clone();
        let names = plain(&mut pattern);
        Ok((Self { ty, names }, pattern))
    }
}

/// Returns whether a type has the name of an extractor, which a payload is unlikely to have.
fn is_extractor(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            let last = path.path.segments.last();
            let is_named = |name: &str| last.is_some_and(|last| last.ident == name);
            is_named("IdempotencyToken") || is_named("BusinessKey") || inside("State", ty).is_some()
        }
        Type::Group(group) => is_extractor(&group.elem),
        _ => false,
    }
}

/// Returns the type inside `wrapper<…>`.
fn inside<'a>(wrapper: &str, ty: &'a Type) -> Option<&'a Type> {
    let path = match ty {
        Type::Path(path) => &path.path,
        Type::Group(group) => return inside(wrapper, &group.elem),
        _ => return None,
    };
    let last = path.segments.last().filter(|last| last.ident == wrapper)?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(inner) => Some(inner),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the names that a pattern binds and removes `mut` and `ref`, which are not allowed in a pattern that matches
/// through a reference.
pub(crate) fn plain(pattern: &mut Pat) -> Vec<Ident> {
    let mut bindings = Bindings(Vec::new());
    bindings.visit_pat_mut(pattern);
    bindings.0
}

struct Bindings(Vec<Ident>);

impl VisitMut for Bindings {
    fn visit_pat_ident_mut(&mut self, binding: &mut PatIdent) {
        binding.mutability = None;
        binding.by_ref = None;
        self.0.push(binding.ident.clone());
        visit_mut::visit_pat_ident_mut(self, binding);
    }
}

/// Finds the first lifetime in a type, apart from `'static`.
struct Borrowed(Option<Lifetime>);

impl VisitMut for Borrowed {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if lifetime.ident != "static" {
            self.0.get_or_insert_with(|| lifetime.clone());
        }
    }
}

/// Finds the first `impl …` in a type.
struct ImplTrait(Option<Span>);

impl VisitMut for ImplTrait {
    fn visit_type_impl_trait_mut(&mut self, ty: &mut TypeImplTrait) {
        self.0.get_or_insert(ty.impl_token.span);
    }
}
