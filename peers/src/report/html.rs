//! The report as one page that needs nothing from a network.

use super::{COLUMNS, Comparison, cells, roofline};
use crate::verdict::Verdict;

const STYLE: &str = "body{font:14px/1.45 system-ui,sans-serif;margin:2em auto;max-width:1250px;padding:0 1em;color:#222;background:#fff}
table{border-collapse:collapse;width:100%;margin:.5em 0 2em}th,td{padding:.2em .5em;text-align:left;border-bottom:1px solid #ddd}
th{background:#f4f4f4}.ok td.verdict{color:#176d2c}.short td.verdict{color:#b3261e}.skipped td.verdict{color:#8a6d00}
code{background:#f4f4f4;padding:.1em .3em}svg{width:100%;height:auto}";

/// The whole page.
pub(crate) fn page(report: &Comparison) -> String {
    let mut res = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Beside the peers</title>\n<style>{STYLE}</style></head>\n<body>\n\
         <h1>Beside the peers</h1>\n<p><code>{}</code> on {}, in {:.0} s. Peers: {}.</p>\n<ul>\n",
        escaped(&report.command),
        escaped(&report.cpu),
        report.seconds,
        escaped(&report.versions.join(", ")),
    );
    for machine in &report.limits {
        res += &format!("<li>{}</li>\n", escaped(&machine.to_string()));
    }
    res += "</ul>\n<h2>Summary</h2>\n";
    let head = ["group", "threads", "geometric mean", "rows ok", "goal", "verdict on the mean"];
    res += &format!("<table>\n{}", row("th", "", &head.map(str::to_string)));
    for it in report.summaries() {
        let mean = it.mean.map_or("–".to_string(), |mean| format!("{mean:.2}"));
        let verdict = it.verdict.as_ref().map_or("–".to_string(), ToString::to_string);
        let ((reached, all), threads) = (it.reached, it.threads.to_string());
        let cells = [
            it.group.title.into(),
            threads,
            mean,
            format!("{reached} of {all}"),
            it.group.goal.into(),
            verdict,
        ];
        res += &row("td", it.verdict.as_ref().map_or("", class), &cells);
    }
    res += "</table>\n";
    for machine in &report.limits {
        res += &format!("<h2>Roofline, {} threads</h2>\n", machine.threads);
        res += &roofline::plot(machine, report);
    }
    for (index, group) in report.groups.iter().enumerate() {
        let outcomes: Vec<_> = report.limits.iter().flat_map(|it| report.of(index, it.threads)).collect();
        if outcomes.is_empty() {
            continue;
        }
        res +=
            &format!("<h2>{}</h2>\n<p>Against {}.</p>\n<table>\n", escaped(group.title), escaped(group.goal));
        res += &row("th", "", &COLUMNS.map(str::to_string));
        for outcome in outcomes {
            res += &row("td", class(&outcome.verdict()), &cells(outcome));
        }
        res += "</table>\n";
    }
    res + "</body></html>\n"
}

fn class(verdict: &Verdict) -> &'static str {
    match verdict {
        Verdict::Ok => "ok",
        Verdict::FallsShort(_) => "short",
        Verdict::Skipped(_) => "skipped",
    }
}

fn row(tag: &str, class: &str, cells: &[String]) -> String {
    // Verdicts are the cells that begin in one of these ways.
    let verdict = |it: &str| ["ok", "falls short", "skipped"].iter().any(|start| it.starts_with(start));
    let cell = |it: &String| {
        let class = if verdict(it) { " class=\"verdict\"" } else { "" };
        format!("<{tag}{class}>{}</{tag}>", escaped(it))
    };
    let cells: String = cells.iter().map(cell).collect();
    format!("<tr class=\"{class}\">{cells}</tr>\n")
}

/// Text for HTML and SVG.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn a_page_is_complete_and_escaped() {
        let page = page(&report());
        assert!(page.contains("A &lt;CPU&gt;") && !page.contains("<CPU>"));
        assert_eq!(page.matches("<table>").count(), page.matches("</table>").count());
        assert_eq!(page.matches("<tr class=\"ok\">").count(), 1, "{page}");
        assert!(page.contains("<svg") && page.ends_with("</html>\n"));
        assert!(!page.contains("http://") && !page.contains("https://"), "nothing from a network");
    }
}
