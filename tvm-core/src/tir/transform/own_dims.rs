//! Extents that follow from others become dimensions of their own, so that proofs and schedules see a variable.
//!
//! The result of a window with stride 2 has `(h - 1) / 2 + 1` rows. Rewritten, it has `o` rows, and the attribute
//! [`EXTENTS`] states the equation `o == (h + -1) / 2 + 1`. [`analyzer_for`](super::analyzer_for) knows it, and
//! `MakePackedAPI` checks it in every call. Extents of dimensions that no parameter has as a whole extent, and which are
//! therefore scalars, become dimensions as well, if nothing else depends on the scalars: `n * 196` rows of a batch whose size no
//! parameter has, for example. So do all such extents with quotients together.
//!
//! ```text
//! f(s: i64, x: [(s - 1) / 2 + 1], y: [(s - 1) / 2 / 2 + 1])   →   f(s: i64, x: [h], y: [o]), o == (h - 1) / 2 + 1
//! ```
//!
//! TVM counterpart: none; there such extents stay expressions.

use std::sync::Arc;

use indexmap::IndexSet;
use rustc_hash::FxHashMap;
use tvm_runtime::DataType;

use crate::arith::dims::{prove_equal, simplify_dim};
use crate::arith::same;
use crate::ir::{AttrValue, BufferId, Var};
use crate::tir::analysis::with_access_regions;
use crate::tir::{
    BinaryOp, Block, BlockRealize, Buffer, Mutator, Param, PrimExpr, PrimFunc, Stmt, Visitor, any_expr,
    uses_var, walk_expr, walk_stmt,
};

/// Attribute of programs: equations between extents of parameters. Each is a list of seven integers
/// `[param, axis, of_param, of_axis, add, div, plus]`: the extent of `axis` of the parameter `param` is
/// `(extent + add) / div + plus`, rounded down, where `extent` is that of `of_axis` of the parameter `of_param`.
pub const EXTENTS: &str = "extents";

/// The numbers of an equation are at most this large.
const LARGEST: i64 = 1 << 30;

/// The equation `dim == (of + add) / div + plus`.
pub(super) struct Equation {
    /// Index of the parameter that has `dim` as an extent.
    pub(super) param: usize,
    /// Axis of that extent.
    pub(super) axis: usize,
    pub(super) dim: Var,
    of: Var,
    add: i64,
    div: i64,
    plus: i64,
}

impl Equation {
    /// The equations of `func`. Entries of the attribute that are no equations between dimensions are ignored.
    pub(super) fn all(func: &PrimFunc) -> Vec<Equation> {
        let Some(AttrValue::List(entries)) = func.attrs.get(EXTENTS) else { return Vec::new() };
        let dim = |param: i64, axis: i64| {
            let buffer = func.params.get(usize::try_from(param).ok()?)?.buffer()?;
            buffer.shape.get(usize::try_from(axis).ok()?)?.as_var().cloned()
        };
        let equation = |entry: &AttrValue| {
            let AttrValue::List(numbers) = entry else { return None };
            let numbers: Option<Vec<i64>> = numbers
                .iter()
                .map(|it| if let AttrValue::Int(value) = it { Some(*value) } else { None })
                .collect();
            let [param, axis, of_param, of_axis, add, div, plus] = numbers?[..] else { return None };
            let fits = div > 0 && [add, div, plus].iter().all(|it| (-LARGEST..=LARGEST).contains(it));
            let (dim, of) = (dim(param, axis)?, dim(of_param, of_axis)?);
            fits.then_some(Equation { param: param as usize, axis: axis as usize, dim, of, add, div, plus })
        };
        entries.iter().filter_map(equation).collect()
    }

    /// The value of the dimension.
    pub(super) fn value(&self) -> PrimExpr {
        simplify_dim(&(PrimExpr::from(&self.of) + self.add)).floordiv(self.div) + self.plus
    }

    /// Two conditions that say the same without a quotient.
    pub(super) fn facts(&self) -> [PrimExpr; 2] {
        let (dividend, quotient) =
            (PrimExpr::from(&self.of) + self.add, PrimExpr::from(&self.dim) - self.plus);
        let product = quotient * self.div;
        [product.clone().less_equal(dividend.clone()), dividend.less(product + self.div)]
    }
}

