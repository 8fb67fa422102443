//! Operators of neural networks.
//!
//! Data is (batch, channel, spatial…), weights are (out, in, spatial…): `NCHW` and `OIHW` in two dimensions.
//!
//! TVM counterpart: `src/relax/op/nn`.

pub(super) mod activation;
pub(super) mod conv;
pub(super) mod norm;
pub(super) mod pad;
pub(super) mod pool;
mod window;
