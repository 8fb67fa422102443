//! Default schedules: random programs of every family, on machines of random sizes, compared with the interpreter, which
//! runs them as they are written.
//!
//! Every kernel runs on 1, 2 and 7 threads, with its tensors behind and in front of pages that nobody may touch
//! (`guard.rs`), and has the same bits each time. How far it may be from the interpreter is stated with each family, as a
//! [`Bound`](program::Bound). Inputs hold NaN, infinities, zeros of both signs and subnormal numbers, too.

mod attention;
mod batch;
mod choices;
mod elements;
mod gpu;
mod guard;
mod indexed;
mod matrix;
mod products;
mod program;
mod reductions;
#[cfg(feature = "ndarray")]
mod strided;
mod windows;
mod written;

use tvm_testing::Rng;

/// Extents at which tiles end: nothing, one, primes, a little less and more than a tile.
const EXTENTS: [i64; 20] = [0, 1, 2, 3, 5, 6, 7, 8, 9, 13, 15, 16, 17, 31, 32, 33, 47, 64, 67, 129];

/// Random extents, one of each list, with a product of at most `most`. Empty ones are rare.
fn below<const N: usize>(rng: &mut Rng, most: i64, lists: [&[i64]; N]) -> [i64; N] {
    loop {
        let res = lists.map(|list| *rng.pick(list));
        if res.iter().product::<i64>() <= most && (!res.contains(&0) || rng.one_in(6)) {
            return res;
        }
    }
}

/// Tests of a family of programs: name, batches and programs of each in the short form, rules that it reaches, how its
/// programs are made.
macro_rules! families {
    ($($test:ident $name:literal $many:expr, [$($rule:literal),*]: $($make:path),*;)*) => {$(
        #[test]
        fn $test() {
            let makes: &[fn(&mut Rng) -> program::Program] = &[$($make),*];
            batch::fuzz($name, $many, &[$($rule),*], |rng| (rng.pick(makes))(rng));
        }
    )*};
}

families! {
    fuzz_default_products "default_products" (3, 10), ["skinny product", "contraction", "reduction"]:
        products::product;
    fuzz_default_windows "default_windows" (2, 10), ["contraction", "spatial"]:
        windows::convolution, windows::pointwise, windows::pooling, windows::transposed;
    fuzz_default_reductions "default_reductions" (2, 12), ["contraction", "rows", "reduction", "spatial"]:
        reductions::reduction, reductions::norm, reductions::rows, reductions::position_or_softmax;
    fuzz_default_elements "default_elements" (2, 12), ["spatial"]:
        elements::chain, elements::motion, elements::function, elements::blocked;
    fuzz_default_indexed "default_indexed" (2, 10), ["ordered", "spatial"]:
        indexed::gather, indexed::scatter, indexed::running, indexed::sorted;
    fuzz_default_attention "default_attention" (1, 6), ["attention"]:
        attention::of_heads;
    fuzz_default_choices "default_choices" (2, 8), ["choice"]:
        choices::winograd, choices::butterfly;
}
