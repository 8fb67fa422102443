//! A roofline plot: performance over arithmetic intensity, both logarithmic, as SVG.

use super::html::escaped;
use super::{Comparison, Limits};
use crate::measure::Measured;
use crate::row::{Limit, Side};

const WIDTH: f64 = 1000.0;
const HEIGHT: f64 = 480.0;
/// Space for the labels.
const LEFT: f64 = 60.0;
const BOTTOM: f64 = 45.0;
/// Range of operations per byte.
const X: (f64, f64) = (0.1, 1000.0);
/// Range of GFLOP/s.
const Y: (f64, f64) = (1.0, 4000.0);
const COLOURS: [&str; 10] = [
    "#1f77b4", "#17becf", "#9467bd", "#2ca02c", "#98df8a", "#8c564b", "#ff7f0e", "#e377c2", "#7f7f7f",
    "#bcbd22",
];

/// The place of a value on a logarithmic axis.
fn place(value: f64, (low, high): (f64, f64), from: f64, to: f64) -> f64 {
    from + (to - from) * ((value.clamp(low, high) / low).ln() / (high / low).ln())
}

fn x(intensity: f64) -> f64 {
    place(intensity, X, LEFT, WIDTH - 10.0)
}

fn y(gflops: f64) -> f64 {
    place(gflops, Y, HEIGHT - BOTTOM, 10.0)
}

/// The plot for one number of threads. Filled circles are ours, hollow ones the best peer's.
pub(crate) fn plot(machine: &Limits, report: &Comparison) -> String {
    let mut res =
        format!("<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n");
    axes(&mut res);
    if let (Some(peak), Some(bandwidth)) =
        (machine.fma, machine.read.into_iter().chain(machine.copy).reduce(f64::max))
    {
        roof(&mut res, peak, bandwidth);
    }
    let shown = |it: &&Measured| {
        let row = &it.row;
        it.threads == machine.threads && row.goal.seconds.is_none() && row.flops > 0.0 && row.bytes > 0.0
    };
    let mut groups = Vec::new();
    for outcome in report.outcomes.iter().filter(shown) {
        points(&mut res, outcome);
        if !groups.contains(&outcome.row.group) {
            groups.push(outcome.row.group);
        }
    }
    let titles: Vec<_> = groups.iter().map(|&it| (it, report.groups[it].title)).collect();
    legend(&mut res, &titles);
    res + "</svg>\n"
}

/// The colours of groups, at the lower right.
fn legend(res: &mut String, groups: &[(usize, &str)]) {
    let left = WIDTH - 300.0;
    for (line, &(group, title)) in groups.iter().rev().enumerate() {
        let at = HEIGHT - BOTTOM - 14.0 - 15.0 * line as f64;
        let (colour, title) = (COLOURS[group % COLOURS.len()], escaped(title));
        *res +=
            &format!("<rect x=\"{left}\" y=\"{:.1}\" width=\"9\" height=\"9\" fill=\"{colour}\"/>", at - 8.5);
        *res += &format!("<text x=\"{:.1}\" y=\"{at:.1}\">{title}</text>\n", left + 15.0);
    }
}

fn axes(res: &mut String) {
    let (bottom, right) = (HEIGHT - BOTTOM, WIDTH - 10.0);
    for value in [0.1, 1.0, 10.0, 100.0, 1000.0] {
        let at = x(value);
        *res += &format!("<line x1=\"{at:.1}\" y1=\"10\" x2=\"{at:.1}\" y2=\"{bottom}\" stroke=\"#eee\"/>");
        *res += &format!(
            "<text x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{value}</text>\n",
            bottom + 15.0
        );
    }
    for value in [1.0, 10.0, 100.0, 1000.0] {
        let at = y(value);
        *res +=
            &format!("<line x1=\"{LEFT}\" y1=\"{at:.1}\" x2=\"{right}\" y2=\"{at:.1}\" stroke=\"#eee\"/>");
        *res += &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>\n",
            LEFT - 6.0,
            at + 4.0
        );
    }
    *res += &format!(
        "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">operations per byte that must move; filled: ours, hollow: the best peer</text>\n",
        WIDTH / 2.0,
        HEIGHT - 10.0
    );
    *res += &format!(
        "<text x=\"12\" y=\"{0:.1}\" transform=\"rotate(-90 12 {0:.1})\">GFLOP/s</text>\n",
        HEIGHT / 2.0
    );
}

fn roof(res: &mut String, peak: f64, bandwidth: f64) {
    let knee = peak / bandwidth;
    // The slope begins where it enters the plot.
    let start = X.0.max(Y.0 / bandwidth);
    *res += &format!(
        "<polyline fill=\"none\" stroke=\"#555\" stroke-width=\"2\" points=\"{:.1},{:.1} {:.1},{:.1} {:.1},{:.1}\"/>\n",
        x(start),
        y(start * bandwidth),
        x(knee),
        y(peak),
        x(X.1),
        y(peak)
    );
    *res += &format!(
        "<text x=\"{:.1}\" y=\"{:.1}\">{peak:.0} GFLOP/s f32, {bandwidth:.0} GB/s</text>\n",
        x(knee),
        y(peak) - 6.0
    );
}

fn points(res: &mut String, outcome: &Measured) {
    let row = &outcome.row;
    let colour = COLOURS[row.group % COLOURS.len()];
    let at = x(row.flops / row.bytes);
    for (side, fill) in [(Side::Peer, "none"), (Side::Ours, colour)] {
        let Some((entry, times)) = outcome.best(side) else { continue };
        let rate = row.flops / times.median() / 1e9;
        let of = outcome
            .limit
            .filter(|_| row.limit == Limit::Fma)
            .map_or(String::new(), |it| format!(", {:.0} % of peak", 100.0 * rate / it));
        let title = escaped(&format!("{}: {} {rate:.1} GFLOP/s{of}", row.name, entry.label));
        *res += &format!(
            "<circle cx=\"{at:.1}\" cy=\"{:.1}\" r=\"4\" fill=\"{fill}\" stroke=\"{colour}\"><title>{title}</title></circle>\n",
            y(rate)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn axes_are_logarithmic() {
        let middle = place(10.0, (1.0, 100.0), 0.0, 50.0);
        assert!((middle - 25.0).abs() < 1e-9);
        assert_eq!(place(1e9, (1.0, 100.0), 0.0, 50.0), 50.0);
    }

    #[test]
    fn a_plot_has_a_roof_and_a_point_for_each_side() {
        let report = report();
        let plot = plot(&report.limits[0], &report);
        assert_eq!(plot.matches("<polyline").count(), 1);
        assert_eq!(plot.matches("<circle").count(), 3, "{plot}");
        assert_eq!(plot.matches("<rect").count(), 1, "a line of the legend");
        assert!(plot.contains("work: tvm 1.1 GFLOP/s, 56 % of peak"), "{plot}");
        assert!(plot.starts_with("<svg") && plot.ends_with("</svg>\n"));
    }
}
