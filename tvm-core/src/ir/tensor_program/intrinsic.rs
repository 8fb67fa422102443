//! Built-in functions of tensor programs.
//!
//! TVM counterpart: `tir/builtin.h`, `tir/op.h` (`tir.exp`, …).

use tvm_runtime::DataType;

use super::{BinaryOp, PrimExpr};

/// Effect of calling an intrinsic. TVM counterpart: `CallEffectKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The result depends on the arguments alone.
    Pure,
    /// Reads memory.
    ReadState,
    /// Changes state.
    UpdateState,
}

/// Constraint on the types of the arguments and the result of an intrinsic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operands {
    /// All have one float type.
    Floats,
    /// All have one type of numbers.
    Numbers,
    /// All have one type of integers or bools.
    Bits,
    /// A vector of numbers, not of narrow floats, whose lanes are a power of two; the result is of their type.
    Lanes,
    /// All are `i32`.
    Words,
    /// Two `i32`, then an `f32` as is the result.
    Pairs,
    /// A float as is the result, and an `i32`.
    Scaled,
    /// The argument is a float, the result a bool.
    Test,
    /// The argument has as many bits as the result.
    SameSize,
    /// The arguments are a bool and two values of the result's type.
    Choice,
    /// The argument and the result are bools.
    Condition,
    /// The argument is an element of a buffer; the result is its handle.
    Element,
    /// The arguments are the argument list of a packed call, then integers.
    Packed,
    /// The argument is the name of a memory scope.
    Scope,
    /// A number or bool as is the result, and a constant `i32` from 1 to 31.
    Exchange,
    /// An element of a buffer, and a number of its type, which is that of the result: 32 or 64 bits.
    Updated,
}

impl Operands {
    /// Checks the types of a call; returns a description of the expected arguments if they do not fit.
    pub fn misfit(self, args: &[PrimExpr], result: DataType) -> Option<&'static str> {
        let types = || args.iter().map(PrimExpr::dtype);
        let all = |fits: fn(DataType) -> bool| fits(result) && types().all(|dtype| dtype == result);
        let bools = DataType::BOOL.with_lanes(result.lanes());
        let number = |dtype: DataType| dtype.is_float() || dtype.is_integer();
        let (fits, expected) = match self {
            Operands::Floats => (all(|it| it.is_float()), "floats of the type of the result"),
            Operands::Numbers => {
                (all(|it| it.is_float() || it.is_integer()), "a number of the type of the result")
            }
            Operands::Bits => {
                (all(|it| it.is_integer() || it.is_bool()), "an integer of the type of the result")
            }
            Operands::Lanes => (
                types().all(|it| {
                    it.scalar() == result
                        && it.lanes() > 1
                        && it.lanes().is_power_of_two()
                        && (result.is_integer() || result.is_float() && result.bits() >= 32)
                }),
                "a vector of 2, 4, 8, … integers, `f32` or `f64`, of which the result is one",
            ),
            Operands::Words => (
                result.scalar() == DataType::I32 && types().all(|it| it == result),
                "values of `i32`, as is the result",
            ),
            Operands::Pairs => (
                {
                    let [words, sum] = [DataType::I32, DataType::F32].map(|it| it.with_lanes(result.lanes()));
                    result == sum && types().eq([words, words, sum])
                },
                "two values of `i32` and one of `f32`, as is the result",
            ),
            Operands::Scaled => (
                {
                    let exponent = DataType::I32.with_lanes(result.lanes());
                    result.is_float() && types().eq([result, exponent])
                },
                "a float of the type of the result and an `i32`",
            ),
            Operands::Test => (
                result == bools && types().all(|it| it.is_float() && it.lanes() == result.lanes()),
                "a float, and gives a bool",
            ),
            Operands::SameSize => (
                types().all(|it| {
                    number(it) && number(result) && it.bits() == result.bits() && it.lanes() == result.lanes()
                }),
                "a number of the size of the result",
            ),
            Operands::Choice => (
                types().skip(1).all(|it| it == result)
                    && types()
                        .next()
                        .is_some_and(|it| it.is_bool() && [1, result.lanes()].contains(&it.lanes())),
                "a bool and two values of the type of the result",
            ),
            Operands::Condition => {
                (result == bools && types().all(|it| it == bools), "a bool, and gives one")
            }
            Operands::Element => (
                result == DataType::HANDLE && args.iter().all(|it| matches!(it, PrimExpr::BufferLoad(_))),
                "an element of a buffer, and gives a handle",
            ),
            Operands::Packed => (
                types().next() == Some(DataType::HANDLE)
                    && types().skip(1).all(|it| it.is_integer() && it.lanes() == 1),
                "the arguments of a packed call and integers",
            ),
            Operands::Exchange => (
                {
                    let bits =
                        args.get(1).filter(|it| it.dtype() == DataType::I32).and_then(PrimExpr::as_int);
                    result.is_scalar()
                        && (number(result) || result.is_bool())
                        && types().next() == Some(result)
                        && bits.is_some_and(|bits| (1..32).contains(&bits))
                },
                "a value of the type of the result and a constant `i32` from 1 to 31",
            ),
            Operands::Updated => (
                {
                    let element = matches!(args.first(), Some(PrimExpr::BufferLoad(_)));
                    element && is_atomic(result) && types().all(|it| it == result)
                },
                "an element of a buffer, of a number of 32 or 64 bits, and a value of its type, as is the result",
            ),
            Operands::Scope => {
                (args.iter().all(|it| matches!(it, PrimExpr::StringImm(_))), "the name of a memory scope")
            }
        };
        (!fits).then_some(expected)
    }
}

