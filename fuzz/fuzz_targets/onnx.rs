//! ONNX models: no bytes make the decoder or the importer panic.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tvm_onnx::{ImportOptions, import, read_npy, read_tensor};

fuzz_target!(|bytes: &[u8]| {
    let options =
        ImportOptions { max_tensor_bytes: 16 << 20, max_total_bytes: 64 << 20, ..ImportOptions::default() };
    let _ = import(bytes, None, &options);
    let _ = read_tensor(bytes);
    let _ = read_npy(bytes);
});
