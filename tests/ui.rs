//! What the compiler says about kernels that are wrong, to the letter, and a twin of each that is right.

// One of them nests too deeply for rustfmt.
#[rustfmt::skip]
#[path = "ui/pass/mod.rs"]
#[allow(
    dead_code,
    unreachable_pub,
    clippy::pedantic,
    clippy::unwrap_used,
    reason = "written as in an application; a test fails by panicking"
)]
mod pass;

/// Nothing that trybuild links is among the cases, so one `cargo check` does for all of them.
#[test]
fn wrong_programs_are_refused_in_these_words() {
    trybuild::TestCases::new().compile_fail("tests/ui/fail/*.rs");
}
