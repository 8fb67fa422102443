//! What a caller may say about an import.

use indexmap::IndexMap;

use crate::tensor::MAX_TENSOR_BYTES;

/// Options of an import.
#[derive(Clone, Debug)]
pub struct ImportOptions {
    /// What is known of symbolic dimensions, by their name in the model.
    pub dims: IndexMap<String, DimSpec>,
    /// Shapes of inputs in place of the model's own, by the name of the input.
    pub shapes: IndexMap<String, Vec<i64>>,
    /// Largest tensor, in bytes; models with larger constants or inner values of known size are refused.
    pub max_tensor_bytes: u64,
    /// Largest sum of the sizes of all constants and inner values of known size, in bytes.
    pub max_total_bytes: u64,
}

/// What is known of a dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DimSpec {
    /// It is this number.
    Fixed(i64),
    /// It stays symbolic and lies between these, both included.
    Range(i64, i64),
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
    /// With the dimension `name` known to be `spec`.
    #[must_use]
    pub fn dim(mut self, name: &str, spec: DimSpec) -> ImportOptions {
        self.dims.insert(name.to_string(), spec);
        self
    }

    /// With the shape of the input `name`.
    #[must_use]
    pub fn shape(mut self, name: &str, shape: &[i64]) -> ImportOptions {
        self.shapes.insert(name.to_string(), shape.to_vec());
        self
    }
}

impl From<i64> for DimSpec {
    fn from(value: i64) -> DimSpec {
        DimSpec::Fixed(value)
    }
}

impl From<std::ops::RangeInclusive<i64>> for DimSpec {
    fn from(range: std::ops::RangeInclusive<i64>) -> DimSpec {
        DimSpec::Range(*range.start(), *range.end())
    }
}
