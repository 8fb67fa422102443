//! Operators, one file per family: tables of [`OpDef`]s with type inference and legalisation.
//!
//! TVM counterpart: `src/relax/op`.

pub mod memory;

use crate::ir::OpDef;

/// All built-in tables.
pub static TABLES: &[&[OpDef]] = &[memory::OPS];
