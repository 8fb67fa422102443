//! Built-in functions of tensor programs.
//!
//! TVM counterpart: `tir/builtin.h`, `tir/op.h` (`tir.exp`, …).

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

macro_rules! intrinsics {
    ($($(#[$doc:meta])* $name:ident = $text:literal $arity:literal $effect:ident $(libm $libm:literal)?;)*) => {
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

            /// Effect of a call.
            pub const fn effect(self) -> Effect {
                match self {
                    $(Intrinsic::$name => Effect::$effect,)*
                }
            }

            /// The function of libm that does this to `f64` (under the default rounding mode), with `f` behind
            /// it to `f32`.
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
    Exp = "exp" 1 Pure libm "exp";
    /// 2 to the x
    Exp2 = "exp2" 1 Pure libm "exp2";
    /// Natural logarithm
    Log = "log" 1 Pure libm "log";
    /// Logarithm to base 2
    Log2 = "log2" 1 Pure libm "log2";
    /// Logarithm to base 10
    Log10 = "log10" 1 Pure libm "log10";
    /// `log(1 + x)`
    Log1p = "log1p" 1 Pure libm "log1p";
    /// Square root
    Sqrt = "sqrt" 1 Pure libm "sqrt";
    /// `1 / sqrt(x)`
    Rsqrt = "rsqrt" 1 Pure;
    /// x to the y
    Pow = "pow" 2 Pure libm "pow";
    /// Sine
    Sin = "sin" 1 Pure libm "sin";
    /// Cosine
    Cos = "cos" 1 Pure libm "cos";
    /// Tangent
    Tan = "tan" 1 Pure libm "tan";
    /// Inverse sine
    Asin = "asin" 1 Pure libm "asin";
    /// Inverse cosine
    Acos = "acos" 1 Pure libm "acos";
    /// Inverse tangent
    Atan = "atan" 1 Pure libm "atan";
    /// Angle of the point (x, y), given as `atan2(y, x)`
    Atan2 = "atan2" 2 Pure libm "atan2";
    /// Hyperbolic sine
    Sinh = "sinh" 1 Pure libm "sinh";
    /// Hyperbolic cosine
    Cosh = "cosh" 1 Pure libm "cosh";
    /// Hyperbolic tangent
    Tanh = "tanh" 1 Pure libm "tanh";
    /// Inverse hyperbolic sine
    Asinh = "asinh" 1 Pure libm "asinh";
    /// Inverse hyperbolic cosine
    Acosh = "acosh" 1 Pure libm "acosh";
    /// Inverse hyperbolic tangent
    Atanh = "atanh" 1 Pure libm "atanh";
    /// Error function
    Erf = "erf" 1 Pure libm "erf";
    /// `1 / (1 + exp(-x))`
    Sigmoid = "sigmoid" 1 Pure;
    /// Absolute value
    Abs = "abs" 1 Pure libm "fabs";
    /// Largest integer not above x
    Floor = "floor" 1 Pure libm "floor";
    /// Smallest integer not below x
    Ceil = "ceil" 1 Pure libm "ceil";
    /// Toward zero
    Trunc = "trunc" 1 Pure libm "trunc";
    /// To the nearest integer, halves to even (ONNX `Round`)
    Round = "round" 1 Pure libm "rint";
    /// `a * b + c` with one rounding
    Fma = "fma" 3 Pure libm "fma";
    /// `a * b + c`, with one rounding where the target is faster so, else with two
    FMulAdd = "fmuladd" 3 Pure;
    /// Magnitude of x, sign of y
    Copysign = "copysign" 2 Pure libm "copysign";
    /// True for NaN
    IsNan = "is_nan" 1 Pure;
    /// True for an infinity
    IsInf = "is_inf" 1 Pure;
    /// Number of ones
    PopCount = "count_ones" 1 Pure;
    /// Number of leading zeros
    Clz = "leading_zeros" 1 Pure;
    /// Bitwise complement
    BitNot = "bit_not" 1 Pure;
    /// The bits of the argument as the result type
    Reinterpret = "reinterpret" 1 Pure;
    /// `if c { a } else { b }`, only the taken arm is evaluated
    IfThenElse = "if_then_else" 3 Pure;
    /// The condition is usually true; its value
    Likely = "likely" 1 Pure;
    /// Handle of an element: (buffer load)
    AddressOf = "address_of" 1 Pure;
    /// Handle of the `i`-th argument of a packed call: (args, i) gives the tensor's first element
    ArgData = "arg_data" 2 ReadState;
    /// Rank of the `i`-th argument: (args, i)
    ArgNdim = "arg_ndim" 2 ReadState;
    /// Packed data type of the `i`-th argument: (args, i)
    ArgDType = "arg_dtype" 2 ReadState;
    /// Extent of axis `k` of the `i`-th argument: (args, i, k)
    ArgShape = "arg_shape" 3 ReadState;
    /// 1 when the `i`-th argument is compact row-major: (args, i)
    ArgIsCompact = "arg_is_compact" 2 ReadState;
    /// Value of the `i`-th argument, a scalar of the result type: (args, i)
    ArgScalar = "arg_scalar" 2 ReadState;
    /// Waits for all threads of the block: (scope)
    StorageSync = "storage_sync" 1 UpdateState;
}

impl Intrinsic {
    /// The intrinsic named `name` in the DSL.
    pub fn from_name(name: &str) -> Option<Intrinsic> {
        Intrinsic::ALL.iter().copied().find(|it| it.name() == name)
    }
}
