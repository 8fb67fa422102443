//! Text forms of data types and targets: no text makes the parsers panic, and what they accept prints and parses back to
//! an equal value.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tvm_core::target::Target;
use tvm_runtime::DataType;

fuzz_target!(|text: &str| {
    if let Ok(dtype) = text.parse::<DataType>() {
        assert_eq!(dtype.to_string().parse(), Ok(dtype), "{text:?}");
    }
    if let Ok(target) = text.parse::<Target>() {
        assert_eq!(target.to_string().parse(), Ok(target), "{text:?}");
    }
});