/// `func` with dimensions instead of extents that are expressions; `None` if it has none that can be replaced. Extents are in
/// the normal form of [`simplify_dim`], as those of graphs are: others may stay.
pub(crate) fn with_own_dims(func: &PrimFunc) -> Option<PrimFunc> {
    let mut res: Option<PrimFunc> = None;
    let mut refused: Vec<PrimExpr> = Vec::new();
    loop {
        let now = res.as_ref().unwrap_or(func);
        let mut candidates: Vec<(usize, usize, PrimExpr)> = Vec::new();
        let dims = dims(now);
        for (i, param) in now.params.iter().enumerate() {
            let shape = param.buffer().map(|buffer| &buffer.shape[..]).unwrap_or_default();
            let of_param = shape.iter().enumerate().map(|(axis, extent)| (i, axis, extent.clone()));
            candidates.extend(of_param.filter(|(_, _, it)| is_quotient(it) || is_of_scalars(it, &dims)));
        }
        candidates.retain(|(_, _, extent)| !refused.iter().any(|it| same(it, extent)));
        // Extents that others contain come first.
        let Some((param, axis, extent)) = candidates.into_iter().min_by_key(|it| size(&it.2)) else {
            return replaced_together(now).or(res);
        };
        match replaced(now, param, axis, &extent) {
            Some(new) => res = Some(new),
            None => refused.push(extent),
        }
    }
}

/// True if the extent has a quotient, which comparisons with indices would be multiplied by.
fn is_quotient(extent: &PrimExpr) -> bool {
    any_expr(extent, &mut |it| matches!(it, PrimExpr::Binary(it) if it.op == BinaryOp::FloorDiv))
}

/// True if the extent is an expression of scalars, which are no dimensions, as that of data with padding, or the rows of all images.
fn is_of_scalars(extent: &PrimExpr, dims: &[Var]) -> bool {
    let is_dim = |it: &PrimExpr| it.as_var().is_some_and(|var| dims.contains(var));
    extent.as_var().is_none()
        && !scalars_of(extent, dims).is_empty()
        && !any_expr(extent, &mut |it| is_dim(it))
}

/// The variables that are extents of parameters.
fn dims(func: &PrimFunc) -> Vec<Var> {
    let shapes = func.params.iter().filter_map(Param::buffer).flat_map(|buffer| buffer.shape.iter());
    shapes.filter_map(PrimExpr::as_var).cloned().collect()
}

/// The variables in an extent that are no dimensions.
fn scalars_of(extent: &PrimExpr, dims: &[Var]) -> IndexSet<Var> {
    let mut scalars = IndexSet::new();
    any_expr(extent, &mut |it| {
        scalars.extend(it.as_var().filter(|var| !dims.contains(var)).cloned());
        false
    });
    scalars
}

fn size(expr: &PrimExpr) -> usize {
    let mut nodes = 0;
    any_expr(expr, &mut |_| {
        nodes += 1;
        false
    });
    nodes
}

/// `func` with a dimension instead of `extent`, the extent of an axis of a parameter.
fn replaced(func: &PrimFunc, param: usize, axis: usize, extent: &PrimExpr) -> Option<PrimFunc> {
    let mut name = None;
    any_expr(extent, &mut |it| {
        name = name.take().or_else(|| it.as_var().map(|var| var.name().to_string()));
        false
    });
    let dim = Var::index(name?);
    let (atom, plus) = number_apart(extent);
    let value = simplify_dim(&(PrimExpr::from(&dim) - plus));
    let new = Replace { dims: vec![(atom.clone(), value)], buffers: FxHashMap::default() }.func(func);
    // A scalar that is an extent as well is known to be one.
    let scalars = scalars_of(extent, &dims(func));
    if !scalars.is_empty() {
        // Nothing else may depend on the scalars: the dimension is all that is left of them.
        return scalars.iter().all(|var| !uses(&new, var)).then_some(new);
    }
    let equation = quotient(atom).and_then(|(of, add, div)| {
        let place = |var: &Var| {
            func.params.iter().enumerate().find_map(|(i, param)| {
                let shape = &param.buffer()?.shape;
                Some([i as i64, shape.iter().position(|it| it.as_var() == Some(var))? as i64])
            })
        };
        let [of_param, of_axis] = place(of)?;
        let numbers = [param as i64, axis as i64, of_param, of_axis, add, div, plus];
        numbers[4..].iter().all(|it| (-LARGEST..=LARGEST).contains(it)).then_some(numbers)
    })?;
    let equation = AttrValue::List(equation.into_iter().map(AttrValue::Int).collect());
    let mut equations = match func.attrs.get(EXTENTS) {
        Some(AttrValue::List(entries)) => entries.to_vec(),
        _ => Vec::new(),
    };
    equations.push(equation);
    let attrs = new.attrs.clone().with(EXTENTS, AttrValue::List(equations.into()));
    Some(PrimFunc { attrs, ..new })
}

