//! Binary operations: their names and groups.

use tvm_runtime::HostOp;

macro_rules! binary_ops {
    ($($(#[$doc:meta])* $name:ident)*) => {
        /// Binary operations. Integer arithmetic wraps; integer division by zero has no defined result, so programs must
        /// guard against it.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum BinaryOp {
            $($(#[$doc])* $name,)*
        }

        impl BinaryOp {
            /// All operations.
            pub const ALL: &'static [BinaryOp] = &[$(BinaryOp::$name),*];

            /// Name of the operation, for example `FloorDiv`.
            pub const fn name(self) -> &'static str {
                match self {
                    $(BinaryOp::$name => stringify!($name),)*
                }
            }
        }
    };
}

binary_ops! {
    /// `a + b`
    Add
    /// `a - b`
    Sub
    /// `a * b`
    Mul
    /// Float division, or integer division that truncates toward zero.
    Div
    /// Remainder of `Div` (sign of `a`); for floats, C's `fmod`.
    Mod
    /// Integer division that rounds toward minus infinity.
    FloorDiv
    /// Remainder of `FloorDiv` (sign of `b`).
    FloorMod
    /// The smaller; NaN if either operand is NaN.
    Min
    /// The larger; NaN if either operand is NaN.
    Max
    /// `a == b`
    Eq
    /// `a != b`
    Ne
    /// `a < b`
    Lt
    /// `a <= b`
    Le
    /// `a > b`
    Gt
    /// `a >= b`
    Ge
    /// Logical and of bools; both sides are evaluated.
    And
    /// Logical or of bools; both sides are evaluated.
    Or
    /// Bitwise and.
    BitAnd
    /// Bitwise or.
    BitOr
    /// Bitwise exclusive or.
    BitXor
    /// Left shift.
    Shl
    /// Right shift; arithmetic for signed types.
    Shr
}

// Patterns that name groups of operations, for exhaustive matches.

/// Operations on numbers whose result is a number of the same type, except the bitwise ones.
macro_rules! arithmetic {
    () => {
        BinaryOp::Add
            | BinaryOp::Sub
            | BinaryOp::Mul
            | BinaryOp::Div
            | BinaryOp::Mod
            | BinaryOp::FloorDiv
            | BinaryOp::FloorMod
            | BinaryOp::Min
            | BinaryOp::Max
    };
}

/// `==`, `<` and the like.
macro_rules! comparison {
    () => {
        BinaryOp::Eq | BinaryOp::Ne | BinaryOp::Lt | BinaryOp::Le | BinaryOp::Gt | BinaryOp::Ge
    };
}

/// Logical and, or.
macro_rules! logical {
    () => {
        BinaryOp::And | BinaryOp::Or
    };
}

/// Operations on the bits of integers.
macro_rules! bitwise {
    () => {
        BinaryOp::BitAnd | BinaryOp::BitOr | BinaryOp::BitXor | BinaryOp::Shl | BinaryOp::Shr
    };
}

pub(crate) use {arithmetic, bitwise, comparison, logical};

impl BinaryOp {
    /// True for `==`, `<` and the like: the result is a bool.
    pub const fn is_comparison(self) -> bool {
        matches!(self, comparison!())
    }

    /// True for operations on numbers whose result is a number of the same type, except the bitwise ones.
    pub const fn is_arithmetic(self) -> bool {
        matches!(self, arithmetic!())
    }

    /// True for logical and/or.
    pub const fn is_logical(self) -> bool {
        matches!(self, logical!())
    }

    /// The operation of the runtime; `None` for logical and/or, which do not always evaluate their second operand.
    pub const fn on_host(self) -> Option<HostOp> {
        Some(match self {
            BinaryOp::And | BinaryOp::Or => return None,
            BinaryOp::Add => HostOp::Add,
            BinaryOp::Sub => HostOp::Sub,
            BinaryOp::Mul => HostOp::Mul,
            BinaryOp::Div => HostOp::Div,
            BinaryOp::Mod => HostOp::Mod,
            BinaryOp::FloorDiv => HostOp::FloorDiv,
            BinaryOp::FloorMod => HostOp::FloorMod,
            BinaryOp::Min => HostOp::Min,
            BinaryOp::Max => HostOp::Max,
            BinaryOp::Eq => HostOp::Eq,
            BinaryOp::Ne => HostOp::Ne,
            BinaryOp::Lt => HostOp::Lt,
            BinaryOp::Le => HostOp::Le,
            BinaryOp::Gt => HostOp::Gt,
            BinaryOp::Ge => HostOp::Ge,
            BinaryOp::BitAnd => HostOp::BitAnd,
            BinaryOp::BitOr => HostOp::BitOr,
            BinaryOp::BitXor => HostOp::BitXor,
            BinaryOp::Shl => HostOp::Shl,
            BinaryOp::Shr => HostOp::Shr,
        })
    }
}
