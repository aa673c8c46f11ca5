//! Terraform's functions that deployments of consumers use. A call of any other function has an unknown value.

use hcl::eval::{Context, Func, FuncArgs, FuncDef, ParamType};
use hcl::{Map, Value};
use serde_json::json;
use std::fmt::Display;
use std::str::FromStr;

type Result<T = Value> = std::result::Result<T, String>;

const FUNCTIONS: &[(&str, Func)] = &[
    ("abs", |args| number(&args, f64::abs)),
    ("ceil", |args| number(&args, f64::ceil)),
    ("coalesce", coalesce),
    ("compact", |args| {
        let is_empty = |it: &Value| it.is_null() || it.as_str() == Some("");
        list(&args, 0).map(|all| all.into_iter().filter(|it| !is_empty(it)).collect())
    }),
    ("concat", |args| {
        let all = lists(&args)?;
        Ok(all.concat().into())
    }),
    ("contains", |args| {
        Ok(list(&args, 0)?.contains(argument(&args, 1)?).into())
    }),
    ("distinct", distinct),
    ("element", |args| {
        let all = list(&args, 0)?;
        let index = argument(&args, 1)?.as_u64().ok_or("expected an index")?;
        let index = usize::try_from(index).ok();
        let index = index.and_then(|it| it.checked_rem(all.len()));
        Ok(all[index.ok_or("an empty list")?].clone())
    }),
    ("flatten", |args| Ok(flattened(list(&args, 0)?).into())),
    ("floor", |args| number(&args, f64::floor)),
    ("format", format),
    ("join", |args| {
        let texts = list(&args, 1)?;
        let texts = texts.iter().map(text);
        let texts = texts.collect::<Result<Vec<_>>>()?;
        Ok(texts.join(&text_at(&args, 0)?).into())
    }),
    ("jsondecode", |args| {
        serde_json::from_str(&text_at(&args, 0)?).map_err(|error| error.to_string())
    }),
    ("jsonencode", |args| {
        let value = json!(argument(&args, 0)?);
        Ok(value.to_string().into())
    }),
    ("keys", |args| {
        let names = object(&args, 0)?.into_iter().map(|(name, _)| name);
        Ok(names.map(Value::from).collect())
    }),
    ("length", |args| match argument(&args, 0)? {
        Value::Array(all) => Ok(all.len().into()),
        Value::Object(all) => Ok(all.len().into()),
        Value::String(text) => Ok(text.chars().count().into()),
        _ => Err("expected a list, a map or a text".to_owned()),
    }),
    ("lookup", |args| {
        let found = object(&args, 0)?.swap_remove(&text_at(&args, 1)?);
        found.map_or_else(|| argument(&args, 2).cloned(), Ok)
    }),
    ("lower", |args| Ok(text_at(&args, 0)?.to_lowercase().into())),
    ("max", |args| extreme(&args, f64::max)),
    ("merge", |args| {
        let mut merged = Map::new();
        for index in 0..args.len() {
            if !args[index].is_null() {
                merged.extend(object(&args, index)?);
            }
        }
        Ok(merged.into())
    }),
    ("min", |args| extreme(&args, f64::min)),
    ("one", |args| match list(&args, 0)?.as_slice() {
        [] => Ok(Value::Null),
        [only] => Ok(only.clone()),
        _ => Err("expected one element at most".to_owned()),
    }),
    ("replace", |args| {
        let [all, from, to] = [0, 1, 2].map(|index| text_at(&args, index));
        let (all, from, to) = (all?, from?, to?);
        match from.len() > 1 && from.starts_with('/') && from.ends_with('/') {
            true => Err("regular expressions are not supported".to_owned()),
            false => Ok(all.replace(&from, &to).into()),
        }
    }),
    ("setunion", |args| {
        let all = lists(&args)?;
        Ok(set(all.concat()).into())
    }),
    ("split", |args| {
        let separator = text_at(&args, 0)?;
        let all = text_at(&args, 1)?;
        Ok(all.split(&*separator).map(Value::from).collect())
    }),
    ("substr", |args| {
        let all = text_at(&args, 0)?;
        let length = |at| {
            let length = argument(&args, at)?.as_u64().ok_or("expected a length")?;
            Ok::<_, String>(usize::try_from(length).unwrap_or(usize::MAX))
        };
        let part = all.chars().skip(length(1)?).take(length(2)?);
        Ok(part.collect::<String>().into())
    }),
    ("tobool", |args| parsed::<bool>(&args)),
    ("tolist", |args| list(&args, 0).map(Value::from)),
    ("tomap", |args| object(&args, 0).map(Value::from)),
    ("tonumber", |args| parsed::<u64>(&args)),
    ("toset", |args| Ok(set(list(&args, 0)?).into())),
    ("tostring", |args| match argument(&args, 0)? {
        Value::Null => Ok(Value::Null),
        other => text(other).map(Value::from),
    }),
    ("trimprefix", |args| {
        trimmed(&args, |all, part| all.strip_prefix(part))
    }),
    ("trimsuffix", |args| {
        trimmed(&args, |all, part| all.strip_suffix(part))
    }),
    ("upper", |args| Ok(text_at(&args, 0)?.to_uppercase().into())),
    ("values", |args| {
        let values = object(&args, 0)?.into_iter().map(|(_, value)| value);
        Ok(values.collect())
    }),
    // The contents of files do not matter here, and a file may not exist before the build.
    ("filebase64sha256", |args| file(&args, "filebase64sha256")),
    ("filemd5", |args| file(&args, "filemd5")),
    ("filesha256", |args| file(&args, "filesha256")),
];

