//! Syntax tree of a kernel after parsing: names are resolved, and every node has its source span.

use proc_macro2::Span;
use syn::{BinOp, Expr as SynExpr, Generics, Ident, LitStr, Path, Visibility};

/// A `#[prim_func]`.
pub(crate) struct PrimFunc {
    pub(crate) docs: Vec<syn::Attribute>,
    pub(crate) vis: Visibility,
    pub(crate) name: Ident,
    pub(crate) generics: Generics,
    /// Symbolic dimensions in order of first use.
    pub(crate) dims: Vec<Ident>,
    pub(crate) params: Vec<Param>,
    /// Name in the module, bounds of dimensions, attributes.
    pub(crate) options: crate::options::Options,
    /// C functions that the body declares: `unsafe extern "C" { .. }`.
    pub(crate) c_functions: Vec<syn::ItemForeignMod>,
    pub(crate) body: Vec<Stmt>,
    /// True when element types occur for which Rust has no literals: a type parameter or half precision.
    pub(crate) soft_literals: bool,
    /// True when a math function is called.
    pub(crate) uses_math: bool,
}

pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) kind: ParamKind,
}

pub(crate) enum ParamKind {
    Tensor { output: bool, dtype: DType, dims: Vec<Dim>, span: Span },
    Scalar { dtype: DType },
}

/// An element type: a Rust type or a type parameter.
#[derive(Clone)]
pub(crate) struct DType(pub(crate) Ident);

impl DType {
    pub(crate) fn name(&self) -> String {
        self.0.to_string().trim_start_matches(DType::PARAM).to_string()
    }

    /// Prefix of the name of a helper's type parameter, whose type is that of an argument.
    pub(crate) const PARAM: &str = "__dtype_";
}

/// An extent.
#[derive(Clone)]
pub(crate) enum Dim {
    /// A symbolic dimension.
    Var(Ident),
    /// A constant of the host: a literal, a constant or a const generic.
    Host(SynExpr),
    /// An expression of both.
    Expr(SynExpr, Box<Expr>),
}

/// How a loop runs.
pub(crate) enum LoopKind {
    Serial,
    Parallel,
    Vectorized,
    Unrolled,
    Thread(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum AxisKind {
    Spatial,
    Reduce,
    Ordered,
    Opaque,
}

impl AxisKind {
    /// Variant of `IterKind`.
    pub(crate) fn variant(self) -> &'static str {
        match self {
            AxisKind::Spatial => "Spatial",
            AxisKind::Reduce => "Reduce",
            AxisKind::Ordered => "Ordered",
            AxisKind::Opaque => "Opaque",
        }
    }
}

pub(crate) struct Axis {
    pub(crate) kind: AxisKind,
    pub(crate) value: Expr,
    /// `S(v).within(0..n)`: the domain; `None` if it is the range of the value.
    pub(crate) dom: Option<(Expr, Expr)>,
    pub(crate) var: Ident,
}

/// Names and values of attributes.
pub(crate) type Attrs = Vec<(String, proc_macro2::TokenStream)>;

pub(crate) enum Stmt {
    For {
        vars: Vec<Ident>,
        range: LoopRange,
        kind: LoopKind,
        attrs: Attrs,
        body: Vec<Stmt>,
        span: Span,
    },
    Block {
        name: LitStr,
        attrs: Attrs,
        axes: Vec<Axis>,
        body: Vec<Stmt>,
        span: Span,
    },
    Init {
        body: Vec<Stmt>,
        span: Span,
    },
    Store {
        buffer: Ident,
        indices: Vec<Expr>,
        op: Option<BinOp>,
        value: Expr,
        span: Span,
    },
    Let {
        name: Ident,
        value: Expr,
        /// `let x = bind(e);`: creates a variable even if `e` needs none.
        keep: bool,
    },
    /// `let f = |x| e;`
    Helper {
        name: Ident,
        params: Vec<Ident>,
        value: Expr,
    },
    /// A local buffer; a mutable scalar is one without dimensions.
    Alloc {
        name: Ident,
        dtype: DType,
        shape: Vec<Expr>,
        value: Option<Expr>,
        scope: &'static str,
        strides: Vec<Expr>,
        offset: Option<Expr>,
    },
    If {
        condition: Expr,
        then: Vec<Stmt>,
        otherwise: Option<Vec<Stmt>>,
        span: Span,
    },
    While {
        condition: Expr,
        body: Vec<Stmt>,
        span: Span,
    },
    /// `assert!(condition, "message");`
    Assert {
        condition: Expr,
        message: String,
        span: Span,
    },
    /// `let v = match_buffer(source[[i, begin..end]]);`: the begin and end of each range; a single index has no end.
    Match {
        name: Ident,
        source: Ident,
        region: Vec<(Expr, Option<Expr>)>,
    },
    Scope(Vec<Stmt>),
    /// `matmul(a, b, &mut c);`: a call of another kernel.
    Call {
        path: Path,
        args: Vec<CallArg>,
        span: Span,
    },
}

/// An argument of a call of a kernel.
pub(crate) enum CallArg {
    Tensor(Ident),
    Value(Expr),
}

/// `let name = value;` or `let name = |params| value;` in a block that is a value.
#[derive(Clone)]
pub(crate) struct BlockLet {
    pub(crate) name: Ident,
    /// Parameters of a helper closure; `None` for a value.
    pub(crate) params: Option<Vec<Ident>>,
    pub(crate) value: Expr,
    /// `let x = bind(e);`: creates a variable even if `e` needs none.
    pub(crate) keep: bool,
}

/// A `#[prim_helper]`: a function of scalars, expanded where it is called.
pub(crate) struct Helper {
    pub(crate) generics: Generics,
    /// Names and types, `usize` for indices.
    pub(crate) params: Vec<(Ident, DType)>,
    pub(crate) ret: DType,
    pub(crate) value: Expr,
    pub(crate) uses_math: bool,
}

pub(crate) enum LoopRange {
    /// `min..end`, or `min..=end`.
    Range { min: Expr, end: Expr, inclusive: bool },
    /// `grid([..])`
    Grid(Vec<Expr>),
}

#[derive(Clone)]
pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) span: Span,
}

