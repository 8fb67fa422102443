//! What the families of built-in intrinsics are built with: loops, functions, and words of neighbouring elements.

use tvm_runtime::DataType;

use crate::ir::Var;
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, For, ForKind, Intrinsic, Param, PrimExpr, PrimFunc, Stmt, binary,
};

/// A function of two inputs and one output.
pub(super) fn function(name: &str, a: Buffer, b: Buffer, c: Buffer, body: Stmt) -> PrimFunc {
    let body = BlockRealize::opaque(Block::root(vec![], body));
    PrimFunc::new(name, [Param::In(a), Param::In(b), Param::Out(c)], body)
}

pub(super) fn buffer(name: &str, shape: &[i64], dtype: DataType) -> Buffer {
    let shape: Vec<PrimExpr> = shape.iter().map(|&extent| PrimExpr::index(extent)).collect();
    Buffer::new(name, shape, dtype)
}

/// `for name in 0..extent`, of this kind.
pub(super) fn each(name: &str, extent: i64, kind: ForKind, body: impl FnOnce(PrimExpr) -> Stmt) -> Stmt {
    let var = Var::index(name);
    let body = body(PrimExpr::from(&var));
    For { kind, ..For::serial(var, extent, body) }.into()
}

/// `c[at] = c[at] + term`
pub(super) fn add_to(c: &Buffer, at: &[PrimExpr], term: PrimExpr) -> Stmt {
    Stmt::store(c, at.to_vec(), c.load(at.to_vec()) + term)
}

/// The `i32` word of the elements of `buffer` at `at(0)`, `at(1)`, …; the first one is in the lowest bits.
pub(super) fn word(buffer: &Buffer, at: impl Fn(i64) -> Vec<PrimExpr>) -> PrimExpr {
    let bits = i64::from(buffer.dtype.bits());
    let unsigned = if bits == 8 { DataType::U8 } else { DataType::U16 };
    let part = |i: i64| {
        let element = buffer.load(at(i));
        let element = match buffer.dtype == unsigned {
            true => element,
            false => PrimExpr::call(Intrinsic::Reinterpret, [element], unsigned),
        };
        binary(BinaryOp::Shl, element.cast(DataType::I32), int(bits * i))
    };
    (1..32 / bits).fold(part(0), |word, i| binary(BinaryOp::BitOr, word, part(i)))
}

pub(super) fn int(value: i64) -> PrimExpr {
    PrimExpr::int(value, DataType::I32)
}
