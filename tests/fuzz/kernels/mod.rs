//! The programs that the schedules transform.

mod expressions;
mod indirect;
mod inits;
mod outside;
mod plain;
mod products;
mod rows;
mod structure;
mod tensors;

use tvm::ir::IrError;
use tvm::tir::PrimFunc;

/// A program to be scheduled.
pub(crate) struct Kernel {
    pub(crate) name: &'static str,
    pub(crate) build: fn() -> Result<PrimFunc, IrError>,
    /// Tolerance of the results. Data are small integers, so sums and products are exact in every order.
    pub(crate) tolerance: f64,
}

macro_rules! kernels {
    ($($module:ident: $($name:ident $(~ $tolerance:literal)?),* ;)*) => {
        &[$($(Kernel {
            name: stringify!($name),
            build: $module::$name::prim_func,
            tolerance: 0.0 $(+ $tolerance)?,
        }),*),*]
    };
}

/// Programs written in the DSL.
const WRITTEN: &[Kernel] = kernels! {
    products: matmul, matmul16, matmul_transposed, batched, batch_of_one, conv, padded, halo, halo9, max_pool,
        chain;
    rows: softmax ~ 1e-5, softmax_plain ~ 1e-5, layer_norm ~ 1e-4, both_sums, argmax, total, any_row, scan_rows,
        prefix_sum, suffix_sums, from_one, columns_outside;
    indirect: gather, gather_staged, scatter, histogram, csr, ragged, collatz, local_row;
    inits: one_tile, first_terms, one_of_one, computed_again, overlapping, reduction_of_none, reduction_in_parts;
    plain: running_rows, running_columns, life, distance;
    outside: matched_rows, matched_tiles, two_names, asserted;
    structure: if_scalar, if_loop_variable, if_memory, if_other_memory, tiles, odd_bindings, strided, reversed, offset,
        writers, in_place, shifted_in_place, nested, logic, stencil, transpose;
    tensors: tile_product ~ 1e-5, tile_rows ~ 1e-5, tile_relu ~ 1e-5, tile_packed, tile_signed, tile_unsigned, tile_pairs ~ 1e-5,
        tile_batch ~ 1e-5;
};

/// Programs built from tensor expressions.
const EXPRESSIONS: &[Kernel] = &[
    Kernel { name: "dense", build: expressions::dense, tolerance: 0.0 },
    Kernel { name: "dense_symbolic", build: expressions::dense_symbolic, tolerance: 0.0 },
    Kernel { name: "dense_not_empty", build: expressions::dense_not_empty, tolerance: 0.0 },
    Kernel { name: "window", build: expressions::window, tolerance: 0.0 },
    Kernel { name: "rows", build: expressions::rows, tolerance: 0.0 },
    Kernel { name: "positions", build: expressions::positions, tolerance: 0.0 },
];

/// All programs.
pub(crate) fn all() -> impl Iterator<Item = &'static Kernel> {
    WRITTEN.iter().chain(EXPRESSIONS)
}
