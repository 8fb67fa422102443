//! Options of one call: its thread pool, and a token that cancels it.
//!
//! TVM counterpart: none.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::thread_pool::ThreadPool;

/// Options of one call of a [`Vm`](super::Vm); the default ones change nothing.
#[derive(Clone, Copy, Default)]
pub struct CallOptions<'a> {
    /// Thread pool of the kernels; `None` for the one of the virtual machine.
    pub pool: Option<&'a dyn ThreadPool>,
    /// Ends the call between two instructions once it is cancelled. A kernel of machine code that runs is finished; the
    /// reference interpreter stops inside of a kernel.
    pub cancel: Option<&'a CancelToken>,
}

impl fmt::Debug for CallOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let threads = self.pool.map(|it| it.num_threads());
        f.debug_struct("CallOptions").field("threads", &threads).field("cancel", &self.cancel).finish()
    }
}

/// Cancels the calls that were given it. All clones are one token, and a token stays cancelled.
#[derive(Clone, Debug, Default)]
pub struct CancelToken(Arc<AtomicBool>);

impl CancelToken {
    /// Makes a token that is not cancelled.
    pub fn new() -> CancelToken {
        CancelToken::default()
    }

    /// Cancels the calls that have this token, and those that will be given it.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// True once the token was cancelled.
    #[inline]
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}
