//! The primitives as methods of [`Schedule`](super::Schedule).

mod blocks;
mod buffers;
mod loops;
