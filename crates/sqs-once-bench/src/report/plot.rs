//! The plot: latency, and CPU a record, against the size of the batch, both axes logarithmic.

use std::fmt::Write;

use super::Results;
use crate::contender::Contender;
use crate::measure::Cell;
use crate::shape::Shape;

const WIDTH: f64 = 400.0;
const HEIGHT: f64 = 320.0;
const LEFT: f64 = 60.0;
const TOP: f64 = 40.0;
const LEGEND: f64 = 22.0;
const COLOURS: [&str; 9] = [
    "#555555", "#8172b3", "#c44e52", "#1f5f99", "#4c9bd6", "#9ecae9", "#ccaa33", "#2f8f4e",
    "#8fd19e",
];

/// What one panel shows.
struct Panel {
    title: &'static str,
    value: fn(&Cell) -> f64,
    left: f64,
}

/// The plot as an SVG file.
pub fn svg(results: &Results) -> String {
    let mut svg = String::new();
    // Writing to a string can't fail.
    let _ = write_svg(results, &mut svg);
    svg
}

fn write_svg(results: &Results, svg: &mut String) -> std::fmt::Result {
    let contenders = Contender::all();
    let (width, below) = (2.0 * (LEFT + WIDTH) + 40.0, TOP + HEIGHT + 60.0);
    let height = below + LEGEND * contenders.len().div_ceil(2) as f64 + 10.0;
    writeln!(
        svg,
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="13">"#
    )?;
    writeln!(
        svg,
        r#"<rect width="{width}" height="{height}" fill="white"/>"#
    )?;
    let panels = [
        Panel {
            title: "latency of a batch, ms",
            value: |cell| cell.latency_ms.median,
            left: LEFT,
        },
        Panel {
            title: "CPU a record, µs",
            value: |cell| cell.cpu_us.median,
            left: 2.0 * LEFT + WIDTH + 10.0,
        },
    ];
    for panel in panels {
        write_panel(results, &contenders, &panel, svg)?;
    }
    for (index, (contender, colour)) in contenders.iter().zip(COLOURS).enumerate() {
        let x = LEFT + (index % 2) as f64 * (LEFT + WIDTH + 10.0);
        let y = below + LEGEND * (index / 2) as f64;
        let title = contender.title;
        writeln!(
            svg,
            r#"<line x1="{x}" y1="{y}" x2="{}" y2="{y}" stroke="{colour}" stroke-width="3"/>"#,
            x + 24.0
        )?;
        writeln!(
            svg,
            r#"<text x="{}" y="{}">{title}</text>"#,
            x + 32.0,
            y + 4.0
        )?;
    }
    writeln!(svg, "</svg>")
}

fn write_panel(
    results: &Results,
    contenders: &[Contender],
    panel: &Panel,
    svg: &mut String,
) -> std::fmt::Result {
    let shapes = Shape::all().into_iter().filter(Shape::is_plotted);
    let sizes: Vec<_> = shapes
        .map(|shape| (shape.name, shape.records as f64))
        .collect();
    let points = |contender: &Contender| -> Vec<(f64, f64)> {
        let cells = sizes.iter().filter_map(|(shape, size)| {
            Some((*size, (panel.value)(results.cell(contender.name, shape)?)))
        });
        cells.collect()
    };
    let values: Vec<_> = contenders
        .iter()
        .flat_map(&points)
        .map(|(_, value)| value.log10())
        .collect();
    let low = values.iter().copied().fold(f64::INFINITY, f64::min).floor();
    let high = values
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max)
        .ceil();
    if values.is_empty() || low >= high {
        return Ok(());
    }
    let decades = sizes.last().map_or(1.0, |(_, size)| size.log10());
    let x = |size: f64| panel.left + WIDTH * size.log10() / decades;
    let y = |log: f64| TOP + HEIGHT * (high - log) / (high - low);
    writeln!(
        svg,
        r#"<text x="{}" y="{}" font-weight="bold">{}</text>"#,
        panel.left,
        TOP - 16.0,
        panel.title
    )?;
    for (_, size) in &sizes {
        let (x, bottom) = (x(*size), TOP + HEIGHT);
        writeln!(
            svg,
            r##"<line x1="{x}" y1="{TOP}" x2="{x}" y2="{bottom}" stroke="#dddddd"/>"##
        )?;
        writeln!(
            svg,
            r#"<text x="{x}" y="{}" text-anchor="middle">{size}</text>"#,
            bottom + 18.0
        )?;
    }
    for decade in low as i32..=high as i32 {
        let (y, right) = (y(f64::from(decade)), panel.left + WIDTH);
        let value = 10_f64.powi(decade);
        writeln!(
            svg,
            r##"<line x1="{}" y1="{y}" x2="{right}" y2="{y}" stroke="#dddddd"/>"##,
            panel.left
        )?;
        writeln!(
            svg,
            r#"<text x="{}" y="{}" text-anchor="end">{value}</text>"#,
            panel.left - 6.0,
            y + 4.0
        )?;
    }
    writeln!(
        svg,
        r#"<text x="{}" y="{}" text-anchor="middle">records in the batch</text>"#,
        panel.left + WIDTH / 2.0,
        TOP + HEIGHT + 36.0
    )?;
    for (contender, colour) in contenders.iter().zip(COLOURS) {
        let points: Vec<_> = points(contender)
            .into_iter()
            .map(|(size, value)| (x(size), y(value.log10())))
            .collect();
        let line: Vec<_> = points
            .iter()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        writeln!(
            svg,
            r#"<polyline points="{}" fill="none" stroke="{colour}" stroke-width="2"/>"#,
            line.join(" ")
        )?;
        for (x, y) in points {
            writeln!(
                svg,
                r#"<circle cx="{x:.1}" cy="{y:.1}" r="3" fill="{colour}"/>"#
            )?;
        }
    }
    Ok(())
}
