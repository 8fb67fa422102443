//! Statements of tensor programs.
//!
//! `Bind`, `AllocBuffer` and `DeclBuffer` are flat: their scope is the rest of the enclosing `SeqStmt`.
//!
//! TVM counterpart: `Stmt` and its nodes (`tir/stmt.h`), `SBlock`.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::{Buffer, PrimExpr};
use crate::ir::{Attrs, BlockId, Span, Var};

/// A statement.
#[derive(Clone, Debug)]
pub enum Stmt {
    /// Writes an element (or a vector).
    BufferStore(Arc<BufferStore>),
    /// A loop.
    For(Arc<For>),
    /// A block with values for its axes.
    BlockRealize(Arc<BlockRealize>),
    /// Statements in order; never nested, may be empty.
    SeqStmt(Arc<[Stmt]>),
    /// A branch.
    IfThenElse(Arc<IfThenElse>),
    /// Repeats while a condition holds.
    While(Arc<While>),
    /// Names a value for the rest of the sequence.
    Bind(Arc<Bind>),
    /// Allocates a buffer for the rest of the sequence.
    AllocBuffer(Arc<AllocBuffer>),
    /// Declares a buffer over existing memory for the rest of the sequence.
    DeclBuffer(Arc<DeclBuffer>),
    /// Evaluates for its effect.
    Evaluate(Arc<Evaluate>),
    /// Fails the call when a condition does not hold.
    AssertStmt(Arc<AssertStmt>),
}

/// `buffer[indices] = value`.
#[derive(Clone, Debug)]
pub struct BufferStore {
    /// The buffer.
    pub buffer: Buffer,
    /// The value to store; its type is the buffer's, with the lanes of the last index.
    pub value: PrimExpr,
    /// One `i64` index per dimension; the last may be a vector.
    pub indices: Arc<[PrimExpr]>,
    /// A vector of bools, for a vector at one index per lane: lanes in which it is false are not written, and no access.
    /// Only lowered programs have it.
    pub predicate: Option<PrimExpr>,
    /// Where it was written.
    pub span: Span,
}

/// `for loop_var in min..min + extent`.
#[derive(Clone, Debug)]
pub struct For {
    /// The loop variable, which also identifies the loop.
    pub loop_var: Var,
    /// First value.
    pub min: PrimExpr,
    /// Number of iterations; no iteration when it is not positive.
    pub extent: PrimExpr,
    /// How the iterations run.
    pub kind: ForKind,
    /// Hints for later passes.
    pub annotations: Attrs,
    /// The body.
    pub body: Stmt,
    /// Where it was written.
    pub span: Span,
}

/// How the iterations of a loop run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ForKind {
    /// One after another.
    #[default]
    Serial,
    /// On the thread pool.
    Parallel,
    /// As lanes of vectors.
    Vectorized,
    /// Replaced by copies of the body.
    Unrolled,
    /// On the threads of a GPU.
    ThreadBinding(ThreadTag),
}

/// A GPU thread index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub enum ThreadTag {
    /// `blockIdx.x`
    BlockIdxX,
    /// `blockIdx.y`
    BlockIdxY,
    /// `blockIdx.z`
    BlockIdxZ,
    /// `threadIdx.x`
    ThreadIdxX,
    /// `threadIdx.y`
    ThreadIdxY,
    /// `threadIdx.z`
    ThreadIdxZ,
    /// A virtual thread.
    Vthread,
}

impl ForKind {
    /// `serial`, `parallel`, `vectorized`, `unrolled`, or the name of the thread.
    pub const fn name(self) -> &'static str {
        match self {
            ForKind::Serial => "serial",
            ForKind::Parallel => "parallel",
            ForKind::Vectorized => "vectorized",
            ForKind::Unrolled => "unrolled",
            ForKind::ThreadBinding(tag) => tag.name(),
        }
    }

    /// The kind named `name`.
    pub fn from_name(name: &str) -> Option<ForKind> {
        [ForKind::Serial, ForKind::Parallel, ForKind::Vectorized, ForKind::Unrolled]
            .into_iter()
            .find(|it| it.name() == name)
            .or_else(|| ThreadTag::from_name(name).map(ForKind::ThreadBinding))
    }
}

