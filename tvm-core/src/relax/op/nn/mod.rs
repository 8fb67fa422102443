//! Operators of neural networks.
//!
//! Unless attributes name other layouts (`tir::Layout`), data has the layout (batch, channel, spatial…) and weights have
//! (out, in, spatial…): `NCHW` and `OIHW` in two dimensions. The weights of transposed convolutions are
//! (in, out, spatial…).
//!
//! TVM counterpart: `src/relax/op/nn`.

pub(super) mod activation;
pub(super) mod attention;
pub(super) mod conv;
pub(super) mod dense;
mod dense_int4;
pub(super) mod norm;
pub(super) mod pad;
pub(super) mod pool;
pub(super) mod window;
pub(super) mod winograd;
