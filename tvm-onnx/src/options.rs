//! Options that a caller of the importer may set.

use indexmap::{IndexMap, IndexSet};
use tvm_runtime::{Device, DimBound, DimBoundError};

use crate::tensor::MAX_TENSOR_BYTES;

/// Options of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportOptions {
    /// Values or bounds of symbolic dimensions, by their name in the model.
    pub dims: IndexMap<String, DimOption>,
    /// Shapes of inputs (`x`) and of elements of sequences (`x[0]`), by input name; they replace the shapes in the model.
    pub shapes: IndexMap<String, Vec<i64>>,
    /// Numbers of elements of inputs that are sequences, by input name. Element `i` of the input `x` is an input of its own,
    /// `x[i]`.
    pub sequences: IndexMap<String, usize>,
    /// Names of optional inputs that are not given; the others are.
    pub absent: IndexSet<String>,
    /// Where nodes compute, by the name of a node or an operator; other nodes compute on the device of the target.
    pub places: IndexMap<String, Device>,
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
            sequences: IndexMap::new(),
            absent: IndexSet::new(),
            places: IndexMap::new(),
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

    /// Sets the number of elements of the input `name`, a sequence.
    #[must_use]
    pub fn sequence(mut self, name: &str, len: usize) -> ImportOptions {
        self.sequences.insert(name.to_string(), len);
        self
    }

    /// Says that the optional input `name` is not given.
    #[must_use]
    pub fn absent(mut self, name: &str) -> ImportOptions {
        self.absent.insert(name.to_string());
        self
    }

    /// Says that the node `name`, or else all nodes of the operator `name`, compute on `device`. The nodes of its graphs do as well,
    /// unless they have a place of their own.
    #[must_use]
    pub fn place(mut self, name: &str, device: Device) -> ImportOptions {
        self.places.insert(name.to_string(), device);
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
