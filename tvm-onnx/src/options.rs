//! Options that a caller of the importer may set.

use indexmap::IndexMap;
use tvm_runtime::{DimBound, DimBoundError};

use crate::tensor::MAX_TENSOR_BYTES;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// Values or bounds of symbolic dimensions, by their name in the model.
    pub dims: IndexMap<String, DimOption>,
    /// Shapes of inputs, by input name; they replace the shapes in the model.
    pub shapes: IndexMap<String, Vec<i64>>,
    /// Largest tensor, in bytes. Models with larger constants or intermediate values of known size are rejected.
    pub max_tensor_bytes: u64,
    /// Largest total size of all constants and intermediate values of known size, in bytes.
    pub max_total_bytes: u64,
}

/// Value or bounds of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimOption {
    /// The dimension has this value.
    Fixed(i64),
    /// The dimension stays symbolic and lies between these values, both included; `i64::MAX` is no maximum.
    Range(i64, i64),
}

impl DimOption {
    /// The values that the dimension may take.
    ///
    /// # Errors
    /// When there are none, or negative ones.
    pub fn bound(self) -> Result<DimBound, DimBoundError> {
        match self {
            DimOption::Fixed(value) => DimBound::between(value, value),
            DimOption::Range(low, high) => DimBound::between(low, high),
        }
    }
}

impl Default for ImportOptions {
    fn default() -> ImportOptions {
        ImportOptions {
            dims: IndexMap::new(),
            shapes: IndexMap::new(),
            max_tensor_bytes: MAX_TENSOR_BYTES,
            max_total_bytes: u64::MAX,
        }
    }
}

impl ImportOptions {
    /// Sets the value or bounds of the dimension `name`.
    #[must_use]
    pub fn dim(mut self, name: &str, spec: DimOption) -> ImportOptions {
        self.dims.insert(name.to_string(), spec);
        self
    }

    /// Sets the shape of the input `name`.
    #[must_use]
    pub fn shape(mut self, name: &str, shape: &[i64]) -> ImportOptions {
        self.shapes.insert(name.to_string(), shape.to_vec());
        self
    }
}

impl From<i64> for DimOption {
    fn from(value: i64) -> DimOption {
        DimOption::Fixed(value)
    }
}

impl From<std::ops::RangeInclusive<i64>> for DimOption {
    fn from(range: std::ops::RangeInclusive<i64>) -> DimOption {
        DimOption::Range(*range.start(), *range.end())
    }
}
