//! The function under the attribute: whether it can be a handler, and what it is made of.

use proc_macro2::{Span, TokenStream};
use syn::visit_mut::{self, VisitMut};
use syn::{
    Error, FnArg, GenericArgument, Ident, Item, ItemFn, Pat, PatIdent, PatType, PathArguments,
    Result, ReturnType, Type, TypeImplTrait,
};

/// What a handler's signature says.
pub(crate) struct Signature {
    pub(crate) payload: Payload,
    pub(crate) extractors: Vec<Argument>,
    pub(crate) output: Option<Type>,
}

/// The first argument.
pub(crate) struct Payload {
    /// The argument's pattern, to match a reference to the payload.
    pub(crate) pattern: Pat,
    pub(crate) argument: Argument,
}

pub(crate) struct Argument {
    pub(crate) ty: Type,
    /// The names its pattern binds.
    pub(crate) names: Vec<Ident>,
}

/// Takes the item for the function that it should be.
pub(crate) fn function(item: TokenStream) -> Result<ItemFn> {
    match syn::parse2(item.clone()) {
        Ok(function) => Ok(function),
        Err(error) => match syn::parse2::<Item>(item) {
            Ok(_) => Err(Error::new(
                Span::call_site(),
                "`#[handler]` goes on an `async fn` that takes the payload: \
                 `async fn charge(order: OrderPlaced) -> Result<(), HandlerError>`",
            )),
            Err(_) => Err(error),
        },
    }
}

impl Signature {
    pub(crate) fn of(function: &ItemFn) -> Result<Self> {
        let signature = &function.sig;
        let name = &signature.ident;
        if let Some(receiver) = signature.receiver() {
            return Err(Error::new_spanned(
                receiver,
                "a handler is a free function: move it out of the `impl` block, and take what is shared \
                 between messages as an argument `State<App>`",
            ));
        }
        if signature.asyncness.is_none() {
            return Err(Error::new(
                signature.fn_token.span,
                format!("a handler is asynchronous: write `async fn {name}`"),
            ));
        }
        if !signature.generics.params.is_empty() {
            return Err(Error::new_spanned(
                &signature.generics,
                "a handler can't be generic, since nothing says which types to take: write the types out, \
                 and take what varies as an argument `State<App>`",
            ));
        }
        let mut arguments = signature.inputs.iter().filter_map(|input| match input {
            FnArg::Typed(argument) => Some(argument),
            FnArg::Receiver(_) => None,
        });
        let Some(payload) = arguments.next() else {
            return Err(Error::new_spanned(
                &signature.ident,
                format!(
                    "a handler takes the payload as its first argument: `async fn {name}(order: OrderPlaced)`"
                ),
            ));
        };
        Ok(Self {
            payload: Payload::of(payload)?,
            extractors: arguments
                .map(|argument| Ok(Argument::of(argument)?.0))
                .collect::<Result<_>>()?,
            output: match &signature.output {
                ReturnType::Default => None,
                ReturnType::Type(_, ty) => Some((**ty).clone()),
            },
        })
    }

    /// The type that an argument `State<…>` asks for.
    pub(crate) fn state(&self) -> Option<&Type> {
        self.extractors
            .iter()
            .find_map(|argument| inside_state(&argument.ty))
    }
}

impl Payload {
    fn of(argument: &PatType) -> Result<Self> {
        if let Type::Reference(reference) = &*argument.ty {
            return Err(Error::new_spanned(
                reference,
                "a handler owns its payload: take it by value, without the `&`",
            ));
        }
        if is_extractor(&argument.ty) {
            return Err(Error::new_spanned(
                &argument.ty,
                "the payload comes first, and extractors after it: \
                 `async fn charge(order: OrderPlaced, State(app): State<App>)`",
            ));
        }
        let (argument, pattern) = Argument::of(argument)?;
        Ok(Self { pattern, argument })
    }
}

impl Argument {
    fn of(argument: &PatType) -> Result<(Self, Pat)> {
        let mut ty = (*argument.ty).clone();
        let mut generic = ImplTrait(None);
        generic.visit_type_mut(&mut ty);
        if let Some(span) = generic.0 {
            return Err(Error::new(
                span,
                "an argument `impl …` makes the handler generic, and nothing says which type to take: \
                 write the type out",
            ));
        }
        let mut pattern = (*argument.pat).clone();
        let mut bindings = Bindings(Vec::new());
        bindings.visit_pat_mut(&mut pattern);
        let names = bindings.0;
        Ok((Self { ty, names }, pattern))
    }
}

/// Whether a type has the name of an extractor that no payload is likely to have.
fn is_extractor(ty: &Type) -> bool {
    match ty {
        Type::Path(path) => {
            path.path
                .segments
                .last()
                .is_some_and(|last| last.ident == "IdempotencyToken" || last.ident == "MessageMeta")
                || inside_state(ty).is_some()
        }
        Type::Group(group) => is_extractor(&group.elem),
        _ => false,
    }
}

fn inside_state(ty: &Type) -> Option<&Type> {
    let path = match ty {
        Type::Path(path) => &path.path,
        Type::Group(group) => return inside_state(&group.elem),
        _ => return None,
    };
    let last = path.segments.last().filter(|last| last.ident == "State")?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => match arguments.args.first()? {
            GenericArgument::Type(state) => Some(state),
            _ => None,
        },
        _ => None,
    }
}

/// Collects the names that a pattern binds, and makes them plain: `mut` and `ref` are not allowed
/// where the pattern matches through a reference.
struct Bindings(Vec<Ident>);

impl VisitMut for Bindings {
    fn visit_pat_ident_mut(&mut self, binding: &mut PatIdent) {
        binding.mutability = None;
        binding.by_ref = None;
        self.0.push(binding.ident.clone());
        visit_mut::visit_pat_ident_mut(self, binding);
    }
}

/// Finds the first `impl …` in a type.
struct ImplTrait(Option<Span>);

impl VisitMut for ImplTrait {
    fn visit_type_impl_trait_mut(&mut self, ty: &mut TypeImplTrait) {
        self.0.get_or_insert(ty.impl_token.span);
    }
}
