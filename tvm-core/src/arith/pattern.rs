//! Patterns of expressions, and tables of named rewrite rules written with them.
//!
//! A pattern both matches an expression, which binds the pattern's variables, and builds an expression from the values
//! that these are bound to. Commutative operations match in both orders.
//!
//! TVM counterpart: `pattern_match.h`.

use std::ops;
use std::sync::Arc;

use tvm_runtime::DataType;

use super::rewrite_simplify::Prover;
use super::same::same;
use super::sum::const_int;
use crate::ir::tensor_program::{Binary, BinaryOp, PrimExpr, binary, wide_int};

/// The types for which a rule holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Domain {
    /// Every type.
    Any,
    /// Integers and bools, including arithmetic that wraps.
    Int,
    /// Signed integers, where no operation in the rule overflows: what is true of mathematical integers holds there.
    Exact,
}

/// A named rewrite.
pub(super) struct Rule {
    #[cfg_attr(not(test), expect(dead_code, reason = "tests report by it"))]
    pub(super) name: &'static str,
    pub(super) domain: Domain,
    pub(super) apply: fn(&PrimExpr, DataType, &Prover<'_>) -> Option<PrimExpr>,
    /// Builds the left side.
    #[cfg_attr(not(test), expect(dead_code, reason = "tests make expressions with it"))]
    pub(super) lhs: fn(&Env) -> PrimExpr,
}

/// The values that the variables of a pattern are bound to.
#[derive(Clone, Debug)]
pub(super) struct Env {
    pub(super) exprs: [Option<PrimExpr>; 4],
    pub(super) consts: [Option<i64>; 3],
    /// Type of constants that are built.
    pub(super) dtype: DataType,
}

impl Env {
    pub(super) fn new(dtype: DataType) -> Env {
        Env { exprs: [const { None }; 4], consts: [None; 3], dtype }
    }

    /// The constants as mathematical integers.
    pub(super) fn wide_consts(&self) -> [i128; 3] {
        self.consts.map(|it| wide_int(it.unwrap_or(0), self.dtype))
    }

    fn constant(&self, value: i64) -> PrimExpr {
        PrimExpr::int(value, self.dtype.scalar()).broadcast(self.dtype.lanes())
    }
}

/// A pattern, which matches and builds expressions.
pub(super) trait Pattern: Copy {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool;
    fn build(self, env: &Env) -> PrimExpr;

    /// True when no operation of the pattern overflows.
    fn is_exact(self, _: &Env, _: &Prover<'_>) -> bool {
        true
    }
}

/// An expression variable; all its occurrences match the same expression.
#[derive(Clone, Copy)]
pub(super) struct PVar(pub(super) usize);

/// An integer constant variable; all its occurrences match the same constant.
#[derive(Clone, Copy)]
pub(super) struct PConst(pub(super) usize);

/// A binary operation.
#[derive(Clone, Copy)]
pub(super) struct PBin<A, B>(BinaryOp, A, B);

/// A negation.
#[derive(Clone, Copy)]
pub(super) struct PNot<A>(A);

/// A select.
#[derive(Clone, Copy)]
pub(super) struct PSelect<C, A, B>(C, A, B);

impl Pattern for PVar {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool {
        match &env.exprs[self.0] {
            Some(bound) => same(bound, expr),
            None => {
                env.exprs[self.0] = Some(expr.clone());
                true
            }
        }
    }

    fn build(self, env: &Env) -> PrimExpr {
        env.exprs[self.0].clone().expect("the left side binds every variable")
    }
}

impl Pattern for PConst {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool {
        let Some(value) = const_int(expr) else { return false };
        *env.consts[self.0].get_or_insert(value) == value
    }

    fn build(self, env: &Env) -> PrimExpr {
        env.constant(env.consts[self.0].expect("the left side binds every constant"))
    }
}

impl Pattern for i64 {
    fn matches(self, expr: &PrimExpr, _: &mut Env) -> bool {
        const_int(expr) == Some(self)
    }