/// True for the types of numbers that a GPU updates atomically.
fn is_atomic(dtype: DataType) -> bool {
    dtype.is_scalar() && (dtype.is_float() || dtype.is_integer()) && dtype.bits() >= 32
}

macro_rules! intrinsics {
    ($($(#[$doc:meta])* $name:ident = $text:literal $arity:literal $operands:ident $effect:ident $(libm $libm:literal)?;)*) => {
        /// A built-in function.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Intrinsic {
            $($(#[$doc])* $name,)*
        }

        impl Intrinsic {
            /// All intrinsics.
            pub const ALL: &'static [Intrinsic] = &[$(Intrinsic::$name),*];

            /// Name in the DSL.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Intrinsic::$name => $text,)*
                }
            }

            /// Number of arguments.
            pub const fn arity(self) -> usize {
                match self {
                    $(Intrinsic::$name => $arity,)*
                }
            }

            /// Types of the arguments and the result.
            pub const fn operands(self) -> Operands {
                match self {
                    $(Intrinsic::$name => Operands::$operands,)*
                }
            }

            /// Effect of a call.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Intrinsic::$name => Effect::$effect,)*
                }
            }

            /// The libm function that computes this for `f64` (under the default rounding mode); with the suffix
            /// `f`, for `f32`.
            pub const fn libm(self) -> Option<&'static str> {
                $($(if let Intrinsic::$name = self {
                    return Some($libm);
                })?)*
                None
            }
        }
    };
}

