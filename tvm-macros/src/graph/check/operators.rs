//! Result types of operators on arguments of known types, and the errors in ranks, axes and extents that they show.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::{Expr, Lit, UnOp};

use super::{Checker, Dim, Known, differ, show};

/// Operators whose result has the type of their first argument.
const SAME: &[&str] = &[
    "relu",
    "exp",
    "log",
    "sqrt",
    "tanh",
    "sigmoid",
    "softmax",
    "log_softmax",
    "gelu",
    "silu",
    "erf",
    "abs",
    "negative",
    "sin",
    "cos",
    "floor",
    "ceil",
    "round",
    "leakyrelu",
    "softplus",
    "dropout",
    "square",
    "rsqrt",
];

/// Operators over images and signals: the rank and the layout of their data (and the rank of the weight).
const RANKS: &[(&str, usize, &str)] = &[
    ("conv1d", 3, "[batch, channels, width]"),
    ("conv2d", 4, "[batch, channels, height, width]"),
    ("max_pool2d", 4, "[batch, channels, height, width]"),
    ("avg_pool2d", 4, "[batch, channels, height, width]"),
    ("adaptive_avg_pool2d", 4, "[batch, channels, height, width]"),
];

/// Operators with an attribute `axis` that names axes of the first argument; its position when it is given without name.
const AXIS: &[(&str, usize)] = &[
    ("softmax", 1),
    ("log_softmax", 1),
    ("sum", 1),
    ("mean", 1),
    ("max", 1),
    ("min", 1),
    ("prod", 1),
    ("std", 1),
    ("variance", 1),
    ("argmax", 1),
    ("argmin", 1),
    ("squeeze", 1),
    ("flip", 1),
    ("repeat", 2),
    ("split", 2),
    ("take", 2),
    ("gather_elements", 2),
];

/// A call that may be an operator's.
pub(super) struct OperatorCall<'e> {
    place: &'e Expr,
    args: Vec<&'e Expr>,
    /// What is known of the arguments.
    known: Vec<Option<Known>>,
    named: Vec<(String, &'e Expr)>,
}

impl<'e> OperatorCall<'e> {
    /// The attribute `name`: the named argument if there is one, else the argument at `position`.
    fn attr(&self, name: &str, position: usize) -> Option<&'e Expr> {
        let named = self.named.iter().find(|(it, _)| it == name).map(|(_, value)| *value);
        named.or_else(|| self.args.get(position).copied())
    }
}

