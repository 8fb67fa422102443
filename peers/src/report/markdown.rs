//! The report as Markdown.

use super::{COLUMNS, Comparison, cells};

/// The whole page.
pub(crate) fn page(report: &Comparison) -> String {
    let mut res = String::from("# Beside the peers\n\n");
    res += &format!("`{}` on {}, in {:.0} s.\n", report.command, report.cpu, report.seconds);
    res += &format!("Peers: {}.\n\n", report.versions.join(", "));
    for machine in &report.limits {
        res += &format!("- {machine}\n");
    }
    res += concat!(
        "\nTimes are medians of rounds in which all contestants took turns; ratio is our time by the best peer's, the median of the ratios in each round, below 1 is faster; ",
        "`~` marks rows that were measured while other programs ran. The limit of a row is measured in the same rounds.\n",
        "\n## Summary\n\n| group | threads | geometric mean | rows ok | goal | verdict on the mean |\n|---|---|---|---|---|---|\n"
    );
    for it in report.summaries() {
        let mean = it.mean.map_or("–".to_string(), |mean| format!("{mean:.2}"));
        let verdict = it.verdict.map_or("–".to_string(), |it| it.to_string());
        let ((reached, all), group) = (it.reached, it.group);
        res += &row(&[
            group.title.to_string(),
            it.threads.to_string(),
            mean,
            format!("{reached} of {all}"),
            group.goal.to_string(),
            verdict,
        ]);
    }
    for (index, group) in report.groups.iter().enumerate() {
        let outcomes: Vec<_> = report.limits.iter().flat_map(|it| report.of(index, it.threads)).collect();
        if outcomes.is_empty() {
            continue;
        }
        res += &format!("\n## {}\n\nAgainst {}.\n\n", group.title, group.goal);
        res += &row(&COLUMNS.map(str::to_string));
        res += &row(&COLUMNS.map(|_| "---".to_string()));
        for outcome in outcomes {
            res += &row(&cells(outcome));
        }
    }
    res
}

fn row(cells: &[String]) -> String {
    let cells: Vec<String> = cells.iter().map(|it| it.replace('|', "/")).collect();
    format!("| {} |\n", cells.join(" | "))
}

#[cfg(test)]
mod tests {
    use super::super::tests::report;
    use super::*;

    #[test]
    fn a_page_has_all_rows() {
        let page = page(&report());
        assert!(page.contains("`cargo xtask bench --compare` on A <CPU>"), "{page}");
        assert!(
            page.contains(
                "| work | 1 | 900 | 900 | 1.1 GFLOP/s | 56 % | gemm | 1000 | 0.90 | ≤ 1.00 | ok |  |"
            ),
            "{page}"
        );
        assert!(page.contains("falls short: not supported: tvm: a / b |"), "{page}");
        let tables = page.lines().filter(|it| it.starts_with("| work")).map(|it| it.matches('|').count());
        assert!(tables.eq([13, 13, 13]), "{page}");
    }
}
