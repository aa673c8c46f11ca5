//! Mermaid's sequence diagrams, as far as the guides use them.
//!
//! `participant A as words`, `A->>B: words` (`-->>` for an answer, `-x` and `--x` for what is lost on its way),
//! `Note over A,B: words`, `activate A`, `deactivate A`. A note that begins with `✗` is something that dies. The id says
//! what a participant is: `Q` and `X` a queue, `L` Lambda, `D` a store, `E` an effect elsewhere; all others are functions.

pub(crate) struct Diagram {
    /// What a screen reader says of it.
    pub(crate) title: String,
    pub(crate) participants: Vec<Participant>,
    pub(crate) steps: Vec<Step>,
}

pub(crate) struct Participant {
    pub(crate) id: String,
    pub(crate) name: String,
}

/// Participants are named by their place.
pub(crate) enum Step {
    Message {
        from: usize,
        to: usize,
        is_answer: bool,
        is_lost: bool,
        words: String,
    },
    Note {
        from: usize,
        to: usize,
        words: String,
    },
    Death {
        who: usize,
        words: String,
    },
    Activate(usize),
    Deactivate(usize),
}

impl Step {
    pub(crate) fn concerns(&self, participant: usize) -> bool {
        match *self {
            Self::Message { from, to, .. } => from == participant || to == participant,
            Self::Note { from, to, .. } => (from..=to).contains(&participant),
            Self::Death { who, .. } | Self::Activate(who) | Self::Deactivate(who) => {
                who == participant
            }
        }
    }
}

impl Diagram {
    /// Reads a diagram; an error names the line that is none of ours.
    pub(crate) fn parse(source: &str) -> Result<Self, String> {
        let mut diagram = Self {
            title: String::new(),
            participants: Vec::new(),
            steps: Vec::new(),
        };
        let mut lines = source
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty());
        if lines.next() != Some("sequenceDiagram") {
            return Err("its first line is not `sequenceDiagram`".to_owned());
        }
        for line in lines {
            diagram
                .read(line)
                .ok_or_else(|| format!("`{line}` is not understood"))?;
        }
        match diagram.title.is_empty() {
            true => Err("it has no `accTitle: …`".to_owned()),
            false => Ok(diagram),
        }
    }

    fn read(&mut self, line: &str) -> Option<()> {
        if let Some(title) = line.strip_prefix("accTitle: ") {
            title.clone_into(&mut self.title);
            return Some(());
        }
        if let Some(participant) = line.strip_prefix("participant ") {
            let (id, name) = participant.split_once(" as ")?;
            let (id, name) = (id.to_owned(), name.to_owned());
            self.participants.push(Participant { id, name });
            return Some(());
        }
        let step = match line.split_once(' ')? {
            ("activate", who) => Step::Activate(self.place(who)?),
            ("deactivate", who) => Step::Deactivate(self.place(who)?),
            ("Note", note) => self.note(note)?,
            _ => self.message(line)?,
        };
        self.steps.push(step);
        Some(())
    }

    fn note(&self, note: &str) -> Option<Step> {
        let (over, words) = note.strip_prefix("over ")?.split_once(": ")?;
        let (from, to) = over.split_once(',').unwrap_or((over, over));
        let (from, to) = (self.place(from)?, self.place(to)?);
        Some(match words.strip_prefix("✗ ") {
            Some(words) => Step::Death {
                who: from,
                words: words.to_owned(),
            },
            None => Step::Note {
                from,
                to,
                words: words.to_owned(),
            },
        })
    }

    fn message(&self, line: &str) -> Option<Step> {
        let (ends, words) = line.split_once(": ")?;
        // The longer ones first: each has a shorter one in it.
        let arrows = [
            ("-->>", true, false),
            ("->>", false, false),
            ("--x", true, true),
            ("-x", false, true),
        ];
        let (arrow, is_answer, is_lost) = arrows
            .into_iter()
            .find(|(arrow, ..)| ends.contains(arrow))?;
        let (from, to) = ends.split_once(arrow)?;
        Some(Step::Message {
            from: self.place(from)?,
            to: self.place(to)?,
            is_answer,
            is_lost,
            words: words.to_owned(),
        })
    }

    fn place(&self, id: &str) -> Option<usize> {
        self.participants
            .iter()
            .position(|participant| participant.id == id.trim())
    }
}
