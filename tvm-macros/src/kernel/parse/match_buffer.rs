//! `let v = match_buffer(y[[i, begin..end]]);`

use syn::{Expr as SynExpr, ExprCall, ExprIndex, Ident};

use super::Parser;
use super::scope::Name;
use crate::kernel::ast::{Expr, LoopRange, Stmt};

const HELP: &str = "write `let v = match_buffer(y[[i, a..b]]);`";

/// The name of the buffer and the parts of the region in `match_buffer(y[[i, a..b]])`.
pub(crate) fn matched_region(call: &ExprCall) -> Option<(&Ident, Vec<&SynExpr>)> {
    let SynExpr::Path(func) = &*call.func else { return None };
    let (true, 1) = (func.path.is_ident("match_buffer"), call.args.len()) else { return None };
    let Some(SynExpr::Index(ExprIndex { expr, index, .. })) = call.args.first() else { return None };
    let (SynExpr::Path(source), SynExpr::Array(parts)) = (&**expr, &**index) else { return None };
    Some((source.path.get_ident()?, parts.elems.iter().collect()))
}

impl Parser<'_> {
    pub(super) fn match_buffer(&mut self, name: Ident, call: &ExprCall) -> Option<Stmt> {
        let stmt = self.region_of(&name, call);
        if stmt.is_none() {
            self.scopes.declare(&name, Name::Unknown);
        }
        stmt
    }

    fn region_of(&mut self, name: &Ident, call: &ExprCall) -> Option<Stmt> {
        let Some((source, parts)) = matched_region(call) else {
            self.errors.push(call, "`match_buffer` takes a region of a buffer", HELP);
            return None;
        };
        let (rank, dtype, written) = match self.scopes.lookup(source) {
            Some(Name::Tensor { rank, dtype, written, .. }) => (*rank, dtype.clone(), *written),
            Some(Name::Unknown) => return None,
            _ => {
                self.errors.push(source, format!("`{source}` is no buffer"), HELP);
                return None;
            }
        };
        if parts.len() != rank {
            let (has, got) =
                (super::expr::count(rank, "dimension"), super::expr::count(parts.len(), "range"));
            let message = format!("`{source}` has {has}, the region has {got}");
            self.errors.push(call, message, "give each dimension an index or a range");
            return None;
        }
        let mut region: Vec<(Expr, Option<Expr>)> = Vec::new();
        for part in parts {
            if !matches!(part, SynExpr::Range(_)) {
                if region.iter().any(|(_, end)| end.is_some()) {
                    let text = crate::kernel::generate::source_text(&quote::ToTokens::to_token_stream(part));
                    let help = format!("write `{text}..{text} + 1`: the buffer keeps the dimension");
                    self.errors.push(part, "an index stands before all ranges", &help);
                    return None;
                }
                region.push((self.expr(part), None));
                continue;
            }
            match self.loop_range(part)? {
                LoopRange::Range { min, end, inclusive: false } => region.push((min, Some(end))),
                LoopRange::Range { .. } | LoopRange::Grid(_) => {
                    self.errors.push(part, "the range of a region excludes its end", "write `a..b + 1`");
                    return None;
                }
            }
        }
        for part in region.iter().flat_map(|(begin, end)| [Some(begin), end.as_ref()]).flatten() {
            self.expect_index(part);
        }
        let rank = region.iter().filter(|(_, end)| end.is_some()).count();
        self.scopes.declare(name, Name::Tensor { rank, dtype, written, matched: true });
        Some(Stmt::Match { name: name.clone(), source: source.clone(), region })
    }
}
