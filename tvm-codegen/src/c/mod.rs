//! C code generation: translates lowered tensor programs to one C translation unit, for compilers that support GCC's
//! vector extensions (gcc, clang).
//!
//! Requires the lowered form of `tvm_core::tir::transform`. TVM counterpart: `CodeGenC`, `CodeGenCHost`.
//!
//! Signed arithmetic wraps (`-fwrapv`). Floats are computed in the order of the program and rounded after each
//! operation (`-ffp-contract=off`), except where the lowered program has `fmuladd`, unless `fast_math` is set. Outputs
//! of a kernel call must not overlap other arguments, because the generated code declares pointers as `restrict`.
//!
//! The kernels of [`cuda`](crate::cuda) are written by the same functions, in another dialect.
//!
//! Files: `function` translates one kernel to C functions; `stmt`, `expr`, `vector`, `masked`, `stream`, `intrinsic`, `dot` and
//! `reduce` are its parts; `types` names types; `dialect` is what differs between C and CUDA, of which `device` writes kernels; `load` runs the compiler and keeps the results in the `cache`.

pub(crate) mod device;
mod dialect;
mod dot;
mod expr;
mod function;
mod intrinsic;
pub mod load;
mod masked;
mod reduce;
mod stmt;
mod stream;
mod types;
mod vector;

use std::fmt::Write as _;

use indexmap::{IndexMap, IndexSet};
use tvm_core::tir::{Failure, PrimFunc};
use tvm_runtime::DataType;

use self::dialect::Dialect;
use crate::CodegenError;
use crate::position::Position;

const PRELUDE: &str = concat!(include_str!("prelude.h"), include_str!("numbers.h"), include_str!("narrow.h"));

/// The part of the prelude that is the same in CUDA: the smaller and the larger of two numbers, conversions.
pub(crate) const NUMBERS: &str = include_str!("numbers.h");

/// State shared by the functions of one translation unit.
#[derive(Default)]
pub(crate) struct Unit {
    /// Vector types in use.
    vectors: IndexSet<DataType>,
    /// Definitions of the helper functions in use, by name; each comes after the ones that it refers to.
    helpers: IndexMap<String, String>,
    /// Text of the functions.
    pub(crate) functions: String,
    /// Number of outlined functions so far.
    outlined: usize,
    pub(crate) dialect: Dialect,
    /// What the assertions in kernels report, in the order of their numbers, which begin at 1.
    pub(crate) sites: Vec<Failure>,
    pub(crate) position: Position,
}

/// Generates the C translation unit of the kernels `funcs` (symbol, lowered program).
///
/// # Errors
/// When a program is not in the lowered form, or uses a feature without a counterpart in C.
pub fn source(funcs: &[(String, PrimFunc)]) -> Result<String, CodegenError> {
    let mut unit = Unit::default();
    for (symbol, func) in funcs {
        unit.position = Position::default();
        function::kernel(&mut unit, symbol, func).map_err(|err| unit.position.error(func, err))?;
    }
    let mut out = String::from(PRELUDE);
    // The symbol is weak, so that several units may be linked into one program.
    out.push_str("\n__attribute__((weak, visibility(\"default\"))) const uint32_t tvm_abi_version = ");
    let _ = writeln!(out, "{};\n", tvm_runtime::abi::ABI_VERSION);
    for &dtype in &unit.vectors {
        out.push_str(&vector::definition(dtype));
    }
    unit.helpers.values().for_each(|helper| out.push_str(helper));
    out.push_str(&unit.functions);
    Ok(out)
}

fn not_supported<T>(what: impl Into<String>) -> Result<T, CodegenError> {
    Err(CodegenError::NotSupported { target: "C", what: what.into() })
}
