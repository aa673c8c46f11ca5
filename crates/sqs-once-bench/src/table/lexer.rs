//! The words of expressions and of PartiQL.

use super::error::ApiError;

/// A word or a sign.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// A name, a keyword, a `#name` or a `:value`.
    Word(String),
    /// What stands in quotes of either kind.
    Quoted(String),
    Sign(&'static str),
}

/// The longest first, so that `<=` is not read as `<`.
const SIGNS: [&str; 15] = [
    "<>", "<=", ">=", "<", ">", "=", "+", "-", "(", ")", "{", "}", ",", "?", ":",
];

/// Reads tokens one after the other.
pub(super) struct Tokens {
    tokens: Vec<Token>,
    next: usize,
}

impl Tokens {
    pub(super) fn new(text: &str) -> Result<Self, ApiError> {
        let mut tokens = Vec::new();
        let mut rest = text.trim_start();
        while let Some(first) = rest.chars().next() {
            let (token, length) = match first {
                '\'' | '"' => quoted(rest, first)?,
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
        Ok(Self { tokens, next: 0 })
    }

    pub(super) fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.next)
    }

    pub(super) fn take(&mut self) -> Option<Token> {
        let token = self.peek().cloned();
        self.next += 1;
        token
    }

    /// Takes a sign, if it is the next.
    pub(super) fn sign(&mut self, sign: &str) -> bool {
        let found = matches!(self.peek(), Some(Token::Sign(found)) if *found == sign);
        self.next += usize::from(found);
        found
    }

    /// Takes a keyword, if it is the next.
    pub(super) fn keyword(&mut self, keyword: &str) -> bool {
        let found =
            matches!(self.peek(), Some(Token::Word(word)) if word.eq_ignore_ascii_case(keyword));
        self.next += usize::from(found);
        found
    }

    pub(super) fn expect_sign(&mut self, sign: &str) -> Result<(), ApiError> {
        if self.sign(sign) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(super) fn expect_keyword(&mut self, keyword: &str) -> Result<(), ApiError> {
        if self.keyword(keyword) {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    /// Takes a word or what stands in quotes.
    pub(super) fn name(&mut self) -> Result<String, ApiError> {
        match self.take() {
            Some(Token::Word(name) | Token::Quoted(name)) => Ok(name),
            _ => {
                self.next -= 1;
                Err(self.unexpected())
            }
        }
    }

    pub(super) fn expect_end(&self) -> Result<(), ApiError> {
        if self.peek().is_none() {
            Ok(())
        } else {
            Err(self.unexpected())
        }
    }

    pub(super) fn unexpected(&self) -> ApiError {
        match self.peek() {
            Some(Token::Word(text) | Token::Quoted(text)) => unexpected(text),
            Some(Token::Sign(sign)) => unexpected(sign),
            None => ApiError::validation("the expression ends too early"),
        }
    }
}

fn quoted(text: &str, quote: char) -> Result<(Token, usize), ApiError> {
    let end = text[1..].find(quote).ok_or_else(|| unexpected(text))? + 1;
    Ok((Token::Quoted(text[1..end].to_owned()), end + 1))
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_placeholder(text: &str) -> bool {
    let mut chars = text.chars();
    matches!(chars.next(), Some('#' | ':')) && chars.next().is_some_and(is_word)
}

fn unexpected(text: &str) -> ApiError {
    ApiError::validation(format!("not expected here, or not understood: {text:?}"))
}
