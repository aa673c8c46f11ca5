//! Sequence diagrams as SVG: small, without a font of their own, on a ground that suits a light and a dark page.

use std::fmt::Write;

use crate::guides::sequence::{Diagram, Step};

const WIDTH: f64 = 720.0;
const MARGIN: f64 = 24.0;
const HEAD: f64 = 38.0;
const LINE: f64 = 17.0;
const FONT: f64 = 13.0;
const BAR: f64 = 5.0;
const INK: &str = "#1f2937";
/// What everything lies on, and what keeps words apart from lines behind them.
const GROUND: &str = "#fcfdff";
const FAINT: &str = "#94a3b8";
const RED: &str = "#c81e1e";

/// Draws a diagram, from the heads of its lifelines downwards.
pub(crate) fn svg(diagram: &Diagram) -> String {
    let mut drawing = Drawing {
        diagram,
        y: MARGIN + HEAD + 10.0,
        lines: String::new(),
        marks: String::new(),
        active: vec![None; diagram.participants.len()],
        ends: vec![None; diagram.participants.len()],
    };
    for (at, step) in diagram.steps.iter().enumerate() {
        drawing.step(at, step);
    }
    drawing.finish()
}

struct Drawing<'a> {
    diagram: &'a Diagram,
    /// How far down the drawing has come.
    y: f64,
    /// What lies beneath everything else.
    lines: String,
    marks: String,
    /// Since where each participant has been at work.
    active: Vec<Option<f64>>,
    /// Where each lifeline ends before the drawing does.
    ends: Vec<Option<f64>>,
}

