//! Memory that a run shares with packed functions and reference cells.
//!
//! A packed function may keep a handle to a tensor that it received, and other code may read a reference cell. The run must
//! not write to that memory again, because the writes would be visible to them. So memory that has more handles after a call
//! than before loses the run's right to write. Memory inside data types, closures and cells loses it in any case.

use std::collections::HashSet;

use smallvec::SmallVec;

use crate::value::Value;

/// Number of handles before a call, for each argument.
pub(super) struct Lent(SmallVec<[(usize, usize); 8]>);

fn handles(value: &Value) -> (usize, usize) {
    match value {
        Value::Tensor(tensor) => (tensor.handles(), tensor.storage().handles()),
        Value::Storage(storage) => (0, storage.handles()),
        _ => (0, 0),
    }
}

impl Lent {
    pub(super) fn new(args: &[Value]) -> Lent {
        Lent(args.iter().map(handles).collect())
    }

    /// Revokes the right to write where handles were kept. To be called after the call, while its result is alive.
    pub(super) fn settle(self, args: &[Value]) {
        for (arg, before) in args.iter().zip(self.0) {
            let kept = !matches!(arg, Value::Tensor(_) | Value::Storage(_)) || handles(arg) != before;
            if kept {
                revoke(arg);
            }
        }
    }
}

/// Revokes the right to write to all memory in `value`.
pub(super) fn revoke(value: &Value) {
    match value {
        Value::Tensor(tensor) => return tensor.storage().set_writer(0),
        Value::Storage(storage) => return storage.set_writer(0),
        _ => {}
    }
    let mut pending = vec![value.clone()];
    let mut seen = HashSet::new();
    while let Some(value) = pending.pop() {
        match &value {
            Value::Tensor(tensor) => tensor.storage().set_writer(0),
            Value::Storage(storage) => storage.set_writer(0),
            nested => {
                if nested.address().is_some_and(|address| seen.insert(address)) {
                    nested.for_each_inside(|value| pending.push(value.clone()));
                }
            }
        }
    }
}