impl IterKind {
    /// `spatial`, `reduce`, `ordered` or `opaque`.
    pub const fn name(self) -> &'static str {
        match self {
            IterKind::Spatial => "spatial",
            IterKind::Reduce => "reduce",
            IterKind::Ordered => "ordered",
            IterKind::Opaque => "opaque",
        }
    }

    /// The kind named `name`.
    pub fn from_name(name: &str) -> Option<IterKind> {
        [IterKind::Spatial, IterKind::Reduce, IterKind::Ordered, IterKind::Opaque]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

impl ThreadTag {
    /// All tags.
    pub const ALL: [ThreadTag; 7] = [
        ThreadTag::BlockIdxX,
        ThreadTag::BlockIdxY,
        ThreadTag::BlockIdxZ,
        ThreadTag::ThreadIdxX,
        ThreadTag::ThreadIdxY,
        ThreadTag::ThreadIdxZ,
        ThreadTag::Vthread,
    ];

    /// CUDA's name, for example `blockIdx.x`.
    pub const fn name(self) -> &'static str {
        match self {
            ThreadTag::BlockIdxX => "blockIdx.x",
            ThreadTag::BlockIdxY => "blockIdx.y",
            ThreadTag::BlockIdxZ => "blockIdx.z",
            ThreadTag::ThreadIdxX => "threadIdx.x",
            ThreadTag::ThreadIdxY => "threadIdx.y",
            ThreadTag::ThreadIdxZ => "threadIdx.z",
            ThreadTag::Vthread => "vthread",
        }
    }

    /// The tag named `name`.
    pub fn from_name(name: &str) -> Option<ThreadTag> {
        ThreadTag::ALL.into_iter().find(|it| it.name() == name)
    }
}

/// A block with values for its axes: binds the axes to `iter_values` and runs the block if `predicate` holds.
#[derive(Clone, Debug)]
pub struct BlockRealize {
    /// One value per axis of the block.
    pub iter_values: Arc<[PrimExpr]>,
    /// The block runs only if this holds.
    pub predicate: PrimExpr,
    /// The block.
    pub block: Arc<Block>,
}

/// The unit of scheduling: a computation over its own axes, with the regions that it reads and writes.
#[derive(Clone, Debug)]
pub struct Block {
    /// Identity.
    pub id: BlockId,
    /// Name, unique in a function.
    pub name: Arc<str>,
    /// Axes.
    pub iter_vars: Arc<[IterVar]>,
    /// Regions read.
    pub reads: Arc<[BufferRegion]>,
    /// Regions written.
    pub writes: Arc<[BufferRegion]>,
    /// Buffers that live as long as one run of the block.
    pub alloc_buffers: Arc<[Buffer]>,
    /// Buffers that are views of regions of other buffers.
    pub match_buffers: Arc<[MatchBufferRegion]>,
    /// Hints for later passes.
    pub annotations: Attrs,
    /// Runs before the first iteration of the reduction axes.
    pub init: Option<Stmt>,
    /// The body.
    pub body: Stmt,
    /// Where it was written.
    pub span: Span,
}

/// An axis of a block.
#[derive(Clone, Debug)]
pub struct IterVar {
    /// Variable of the axis.
    pub var: Var,
    /// Domain: the values that the axis may have.
    pub dom: Range,
    /// Kind of the axis.
    pub kind: IterKind,
}

/// Kind of a block axis. TVM counterpart: `IterVarType`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum IterKind {
    /// Iterations are independent (`kDataPar`).
    Spatial,
    /// Iterations are combined by a commutative reduction (`kCommReduce`).
    Reduce,
    /// Iterations must run in order (`kOrdered`).
    Ordered,
    /// Nothing is known (`kOpaque`).
    Opaque,
}

