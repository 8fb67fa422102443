//! The computations behind graph operators, as tensor expressions; one file per family.
//!
//! Everything here takes and gives [`te::Tensor`](crate::te::Tensor)s of known symbolic shapes; what the shapes and
//! types must be is checked by the operators in [`crate::relax::op`].
//!
//! TVM counterpart: `tvm::topi`.

mod activation;
mod broadcast;

pub use activation::{gelu, gelu_tanh, is_finite, is_inf, relu, selu};
pub use broadcast::{Operand, broadcast};
