//! Conversion of a model to a module with one graph function, `main`.
//!
//! Requires nothing of the input bytes. Ensures: the function is well-typed; its parameters are the graph's inputs that
//! have no initializer; dimensions of the same name are one symbolic variable; each node made from a node of the model
//! carries that node's path; nothing larger than the options allow was accepted.
//!
//! TVM counterpart: `tvm.relax.frontend.onnx.from_onnx`.

use std::path::Path;
use std::sync::Arc;

use indexmap::IndexMap;
use prost::Message;
use prost::bytes::Buf;
use rustc_hash::FxHashMap;
use tvm_core::ir::{AttrValue, Attrs, BaseFunc, IRModule, Span, TensorType, Type, Var};
use tvm_core::relax::analysis::erase_to_well_defined;
use tvm_core::relax::{Arg, BlockBuilder, Function};
use tvm_core::tir::PrimExpr;
use tvm_runtime::Device;

use crate::error::{OnnxError, UnsupportedItem, UnsupportedReport};
use crate::external::ExternalData;
use crate::file::ModelFile;
use crate::graph::{graphs, node_path, order};
use crate::inline::inlined;
use crate::names::show;
use crate::narrow::Narrow;
use crate::nodes::{Scope, max_conversions};
use crate::ops::{self, Quantized};
use crate::options::ImportOptions;
use crate::places::check_places;
use crate::proto::{GraphProto, ModelProto};
use crate::tensor::{decode_tensor, decode_text};
use crate::value::Value;

/// Imports a serialised model; external data is read from files below `dir`. [`Bytes`](prost::bytes::Bytes) are shared by the model that is decoded
/// from them, a slice is copied.
///
/// # Errors
/// When the bytes are not a model, the model is malformed or ill-typed, or it uses unsupported features. In the last
/// case, all unsupported operators are listed.
pub fn import(bytes: impl Buf, dir: Option<&Path>, options: &ImportOptions) -> Result<IRModule, OnnxError> {
    import_proto(&read_model(bytes)?, dir, options)
}

/// Imports the model in a file.
///
/// # Errors
/// As for [`import`], and when the file cannot be read.
pub fn import_file(path: impl AsRef<Path>, options: &ImportOptions) -> Result<IRModule, OnnxError> {
    ModelFile::open(path)?.import(options)
}

/// Decodes a serialised model; its large constants share the memory of [`Bytes`](prost::bytes::Bytes).
///
/// # Errors
/// When the bytes are not a model.
pub fn read_model(bytes: impl Buf) -> Result<ModelProto, OnnxError> {
    ModelProto::decode(bytes).map_err(|source| OnnxError::Decode { what: "ONNX model", source })
}

/// Imports a decoded model; external data is read from files below `dir`.
///
/// # Errors
/// As for [`import`].
pub fn import_proto(
    model: &ModelProto,
    dir: Option<&Path>,
    options: &ImportOptions,
) -> Result<IRModule, OnnxError> {
    import_with(model, dir.map_or_else(ExternalData::none, ExternalData::below), options)
}

pub(crate) fn import_with(
    model: &ModelProto,
    external: ExternalData,
    options: &ImportOptions,
) -> Result<IRModule, OnnxError> {
    let graph = model.graph.as_ref().ok_or_else(|| OnnxError::malformed("there is no graph"))?;
    let opset = opset(model, graph)?;
    let inlined = inlined(model, graph, opset)?;
    let graph = inlined.as_ref().unwrap_or(graph);
    check_places(graph, options)?;
    let graph_name = if graph.name.is_empty() { "graph".to_string() } else { show(&graph.name) };
    let importer = Importer {
        builder: BlockBuilder::new(IRModule::new()),
        values: FxHashMap::default(),
        narrow: FxHashMap::default(),
        quantized: FxHashMap::default(),
        dims: IndexMap::new(),
        external,
        options,
        opset,
        graph_name,
        total_bytes: 0,
        scopes: Vec::new(),
        facts: Vec::new(),
        read: Vec::new(),
        unsupported: UnsupportedReport::default(),
        place: None,
        conversions: 0,
        max_conversions: max_conversions(graph),
    };
    importer.run(graph)
}

