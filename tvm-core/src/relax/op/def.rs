//! Short forms for the rows of operator tables.

use crate::ir::{ArgDef, ArgKind, AttrDef, AttrKind};

pub(super) const fn tensor(name: &'static str) -> ArgDef {
    ArgDef { name, kind: ArgKind::Tensor }
}

pub(super) const fn arg(name: &'static str, kind: ArgKind) -> ArgDef {
    ArgDef { name, kind }
}

/// An attribute that a call may leave out.
pub(super) const fn attr(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef { name, kind, required: false }
}

/// An attribute that a call must give.
pub(super) const fn required(name: &'static str, kind: AttrKind) -> AttrDef {
    AttrDef { name, kind, required: true }
}