intrinsics! {
    /// e to the x
    Exp = "exp" 1 Floats Pure libm "exp";
    /// 2 to the x
    Exp2 = "exp2" 1 Floats Pure libm "exp2";
    /// Natural logarithm
    Log = "log" 1 Floats Pure libm "log";
    /// Logarithm to base 2
    Log2 = "log2" 1 Floats Pure libm "log2";
    /// Logarithm to base 10
    Log10 = "log10" 1 Floats Pure libm "log10";
    /// `log(1 + x)`
    Log1p = "log1p" 1 Floats Pure libm "log1p";
    /// Square root
    Sqrt = "sqrt" 1 Floats Pure libm "sqrt";
    /// `1 / sqrt(x)`
    Rsqrt = "rsqrt" 1 Floats Pure;
    /// x to the y
    Pow = "pow" 2 Floats Pure libm "pow";
    /// Sine
    Sin = "sin" 1 Floats Pure libm "sin";
    /// Cosine
    Cos = "cos" 1 Floats Pure libm "cos";
    /// Tangent
    Tan = "tan" 1 Floats Pure libm "tan";
    /// Inverse sine
    Asin = "asin" 1 Floats Pure libm "asin";
    /// Inverse cosine
    Acos = "acos" 1 Floats Pure libm "acos";
    /// Inverse tangent
    Atan = "atan" 1 Floats Pure libm "atan";
    /// Angle of the point (x, y), given as `atan2(y, x)`
    Atan2 = "atan2" 2 Floats Pure libm "atan2";
    /// Hyperbolic sine
    Sinh = "sinh" 1 Floats Pure libm "sinh";
    /// Hyperbolic cosine
    Cosh = "cosh" 1 Floats Pure libm "cosh";
    /// Hyperbolic tangent
    Tanh = "tanh" 1 Floats Pure libm "tanh";
    /// Inverse hyperbolic sine
    Asinh = "asinh" 1 Floats Pure libm "asinh";
    /// Inverse hyperbolic cosine
    Acosh = "acosh" 1 Floats Pure libm "acosh";
    /// Inverse hyperbolic tangent
    Atanh = "atanh" 1 Floats Pure libm "atanh";
    /// Error function
    Erf = "erf" 1 Floats Pure libm "erf";
    /// `1 / (1 + exp(-x))`
    Sigmoid = "sigmoid" 1 Floats Pure;
    /// Absolute value
    Abs = "abs" 1 Numbers Pure libm "fabs";
    /// Largest integer not above x
    Floor = "floor" 1 Floats Pure libm "floor";
    /// Smallest integer not below x
    Ceil = "ceil" 1 Floats Pure libm "ceil";
    /// Rounded toward zero
    Trunc = "trunc" 1 Floats Pure libm "trunc";
    /// Rounded to the nearest integer, halves to even (ONNX `Round`)
    Round = "round" 1 Floats Pure libm "rint";
    /// `a * b + c` with one rounding
    Fma = "fma" 3 Floats Pure libm "fma";
    /// `a * b + c`, with one rounding where that is faster on the target, else with two
    FMulAdd = "fmuladd" 3 Floats Pure;
    /// `x * 2^n`, rounded once, given as `ldexp(x, n)`
    Ldexp = "ldexp" 2 Scaled Pure libm "ldexp";
    /// Magnitude of x, sign of y
    Copysign = "copysign" 2 Floats Pure libm "copysign";
    /// True for NaN
    IsNan = "is_nan" 1 Test Pure;
    /// True for an infinity
    IsInf = "is_inf" 1 Test Pure;
    /// Number of ones
    PopCount = "count_ones" 1 Bits Pure;
    /// Number of leading zeros
    Clz = "leading_zeros" 1 Bits Pure;
    /// Bitwise complement
    BitNot = "bit_not" 1 Bits Pure;
    /// Sum of `c` and of four products of bytes, which wraps: the unsigned bytes of `a` times the signed bytes of `b`, given
    /// as `dot4(a, b, c)`
    Dot4 = "dot4" 3 Words Pure;
    /// Sum of `c` and of two products of `bf16`, the halves of `a` times those of `b`, given as `dot2(a, b, c)`; rounded as the
    /// target does, which may flush denormal numbers
    Dot2 = "dot2" 3 Pairs Pure;
    /// Sum of the lanes of a vector, in halves: each lane of the lower half and the one as far into the upper half, until one is left
    ReduceAdd = "reduce_add" 1 Lanes Pure;
    /// Product of the lanes of a vector, in halves
    ReduceMul = "reduce_mul" 1 Lanes Pure;
    /// Smallest lane of a vector, in halves; NaN if one is
    ReduceMin = "reduce_min" 1 Lanes Pure;
    /// Largest lane of a vector, in halves; NaN if one is
    ReduceMax = "reduce_max" 1 Lanes Pure;
    /// The bits of the argument as the result type
    Reinterpret = "reinterpret" 1 SameSize Pure;
    /// `if c { a } else { b }`, only the taken arm is evaluated
    IfThenElse = "if_then_else" 3 Choice Pure;
    /// The condition itself, marked as usually true
    Likely = "likely" 1 Condition Pure;
    /// The number itself, which is an element of memory, or 0: the whole value of a store to shared memory of a GPU, which may take
    /// place as late as at the next barrier
    AsyncCopy = "async_copy" 1 Numbers Pure;
    /// Handle of an element: (buffer load)
    AddressOf = "address_of" 1 Element Pure;
    /// Brings an element, which need not exist, into the caches: (buffer load)
    Prefetch = "prefetch" 1 Element UpdateState;
    /// Brings an element, which need not exist, into the second-level cache: (buffer load)
    PrefetchL2 = "prefetch_l2" 1 Element UpdateState;
    /// Handle of the first element of the `i`-th argument of a packed call, a tensor: (args, i)
    ArgData = "arg_data" 2 Packed ReadState;
    /// Rank of the `i`-th argument: (args, i)
    ArgNdim = "arg_ndim" 2 Packed ReadState;
    /// Packed data type of the `i`-th argument: (args, i)
    ArgDType = "arg_dtype" 2 Packed ReadState;
    /// Extent of axis `k` of the `i`-th argument: (args, i, k)
    ArgShape = "arg_shape" 3 Packed ReadState;
    /// 1 when the `i`-th argument is compact row-major: (args, i)
    ArgIsCompact = "arg_is_compact" 2 Packed ReadState;
    /// Value of the `i`-th argument, a scalar of the result type: (args, i)
    ArgScalar = "arg_scalar" 2 Packed ReadState;
    /// Waits for all threads of the block: (scope)
    StorageSync = "storage_sync" 1 Scope UpdateState;
    /// The value that the thread of the warp has whose number differs in these bits, given as `warp_shuffle_xor(x, bits)`: all
    /// threads of a warp call it together. A warp is 32 threads that follow each other along threadIdx.x, whose extent is a
    /// multiple of 32. It is the whole value of a store
    WarpShuffleXor = "warp_shuffle_xor" 2 Exchange UpdateState;
    /// The sum of an element of memory and a number, given as `atomic_add(element, x)`. It is the whole value of a store to this
    /// element, and no other thread accesses the element between the load and the store
    AtomicAdd = "atomic_add" 2 Updated UpdateState;
    /// The product of an element and a number, as `atomic_add`
    AtomicMul = "atomic_mul" 2 Updated UpdateState;
    /// The smaller one of an element and a number, as `atomic_add`
    AtomicMin = "atomic_min" 2 Updated UpdateState;
    /// The larger one of an element and a number, as `atomic_add`
    AtomicMax = "atomic_max" 2 Updated UpdateState;
}

