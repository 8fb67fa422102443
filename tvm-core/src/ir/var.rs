//! Variables (local and global), shared by tensor programs and graph functions.
//!
//! TVM counterpart: `tir::Var`, `relax::Var`, `GlobalVar`.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use tvm_runtime::{DataType, DimBound};

use super::{GlobalVarId, Span, Type, VarId};

/// A local variable, identified by its id; its name is a hint for printing.
#[derive(Clone)]
pub struct Var(Arc<VarNode>);

struct VarNode {
    id: VarId,
    name: Arc<str>,
    ty: Type,
    span: Span,
    bound: Option<DimBound>,
}

impl Var {
    /// A fresh variable of type `ty`.
    pub fn new(name: impl Into<Arc<str>>, ty: Type) -> Var {
        Var::with_span(name, ty, Span::none())
    }

    /// A fresh variable that remembers where it was written.
    pub fn with_span(name: impl Into<Arc<str>>, ty: Type, span: Span) -> Var {
        Var(Arc::new(VarNode { id: VarId::fresh(), name: name.into(), ty, span, bound: None }))
    }

    /// A fresh scalar variable.
    pub fn prim(name: impl Into<Arc<str>>, dtype: DataType) -> Var {
        Var::new(name, Type::Prim(dtype))
    }

    /// A fresh `i64` variable: a loop variable, block axis or symbolic dimension.
    pub fn index(name: impl Into<Arc<str>>) -> Var {
        Var::prim(name, DataType::I64)
    }

    /// A fresh variable with the same name, type, span and bounds.
    pub fn renew(&self) -> Var {
        self.within(self.0.bound)
    }

    /// A fresh variable with the same name, type and span, and these bounds. Only an `i64` among the scalars and
    /// dimensions of a function's parameters may have bounds; calls of the function check them.
    #[must_use]
    pub fn within(&self, bound: Option<DimBound>) -> Var {
        let VarNode { name, ty, span, .. } = &*self.0;
        let bound = bound.filter(|it| *it != DimBound::ANY);
        let (name, ty, span) = (name.clone(), ty.clone(), span.clone());
        Var(Arc::new(VarNode { id: VarId::fresh(), name, ty, span, bound }))
    }

    /// Identity.
    pub fn id(&self) -> VarId {
        self.0.id
    }

    /// Name hint.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Type.
    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    /// Where it was written.
    pub fn span(&self) -> &Span {
        &self.0.span
    }

    /// The values that the variable may take, if that is known.
    pub fn bound(&self) -> Option<DimBound> {
        self.0.bound
    }

    /// Data type of a scalar variable; `handle` for anything that is not a scalar.
    pub fn dtype(&self) -> DataType {
        if let Type::Prim(dtype) = self.0.ty { dtype } else { DataType::HANDLE }
    }
}

impl PartialEq for Var {
    fn eq(&self, other: &Var) -> bool {
        self.id() == other.id()
    }
}

impl Eq for Var {}

impl Hash for Var {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for Var {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name())
    }
}

/// A reference to a function of a module, identified by its id; its name is unique within one module.
#[derive(Clone)]
pub struct GlobalVar(Arc<(GlobalVarId, Arc<str>)>);

impl GlobalVar {
    /// A fresh global variable.
    pub fn new(name: impl Into<Arc<str>>) -> GlobalVar {
        GlobalVar(Arc::new((GlobalVarId::fresh(), name.into())))
    }

    /// Identity.
    pub fn id(&self) -> GlobalVarId {
        self.0.0
    }

    /// The function's name.
    pub fn name(&self) -> &str {
        &self.0.1
    }
}

impl PartialEq for GlobalVar {
    fn eq(&self, other: &GlobalVar) -> bool {
        self.id() == other.id()
    }
}

impl Eq for GlobalVar {}

impl Hash for GlobalVar {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.id().hash(state);
    }
}

impl fmt::Debug for GlobalVar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "@{}", self.name())
    }
}
