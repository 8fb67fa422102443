//! The invariants of ARCHITECTURE.md that the compiler does not check, as plain tests over the sources.
//!
//! Each rule is a function from a path and a text to its findings, so that it can also be tested on bad samples. The
//! exceptions are in one table per rule, each with its reason.

mod book;
mod crates;
mod links;
mod names;
mod rooms;
mod rules;
mod source;

use source::SourceFile;

/// Fails if there are findings, and prints one per line.
fn report(findings: Vec<String>) {
    assert!(findings.is_empty(), "{} finding(s):\n  {}", findings.len(), findings.join("\n  "));
}

fn check_rust(rule: fn(&SourceFile) -> Vec<String>) {
    let files = source::files(&["rs"]);
    assert!(files.len() > 10, "only {} Rust files found: is the walk broken?", files.len());
    report(files.iter().flat_map(rule).collect());
}

#[test]
fn every_rust_file_says_what_it_is() {
    check_rust(rules::header);
}

#[test]
fn files_are_short() {
    check_rust(rules::length);
    report(rules::stale_exceptions());
}

#[test]
fn unsafe_code_stays_in_its_places() {
    check_rust(rules::unsafe_code);
    report(rules::missing_forbids());
}

#[test]
fn only_their_modules_name_inkwell_and_cudarc() {
    check_rust(rules::confined_crates);
}

#[test]
fn libraries_do_not_print_and_leave_nothing_undone() {
    check_rust(rules::library_code);
}

#[test]
fn tests_are_neither_ignored_nor_expected_to_panic() {
    check_rust(rules::test_attributes);
}

#[test]
fn no_paths_of_one_machine() {
    let files = source::files(&["rs", "toml", "md", "py", "sh", "yml"]);
    report(files.iter().flat_map(rules::machine_paths).collect());
}

#[test]
fn the_crate_graph_is_as_drawn() {
    report(crates::findings());
}

#[test]
fn the_rooms_of_a_crate_have_no_upward_arrows() {
    report(rooms::findings());
}

#[test]
fn public_types_have_different_names() {
    report(names::findings());
}

/// Runs a rule about documentation, which compares files with each other.
fn check_documentation(rule: fn(&[SourceFile]) -> Vec<String>) {
    report(rule(&source::files(&["md", "rs", "stderr"])));
}

#[test]
fn the_guide_is_whole_and_its_examples_are_tests() {
    check_documentation(book::chapters);
}

#[test]
fn macros_are_documented_as_in_the_guide() {
    check_documentation(book::macros);
}

#[test]
fn tables_of_the_guide_are_those_of_the_sources() {
    check_documentation(book::functions);
    check_documentation(book::primitives);
    check_documentation(book::errors);
}

#[test]
fn links_lead_somewhere() {
    check_documentation(links::broken);
}