/// The largest factor between two extents, as of an image and one of half its size.
const MAX_FACTOR: i64 = 8;

/// `func` with dimensions instead of all extents that are expressions of scalars, which nothing else may depend on. An extent that is
/// a multiple of another one and a number becomes that of its dimension. So does one that is the sum of those before it along the
/// same axis, as that of rows that are joined.
fn replaced_together(func: &PrimFunc) -> Option<PrimFunc> {
    let dims = dims(func);
    let mut scalars = IndexSet::new();
    // Axes and extents in the order of the parameters.
    let mut found: Vec<(usize, &PrimExpr)> = Vec::new();
    for buffer in func.params.iter().filter_map(Param::buffer) {
        for (axis, extent) in buffer.shape.iter().enumerate().filter(|(_, extent)| is_quotient(extent)) {
            let of_extent = scalars_of(extent, &dims);
            found.extend((!of_extent.is_empty()).then_some((axis, extent)));
            scalars.extend(of_extent);
        }
    }
    let name = scalars.first()?.name();
    let mut together = Together { found: &found, name, replaced: Vec::new() };
    for (_, extent) in &found {
        together.dim(extent, found.len());
    }
    let mut replaced = together.replaced;
    // Other sums have the same terms and another number, as with padding.
    let atoms = replaced.iter().filter_map(|(extent, dim)| {
        let (atom, plus) = number_apart(extent);
        (plus != 0).then(|| (atom.clone(), simplify_dim(&(dim - plus))))
    });
    let atoms: Vec<_> = atoms.collect();
    replaced.extend(atoms);
    let mut new = Replace { dims: replaced, buffers: FxHashMap::default() }.func(func);
    // In regions, the extents may be in another form.
    new.body = NewRegions.mutate_stmt(&new.body).unwrap_or(new.body);
    scalars.iter().all(|var| !uses(&new, var)).then_some(new)
}

/// Dimensions for extents, of which some depend on others.
struct Together<'a> {
    /// The extents with their axes, in the order of the parameters.
    found: &'a [(usize, &'a PrimExpr)],
    /// Name of the dimensions.
    name: &'a str,
    /// The extents so far, and what replaces them.
    replaced: Vec<(PrimExpr, PrimExpr)>,
}

impl Together<'_> {
    /// What replaces the extent, which others depend on up to `depth`.
    fn dim(&mut self, extent: &PrimExpr, depth: usize) -> PrimExpr {
        if let Some((_, dim)) = self.replaced.iter().find(|(it, _)| same(it, extent)) {
            return dim.clone();
        }
        let dim = match depth.checked_sub(1) {
            Some(depth) => self.multiple(extent, depth).or_else(|| self.sum(extent, depth)),
            None => None,
        };
        let dim = dim.unwrap_or_else(|| Var::index(self.name).into());
        self.replaced.push((extent.clone(), dim.clone()));
        dim
    }

    /// A multiple of another extent, and a number.
    fn multiple(&mut self, extent: &PrimExpr, depth: usize) -> Option<PrimExpr> {
        let mut factors =
            self.found.iter().flat_map(|(_, of)| (2..=MAX_FACTOR).map(move |factor| (of, factor)));
        let (of, factor, plus) = factors.find_map(|(of, factor)| {
            Some((*of, factor, simplify_dim(&(extent - &(*of * factor))).as_int()?))
        })?;
        Some(simplify_dim(&(self.dim(of, depth) * factor + plus)))
    }

    /// The sum of the extents before it along the same axis.
    fn sum(&mut self, extent: &PrimExpr, depth: usize) -> Option<PrimExpr> {
        let at = self.found.iter().position(|(_, it)| same(it, extent))?;
        let before = self.found[..at].iter().filter(|it| it.0 == self.found[at].0).map(|it| it.1);
        let parts: Vec<&PrimExpr> = before.collect();
        let joined = parts.iter().map(|it| (*it).clone()).reduce(|a, b| a + b).filter(|_| parts.len() > 1)?;
        if !prove_equal(&joined, extent) {
            return None;
        }
        let dims = parts.into_iter().map(|it| self.dim(it, depth));
        dims.reduce(|a, b| a + b).map(|sum| simplify_dim(&sum))
    }
}

