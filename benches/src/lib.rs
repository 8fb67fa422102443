//! Benchmarks: `cargo bench -p tvm-benches [--features llvm]`. Nothing in the library itself.
