//! What the machine reaches with the same target and number of threads: operations per second in a product, and bytes per second
//! in a loop that only reads and writes, for data of several sizes.

use std::time::Instant;

use tvm_codegen::compile;
use tvm_core::target::Target;
use tvm_core::te::{self, TensorExpr};
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_runtime::{DataType, HostArg, Kernel, Tensor, TensorView, TensorViewMut, ThreadPool};

use crate::error::Error;

/// Extent of the product that shows the rate of operations.
const PRODUCT: i64 = 256;
/// Bytes that the loops read and write: in the caches near the cores, in the shared one, in memory.
const SIZES: [i64; 5] = [64 << 10, 512 << 10, 4 << 20, 32 << 20, 256 << 20];

/// What the machine reaches.
#[derive(Clone, Debug)]
pub(crate) struct Machine {
    /// Operations of `f32` per second.
    pub(crate) flops: f64,
    /// Bytes that are read and written, and how many per second.
    pub(crate) bandwidth: Vec<(f64, f64)>,
}

/// What bounds a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bound {
    /// Operations.
    Compute,
    /// Reading and writing.
    Memory,
}

impl Machine {
    /// Measures the machine, in about half a second.
    pub(crate) fn measure(target: &Target, pool: Option<&dyn ThreadPool>) -> Result<Machine, Error> {
        let flops =
            2.0 * (PRODUCT as f64).powi(3) / seconds(&product()?, target, pool, &[PRODUCT, PRODUCT], 2)?;
        let mut bandwidth = Vec::new();
        for bytes in SIZES {
            let elements = bytes / 8;
            bandwidth.push((
                bytes as f64,
                bytes as f64 / seconds(&copy(elements)?, target, pool, &[elements], 1)?,
            ));
        }
        Ok(Machine { flops, bandwidth })
    }

    /// Bytes per second for a kernel that reads and writes so many bytes: what is reached with at least as many, as a small loop
    /// is over before it is fast.
    fn bandwidth(&self, bytes: f64) -> f64 {
        let fits = self.bandwidth.iter().filter(|it| bytes <= it.0).map(|it| it.1).reduce(f64::max);
        fits.or(self.bandwidth.last().map(|it| it.1)).unwrap_or(f64::INFINITY)
    }

    /// The least seconds for these operations and bytes, and what they are spent on.
    pub(crate) fn least(&self, flops: f64, bytes: f64) -> (f64, Bound) {
        let (compute, memory) = (flops / self.flops, bytes / self.bandwidth(bytes));
        if compute > memory { (compute, Bound::Compute) } else { (memory, Bound::Memory) }
    }
}

/// `c = a b`, of square matrices.
fn product() -> Result<PrimFunc, Error> {
    let shape = vec![PrimExpr::index(PRODUCT); 2];
    let [a, b] = ["a", "b"].map(|name| te::placeholder(name, shape.clone(), DataType::F32));
    let k = te::reduce_axis("k", PRODUCT);
    let c = te::compute("c", shape, &[&a, &b], |at: &[PrimExpr]| {
        te::sum(a.at([at[0].clone(), k.expr()]) * b.at([k.expr(), at[1].clone()]), &[&k])
    });
    program("product", &[a, b], c)
}

/// `c = a + 1`.
fn copy(elements: i64) -> Result<PrimFunc, Error> {
    let shape = vec![PrimExpr::index(elements)];
    let a = te::placeholder("a", shape.clone(), DataType::F32);
    let c = te::compute("c", shape, &[&a], |at: &[PrimExpr]| {
        a.at([at[0].clone()]) + PrimExpr::constant(1.0, DataType::F32)
    });
    program("copy", &[a], c)
}

fn program(name: &str, inputs: &[TensorExpr], output: TensorExpr) -> Result<PrimFunc, Error> {
    te::create_prim_func(name, inputs, &[output]).map_err(|err| Error::failed(err.to_string()))
}

/// The least time of a call, of several; all arguments have the same shape, the last one is the result.
fn seconds(
    func: &PrimFunc,
    target: &Target,
    pool: Option<&dyn ThreadPool>,
    shape: &[i64],
    inputs: usize,
) -> Result<f64, Error> {
    /// At least so many calls, and so much time.
    const CALLS: (usize, f64) = (4, 0.03);
    let kernel: Kernel = compile(func, target)?;
    let input = Tensor::zeros(shape, DataType::F32)?;
    let (mut output, mut room) = (Tensor::zeros(shape, DataType::F32)?, Vec::new());
    let mut args = Vec::new();
    for _ in 0..inputs {
        args.push(HostArg::In(TensorView::of(&input)?));
    }
    args.push(HostArg::Out(TensorViewMut::of(&mut output, &mut room)?));
    kernel.call(&mut args, pool)?;
    let (begin, mut least, mut calls) = (Instant::now(), f64::INFINITY, 0);
    while calls < CALLS.0 || begin.elapsed().as_secs_f64() < CALLS.1 {
        let start = Instant::now();
        kernel.call(&mut args, pool)?;
        least = least.min(start.elapsed().as_secs_f64());
        calls += 1;
    }
    Ok(least.max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slower_of_both_bounds() {
        let machine = Machine { flops: 100.0, bandwidth: vec![(1.0, 20.0), (10.0, 50.0), (1000.0, 5.0)] };
        // Operations, bytes; the least seconds.
        let cases = [
            (200.0, 10.0, 2.0, Bound::Compute),
            (1.0, 1.0, 0.02, Bound::Memory),
            (10.0, 10.0, 0.2, Bound::Memory),
            (10.0, 100.0, 20.0, Bound::Memory),
            (10.0, 5000.0, 1000.0, Bound::Memory),
        ];
        for (flops, bytes, seconds, bound) in cases {
            assert_eq!(machine.least(flops, bytes), (seconds, bound), "{flops} operations, {bytes} bytes");
        }
    }

    #[test]
    fn a_machine_can_be_measured() {
        let machine = Machine::measure(&Target::c(), None).unwrap();
        let rates = machine.bandwidth.iter().map(|it| it.1).chain([machine.flops]);
        assert!(rates.into_iter().all(|it| it.is_finite() && it > 1e6), "{machine:?}");
    }
}
