//! Typed ids for everything that has identity. They come from process-wide 64-bit counters, too wide to overflow in
//! practice, and are compared and hashed by value. Ids never reach any output: printing assigns unique names, and
//! structural hashing numbers binders in order.

use std::sync::atomic::{AtomicU64, Ordering};

macro_rules! ids {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
            pub struct $name(u64);

            impl $name {
                /// An id that no other node of this process has.
                pub fn fresh() -> Self {
                    static NEXT: AtomicU64 = AtomicU64::new(0);
                    Self(NEXT.fetch_add(1, Ordering::Relaxed))
                }
            }
        )*
    };
}

ids! {
    /// Identity of a [`Var`](super::Var); also identifies the loop that binds it.
    VarId;
    /// Identity of a [`Buffer`](crate::tir::Buffer).
    BufferId;
    /// Identity of a [`Block`](crate::tir::Block).
    BlockId;
    /// Identity of a [`GlobalVar`](super::GlobalVar).
    GlobalVarId;
    /// Identity of a [`Schedule`](crate::tir::schedule::Schedule).
    ScheduleId;
}
