//! In a steady state, a run of a model allocates no memory: the digits model and models with tuples and symbolic shapes.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::Path;

use tvm::codegen::compile_module;
use tvm::ir::IRModule;
use tvm::prelude::*;
use tvm::runtime::Value;
use tvm::runtime::vm::Workspace;

/// Counts the allocations of each thread.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<usize> = const { Cell::new(0) };
}

fn count() {
    // While a thread ends, its counter is gone.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: everything is passed on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(ptr, layout, new_size) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs `main` of `module` several times; returns the number of allocations of each run. The results are given back.
fn allocations(module: &IRModule, args: &[Value]) -> Vec<usize> {
    let vm = compile_module(module, &Target::host()).unwrap();
    let mut workspace = Workspace::new();
    let mut runs = Vec::with_capacity(6);
    let mut first = None;
    for _ in 0..6 {
        let before = ALLOCATIONS.get();
        let result = vm.invoke_in(&mut workspace, "main", args).unwrap();
        runs.push(ALLOCATIONS.get() - before);
        let text = format!("{result:?}");
        assert_eq!(*first.get_or_insert(text.clone()), text);
        workspace.recycle(result);
    }
    runs
}

fn floats(shape: &[i64]) -> Value {
    let len: i64 = shape.iter().product();
    Tensor::from_vec((0..len).map(|i| (i % 17) as f32 / 16.0).collect(), shape).unwrap().into()
}

#[test]
fn the_digits_model() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/data/digits_cnn/model.onnx");
    let module = tvm::onnx::import_file(&path, &Default::default()).unwrap();
    for batch in [1, 3] {
        let runs = allocations(&module, &[floats(&[batch, 1, 8, 8])]);
        assert!(runs[0] > 0, "the counter counts");
        assert_eq!(runs[2..], [0; 4], "batch {batch}: {runs:?}");
    }
}

#[relax::func(name = "main")]
fn fixed(x: Tensor<f32, 4, 8>, w: Tensor<f32, 8, 3>) -> (Tensor<f32, 4, 3>, Tensor<f32, 4, 8>) {
    let y = matmul(x, w);
    (softmax(y, axis = 1), relu(x - x.mean(axis = [1], keepdims = true)))
}

#[relax::func(name = "main")]
fn symbolic(x: Tensor<f32, n, m>, at: Tensor<i64, k>) -> Tensor<f32, k, m> {
    let rows = take(x, at, axis = 0);
    exp(rows + rows)
}

#[test]
fn graphs_of_several_results_and_symbolic_shapes() {
    let runs = allocations(&fixed::module().unwrap(), &[floats(&[4, 8]), floats(&[8, 3])]);
    assert_eq!(runs[2..], [0; 4], "{runs:?}");
    let at = Tensor::from_slice(&[2i64, 0, -1], &[3]).unwrap();
    let runs = allocations(&symbolic::module().unwrap(), &[floats(&[4, 5]), at.into()]);
    assert_eq!(runs[2..], [0; 4], "{runs:?}");
}
