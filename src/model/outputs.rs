//! The outputs of a call, by position and by name.

use std::fmt;
use std::ops::Index;
use std::sync::Arc;

use tvm_runtime::{Device, Tensor, Value};

use super::ModelError;
use super::info::TensorInfo;

/// The outputs of a call, in the order of the model, on the host.
///
/// `outputs[0]` and `outputs["logits"]` are the tensors; as for a `Vec`, there must be such an output. [`Outputs::get`]
/// returns an error where there is none. `for tensor in outputs` takes all of them.
#[derive(Clone)]
pub struct Outputs {
    infos: Arc<[TensorInfo]>,
    values: Vec<Option<Tensor>>,
}

/// The position or the name of an output.
pub trait OutputKey: fmt::Display + Copy {
    #[doc(hidden)]
    fn find(self, infos: &[TensorInfo]) -> Option<usize>;
}

impl OutputKey for usize {
    fn find(self, infos: &[TensorInfo]) -> Option<usize> {
        Some(self).filter(|&it| it < infos.len())
    }
}

impl OutputKey for &str {
    fn find(self, infos: &[TensorInfo]) -> Option<usize> {
        infos.iter().position(|info| info.name == self)
    }
}

impl Outputs {
    pub(super) fn new(infos: Arc<[TensorInfo]>, result: Value) -> Result<Outputs, ModelError> {
        let results = match result {
            Value::Adt(tuple) => tuple.fields().to_vec(),
            single => vec![single],
        };
        let tensor = |(i, value): (usize, Value)| match value {
            Value::Tensor(tensor) => Ok(Some(tensor.to_device(Device::cpu())?)),
            other => {
                let output = infos.get(i).map_or_else(|| i.to_string(), |info| info.name.clone());
                Err(ModelError::OutputKind { output, got: other.kind() })
            }
        };
        let values = results.into_iter().enumerate().map(tensor).collect::<Result<_, _>>()?;
        Ok(Outputs { infos, values })
    }

    /// The names of the outputs.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.infos.iter().map(|info| info.name.as_str())
    }

    /// Number of outputs.
    pub fn len(&self) -> usize {
        self.values.len()
    }

    /// True if the model has no output.
    pub fn is_empty(&self) -> bool {
        self.values.is_empty()
    }

    /// The output at a position or of a name.
    ///
    /// # Errors
    /// When there is none, or it was taken.
    pub fn get(&self, key: impl OutputKey) -> Result<&Tensor, ModelError> {
        let index = self.index_of(key)?;
        self.values.get(index).and_then(Option::as_ref).ok_or_else(|| self.taken(index))
    }

    /// Takes the output at a position or of a name; the positions of the others stay.
    ///
    /// # Errors
    /// When there is none, or it was taken before.
    pub fn take(&mut self, key: impl OutputKey) -> Result<Tensor, ModelError> {
        let index = self.index_of(key)?;
        self.values.get_mut(index).and_then(Option::take).ok_or_else(|| self.taken(index))
    }

    /// Name and tensor of each output that was not taken.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &Tensor)> {
        self.names().zip(&self.values).filter_map(|(name, it)| Some((name, it.as_ref()?)))
    }

    fn index_of(&self, key: impl OutputKey) -> Result<usize, ModelError> {
        key.find(&self.infos).ok_or_else(|| ModelError::UnknownOutput {
            name: key.to_string(),
            outputs: self.names().map(String::from).collect(),
        })
    }

    fn taken(&self, index: usize) -> ModelError {
        ModelError::OutputTaken { output: self.names().nth(index).unwrap_or_default().to_string() }
    }
}

impl<K: OutputKey> Index<K> for Outputs {
    type Output = Tensor;

    fn index(&self, key: K) -> &Tensor {
        self.get(key).expect("an index is an output that there is, and that was not taken")
    }
}

/// The outputs that were not taken.
impl IntoIterator for Outputs {
    type Item = Tensor;
    type IntoIter = std::iter::Flatten<std::vec::IntoIter<Option<Tensor>>>;

    fn into_iter(self) -> Self::IntoIter {
        self.values.into_iter().flatten()
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}
