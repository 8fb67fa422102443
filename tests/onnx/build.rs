//! Construction of small models, field by field, and running of models.

use std::sync::Arc;

use tvm_codegen::compile_module;
use tvm_core::target::Target;
use tvm_onnx::proto::{
    AttributeProto, AttributeType, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto,
};
use tvm_onnx::{ImportOptions, OnnxError, dtype_to_onnx, import_proto};
use tvm_runtime::vm::Vm;
use tvm_runtime::{DataType, Device, Tensor, Value};

use super::gpu;

/// A model with one graph `g` in version `opset` of the operator set.
pub(crate) fn model(opset: i64, nodes: Vec<NodeProto>) -> ModelProto {
    let graph = GraphProto { name: "g".into(), node: nodes, ..GraphProto::default() };
    let set = OperatorSetIdProto { domain: String::new(), version: opset };
    ModelProto { ir_version: 8, graph: Some(graph), opset_import: vec![set], ..ModelProto::default() }
}

/// Methods that add to a model.
pub(crate) trait Build {
    /// Adds an `f32` input; a dimension is a number, a name or `?`.
    fn input(self, name: &str, dims: &str) -> Self;
    /// Adds an input of another element type.
    fn typed(self, name: &str, dtype: DataType, dims: &str) -> Self;
    /// Adds an output.
    fn output(self, name: &str) -> Self;
    /// Adds an initializer.
    fn constant(self, name: &str, tensor: &Tensor) -> Self;
}

impl Build for ModelProto {
    fn input(self, name: &str, dims: &str) -> ModelProto {
        self.typed(name, DataType::F32, dims)
    }

    fn typed(mut self, name: &str, dtype: DataType, dims: &str) -> ModelProto {
        self.graph.as_mut().unwrap().input.push(info(name, dtype, dims));
        self
    }

    fn output(mut self, name: &str) -> ModelProto {
        let info = ValueInfoProto { name: name.into(), ty: None };
        self.graph.as_mut().unwrap().output.push(info);
        self
    }

    fn constant(mut self, name: &str, tensor: &Tensor) -> ModelProto {
        self.graph.as_mut().unwrap().initializer.push(tensor_proto(name, tensor));
        self
    }
}

/// Name and type of a value.
pub(crate) fn info(name: &str, dtype: DataType, dims: &str) -> ValueInfoProto {
    let dim = |text: &str| match text.parse::<i64>() {
        Ok(value) => DimensionProto { dim_value: Some(value), dim_param: None },
        Err(_) if text == "?" => DimensionProto::default(),
        Err(_) => DimensionProto { dim_value: None, dim_param: Some(text.into()) },
    };
    let tensor = TensorTypeProto {
        elem_type: dtype_to_onnx(dtype).unwrap(),
        shape: Some(TensorShapeProto { dim: dims.split_whitespace().map(dim).collect() }),
    };
    ValueInfoProto {
        name: name.into(),
        ty: Some(TypeProto { tensor_type: Some(tensor), ..TypeProto::default() }),
    }
}

/// A node. Inputs and outputs are separated by blanks; `_` marks an omitted one.
pub(crate) fn node(op: &str, inputs: &str, outputs: &str, attrs: Vec<AttributeProto>) -> NodeProto {
    let names = |text: &str| {
        let name = |it: &str| if it == "_" { String::new() } else { it.to_string() };
        text.split_whitespace().map(name).collect()
    };
    NodeProto {
        op_type: op.into(),
        name: format!("{op}_{outputs}").replace(' ', "_"),
        input: names(inputs),
        output: names(outputs),
        attribute: attrs,
        ..NodeProto::default()
    }
}

pub(crate) fn int(name: &str, i: i64) -> AttributeProto {
    AttributeProto { name: name.into(), ty: AttributeType::Int as i32, i, ..AttributeProto::default() }
}

pub(crate) fn ints(name: &str, ints: &[i64]) -> AttributeProto {
    let ty = AttributeType::Ints as i32;
    AttributeProto { name: name.into(), ty, ints: ints.to_vec(), ..AttributeProto::default() }
}

pub(crate) fn float(name: &str, f: f32) -> AttributeProto {
    AttributeProto { name: name.into(), ty: AttributeType::Float as i32, f, ..AttributeProto::default() }
}

pub(crate) fn string(name: &str, s: &'static str) -> AttributeProto {
    let ty = AttributeType::String as i32;
    AttributeProto { name: name.into(), ty, s: s.as_bytes().into(), ..AttributeProto::default() }
}

pub(crate) fn tensor(name: &str, tensor: &Tensor) -> AttributeProto {
    let (ty, t) = (AttributeType::Tensor as i32, Some(tensor_proto("", tensor)));
    AttributeProto { name: name.into(), ty, t, ..AttributeProto::default() }
}

/// An attribute that is a graph, with inputs of the given names and types and outputs of the given names.
pub(crate) fn graph(
    name: &str,
    inputs: &[(&str, DataType, &str)],
    nodes: Vec<NodeProto>,
    outputs: &str,
) -> AttributeProto {
    let graph = GraphProto {
        name: name.into(),
        node: nodes,
        input: inputs.iter().map(|(name, dtype, dims)| info(name, *dtype, dims)).collect(),
        output: outputs
            .split_whitespace()
            .map(|name| ValueInfoProto { name: name.into(), ty: None })
            .collect(),
        ..GraphProto::default()
    };
    let ty = AttributeType::Graph as i32;
    AttributeProto { name: name.into(), ty, g: Some(graph), ..AttributeProto::default() }
}