impl Checker<'_> {
    /// The call; `name` is given if it is not certain to be the operator's.
    pub(super) fn operator_call<'e>(
        &mut self,
        place: &'e Expr,
        all: &[&'e Expr],
        name: Option<&Ident>,
    ) -> OperatorCall<'e> {
        let mut call = OperatorCall { place, args: Vec::new(), known: Vec::new(), named: Vec::new() };
        for arg in all {
            if let Expr::Assign(it) = arg {
                self.expr(&it.right);
                call.named.push((it.left.to_token_stream().to_string(), &it.right));
                continue;
            }
            let known = self.expr(arg);
            call.args.push(arg);
            call.known.push(match name {
                Some(name) => known.map(|known| known.through(name)),
                None => known,
            });
        }
        call
    }

    /// Checks a call of the operator `name`; returns what is known of the result.
    pub(super) fn operator(&mut self, name: &str, call: &OperatorCall<'_>) -> Option<Known> {
        let first = call.known.first()?.as_ref();
        if SAME.contains(&name) && !AXIS.iter().any(|(it, _)| *it == name) {
            return first.cloned();
        }
        if let (Some(Some(a)), Some(Some(b))) = (call.known.first(), call.known.get(1)) {
            match name {
                "add" | "subtract" | "multiply" | "divide" | "maximum" | "minimum" => {
                    return self.broadcast(call.place, a, b);
                }
                "equal" | "not_equal" | "less" | "less_equal" | "greater" | "greater_equal" => {
                    return self.broadcast(call.place, a, b).map(|it| it.of("bool"));
                }
                "matmul" => return self.matmul(call, a, b),
                _ => {}
            }
        }
        if let Some((_, rank, layout)) = RANKS.iter().find(|(it, ..)| *it == name) {
            return self.windows(name, *rank, layout, call);
        }
        let x = first?;
        if let Some((_, position)) = AXIS.iter().find(|(it, _)| *it == name) {
            return self.along_axes(name, x, call.attr("axis", *position), call);
        }
        match name {
            "flatten" => Some(x.with(vec![Dim::Unknown])),
            "batch_flatten" => Some(x.with(vec![x.dims.first()?.clone(), Dim::Unknown])),
            "astype" => match call.attr("dtype", 1)? {
                Expr::Path(path) => Some(x.clone().of(&path.path.get_ident()?.to_string())),
                _ => None,
            },
            "permute_dims" => self.permuted(x, call.attr("axes", 1)),
            "expand_dims" => {
                let axes = integers(call.attr("axis", 1)?)?;
                Some(x.with(vec![Dim::Unknown; x.dims.len() + axes.len()]))
            }
            "reshape" => match call.args.get(1)? {
                Expr::Array(list) => Some(x.with(list.elems.iter().map(extent).collect())),
                _ => None,
            },
            _ => None,
        }
    }

    fn matmul(&mut self, call: &OperatorCall<'_>, a: &Known, b: &Known) -> Option<Known> {
        let second: TokenStream = call.args.get(1)?.to_token_stream();
        if a.dims.is_empty() || b.dims.is_empty() {
            let message = format!("`matmul` of {} and {}", show(a), show(b));
            self.report(&second, &message, "both operands have at least one axis", &[a, b]);
            return None;
        }
        if a.dtype != b.dtype {
            let message = format!("`matmul` of {} and {}", show(a), show(b));
            self.report(&second, &message, "both operands have one element type; use astype", &[a, b]);
            return None;
        }
        let rows = &b.dims[b.dims.len().saturating_sub(2)];
        if differ(a.dims.last()?, rows) {
            let message = format!(
                "shape mismatch in `matmul`: the inner extents of {} and {} differ",
                show(a),
                show(b)
            );
            let help = match b.dims.len() {
                1 | 2 => "the last extent of the left operand is the first of the right one",
                _ => "the last extent of the left operand is the last but one of the right one",
            };
            self.report(&second, &message, help, &[a, b]);
            return None;
        }
        if a.dims.len() < 2 || b.dims.len() != 2 {
            return None;
        }
        let mut dims = a.dims.clone();
        *dims.last_mut()? = b.dims[1].clone();
        Some(a.joined(b, dims))
    }

    /// Convolutions and pooling.
    fn windows(&mut self, name: &str, rank: usize, layout: &str, call: &OperatorCall<'_>) -> Option<Known> {
        if call.named.iter().any(|(name, _)| name.ends_with("layout")) {
            return None;
        }
        for (arg, known) in call.args.iter().zip(&call.known) {
            if let Some(known) = known
                && known.dims.len() != rank
            {
                let message = format!("`{name}` takes tensors of rank {rank}, got {}", show(known));
                self.report(arg, &message, &format!("its data is {layout}"), &[known]);
                return None;
            }
        }
        let x = call.known.first()?.as_ref()?;
        let mut dims = vec![Dim::Unknown; rank];
        dims[0] = x.dims[0].clone();
        Some(x.with(dims))
    }

    /// Operators with an attribute `axis`.
    fn along_axes(
        &mut self,
        name: &str,
        x: &Known,
        axis: Option<&Expr>,
        call: &OperatorCall<'_>,
    ) -> Option<Known> {
        let axes = match axis {
            Some(axis) => Some(self.axes(name, x, axis)?),
            None => None,
        };
        if SAME.contains(&name) || name == "flip" {
            return Some(x.clone());
        }
        let reduces = matches!(name, "sum" | "mean" | "max" | "min" | "prod" | "std" | "variance");
        let dtype = match name {
            "argmax" | "argmin" => "i64",
            _ if reduces => &x.dtype,
            _ => return None,
        };
        let position = AXIS.iter().find(|(it, _)| *it == name)?.1;
        let keep = match call.attr("keepdims", position + 1) {
            None => false,
            Some(Expr::Lit(it)) => matches!(&it.lit, Lit::Bool(it) if it.value),
            Some(_) => return None,
        };
        let gone = |axis: usize| axes.as_ref().is_none_or(|axes| axes.contains(&axis));
        let kept = x.dims.iter().enumerate().filter_map(|(axis, dim)| match (gone(axis), keep) {
            (false, _) => Some(dim.clone()),
            (true, true) => Some(Dim::Const(1)),
            (true, false) => None,
        });
        Some(x.with(kept.collect()).of(dtype))
    }

    /// The axes that `axis` names, if they are literals; checks that each is an axis of `x`.
    fn axes(&mut self, name: &str, x: &Known, axis: &Expr) -> Option<Vec<usize>> {
        let rank = x.dims.len() as i64;
        let mut axes = Vec::new();
        for value in integers(axis)? {
            if !(-rank..rank).contains(&value) {
                let message = format!("`{name}`: axis {value} of {}, which has rank {rank}", show(x));
                let help = match rank {
                    0 => "a scalar has no axes".to_string(),
                    _ => format!("axes are {}..={}; negative ones count from the end", -rank, rank - 1),
                };
                self.report(axis, &message, &help, &[x]);
                return None;
            }
            axes.push((if value < 0 { value + rank } else { value }) as usize);
        }
        Some(axes)
    }

    fn permuted(&mut self, x: &Known, axes: Option<&Expr>) -> Option<Known> {
        let Some(axes) = axes else {
            return Some(x.with(x.dims.iter().rev().cloned().collect()));
        };
        let order = self.axes("permute_dims", x, axes)?;
        let repeated = order.iter().enumerate().any(|(i, axis)| order[..i].contains(axis));
        if order.len() != x.dims.len() || repeated {
            let message = format!(
                "`permute_dims`: {} is no order of the axes of {}",
                axes.to_token_stream().to_string().replace(' ', ""),
                show(x)
            );
            let help = format!("name each axis 0..{} once", x.dims.len());
            self.report(axes, &message, &help, &[x]);
            return None;
        }
        Some(x.with(order.into_iter().map(|axis| x.dims[axis].clone()).collect()))
    }
}

/// The integers in a literal or a list of literals.
fn integers(expr: &Expr) -> Option<Vec<i64>> {
    match expr {
        Expr::Array(list) => list.elems.iter().map(integer).collect(),
        _ => Some(vec![integer(expr)?]),
    }
}

fn integer(expr: &Expr) -> Option<i64> {
    match expr {
        Expr::Lit(it) => match &it.lit {
            Lit::Int(value) => value.base10_parse().ok(),
            _ => None,
        },
        Expr::Unary(it) if matches!(it.op, UnOp::Neg(_)) => integer(&it.expr)?.checked_neg(),
        _ => None,
    }
}

/// An extent as it is written in a shape.
fn extent(expr: &Expr) -> Dim {
    match (integer(expr), expr) {
        (Some(value), _) if value > 0 => Dim::Const(value),
        (None, Expr::Path(path)) => {
            path.path.get_ident().map_or(Dim::Unknown, |name| Dim::Name(name.to_string()))
        }
        _ => Dim::Unknown,
    }
}
