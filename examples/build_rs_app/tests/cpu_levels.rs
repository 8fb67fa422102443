//! Tests of models that the build script compiled for several CPU levels: each level that this machine has is run, and
//! gives the results of the model that was compiled for one CPU.
#![cfg(target_arch = "x86_64")]
#![allow(clippy::unwrap_used, reason = "tests")]

use tvm_runtime::vm::VmConfig;
use tvm_runtime::{RuntimeError, cpu_features, level_features};

tvm_runtime::include_model!("digits");
tvm_runtime::include_model!("digits_c");
#[cfg(feature = "llvm")]
tvm_runtime::include_model!("digits_llvm");

const LEVELS: [&str; 3] = ["x86-64", "x86-64-v3", "x86-64-v4"];

fn images() -> Vec<f32> {
    (0..5 * 64).map(|i| (i * 37 % 101) as f32 / 101.0).collect()
}

fn forced(level: &str) -> VmConfig {
    VmConfig { cpu_level: Some(level.into()), ..VmConfig::default() }
}

/// Checks each level of a model: `run` makes the model with a configuration, and gives its level and its results.
fn check(run: impl Fn(VmConfig) -> Result<(Option<String>, Vec<f32>), RuntimeError>) {
    let expected = Digits::new().unwrap().run(images()).unwrap().probabilities.as_slice().to_vec();
    let has = cpu_features();
    let mut best = None;
    for level in LEVELS {
        if level_features(level).unwrap().iter().all(|it| has.contains(it)) {
            let (chosen, got) = run(forced(level)).unwrap();
            assert_eq!(chosen.as_deref(), Some(level));
            assert_eq!(got.len(), expected.len());
            for (got, expected) in got.iter().zip(&expected) {
                assert!((got - expected).abs() <= 1e-5, "{level}: {got} instead of {expected}");
            }
            best = Some(level);
        } else {
            assert!(matches!(run(forced(level)), Err(RuntimeError::CpuFeatures { .. })), "{level}");
        }
    }
    assert_eq!(run(VmConfig::default()).unwrap().0.as_deref(), best);
    let err = run(forced("x86-64-v2")).unwrap_err();
    assert!(matches!(&err, RuntimeError::CpuLevel { has, .. } if has == &LEVELS), "{err}");
}

#[test]
fn levels_through_c() {
    check(|config| {
        let model = DigitsC::with_config(config)?;
        let level = model.model().vm().cpu_level().map(String::from);
        Ok((level, model.run(images())?.probabilities.as_slice().to_vec()))
    });
}

#[test]
#[cfg(feature = "llvm")]
fn levels_through_llvm() {
    check(|config| {
        let model = DigitsLlvm::with_config(config)?;
        let level = model.model().vm().cpu_level().map(String::from);
        Ok((level, model.run(images())?.probabilities.as_slice().to_vec()))
    });
}

#[test]
fn one_cpu_has_no_levels() {
    assert_eq!(Digits::new().unwrap().model().vm().cpu_level(), None);
    assert!(matches!(Digits::with_config(forced("x86-64")), Err(RuntimeError::CpuLevel { .. })));
}