/// Version of the standard operator set. A model without standard operators need not declare it.
fn opset(model: &ModelProto, graph: &GraphProto) -> Result<i64, OnnxError> {
    let mut standard = model.opset_import.iter().filter(|it| is_standard(&it.domain));
    let Some(set) = standard.next() else {
        if !graph.node.iter().any(|node| is_standard(&node.domain)) {
            return Ok(ops::MAX_OPSET);
        }
        return Err(OnnxError::malformed("the model does not say which operator set it uses"));
    };
    if standard.next().is_some() {
        return Err(OnnxError::malformed("the model imports the standard operator set twice"));
    }
    match set.version {
        1..=ops::MAX_OPSET => Ok(set.version),
        ..1 => Err(OnnxError::malformed(format!("there is no operator set {}", set.version))),
        _ => Err(OnnxError::unsupported(format!("operator set {}", set.version))
            .help(format!("the newest one supported is {}", ops::MAX_OPSET))),
    }
}

/// True for the two names of the standard operator domain.
pub fn is_standard(domain: &str) -> bool {
    domain.is_empty() || domain == "ai.onnx"
}

/// Adds the operators without a converter that `graph`, or a graph in it, uses.
fn missing_operators(graph: &GraphProto, path: &str, opset: i64, report: &mut UnsupportedReport) {
    for index in order(graph, path, &|_| true).unwrap_or_default() {
        let node = &graph.node[index];
        let path = node_path(path, index, node);
        if let Err(missing) = ops::find(node, opset) {
            report.extend(UnsupportedReport {
                items: vec![UnsupportedItem { nodes: vec![path.clone()], ..missing }],
            });
        }
        for graph in graphs(node) {
            tvm_core::support::with_stack(|| missing_operators(graph, &path, opset, report));
        }
    }
}

/// A tensor that the model gives.
struct Output {
    /// The name of the output, and the position in it if it is a sequence.
    name: String,
    arg: Arg,
    /// Name of the element type, if it is a narrow one or `string`.
    element: &'static str,
}

/// State of an import.
pub(crate) struct Importer<'m> {
    pub(crate) builder: BlockBuilder,
    pub(crate) values: FxHashMap<&'m str, Value>,
    /// Element type of each value with narrow elements.
    pub(crate) narrow: FxHashMap<&'m str, Narrow>,
    /// What values were dequantised from. Another value may have the name since.
    pub(crate) quantized: FxHashMap<&'m str, Quantized>,
    pub(crate) dims: IndexMap<String, Var>,
    pub(crate) external: ExternalData,
    pub(crate) options: &'m ImportOptions,
    pub(crate) opset: i64,
    pub(crate) graph_name: String,
    pub(crate) total_bytes: u128,
    /// The scopes of the nested graphs that are being converted.
    pub(crate) scopes: Vec<Scope<'m>>,
    /// Conditions whose value is known in the scope that is being converted.
    pub(crate) facts: Vec<(PrimExpr, bool)>,
    /// Values that are read when the program runs, as dimensions; `None` where a name has got another value since.
    pub(crate) read: Vec<(&'m str, Option<Vec<PrimExpr>>)>,
    /// What could not be converted so far.
    pub(crate) unsupported: UnsupportedReport,
    /// Where the node that is being converted computes, if it is not the device of the target.
    pub(crate) place: Option<Device>,
    /// Number of conversions of nodes so far, and its limit.
    pub(crate) conversions: usize,
    pub(crate) max_conversions: usize,
}

