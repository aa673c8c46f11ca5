//! How latency and CPU time grow with the batch size, as a fitted line.

use serde::Serialize;

use super::Results;
use crate::contender::Contender;
use crate::measure::Cell;
use crate::shape::{GROWING, Shape};

/// `base + each × records`, in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub(super) struct Line {
    /// The time of a batch regardless of its size.
    pub(super) base: f64,
    /// The additional time of each record.
    pub(super) each: f64,
    /// The largest relative error of a measurement: 0.1 is a tenth.
    pub(super) off: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Growth {
    pub(super) contender: &'static str,
    pub(super) latency_ms: Line,
    pub(super) cpu_ms: Line,
}

/// The growth of the [`GROWING`] contenders that were measured at three sizes or more.
pub(super) fn growth(results: &Results) -> Vec<Growth> {
    Contender::named(&GROWING)
        .filter_map(|contender| {
            Some(Growth {
                contender: contender.name,
                latency_ms: fit(&points(results, contender.name, latency_ms))?,
                cpu_ms: fit(&points(results, contender.name, cpu_ms))?,
            })
        })
        .collect()
}

/// The latency of a batch, in milliseconds.
pub(super) fn latency_ms(cell: &Cell) -> f64 {
    cell.latency_ms.median
}

/// The CPU time of a batch, in milliseconds.
pub(super) fn cpu_ms(cell: &Cell) -> f64 {
    cell.cpu_us.median * cell.records as f64 / 1000.0
}

/// A contender's values for batches of new keys, by size.
pub(super) fn points(
    results: &Results,
    contender: &str,
    value: fn(&Cell) -> f64,
) -> Vec<(f64, f64)> {
    let cells = Shape::of_new_keys().into_iter().filter_map(|shape| {
        let cell = results.cell(contender, shape.name)?;
        Some((shape.records as f64, value(cell)))
    });
    cells.collect()
}

/// Minimises the squares of the relative errors. With absolute errors, the largest batch would dominate the result.
fn fit(points: &[(f64, f64)]) -> Option<Line> {
    if points.len() < 3 || points.iter().any(|(_, y)| *y <= 0.0) {
        return None;
    }
    let sum = |term: fn(f64, f64) -> f64| points.iter().map(|(x, y)| term(*x, *y)).sum::<f64>();
    let (ones, x, xx) = (
        sum(|_, y| 1.0 / (y * y)),
        sum(|x, y| x / (y * y)),
        sum(|x, y| x * x / (y * y)),
    );
    let (y, xy) = (sum(|_, y| 1.0 / y), sum(|x, y| x / y));
    let determinant = ones * xx - x * x;
    let base = (xx * y - x * xy) / determinant;
    let each = (ones * xy - x * y) / determinant;
    let off = points
        .iter()
        .map(|(x, y)| ((base + each * x) / y - 1.0).abs());
    Some(Line {
        base,
        each,
        off: off.fold(0.0, f64::max),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_found_again_and_a_point_beside_it_is_told() {
        let line = |x: f64| 4.0 + 0.05 * x;
        let mut points: Vec<_> = [1.0, 10.0, 100.0, 1000.0].map(|x| (x, line(x))).into();
        let found = fit(&points).expect("four points");
        assert!((found.base - 4.0).abs() < 1e-9 && (found.each - 0.05).abs() < 1e-9);
        assert!(found.off < 1e-9);
        points[2].1 *= 2.0;
        let found = fit(&points).expect("four points");
        assert!(found.off > 0.3, "{found:?}");
    }
}