impl Drawing<'_> {
    fn spacing(&self) -> f64 {
        (WIDTH - 2.0 * MARGIN) / self.diagram.participants.len() as f64
    }

    fn x(&self, participant: usize) -> f64 {
        MARGIN + self.spacing() * (participant as f64 + 0.5)
    }

    fn step(&mut self, at: usize, step: &Step) {
        match *step {
            Step::Message {
                from,
                to,
                is_answer,
                is_lost,
                ref words,
            } => {
                if from == to {
                    return self.work(from, words);
                }
                self.message(from, to, is_answer, is_lost, words);
            }
            Step::Note {
                from,
                to,
                ref words,
            } => self.note(from, to, words),
            Step::Death { who, ref words } => {
                self.death(who, words);
                let goes_on = self.diagram.steps[at + 1..]
                    .iter()
                    .any(|step| step.concerns(who));
                if !goes_on {
                    self.ends[who] = Some(self.y);
                }
                self.y += 16.0;
            }
            Step::Activate(who) => self.active[who] = Some(self.y + 4.0),
            Step::Deactivate(who) => self.end_bar(who, self.y + 6.0),
        }
    }

    fn message(&mut self, from: usize, to: usize, is_answer: bool, is_lost: bool, words: &str) {
        let forth = if to > from { 1.0 } else { -1.0 };
        let bar = |who: usize| self.active[who].map_or(0.0, |_| BAR);
        let (start, end) = (
            self.x(from) + forth * bar(from),
            self.x(to) - forth * bar(to),
        );
        let room = (end - start).abs() - 8.0;
        let middle = f64::midpoint(start, end);
        self.y += 8.0;
        let label = format!(r#"fill="{INK}" text-anchor="middle" class="label""#);
        self.words(middle, wrapped(words, room), &label);
        self.y += 8.0;
        let y = self.y;
        let dashes = if is_answer {
            r#" stroke-dasharray="5 4""#
        } else {
            ""
        };
        let colour = if is_lost { RED } else { INK };
        let tip = if is_lost {
            start + (end - start) * 0.72
        } else {
            end
        };
        _ = writeln!(
            self.marks,
            r#"<path d="M{start:.0} {y:.0}H{tip:.0}" stroke="{colour}" stroke-width="1.5"{dashes}/>"#,
        );
        if is_lost {
            self.cross(tip, y, 6.0);
        } else {
            let back = tip - forth * 8.0;
            _ = writeln!(
                self.marks,
                r#"<path d="M{tip:.0} {y:.0}L{back:.0} {:.0}V{:.0}Z" fill="{colour}" stroke="none"/>"#,
                y - 4.5,
                y + 4.5
            );
        }
        self.y += 8.0;
    }

    /// What a participant does by itself.
    fn work(&mut self, who: usize, words: &str) {
        self.boxed(
            self.x(who),
            self.spacing() - 14.0,
            words,
            "#ffffff",
            "#94a3b8",
        );
    }

    fn note(&mut self, from: usize, to: usize, words: &str) {
        let middle = f64::midpoint(self.x(from), self.x(to));
        let room = self.x(to) - self.x(from) + self.spacing() - 14.0;
        self.boxed(middle, room, words, "#fff7dc", "#e8d9a0");
    }

    fn boxed(&mut self, middle: f64, room: f64, words: &str, fill: &str, stroke: &str) {
        let lines = wrapped(words, room - 20.0);
        let widest = lines.iter().map(|line| width(line)).fold(0.0, f64::max);
        let (w, h) = (widest + 20.0, LINE * lines.len() as f64 + 8.0);
        self.y += 10.0;
        _ = writeln!(
            self.marks,
            r#"<rect x="{:.0}" y="{:.0}" width="{w:.0}" height="{h:.0}" rx="5" fill="{fill}" stroke="{stroke}"/>"#,
            middle - w / 2.0,
            self.y
        );
        self.y += 3.0;
        self.words(
            middle,
            lines,
            &format!(r#"fill="{INK}" text-anchor="middle""#),
        );
        self.y += 9.0;
    }

    fn death(&mut self, who: usize, words: &str) {
        self.y += 18.0;
        let (x, y) = (self.x(who), self.y);
        self.end_bar(who, y);
        self.cross(x, y, 9.0);
        let lines = wrapped(words, self.spacing() - 30.0);
        // Beside its lifeline, on the side where there is room.
        let is_last = who + 1 == self.diagram.participants.len();
        let (side, anchor) = if is_last {
            (-16.0, "end")
        } else {
            (16.0, "start")
        };
        let below = LINE * lines.len() as f64 / 2.0;
        self.y = y - below;
        let red = format!(r#"fill="{RED}" text-anchor="{anchor}" class="label""#);
        self.words(x + side, lines, &red);
        self.y = y + (below - 9.0).max(0.0);
    }

    fn cross(&mut self, x: f64, y: f64, arm: f64) {
        let (left, right, up, down) = (x - arm, x + arm, y - arm, y + arm);
        _ = writeln!(
            self.marks,
            r#"<path d="M{left:.0} {up:.0}L{right:.0} {down:.0}M{right:.0} {up:.0}L{left:.0} {down:.0}" stroke="{RED}" stroke-width="3"/>"#,
        );
    }

    /// Lines of text, the first of them at the drawing's height.
    fn words(&mut self, x: f64, lines: Vec<String>, attributes: &str) {
        for line in lines {
            self.y += LINE;
            _ = writeln!(
                self.marks,
                r#"<text x="{x:.0}" y="{:.0}" {attributes}>{}</text>"#,
                self.y - 3.0,
                escaped(&line)
            );
        }
    }

    /// What shows that a participant is at work.
    fn end_bar(&mut self, who: usize, end: f64) {
        let Some(start) = self.active[who].take() else {
            return;
        };
        let (fill, stroke) = colours(&self.diagram.participants[who].id);
        _ = writeln!(
            self.lines,
            r#"<rect x="{:.0}" y="{start:.0}" width="{:.0}" height="{:.0}" fill="{fill}" stroke="{stroke}"/>"#,
            self.x(who) - BAR,
            2.0 * BAR,
            end - start
        );
    }

    fn finish(mut self) -> String {
        let bottom = self.y + 14.0;
        let height = bottom + MARGIN - 6.0;
        for who in 0..self.diagram.participants.len() {
            self.end_bar(who, bottom);
        }
        let mut heads = String::new();
        for (who, participant) in self.diagram.participants.iter().enumerate() {
            let (x, end) = (self.x(who), self.ends[who].unwrap_or(bottom));
            let top = MARGIN + HEAD;
            _ = writeln!(
                heads,
                r#"<path d="M{x:.0} {top:.0}V{end:.0}" stroke="{FAINT}"/>"#
            );
            let (fill, stroke) = colours(&participant.id);
            let w = (width(&participant.name) * 1.08 + 28.0)
                .max(90.0)
                .min(self.spacing() - 10.0);
            _ = writeln!(
                heads,
                r#"<rect x="{:.0}" y="{MARGIN:.0}" width="{w:.0}" height="{HEAD:.0}" rx="8" fill="{fill}" stroke="{stroke}"/>"#,
                x - w / 2.0
            );
            _ = writeln!(
                heads,
                r#"<text x="{x:.0}" y="{:.0}" fill="{INK}" text-anchor="middle" font-weight="600">{}</text>"#,
                MARGIN + HEAD / 2.0 + 4.5,
                escaped(&participant.name)
            );
        }
        let (title, lines, marks) = (escaped(&self.diagram.title), &self.lines, &self.marks);
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH:.0}" height="{height:.0}" viewBox="0 0 {WIDTH:.0} {height:.0}" role="img" font-family="system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif" font-size="{FONT:.0}" fill="none">
<title>{title}</title>
<style>.label{{paint-order:stroke;stroke:{GROUND};stroke-width:4}}</style>
<rect x=".5" y=".5" width="{:.0}" height="{:.0}" rx="12" fill="{GROUND}" stroke="#d5dce6"/>
{heads}{lines}{marks}</svg>
"##,
            WIDTH - 1.0,
            height - 1.0
        )
    }
}

/// A participant's ground and outline, by what it is.
fn colours(id: &str) -> (&'static str, &'static str) {
    match id {
        "Q" | "X" => ("#fde8f1", "#d98bab"),
        "L" => ("#eceff4", "#9aa6b8"),
        "D" => ("#e2edff", "#7fa3dc"),
        "E" => ("#e0f5e6", "#79b88c"),
        _ => ("#fff0dc", "#dfa75a"),
    }
}

/// Breaks words into lines that fit.
fn wrapped(words: &str, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ') {
        match lines.last_mut() {
            Some(line) if width(line) + width(word) + width(" ") <= room => {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

/// About as wide as the wider of the usual fonts show it.
fn width(text: &str) -> f64 {
    let of = |c: char| match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.29,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '-' | '/' => 0.37,
        'm' | 'w' | 'M' | 'W' | '…' | '→' => 0.88,
        'A'..='Z' => 0.70,
        _ => 0.57,
    };
    text.chars().map(of).sum::<f64>() * FONT
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