impl Intrinsic {
    /// The operation between the lanes of a vector, of an intrinsic that gives one number for them.
    pub const fn lane_op(self) -> Option<BinaryOp> {
        match self {
            Intrinsic::ReduceAdd => Some(BinaryOp::Add),
            Intrinsic::ReduceMul => Some(BinaryOp::Mul),
            Intrinsic::ReduceMin => Some(BinaryOp::Min),
            Intrinsic::ReduceMax => Some(BinaryOp::Max),
            _ => None,
        }
    }

    /// The intrinsic that gives one number for the lanes of a vector, by `op` between them.
    pub fn of_lanes(op: BinaryOp) -> Option<Intrinsic> {
        const ALL: [Intrinsic; 4] =
            [Intrinsic::ReduceAdd, Intrinsic::ReduceMul, Intrinsic::ReduceMin, Intrinsic::ReduceMax];
        ALL.into_iter().find(|it| it.lane_op() == Some(op))
    }

    /// The operation of an intrinsic that updates an element.
    pub const fn atomic_op(self) -> Option<BinaryOp> {
        match self {
            Intrinsic::AtomicAdd => Some(BinaryOp::Add),
            Intrinsic::AtomicMul => Some(BinaryOp::Mul),
            Intrinsic::AtomicMin => Some(BinaryOp::Min),
            Intrinsic::AtomicMax => Some(BinaryOp::Max),
            _ => None,
        }
    }

    /// The intrinsic that updates an element by `op`, if GPUs have one for elements of this type.
    pub fn atomic(op: BinaryOp, dtype: DataType) -> Option<Intrinsic> {
        const ALL: [Intrinsic; 4] =
            [Intrinsic::AtomicAdd, Intrinsic::AtomicMul, Intrinsic::AtomicMin, Intrinsic::AtomicMax];
        ALL.into_iter().find(|it| it.atomic_op() == Some(op) && is_atomic(dtype))
    }

    /// The intrinsic named `name` in the DSL.
    pub fn from_name(name: &str) -> Option<Intrinsic> {
        Intrinsic::ALL.iter().copied().find(|it| it.name() == name)
    }
}
