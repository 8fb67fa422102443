//! Buffers: typed, shaped memory that tensor programs read and write.
//!
//! TVM counterpart: `tir::Buffer`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tvm_runtime::DataType;

use super::PrimExpr;
use crate::ir::{BufferId, Span};

/// A buffer, identified by its id.
#[derive(Clone)]
pub struct Buffer(Arc<BufferNode>);

/// The parts of a buffer.
#[derive(Clone)]
pub struct BufferNode {
    /// Identity.
    pub id: BufferId,
    /// Name hint.
    pub name: Arc<str>,
    /// Element type.
    pub dtype: DataType,
    /// `i64` extents; variables in a parameter's shape bind on first use.
    pub shape: Arc<[PrimExpr]>,
    /// Strides in elements; empty means compact row-major.
    pub strides: Arc<[PrimExpr]>,
    /// Offset of element 0 in elements; `None` means 0.
    pub elem_offset: Option<PrimExpr>,
    /// Memory that the buffer lives in.
    pub scope: Scope,
    /// Where it was declared.
    pub span: Span,
}

/// Memory a buffer lives in. TVM counterpart: `StorageScope`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Scope {
    /// Main memory of the device.
    #[default]
    Global,
    /// Memory of one GPU thread block.
    Shared,
    /// Memory of one GPU thread block, with its size set at kernel launch.
    SharedDyn,
    /// Registers or stack of one thread.
    Local,
    /// Registers spread over one GPU warp.
    Warp,
}

impl Scope {
    /// TVM's name: `global`, `shared`, `shared.dyn`, `local`, `warp`.
    pub const fn name(self) -> &'static str {
        match self {
            Scope::Global => "global",
            Scope::Shared => "shared",
            Scope::SharedDyn => "shared.dyn",
            Scope::Local => "local",
            Scope::Warp => "warp",
        }
    }

    /// The scope named `name`.
    pub fn from_name(name: &str) -> Option<Scope> {
        [Scope::Global, Scope::Shared, Scope::SharedDyn, Scope::Local, Scope::Warp]
            .into_iter()
            .find(|it| it.name() == name)
    }
}

impl Buffer {
    /// A compact row-major buffer in global memory.
    pub fn new(name: impl Into<Arc<str>>, shape: impl Into<Arc<[PrimExpr]>>, dtype: DataType) -> Buffer {
        Buffer::with_scope(name, shape, dtype, Scope::Global)
    }

    /// A compact row-major buffer in `scope`.
    pub fn with_scope(
        name: impl Into<Arc<str>>,
        shape: impl Into<Arc<[PrimExpr]>>,
        dtype: DataType,
        scope: Scope,
    ) -> Buffer {
        Buffer::from_node(BufferNode {
            id: BufferId::fresh(),
            name: name.into(),
            dtype,
            shape: shape.into(),
            strides: Arc::new([]),
            elem_offset: None,
            scope,
            span: Span::none(),
        })
    }

    /// A buffer of these parts, identity included.
    pub fn from_node(node: BufferNode) -> Buffer {
        Buffer(Arc::new(node))
    }

    /// A copy of the buffer with a fresh identity, modified by `change`.
    pub fn renew(&self, change: impl FnOnce(&mut BufferNode)) -> Buffer {
        let mut node = (*self.0).clone();
        node.id = BufferId::fresh();
        change(&mut node);
        Buffer(Arc::new(node))
    }

    /// Number of dimensions.
    pub fn ndim(&self) -> usize {
        self.0.shape.len()
    }

    /// The extents, when all are constants.
    pub fn const_shape(&self) -> Option<Vec<i64>> {
        self.0.shape.iter().map(PrimExpr::as_int).collect()
    }
}

impl std::ops::Deref for Buffer {
    type Target = BufferNode;

    fn deref(&self) -> &BufferNode {
        &self.0
    }
}

impl PartialEq for Buffer {
    fn eq(&self, other: &Buffer) -> bool {
        self.id == other.id
    }
}

impl Eq for Buffer {}

impl Hash for Buffer {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id.hash(state);
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}{:?}", self.name, self.dtype, self.shape)
    }
}
