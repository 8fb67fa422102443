//! Programs with tensor intrinsics: all executors, on CPUs with and without the instructions, give the results of the program
//! before it was scheduled.

use tvm_core::ir::{BaseFunc, IRModule};
use tvm_core::te::{compute, create_prim_func, placeholder, reduce_axis, sum};
use tvm_core::tir::schedule::{Schedule, ScheduleError};
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_runtime::{DataType, Value};

use super::data::Rng;
use super::narrow::{compare_with, levels, tensor};

/// An intrinsic, the rows, columns and terms of its product, the types of its parameters, and whether columns and terms of the
/// second one are in tiles.
type Case = (&'static str, [i64; 3], [DataType; 3], bool);

const M: i64 = 8;
const N: i64 = 32;
const K: i64 = 12;

fn product(name: &str, [_, n, k]: [i64; 3], [a, b, c]: [DataType; 3], packed: bool) -> PrimFunc {
    let x = placeholder("x", [PrimExpr::index(M), PrimExpr::index(K)], a);
    let shape = if packed { vec![N / n, K / k, n, k] } else { vec![K, N] };
    let w = placeholder("w", shape.into_iter().map(PrimExpr::index).collect::<Vec<_>>(), b);
    let r = reduce_axis("r", K);
    let y = compute("y", [PrimExpr::index(M), PrimExpr::index(N)], &[&x, &w], |i: &[PrimExpr]| {
        let (j, at) = (i[1].clone(), r.expr());
        let of_w = match packed {
            true => {
                vec![j.clone().floordiv(n), at.clone().floordiv(k), j.floormod(n), at.clone().floormod(k)]
            }
            false => vec![at.clone(), j],
        };
        sum(x.at([i[0].clone(), at]).cast(c) * w.at(of_w).cast(c), &[&r])
    });
    create_prim_func(name, &[x, w], &[y]).unwrap()
}

fn tensorized(
    func: &PrimFunc,
    (intrin, tile, _, _): Case,
    decompose: bool,
) -> Result<PrimFunc, ScheduleError> {
    let mut s = Schedule::new(tvm_core::tir::transform::renew_defs(func))?;
    let y = s.block("y")?;
    let [i, j, r] = s.loops(y)?;
    let [i_0, i_1] = s.split(i, [None, Some(tile[0])])?;
    let [j_0, j_1] = s.split(j, [None, Some(tile[1])])?;
    let [r_0, r_1] = s.split(r, [None, Some(tile[2])])?;
    s.reorder([i_0, j_0, r_0, i_1, j_1, r_1])?;
    let block = s.tensorize(if tile[0] == 1 { j_1 } else { i_1 }, intrin)?;
    if decompose {
        s.decompose_reduction(block, r_0)?;
    }
    s.parallel(i_0)?;
    Ok(s.into_func())
}

#[test]
fn tensor_intrinsics_on_all_executors() {
    use DataType as D;
    let cases: [Case; 8] = [
        ("fma_1x16_f32", [1, 16, 1], [D::F32; 3], false),
        ("fma_4x16_f32", [4, 16, 1], [D::F32; 3], false),
        ("fma_8x16_f32", [8, 16, 1], [D::F32; 3], false),
        ("dot_8x4_vnni", [1, 8, 4], [D::U8, D::I8, D::I32], true),
        ("dot_16x4_vnni", [1, 16, 4], [D::U8, D::I8, D::I32], true),
        ("dot_16x2_bf16", [1, 16, 2], [D::BF16, D::BF16, D::F32], true),
        ("dot_4x4_i8i8s32_sdot", [1, 4, 4], [D::I8, D::I8, D::I32], true),
        ("dot_4x4_u8u8u32_udot", [1, 4, 4], [D::U8, D::U8, D::U32], true),
    ];
    let mut rng = Rng(31);
    let (mut plain, mut scheduled) = (IRModule::new(), IRModule::new());
    let mut runs: Vec<(String, Vec<Value>)> = Vec::new();
    for case in cases {
        for decompose in [false, true] {
            let name = format!("{}_{decompose}", case.0);
            let func = product(&name, case.1, case.2, case.3);
            let new = tensorized(&func, case, decompose).unwrap_or_else(|err| panic!("{err}"));
            let args = func.params.iter().zip(case.2).map(|(param, dtype)| {
                let shape = param.buffer().unwrap().const_shape().unwrap();
                match dtype {
                    D::F32 => {
                        let small = tensor(&shape, D::I8, &mut rng);
                        let small = small.as_tensor().unwrap().to_f64s().unwrap();
                        Value::Tensor(tvm_runtime::Tensor::from_f64s(&small, &shape, dtype).unwrap())
                    }
                    _ => tensor(&shape, dtype, &mut rng),
                }
            });
            runs.push((name.clone(), args.collect()));
            plain.add(name.as_str(), BaseFunc::Prim(func.into()));
            scheduled.add(name.as_str(), BaseFunc::Prim(new.into()));
        }
    }
    let runs: Vec<(&str, Vec<Value>)> =
        runs.iter().map(|(name, args)| (name.as_str(), args.clone())).collect();
    compare_with(&plain, &scheduled, &runs, &levels());
}
