//! Default schedules: of all programs here for machines of several sizes, and of products of random shapes.

use tvm::codegen::compile;
use tvm::dlight::schedule;
use tvm::ir::Var;
use tvm::prelude::*;
use tvm::runtime::{Element, HostArg, TensorView, TensorViewMut, WorkerPool};
use tvm::target::Machine;
use tvm::te::{TensorExpr, compute, create_prim_func, placeholder, reduce_axis, sum};
use tvm::tir::analysis::well_formed;
use tvm::tir::{PrimExpr, PrimFunc};
use tvm_testing::{Budget, Rng};

use crate::case::Case;
use crate::check::lowered;
use crate::{kernels, native};

/// A machine with vectors and registers of random number; small ones have whole tiles for small extents.
fn machine(rng: &mut Rng) -> Machine {
    let vector_bits = *rng.pick(&[64, 128, 256, 512]);
    Machine { vector_bits, vector_registers: *rng.pick(&[16, 32]), ..Machine::baseline() }
}

#[test]
fn fuzz_default_schedules() {
    let cases: Vec<Case> = kernels::all().map(Case::new).collect();
    let (mut failures, mut rules, mut rounds) = (Vec::new(), 0, 0);
    for seed in Budget::new("default_schedules", 2) {
        let mut rng = Rng::new(seed);
        let mut batch = Vec::new();
        rounds += 1;
        for case in &cases {
            let machine = machine(&mut rng);
            let Some((func, applied)) = schedule(&case.func, &machine) else { continue };
            rules += applied.len();
            let checked = well_formed(&func)
                .map_err(|err| format!("not well-formed: {err}"))
                .and_then(|()| case.interpret(&func, false))
                .and_then(|_| case.interpret(&lowered(&func)?, true));
            match checked {
                Ok(true) => batch.push((case, func)),
                Ok(false) => failures.push(format!("{}: too long", case.kernel.name)),
                Err(text) => failures
                    .push(format!("{} for {machine:?}: {text}\n{applied:?}\n{func}", case.kernel.name)),
            }
        }
        for target in native::targets() {
            for (i, text) in native::check_batch(&target, &batch) {
                failures.push(format!("{}: {text}\n{}", batch[i].0.kernel.name, batch[i].1));
            }
        }
    }
    assert!(failures.is_empty(), "{} failures:\n{}", failures.len(), failures.join("\n"));
    assert!(rules >= 50 * rounds, "{rules} blocks were scheduled in {rounds} rounds");
}

/// Extents at which tiles end: nothing, one, primes, a little less and more than a tile.
const EXTENTS: [i64; 16] = [0, 1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 47, 64, 67];

/// `max(a b + bias, 0)`, where each extent is a constant or a symbolic dimension, and operands may be transposed.
struct Product {
    /// Batches, rows, columns, terms.
    extents: [i64; 4],
    symbolic: [bool; 4],
    transposed: [bool; 2],
    fused: bool,
}

impl Product {
    fn random(rng: &mut Rng) -> Product {
        let mut extents = [0; 4].map(|_| *rng.pick(&EXTENTS));
        extents[0] = rng.range(1, 4);
        if !rng.one_in(8) {
            extents.iter_mut().for_each(|it| *it = (*it).max(1));
        }
        let symbolic = [0; 4].map(|_| rng.one_in(3));
        Product { extents, symbolic, transposed: [rng.one_in(3), rng.one_in(3)], fused: rng.one_in(2) }
    }

    /// Shapes of the operands, of the bias, and of the result.
    fn shapes<T: Clone>(&self, [batch, m, n, k]: &[T; 4]) -> [Vec<T>; 4] {
        let [mut a, mut b] = [[m, k], [k, n]];
        if self.transposed[0] {
            a.reverse();
        }
        if self.transposed[1] {
            b.reverse();
        }
        let of = |dims: &[&T]| dims.iter().map(|&it| it.clone()).collect();
        [of(&[batch, a[0], a[1]]), of(&[batch, b[0], b[1]]), of(&[n]), of(&[batch, m, n])]
    }

