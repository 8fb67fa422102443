//! `cargo xtask fuzz`: runs the fuzz tests of the workspace in their long form, optimised, one after the other.
//!
//! A fuzz test is an ordinary test whose name starts with `fuzz_`. It takes its cases from `tvm_testing::Budget`, so
//! `cargo test` runs a short form of it with the same cases each time. (`short_schedules` takes all cases of a size instead.)

use std::time::{SystemTime, UNIX_EPOCH};

use crate::setup;
use crate::step::Steps;

/// The targets: name, arguments of `cargo test` before the name of the test, name of the test.
const TARGETS: &[(&str, &[&str], &str)] = &[
    ("schedules", &["-p", "tvm", "--test", "fuzz"], "schedules::fuzz_schedules"),
    ("gpu_schedules", &["-p", "tvm", "--test", "fuzz"], "gpu_schedules::fuzz_gpu_schedules"),
    ("short_schedules", &["-p", "tvm", "--test", "fuzz"], "short::fuzz_short_schedules"),
    (
        "default_schedules",
        &["-p", "tvm", "--test", "fuzz"],
        "default_schedules::written::fuzz_default_schedules",
    ),
    ("default_products", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_products"),
    ("default_windows", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_windows"),
    ("default_gpu", &["-p", "tvm", "--test", "fuzz"], "default_schedules::gpu::fuzz_default_gpu"),
    ("default_reductions", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_reductions"),
    ("default_elements", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_elements"),
    ("default_indexed", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_indexed"),
    ("default_attention", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_attention"),
    ("default_choices", &["-p", "tvm", "--test", "fuzz"], "default_schedules::fuzz_default_choices"),
    ("default_strided", &["-p", "tvm", "--test", "fuzz"], "default_schedules::strided::fuzz_default_strided"),
    ("graphs", &["-p", "tvm", "--test", "fuzz"], "graphs::fuzz_graphs"),
    ("compiled_graphs", &["-p", "tvm", "--test", "fuzz"], "graphs::fuzz_compiled_graphs"),
    ("roundtrip", &["-p", "tvm", "--test", "fuzz"], "roundtrip::fuzz_roundtrip"),
    ("expressions", &["-p", "tvm-core", "--lib"], "arith::tests::claims::fuzz_expressions"),
    ("sets", &["-p", "tvm-core", "--lib"], "arith::tests::claims::fuzz_sets"),
    ("iter_map", &["-p", "tvm-core", "--lib"], "arith::tests::iter_map::fuzz_iter_map"),
    ("check_bounds", &["-p", "tvm-core", "--lib"], "tir::transform::check_bounds::tests::fuzz_check_bounds"),
    ("verifier", &["-p", "tvm-core", "--lib"], "tir::analysis::tests::fuzz_verifier"),
    ("reductions", &["-p", "tvm-core", "--lib"], "tir::transform::fuzz::fuzz_reductions"),
    (
        "narrow_indices",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::narrow_indices::tests::fuzz_narrow_indices",
    ),
    (
        "narrow_kernel_indices",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::narrow_kernel_indices::tests::fuzz_narrow_kernel_indices",
    ),
    (
        "common_subexpr_elim",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::common_subexpr_elim::tests::fuzz_common_subexpr_elim",
    ),
    (
        "hoist_expressions",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::hoist_expressions::tests::fuzz_hoist_expressions",
    ),
    (
        "hoist_conditions",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::hoist_conditions::tests::fuzz_hoist_conditions",
    ),
    (
        "storage_rewrite",
        &["-p", "tvm-core", "--lib"],
        "tir::transform::storage_rewrite::tests::fuzz_storage_rewrite",
    ),
    (
        "elementary_functions",
        &["-p", "tvm-codegen", "--test", "executors"],
        "elementary::fuzz_elementary_functions",
    ),
];

/// Runs the targets named in `args`, or all targets.
///
/// # Errors
/// An unknown target or option, or the first target that fails.
pub(crate) fn fuzz(args: &[String]) -> Result<(), String> {
    let mut options = [("--seconds", None), ("--cases", None), ("--seed", None)];
    let mut chosen = Vec::new();
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        if let Some((name, value)) = options.iter_mut().find(|(name, _)| name == arg) {
            let text = args.next().ok_or_else(|| format!("{name} needs a number"))?;
            *value = Some(text.parse::<u64>().map_err(|_| format!("{name} needs a number, not `{text}`"))?);
        } else if let Some(target) = TARGETS.iter().find(|(name, ..)| name == arg) {
            chosen.push(target);
        } else {
            let names: Vec<&str> = TARGETS.iter().map(|(name, ..)| *name).collect();
            return Err(format!("no fuzz target `{arg}`; there are: {}", names.join(", ")));
        }
    }
    let [(_, seconds), (_, cases), (_, seed)] = options;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |it| it.as_secs());
    let seed = seed.unwrap_or(now % 1_000_000).to_string();
    let mut env = vec![("TVM_FUZZ_SEED", seed)];
    if let Some(cases) = cases {
        env.push(("TVM_FUZZ_CASES", cases.to_string()));
    }
    if let Some(seconds) = seconds.or(if cases.is_none() { Some(60) } else { None }) {
        env.push(("TVM_FUZZ_SECONDS", seconds.to_string()));
    }
    let env: Vec<(&str, &str)> = env.iter().map(|(name, value)| (*name, value.as_str())).collect();
    if chosen.is_empty() {
        chosen.extend(TARGETS);
    }
    let mut steps = Steps::new();
    for (name, package, test) in chosen {
        let generates = package.contains(&"tvm") || package.contains(&"tvm-codegen");
        let llvm: &[&str] =
            if generates && setup::llvm().is_some() { &["--features", "llvm-dynamic"] } else { &[] };
        let args =
            [&["test", "--release"][..], package, llvm, &["--", test, "--exact", "--nocapture"]].concat();
        steps.cargo(name, &env, &args)?;
    }
    steps.summary();
    Ok(())
}
