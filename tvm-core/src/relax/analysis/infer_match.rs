//! Type inference of matches: checks patterns against the type of the value and that they are exhaustive, and joins the
//! types of the clauses.
//!
//! TVM counterpart: Relay's `InferType` of `Match`, `match_exhaustion`.

use std::sync::Arc;

use super::captures::type_dims;
use super::exhaustive::missing_patterns;
use super::infer::{error, infer_body, type_of_arg};
use super::show_type;
use super::unify::{Unifier, erase_to_well_defined, join};
use crate::ir::{IRModule, IrError, Type, TypeDef, Var};
use crate::relax::{Constructor, Match, Pattern};

pub(super) fn infer_match(it: &Match, module: &IRModule) -> Result<Type, IrError> {
    let value = type_of_arg(&it.value, module);
    let mut res: Option<Type> = None;
    for clause in it.clauses.iter() {
        check_pattern(&clause.pattern, &value, module)?;
        // Dimensions that a pattern introduces do not leave the clause.
        let mut own = rustc_hash::FxHashSet::default();
        pattern_vars(&clause.pattern, &mut |var| own.extend(type_dims(var.ty()).iter().map(Var::id)));
        let mut outer = rustc_hash::FxHashSet::default();
        outer.extend(type_dims(&value).iter().map(Var::id));
        let ty = infer_body(&clause.body, module);
        let ty = erase_to_well_defined(&ty, &|var| outer.contains(&var) || !own.contains(&var));
        res = Some(match res {
            None => ty,
            Some(res) => join(&res, &ty).map_err(|_| {
                let (a, b) = (show_type(&res), show_type(&ty));
                error(format!("the clauses of `match` have different types: {a} and {b}"))
            })?,
        });
    }
    let missing = missing_patterns(it, &value, module);
    if !missing.is_empty() {
        let list = missing.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ");
        return Err(error(format!("`match` does not cover {list}"))
            .help("add a clause for each, or `_ => ..` for the rest"));
    }
    res.ok_or_else(|| error("`match` has no clause".to_string()))
}

fn check_pattern(pattern: &Pattern, ty: &Type, module: &IRModule) -> Result<(), IrError> {
    match pattern {
        Pattern::Wildcard => Ok(()),
        Pattern::Var(var) => Unifier::default().unify(var.ty(), ty).map_err(|why| {
            let (name, expected, got) = (var.name(), show_type(var.ty()), show_type(ty));
            error(format!("pattern variable `{name}` is {expected}, the value is {got}: {}", why.0))
        }),
        Pattern::Constructor(constructor, patterns) => {
            let fields = constructor_fields(constructor, ty, module)?;
            if fields.len() != patterns.len() {
                let (name, expected, got) = (&constructor.name, fields.len(), patterns.len());
                return Err(error(format!("`{name}` has {expected} fields, the pattern has {got}")));
            }
            fields.iter().zip(patterns.iter()).try_for_each(|(ty, it)| check_pattern(it, ty, module))
        }
        Pattern::Tuple(patterns) => match ty {
            Type::Tuple(fields) if fields.len() == patterns.len() => {
                fields.iter().zip(patterns.iter()).try_for_each(|(ty, it)| check_pattern(it, ty, module))
            }
            Type::Object => patterns.iter().try_for_each(|it| check_pattern(it, &Type::Object, module)),
            _ => Err(error(format!("a pattern of {} fields does not fit {}", patterns.len(), show_type(ty)))),
        },
    }
}

/// Calls `f` for every variable of `pattern`, left to right.
pub fn pattern_vars(pattern: &Pattern, f: &mut dyn FnMut(&Var)) {
    match pattern {
        Pattern::Wildcard => {}
        Pattern::Var(var) => f(var),
        Pattern::Constructor(_, fields) | Pattern::Tuple(fields) => {
            fields.iter().for_each(|field| pattern_vars(field, f));
        }
    }
}

/// Types of the fields of `constructor` in a value of type `ty` (an algebraic data type, or unknown).
///
/// # Errors
/// When the constructor is not one of that type.
pub fn constructor_fields(
    constructor: &Constructor,
    ty: &Type,
    module: &IRModule,
) -> Result<Vec<Type>, IrError> {
    let (def, fields) = constructor_def(constructor, module)?;
    let mut unifier = Unifier::default();
    match ty {
        Type::Adt(adt) if adt.name == def.name && adt.args.len() == def.params.len() => {
            let pairs = def.params.iter().zip(adt.args.iter());
            pairs.for_each(|(param, arg)| unifier.default_type(param, arg.clone()));
        }
        Type::Object => def.params.iter().for_each(|param| unifier.default_type(param, Type::Object)),
        _ => {
            let name = format!("{}::{}", constructor.ty, constructor.name);
            return Err(error(format!("`{name}` does not construct {}", show_type(ty))));
        }
    }
    Ok(fields.iter().map(|field| unifier.apply(field)).collect())
}

/// The definition of the type of `constructor`, and the types of its fields.
pub(super) fn constructor_def<'a>(
    constructor: &Constructor,
    module: &'a IRModule,
) -> Result<(&'a Arc<TypeDef>, &'a Arc<[Type]>), IrError> {
    let Constructor { ty, name, tag } = constructor;
    let def = module.type_def(ty).ok_or_else(|| error(format!("the module has no type `{ty}`")))?;
    match def.constructors.get(*tag) {
        Some(found) if found.name == *name => Ok((def, &found.fields)),
        Some(_) | None => {
            let err = error(format!("type `{ty}` has no constructor `{name}` of tag {tag}"));
            Err(match crate::support::nearest(name, def.constructors.iter().map(|it| &*it.name)) {
                Some(near) => err.help(format!("did you mean `{near}`?")),
                None => err,
            })
        }
    }
}
