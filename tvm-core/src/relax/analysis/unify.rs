//! Unification of parameter types with argument types: symbolic dimensions and type parameters of the callee bind on
//! first use; later uses are checked. What is unknown (extents of a known rank, an element type) is left to run time.
//!
//! TVM counterpart: `DeriveCallRetStructInfo`, `StructInfoLCA`, `EraseToWellDefined`; Relay's `TypeSolver`.

use std::sync::Arc;

use rustc_hash::{FxHashMap, FxHashSet};

use super::{prove_equal, prove_unequal, show_dim, show_type, simplify_dim};
use crate::arith::dims::is_never_within;
use crate::ir::{AdtType, FuncType, ShapeType, TensorShape, TensorType, Type, TypeParam, VarId};
use crate::tir::{PrimExpr, Visitor, substitute_expr, walk_expr};

/// Bindings of the symbolic dimensions and type parameters of a callee.
#[derive(Clone, Debug, Default)]
pub struct Unifier {
    dims: FxHashMap<VarId, PrimExpr>,
    types: FxHashMap<TypeParam, Type>,
}

/// Why two types do not unify, innermost reason last.
#[derive(Clone, Debug)]
pub struct TypeMismatch(pub String);

impl Unifier {
    /// A unifier that binds nothing in `ty`: its dimensions and type parameters stand for themselves.
    pub fn fixed(ty: &Type) -> Unifier {
        let mut vars = FxHashMap::default();
        let mut dim = |dim: &PrimExpr| {
            if let Some(var) = dim.as_var() {
                vars.insert(var.id(), dim.clone());
            }
            Some(dim.clone())
        };
        let mut types = FxHashMap::default();
        map_type(ty, &mut dim, &mut |param| {
            types.insert(param.clone(), Type::Param(param.clone()));
            Type::Param(param.clone())
        });
        Unifier { dims: vars, types }
    }

    /// Binds `param` to `ty` unless it is bound already.
    pub fn default_type(&mut self, param: &TypeParam, ty: Type) {
        self.types.entry(param.clone()).or_insert(ty);
    }

    /// Checks that a value of type `arg` may be passed where `param` is expected; binds the dimensions and type parameters
    /// of `param` that are not bound yet.
    ///
    /// # Errors
    /// When no value of type `arg` fits.
    pub fn unify(&mut self, param: &Type, arg: &Type) -> Result<(), TypeMismatch> {
        match (param, arg) {
            (Type::Object, _) => Ok(()),
            (Type::Param(name), _) => self.bind_type(name, arg),
            (_, Type::Object) => Ok(()),
            (Type::Prim(a), Type::Prim(b)) if a == b => Ok(()),
            (Type::Tensor(a), Type::Tensor(b)) => self.unify_tensor(a, b),
            (Type::Shape(a), Type::Shape(b)) => self.unify_shape(a, b),
            (Type::Tuple(a), Type::Tuple(b)) => {
                if a.len() != b.len() {
                    return Err(TypeMismatch(format!("expected {} fields, got {}", a.len(), b.len())));
                }
                a.iter().zip(b.iter()).try_for_each(|(a, b)| self.unify(a, b))
            }
            (Type::Func(a), Type::Func(b)) => self.unify_func(a, b),
            (Type::Adt(a), Type::Adt(b)) if a.name == b.name && a.args.len() == b.args.len() => {
                a.args.iter().zip(b.args.iter()).try_for_each(|(a, b)| self.unify(a, b))
            }
            (Type::Ref(a), Type::Ref(b)) => self.unify(a, b),
            (
                Type::Prim(_)
                | Type::Tensor(_)
                | Type::Shape(_)
                | Type::Tuple(_)
                | Type::Func(_)
                | Type::Adt(_)
                | Type::Ref(_),
                _,
            ) => Err(TypeMismatch(format!("expected {}, got {}", show_type(param), show_type(arg)))),
        }
    }

    fn bind_type(&mut self, name: &TypeParam, arg: &Type) -> Result<(), TypeMismatch> {
        let joined = match self.types.get(name) {
            None | Some(Type::Object) => arg.clone(),
            Some(bound) if matches!(arg, Type::Object) => bound.clone(),
            Some(bound) => join(bound, arg).map_err(|_| {
                TypeMismatch(format!(
                    "type parameter `{}` is {} and cannot be {} as well",
                    name.0,
                    show_type(bound),
                    show_type(arg)
                ))
            })?,
        };
        self.types.insert(name.clone(), joined);
        Ok(())
    }

    fn unify_tensor(&mut self, param: &TensorType, arg: &TensorType) -> Result<(), TypeMismatch> {
        if let (Some(a), Some(b)) = (param.dtype, arg.dtype)
            && a != b
        {
            return Err(TypeMismatch(format!("expected element type {a}, got {b}")));
        }
        if let (Some(a), Some(b)) = (param.ndim(), arg.ndim())
            && a != b
        {
            return Err(TypeMismatch(format!("expected rank {a}, got rank {b}")));
        }
        match (param.known_shape(), arg.known_shape()) {
            (Some(a), Some(b)) => self.unify_dims(a, b),
            (None, _) | (_, None) => Ok(()),
        }
    }

