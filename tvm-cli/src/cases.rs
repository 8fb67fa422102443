//! Data sets in the layout of ONNX backend tests: `test_data_set_<i>` directories with `input_<j>` and `output_<j>` files.
//!
//! A model whose inputs are sequences or optional values is imported for what a data set gives: lengths, shapes of elements,
//! which values are absent.

use std::fs;
use std::path::{Path, PathBuf};

use tvm_core::target::Target;
use tvm_onnx::proto::{TypeProto, ValueInfoProto};
use tvm_onnx::{DataValue, ImportOptions, ModelFile};
use tvm_runtime::Tensor;
use tvm_runtime::vm::VmConfig;

use crate::data;
use crate::error::Error;
use crate::model::Model;

/// The data sets of a test, in the order of their numbers.
pub(crate) fn data_sets(dir: &Path) -> Vec<PathBuf> {
    (0..).map(|i| dir.join(format!("test_data_set_{i}"))).take_while(|it| it.is_dir()).collect()
}

/// The inputs or outputs of a data set.
#[derive(Default)]
pub(crate) struct Values {
    /// The tensors, those of sequences one after the other.
    pub(crate) tensors: Vec<Tensor>,
    /// The options with which a model takes inputs of these forms.
    pub(crate) options: ImportOptions,
}

impl Values {
    /// Reads the values of a data set whose files begin with `stem`; `types` are their names and types in the model.
    fn read(set: &Path, stem: &str, types: &[(&str, TypeProto)]) -> Result<Values, Error> {
        let mut res = Values::default();
        for (path, (name, ty)) in data::numbered(set, stem).iter().zip(types) {
            if ty.sequence_type.is_none() && ty.optional_type.is_none() {
                res.tensors.push(data::read(path)?);
                continue;
            }
            let bytes = fs::read(path).map_err(Error::io(path))?;
            let value = DataValue::read(&bytes, ty)?;
            if ty.optional_type.is_some() && matches!(value, DataValue::Absent) {
                res.options.absent.insert(name.to_string());
            }
            res.add(name, value);
        }
        Ok(res)
    }

    fn add(&mut self, name: &str, value: DataValue) {
        match value {
            DataValue::Tensor(tensor) => {
                self.options.shapes.insert(name.to_string(), tensor.shape().to_vec());
                self.tensors.push(tensor);
            }
            DataValue::Sequence(elements) => {
                self.options.sequences.insert(name.to_string(), elements.len());
                for (i, element) in elements.into_iter().enumerate() {
                    self.add(&format!("{name}[{i}]"), element);
                }
            }
            DataValue::Absent => {}
        }
    }
}

/// The model of a test, compiled for the forms of its inputs.
pub(crate) struct Case {
    path: PathBuf,
    file: ModelFile,
    options: ImportOptions,
    target: Target,
    config: VmConfig,
    compiled: Option<(Model, ImportOptions)>,
}

impl Case {
    /// Reads the model in a file. The options hold for every data set.
    pub(crate) fn read(
        path: PathBuf,
        options: ImportOptions,
        target: Target,
        config: VmConfig,
    ) -> Result<Case, Error> {
        let file = ModelFile::open(&path).map_err(Error::file(&path))?;
        Ok(Case { path, file, options, target, config, compiled: None })
    }

    fn infos(&self, of: fn(&tvm_onnx::proto::GraphProto) -> &[ValueInfoProto]) -> Vec<(&str, TypeProto)> {
        let infos = self.file.proto().graph.as_ref().map_or(&[][..], of);
        infos.iter().map(|it| (it.name.as_str(), it.ty.clone().unwrap_or_default())).collect()
    }

    /// Names and types of the outputs.
    pub(crate) fn outputs(&self) -> Vec<(&str, TypeProto)> {
        self.infos(|graph| &graph.output)
    }

    /// Reads the inputs of a data set.
    pub(crate) fn inputs(&self, set: &Path) -> Result<Values, Error> {
        Values::read(set, "input", &self.infos(|graph| &graph.input))
    }

    /// Reads the expected outputs of a data set.
    pub(crate) fn expected(&self, set: &Path) -> Result<Values, Error> {
        Values::read(set, "output", &self.outputs())
    }

    /// Imports the model for inputs of the forms of `values` and compiles it, unless that was done for the data set before.
    pub(crate) fn compile(&mut self, values: &Values, phase: &mut &'static str) -> Result<&Model, Error> {
        let mut options = self.options.clone();
        let given = &values.options;
        options.shapes.extend(given.shapes.iter().map(|(name, shape)| (name.clone(), shape.clone())));
        options.sequences.extend(given.sequences.iter().map(|(name, len)| (name.clone(), *len)));
        options.absent.extend(given.absent.iter().cloned());
        let compiled = match self.compiled.take().filter(|(_, before)| *before == options) {
            Some(compiled) => compiled,
            None => {
                *phase = "load";
                let module = self.file.import(&options).map_err(Error::file(&self.path))?;
                *phase = "compile";
                (Model::compile(module, &self.target, self.config.clone())?, options)
            }
        };
        Ok(&self.compiled.insert(compiled).0)
    }
}
