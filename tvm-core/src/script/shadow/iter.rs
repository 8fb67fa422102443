//! Loops, blocks and their axes.

use std::cell::Cell;

pub use Axis::{O, Q, R, S};

/// An axis of a block and its value.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// Iterations are independent.
    S(usize),
    /// Iterations are combined by a reduction, which begins at 0.
    R(usize),
    /// Iterations run in order.
    O(usize),
    /// Nothing is known.
    Q(usize),
}

thread_local! {
    /// Whether the reduction axes of the running block are at their beginning.
    static FIRST: Cell<bool> = const { Cell::new(true) };
}

/// All index tuples below `extents`, the last axis fastest.
pub fn grid<const N: usize>(extents: [usize; N]) -> impl Iterator<Item = [usize; N]> {
    let total: usize = extents.iter().product();
    (0..total).map(move |mut rest| {
        let mut index = [0; N];
        for axis in (0..N).rev() {
            index[axis] = rest % extents[axis];
            rest /= extents[axis];
        }
        index
    })
}

/// Runs `body` with the values of `axes`.
pub fn block<const N: usize>(_name: &str, axes: [Axis; N], body: impl FnOnce([usize; N])) {
    let first = axes.iter().all(|axis| !matches!(axis, R(value) if *value != 0));
    let outer = FIRST.replace(first);
    body(axes.map(|axis| match axis {
        S(value) | R(value) | O(value) | Q(value) => value,
    }));
    FIRST.set(outer);
}

/// Runs `body` in the first iteration of the block's reduction axes.
pub fn init(body: impl FnOnce()) {
    if FIRST.get() {
        body();
    }
}