    fn unify_shape(&mut self, param: &ShapeType, arg: &ShapeType) -> Result<(), TypeMismatch> {
        if let (Some(a), Some(b)) = (param.ndim, arg.ndim)
            && a != b
        {
            return Err(TypeMismatch(format!("expected a shape of {a} extents, got {b}")));
        }
        match (&param.values, &arg.values) {
            (Some(a), Some(b)) => self.unify_dims(a, b),
            (None, _) | (_, None) => Ok(()),
        }
    }

    fn unify_dims(&mut self, param: &[PrimExpr], arg: &[PrimExpr]) -> Result<(), TypeMismatch> {
        for (axis, (param, arg)) in param.iter().zip(arg).enumerate() {
            if let Some(var) = param.as_var()
                && !self.dims.contains_key(&var.id())
            {
                if let Some(bound) = var.bound().filter(|bound| is_never_within(arg, *bound)) {
                    let (dim, arg) = (var.name(), show_dim(arg));
                    return Err(TypeMismatch(format!("expected {dim} in {bound} at axis {axis}, got {arg}")));
                }
                self.dims.insert(var.id(), arg.clone());
                continue;
            }
            let expected = self.dim(param);
            if prove_unequal(&expected, arg) {
                let mut message =
                    format!("expected extent {} at axis {axis}, got {}", show_dim(&expected), show_dim(arg));
                if param.as_int().is_none() {
                    message += &format!(" ({} is {})", show_dim(param), show_dim(&expected));
                }
                return Err(TypeMismatch(message));
            }
        }
        Ok(())
    }

    fn unify_func(&mut self, param: &FuncType, arg: &FuncType) -> Result<(), TypeMismatch> {
        if param.params.len() != arg.params.len() {
            let (a, b) = (param.params.len(), arg.params.len());
            return Err(TypeMismatch(format!("expected a function of {a} arguments, got one of {b}")));
        }
        if param.pure && !arg.pure {
            return Err(TypeMismatch("expected a pure function, got one with side effects".to_string()));
        }
        // A polymorphic argument is instantiated at the types that the parameter requires.
        let mut instance = Unifier::default();
        for (expected, got) in param.params.iter().zip(arg.params.iter()) {
            if arg.type_params.is_empty() {
                self.unify(expected, got)?;
            } else {
                instance.unify(got, &self.apply(expected))?;
            }
        }
        self.unify(&param.ret, &instance.apply(&arg.ret))
    }

    /// `dim` with bound variables replaced.
    pub fn dim(&self, dim: &PrimExpr) -> PrimExpr {
        if self.dims.is_empty() { dim.clone() } else { simplify_dim(&substitute_expr(dim, &self.dims)) }
    }

    /// `ty` with bound dimensions and type parameters replaced.
    pub fn apply(&self, ty: &Type) -> Type {
        if self.dims.is_empty() && self.types.is_empty() {
            return ty.clone();
        }
        map_type(ty, &mut |dim| Some(self.dim(dim)), &mut |param| {
            self.types.get(param).cloned().unwrap_or_else(|| Type::Param(param.clone()))
        })
    }

    /// [`apply`](Self::apply), then erases shapes that use variables other than those in `keep` and in bound extents.
    pub fn apply_closed(&self, ty: &Type, keep: &FxHashSet<VarId>) -> Type {
        let mut known = keep.clone();
        for dim in self.dims.values() {
            collect_vars(dim, &mut known);
        }
        erase_to_well_defined(&self.apply(ty), &|var| known.contains(&var))
    }
}

/// Rebuilds a type: maps every extent by `dim` (`None` erases its shape) and every type parameter by `param`.
fn map_type(
    ty: &Type,
    dim: &mut dyn FnMut(&PrimExpr) -> Option<PrimExpr>,
    param: &mut dyn FnMut(&TypeParam) -> Type,
) -> Type {
    match ty {
        Type::Prim(_) | Type::Object => ty.clone(),
        Type::Param(name) => param(name),
        Type::Tensor(tensor) => {
            let shape = match &tensor.shape {
                TensorShape::Known(shape) => match shape.iter().map(dim).collect() {
                    Some(shape) => TensorShape::Known(shape),
                    None => TensorShape::Rank(shape.len()),
                },
                TensorShape::Rank(_) | TensorShape::Unknown => tensor.shape.clone(),
            };
            Type::Tensor(TensorType { shape, ..tensor.clone() })
        }
        Type::Shape(shape) => {
            let values = shape.values.as_ref().and_then(|values| values.iter().map(dim).collect());
            Type::Shape(ShapeType { values, ndim: shape.ndim })
        }
        Type::Tuple(fields) => Type::Tuple(fields.iter().map(|it| map_type(it, dim, param)).collect()),
        Type::Func(func) => Type::Func(Arc::new(FuncType {
            params: func.params.iter().map(|it| map_type(it, dim, param)).collect(),
            ret: map_type(&func.ret, dim, param),
            type_params: func.type_params.clone(),
            pure: func.pure,
        })),
        Type::Adt(adt) => Type::Adt(AdtType {
            name: adt.name.clone(),
            args: adt.args.iter().map(|it| map_type(it, dim, param)).collect(),
        }),
        Type::Ref(inner) => Type::Ref(Arc::new(map_type(inner, dim, param))),
    }
}

