//! Programs for tests: a matrix product, and random well-formed tensor programs.

use tvm_runtime::DataType;

use crate::ir::tensor_program::*;
use crate::ir::{Attrs, Span, Var};
use tvm_testing::Rng;

/// `c = a @ b` with symbolic sizes.
pub(crate) fn matmul() -> PrimFunc {
    let [m, n, k] = ["m", "n", "k"].map(Var::index);
    let dims = |a: &Var, b: &Var| [PrimExpr::from(a), PrimExpr::from(b)];
    let a = Buffer::new("a", dims(&m, &k), DataType::F32);
    let b = Buffer::new("b", dims(&k, &n), DataType::F32);
    let c = Buffer::new("c", dims(&m, &n), DataType::F32);
    let axes = [("vi", IterKind::Spatial, &m), ("vj", IterKind::Spatial, &n), ("vk", IterKind::Reduce, &k)];
    let iters =
        axes.map(|(name, kind, dim)| IterVar { var: Var::index(name), dom: Range::from_extent(dim), kind });
    let [vi, vj, vk] = [0, 1, 2].map(|i: usize| PrimExpr::from(&iters[i].var));
    let product = a.load([vi.clone(), vk.clone()]) * b.load([vk.clone(), vj.clone()]);
    let body = Stmt::store(&c, [vi.clone(), vj.clone()], c.load([vi.clone(), vj.clone()]) + product);
    let block = Block {
        iter_vars: iters.to_vec().into(),
        reads: [
            BufferRegion::point(&a, &[vi.clone(), vk.clone()]),
            BufferRegion::point(&b, &[vk, vj.clone()]),
        ]
        .into(),
        writes: [BufferRegion::point(&c, &[vi.clone(), vj.clone()])].into(),
        init: Some(Stmt::store(&c, [vi, vj], PrimExpr::float(0.0, DataType::F32))),
        span: Span::rust("kernels.rs", 4, 9),
        ..Block::new("C", body)
    };
    let loops = ["i", "j", "p"].map(Var::index);
    let iter_values = loops.iter().map(PrimExpr::from).collect();
    let realize = BlockRealize { iter_values, predicate: PrimExpr::bool(true), block: block.into() };
    let nest = [&m, &n, &k].into_iter().zip(loops).rev();
    let body = nest.fold(realize.into(), |body, (dim, var)| For::serial(var, dim, body).into());
    let params = [Param::In(a), Param::In(b), Param::Out(c)];
    PrimFunc::new("matmul", params, BlockRealize::opaque(Block::root(vec![], body)))
}

/// A random well-formed tensor program.
pub(crate) fn random_prim_func(seed: u64) -> PrimFunc {
    let mut rng = Rng::new(seed);
    let (n, s) = (Var::index("n"), Var::prim("s", DataType::F32));
    let x = Buffer::new("x", [PrimExpr::from(&n), PrimExpr::index(8)], DataType::F32);
    let y = Buffer::new("y", [PrimExpr::from(&n)], DataType::I32);
    let out = Buffer::new("out", [PrimExpr::from(&n), PrimExpr::index(8)], DataType::F32);
    let mut gen_ = Generator {
        rng: &mut rng,
        ints: vec![n],
        floats: vec![s.clone()],
        sources: vec![x.clone(), out.clone()],
        small: y.clone(),
        targets: vec![out.clone()],
        blocks: 0,
        allows_blocks: true,
        in_head: false,
    };
    let body = gen_.seq(4);
    let params = [Param::In(x), Param::In(y), Param::Scalar(s), Param::Out(out)];
    let mut func = PrimFunc::new("random", params, BlockRealize::opaque(Block::root(vec![], body)));
    func.attrs = Attrs::new().with("global_symbol", "random").with("level", seed as i64 % 3);
    func
}

struct Generator<'a> {
    rng: &'a mut Rng,
    ints: Vec<Var>,
    floats: Vec<Var>,
    sources: Vec<Buffer>,
    small: Buffer,
    targets: Vec<Buffer>,
    blocks: usize,
    /// True when blocks are allowed here: no condition lies between here and the enclosing block.
    allows_blocks: bool,
    /// True while generating an expression that blocks may depend on (extent, axis value, predicate): it reads no memory.
    in_head: bool,
}

