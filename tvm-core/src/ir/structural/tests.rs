//! Tests of equality and hashing on random programs and on edits of them.

use tvm_runtime::DataType;

use super::graph_sample::random_function;
use super::sample::{matmul, random_prim_func};
use super::*;
use crate::ir::tensor_program::*;
use crate::relax;
use crate::tir::transform::renew_defs;
use tvm_testing::Rng;

/// Changes one node of a program: the `nth` constant, operator, loop kind or buffer access.
struct Edit {
    nth: usize,
    seen: usize,
}

impl Edit {
    fn hit(&mut self) -> bool {
        self.seen += 1;
        self.seen == self.nth + 1
    }
}

impl Mutator for Edit {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if self.hit() {
            return Some(match expr {
                PrimExpr::IntImm(it) if it.dtype.is_bool() => PrimExpr::bool(it.value == 0),
                PrimExpr::IntImm(it) => PrimExpr::int(it.value ^ 1, it.dtype),
                PrimExpr::FloatImm(it) => PrimExpr::float(-it.value, it.dtype),
                _ => PrimExpr::float(77.0, DataType::F64),
            });
        }
        // Visit the children without folding, which could remove the edit.
        self.walk_expr(expr)
    }

    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        if let Stmt::For(it) = stmt
            && self.hit()
        {
            let kind = if it.kind == ForKind::Serial { ForKind::Parallel } else { ForKind::Serial };
            return Some(For { kind, ..(**it).clone() }.into());
        }
        self.walk_stmt(stmt)
    }
}

#[test]
fn renewing_keeps_structure_and_hash() {
    for seed in 0..200 {
        let func = random_prim_func(seed);
        let copy = renew_defs(&func);
        structural_equal(&func, &copy).unwrap();
        structural_equal(&copy, &func).unwrap();
        assert_eq!(structural_hash(&func), structural_hash(&copy), "seed {seed}");
        let mut ids = Vec::new();
        collect_blocks(&func.body, &mut ids);
        let old = ids.len();
        collect_blocks(&copy.body, &mut ids);
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 2 * old, "seed {seed}: blocks of the copy are fresh");
    }
}

fn collect_blocks(stmt: &Stmt, out: &mut Vec<BlockId>) {
    struct Blocks<'a>(&'a mut Vec<BlockId>);
    impl Visitor for Blocks<'_> {
        fn visit_block(&mut self, block: &Block) {
            self.0.push(block.id);
            walk_block(self, block);
        }
    }
    Blocks(out).visit_stmt(stmt);
}

#[test]
fn an_edit_makes_it_unequal() {
    let mut edits = 0;
    for seed in 0..200 {
        let func = random_prim_func(seed);
        let nth = Rng::new(seed + 1).below(60);
        let Some(body) = (Edit { nth, seen: 0 }).mutate_stmt(&func.body) else { continue };
        let edited = renew_defs(&PrimFunc { body, ..func.clone() });
        let mismatch = structural_equal(&func, &edited).unwrap_err();
        assert!(mismatch.path.starts_with("body"), "{mismatch}");
        assert_ne!(structural_hash(&func), structural_hash(&edited), "seed {seed}");
        edits += 1;
    }
    assert!(edits > 100, "only {edits} programs were edited");
}

#[test]
fn a_mismatch_says_where() {
    let (a, b) = (matmul(), matmul());
    structural_equal(&a, &b).unwrap();
    let swap = |expr: &PrimExpr| match expr {
        PrimExpr::Binary(it) if it.op == BinaryOp::Mul => Some(binary(it.op, it.b.clone(), it.a.clone())),
        _ => None,
    };
    struct Swap<F>(F);
    impl<F: Fn(&PrimExpr) -> Option<PrimExpr>> Mutator for Swap<F> {
        fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
            (self.0)(expr).or_else(|| self.walk_expr(expr))
        }
    }
    let body = Swap(swap).mutate_stmt(&b.body).unwrap();
    let (a, b) = (IRModule::from_prim_func(a), IRModule::from_prim_func(PrimFunc { body, ..b }));
    let mismatch = structural_equal(&a, &b).unwrap_err();
    let path = "functions.matmul.body.block(root).body.body.body.body.block(C).body.value.b.a.buffer";
    assert_eq!(mismatch.path, path);
    assert_eq!((mismatch.left.as_str(), mismatch.right.as_str()), ("buffer `a`", "buffer `b`"));
}

