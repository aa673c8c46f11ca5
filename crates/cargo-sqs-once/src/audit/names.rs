//! The names of keys, as numbers. Ten million keys fit into memory.

use std::collections::HashMap;

/// A key: the number of its namespace and twelve digits of its hash, or the number of another name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key(u64);

/// The digits of a hash that a line shows.
const DIGITS: usize = 12;
/// The bits of these digits.
const BITS: u32 = 48;
/// The namespace of names that have no such digits.
const NAMES: u64 = u16::MAX as u64;

#[derive(Debug, Default)]
pub(super) struct Names {
    /// The namespaces, then the other names.
    known: [Vec<Box<str>>; 2],
    numbers: [HashMap<Box<str>, u64>; 2],
}

impl Names {
    /// The key that a line names.
    pub(super) fn key(&mut self, name: &str) -> Key {
        let hashed = name.split_once('#').and_then(|(namespace, digits)| {
            let is_hash =
                digits.len() == DIGITS && digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let digits = is_hash.then(|| u64::from_str_radix(digits, 16).ok())?;
            Some((namespace, digits?))
        });
        if let Some((namespace, digits)) = hashed {
            let number = self.number(0, namespace);
            if number < NAMES {
                return Key(number << BITS | digits);
            }
        }
        self.whole(name)
    }

    /// A key with a name of its own.
    pub(super) fn whole(&mut self, name: &str) -> Key {
        Key(NAMES << BITS | self.number(1, name))
    }

    /// Whether the key is known by its whole name.
    pub(super) fn is_whole(key: Key) -> bool {
        key.0 >> BITS == NAMES
    }

    pub(super) fn name(&self, key: Key) -> String {
        let rest = key.0 & ((1 << BITS) - 1);
        match key.0 >> BITS {
            NAMES => self.known[1][rest as usize].to_string(),
            number => format!("{}#{rest:012x}", self.known[0][number as usize]),
        }
    }

    fn number(&mut self, kind: usize, name: &str) -> u64 {
        if let Some(number) = self.numbers[kind].get(name) {
            return *number;
        }
        let number = self.known[kind].len() as u64;
        self.known[kind].push(name.into());
        self.numbers[kind].insert(name.into(), number);
        number
    }
}
