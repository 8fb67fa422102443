//! Traces of schedules: no text makes the reader or a primitive panic, what is refused leaves the program as it was up to
//! there, and every program on the way is well-formed.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tvm_core::te;
use tvm_core::tir::analysis::well_formed;
use tvm_core::tir::schedule::{Schedule, Trace};
use tvm_core::tir::{PrimExpr, PrimFunc};
use tvm_core::topi;
use tvm_runtime::DataType;

/// `relu(a @ b)` of 16 by 16 elements.
fn program() -> PrimFunc {
    let shape = || [PrimExpr::index(16), PrimExpr::index(16)];
    let (a, b) = (te::placeholder("a", shape(), DataType::F32), te::placeholder("b", shape(), DataType::F32));
    let product = topi::matmul(&a, &b, &shape(), DataType::F32);
    let relu = topi::map("relu", &product, topi::relu);
    te::create_prim_func("main", &[a, b], &[relu]).expect("a program of two stages")
}

fuzz_target!(|text: &str| {
    let Ok(trace) = Trace::from_json(text) else { return };
    let mut schedule = Schedule::new(program()).expect("it can be scheduled");
    let _refused = trace.apply_to_schedule(&mut schedule);
    well_formed(schedule.func()).unwrap_or_else(|err| panic!("{err}\n{}", schedule.func()));
});