#[test]
fn binders_correspond_and_free_variables_do_not() {
    let (x, y) = (Var::index("x"), Var::index("y"));
    let sum = |a: &Var, b: &Var| PrimExpr::from(a) + b;
    let let_in = |body: &dyn Fn(&Var) -> PrimExpr| {
        let var = Var::index("v");
        PrimExpr::Let(Let { body: body(&var), value: PrimExpr::index(1), var }.into())
    };
    let cases = [
        (sum(&x, &y), sum(&x, &y), true, true),
        (sum(&x, &y), sum(&y, &x), false, true),
        (sum(&x, &x), sum(&x, &y), false, false),
        (sum(&x, &y), sum(&x, &x), false, false),
        (let_in(&|v| sum(v, &x)), let_in(&|v| sum(v, &x)), true, true),
        (let_in(&|v| sum(v, &x)), let_in(&|v| sum(&x, v)), false, false),
        (PrimExpr::float(0.0, DataType::F32), PrimExpr::float(-0.0, DataType::F32), false, false),
        (PrimExpr::float(f64::NAN, DataType::F32), PrimExpr::float(f64::NAN, DataType::F32), true, true),
    ];
    for (a, b, plain, mapped) in &cases {
        assert_eq!(structural_equal(a, b).is_ok(), *plain, "{a:?} {b:?}");
        assert_eq!(StructuralEqual::new().map_free_vars().check(a, b).is_ok(), *mapped, "{a:?} {b:?}");
        if *plain || *mapped {
            assert_eq!(structural_hash(a), structural_hash(b), "{a:?} {b:?}");
        }
    }
}

#[test]
fn functions_of_a_module_go_by_name() {
    let [f, g] = ["f", "g"].map(|name| PrimFunc { name: name.into(), ..matmul() });
    let module = |funcs: &[&PrimFunc]| {
        let mut module = IRModule::new();
        for func in funcs {
            module.add(func.name.clone(), BaseFunc::Prim(renew_defs(func).into()));
        }
        module
    };
    let (a, b) = (module(&[&f, &g]), module(&[&g, &f]));
    structural_equal(&a, &b).unwrap();
    assert_eq!(structural_hash(&a), structural_hash(&b));
    let mismatch = structural_equal(&a, &module(&[&f])).unwrap_err();
    assert_eq!((mismatch.path.as_str(), mismatch.right.as_str()), ("functions.g", "missing"));
}

#[test]
fn deep_sums_do_not_overflow_the_stack() {
    let sum = || {
        let x = Var::index("x");
        (0..10_000).fold(PrimExpr::from(&x), |sum, _| PrimExpr::from(&x) + sum)
    };
    let (a, b) = (sum(), sum());
    StructuralEqual::new().map_free_vars().check(&a, &b).unwrap();
    assert_eq!(structural_hash(&a), structural_hash(&b));
}

/// Replaces the value of the `nth` binding by a string.
struct EditGraph {
    nth: usize,
    seen: usize,
}

impl crate::relax::ExprMutator for EditGraph {
    fn mutate_binding(&mut self, binding: &Binding) -> Option<Vec<Binding>> {
        self.seen += 1;
        if self.seen == self.nth + 1 {
            let value = relax::Expr::Arg(Arg::Str("edited".into()));
            return Some(vec![Binding { value, ..binding.clone() }]);
        }
        relax::mutator::walk_binding(self, binding).map(|it| vec![it])
    }
}

#[test]
fn graph_functions_too() {
    let mut edits = 0;
    for seed in 0..200 {
        let func = random_function(seed);
        crate::relax::analysis::well_formed(&func, &IRModule::new())
            .unwrap_or_else(|err| panic!("{seed}: {err}\n{func}"));
        let copy = relax::transform::renew_defs(&func);
        structural_equal(&func, &copy).unwrap();
        assert_eq!(structural_hash(&func), structural_hash(&copy), "seed {seed}");
        assert!(copy.params.iter().all(|param| !func.params.contains(param)));
        let nth = Rng::new(seed).below(12);
        let Some(edited) = relax::ExprMutator::mutate_function(&mut EditGraph { nth, seen: 0 }, &copy) else {
            continue;
        };
        let mismatch = structural_equal(&func, &edited).unwrap_err();
        assert!(mismatch.path.starts_with("body.blocks["), "{mismatch}");
        assert_ne!(structural_hash(&func), structural_hash(&edited), "seed {seed}");
        edits += 1;
    }
    assert!(edits > 100, "only {edits} functions were edited");
}