impl<'m> Importer<'m> {
    fn run(mut self, graph: &'m GraphProto) -> Result<IRModule, OnnxError> {
        self.builder.begin_scope();
        self.initializers(graph)?;
        for input in &graph.input {
            if let Some(Value::Arg(Arg::Const(tensor))) = self.values.get(&*input.name) {
                let ty = Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype()));
                let place = format!("input `{}`", show(&input.name));
                self.check_declared(input, &ty).map_err(|err| err.at(&place))?;
            }
        }
        let params = self.params(graph)?;
        let path = self.graph_name.clone();
        let outputs = self.graph(graph, &path)?;
        if !self.unsupported.items.is_empty() {
            missing_operators(graph, &path, self.opset, &mut self.unsupported);
            return Err(OnnxError::Unsupported(self.unsupported));
        }
        for info in &graph.value_info {
            if let Some(Value::Arg(arg)) = self.values.get(&*info.name) {
                let place = format!("value `{}`", show(&info.name));
                self.check_elements(info, &self.type_of(arg)).map_err(|err| err.at(&place))?;
            }
        }
        let outputs = self.outputs(graph, outputs)?;
        self.finish(params, outputs)
    }

    /// Defines the initializers of `graph`.
    pub(crate) fn initializers(&mut self, graph: &'m GraphProto) -> Result<(), OnnxError> {
        if !graph.sparse_initializer.is_empty() {
            return Err(OnnxError::unsupported("sparse initializers"));
        }
        for proto in &graph.initializer {
            if let Some(strings) = decode_text(proto, self.options.max_tensor_bytes)? {
                let bytes = self.constant(strings)?;
                self.define(&proto.name, Value::Strings(bytes), None);
                continue;
            }
            let tensor = decode_tensor(proto, &self.external, self.options.max_tensor_bytes)?;
            self.account(&Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype())))?;
            self.define(&proto.name, tensor.into(), Narrow::from_onnx(proto.data_type.into()));
        }
        Ok(())
    }

    /// The tensors of the outputs.
    fn outputs(&mut self, graph: &GraphProto, values: Vec<Value>) -> Result<Vec<Output>, OnnxError> {
        let mut outputs = Vec::new();
        for (output, value) in graph.output.iter().zip(values) {
            let place = format!("output `{}`", show(&output.name));
            let (args, forms) =
                self.tensors(vec![value], &Span::model(place.as_str())).map_err(|err| err.at(&place))?;
            let mut names = Vec::new();
            forms.iter().for_each(|form| form.names(&output.name, &mut names));
            for ((name, strings), arg) in names.into_iter().zip(args) {
                if strings {
                    outputs.push(Output { name, arg, element: "string" });
                    continue;
                }
                self.check_elements(output, &self.type_of(&arg)).map_err(|err| err.at(&place))?;
                let element = self.narrow.get(output.name.as_str()).map_or("", |narrow| narrow.name);
                outputs.push(Output { name, arg, element });
            }
        }
        if graph.output.is_empty() {
            return Err(OnnxError::malformed("the graph has no output"));
        }
        Ok(outputs)
    }

    fn finish(mut self, params: Vec<(String, Var)>, outputs: Vec<Output>) -> Result<IRModule, OnnxError> {
        let names =
            |names: &mut dyn Iterator<Item = &str>| AttrValue::List(names.map(AttrValue::from).collect());
        let mut attrs = Attrs::new()
            .with("num_inputs", params.len())
            .with("input_names", names(&mut params.iter().map(|(name, _)| name.as_str())))
            .with("output_names", names(&mut outputs.iter().map(|it| it.name.as_str())));
        if outputs.iter().any(|it| !it.element.is_empty()) {
            attrs.set("output_elements", names(&mut outputs.iter().map(|it| it.element)));
        }
        let mut ret: Vec<Arg> = outputs.into_iter().map(|it| it.arg).collect();
        let ret = if ret.len() == 1 { ret.remove(0) } else { Arg::Tuple(ret.into()) };
        // The caller does not know dimensions that the function reads at run time.
        let ty = self.builder.type_of(&ret);
        let ty = erase_to_well_defined(&ty, &|id| self.dims.values().any(|dim| dim.id() == id));
        self.builder.end_block(true);
        let body = self.builder.end_scope(ret);
        let func = Function {
            name: "main".into(),
            type_params: Arc::new([]),
            params: params.into_iter().map(|(_, var)| var).collect(),
            body,
            ret: ty,
            pure: true,
            attrs,
            span: Span::model(self.graph_name.as_str()),
        };
        let mut module = self.builder.into_module();
        module.add("main", BaseFunc::Relax(Arc::new(func)));
        Ok(module)
    }
}
