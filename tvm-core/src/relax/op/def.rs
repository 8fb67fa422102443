//! Constructors of the arguments and attributes in operator tables.

use crate::ir::{ArgDef, ArgKind, AttrDef, AttrKind};

/// A tensor argument.
pub const fn tensor(name: &'static str) -> ArgDef {
    ArgDef { name, kind: ArgKind::Tensor }
}

/// An argument of `kind`.
pub const fn arg(name: &'static str, kind: ArgKind) -> ArgDef {
    ArgDef { name, kind }
}

/// An attribute that a call may omit.
pub const fn attr(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef { name, kind, required: false, default: "" }
}

/// An attribute that every call must set.
pub const fn required(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef { name, kind, required: true, default: "" }
}
