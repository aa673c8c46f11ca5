//! The plots: latency and CPU time of a batch by its size, both axes logarithmic.

use std::fmt::{Result, Write};

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

/// One panel.
struct Panel {
    title: &'static str,
    value: fn(&Cell) -> f64,
    top: f64,
}

/// A contender's line in a panel, with its points in the panel's coordinates.
struct Line {
    title: &'static str,
    colour: &'static str,
    points: Vec<(f64, f64)>,
}

/// The plot of these contenders as an SVG file.
pub(super) fn svg(results: &Results, is_shown: fn(&Contender) -> bool) -> String {
    let mut svg = String::new();
    // Writing to a string cannot fail.
    let _ = write_svg(results, is_shown, &mut svg);
    svg
}

fn write_svg(results: &Results, is_shown: fn(&Contender) -> bool, svg: &mut String) -> Result {
    let (width, height) = (LEFT + WIDTH + RIGHT, 2.0 * (TOP + HEIGHT + BELOW));
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">"#
    )?;
    writeln!(svg, "{STYLE}")?;
    writeln!(
        svg,
        r#"<rect class="page" width="{width}" height="{height}"/>"#
    )?;
    let panels = [
        Panel {
            title: "latency of a batch, ms",
            value: latency_ms,
            top: TOP,
        },
        Panel {
            title: "CPU time of a batch, ms",
            value: cpu_ms,
            top: 2.0 * TOP + HEIGHT + BELOW,
        },
    ];
    for panel in panels {
        write_panel(results, is_shown, &panel, svg)?;
    }
    writeln!(svg, "</svg>")
}

fn write_panel(
    results: &Results,
    is_shown: fn(&Contender) -> bool,
    panel: &Panel,
    svg: &mut String,
) -> Result {
    let contenders = Contender::all().into_iter().zip(COLOURS.iter().cycle());
    let measured: Vec<_> = contenders
        .filter(|(contender, _)| is_shown(contender))
        .map(|(contender, colour)| {
            let points = points(results, contender.name, panel.value);
            (contender.title, *colour, points)
        })
        .filter(|(_, _, points)| !points.is_empty())
        .collect();
    let all = || measured.iter().flat_map(|(_, _, points)| points);
    let low = all().map(|(_, y)| y.log10()).fold(f64::INFINITY, f64::min);
    let high = all()
        .map(|(_, y)| y.log10())
        .fold(f64::NEG_INFINITY, f64::max);
    let (low, high) = (low.floor(), high.ceil());
    let decades = all().map(|(x, _)| x.log10()).fold(0.0, f64::max);
    if measured.is_empty() || low >= high || decades == 0.0 {
        return Ok(());
    }
    let x = |size: f64| LEFT + WIDTH * size.log10() / decades;
    let y = |value: f64| panel.top + HEIGHT * (high - value.log10()) / (high - low);
    write_axes(panel, low as i32..=high as i32, x, y, svg)?;
    let mut lines: Vec<_> = measured
        .into_iter()
        .map(|(title, colour, points)| Line {
            title,
            colour,
            points: points
                .into_iter()
                .map(|(size, value)| (x(size), y(value)))
                .collect(),
        })
        .collect();
    for line in &lines {
        write_line(line, svg)?;
    }
    write_names(&mut lines, panel, svg)
}

fn write_axes(
    panel: &Panel,
    decades: std::ops::RangeInclusive<i32>,
    x: impl Fn(f64) -> f64,
    y: impl Fn(f64) -> f64,
    svg: &mut String,
) -> Result {
    let (bottom, right) = (panel.top + HEIGHT, LEFT + WIDTH);
    writeln!(
        svg,
        r#"<text x="{LEFT}" y="{}" font-weight="bold">{}</text>"#,
        panel.top - 16.0,
        panel.title
    )?;
    for shape in Shape::plotted() {
        let (size, top) = (shape.records, panel.top);
        let x = x(size as f64);
        writeln!(
            svg,
            r#"<line class="grid" x1="{x:.1}" y1="{top}" x2="{x:.1}" y2="{bottom}"/>"#
        )?;
        writeln!(
            svg,
            r#"<text x="{x:.1}" y="{}" text-anchor="middle">{size}</text>"#,
            bottom + 18.0
        )?;
    }
    for decade in decades {
        let value = 10_f64.powi(decade);
        let y = y(value);
        writeln!(
            svg,
            r#"<line class="grid" x1="{LEFT}" y1="{y:.1}" x2="{right}" y2="{y:.1}"/>"#
        )?;
        writeln!(
            svg,
            r#"<text x="{}" y="{:.1}" text-anchor="end">{value}</text>"#,
            LEFT - 6.0,
            y + 4.0
        )?;
    }
    writeln!(
        svg,
        r#"<text x="{}" y="{}" text-anchor="middle">records in the batch</text>"#,
        LEFT + WIDTH / 2.0,
        bottom + 40.0
    )
}

fn write_line(line: &Line, svg: &mut String) -> Result {
    let colour = line.colour;
    let points: Vec<_> = line
        .points
        .iter()
        .map(|(x, y)| format!("{x:.1},{y:.1}"))
        .collect();
    writeln!(
        svg,
        r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
        points.join(" ")
    )?;
    for (x, y) in &line.points {
        writeln!(
            svg,
            r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#
        )?;
    }
    Ok(())
}

/// Writes the lines' names at their ends, far enough apart to be readable.
fn write_names(lines: &mut [Line], panel: &Panel, svg: &mut String) -> Result {
    let end = |line: &Line| line.points.last().copied().unwrap_or_default();
    lines.sort_by(|left, right| end(left).1.total_cmp(&end(right).1));
    // Names move up first if the names below them would not fit.
    let lowest = panel.top + HEIGHT - LINE * (lines.len().saturating_sub(1)) as f64;
    let mut at = f64::NEG_INFINITY;
    for (index, line) in lines.iter().enumerate() {
        let (x, y) = end(line);
        at = y.min(lowest + LINE * index as f64).max(at + LINE);
        let (name, colour, title) = (LEFT + WIDTH + 24.0, line.colour, line.title);
        writeln!(
            svg,
            r#"<line x1="{:.1}" y1="{y:.1}" x2="{:.1}" y2="{at:.1}" stroke="{colour}" stroke-dasharray="2 3"/>"#,
            x + 5.0,
            name - 4.0
        )?;
        writeln!(
            svg,
            r#"<text x="{name}" y="{:.1}" style="fill:{colour}">{title}</text>"#,
            at + 4.0
        )?;
    }
    Ok(())
}