impl Generator<'_> {
    fn seq(&mut self, depth: usize) -> Stmt {
        let lens = (self.ints.len(), self.floats.len(), self.sources.len(), self.targets.len());
        let count = 1 + self.rng.below(3);
        let stmts: Vec<Stmt> = (0..count).map(|_| self.stmt(depth)).collect();
        self.ints.truncate(lens.0);
        self.floats.truncate(lens.1);
        self.sources.truncate(lens.2);
        self.targets.truncate(lens.3);
        Stmt::seq(stmts)
    }

    fn stmt(&mut self, depth: usize) -> Stmt {
        match if depth == 0 { 0 } else { self.rng.below(9) } {
            1 | 2 => {
                let var = Var::index("i");
                let extent =
                    if self.rng.below(2) == 0 { PrimExpr::index(8) } else { self.head(|it| it.int(1)) };
                self.ints.push(var.clone());
                let body = self.seq(depth - 1);
                self.ints.retain(|it| *it != var);
                let kinds = [
                    ForKind::Serial,
                    ForKind::Serial,
                    ForKind::Parallel,
                    ForKind::Vectorized,
                    ForKind::Unrolled,
                    ForKind::ThreadBinding(ThreadTag::ThreadIdxX),
                ];
                For { kind: *self.rng.pick(&kinds), ..For::serial(var, extent, body) }.into()
            }
            3 => {
                let allowed = std::mem::replace(&mut self.allows_blocks, false);
                let else_case = if self.rng.below(2) == 0 { Some(self.seq(depth - 1)) } else { None };
                let then_case = self.seq(depth - 1);
                self.allows_blocks = allowed;
                let condition = self.condition();
                IfThenElse { condition, then_case, else_case, span: Span::rust("kernels.rs", 7, 5) }.into()
            }
            4 => {
                let (var, value) = (Var::index("t"), self.int(2));
                self.ints.push(var.clone());
                Bind { var, value }.into()
            }
            5 => {
                let buffer = Buffer::with_scope(
                    "tmp",
                    [PrimExpr::index(4), PrimExpr::index(8)],
                    DataType::F32,
                    Scope::Local,
                );
                self.sources.push(buffer.clone());
                self.targets.push(buffer.clone());
                AllocBuffer::new(buffer).into()
            }
            6 | 7 if self.allows_blocks => self.block(depth),
            _ => self.store(),
        }
    }

    fn store(&mut self) -> Stmt {
        let target = self.rng.pick(&self.targets).clone();
        let (i, j, value) = (self.int(1), self.int(1), self.float(3));
        Stmt::store(&target, [i, j], value)
    }

    fn block(&mut self, depth: usize) -> Stmt {
        self.blocks += 1;
        let name = format!("b{}", self.blocks);
        let kinds = [IterKind::Spatial, IterKind::Reduce];
        let iter = IterVar { var: Var::index("v"), dom: Range::from_extent(8), kind: *self.rng.pick(&kinds) };
        let value = self.head(|it| it.int(1));
        let init = if iter.kind == IterKind::Reduce { Some(self.store()) } else { None };
        self.ints.push(iter.var.clone());
        let allowed = std::mem::replace(&mut self.allows_blocks, true);
        let body = self.seq(depth - 1);
        self.allows_blocks = allowed;
        self.ints.retain(|it| *it != iter.var);
        let writes = [BufferRegion::full(&self.targets[0])];
        let block = Block {
            iter_vars: [iter].into(),
            writes: writes.into(),
            init,
            annotations: Attrs::new().with("level", self.rng.below(4) as i64),
            ..Block::new(name, body)
        };
        let predicate =
            if self.rng.below(3) == 0 { self.head(Self::condition) } else { PrimExpr::bool(true) };
        BlockRealize { iter_values: [value].into(), predicate, block: block.into() }.into()
    }

    fn head<T>(&mut self, make: impl FnOnce(&mut Self) -> T) -> T {
        self.in_head = true;
        let res = make(self);
        self.in_head = false;
        res
    }

    fn condition(&mut self) -> PrimExpr {
        let (a, b) = (self.int(1), self.int(1));
        if self.rng.below(2) == 0 { a.less(b) } else { !a.equal(b) }
    }

    fn int(&mut self, depth: usize) -> PrimExpr {
        match if depth == 0 { self.rng.below(2) } else { self.rng.below(7) } {
            0 => PrimExpr::index(self.rng.below(9) as i64 - 2),
            2 | 3 => {
                let (a, b) = (self.int(depth - 1), self.int(depth - 1));
                let ops = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::FloorDiv, BinaryOp::Max];
                binary(*self.rng.pick(&ops), a, b)
            }
            4 if !self.in_head => {
                let index = self.int(0);
                self.small.load([index]).cast(DataType::I64)
            }
            5 => {
                let var = Var::index("l");
                let value = self.int(depth - 1);
                let body = PrimExpr::from(&var) + self.int(depth - 1);
                PrimExpr::Let(Let { var, value, body }.into())
            }
            _ => self.rng.pick(&self.ints).into(),
        }
    }

    fn float(&mut self, depth: usize) -> PrimExpr {
        match if depth == 0 { self.rng.below(2) } else { self.rng.below(8) } {
            0 => PrimExpr::float([0.5, -0.0, f64::INFINITY, 3.25][self.rng.below(4)], DataType::F32),
            1 => self.rng.pick(&self.floats).into(),
            2 | 3 => {
                let (a, b) = (self.float(depth - 1), self.float(depth - 1));
                let ops = [BinaryOp::Add, BinaryOp::Sub, BinaryOp::Mul, BinaryOp::Div, BinaryOp::Min];
                binary(*self.rng.pick(&ops), a, b)
            }
            4 => self.float(depth - 1).unary(*self.rng.pick(&[Intrinsic::Exp, Intrinsic::Sqrt])),
            5 => {
                let (a, b) = (self.float(depth - 1), self.float(depth - 1));
                self.condition().select(a, b)
            }
            6 => self.int(depth - 1).cast(DataType::F32),
            _ => {
                let (i, j) = (self.int(1), self.int(1));
                self.rng.pick(&self.sources).load([i, j])
            }
        }
    }
}
