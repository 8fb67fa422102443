//! Programs of any depth: every few levels, a computation runs (and is dropped) on a new stack segment if little stack
//! is left.

use super::machine::{Machine, Trap};
use crate::support::with_stack;

/// Number of levels between two checks of the remaining stack.
const LEVELS: u32 = 16;

type Compute<T> = Box<dyn Fn(&mut Machine<'_>) -> Result<T, Trap> + Send + Sync>;

/// A computation that contains others; empty only while it is dropped.
struct Deep<T>(Option<Compute<T>>);

impl<T> Deep<T> {
    fn run(&self, m: &mut Machine<'_>) -> Result<T, Trap> {
        self.0.as_ref().map_or(Err(Trap), |compute| with_stack(|| compute(m)))
    }
}

impl<T> Drop for Deep<T> {
    fn drop(&mut self) {
        let compute = self.0.take();
        with_stack(|| drop(compute));
    }
}

/// `compute`, at `depth` levels inside the program, wrapped so that it always has enough stack.
pub(super) fn with_room<T: 'static>(depth: u32, compute: Compute<T>) -> Compute<T> {
    if !depth.is_multiple_of(LEVELS) {
        return compute;
    }
    let deep = Deep(Some(compute));
    Box::new(move |m| deep.run(m))
}
