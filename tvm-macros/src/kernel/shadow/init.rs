//! Moves the `init`s of blocks to where they run: in front of the outermost loop that a reduction axis depends on, in
//! copies of the loops that the other axes depend on. Without such a loop, an `init` stays where it is written.
//!
//! The loops that an axis depends on are found by name, through the axes of the blocks in between. Spatial axes are
//! excepted, because each value of a spatial axis has a reduction of its own.

use std::collections::BTreeSet;

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit::{Visit, visit_expr};
use syn::{BinOp, Block, Expr, ExprCall, ExprForLoop, Ident, Pat, Stmt, parse_quote_spanned};

type Names = BTreeSet<String>;

/// Moves the `init`s in `block`.
pub(super) fn place_inits(block: &mut Block) {
    Place::default().block(block);
}

/// A construct that encloses the current statement, or a `let` before it.
enum Frame {
    /// A loop, and the inits in front of it.
    Loop {
        var: Ident,
        range: Expr,
        inits: Vec<Stmt>,
    },
    /// A block: kind, variable and value of each axis.
    Block(Vec<(char, Option<Ident>, Expr)>),
    If(Expr),
    Let(Ident, Box<Stmt>, Expr),
    /// A local buffer or mutable scalar.
    Alloc(Ident),
    While,
}

#[derive(Default)]
struct Place {
    frames: Vec<Frame>,
}

/// The names that an expression mentions.
fn names(expr: &Expr) -> Names {
    struct Mentioned(Names);
    impl<'a> Visit<'a> for Mentioned {
        fn visit_expr(&mut self, expr: &'a Expr) {
            if let Expr::Path(it) = expr
                && let Some(name) = it.path.get_ident()
            {
                self.0.insert(name.to_string());
            }
            visit_expr(self, expr);
        }
    }
    let mut mentioned = Mentioned(Names::new());
    mentioned.visit_expr(expr);
    mentioned.0
}

fn mentions(names: &Names, var: &Ident) -> bool {
    names.contains(&var.to_string())
}

/// The name of the function that is called.
fn called(call: &ExprCall) -> Option<String> {
    match &*call.func {
        Expr::Path(it) => it.path.segments.last().map(|it| it.ident.to_string()),
        _ => None,
    }
}

/// True when `block` contains an `init`.
fn has_init(block: &Block) -> bool {
    struct Find(bool);
    impl<'a> Visit<'a> for Find {
        fn visit_expr_call(&mut self, call: &'a ExprCall) {
            self.0 |= called(call).as_deref() == Some("init");
            syn::visit::visit_expr_call(self, call);
        }
    }
    let mut find = Find(false);
    find.visit_block(block);
    find.0
}

/// The conjuncts of a condition that may be evaluated on their own.
fn parts(condition: &Expr) -> Vec<Expr> {
    match condition {
        Expr::Paren(it) => parts(&it.expr),
        Expr::Binary(it) if matches!(it.op, BinOp::And(_)) && !reads(&it.right) => {
            [parts(&it.left), parts(&it.right)].concat()
        }
        _ => vec![condition.clone()],
    }
}

/// True when `expr` reads an element.
fn reads(expr: &Expr) -> bool {
    struct Find(bool);
    impl<'a> Visit<'a> for Find {
        fn visit_expr_index(&mut self, _: &'a syn::ExprIndex) {
            self.0 = true;
        }
    }
    let mut find = Find(false);
    find.visit_expr(expr);
    find.0
}

