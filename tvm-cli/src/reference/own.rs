//! This program itself, with the options of its own: the same model in f32, say.

use std::path::PathBuf;

use tvm_onnx::proto::{GraphProto, ModelProto, ValueInfoProto};
use tvm_runtime::Tensor;
use tvm_runtime::vm::VmConfig;

use super::Reference;
use crate::error::Error;
use crate::model::{Model, Options};
use crate::progress::Progress;

/// A model that is compiled for the values that are asked for.
pub(crate) struct Own<'a> {
    pub(crate) proto: ModelProto,
    /// Where the model is.
    pub(crate) file: PathBuf,
    pub(crate) folder: PathBuf,
    pub(crate) options: Options,
    pub(crate) config: VmConfig,
    pub(crate) progress: &'a Progress,
}

impl Own<'_> {
    /// The model with the values `names` as its results.
    pub(crate) fn compile(&self, names: &[String]) -> Result<Model, Error> {
        let proto = with_outputs(&self.proto, names);
        self.options.scope(self.progress, || {
            let module = tvm_onnx::import_proto(&proto, Some(&self.folder), &self.options.import())
                .map_err(Error::file(&self.file))?;
            Model::compile(module, &self.options.target, self.config.clone()).map_err(Error::file(&self.file))
        })
    }
}

impl Reference for Own<'_> {
    fn run(&mut self, names: &[String], inputs: &[(String, Tensor)]) -> Result<Vec<Tensor>, Error> {
        let inputs: Vec<Tensor> = inputs.iter().map(|(_, it)| it.clone()).collect();
        self.compile(names)?.run(&inputs).map_err(Error::file(&self.file))
    }
}

/// The model with these values as its outputs.
fn with_outputs(proto: &ModelProto, names: &[String]) -> ModelProto {
    let mut proto = proto.clone();
    if let Some(graph) = &mut proto.graph {
        graph.output = names.iter().map(|name| output(graph, name)).collect();
    }
    proto
}

fn output(graph: &GraphProto, name: &str) -> ValueInfoProto {
    let known = graph.output.iter().chain(&graph.value_info).find(|it| it.name == name);
    known.cloned().unwrap_or_else(|| ValueInfoProto { name: name.to_string(), ty: None })
}