/// `ty` without the shapes that use a variable for which `defined` does not hold; their rank stays.
pub fn erase_to_well_defined(ty: &Type, defined: &dyn Fn(VarId) -> bool) -> Type {
    // The dimensions of a function type are its own.
    if let Type::Func(_) = ty {
        return ty.clone();
    }
    let mut keep = |dim: &PrimExpr| {
        let mut vars = FxHashSet::default();
        collect_vars(dim, &mut vars);
        vars.iter().all(|&var| defined(var)).then(|| dim.clone())
    };
    map_type(ty, &mut keep, &mut |param| Type::Param(param.clone()))
}

/// Adds the variables of `expr` to `vars`.
fn collect_vars(expr: &PrimExpr, vars: &mut FxHashSet<VarId>) {
    struct Vars<'a>(&'a mut FxHashSet<VarId>);
    impl Visitor for Vars<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            if let PrimExpr::Var(var) = expr {
                self.0.insert(var.id());
            }
            walk_expr(self, expr);
        }
    }
    Vars(vars).visit_expr(expr);
}

/// The most precise type that holds all values of `a` and of `b`.
///
/// # Errors
/// When there is none but `Object`.
pub fn join(a: &Type, b: &Type) -> Result<Type, TypeMismatch> {
    let joined = |a: &[Type], b: &[Type]| -> Result<Arc<[Type]>, TypeMismatch> {
        a.iter().zip(b).map(|(a, b)| join(a, b)).collect()
    };
    let mismatch = || TypeMismatch(format!("{} and {} have no common type", show_type(a), show_type(b)));
    match (a, b) {
        (Type::Object, _) | (_, Type::Object) => Ok(Type::Object),
        (Type::Prim(x), Type::Prim(y)) if x == y => Ok(a.clone()),
        (Type::Tensor(x), Type::Tensor(y)) => {
            if let (Some(x), Some(y)) = (x.dtype, y.dtype)
                && x != y
            {
                return Err(mismatch());
            }
            let shape = match (x.known_shape(), y.known_shape()) {
                (Some(p), Some(q)) if same_dims(p, q) => x.shape.clone(),
                _ => match (x.ndim(), y.ndim()) {
                    (Some(p), Some(q)) if p == q => TensorShape::Rank(p),
                    _ => TensorShape::Unknown,
                },
            };
            let vdevice = if x.vdevice == y.vdevice { x.vdevice } else { None };
            Ok(Type::Tensor(TensorType { shape, dtype: x.dtype.and(y.dtype), vdevice }))
        }
        (Type::Shape(x), Type::Shape(y)) => {
            let values = match (&x.values, &y.values) {
                (Some(p), Some(q)) if same_dims(p, q) => x.values.clone(),
                _ => None,
            };
            Ok(Type::Shape(ShapeType { values, ndim: x.ndim.filter(|it| Some(*it) == y.ndim) }))
        }
        (Type::Tuple(x), Type::Tuple(y)) if x.len() == y.len() => Ok(Type::Tuple(joined(x, y)?)),
        (Type::Adt(x), Type::Adt(y)) if x.name == y.name && x.args.len() == y.args.len() => {
            let args = x.args.iter().zip(y.args.iter()).map(|(x, y)| match (x, y) {
                // A type argument that nothing determined, as in an empty list, is taken from the other side.
                (Type::Object, known) | (known, Type::Object) => Ok(known.clone()),
                _ => join(x, y),
            });
            Ok(Type::Adt(AdtType { name: x.name.clone(), args: args.collect::<Result<_, _>>()? }))
        }
        (Type::Ref(x), Type::Ref(y)) => Ok(Type::Ref(Arc::new(join(x, y)?))),
        (Type::Param(x), Type::Param(y)) if x == y => Ok(a.clone()),
        (Type::Func(x), Type::Func(y)) if x.params.len() == y.params.len() => {
            let mut unifier = Unifier::default();
            x.params.iter().zip(y.params.iter()).try_for_each(|(x, y)| unifier.unify(x, y))?;
            let ret = join(&unifier.apply(&x.ret), &y.ret)?;
            Ok(Type::Func(Arc::new(FuncType { ret, pure: x.pure && y.pure, ..(**y).clone() })))
        }
        (
            Type::Prim(_)
            | Type::Tensor(_)
            | Type::Shape(_)
            | Type::Tuple(_)
            | Type::Func(_)
            | Type::Adt(_)
            | Type::Ref(_)
            | Type::Param(_),
            _,
        ) => Err(mismatch()),
    }
}

fn same_dims(a: &[PrimExpr], b: &[PrimExpr]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| prove_equal(a, b))
}