#[derive(Clone)]
pub(crate) enum ExprKind {
    /// A literal without a suffix, or with one.
    Int(i128, Option<Ident>),
    Float(f64, Option<Ident>),
    /// A float literal whose nearest `f64` rounds to narrower types differently from the literal itself: that `f64`, and one
    /// that rounds like the literal.
    FloatNear(f64, f64, Option<Ident>),
    Bool(bool),
    /// A value: a dimension, loop variable, axis, scalar parameter or `let`.
    Var(Ident),
    /// A constant of the host program.
    Host(Path),
    /// `TABLE[i][j]`: an element of a constant array of the host program.
    HostLoad(Path, Vec<Expr>),
    Load {
        buffer: Ident,
        indices: Vec<Expr>,
    },
    Neg(Box<Expr>),
    Not(Box<Expr>),
    Binary(BinOp, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>, Ident),
    /// An intrinsic, by the name of its variant.
    Call(&'static str, Vec<Expr>),
    /// A function that is a `BinaryOp`: `max`, `min`, `floordiv`, `floormod`; or a method that differs from one only for NaN
    /// and equal values: `MaxOfNumbers`, `MinOfNumbers`.
    Extremum(&'static str, Box<Expr>, Box<Expr>),
    /// A call of a helper closure.
    Helper(Ident, Vec<Expr>),
    /// A call of a `#[prim_helper]`.
    Inline(Path, Vec<Expr>),
    /// `unsafe { f(x) }`: a call of a C function.
    CallC(Path, Vec<Expr>),
    /// `{ let t = x * x; t + 1.0 }`, and the type of the last expression where it is known.
    Block(Vec<BlockLet>, Box<Expr>, Option<DType>),
    /// `select(c, a, b)`
    Select(Box<Expr>, Box<Expr>, Box<Expr>),
    /// `if c { a } else { b }`
    If(Box<Expr>, Box<Expr>, Box<Expr>),
    /// An expression that could not be parsed; an error was reported.
    Error,
}

impl Expr {
    pub(crate) fn new(kind: ExprKind, span: Span) -> Expr {
        Expr { kind, span }
    }

    /// Calls `f` on this expression and all expressions inside.
    pub(crate) fn walk(&self, f: &mut dyn FnMut(&Expr)) {
        f(self);
        match &self.kind {
            ExprKind::Int(..)
            | ExprKind::Float(..)
            | ExprKind::FloatNear(..)
            | ExprKind::Bool(_)
            | ExprKind::Var(_)
            | ExprKind::Host(_)
            | ExprKind::Error => {}
            ExprKind::HostLoad(_, args)
            | ExprKind::Load { indices: args, .. }
            | ExprKind::Call(_, args)
            | ExprKind::Helper(_, args)
            | ExprKind::Inline(_, args)
            | ExprKind::CallC(_, args) => args.iter().for_each(|arg| arg.walk(f)),
            ExprKind::Block(lets, value, _) => {
                lets.iter().for_each(|it| it.value.walk(f));
                value.walk(f);
            }
            ExprKind::Neg(a) | ExprKind::Not(a) | ExprKind::Cast(a, _) => a.walk(f),
            ExprKind::Binary(_, a, b) | ExprKind::Extremum(_, a, b) => {
                a.walk(f);
                b.walk(f);
            }
            ExprKind::Select(a, b, c) | ExprKind::If(a, b, c) => {
                a.walk(f);
                b.walk(f);
                c.walk(f);
            }
        }
    }
}