    fn build(self, env: &Env) -> PrimExpr {
        env.constant(self)
    }
}

impl Pattern for bool {
    fn matches(self, expr: &PrimExpr, _: &mut Env) -> bool {
        const_int(expr) == Some(i64::from(self))
    }

    fn build(self, env: &Env) -> PrimExpr {
        PrimExpr::bool(self).broadcast(env.dtype.lanes())
    }
}

impl<A: Pattern, B: Pattern> Pattern for PBin<A, B> {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool {
        let PrimExpr::Binary(it) = expr else { return false };
        if it.op != self.0 {
            return false;
        }
        if !is_commutative(self.0) {
            return self.1.matches(&it.a, env) && self.2.matches(&it.b, env);
        }
        let saved = env.clone();
        if self.1.matches(&it.a, env) && self.2.matches(&it.b, env) {
            return true;
        }
        *env = saved;
        self.1.matches(&it.b, env) && self.2.matches(&it.a, env)
    }

    fn build(self, env: &Env) -> PrimExpr {
        binary(self.0, self.1.build(env), self.2.build(env))
    }

    fn is_exact(self, env: &Env, prover: &Prover<'_>) -> bool {
        let fits = || {
            let it = Binary { op: self.0, a: self.1.build(env), b: self.2.build(env) };
            prover.is_exact(&it)
        };
        self.1.is_exact(env, prover) && self.2.is_exact(env, prover) && fits()
    }
}

impl<A: Pattern> Pattern for PNot<A> {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool {
        matches!(expr, PrimExpr::Not(it) if self.0.matches(&it.value, env))
    }

    fn build(self, env: &Env) -> PrimExpr {
        !self.0.build(env)
    }

    fn is_exact(self, env: &Env, prover: &Prover<'_>) -> bool {
        self.0.is_exact(env, prover)
    }
}

impl<C: Pattern, A: Pattern, B: Pattern> Pattern for PSelect<C, A, B> {
    fn matches(self, expr: &PrimExpr, env: &mut Env) -> bool {
        let PrimExpr::Select(it) = expr else { return false };
        self.0.matches(&it.condition, env)
            && self.1.matches(&it.true_value, env)
            && self.2.matches(&it.false_value, env)
    }

    fn build(self, env: &Env) -> PrimExpr {
        let (condition, a, b) = (self.0.build(env), self.1.build(env), self.2.build(env));
        match condition.as_int() {
            Some(0) => b,
            Some(_) => a,
            None => PrimExpr::Select(Arc::new(crate::ir::tensor_program::Select {
                condition,
                true_value: a,
                false_value: b,
            })),
        }
    }

