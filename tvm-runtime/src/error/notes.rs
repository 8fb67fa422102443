//! Parts of the messages of errors.

use std::sync::Arc;

use crate::device::Device;
use crate::launch::gpu_arch;

pub(super) fn dim_note(dim: &Option<Arc<str>>) -> String {
    dim.as_ref().map(|dim| format!(" (= {dim})")).unwrap_or_default()
}

pub(super) fn axis_note(axis: Option<i64>) -> String {
    axis.map_or_else(|| " ".into(), |axis| format!(": axis {axis} "))
}

pub(super) fn at(place: &Option<Arc<str>>) -> String {
    place.as_ref().map_or_else(String::new, |place| format!(" (at {place})"))
}

pub(super) fn buffer_note(buffer: &Option<Arc<str>>) -> String {
    buffer.as_ref().map_or_else(|| "a buffer of the kernel".into(), |name| format!("`{name}`"))
}

pub(super) fn message_note(message: &Option<Arc<str>>) -> String {
    message.as_ref().map_or_else(String::new, |message| format!(": {message}"))
}

/// The CPU levels of a program, for an error message.
pub(super) fn levels(has: &[String]) -> String {
    if has.is_empty() { "it was compiled for one CPU".into() } else { format!("it has {}", quoted(has)) }
}

/// The architectures of a target that adds `own` to those of `has`.
pub(super) fn archs(own: &str, has: &[String]) -> String {
    let known = has.iter().filter(|it| it.starts_with("sm_")).map(String::as_str);
    let mut all: Vec<&str> = known.chain([own]).collect();
    all.sort_by_key(|it| gpu_arch(it));
    all.join(",")
}

/// The devices that there is code for.
pub(super) fn devices(has: &[Device]) -> String {
    has.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// The kernels that may have caused a fault.
pub(super) fn one_of(kernels: &[Arc<str>]) -> String {
    let names: Vec<String> = kernels.iter().map(|name| format!("`{name}`")).collect();
    match &names[..] {
        [] => "a kernel of this process".into(),
        [name] => format!("the kernel {name}"),
        names => format!("one of the kernels {}", names.join(", ")),
    }
}

pub(super) fn quoted(names: &[String]) -> String {
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}
