//! Checks inside one kernel that need more than one statement.

mod block;
mod bounds;

use crate::error::Errors;
use crate::kernel::ast::PrimFunc;

/// Reports the errors in a kernel that parsed.
pub(crate) fn check(func: &PrimFunc, errors: &mut Errors) {
    block::check(func, errors);
    bounds::check(func, errors);
}
