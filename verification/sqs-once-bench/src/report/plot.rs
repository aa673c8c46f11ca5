//! The plots: latency and CPU time of a batch by its size, both axes logarithmic.

use std::fmt::Display;

use super::Results;
use super::growth::{cpu_ms, latency_ms, points};
use crate::contender::Contender;
use crate::measure::Cell;
use crate::shape::Shape;

const WIDTH: f64 = 470.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const TOP: f64 = 40.0;
/// The height below a panel, for the sizes and the axis title.
const BELOW: f64 = 60.0;
/// The width to the right of a panel, for the lines' names.
const RIGHT: f64 = 270.0;
/// The minimum distance between names.
const LINE: f64 = 16.0;
/// One colour per contender. Each is visible on white and on nearly black.
const COLOURS: [&str; 11] = [
    "#808891", "#c0569a", "#8a63d2", "#e5484d", "#2f7fd6", "#3ba0b5", "#6f8fae", "#b58900",
    "#2f9e57", "#7aa83b", "#d9730d",
];
/// A page in dark mode shows a dark plot.
const STYLE: &str = "<style>text{fill:#1f2328}.page{fill:#ffffff}.grid{stroke:#d8dee4}\
    @media(prefers-color-scheme:dark){text{fill:#e6edf3}.page{fill:#0d1117}.grid{stroke:#30363d}}</style>";

/// A contender's line in a panel, with its points in the panel's coordinates.
struct Line {
    title: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// The plot of these contenders as an SVG file.
pub(super) fn svg(results: &Results, is_shown: fn(&Contender) -> bool) -> String {
    let (width, height) = (LEFT + WIDTH + RIGHT, 2.0 * (TOP + HEIGHT + BELOW));
    let lower = 2.0 * TOP + HEIGHT + BELOW;
    let panels = [
        panel(results, is_shown, "latency of a batch, ms", latency_ms, TOP),
        panel(results, is_shown, "CPU time of a batch, ms", cpu_ms, lower),
    ];
    let panels = panels.concat();
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">
{STYLE}
<rect class="page" width="{width}" height="{height}"/>
{panels}</svg>
"#
    )
}

fn panel(
    results: &Results,
    is_shown: fn(&Contender) -> bool,
    title: &str,
    value: fn(&Cell) -> f64,
    top: f64,
) -> String {
    let contenders = Contender::all().into_iter().zip(COLOURS.iter().cycle());
    let mut lines: Vec<_> = contenders
        .filter(|(contender, _)| is_shown(contender))
        .map(|(contender, colour)| Line {
            title: contender.title,
            colour,
            points: points(results, contender.name, value),
        })
        .filter(|line| !line.points.is_empty())
        .collect();
    let all = || lines.iter().flat_map(|line| &line.points);
    let values = || all().map(|(_, y)| y.log10());
    let low = values().fold(f64::INFINITY, f64::min).floor();
    let high = values().fold(f64::NEG_INFINITY, f64::max).ceil();
    let decades = all().map(|(x, _)| x.log10()).fold(0.0, f64::max);
    if lines.is_empty() || low >= high || decades == 0.0 {
        return String::new();
    }
    let x = |size: f64| LEFT + WIDTH * size.log10() / decades;
    let y = |value: f64| top + HEIGHT * (high - value.log10()) / (high - low);
    let mut svg = text(LEFT, top - 16.0, r#" font-weight="bold""#, title);
    svg += &axes(top, low as i32..=high as i32, x, y);
    for line in &mut lines {
        for point in &mut line.points {
            *point = (x(point.0), y(point.1));
        }
        svg += &line.drawn();
    }
    svg + &names(lines, top)
}

fn axes(
    top: f64,
    decades: std::ops::RangeInclusive<i32>,
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
) -> String {
    let (bottom, right) = (top + HEIGHT, LEFT + WIDTH);
    let middle = r#" text-anchor="middle""#;
    let grid = r#" class="grid""#;
    let mut svg = String::new();
    for shape in Shape::plotted() {
        let x = x(shape.records as f64);
        svg += &stroke((x, top), (x, bottom), grid);
        svg += &text(x, bottom + 18.0, middle, shape.records);
    }
    for decade in decades {
        let value = 10_f64.powi(decade);
        let y = y(value);
        svg += &stroke((LEFT, y), (right, y), grid);
        svg += &text(LEFT - 6.0, y + 4.0, r#" text-anchor="end""#, value);
    }
    svg + &text(
        LEFT + WIDTH / 2.0,
        bottom + 40.0,
        middle,
        "records in the batch",
    )
}

impl Line {
    fn drawn(&self) -> String {
        let colour = self.colour;
        let points = self.points.iter();
        let points: Vec<_> = points.map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let circles = self.points.iter().map(|(x, y)| {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{colour}\"/>\n")
        });
        let circles: String = circles.collect();
        let points = points.join(" ");
        format!(
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>\n{circles}"
        )
    }

    fn end(&self) -> (f64, f64) {
        self.points.last().copied().unwrap_or_default()
    }
}

/// The lines' names at their ends, far enough apart to be readable.
fn names(mut lines: Vec<Line>, top: f64) -> String {
    lines.sort_by(|left, right| left.end().1.total_cmp(&right.end().1));
    // Names move up first if the names below them would not fit.
    let lowest = top + HEIGHT - LINE * (lines.len().saturating_sub(1)) as f64;
    let (mut svg, mut at) = (String::new(), f64::NEG_INFINITY);
    for (index, line) in lines.iter().enumerate() {
        let ((x, y), name, colour) = (line.end(), LEFT + WIDTH + 24.0, line.colour);
        at = y.min(lowest + LINE * index as f64).max(at + LINE);
        let dashed = format!(r#" stroke="{colour}" stroke-dasharray="2 3""#);
        svg += &stroke((x + 5.0, y), (name - 4.0, at), &dashed);
        let style = format!(r#" style="fill:{colour}""#);
        svg += &text(name, at + 4.0, &style, line.title);
    }
    svg
}

fn stroke((x1, y1): (f64, f64), (x2, y2): (f64, f64), attributes: &str) -> String {
    format!("<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\"{attributes}/>\n")
}

fn text(x: f64, y: f64, attributes: &str, text: impl Display) -> String {
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\"{attributes}>{text}</text>\n")
}
