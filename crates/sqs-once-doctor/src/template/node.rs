//! A YAML or JSON document as a tree with the position of every value.

use crate::error::ReadError;
use crate::field::Step;
use saphyr_parser::{Event, Parser, ScalarStyle, Span, StrInput, Tag};
use serde_json::Value;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

/// Deeper than any template. Limits recursion.
const DEEPEST: usize = 100;
/// More nodes than any template has, since CloudFormation accepts 1 MB. Aliases could expand a small text without
/// limit.
const MOST_NODES: usize = 500_000;

/// A value of the document.
#[derive(Debug, Clone)]
pub(crate) struct Node {
    pub(crate) kind: Kind,
    /// Byte range in the text, without the tag.
    pub(crate) span: Range<usize>,
    /// From 1.
    pub(crate) line: usize,
    /// From 0, in characters.
    pub(crate) column: usize,
}

#[derive(Debug, Clone)]
pub(crate) enum Kind {
    Scalar { text: String, is_plain: bool },
    Sequence { items: Vec<Node>, is_flow: bool },
    Mapping { entries: Vec<Entry>, is_flow: bool },
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) key: String,
    pub(crate) key_span: Range<usize>,
    pub(crate) line: usize,
    pub(crate) column: usize,
    pub(crate) value: Node,
}

impl Node {
    /// Reads the first document of a text.
    pub(crate) fn parse(text: &str) -> Result<Self, ReadError> {
        let offsets = text.char_indices().map(|(offset, _)| offset);
        let mut reader = Reader {
            parser: Parser::new_from_str(text),
            text,
            offsets: offsets.chain([text.len()]).collect(),
            anchors: HashMap::new(),
            nodes: 0,
        };
        loop {
            let (event, span) = reader.next()?;
            match event {
                Event::StreamStart | Event::DocumentStart(_) | Event::Nothing => {}
                Event::StreamEnd | Event::DocumentEnd => return Err(ReadError::NoResources),
                event => return reader.node(event, span, 0),
            }
        }
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Node> {
        let entry = self.entries().iter().find(|entry| entry.key == key);
        entry.map(|entry| &entry.value)
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        match &self.kind {
            Kind::Mapping { entries, .. } => entries,
            _ => &[],
        }
    }

    pub(crate) fn items(&self) -> &[Node] {
        match &self.kind {
            Kind::Sequence { items, .. } => items,
            _ => &[],
        }
    }

    pub(crate) fn step(&self, step: &Step) -> Option<&Node> {
        match step {
            Step::Key(key) => self.get(key),
            Step::Index(index) => self.items().get(*index),
        }
    }

    pub(crate) fn scalar(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { text, .. } => Some(text),
            _ => None,
        }
    }

    pub(crate) fn is_null(&self) -> bool {
        matches!(&self.kind, Kind::Scalar { text, is_plain: true } if matches!(&**text, "" | "~" | "null"))
    }

    /// The intrinsic function of this value, by its long name, and its argument.
    pub(crate) fn intrinsic(&self) -> Option<(&str, &Node)> {
        let [only] = self.entries() else { return None };
        let key = &*only.key;
        let is_intrinsic = key == "Ref" || key == "Condition" || key.starts_with("Fn::");
        is_intrinsic.then_some((key, &only.value))
    }

    /// Adds the names of the conditions that choose a value or a resource.
    pub(crate) fn conditions<'a>(&'a self, names: &mut BTreeSet<&'a str>) {
        let resources = self.get("Resources").map_or(&[][..], Node::entries);
        let own = resources.iter().filter_map(|it| it.value.get("Condition"));
        names.extend(own.filter_map(Node::scalar));
        if let Some(("Fn::If", arguments)) = self.intrinsic() {
            names.extend(arguments.items().first().and_then(Node::scalar));
        }
        let inner = self.entries().iter().map(|it| &it.value);
        inner
            .chain(self.items())
            .for_each(|it| it.conditions(names));
    }

    /// The value as JSON with every scalar as a string, for comparing documents.
    pub(crate) fn to_json(&self) -> Value {
        match &self.kind {
            Kind::Scalar { text, .. } => Value::String(text.clone()),
            Kind::Sequence { items, .. } => items.iter().map(Node::to_json).collect(),
            Kind::Mapping { entries, .. } => {
                let entries = entries.iter();
                let entries = entries.map(|entry| (entry.key.clone(), entry.value.to_json()));
                Value::Object(entries.collect())
            }
        }
    }
}

struct Reader<'a> {
    parser: Parser<'a, StrInput<'a>>,
    text: &'a str,
    /// The byte offset of each character.
    offsets: Vec<usize>,
    anchors: HashMap<usize, Node>,
    nodes: usize,
}

