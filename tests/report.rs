//! Reports: errors of all parts of the compiler, shown with the user's source lines.

use tvm::Report;
use tvm::ir::{Diagnose, Diagnostic, Span};
use tvm::prelude::*;

#[prim_func]
fn running_sum(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        block("Sum", [O(i)], |[vi]| {
            if vi > 0 {
                y[[vi]] = y[[vi - 1]] + x[[vi]]; // depends on the iteration before
            } else {
                y[[vi]] = x[[vi]];
            }
        });
    }
}

#[test]
fn a_refused_schedule_shows_the_loop_in_the_source_and_in_the_program() {
    let mut schedule = Schedule::new(running_sum::prim_func().unwrap()).unwrap();
    let block = schedule.block("Sum").unwrap();
    let [i] = schedule.loops(block).unwrap();
    let report = Report::from(schedule.parallel(i).unwrap_err());
    let text = report.to_string();
    let line =
        1 + include_str!("report.rs").lines().position(|line| line.contains("for i in 0..n {")).unwrap();
    let expected = [
        "error: `parallel` is not legal here: ".to_string(),
        format!("--> tests/report.rs:{line}:5"),
        format!("{line} |     for i in 0..n {{\n"),
        "|     ^^^^^^^^^^^^^^^".to_string(),
        "for i in 0..n\n".to_string(),
        "block \"Sum\" [Ordered(vi)]".to_string(),
    ];
    for part in expected {
        assert!(text.contains(&part), "{part:?} is not in\n{text}");
    }
    // The guide shows this report, of a kernel in another place.
    let guide = include_str!("../docs/guide/src/debugging.md");
    let shown = guide.split("```text\n").nth(1).and_then(|it| it.split("\n```").next()).unwrap();
    let place = text.replace(&format!("tests/report.rs:{line}:"), "src/main.rs:5:");
    assert_eq!(place.replace(&format!("\n{line} |"), "\n5 |").trim_end(), shown);
}

#[test]
fn several_diagnostics_are_one_report_without_control_characters() {
    let span = Span::rust("no/such/file.rs", 3, 4);
    let second = Diagnostic::new("another\u{1b}[31m", &Span::model("graph/conv (Conv)"));
    let first = Diagnostic::new("wrong\nin two lines", &span).help("do it right").note("because", &span);
    let report = Report::from(IrError(vec![first, second])).to_string();
    for part in [
        "wrong",
        "--> no/such/file.rs:3:4",
        "do it right",
        "note: because",
        "error: another",
        "--> graph/conv (Conv)",
    ] {
        assert!(report.contains(part), "{part:?} is not in\n{report}");
    }
    assert!(!report.contains('\u{1b}'), "{report:?}");
}

#[test]
fn an_error_of_the_application_is_one_diagnostic() {
    #[derive(Debug)]
    struct Own;
    impl std::fmt::Display for Own {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("out of luck")
        }
    }
    impl std::error::Error for Own {}
    impl Diagnose for Own {}

    let run = || -> Result<(), Report> { Err(Own)? };
    assert_eq!(run().unwrap_err().to_string(), "error: out of luck");
}

#[test]
fn colours_only_where_they_are_asked_for() {
    let report = Report::from(IrError::new("wrong", &Span::none()));
    assert_eq!(report.render(false), "error: wrong");
    assert!(report.render(true).contains('\u{1b}'));
}