/// The parts of `(of + add) // div`.
fn quotient(expr: &PrimExpr) -> Option<(&Var, i64, i64)> {
    let PrimExpr::Binary(it) = expr else { return None };
    let div = it.b.as_int().filter(|&div| it.op == BinaryOp::FloorDiv && div > 0)?;
    let (of, add) = number_apart(&it.a);
    Some((of.as_var()?, add, div))
}

/// `expr` without the number that is added to it or subtracted from it, and that number.
fn number_apart(expr: &PrimExpr) -> (&PrimExpr, i64) {
    let PrimExpr::Binary(it) = expr else { return (expr, 0) };
    let number = match it.op {
        BinaryOp::Add => it.b.as_int(),
        BinaryOp::Sub => it.b.as_int().and_then(i64::checked_neg),
        _ => None,
    };
    number.map_or((expr, 0), |number| (&it.a, number))
}

/// True if the shapes of parameters or the body use `var`.
fn uses(func: &PrimFunc, var: &Var) -> bool {
    struct Find<'a> {
        var: &'a Var,
        found: bool,
    }
    impl Visitor for Find<'_> {
        fn visit_expr(&mut self, expr: &PrimExpr) {
            self.found |= expr.as_var() == Some(self.var);
            if let PrimExpr::BufferLoad(load) = expr {
                self.buffer(&load.buffer);
            }
            walk_expr(self, expr);
        }

        fn visit_stmt(&mut self, stmt: &Stmt) {
            if let Stmt::BufferStore(store) = stmt {
                self.buffer(&store.buffer);
            }
            walk_stmt(self, stmt);
        }
    }
    impl Find<'_> {
        fn buffer(&mut self, buffer: &Buffer) {
            self.found |= buffer.shape.iter().any(|extent| uses_var(extent, self.var));
        }
    }
    let mut find = Find { var, found: false };
    func.params.iter().filter_map(Param::buffer).for_each(|buffer| find.buffer(buffer));
    find.visit_stmt(&func.body);
    find.found
}

/// Replaces expressions, in shapes of buffers too.
struct Replace {
    /// What is replaced, and by what.
    dims: Vec<(PrimExpr, PrimExpr)>,
    buffers: FxHashMap<BufferId, Buffer>,
}

impl Replace {
    fn func(mut self, func: &PrimFunc) -> PrimFunc {
        let params = func.params.iter().map(|param| match param {
            Param::In(buffer) => Param::In(self.buffer(buffer)),
            Param::Out(buffer) => Param::Out(self.buffer(buffer)),
            Param::Scalar(_) => param.clone(),
        });
        let params = params.collect();
        let body = self.mutate_stmt(&func.body).unwrap_or_else(|| func.body.clone());
        PrimFunc { params, body, ..func.clone() }
    }

    fn buffer(&mut self, buffer: &Buffer) -> Buffer {
        if let Some(known) = self.buffers.get(&buffer.id) {
            return known.clone();
        }
        let shape = self.mutate_exprs(&buffer.shape);
        let strides = self.mutate_exprs(&buffer.strides);
        let new = match (shape, strides) {
            (None, None) => buffer.clone(),
            (shape, strides) => buffer.renew(|node| {
                node.shape = shape.unwrap_or_else(|| node.shape.clone());
                node.strides = strides.unwrap_or_else(|| node.strides.clone());
            }),
        };
        self.buffers.insert(buffer.id, new.clone());
        new
    }
}

/// Computes the regions that leaf blocks read and write.
struct NewRegions;

impl Mutator for NewRegions {
    fn mutate_stmt(&mut self, stmt: &Stmt) -> Option<Stmt> {
        let new = self.walk_stmt(stmt);
        let Stmt::BlockRealize(realize) = new.as_ref().unwrap_or(stmt) else { return new };
        if realize.block.iter_vars.is_empty() {
            return new;
        }
        let block = Arc::new(with_access_regions(Block::clone(&realize.block)));
        Some(BlockRealize { block, ..(**realize).clone() }.into())
    }
}

/// True for a sum or difference of indices.
fn is_sum(expr: &PrimExpr) -> bool {
    expr.dtype() == DataType::I64
        && matches!(expr, PrimExpr::Binary(it) if matches!(it.op, BinaryOp::Add | BinaryOp::Sub))
}

