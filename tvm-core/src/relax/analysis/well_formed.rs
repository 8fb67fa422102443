//! Well-formedness of graph functions.
use crate::ir::IRModule;
use crate::ir::well_formed::Report;
use crate::relax::Function;
pub(crate) fn check_rules(_func: &Function, _module: &IRModule, _report: &mut Report) {}
pub(crate) fn check_types(_module: &IRModule, _report: &mut Report) {}
