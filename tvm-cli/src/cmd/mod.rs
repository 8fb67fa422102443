//! The commands of `tvmc`, one file each.

pub(crate) mod bench;
pub(crate) mod compare;
pub(crate) mod compile;
pub(crate) mod completions;
pub(crate) mod doctor;
mod explain;
pub(crate) mod inspect;
pub(crate) mod onnx_test;
pub(crate) mod ops;
pub(crate) mod profile;
pub(crate) mod run;