    fn program<T: Element>(&self) -> PrimFunc {
        let names = ["batch", "m", "n", "k"];
        let dims: [PrimExpr; 4] = std::array::from_fn(|i| match self.symbolic[i] {
            true => Var::index(names[i]).into(),
            false => self.extents[i].into(),
        });
        let [a, b, bias, out] = self.shapes(&dims);
        let (a, b) = (placeholder("a", a, T::DTYPE), placeholder("b", b, T::DTYPE));
        let bias = placeholder("bias", bias, T::DTYPE);
        let k = reduce_axis("k", dims[3].clone());
        let at = |x: &TensorExpr, transposed: bool, i: [PrimExpr; 3]| {
            let [batch, row, column] = i;
            x.at(if transposed { [batch, column, row] } else { [batch, row, column] })
        };
        let product = compute("product", out.clone(), &[&a, &b], |i: &[PrimExpr]| {
            let a = at(&a, self.transposed[0], [i[0].clone(), i[1].clone(), k.expr()]);
            sum(a * at(&b, self.transposed[1], [i[0].clone(), k.expr(), i[2].clone()]), &[&k])
        });
        let biased = compute("biased", out.clone(), &[&product, &bias], |i: &[PrimExpr]| {
            product.at(i.to_vec()) + bias.at([i[2].clone()])
        });
        let relu = compute("relu", out, &[&biased], |i: &[PrimExpr]| {
            let x = biased.at(i.to_vec());
            x.clone().max(PrimExpr::constant(0.0, x.dtype()))
        });
        create_prim_func("product", &[a, b, bias], &[if self.fused { relu } else { biased }])
            .expect("well formed")
    }

    /// Runs the program on small integers, whose sums are exact, and compares the result with a loop nest in Rust.
    fn check<T: Element + PartialOrd>(
        &self,
        target: &Target,
        pool: &WorkerPool,
        of: fn(i64) -> T,
    ) -> Result<(), String> {
        let kernel = compile(&self.program::<T>(), target).map_err(|err| err.to_string())?;
        let [a_shape, b_shape, bias_shape, out_shape] = self.shapes(&self.extents);
        let value = |i: i64, seed: i64| (i * seed) % 7 - 3;
        let data =
            |shape: &[i64], seed| (0..shape.iter().product()).map(|i| of(value(i, seed))).collect::<Vec<T>>();
        let (a, b, bias) = (data(&a_shape, 5), data(&b_shape, 11), data(&bias_shape, 3));
        let mut out = vec![of(99); out_shape.iter().product::<i64>() as usize];
        let error = |err: RuntimeError| err.to_string();
        kernel
            .call(
                &mut [
                    HostArg::In(TensorView::new(&a, &a_shape).map_err(error)?),
                    HostArg::In(TensorView::new(&b, &b_shape).map_err(error)?),
                    HostArg::In(TensorView::new(&bias, &bias_shape).map_err(error)?),
                    HostArg::Out(TensorViewMut::new(&mut out, &out_shape).map_err(error)?),
                ],
                Some(pool),
            )
            .map_err(error)?;
        let [_, m, n, k] = self.extents;
        for (at, got) in (0..).zip(&out) {
            let (batch, i, j) = (at / (m * n), at / n % m, at % n);
            let index = |transposed: bool, [row, column]: [i64; 2], [rows, columns]: [i64; 2]| {
                batch * rows * columns + if transposed { column * rows + row } else { row * columns + column }
            };
            let term = |p| {
                value(index(self.transposed[0], [i, p], [m, k]), 5)
                    * value(index(self.transposed[1], [p, j], [k, n]), 11)
            };
            let sum = (0..k).map(term).sum::<i64>() + value(j, 3);
            // Small integers wrap before the comparison with 0.
            let want = if self.fused && of(sum) < of(0) { of(0) } else { of(sum) };
            if *got != want {
                return Err(format!("element [{batch}, {i}, {j}] is {got:?}, expected {want:?}"));
            }
        }
        Ok(())
    }
}

#[test]
fn fuzz_default_products() {
    let pools = [1, 2, 7].map(WorkerPool::new);
    for seed in Budget::new("default_products", if cfg!(feature = "llvm") { 60 } else { 12 }) {
        let mut rng = Rng::new(seed);
        let product = Product::random(&mut rng);
        let targets = native::targets();
        let mut target = rng.pick(&targets).clone();
        let Machine { vector_bits, vector_registers, .. } = machine(&mut rng);
        target.machine = Machine { vector_bits, vector_registers, ..target.machine };
        let pool = rng.pick(&pools);
        let (dtype, res) = match rng.below(4) {
            0 => ("f32", product.check::<f32>(&target, pool, |it| it as f32)),
            1 => ("f64", product.check::<f64>(&target, pool, |it| it as f64)),
            2 => ("i32", product.check::<i32>(&target, pool, |it| it as i32)),
            _ => ("i8", product.check::<i8>(&target, pool, |it| it as i8)),
        };
        let Product { extents, symbolic, transposed, fused } = &product;
        res.unwrap_or_else(|err| {
            panic!(
                "seed {seed}: {dtype}, {extents:?}, symbolic {symbolic:?}, transposed {transposed:?}, fused {fused}, \
                 {target}: {err}\n{}",
                product.program::<f32>()
            )
        });
    }
}