/// `min..min + extent`.
#[derive(Clone, Debug)]
pub struct Range {
    /// First value.
    pub min: PrimExpr,
    /// Number of values.
    pub extent: PrimExpr,
}

/// A rectangular region of a buffer.
#[derive(Clone, Debug)]
pub struct BufferRegion {
    /// The buffer.
    pub buffer: Buffer,
    /// One range per dimension.
    pub region: Arc<[Range]>,
}

/// Makes `buffer` a view of the region `source`.
#[derive(Clone, Debug)]
pub struct MatchBufferRegion {
    /// The view.
    pub buffer: Buffer,
    /// The region that it shows.
    pub source: BufferRegion,
}

/// A branch.
#[derive(Clone, Debug)]
pub struct IfThenElse {
    /// A bool.
    pub condition: PrimExpr,
    /// Runs if the condition holds.
    pub then_case: Stmt,
    /// Runs if it does not hold.
    pub else_case: Option<Stmt>,
    /// Where it was written.
    pub span: Span,
}

/// Repeats `body` while `condition` holds.
#[derive(Clone, Debug)]
pub struct While {
    /// A bool.
    pub condition: PrimExpr,
    /// The body.
    pub body: Stmt,
    /// Where it was written.
    pub span: Span,
}

/// `let var = value` for the rest of the sequence.
#[derive(Clone, Debug)]
pub struct Bind {
    /// The variable.
    pub var: Var,
    /// The value.
    pub value: PrimExpr,
}

/// Allocates `buffer` for the rest of the sequence.
#[derive(Clone, Debug)]
pub struct AllocBuffer {
    /// The buffer.
    pub buffer: Buffer,
    /// Hints for passes.
    pub annotations: Attrs,
}

impl AllocBuffer {
    /// The allocation of `buffer`, without hints.
    pub fn new(buffer: Buffer) -> AllocBuffer {
        AllocBuffer { buffer, annotations: Attrs::new() }
    }
}

/// Declares `buffer` over the memory at `data` for the rest of the sequence.
#[derive(Clone, Debug)]
pub struct DeclBuffer {
    /// The buffer.
    pub buffer: Buffer,
    /// A handle to its first element.
    pub data: PrimExpr,
}

/// Evaluates `value` for its effect.
#[derive(Clone, Debug)]
pub struct Evaluate {
    /// A call.
    pub value: PrimExpr,
}

/// Fails the call with `failure` when `condition` does not hold.
#[derive(Clone, Debug)]
pub struct AssertStmt {
    /// A bool.
    pub condition: PrimExpr,
    /// The failure that is reported.
    pub failure: Failure,
}

/// What a failing kernel reports: the fields of the ABI's `CallError`.
#[derive(Clone, Debug)]
pub struct Failure {
    /// A `tvm_runtime::abi::Status` value.
    pub status: i32,
    /// Index of the argument, or -1.
    pub arg: i32,
    /// Axis of the argument, or -1.
    pub axis: i32,
    /// An `i64`: what was expected.
    pub expected: PrimExpr,
    /// An `i64`: what was found.
    pub got: PrimExpr,
    /// Subject of the failure, as text for the message; may be empty.
    pub what: Arc<str>,
    /// Where the subject was written.
    pub span: Span,
}

impl Failure {
    /// A failure without text and place; `arg` and `axis` are -1 if it concerns none.
    pub fn new(status: i32, arg: i32, axis: i32, expected: PrimExpr, got: PrimExpr) -> Failure {
        Failure { status, arg, axis, expected, got, what: "".into(), span: Span::none() }
    }
}

impl Range {
    /// `0..extent`.
    pub fn from_extent(extent: impl Into<PrimExpr>) -> Range {
        Range { min: PrimExpr::index(0), extent: extent.into() }
    }