/// `for [i, j] in grid([m, n]) { body }` as loops over one variable each.
fn without_grid(it: &ExprForLoop) -> Option<Expr> {
    let (Expr::Call(call), Pat::Slice(pat)) = (&*it.expr, &*it.pat) else { return None };
    let Some(Expr::Array(extents)) = call.args.first() else { return None };
    let mut loops = None;
    let body = &it.body;
    for (var, extent) in pat.elems.iter().zip(&extents.elems).rev() {
        let span = extent.span();
        let inside = match loops {
            None => quote_spanned!(span=> #body),
            Some(inner) => quote_spanned!(span=> { #inner }),
        };
        loops = Some(quote_spanned!(span=> for #var in 0usize..(#extent) #inside));
    }
    syn::parse2(loops?).ok()
}

impl Place {
    fn inside(&mut self, frame: Frame, block: &mut Block) -> Option<Frame> {
        self.frames.push(frame);
        self.block(block);
        self.frames.pop()
    }

    fn block(&mut self, block: &mut Block) {
        if !has_init(block) {
            return;
        }
        let depth = self.frames.len();
        let mut res = Vec::new();
        for mut stmt in std::mem::take(&mut block.stmts) {
            match &mut stmt {
                Stmt::Expr(expr, _) => res.extend(self.expr(expr)),
                Stmt::Local(_) => self.frames.extend(local(&stmt)),
                Stmt::Item(_) | Stmt::Macro(_) => {}
            }
            res.push(stmt);
        }
        block.stmts = res;
        self.frames.truncate(depth);
    }

    /// Moves the `init`s in the statement `expr`; returns the statements that go in front of it.
    fn expr(&mut self, expr: &mut Expr) -> Vec<Stmt> {
        match expr {
            Expr::ForLoop(it) if has_init(&it.body) => {
                if let Some(loops) = without_grid(it) {
                    *expr = loops;
                    return self.expr(expr);
                }
                let Pat::Ident(var) = &*it.pat else { return vec![] };
                let frame = Frame::Loop { var: var.ident.clone(), range: (*it.expr).clone(), inits: vec![] };
                match self.inside(frame, &mut it.body) {
                    Some(Frame::Loop { inits, .. }) => return inits,
                    _ => return vec![],
                }
            }
            Expr::If(it) => {
                let condition = (*it.cond).clone();
                self.inside(Frame::If(condition.clone()), &mut it.then_branch);
                if let Some((_, other)) = &mut it.else_branch {
                    self.frames.push(Frame::If(parse_quote_spanned!(condition.span()=> !(#condition))));
                    // Statements in front of a loop stay inside of the branch.
                    if let Expr::Block(it) = &mut **other {
                        self.block(&mut it.block);
                    } else {
                        self.expr(other);
                    }
                    self.frames.pop();
                }
            }
            Expr::While(it) => drop(self.inside(Frame::While, &mut it.body)),
            Expr::Block(it) => self.block(&mut it.block),
            Expr::Call(call) if called(call).as_deref() == Some("block") => self.block_call(call),
            _ => {}
        }
        vec![]
    }

    /// `block("C", [S(i), R(k)], |[vi, vk]| { .. })`
    fn block_call(&mut self, call: &mut ExprCall) {
        let mut args = call.args.iter_mut();
        let (_, Some(Expr::Array(axes)), Some(Expr::Closure(closure))) =
            (args.next(), args.next(), args.next())
        else {
            return;
        };
        let vars: Vec<Option<Ident>> = match closure.inputs.first() {
            Some(Pat::Slice(pat)) => pat
                .elems
                .iter()
                .map(|it| match it {
                    Pat::Ident(it) => Some(it.ident.clone()),
                    _ => None,
                })
                .collect(),
            _ => vec![],
        };
        let mut frame = Vec::new();
        for (axis, var) in axes.elems.iter().zip(vars) {
            // `S(v).within(0..n)` is the axis `S(v)`.
            let axis = match axis {
                Expr::MethodCall(it) if it.method == "within" => &it.receiver,
                other => other,
            };
            let Expr::Call(axis) = axis else { return };
            let (Some(kind), Some(value)) = (called(axis), axis.args.first()) else { return };
            frame.push((kind.chars().next().unwrap_or('Q'), var, value.clone()));
        }
        let Expr::Block(body) = &mut *closure.body else { return };
        self.take_init(&frame, &mut body.block);
        self.inside(Frame::Block(frame), &mut body.block);
    }

    /// Moves the `init` of a block with these axes in front of the loop where it runs.
    fn take_init(&mut self, axes: &[(char, Option<Ident>, Expr)], body: &mut Block) {
        let found = body.stmts.iter().position(
            |stmt| matches!(stmt, Stmt::Expr(Expr::Call(call), _) if called(call).as_deref() == Some("init")),
        );
        let Some(at) = found else { return };
        let Stmt::Expr(Expr::Call(call), _) = &body.stmts[at] else { return };
        let Some(Expr::Closure(init)) = call.args.first() else { return };
        let init = (*init.body).clone();
        let mut used = names(&init);
        let Some(start) = self.start(axes, &used) else { return };
        // The `let`s before the init, in the same block, whose names it uses.
        let mut own: Vec<Stmt> = Vec::new();
        for stmt in body.stmts[..at].iter().rev() {
            match local(stmt) {
                Some(Frame::Let(name, stmt, value)) if mentions(&used, &name) => {
                    used.extend(names(&value));
                    own.insert(0, *stmt);
                }
                Some(Frame::Alloc(name)) if mentions(&used, &name) => return,
                _ => {}
            }
        }
        body.stmts.remove(at);
        let nest = self.nest(start, axes, used, &own, &init);
        if let Frame::Loop { inits, .. } = &mut self.frames[start] {
            inits.push(nest);
        }
    }

    /// The index of the outermost loop that a reduction axis depends on.
    fn start(&self, axes: &[(char, Option<Ident>, Expr)], touched: &Names) -> Option<usize> {
        let mut reduced = Names::new();
        axes.iter().filter(|axis| axis.0 == 'R').for_each(|axis| reduced.extend(names(&axis.2)));
        let mut start = None;
        for (at, frame) in self.frames.iter().enumerate().rev() {
            match frame {
                Frame::Loop { var, .. } if reduced.remove(&var.to_string()) => start = Some(at),
                Frame::Let(var, _, value) if reduced.remove(&var.to_string()) => {
                    reduced.extend(names(value));
                }
                Frame::Block(outer) => {
                    let bound: Vec<_> = outer
                        .iter()
                        .filter(|(kind, var, _)| {
                            var.as_ref().is_some_and(|var| reduced.remove(&var.to_string())) && *kind != 'S'
                        })
                        .collect();
                    bound.iter().for_each(|axis| reduced.extend(names(&axis.2)));
                }
                Frame::Alloc(buffer) if mentions(touched, buffer) => return start,
                Frame::While => return start,
                Frame::Loop { .. } | Frame::Let(..) | Frame::If(_) | Frame::Alloc(_) => {}
            }
        }
        start
    }

    /// `init` inside copies of the loops from `start` on that the names in `used` and the axes other than reduction axes
    /// depend on.
    fn nest(
        &self,
        start: usize,
        axes: &[(char, Option<Ident>, Expr)],
        mut used: Names,
        own: &[Stmt],
        init: &Expr,
    ) -> Stmt {
        for axis in axes {
            axis.1.iter().for_each(|var| {
                used.remove(&var.to_string());
            });
        }
        let kept: Vec<_> = axes.iter().filter(|axis| axis.0 != 'R').collect();
        kept.iter().for_each(|axis| used.extend(names(&axis.2)));
        let chain = &self.frames[start..];
        // Finds the frames that are needed, from the block outwards.
        let mut needed = vec![false; chain.len()];
        for (frame, needed) in chain.iter().zip(&mut needed).rev() {
            match frame {
                Frame::Loop { var, range, .. } if used.remove(&var.to_string()) => {
                    *needed = true;
                    used.extend(names(range));
                }
                Frame::Let(var, _, value) if used.remove(&var.to_string()) => {
                    *needed = true;
                    used.extend(names(value));
                }
                Frame::Block(outer) => {
                    let bound: Vec<_> = outer
                        .iter()
                        .filter(|(_, var, _)| var.as_ref().is_some_and(|var| used.remove(&var.to_string())))
                        .collect();
                    bound.iter().for_each(|axis| used.extend(names(&axis.2)));
                }
                Frame::Loop { .. } | Frame::Let(..) | Frame::If(_) | Frame::Alloc(_) | Frame::While => {}
            }
        }
        let span = init.span();
        let (vars, values): (Vec<Ident>, Vec<&Expr>) =
            kept.iter().filter_map(|axis| Some((axis.1.clone()?, &axis.2))).unzip();
        let bind = bind(&vars, &values);
        let inside = quote_spanned!(span=> {
            #bind
            #(#own)*
            #init;
        });
        let inside = wrap(chain, &needed, Names::new(), inside);
        Stmt::Expr(parse_quote_spanned!(span=> { #inside }), None)
    }
}

/// `inside` wrapped in those frames of `chain` that are needed; the names in `skipped` are not defined there.
fn wrap(chain: &[Frame], needed: &[bool], mut skipped: Names, inside: TokenStream) -> TokenStream {
    let ([frame, chain @ ..], [is_needed, needed @ ..]) = (chain, needed) else { return inside };
    match frame {
        Frame::Loop { var, range, .. } if *is_needed => {
            skipped.remove(&var.to_string());
            let inside = wrap(chain, needed, skipped, inside);
            quote!(for #var in #range { #inside })
        }
        Frame::Let(var, stmt, value) if *is_needed && names(value).is_disjoint(&skipped) => {
            skipped.remove(&var.to_string());
            let inside = wrap(chain, needed, skipped, inside);
            quote!(#stmt #inside)
        }
        Frame::Loop { var, .. } | Frame::Let(var, ..) => {
            skipped.insert(var.to_string());
            wrap(chain, needed, skipped, inside)
        }
        Frame::If(condition) => {
            let known: Vec<Expr> =
                parts(condition).into_iter().filter(|it| names(it).is_disjoint(&skipped)).collect();
            let inside = wrap(chain, needed, skipped, inside);
            if known.is_empty() { inside } else { quote!(if #((#known))&&* { #inside }) }
        }
        Frame::Block(axes) => {
            let (known, unknown): (Vec<_>, Vec<_>) =
                axes.iter().partition(|(_, _, value)| names(value).is_disjoint(&skipped));
            let bound = known.iter().filter_map(|(_, var, value)| Some((var.clone()?, value)));
            let (vars, values): (Vec<Ident>, Vec<&Expr>) = bound.unzip();
            skipped.retain(|name| vars.iter().all(|var| var != name));
            skipped.extend(unknown.iter().filter_map(|(_, var, _)| var.as_ref().map(Ident::to_string)));
            let bind = bind(&vars, &values);
            let inside = wrap(chain, needed, skipped, inside);
            quote!(#bind #inside)
        }
        Frame::Alloc(_) | Frame::While => wrap(chain, needed, skipped, inside),
    }
}

/// Binds all `vars` to `values` simultaneously.
fn bind(vars: &[Ident], values: &[&Expr]) -> TokenStream {
    let types = vars.iter().map(|_| quote!(usize));
    quote!(let (#(#vars,)*): (#(#types,)*) = (#(#values,)*);)
}

/// The frame that a `let` is for the statements after it.
fn local(stmt: &Stmt) -> Option<Frame> {
    let Stmt::Local(local) = stmt else { return None };
    let pat = match &local.pat {
        Pat::Type(it) => &*it.pat,
        pat => pat,
    };
    let (Pat::Ident(pat), Some(init)) = (pat, &local.init) else { return None };
    let is_buffer = matches!(&*init.expr, Expr::Call(call) if called(call).as_deref() == Some("alloc"));
    if is_buffer || pat.mutability.is_some() {
        return Some(Frame::Alloc(pat.ident.clone()));
    }
    Some(Frame::Let(pat.ident.clone(), Box::new(stmt.clone()), (*init.expr).clone()))
}
