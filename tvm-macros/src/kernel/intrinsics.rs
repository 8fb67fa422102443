//! The functions that a kernel may call: their names as functions and as methods, their intrinsics and their arity.

/// A function that kernels may call.
pub(crate) struct Function {
    /// Name as a function.
    pub(crate) name: &'static str,
    /// Names as a method; none if it is only a function.
    pub(crate) methods: &'static [&'static str],
    /// Variant of `Intrinsic`, or of `BinaryOp` for `Max`, `Min`, `FloorDiv` and `FloorMod`.
    pub(crate) variant: &'static str,
    pub(crate) arity: usize,
    /// Whether the arguments must be floats.
    pub(crate) math: bool,
}

macro_rules! functions {
    ($($kind:ident $name:literal [$($method:literal)*] $variant:ident $arity:literal;)*) => {
        pub(crate) const FUNCTIONS: &[Function] = &[$(Function {
            name: $name,
            methods: &[$($method),*],
            variant: stringify!($variant),
            arity: $arity,
            math: functions!(@$kind),
        }),*];
    };
    (@math) => { true };
    (@any) => { false };
}

functions! {
    math "exp" ["exp"] Exp 1;
    math "exp2" ["exp2"] Exp2 1;
    math "log" ["ln"] Log 1;
    math "log2" ["log2"] Log2 1;
    math "log10" ["log10"] Log10 1;
    math "log1p" ["ln_1p" "log1p"] Log1p 1;
    math "sqrt" ["sqrt"] Sqrt 1;
    math "rsqrt" ["rsqrt"] Rsqrt 1;
    math "pow" ["powf"] Pow 2;
    math "sin" ["sin"] Sin 1;
    math "cos" ["cos"] Cos 1;
    math "tan" ["tan"] Tan 1;
    math "asin" ["asin"] Asin 1;
    math "acos" ["acos"] Acos 1;
    math "atan" ["atan"] Atan 1;
    math "atan2" ["atan2"] Atan2 2;
    math "sinh" ["sinh"] Sinh 1;
    math "cosh" ["cosh"] Cosh 1;
    math "tanh" ["tanh"] Tanh 1;
    math "asinh" ["asinh"] Asinh 1;
    math "acosh" ["acosh"] Acosh 1;
    math "atanh" ["atanh"] Atanh 1;
    math "erf" ["erf"] Erf 1;
    math "sigmoid" ["sigmoid"] Sigmoid 1;
    any "abs" ["abs"] Abs 1;
    math "floor" ["floor"] Floor 1;
    math "ceil" ["ceil"] Ceil 1;
    math "trunc" ["trunc"] Trunc 1;
    math "round" ["round_ties_even"] Round 1;
    math "fma" ["mul_add"] Fma 3;
    math "copysign" ["copysign"] Copysign 2;
    math "is_nan" ["is_nan"] IsNan 1;
    math "is_inf" ["is_infinite"] IsInf 1;
    any "count_ones" ["count_ones"] PopCount 1;
    any "leading_zeros" ["leading_zeros"] Clz 1;
    any "max" ["max"] Max 2;
    any "min" ["min"] Min 2;
    any "floordiv" [] FloorDiv 2;
    any "floormod" [] FloorMod 2;
    any "select" [] Select 3;
}

/// Methods of Rust's numbers that kernels do not have or that differ from the intrinsic of a similar name, with advice.
pub(crate) const MISLEADING_METHODS: &[(&str, &str)] = &[
    ("log", "write `.ln()` for the natural logarithm"),
    ("round", "kernels round halves to even: write `.round_ties_even()`"),
    ("powi", "write `.powf(2.0)`, or multiply"),
    ("pow", "write `.powf(..)`"),
    ("recip", "write `1.0 / x`"),
    ("clamp", "write `.max(low).min(high)`"),
    ("rem_euclid", "write `%`"),
    ("signum", "write `if x > 0.0 { 1.0 } else { -1.0 }`"),
];

/// The function called `name`.
pub(crate) fn function(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|it| it.name == name)
}

/// The method called `name`.
pub(crate) fn method(name: &str) -> Option<&'static Function> {
    FUNCTIONS.iter().find(|it| it.methods.contains(&name))
}