fn tensor_proto(name: &str, tensor: &Tensor) -> TensorProto {
    TensorProto {
        dims: tensor.shape().to_vec(),
        data_type: dtype_to_onnx(tensor.dtype()).unwrap(),
        name: name.into(),
        raw_data: tensor.bytes().unwrap().to_vec().into(),
        ..TensorProto::default()
    }
}

/// An `f32` tensor.
pub(crate) fn floats(values: &[f32], shape: &[i64]) -> Tensor {
    Tensor::from_slice(values, shape).unwrap()
}

/// A vector of `i64`.
pub(crate) fn longs(values: &[i64]) -> Tensor {
    Tensor::from_slice(values, &[values.len() as i64]).unwrap()
}

/// The error message for a model that must be refused.
pub(crate) fn refusal(model: &ModelProto) -> String {
    match import_proto(model, None, &ImportOptions::default()) {
        Ok(module) => panic!("the model was accepted:\n{module}"),
        Err(err) => err.to_string(),
    }
}

/// Compiles the model.
pub(crate) fn compiled(model: &ModelProto, target: &Target) -> Result<Arc<Vm>, OnnxError> {
    compiled_with(model, target, &ImportOptions::default())
}

/// Compiles the model, imported with `options`. A model of one node is imported with inputs of other types as well.
pub(crate) fn compiled_with(
    model: &ModelProto,
    target: &Target,
    options: &ImportOptions,
) -> Result<Arc<Vm>, OnnxError> {
    if model.graph.as_ref().unwrap().node.len() == 1 {
        import_other_types(model, options);
    }
    let module = import_proto(model, None, options)?;
    Ok(Arc::new(compile_module(&module, target).unwrap()))
}

/// Imports the model with each input in turn of another rank or element type, which must end in a module or an error.
fn import_other_types(model: &ModelProto, options: &ImportOptions) {
    let mut model = model.clone();
    for i in 0..model.graph.as_ref().unwrap().input.len() {
        let input = model.graph.as_ref().unwrap().input[i].clone();
        let Some(tensor) = input.ty.and_then(|it| it.tensor_type) else { continue };
        let dims = tensor.shape.clone().unwrap_or_default().dim;
        let named = |i| DimensionProto { dim_value: None, dim_param: Some(format!("extent{i}")) };
        let shapes = (0..=6).flat_map(|rank| {
            let own = (0..rank).map(|d| dims.get(d).cloned().unwrap_or_else(|| named(d)));
            [own.collect(), (0..rank).map(named).collect()].map(|dim| TensorShapeProto { dim })
        });
        let shapes = shapes.map(|it| TensorTypeProto { shape: Some(it), ..tensor.clone() });
        let dtypes = (0..=23).map(|elem_type| TensorTypeProto { elem_type, ..tensor.clone() });
        for other in shapes.chain(dtypes) {
            let ty = TypeProto { tensor_type: Some(other), ..TypeProto::default() };
            model.graph.as_mut().unwrap().input[i].ty = Some(ty);
            let _ = import_proto(&model, None, options);
        }
        let ty = TypeProto { tensor_type: Some(tensor), ..TypeProto::default() };
        model.graph.as_mut().unwrap().input[i].ty = Some(ty);
    }
}

/// The executors that this run checks; on [a GPU](gpu), that alone.
pub(crate) fn targets() -> Vec<Target> {
    if let Some(target) = gpu::target() {
        return vec![target];
    }
    let checked = |it: &Target| tvm_testing::checks(&it.to_string(), cfg!(feature = "llvm"));
    [Target::interpreter(), Target::c(), Target::llvm()].into_iter().filter(checked).collect()
}

/// Runs the model and returns its outputs. On a GPU, a captured call has the same bits, unless it says why there is none.
pub(crate) fn run(vm: &Arc<Vm>, inputs: &[Tensor]) -> Vec<Tensor> {
    let args: Vec<Value> = inputs.iter().map(Value::from).collect();
    let outputs = tensors(vm.invoke("main", &args).unwrap());
    if gpu::target().is_some() {
        match vm.capture("main", &args) {
            Ok(mut call) => {
                for _ in 0..2 {
                    assert_eq!(tensors(call.run(&args).unwrap()), outputs, "{call:?}");
                }
            }
            Err(err) => assert!(err.to_string().contains("the call cannot be captured: "), "{err}"),
        }
    }
    outputs
}

/// The tensors of a result, on the host.
fn tensors(result: Value) -> Vec<Tensor> {
    match result {
        Value::Tensor(tensor) => vec![on_host(&tensor)],
        Value::Adt(tuple) => tuple.fields().iter().map(|it| on_host(it.as_tensor().unwrap())).collect(),
        other => panic!("{other:?}"),
    }
}

fn on_host(tensor: &Tensor) -> Tensor {
    tensor.to_device(Device::cpu()).unwrap()
}

/// Asserts that two tensors have the same type and nearly equal elements.
pub(crate) fn assert_near(got: &Tensor, want: &Tensor, what: &str) {
    assert_eq!((got.shape(), got.dtype()), (want.shape(), want.dtype()), "{what}");
    if got.dtype() != DataType::F32 {
        assert_eq!(got, want, "{what}");
        return;
    }
    let (got, want) = (got.as_slice::<f32>().unwrap(), want.as_slice::<f32>().unwrap());
    for (i, (a, b)) in got.iter().zip(want).enumerate() {
        assert!((a - b).abs() <= 1e-5 + 1e-3 * b.abs(), "{what}: element {i} is {a}, expected {b}");
    }
}
