//! The words of expressions and of PartiQL.

use std::collections::{BTreeSet, HashSet};
use std::sync::LazyLock;

use crate::error::ApiError;

/// The words that name no attribute unless they are quoted, or stand behind a `#name`.
static RESERVED: LazyLock<HashSet<&str>> =
    LazyLock::new(|| include_str!("reserved_words.txt").lines().collect());

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    /// A name, a keyword, a `#name` or a `:value`.
    Word(String),
    /// A name in double quotes.
    Quoted(String),
    /// A text in single quotes.
    Text(String),
    Sign(&'static str),
}

/// The longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 15] = [
    "<>", "<=", ">=", "<", ">", "=", "+", "-", "(", ")", "{", "}", ",", "?", ":",
];

/// Reads tokens one after the other.
pub(crate) struct Tokens {
    tokens: Vec<Token>,
    next: usize,
    /// Which placeholders were read.
    pub(crate) placeholders: BTreeSet<String>,
    /// How many question marks were read.
    pub(crate) parameters: usize,
}

impl Tokens {
    pub(crate) fn new(text: &str) -> Result<Self, ApiError> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let (token, length) = match first {
                '"' => quoted(rest, first, Token::Quoted)?,
                '\'' => quoted(rest, first, Token::Text)?,
                _ if is_word(first) || is_placeholder(rest) => {
                    let end = rest[1..]
                        .find(|c| !is_word(c))
                        .map_or(rest.len(), |at| at + 1);
                    (Token::Word(rest[..end].to_owned()), end)
                }
                _ => {
                    let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign));
                    let sign = sign.ok_or_else(|| unexpected(&rest[..first.len_utf8()]))?;
                    (Token::Sign(sign), sign.len())
                }
            };
            tokens.push(token);
            rest = rest[length..].trim_start();
        }
        Ok(Self {
            tokens,
            next: 0,
            placeholders: BTreeSet::new(),
            parameters: 0,
        })
    }

    pub(crate) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    pub(crate) fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes a sign, if it is the next.
    pub(crate) fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.next += usize::from(found);
        found
    }

    /// Takes a keyword, if it is the next.
    pub(crate) fn keyword(&mut self, keyword: &str) -> bool {
        let found =
            matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    /// Takes a function's name and the parenthesis behind it, if they are the next. Its case matters.
    pub(crate) fn function(&mut self, name: &str) -> bool {
        let is_name = matches!(self.peek(), Some(Token::Word(word)) if word == name);
        let found = is_name && self.tokens.get(self.next + 1) == Some(&Token::Sign("("));
        self.next += 2 * usize::from(found);
        found
    }

    pub(crate) fn expect_sign(&mut self, sign: &str) -> Result<(), ApiError> {
        if self.sign(sign) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(crate) fn expect_keyword(&mut self, keyword: &str) -> Result<(), ApiError> {
        if self.keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Takes the name of an attribute or of a table, or a `#name`.
    pub(crate) fn name(&mut self) -> Result<String, ApiError> {
        match self.peek() {
            Some(Token::Word(word))
                if word.starts_with(|c: char| c == ':' || c.is_ascii_digit()) =>
            {
                Err(self.unexpected())
            }
            Some(Token::Word(word)) if RESERVED.contains(&*word.to_ascii_uppercase()) => {
                Err(ApiError::validation(format!(
                    "Attribute name is a reserved keyword; reserved keyword: {word}"
                )))
            }
            _ => self.name_or_value(),
        }
    }

    /// Takes a `:value`.
    pub(crate) fn value(&mut self) -> Result<String, ApiError> {
        match self.peek() {
            Some(Token::Word(word)) if word.starts_with(':') => self.name_or_value(),
            _ => Err(self.unexpected()),
        }
    }

    /// Takes a text in single quotes.
    pub(crate) fn text(&mut self) -> Result<String, ApiError> {
        let Some(Token::Text(text)) = self.peek() else {
            return Err(self.unexpected());
        };
        let text = text.clone();
        self.next += 1;
        Ok(text)
    }

    fn name_or_value(&mut self) -> Result<String, ApiError> {
        let (Some(Token::Word(name)) | Some(Token::Quoted(name))) = self.peek() else {
            return Err(self.unexpected());
        };
        let name = name.clone();
        self.next += 1;
        if name.starts_with(['#', ':']) {
            self.placeholders.insert(name.clone());
        }
        Ok(name)
    }

    pub(crate) fn expect_end(&self) -> Result<(), ApiError> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(crate) fn unexpected(&self) -> ApiError {
        match self.peek() {
            Some(Token::Word(text) | Token::Quoted(text) | Token::Text(text)) => unexpected(text),
            Some(Token::Sign(sign)) => unexpected(sign),
            None => ApiError::validation("the expression ends too early"),
        }
    }
}

fn quoted(text: &str, quote: char, of: fn(String) -> Token) -> Result<(Token, usize), ApiError> {
    let end = text[1..].find(quote).ok_or_else(|| unexpected(text))? + 1;
    Ok((of(text[1..end].to_owned()), end + 1))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_placeholder(text: &str) -> bool {
    let mut chars = text.chars();
    matches!(chars.next(), Some('#' | ':')) && chars.next().is_some_and(is_word)
}

fn unexpected(text: &str) -> ApiError {
    ApiError::validation(format!(
        "Syntax error; not expected here, or not understood: {text:?}"
    ))
}
