//! Exhaustiveness of matches: finds the values that no clause covers.
//!
//! The usual matrix algorithm (Maranget, "Warnings for pattern matching"): rows are clauses, columns are the parts of
//! the value that are still to be examined; the witnesses are the shortest patterns that match no row.
//!
//! TVM counterpart: `src/relay/analysis/match_exhaustion.cc`.

use super::infer_match::constructor_fields;
use crate::ir::{IRModule, Type, TypeDef};
use crate::relax::{Constructor, Match, Pattern};

/// Maximum number of witnesses that are reported.
const LIMIT: usize = 8;

/// Patterns, as the user writes them, that `it` does not cover for a value of type `ty`.
pub(super) fn missing_patterns(it: &Match, ty: &Type, module: &IRModule) -> Vec<String> {
    let rows: Vec<Vec<&Pattern>> = it.clauses.iter().map(|clause| vec![&clause.pattern]).collect();
    let witnesses = missing(&rows, std::slice::from_ref(ty), module);
    witnesses.into_iter().take(LIMIT).map(|mut witness| witness.swap_remove(0)).collect()
}

/// One case of the split of a column: a constructor with its type, or a tuple of this many fields.
enum Head<'a> {
    Constructor(Constructor, &'a TypeDef),
    Tuple(usize),
}

/// Witnesses that match no row; each is one pattern text per column.
fn missing(rows: &[Vec<&Pattern>], types: &[Type], module: &IRModule) -> Vec<Vec<String>> {
    let Some((first, others)) = types.split_first() else {
        return if rows.is_empty() { vec![Vec::new()] } else { Vec::new() };
    };
    let split = rows.iter().any(|row| matches!(row[0], Pattern::Constructor(..) | Pattern::Tuple(_)));
    if !split {
        let rest: Vec<_> = rows.iter().map(|row| row[1..].to_vec()).collect();
        return missing(&rest, others, module)
            .into_iter()
            .map(|witness| [vec!["_".to_string()], witness].concat())
            .collect();
    }
    let mut found = Vec::new();
    for head in heads(rows, module) {
        let (arity, fields) = match &head {
            Head::Constructor(constructor, _) => {
                let fields = constructor_fields(constructor, first, module).unwrap_or_default();
                (fields.len(), fields)
            }
            Head::Tuple(arity) => (
                *arity,
                match first {
                    Type::Tuple(fields) => fields.to_vec(),
                    _ => vec![Type::Object; *arity],
                },
            ),
        };
        let inner: Vec<Vec<&Pattern>> = rows.iter().filter_map(|row| specialise(row, &head, arity)).collect();
        let inner_types = [fields, others.to_vec()].concat();
        for witness in missing(&inner, &inner_types, module) {
            let (parts, rest) = witness.split_at(arity);
            found.push([vec![show(&head, parts)], rest.to_vec()].concat());
            if found.len() == LIMIT {
                return found;
            }
        }
    }
    found
}

/// Every form that a value of the first column can have; some row must have a constructor or tuple pattern there.
fn heads<'a>(rows: &[Vec<&Pattern>], module: &'a IRModule) -> Vec<Head<'a>> {
    for row in rows {
        match row[0] {
            Pattern::Constructor(it, _) => {
                let Some(def) = module.type_def(&it.ty) else { return Vec::new() };
                let heads = def.constructors.iter().enumerate().map(|(tag, found)| {
                    Head::Constructor(
                        Constructor { ty: def.name.clone(), name: found.name.clone(), tag },
                        def,
                    )
                });
                return heads.collect();
            }
            Pattern::Tuple(fields) => return vec![Head::Tuple(fields.len())],
            Pattern::Wildcard | Pattern::Var(_) => {}
        }
    }
    Vec::new()
}

/// The row specialised to values of form `head`: the patterns of their parts replace the first column. `None` when the
/// row does not match such values.
fn specialise<'p>(row: &[&'p Pattern], head: &Head<'_>, arity: usize) -> Option<Vec<&'p Pattern>> {
    let parts: Vec<&Pattern> = match (row[0], head) {
        (Pattern::Wildcard | Pattern::Var(_), _) => vec![&Pattern::Wildcard; arity],
        (Pattern::Constructor(it, fields), Head::Constructor(constructor, _)) if it == constructor => {
            fields.iter().collect()
        }
        (Pattern::Tuple(fields), Head::Tuple(_)) => fields.iter().collect(),
        (Pattern::Constructor(..) | Pattern::Tuple(_), _) => return None,
    };
    Some([&parts[..], &row[1..]].concat())
}

fn show(head: &Head<'_>, parts: &[String]) -> String {
    let parts = parts.join(", ");
    match head {
        Head::Constructor(it, def) if parts.is_empty() => format!("{}::{}", def.name, it.name),
        Head::Constructor(it, def) => format!("{}::{}({parts})", def.name, it.name),
        Head::Tuple(_) => format!("({parts})"),
    }
}
