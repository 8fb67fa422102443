//! Loops, blocks and their axes.

pub use Axis::{O, Q, R, S};

/// An axis of a block and its value.
#[derive(Clone, Copy, Debug)]
pub enum Axis {
    /// Iterations are independent.
    S(usize),
    /// Iterations are combined by a reduction.
    R(usize),
    /// Iterations run in order.
    O(usize),
    /// Nothing is known about the iterations.
    Q(usize),
}

impl Axis {
    /// The same axis: its domain matters to schedules only.
    #[must_use]
    pub fn within(self, _dom: std::ops::Range<usize>) -> Axis {
        self
    }
}

/// Returns the value; in the program, `let x = bind(e);` creates a variable.
pub fn bind<T>(value: T) -> T {
    value
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
    body(axes.map(|axis| match axis {
        S(value) | R(value) | O(value) | Q(value) => value,
    }));
}

/// Runs `body`: the macro leaves an init in its block where no loop drives a reduction axis.
pub fn init(body: impl FnOnce()) {
    body();
}