/// Makes the functions available to expressions.
pub(super) fn declare(context: &mut Context<'_>) {
    for (name, function) in FUNCTIONS {
        let definition = FuncDef::builder().variadic_param(ParamType::Any);
        let name = hcl::Identifier::sanitized(name);
        context.declare_func(name, definition.build(*function));
    }
}

fn argument(args: &FuncArgs, index: usize) -> Result<&Value> {
    args.get(index)
        .ok_or_else(|| format!("argument {} is missing", index + 1))
}

fn list(args: &FuncArgs, index: usize) -> Result<Vec<Value>> {
    let list = argument(args, index)?.as_array().cloned();
    list.ok_or_else(|| "expected a list".to_owned())
}

fn lists(args: &FuncArgs) -> Result<Vec<Vec<Value>>> {
    (0..args.len()).map(|index| list(args, index)).collect()
}

fn object(args: &FuncArgs, index: usize) -> Result<Map<String, Value>> {
    let object = argument(args, index)?.as_object().cloned();
    object.ok_or_else(|| "expected a map".to_owned())
}

fn text(value: &Value) -> Result<String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Bool(_) | Value::Number(_) => Ok(value.to_string()),
        _ => Err("expected a text".to_owned()),
    }
}

fn text_at(args: &FuncArgs, index: usize) -> Result<String> {
    argument(args, index).and_then(text)
}

fn coalesce(args: FuncArgs) -> Result {
    let mut all = args.iter();
    let found = all.find(|it| !it.is_null() && it.as_str() != Some(""));
    found.cloned().ok_or_else(|| "no value".to_owned())
}

/// A value that may be written as text.
fn parsed<T: FromStr<Err: Display> + Into<Value>>(args: &FuncArgs) -> Result {
    match argument(args, 0)? {
        Value::String(text) => text.parse().map(T::into).map_err(|it| it.to_string()),
        other => Ok(other.clone()),
    }
}

fn number(args: &FuncArgs, of: impl Fn(f64) -> f64) -> Result {
    let value = argument(args, 0)?.as_f64().ok_or("expected a number")?;
    Ok(whole(of(value)))
}

fn extreme(args: &FuncArgs, of: impl Fn(f64, f64) -> f64) -> Result {
    let numbers: Option<Vec<f64>> = args.iter().map(Value::as_f64).collect();
    let found = numbers.ok_or("expected numbers")?.into_iter().reduce(of);
    found.map(whole).ok_or_else(|| "no number".to_owned())
}

/// A number that is written without a fraction if it has none.
fn whole(number: f64) -> Value {
    // Within these limits, every whole number is exact.
    match number.fract() == 0.0 && number.abs() < 9e15 {
        #[expect(clippy::cast_possible_truncation, reason = "the limits are checked")]
        true => Value::from(number as i64),
        false => Value::from(number),
    }
}

fn distinct(args: FuncArgs) -> Result {
    let mut kept: Vec<Value> = Vec::new();
    for value in list(&args, 0)? {
        if !kept.contains(&value) {
            kept.push(value);
        }
    }
    Ok(kept.into())
}

fn set(mut all: Vec<Value>) -> Vec<Value> {
    all.sort_by_key(Value::to_string);
    all.dedup();
    all
}

fn flattened(all: Vec<Value>) -> Vec<Value> {
    let nested = all.into_iter().map(|value| match value {
        Value::Array(inner) => flattened(inner),
        other => vec![other],
    });
    nested.flatten().collect()
}

fn format(args: FuncArgs) -> Result {
    let pattern = text_at(&args, 0)?;
    let mut rest = args.iter().skip(1);
    let mut formatted = String::new();
    let mut chars = pattern.chars();
    while let Some(char) = chars.next() {
        match (char, (char == '%').then(|| chars.next()).flatten()) {
            ('%', Some('%')) => formatted.push('%'),
            ('%', Some('s' | 'd' | 'v')) => {
                let value = rest.next().ok_or("an argument is missing")?;
                formatted.push_str(&text(value)?);
            }
            ('%', _) => return Err("only %s, %d and %v are supported".to_owned()),
            (char, _) => formatted.push(char),
        }
    }
    Ok(formatted.into())
}

fn trimmed(args: &FuncArgs, of: impl for<'a> Fn(&'a str, &str) -> Option<&'a str>) -> Result {
    let (all, part) = (text_at(args, 0)?, text_at(args, 1)?);
    Ok(of(&all, &part).unwrap_or(&all).into())
}

fn file(args: &FuncArgs, name: &str) -> Result {
    Ok(format!("${{{name}({})}}", text_at(args, 0)?).into())
}