    fn is_exact(self, env: &Env, prover: &Prover<'_>) -> bool {
        self.0.is_exact(env, prover) && self.1.is_exact(env, prover) && self.2.is_exact(env, prover)
    }
}

fn is_commutative(op: BinaryOp) -> bool {
    matches!(
        op,
        BinaryOp::Add
            | BinaryOp::Mul
            | BinaryOp::Min
            | BinaryOp::Max
            | BinaryOp::Eq
            | BinaryOp::Ne
            | BinaryOp::And
            | BinaryOp::Or
    )
}

macro_rules! operators {
    ($($ty:ty $(, $param:ident)*);* $(;)?) => {$(
        impl<$($param: Pattern,)* R: Pattern> ops::Add<R> for $ty {
            type Output = PBin<$ty, R>;
            fn add(self, other: R) -> Self::Output {
                PBin(BinaryOp::Add, self, other)
            }
        }
        impl<$($param: Pattern,)* R: Pattern> ops::Sub<R> for $ty {
            type Output = PBin<$ty, R>;
            fn sub(self, other: R) -> Self::Output {
                PBin(BinaryOp::Sub, self, other)
            }
        }
        impl<$($param: Pattern,)* R: Pattern> ops::Mul<R> for $ty {
            type Output = PBin<$ty, R>;
            fn mul(self, other: R) -> Self::Output {
                PBin(BinaryOp::Mul, self, other)
            }
        }
    )*};
}

operators!(PVar; PConst; PBin<A, B>, A, B; PSelect<C, A, B>, C, A, B);

macro_rules! functions {
    ($($name:ident = $op:ident;)*) => {$(
        pub(super) fn $name<A: Pattern, B: Pattern>(a: A, b: B) -> PBin<A, B> {
            PBin(BinaryOp::$op, a, b)
        }
    )*};
}

functions! {
    floordiv = FloorDiv;
    floormod = FloorMod;
    div = Div;
    rem = Mod;
    min = Min;
    max = Max;
    eq = Eq;
    ne = Ne;
    lt = Lt;
    le = Le;
    gt = Gt;
    ge = Ge;
    and = And;
    or = Or;
}

pub(super) fn not<A: Pattern>(a: A) -> PNot<A> {
    PNot(a)
}

pub(super) fn select<C: Pattern, A: Pattern, B: Pattern>(c: C, a: A, b: B) -> PSelect<C, A, B> {
    PSelect(c, a, b)
}

/// A table of rules: `rules! { [x, y, z, w; c1, c2, c3; p] NAME { domain name: lhs => rhs, if condition; … } }`.
///
/// In conditions, the constants are `i128`, the expressions `&PrimExpr`, and `p` is the [`Prover`].
macro_rules! rules {
    ($vars:tt $table:ident { $($domain:ident $name:ident: $lhs:expr => $rhs:expr $(, if $cond:expr)?;)* }) => {
        pub(in crate::arith) static $table: &[$crate::arith::pattern::Rule] = &[$(
            $crate::arith::pattern::Rule {
                name: concat!(stringify!($table), "::", stringify!($name)),
                domain: $crate::arith::pattern::Domain::$domain,
                apply: |expr, dtype, prover| $crate::arith::pattern::rules!(
                    @apply $vars expr dtype prover ($crate::arith::pattern::Domain::$domain) $lhs, $rhs, [true $(&& $cond)?]
                ),
                lhs: |env| $crate::arith::pattern::rules!(@lhs $vars env $lhs),
            }
        ),*];
    };
    (@lhs [$x:ident, $y:ident, $z:ident, $w:ident; $c1:ident, $c2:ident, $c3:ident; $p:ident] $env:ident $lhs:expr) => {{
        let ($x, $y, $z, $w) = (PVar(0), PVar(1), PVar(2), PVar(3));
        let ($c1, $c2, $c3) = (PConst(0), PConst(1), PConst(2));
        let _ = ($x, $y, $z, $w, $c1, $c2, $c3);
        Pattern::build($lhs, $env)
    }};
    (@apply [$x:ident, $y:ident, $z:ident, $w:ident; $c1:ident, $c2:ident, $c3:ident; $p:ident]
        $expr:ident $dtype:ident $prover:ident ($domain:expr) $lhs:expr, $rhs:expr, [$cond:expr]) => {{
        let ($x, $y, $z, $w) = (PVar(0), PVar(1), PVar(2), PVar(3));
        let ($c1, $c2, $c3) = (PConst(0), PConst(1), PConst(2));
        let _ = ($x, $y, $z, $w, $c1, $c2, $c3);
        let mut env = Env::new($dtype);
        if !Pattern::matches($lhs, $expr, &mut env) {
            return None;
        }
        let rhs = $rhs;
        let holds = {
            let one = PrimExpr::index(1);
            let [$x, $y, $z, $w] = env.exprs.each_ref().map(|it| it.as_ref().unwrap_or(&one));
            let [$c1, $c2, $c3] = env.wide_consts();
            let $p = $prover;
            let _ = ($x, $y, $z, $w, $c1, $c2, $c3, $p);
            $cond
        };
        let exact = || Pattern::is_exact($lhs, &env, $prover) && Pattern::is_exact(rhs, &env, $prover);
        let holds = holds && ($domain != $crate::arith::pattern::Domain::Exact || exact());
        holds.then(|| Pattern::build(rhs, &env))
    }};
}
pub(super) use rules;