    /// The range that contains only `point`.
    pub fn point(point: PrimExpr) -> Range {
        let extent = PrimExpr::int(1, point.dtype());
        Range { min: point, extent }
    }
}

impl BufferRegion {
    /// The whole buffer.
    pub fn full(buffer: &Buffer) -> BufferRegion {
        BufferRegion {
            buffer: buffer.clone(),
            region: buffer.shape.iter().cloned().map(Range::from_extent).collect(),
        }
    }

    /// One element.
    pub fn point(buffer: &Buffer, indices: &[PrimExpr]) -> BufferRegion {
        BufferRegion { buffer: buffer.clone(), region: indices.iter().cloned().map(Range::point).collect() }
    }
}

impl Block {
    /// A block with this name and body, and without axes, regions, buffers and init.
    pub fn new(name: impl Into<Arc<str>>, body: Stmt) -> Block {
        Block {
            id: BlockId::fresh(),
            name: name.into(),
            iter_vars: Arc::new([]),
            reads: Arc::new([]),
            writes: Arc::new([]),
            alloc_buffers: Arc::new([]),
            match_buffers: Arc::new([]),
            annotations: Attrs::new(),
            init: None,
            body,
            span: Span::none(),
        }
    }

    /// The root block: no axes, `body` inside.
    pub fn root(alloc_buffers: Vec<Buffer>, body: Stmt) -> Block {
        Block { alloc_buffers: alloc_buffers.into(), ..Block::new("root", body) }
    }

    /// True when some axis is a reduction.
    pub fn is_reduction(&self) -> bool {
        self.iter_vars.iter().any(|iter| iter.kind == IterKind::Reduce)
    }
}

impl BlockRealize {
    /// A block without axes, with a predicate that always holds.
    pub fn opaque(block: Block) -> Stmt {
        Stmt::BlockRealize(Arc::new(BlockRealize {
            iter_values: Arc::new([]),
            predicate: PrimExpr::bool(true),
            block: Arc::new(block),
        }))
    }
}

impl For {
    /// `for loop_var in 0..extent { body }`, serial.
    pub fn serial(loop_var: Var, extent: impl Into<PrimExpr>, body: Stmt) -> For {
        For {
            loop_var,
            min: PrimExpr::index(0),
            extent: extent.into(),
            kind: ForKind::Serial,
            annotations: Attrs::new(),
            body,
            span: Span::none(),
        }
    }

    /// The values of the loop variable.
    pub fn range(&self) -> Range {
        Range { min: self.min.clone(), extent: self.extent.clone() }
    }
}

impl Stmt {
    /// `stmts` in order: nested sequences are flattened, and a single statement is not wrapped.
    pub fn seq(stmts: impl IntoIterator<Item = Stmt>) -> Stmt {
        let mut flat = Vec::new();
        for stmt in stmts {
            if let Stmt::SeqStmt(inner) = stmt {
                flat.extend(inner.iter().cloned());
            } else {
                flat.push(stmt);
            }
        }
        if flat.len() == 1 { flat.remove(0) } else { Stmt::SeqStmt(flat.into()) }
    }

    /// The statements directly inside; for a block, its body only.
    pub fn children(&self) -> SmallVec<[&Stmt; 2]> {
        match self {
            Stmt::For(it) => smallvec![&it.body],
            Stmt::While(it) => smallvec![&it.body],
            Stmt::BlockRealize(it) => smallvec![&it.block.body],
            Stmt::SeqStmt(stmts) => stmts.iter().collect(),
            Stmt::IfThenElse(it) => [&it.then_case].into_iter().chain(&it.else_case).collect(),
            Stmt::BufferStore(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_)
            | Stmt::AssertStmt(_) => SmallVec::new(),
        }
    }

