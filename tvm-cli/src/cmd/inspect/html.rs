//! The page of `tvmc inspect --html`: the graph of a model as a picture, without other files.
//!
//! What a model says is untrusted: all text is escaped, and the page allows itself no connections.

use std::fmt::Write;

use serde_json::json;

use super::layout::{Layout, layout};
use super::onnx::Summary;
use crate::cost::{Graph, Node, Port, Source};
use crate::out::amount;
use crate::page::{self, escape};

/// The page, in which `{{NAME}}` stands for a part.
const PAGE: &str = include_str!("page.html");

/// Height of a node.
const HEIGHT: f64 = 46.0;
/// Width of a character of a label, about.
const CHARACTER: f64 = 6.6;
/// Width of a character of a title, about.
const BOLD: f64 = 7.8;
/// Characters of a label.
const LONGEST: usize = 34;

/// A box of the picture.
struct Shape {
    class: String,
    /// Lines of text, the first one in bold.
    lines: Vec<String>,
    /// What is shown beside the pointer: name and value.
    details: Vec<[String; 2]>,
    /// From which boxes edges come.
    reads: Vec<usize>,
}

/// Makes the page.
pub(crate) fn graph_page(summary: &Summary, graph: &Graph) -> String {
    let shapes = shapes(summary, graph);
    let widths: Vec<f64> = shapes.iter().map(width).collect();
    let late: Vec<bool> = (0..shapes.len()).map(|i| i < graph.inputs.len()).collect();
    let edges: Vec<(usize, usize)> =
        shapes.iter().enumerate().flat_map(|(to, it)| it.reads.iter().map(move |&from| (from, to))).collect();
    let layout = layout(&widths, &late, &edges);
    let details: Vec<_> = shapes.iter().map(|it| &it.details).collect();
    let data = page::data(&json!({"details": details, "edges": edges}));
    let rows: String = summary
        .cost_rows()
        .iter()
        .map(|row| format!("<tr><th>{}</th><td>{}</td></tr>", escape(&row[0]), escape(&row[1])))
        .collect();
    let parts = [
        ("TITLE", escape(&summary.title())),
        ("ROWS", rows),
        ("OPERATORS", operators(summary, graph)),
        ("WIDTH", format!("{:.0}", layout.width.max(1.0))),
        ("HEIGHT", format!("{:.0}", layout.height.max(1.0))),
        ("GRAPH", picture(&shapes, &widths, &edges, &layout)),
        ("DATA", data),
    ];
    page::fill(PAGE, &parts)
}

/// The boxes: inputs, nodes, outputs, in this order.
fn shapes(summary: &Summary, graph: &Graph) -> Vec<Shape> {
    let inputs = graph.inputs.len();
    let place = |source: &Source| match source {
        Source::Input(i) => *i,
        Source::Node(i) => inputs + i,
    };
    let most = graph.nodes.iter().map(|it| it.cost.flops.at(&summary.extents)).fold(0.0, f64::max);
    let port = |kind: &str, it: &Port| Shape {
        class: kind.to_string(),
        lines: vec![it.name.clone(), it.ty.clone()],
        details: vec![[kind.to_string(), it.name.clone()], ["type".to_string(), it.ty.clone()]],
        reads: it.sources.iter().map(place).collect(),
    };
    let node = |it: &Node| {
        let flops = it.cost.flops.at(&summary.extents);
        // Shares of the most expensive node, by powers of ten.
        let heat = match flops / most {
            share if share > 0.5 => "h4",
            share if share > 0.1 => "h3",
            share if share > 0.01 => "h2",
            share if share > 0.0 => "h1",
            _ => "h0",
        };
        let least = if it.cost.at_least { "at least " } else { "" };
        let rows = [
            ("operator", it.op.clone()),
            ("node", it.name.clone()),
            ("result", it.ty.clone()),
            ("operations", format!("{least}{}", summary.amount(&it.cost.flops, "FLOP"))),
            ("bytes", summary.amount(&it.cost.bytes, "B")),
            ("computed by", it.operators.join(", ")),
        ];
        let mut lines = vec![it.op.clone(), it.ty.clone()];
        if flops > 0.0 {
            lines.push(amount(flops, "FLOP"));
        }
        Shape {
            class: format!("node {heat}"),
            lines,
            details: rows.map(|(name, value)| [name.to_string(), value]).into(),
            reads: it.inputs.iter().map(place).collect(),
        }
    };
    let inputs = graph.inputs.iter().map(|it| port("input", it));
    let nodes = graph.nodes.iter().map(node);
    inputs.chain(nodes).chain(graph.outputs.iter().map(|it| port("output", it))).collect()
}

