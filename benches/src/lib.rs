//! Benchmarks: `cargo bench -p tvm-benches [--features llvm]`. The library itself is empty.
