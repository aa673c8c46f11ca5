//! Parses the parts of Markdown that links need.

/// A page without its code blocks.
pub(crate) struct Page {
    lines: Vec<String>,
    /// All lines joined, since a link may span several.
    text: String,
}

impl Page {
    pub(crate) fn read(text: &str) -> Self {
        let mut is_code = false;
        let mut lines = Vec::new();
        for line in text.lines() {
            if line.trim_start().starts_with("```") {
                is_code = !is_code;
            } else if !is_code {
                lines.push(line.to_owned());
            }
        }
        let text: Vec<_> = lines.iter().map(|line| line.trim()).collect();
        let text = without_links_in_code(&text.join(" "));
        Self { lines, text }
    }

    /// The anchors of its headings, as GitHub and rustdoc generate them.
    pub(crate) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        for line in self.lines.iter().filter(|line| line.starts_with('#')) {
            let mut anchor = String::new();
            for c in line.trim_start_matches('#').trim().chars() {
                match c {
                    ' ' => anchor.push('-'),
                    '-' | '_' => anchor.push(c),
                    _ if c.is_alphanumeric() => anchor.extend(c.to_lowercase()),
                    _ => {}
                }
            }
            let same = anchors.iter().filter(|other| **other == anchor).count();
            if same > 0 {
                anchor = format!("{anchor}-{same}");
            }
            anchors.push(anchor);
        }
        anchors
    }

    /// The labels and destinations of definitions `[label]: destination`, each on its own line.
    pub(crate) fn definitions(&self) -> Vec<(&str, &str)> {
        let definitions = self.lines.iter().filter_map(|line| {
            let (label, to) = line.strip_prefix('[')?.split_once("]: ")?;
            Some((label, to.trim()))
        });
        definitions.collect()
    }

    /// The destinations of inline links and images: `[words](destination)`.
    pub(crate) fn inline(&self) -> Vec<&str> {
        self.between("](", ")")
    }

    /// The labels in links and images: `[words][label]`.
    pub(crate) fn references(&self) -> Vec<&str> {
        self.between("][", "]")
    }

    /// Whether a label appears in brackets, as words or as a label.
    pub(crate) fn mentions(&self, label: &str) -> bool {
        let definitions = self.definitions().into_iter();
        let own = definitions.filter(|(defined, _)| *defined == label);
        self.text.matches(&format!("[{label}]")).count() > own.count()
    }

    /// The definitions that continue a paragraph, which are no definitions.
    pub(crate) fn definitions_in_text(&self) -> Vec<&str> {
        let is_definition = |line: &str| line.starts_with('[') && line.contains("]: ");
        let pairs = self.lines.windows(2).filter(|pair| {
            is_definition(&pair[1]) && !pair[0].trim().is_empty() && !is_definition(&pair[0])
        });
        pairs.map(|pair| &*pair[1]).collect()
    }

    fn between(&self, open: &str, close: &str) -> Vec<&str> {
        let parts = self.text.split(open).skip(1);
        let between = parts.filter_map(|part| Some(part.split_once(close)?.0));
        between.collect()
    }
}

/// Removes link syntax between back quotes, where it is not a link.
fn without_links_in_code(text: &str) -> String {
    let is_code = |at: usize| at % 2 == 1;
    let shown = text.split('`').enumerate().map(|(at, part)| match part {
        link if is_code(at) && (link.contains("](") || link.contains("][")) => "",
        part => part,
    });
    shown.collect::<Vec<_>>().join("`")
}