fn width(shape: &Shape) -> f64 {
    // The first line is bold and larger.
    let line = |(i, text): (usize, &String)| {
        short(text).chars().count() as f64 * if i == 0 { BOLD } else { CHARACTER }
    };
    let longest = shape.lines.iter().enumerate().map(line).fold(0.0, f64::max);
    (longest + 20.0).max(60.0)
}

/// A label that is not too long.
fn short(text: &str) -> String {
    let text = text.strip_prefix("Tensor<").and_then(|it| it.strip_suffix('>')).unwrap_or(text);
    if text.chars().count() <= LONGEST {
        return text.to_string();
    }
    text.chars().take(LONGEST - 1).chain(['…']).collect()
}

/// The edges, and the boxes over them.
fn picture(shapes: &[Shape], widths: &[f64], edges: &[(usize, usize)], layout: &Layout) -> String {
    let mut text = String::from("<g id=\"edges\">\n");
    for ((from, to), path) in edges.iter().zip(&layout.edges) {
        let far = if path.len() == 2 && path[1].1 - path[0].1 > 2.0 * super::layout::LAYER {
            " class=\"far\""
        } else {
            ""
        };
        let _ = writeln!(text, "<path{far} data-from=\"{from}\" data-to=\"{to}\" d=\"{}\"/>", curve(path));
    }
    text += "</g>\n<g id=\"nodes\">\n";
    for (i, (shape, width)) in shapes.iter().zip(widths).enumerate() {
        let (x, y) = layout.nodes[i];
        let (left, top) = (x - width / 2.0, y - HEIGHT / 2.0);
        let search =
            escape(&shape.details.iter().map(|it| &*it[1]).collect::<Vec<_>>().join(" ").to_lowercase());
        let _ = write!(
            text,
            "<g class=\"{}\" data-i=\"{i}\" data-text=\"{search}\"><rect x=\"{left:.1}\" y=\"{top:.1}\" width=\"{width:.1}\" height=\"{HEIGHT}\" rx=\"6\"/>",
            shape.class
        );
        let step = HEIGHT / (shape.lines.len() as f64 + 0.4);
        for (j, line) in shape.lines.iter().enumerate() {
            let bold = if j == 0 { " class=\"op\"" } else { "" };
            let below = top + step * (j as f64 + 0.95);
            let _ = write!(text, "<text{bold} x=\"{x:.1}\" y=\"{below:.1}\">{}</text>", escape(&short(line)));
        }
        text += "</g>\n";
    }
    text + "</g>\n"
}

/// A smooth line through these points, from the lower side of a box to the upper side of another.
fn curve(path: &[(f64, f64)]) -> String {
    let Some((first, last)) = path.first().zip(path.last()) else { return String::new() };
    let mut text = String::new();
    let (mut x, mut y) = (first.0, first.1 + HEIGHT / 2.0);
    let _ = write!(text, "M{x:.1} {y:.1}");
    for (i, point) in path.iter().enumerate().skip(1) {
        let (next, below) = if i + 1 == path.len() { (last.0, last.1 - HEIGHT / 2.0) } else { *point };
        let middle = (y + below) / 2.0;
        let _ = write!(text, "C{x:.1} {middle:.1} {next:.1} {middle:.1} {next:.1} {below:.1}");
        (x, y) = (next, below);
    }
    text
}

/// A table of the operators: how many nodes, and their share of the operations.
fn operators(summary: &Summary, graph: &Graph) -> String {
    let total = graph.total().flops.at(&summary.extents).max(f64::MIN_POSITIVE);
    let mut rows: Vec<(&str, usize, f64)> = Vec::new();
    for node in &graph.nodes {
        let flops = node.cost.flops.at(&summary.extents);
        match rows.iter_mut().find(|it| it.0 == node.op) {
            Some(row) => *row = (row.0, row.1 + 1, row.2 + flops),
            None => rows.push((&node.op, 1, flops)),
        }
    }
    rows.sort_by(|a, b| b.2.total_cmp(&a.2).then(b.1.cmp(&a.1)).then(a.0.cmp(b.0)));
    let row = |(op, n, flops): (&str, usize, f64)| {
        let share = 100.0 * flops / total;
        format!(
            "<tr data-op=\"{op}\"><th>{op}</th><td>{n}</td><td>{}</td><td><i style=\"width:{share:.1}%\"></i><b>{share:.1} %</b></td></tr>",
            amount(flops, "FLOP"),
            op = escape(op)
        )
    };
    rows.into_iter().map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_short() {
        assert_eq!(short("Tensor<f32, n, 10>"), "f32, n, 10");
    }
}
