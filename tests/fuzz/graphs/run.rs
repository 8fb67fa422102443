//! Compilation with selected passes, runs, and comparison of results.

use tvm::DataType;
use tvm::Device;
use tvm::ir::IRModule;
use tvm::pass::{Pass, PassContext, PassInstrument, Sequential, VerifyEach};
use tvm::pipeline::default_build;
use tvm::relax::vm::{interpreted_kernels, vm_codegen};
use tvm::runtime::Tensor;
use tvm::runtime::vm::Vm;

use super::program::{Program, SIZES};

/// Passes that are required to run a program.
const NEEDED: [&str; 4] = ["LambdaLift", "LegalizeOps", "RewriteDataflowReshape", "CallTIRRewrite"];

/// The default pipeline without the optional passes that `keep` does not select.
pub(super) fn passes(keep: impl FnMut(&str) -> bool) -> Pass {
    let build = default_build();
    let mut keep = keep;
    let parts = build.parts().iter().filter(|pass| NEEDED.contains(&pass.info.name) || keep(pass.info.name));
    Sequential::new("some", parts.cloned().collect())
}

/// Names of the optional passes.
pub(super) fn optional() -> Vec<&'static str> {
    let build = default_build();
    let mut names: Vec<&str> =
        build.parts().iter().map(|pass| pass.info.name).filter(|name| !NEEDED.contains(name)).collect();
    names.dedup();
    names
}

/// A context that checks the module after every pass.
pub(super) fn context(level: u8) -> PassContext {
    let verify: std::sync::Arc<dyn PassInstrument> = std::sync::Arc::new(VerifyEach);
    PassContext::new().opt_level(level).without_instruments().instrument(verify)
}

/// Applies `pass` to the module and compiles it with interpreted kernels.
pub(super) fn interpreted(module: &IRModule, pass: &Pass, level: u8) -> Result<Vm, String> {
    let lowered = context(level).scope(|| pass.apply(module.clone())).map_err(|err| err.to_string())?;
    let (kernels, exe) = vm_codegen(&lowered, Device::cpu()).map_err(|err| err.to_string())?;
    let kernels = interpreted_kernels(&kernels).map_err(|err| err.to_string())?;
    Vm::new(exe, &kernels).map_err(|err| err.to_string())
}

/// The results for every size; for a failing run, the text of the error.
pub(super) fn results(program: &Program, vm: &Vm) -> Vec<Result<Vec<Tensor>, String>> {
    let run = |(i, sizes): (usize, &[i64; 2])| {
        let got =
            vm.invoke(&program.name, program.arguments(*sizes, i as u64)).map_err(|err| err.to_string())?;
        let fields = got.as_adt().ok_or("no tuple")?.fields();
        fields.iter().map(|field| field.as_tensor().cloned().ok_or_else(|| "no tensor".to_string())).collect()
    };
    SIZES.iter().enumerate().map(run).collect()
}

/// How closely results must agree.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Same {
    /// All bits are equal.
    Bits,
    /// Results that are not exact may differ by rounding.
    Rounding,
}

/// Describes the first difference between `got` and `want`. Where the reference run fails, nothing is compared: an
/// optimised run may succeed, because it may not need the failing operation.
pub(super) fn difference(
    program: &Program,
    got: &[Result<Vec<Tensor>, String>],
    want: &[Result<Vec<Tensor>, String>],
    same: Same,
) -> Option<String> {
    for ((sizes, got), want) in SIZES.iter().zip(got).zip(want) {
        let Ok(want) = want else { continue };
        let got = match got {
            Ok(got) => got,
            Err(err) => return Some(format!("at {sizes:?} it fails: {err}")),
        };
        for (i, ((got, want), &exact)) in got.iter().zip(want).zip(&program.exact).enumerate() {
            let bits = same == Same::Bits || exact;
            if got.shape() != want.shape() || got.dtype() != want.dtype() {
                let show = |it: &Tensor| format!("{} {:?}", it.dtype(), it.shape());
                return Some(format!("at {sizes:?} result {i} is {}, not {}", show(got), show(want)));
            }
            if !equal(got, want, bits) {
                let show = |it: &Tensor| format!("{:?}", it.to_f64s());
                return Some(format!("at {sizes:?} result {i} is {}, not {}", show(got), show(want)));
            }
        }
    }
    None
}

fn equal(got: &Tensor, want: &Tensor, bits: bool) -> bool {
    if got.bytes().ok() == want.bytes().ok() {
        return true;
    }
    let (Ok(got_values), Ok(want_values)) = (got.to_f64s(), want.to_f64s()) else { return false };
    let slack = if got.dtype() == DataType::F16 { 2e-2 } else { 1e-4 };
    got_values.iter().zip(&want_values).all(|(a, b)| {
        let same = a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan());
        // `max` and `min` may return either zero.
        same || (!bits && (a - b).abs() <= slack * (1.0 + b.abs())) || (bits && a == b && *a == 0.0)
    })
}