    /// Where the statement was written; none for statements without a place of their own.
    pub fn span(&self) -> Span {
        match self {
            Stmt::BufferStore(it) => it.span.clone(),
            Stmt::For(it) => it.span.clone(),
            Stmt::BlockRealize(it) => it.block.span.clone(),
            Stmt::IfThenElse(it) => it.span.clone(),
            Stmt::While(it) => it.span.clone(),
            Stmt::AssertStmt(it) => it.failure.span.clone(),
            Stmt::SeqStmt(_)
            | Stmt::Bind(_)
            | Stmt::AllocBuffer(_)
            | Stmt::DeclBuffer(_)
            | Stmt::Evaluate(_) => Span::none(),
        }
    }

    /// True when both are the same node.
    pub fn ptr_eq(&self, other: &Stmt) -> bool {
        match (self, other) {
            (Stmt::BufferStore(a), Stmt::BufferStore(b)) => Arc::ptr_eq(a, b),
            (Stmt::For(a), Stmt::For(b)) => Arc::ptr_eq(a, b),
            (Stmt::BlockRealize(a), Stmt::BlockRealize(b)) => Arc::ptr_eq(a, b),
            (Stmt::SeqStmt(a), Stmt::SeqStmt(b)) => Arc::ptr_eq(a, b),
            (Stmt::IfThenElse(a), Stmt::IfThenElse(b)) => Arc::ptr_eq(a, b),
            (Stmt::While(a), Stmt::While(b)) => Arc::ptr_eq(a, b),
            (Stmt::Bind(a), Stmt::Bind(b)) => Arc::ptr_eq(a, b),
            (Stmt::AllocBuffer(a), Stmt::AllocBuffer(b)) => Arc::ptr_eq(a, b),
            (Stmt::DeclBuffer(a), Stmt::DeclBuffer(b)) => Arc::ptr_eq(a, b),
            (Stmt::Evaluate(a), Stmt::Evaluate(b)) => Arc::ptr_eq(a, b),
            (Stmt::AssertStmt(a), Stmt::AssertStmt(b)) => Arc::ptr_eq(a, b),
            _ => false,
        }
    }

    /// The statement that does nothing.
    pub fn nop() -> Stmt {
        Stmt::SeqStmt(Arc::new([]))
    }

    /// `buffer[indices] = value`.
    pub fn store(buffer: &Buffer, indices: impl Into<Arc<[PrimExpr]>>, value: PrimExpr) -> Stmt {
        Stmt::BufferStore(Arc::new(BufferStore {
            buffer: buffer.clone(),
            value,
            indices: indices.into(),
            predicate: None,
            span: Span::none(),
        }))
    }

    /// `if condition { then_case } else { else_case }`; only the arm that is taken when the condition is constant.
    pub fn if_then_else(condition: PrimExpr, then_case: Stmt, else_case: Option<Stmt>) -> Stmt {
        IfThenElse { condition, then_case, else_case, span: Span::none() }.folded()
    }
}

impl IfThenElse {
    /// This statement; only the arm that is taken when the condition is constant.
    pub fn folded(self) -> Stmt {
        match self.condition.as_int() {
            Some(0) => self.else_case.unwrap_or_else(Stmt::nop),
            Some(_) => self.then_case,
            None => Stmt::IfThenElse(Arc::new(self)),
        }
    }
}

macro_rules! statements {
    ($($name:ident)*) => {
        $(impl From<$name> for Stmt {
            fn from(node: $name) -> Stmt {
                Stmt::$name(Arc::new(node))
            }
        })*

        impl Stmt {
            $(paste::paste! {
                #[doc = concat!("The [`", stringify!($name), "`], if it is one.")]
                pub fn [<as_ $name:snake>](&self) -> Option<&Arc<$name>> {
                    if let Stmt::$name(node) = self { Some(node) } else { None }
                }
            })*
        }
    };
}

statements!(BufferStore For BlockRealize IfThenElse While Bind AllocBuffer DeclBuffer Evaluate AssertStmt);
