//! Short texts in one piece.

/// A list of texts in two allocations, however many they are.
pub(super) struct Packed {
    texts: Box<str>,
    /// Where each of them ends.
    ends: Box<[usize]>,
}

impl Packed {
    pub(super) fn new<'a>(texts: impl Iterator<Item = &'a str> + Clone) -> Self {
        let mut packed = String::with_capacity(texts.clone().map(str::len).sum());
        let mut ends = Vec::with_capacity(texts.clone().count());
        for text in texts {
            packed.push_str(text);
            ends.push(packed.len());
        }
        Self {
            texts: packed.into(),
            ends: ends.into(),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// # Panics
    /// If there are not so many.
    pub(super) fn get(&self, at: usize) -> &str {
        let begin = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.texts[begin..self.ends[at]]
    }
}
