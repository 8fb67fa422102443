//! Encoding of instructions: their numbers and fields. Within one format version, a number never changes its meaning.

use super::ArtifactError;
use super::codec::{Codec, Reader, Writer, enums};
use crate::vm::Instruction;

enums! {
    Instruction {
        0 = Move { dst, src },
        1 = Ret { src },
        2 = Invoke { dst, func, args },
        3 = TailInvoke { func, args },
        4 = InvokeClosure { dst, closure, args },
        5 = TailInvokeClosure { closure, args },
        6 = InvokeKernel { kernel, args },
        7 = InvokePacked { dst, func, args },
        8 = AllocStorage { dst, size, align, device },
        9 = AllocTensor { dst, storage, offset, dtype, shape },
        10 = AllocTensorReg { dst, storage, offset, dtype, shape, max_bytes },
        11 = AllocADT { dst, tag, fields },
        12 = AllocClosure { dst, func, captured },
        13 = GetField { dst, src, index },
        14 = GetTag { dst, src },
        15 = If { test, target, on_eq, on_ne },
        16 = Goto { target },
        17 = LoadConst { dst, index },
        18 = LoadConsti { dst, value },
        19 = ShapeOf { dst, src },
        20 = ShapeDim { dst, src, axis },
        21 = MakeShape { dst, dims },
        22 = ShapeToTensor { dst, src },
        23 = TensorToShape { dst, src },
        24 = ReshapeTensor { dst, src, shape },
        25 = ReadScalar { dst, src },
        26 = MakeScalar { dst, src, dtype },
        27 = IntOp { op, dst, lhs, rhs },
        28 = CheckTensor { src, dtype, dims, context },
        29 = CheckShape { src, dims, context },
        30 = DeviceCopy { dst, src, device },
        31 = KillRegister { reg },
        32 = RefNew { dst, src },
        33 = RefGet { dst, src },
        34 = RefSet { cell, src },
        35 = Fatal { message },
        36 = CheckIndices { src, extents, context },
        37 = InvokeDpsPacked { func, inputs, outputs },
        38 = MakeUnique { dst, src },
        39 = CheckBound { src, bound, dim, arg, axis },
    }
}
