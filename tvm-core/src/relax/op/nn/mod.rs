//! Operators of neural networks.
//!
//! Data has layout (batch, channel, spatial…) and weights (out, in, spatial…): `NCHW` and `OIHW` in two dimensions. The
//! weights of transposed convolutions are (in, out, spatial…).
//!
//! TVM counterpart: `src/relax/op/nn`.

pub(super) mod activation;
pub(super) mod conv;
pub(super) mod norm;
pub(super) mod pad;
pub(super) mod pool;
mod window;
