//! Keys from the body's JSON by a JMESPath expression, for any payload type.

use std::sync::LazyLock;

use jmespath::functions::{ArgumentType, CustomFunction, Signature};
use jmespath::{
    Context, ErrorReason, Expression, JmespathError, Rcvar, Runtime, RuntimeError, SearchResult,
    Variable,
};
use serde_json::{Number, Value};

use crate::error::ConfigError;

use super::{BusinessKey, KeyError, KeyPart, KeyWriter};

/// A JMESPath expression, compiled.
#[derive(Clone, Debug)]
pub(super) struct JmesPath {
    expression: Result<Expression<'static>, ConfigError>,
}

impl JmesPath {
    /// Compiles an expression.
    pub(super) fn new(expression: &str) -> Self {
        let compiled = RUNTIME.compile(expression);
        let found = compiled.and_then(|compiled| match search(&compiled, Variable::Null) {
            Err(error) if is_unknown_function(&error) => Err(error),
            _ => Ok(compiled),
        });
        let expression = found.map_err(|error| {
            ConfigError::invalid(
                "the JMESPath expression of the key",
                format!("is {expression:?} ({error})"),
                "an expression such as `order.id`",
            )
        });
        Self { expression }
    }

    /// Returns the key in a body.
    pub(super) fn key_in(&self, body: &str) -> Result<BusinessKey, KeyError> {
        let expression = self.expression.as_ref();
        let expression = expression.map_err(|error| KeyError::extractor(error.to_string()))?;
        // A serde error may quote the body, which must not be logged.
        let body: Value = serde_json::from_str(body).map_err(|_| KeyError::WrongType {
            found: "not valid JSON",
        })?;
        let found = search(expression, variable(body));
        let found = found.map_err(|error| KeyError::extractor(error.to_string()))?;
        BusinessKey::new(&Found(&found))
    }

    pub(super) fn check(&self) -> Result<(), ConfigError> {
        self.expression.clone().map(|_| ())
    }
}

fn is_unknown_function(error: &JmespathError) -> bool {
    let unknown = |error: &RuntimeError| matches!(error, RuntimeError::UnknownFunction(_));
    matches!(&error.reason, ErrorReason::Runtime(error) if unknown(error))
}

static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
    use ArgumentType::{Array, Bool, Null, Number, Object, String, Union};
    let mut runtime = Runtime::new();
    runtime.register_builtin_functions();
    let anything = Union(vec![Object, Array, Bool, Number, String, Null]);
    let signature = Signature::new(vec![anything], None);
    let exact = CustomFunction::new(signature, Box::new(exact_text));
    runtime.register_function("to_string", Box::new(exact));
    runtime
});

fn search(expression: &Expression<'static>, body: Variable) -> SearchResult {
    let mut context = Context::new(expression.as_str(), &RUNTIME);
    jmespath::interpret(&Rcvar::new(body), expression.as_ast(), &mut context)
}

/// Implements JMESPath's `to_string`, but refuses numbers that may have lost digits.
fn exact_text(arguments: &[Rcvar], context: &mut Context<'_>) -> SearchResult {
    let value = &arguments[0];
    if !is_exact(value) {
        let lost = "a number with a fraction, an exponent or more than 64 bits has no exact text";
        let reason = ErrorReason::Parse(lost.to_owned());
        return Err(JmespathError::from_ctx(context, reason));
    }
    match **value {
        Variable::String(_) => Ok(Rcvar::clone(value)),
        _ => Ok(Rcvar::new(Variable::String(value.to_string()))),
    }
}

fn is_exact(value: &Variable) -> bool {
    match value {
        Variable::Number(number) => is_integer(number),
        Variable::Array(values) => values.iter().all(|value| is_exact(value)),
        Variable::Object(fields) => fields.values().all(|value| is_exact(value)),
        _ => true,
    }
}

fn is_integer(number: &Number) -> bool {
    number.is_u64() || number.is_i64()
}

/// Converts a value without serde. With the feature `arbitrary_precision` of `serde_json`, serde would turn numbers
/// into objects.
fn variable(json: Value) -> Variable {
    match json {
        Value::Null => Variable::Null,
        Value::Bool(value) => Variable::Bool(value),
        Value::Number(number) => Variable::Number(number),
        Value::String(text) => Variable::String(text),
        Value::Array(values) => {
            let values = values.into_iter().map(|value| Rcvar::new(variable(value)));
            Variable::Array(values.collect())
        }
        Value::Object(fields) => {
            let fields = fields.into_iter();
            let fields = fields.map(|(name, value)| (name, Rcvar::new(variable(value))));
            Variable::Object(fields.collect())
        }
    }
}

struct Found<'a>(&'a Variable);

impl KeyPart for Found<'_> {
    fn write(&self, key: &mut KeyWriter) -> Result<(), KeyError> {
        let wrong = |found| Err(KeyError::WrongType { found });
        match self.0 {
            Variable::Null => Err(KeyError::Missing),
            Variable::String(text) => text.write(key),
            Variable::Bool(value) => value.write(key),
            Variable::Number(number) if is_integer(number) => {
                key.integer(&number.to_string());
                Ok(())
            }
            Variable::Number(_) => {
                wrong("a number with a fraction, an exponent or more than 64 bits")
            }
            Variable::Array(_) => wrong("an array"),
            Variable::Object(_) => wrong("an object"),
            Variable::Expref(_) => wrong("an expression"),
        }
    }
}