impl Mutator for Replace {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        if let Some((_, dim)) = self.dims.iter().find(|(it, _)| same(expr, it)) {
            return Some(dim.clone());
        }
        let new = self.walk_expr(expr)?;
        Some(if is_sum(&new) { simplify_dim(&new) } else { new })
    }

    fn mutate_buffer(&mut self, buffer: &Buffer) -> Option<Buffer> {
        let new = self.buffer(buffer);
        (new != *buffer).then_some(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::te::{TensorExpr, compute, create_prim_func, placeholder};
    use crate::tir::transform::analyzer_for;

    /// Every second element of `x`, from the first one on.
    fn halved(x: &[PrimExpr]) -> PrimFunc {
        let x = placeholder("x", x.to_vec(), DataType::F32);
        let half = |extent: &PrimExpr| simplify_dim(&((extent - 1i64).floordiv(2) + 1i64));
        let shape: Vec<PrimExpr> = x.shape().iter().map(half).collect();
        let y: TensorExpr =
            compute("y", shape, &[&x], |i| x.at(i.iter().map(|it| it * 2i64).collect::<Vec<_>>()));
        create_prim_func("f", &[x], &[y]).unwrap()
    }

    fn extents(func: &PrimFunc) -> Vec<PrimExpr> {
        func.params.iter().filter_map(Param::buffer).flat_map(|it| it.shape.iter().cloned()).collect()
    }

    /// Rows of `(h - 1) / 2 * w` and `(w - 1) / 2 * h` elements, one after the other.
    #[test]
    fn extents_of_joined_rows_become_dimensions_together() {
        let (h, w) = (PrimExpr::from(&Var::index("h")), PrimExpr::from(&Var::index("w")));
        let half = |extent: &PrimExpr| (extent.clone() - 1i64).floordiv(2);
        let extents_of = [half(&h) * &w + 2i64, half(&w) * &h + 1i64].map(|it| simplify_dim(&it));
        let inputs = extents_of.map(|extent| placeholder("x", [3.into(), extent], DataType::F32));
        let shape = [3.into(), simplify_dim(&(inputs[0].dim(1) + inputs[1].dim(1)))];
        let joined = compute("joined", shape, &[&inputs[0], &inputs[1]], |i| {
            let first = inputs[0].dim(1);
            let second = inputs[1].at([i[0].clone(), i[1].clone() - &first]);
            i[1].clone().less(&first).select(inputs[0].at(i.to_vec()), second)
        });
        let func = create_prim_func("f", &inputs, &[joined]).unwrap();
        let new = with_own_dims(&func).unwrap_or_else(|| panic!("{func}"));
        let [.., a, _, b, _, sum] = &extents(&new)[..] else { panic!("{new}") };
        assert!(a.as_var().is_some() && b.as_var().is_some() && a.as_var() != b.as_var(), "{new}");
        assert!(same(sum, &(a + b)), "{new}");
        assert!(!new.to_string().contains("/ 2"), "{new}");
    }

    /// Rows of 16, 4 and 1 times as many elements, one after the other.
    #[test]
    fn joined_rows_are_multiples_of_the_shortest() {
        let q = (PrimExpr::from(&Var::index("h")) - 1i64).floordiv(8);
        let inputs =
            [16, 4, 1].map(|factor| placeholder("x", [simplify_dim(&((&q + 1i64) * factor))], DataType::F32));
        let joined = crate::topi::concat(&inputs, 0, &[simplify_dim(&((&q + 1i64) * 21i64))]);
        let new = with_own_dims(&create_prim_func("f", &inputs, &[joined]).unwrap()).unwrap();
        let [a, b, c, sum] = &extents(&new)[..] else { panic!("{new}") };
        assert!(c.as_var().is_some() && same(a, &(c * 16i64)) && same(b, &(c * 4i64)), "{new}");
        assert!(prove_equal(sum, &(c * 21i64)), "{new}");
    }

    /// An image of `4 q + 4` rows becomes one of `2 q + 2`, where `q` is `(h - 1) / 8`.
    #[test]
    fn multiples_become_multiples_of_a_dimension() {
        let quarter = (PrimExpr::from(&Var::index("h")) - 1i64).floordiv(8);
        let [rows, half] = [4, 2].map(|it| simplify_dim(&(&quarter * it + it)));
        let x = placeholder("x", [rows], DataType::F32);
        let y = compute("y", [half], &[&x], |i| x.at([&i[0] * 2i64]));
        let new = with_own_dims(&create_prim_func("f", &[x], &[y]).unwrap()).unwrap();
        let [rows, half] = &extents(&new)[..] else { panic!("{new}") };
        assert!(half.as_var().is_some() && same(rows, &(half * 2i64)), "{new}");
    }

    #[test]
    fn quotients_become_dimensions() {
        let (h, w, s) = (Var::index("h"), Var::index("w"), Var::index("s"));
        let of_s = (PrimExpr::from(&s) - 1i64).floordiv(2) + 1i64;
        for (shape, equations, left) in [
            (vec![PrimExpr::from(&h), PrimExpr::from(&w)], 2, None),
            (vec![of_s.clone()], 1, Some(false)),
            (vec![of_s.clone(), PrimExpr::from(&h)], 2, Some(false)),
            // The scalar is needed elsewhere.
            (vec![of_s, PrimExpr::from(&s) * 3i64], 0, Some(true)),
        ] {
            let func = halved(&shape);
            let new = with_own_dims(&func).unwrap_or(func);
            let found = Equation::all(&new);
            assert_eq!(found.len(), equations, "{new}");
            assert_eq!(
                left,
                (!new.params.iter().all(|it| it.buffer().is_some())).then(|| uses(&new, &s)),
                "{new}"
            );
            let analyzer = analyzer_for(&new);
            for it in found {
                let (dim, of) = (PrimExpr::from(&it.dim), PrimExpr::from(&it.of));
                assert_eq!(it.value().to_string(), format!("({of} - 1) / 2 + 1"));
                assert!(extents(&new).iter().any(|extent| same(extent, &dim)));
                assert!(analyzer.can_prove(&(dim.clone() * 2i64).less_equal(&of + 1i64)));
                assert!(analyzer.can_prove(&(dim.clone() * 2i64).greater_equal(&of)));
                assert!(!analyzer.can_prove(&(dim * 2i64).greater(&of)));
            }
        }
    }

    /// Rows that a batch has in all, where nothing else depends on its size.
    #[test]
    fn rows_of_a_batch_become_a_dimension() {
        let (n, h) = (PrimExpr::from(&Var::index("n")), PrimExpr::from(&Var::index("h")));
        for (extent, more, becomes) in [
            (&n * 196i64, PrimExpr::from(4), true),
            (&n * 4i64 + 2i64, 4.into(), true),
            (&n * &h * 16i64, 4.into(), true),
            (&n * 196i64, h.clone(), true),
            // The size of the batch, and another extent, are needed elsewhere.
            (&n * 196i64, n.clone(), false),
            (&n * 196i64, &n * 49i64, false),
            (&n * &h * 16i64, h.clone(), false),
        ] {
            let shape = [simplify_dim(&extent), more];
            let x = placeholder("x", shape.clone(), DataType::F32);
            let y = compute("y", shape, &[&x], |i| x.at(i.to_vec()) * 2);
            let func = create_prim_func("f", &[x], &[y]).unwrap();
            let new = with_own_dims(&func);
            assert_eq!(new.is_some(), becomes, "{}", new.as_ref().unwrap_or(&func));
            if let Some(new) = new {
                let [rows, _, of_result, _] = &extents(&new)[..] else { panic!("{new}") };
                assert!(rows.as_var().is_some() && same(rows, of_result), "{new}");
            }
        }
    }

    #[test]
    fn entries_that_are_no_equations_are_ignored() {
        let func = halved(&[Var::index("h").into()]);
        let func = with_own_dims(&func).unwrap();
        let with = |numbers: &[i64]| {
            let entry = AttrValue::List(numbers.iter().copied().map(AttrValue::Int).collect());
            let attrs = func.attrs.clone().with(EXTENTS, AttrValue::List([entry].into()));
            Equation::all(&PrimFunc { attrs, ..func.clone() }).len()
        };
        assert_eq!(with(&[1, 0, 0, 0, -1, 2, 1]), 1);
        for bad in [
            &[1, 0, 0, 0, -1, 0, 1][..],
            &[1, 0, 0, 0, -1, 2],
            &[2, 0, 0, 0, -1, 2, 1],
            &[1, 1, 0, 0, -1, 2, 1],
            &[-1, 0, 0, 0, -1, 2, 1],
            &[1, 0, 0, 0, i64::MIN, 2, 1],
        ] {
            assert_eq!(with(bad), 0, "{bad:?}");
        }
    }
}