impl<'a> Reader<'a> {
    fn next(&mut self) -> Result<(Event<'a>, Span), ReadError> {
        match self.parser.next() {
            Some(next) => next.map_err(|source| ReadError::Yaml(Box::new(source))),
            None => Err(ReadError::NoResources),
        }
    }

    fn node(&mut self, event: Event<'a>, span: Span, depth: usize) -> Result<Node, ReadError> {
        self.nodes += 1;
        if depth > DEEPEST || self.nodes > MOST_NODES {
            return Err(ReadError::TooLarge);
        }
        let range = self.range(span);
        let (kind, end, anchor, tag) = match event {
            Event::Alias(anchor) => {
                let read = self.anchors.get(&anchor).ok_or(ReadError::TooLarge)?;
                self.nodes += size(read);
                return Ok(read.clone());
            }
            Event::Scalar(text, style, anchor, tag) => {
                let is_plain = style == ScalarStyle::Plain;
                let text = text.into_owned();
                (Kind::Scalar { text, is_plain }, range.end, anchor, tag)
            }
            Event::SequenceStart(anchor, tag) => {
                let mut items = Vec::new();
                let end = loop {
                    match self.next()? {
                        (Event::SequenceEnd, end) => break self.range(end).end,
                        (event, span) => items.push(self.node(event, span, depth + 1)?),
                    }
                };
                let is_flow = self.text[range.start..].starts_with('[');
                (Kind::Sequence { items, is_flow }, end, anchor, tag)
            }
            Event::MappingStart(anchor, tag) => {
                let mut entries = Vec::new();
                let mut lines = HashMap::new();
                let end = loop {
                    let (key, key_span) = match self.next()? {
                        (Event::MappingEnd, end) => break self.range(end).end,
                        (event, span) => (self.node(event, span, depth + 1)?, span),
                    };
                    // A mapping may merge several others.
                    if let Some(key) = key.scalar().filter(|key| *key != "<<") {
                        let second = key_span.start.line();
                        if let Some(first) = lines.insert(key.to_owned(), second) {
                            let key = key.to_owned();
                            return Err(ReadError::DuplicateKey { key, first, second });
                        }
                    }
                    let (event, span) = self.next()?;
                    let value = self.node(event, span, depth + 1)?;
                    entries.push(Entry {
                        key: key.scalar().unwrap_or_default().to_owned(),
                        key_span: self.range(key_span),
                        line: key.line,
                        column: key.column,
                        value,
                    });
                };
                let is_flow = self.text[range.start..].starts_with('{');
                (Kind::Mapping { entries, is_flow }, end, anchor, tag)
            }
            _ => return Err(ReadError::NoResources),
        };
        let read = Node {
            kind,
            span: range.start..end.max(range.start),
            line: span.start.line(),
            column: span.start.col(),
        };
        let read = match tag {
            Some(tag) => long_form(read, &tag),
            None => read,
        };
        if anchor > 0 {
            self.anchors.insert(anchor, read.clone());
        }
        Ok(read)
    }

    fn range(&self, span: Span) -> Range<usize> {
        let offset = |index: usize| *self.offsets.get(index).unwrap_or(&self.text.len());
        let start = offset(span.start.index());
        start..offset(span.end.index()).max(start)
    }
}

fn size(node: &Node) -> usize {
    let inner = node.entries().iter().map(|entry| &entry.value);
    1 + inner.chain(node.items()).map(size).sum::<usize>()
}

/// `!GetAtt Queue.Arn` is `{"Fn::GetAtt": ["Queue", "Arn"]}`.
fn long_form(mut node: Node, tag: &Tag) -> Node {
    if tag.handle != "!" || tag.suffix.is_empty() {
        return node;
    }
    let key = match &*tag.suffix {
        "Ref" | "Condition" => tag.suffix.clone(),
        name => format!("Fn::{name}"),
    };
    let (span, line, column) = (node.span.clone(), node.line, node.column);
    let here = |kind| Node {
        kind,
        span: span.clone(),
        line,
        column,
    };
    if key == "Fn::GetAtt"
        && let Kind::Scalar { text, .. } = &node.kind
        && let Some((resource, attribute)) = text.split_once('.')
    {
        let part = |text: &str| Kind::Scalar {
            text: text.to_owned(),
            is_plain: true,
        };
        node.kind = Kind::Sequence {
            items: vec![here(part(resource)), here(part(attribute))],
            is_flow: true,
        };
    }
    let entry = Entry {
        key,
        key_span: span.clone(),
        line,
        column,
        value: node,
    };
    here(Kind::Mapping {
        entries: vec![entry],
        is_flow: true,
    })
}
