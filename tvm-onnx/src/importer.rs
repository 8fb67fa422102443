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
use rustc_hash::FxHashMap;
use tvm_core::ir::{AttrValue, Attrs, BaseFunc, IRModule, Op, ShapeType, Span, TensorType, Type, Var};
use tvm_core::relax::analysis::erase_to_well_defined;
use tvm_core::relax::{Arg, BlockBuilder, Function};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor, byte_size};

use crate::error::{OnnxError, UnsupportedItem, UnsupportedReport};
use crate::external::ExternalData;
use crate::graph::{node_path, order};
use crate::names::{identifier, show};
use crate::narrow::Narrow;
use crate::node::Node;
use crate::ops;
use crate::options::{DimOption, ImportOptions};
use crate::proto::{GraphProto, ModelProto, ValueInfoProto};
use crate::tensor::{MAX_RANK, decode_tensor, element_from_onnx, show_dims};
use crate::value::{Ints, Value};

/// Imports a serialised model; external data is read from files below `dir`.
///
/// # Errors
/// When the bytes are not a model, the model is malformed or ill-typed, or it uses unsupported features. In the last
/// case, all unsupported operators are listed.
pub fn import(bytes: &[u8], dir: Option<&Path>, options: &ImportOptions) -> Result<IRModule, OnnxError> {
    import_proto(&read_model(bytes)?, dir, options)
}

/// Imports the model in a file.
///
/// # Errors
/// As for [`import`], and when the file cannot be read.
pub fn import_file(path: impl AsRef<Path>, options: &ImportOptions) -> Result<IRModule, OnnxError> {
    let path = path.as_ref();
    let bytes = std::fs::read(path).map_err(|source| OnnxError::Io { path: path.to_path_buf(), source })?;
    let parent = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    import(&bytes, Some(parent), options)
}

/// Decodes a serialised model.
///
/// # Errors
/// When the bytes are not a model.
pub fn read_model(bytes: &[u8]) -> Result<ModelProto, OnnxError> {
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
    let graph = model.graph.as_ref().ok_or_else(|| OnnxError::malformed("there is no graph"))?;
    let opset = opset(model, graph)?;
    if !graph.sparse_initializer.is_empty() {
        return Err(OnnxError::unsupported("sparse initializers"));
    }
    let graph_name = if graph.name.is_empty() { "graph".to_string() } else { show(&graph.name) };
    let order = order(graph, &graph_name)?;
    check_ops(graph, &graph_name, opset, &order)?;
    let importer = Importer {
        builder: BlockBuilder::new(IRModule::new()),
        values: FxHashMap::default(),
        narrow: FxHashMap::default(),
        dims: IndexMap::new(),
        external: dir.map_or_else(ExternalData::none, ExternalData::below),
        options,
        opset,
        graph_name,
        total_bytes: 0,
    };
    importer.run(graph, &order)
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

/// Rejects a model that contains operators without a converter; the error lists all of them.
fn check_ops(graph: &GraphProto, graph_name: &str, opset: i64, order: &[usize]) -> Result<(), OnnxError> {
    let mut missing: IndexMap<String, UnsupportedItem> = IndexMap::new();
    for &index in order {
        let node = &graph.node[index];
        if is_standard(&node.domain) && ops::find(&node.op_type, opset).is_some() {
            continue;
        }
        let name = show(&node.op_type);
        let what = if is_standard(&node.domain) {
            format!("operator {name} of opset {opset}")
        } else {
            format!("operator {name} of domain {}", show(&node.domain))
        };
        let item = missing.entry(what.clone()).or_insert_with(|| UnsupportedItem {
            what,
            nodes: Vec::new(),
            help: ops::help(&node.op_type, opset),
        });
        item.nodes.push(node_path(graph_name, index, node));
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(OnnxError::Unsupported(UnsupportedReport { items: missing.into_values().collect() }))
}

/// State of an import.
pub(crate) struct Importer<'m> {
    builder: BlockBuilder,
    values: FxHashMap<&'m str, Value>,
    /// Element type of each value with narrow elements.
    pub(crate) narrow: FxHashMap<&'m str, Narrow>,
    dims: IndexMap<String, Var>,
    pub(crate) external: ExternalData,
    pub(crate) options: &'m ImportOptions,
    pub(crate) opset: i64,
    graph_name: String,
    total_bytes: u128,
}

impl<'m> Importer<'m> {
    fn run(mut self, graph: &'m GraphProto, order: &[usize]) -> Result<IRModule, OnnxError> {
        self.builder.begin_scope();
        for proto in &graph.initializer {
            let tensor = decode_tensor(proto, &self.external, self.options.max_tensor_bytes)?;
            self.account(&Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype())))?;
            self.values.insert(&proto.name, tensor.into());
            if let Some(narrow) = Narrow::from_onnx(proto.data_type.into()) {
                self.narrow.insert(&proto.name, narrow);
            }
        }
        for input in &graph.input {
            if let Some(Value::Arg(Arg::Const(tensor))) = self.values.get(&*input.name) {
                let ty = Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype()));
                let place = format!("input `{}`", show(&input.name));
                self.check_declared(input, &ty).map_err(|err| err.at(&place))?;
            }
        }
        let params = self.params(graph)?;
        for &index in order {
            let proto = &graph.node[index];
            let path = node_path(&self.graph_name, index, proto);
            let mut node = Node::new(&mut self, proto, Span::model(path.as_str()));
            let results = ops::convert(&mut node).map_err(|err| err.at(&path))?;
            let narrow = node.gives;
            self.bind(proto, results, narrow).map_err(|err| err.at(&path))?;
        }
        for info in &graph.value_info {
            if let Some(Value::Arg(arg)) = self.values.get(&*info.name) {
                let place = format!("value `{}`", show(&info.name));
                self.check_declared(info, &self.type_of(arg)).map_err(|err| err.at(&place))?;
            }
        }
        let ret = self.outputs(graph)?;
        self.finish(graph, params, ret)
    }

    /// Rejects a declaration that contradicts the inferred type of the value. Extents that are unspecified, symbolic or
    /// changed by the options contradict nothing.
    fn check_declared(&self, info: &ValueInfoProto, ty: &Type) -> Result<(), OnnxError> {
        let declared = info.ty.as_ref().and_then(|it| it.tensor_type.as_ref());
        let (Some(declared), Some(ty)) = (declared, ty.as_tensor()) else { return Ok(()) };
        let contradiction = |declared: String, got: String| {
            let message = format!("it is declared as {declared}, it is {got}");
            Err(OnnxError::malformed(message))
        };
        let element = if declared.elem_type == 0 { None } else { Some(declared.elem_type) };
        if let (Some(element), Some(dtype)) = (element, ty.dtype) {
            let (expected, narrow) = element_from_onnx(element.into())?;
            if expected != dtype || narrow != self.narrow.get(&*info.name).copied() {
                let got = self.narrow.get(&*info.name).map_or_else(|| dtype.to_string(), |it| it.name.into());
                let declared = narrow.map_or_else(|| expected.to_string(), |it| it.name.into());
                return contradiction(format!("elements of {declared}"), got);
            }
        }
        let (Some(shape), Some(ndim)) = (&declared.shape, ty.ndim()) else { return Ok(()) };
        if shape.dim.len() != ndim {
            return contradiction(format!("of rank {}", shape.dim.len()), format!("of rank {ndim}"));
        }
        let overridden = !self.options.shapes.is_empty() || !self.options.dims.is_empty();
        for (axis, (dim, extent)) in shape.dim.iter().zip(ty.known_shape().unwrap_or_default()).enumerate() {
            if let (Some(declared), Some(extent), false) = (dim.dim_value, extent.as_int(), overridden)
                && declared != extent
            {
                let of = |extent: i64| format!("of extent {extent} along axis {axis}");
                return contradiction(of(declared), of(extent));
            }
        }
        Ok(())
    }

    fn params(&mut self, graph: &'m GraphProto) -> Result<Vec<Var>, OnnxError> {
        let mut params = Vec::new();
        for input in graph.input.iter().filter(|it| !self.values.contains_key(&*it.name)).collect::<Vec<_>>()
        {
            let place = format!("input `{}`", show(&input.name));
            let (ty, narrow) = self.input_type(input).map_err(|err| err.at(&place))?;
            if let Some(narrow) = narrow {
                self.narrow.insert(&input.name, narrow);
            }
            self.account(&ty).map_err(|err| err.at(&place))?;
            let var = Var::with_span(identifier(&input.name), ty, Span::model(place));
            self.values.insert(&input.name, Value::Arg(Arg::from(&var)));
            params.push(var);
        }
        let known = |name: &&String| !params.is_empty() && !self.dims.contains_key(*name);
        if let Some(name) = self.options.dims.keys().find(known) {
            let names: Vec<String> = self.dims.keys().map(|it| show(it)).collect();
            let message =
                format!("no input has a dimension `{}`; there are [{}]", show(name), names.join(", "));
            return Err(OnnxError::malformed(message));
        }
        let inputs = || graph.input.iter().map(|it| it.name.as_str());
        if let Some(name) = self.options.shapes.keys().find(|name| !inputs().any(|it| it == name.as_str())) {
            let names: Vec<String> = inputs().map(show).collect();
            let message = format!("there is no input `{}`; there are [{}]", show(name), names.join(", "));
            return Err(OnnxError::malformed(message));
        }
        Ok(params)
    }

    fn input_type(&mut self, input: &ValueInfoProto) -> Result<(Type, Option<Narrow>), OnnxError> {
        let ty = input.ty.clone().unwrap_or_default();
        let Some(tensor) = ty.tensor_type else {
            let what = match () {
                () if ty.sequence_type.is_some() => "sequences",
                () if ty.map_type.is_some() => "maps",
                () if ty.sparse_tensor_type.is_some() => "sparse tensors",
                () if ty.optional_type.is_some() => "optional values",
                () => return Err(OnnxError::malformed("it has no type")),
            };
            return Err(OnnxError::unsupported(format!("{what} as inputs")));
        };
        let (dtype, narrow) = element_from_onnx(tensor.elem_type.into())?;
        if let Some(shape) = self.options.shapes.get(&input.name) {
            return Ok((Type::Tensor(TensorType::fixed(shape, dtype)), narrow));
        }
        let Some(shape) = tensor.shape else {
            return Err(OnnxError::unsupported("inputs of unknown rank").help("give the shape of the input"));
        };
        if shape.dim.len() > MAX_RANK {
            return Err(OnnxError::malformed(format!("a tensor of rank {}", shape.dim.len())));
        }
        let mut extents = Vec::new();
        for (axis, dim) in shape.dim.iter().enumerate() {
            extents.push(match (dim.dim_value, dim.dim_param.as_deref()) {
                (Some(value), _) if value < 0 => {
                    return Err(OnnxError::malformed(format!("extent {value} of axis {axis} is negative")));
                }
                (Some(value), _) => PrimExpr::index(value),
                (None, Some(name)) if !name.is_empty() => self.dim(name)?,
                (None, _) => {
                    let name = format!("{}_dim{axis}", identifier(&input.name));
                    self.dim(&name)?
                }
            });
        }
        Ok((Type::tensor(extents, dtype), narrow))
    }

    /// The symbolic dimension `name`, or its number if the options fix it.
    fn dim(&mut self, name: &str) -> Result<PrimExpr, OnnxError> {
        let spec = self.options.dims.get(name);
        let bound = spec.map(|spec| spec.bound()).transpose().map_err(|err| {
            OnnxError::malformed(format!("the extent given for dimension `{}`: {err}", show(name)))
        })?;
        let var = || Var::index(identifier(name)).within(bound);
        let var = self.dims.entry(name.to_string()).or_insert_with(var);
        match spec {
            Some(DimOption::Fixed(value)) => Ok(PrimExpr::index(*value)),
            Some(DimOption::Range(..)) | None => Ok(PrimExpr::from(&*var)),
        }
    }

    fn bind(
        &mut self,
        proto: &'m crate::proto::NodeProto,
        results: Vec<Value>,
        narrow: Option<Narrow>,
    ) -> Result<(), OnnxError> {
        for (i, name) in proto.output.iter().enumerate().filter(|(_, name)| !name.is_empty()) {
            let value = results.get(i).cloned().ok_or_else(|| {
                OnnxError::unsupported(format!("output {i} of operator {}", show(&proto.op_type)))
            })?;
            self.values.insert(name, value);
            if let Some(narrow) = narrow {
                self.narrow.insert(name, narrow);
            }
        }
        Ok(())
    }

    fn outputs(&mut self, graph: &GraphProto) -> Result<Vec<Arg>, OnnxError> {
        let mut outputs = Vec::new();
        for output in &graph.output {
            let value = self.values.get(&*output.name).cloned().ok_or_else(|| {
                OnnxError::malformed(format!("nothing makes the output `{}`", show(&output.name)))
            })?;
            let place = format!("output `{}`", show(&output.name));
            let arg = self.materialise(value, &Span::model(place.as_str())).map_err(|err| err.at(&place))?;
            self.check_declared(output, &self.type_of(&arg)).map_err(|err| err.at(&place))?;
            outputs.push(arg);
        }
        if outputs.is_empty() {
            return Err(OnnxError::malformed("the graph has no output"));
        }
        Ok(outputs)
    }

    fn finish(mut self, graph: &GraphProto, params: Vec<Var>, ret: Vec<Arg>) -> Result<IRModule, OnnxError> {
        let given: Vec<&ValueInfoProto> = (graph.input.iter())
            .filter(|it| !graph.initializer.iter().any(|tensor| tensor.name == it.name))
            .collect();
        let names = |infos: &mut dyn Iterator<Item = &ValueInfoProto>| {
            AttrValue::List(infos.map(|it| AttrValue::from(it.name.as_str())).collect())
        };
        let mut attrs = Attrs::new()
            .with("num_inputs", params.len())
            .with("input_names", names(&mut given.into_iter()))
            .with("output_names", names(&mut graph.output.iter()));
        let element =
            |it: &ValueInfoProto| self.narrow.get(it.name.as_str()).map_or("", |narrow| narrow.name);
        if graph.output.iter().any(|it| !element(it).is_empty()) {
            let elements = graph.output.iter().map(|it| AttrValue::from(element(it)));
            attrs.set("output_elements", AttrValue::List(elements.collect()));
        }
        let mut ret = ret;
        let ret = if ret.len() == 1 { ret.remove(0) } else { Arg::Tuple(ret.into()) };
        // The caller does not know dimensions that the function reads at run time.
        let ty = self.builder.type_of(&ret);
        let ty = erase_to_well_defined(&ty, &|id| self.dims.values().any(|dim| dim.id() == id));
        self.builder.end_block(true);
        let body = self.builder.end_scope(ret);
        let func = Function {
            name: "main".into(),
            type_params: Arc::new([]),
            params: params.into(),
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

    /// The value named `name`, if a node before, an input or an initializer defines it.
    pub(crate) fn value(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    /// Converts the value to a variable or constant.
    pub(crate) fn materialise(&mut self, value: Value, span: &Span) -> Result<Arg, OnnxError> {
        let ints = match value {
            Value::Arg(arg) => return Ok(arg),
            Value::Ints(ints) => ints,
        };
        if let Some(tensor) = ints.to_tensor() {
            return Ok(Arg::Const(tensor));
        }
        let Ints { dims, values, dtype } = ints;
        let shape = Arg::Shape(values.into());
        let mut arg = self.emit("shape_to_tensor", &[shape], Attrs::new(), span)?;
        if dims.len() != 1 {
            let dims: Vec<PrimExpr> = dims.iter().map(|&it| PrimExpr::index(it)).collect();
            arg = self.emit("reshape", &[arg, Arg::Shape(dims.into())], Attrs::new(), span)?;
        }
        if dtype != DataType::I64 {
            arg = self.emit("astype", &[arg], Attrs::new().with("dtype", dtype), span)?;
        }
        Ok(arg)
    }

    /// Type of an argument.
    pub(crate) fn type_of(&self, arg: &Arg) -> Type {
        self.builder.type_of(arg)
    }

    /// Emits a call of the operator `op`, binds its result, and checks the size of the result.
    pub(crate) fn emit(
        &mut self,
        op: &str,
        args: &[Arg],
        attrs: Attrs,
        span: &Span,
    ) -> Result<Arg, OnnxError> {
        let found = Op::get(op).map_err(|_| OnnxError::unsupported(format!("graph operator `{op}`")))?;
        let hint = op.rsplit('.').next().unwrap_or(op);
        let var = self.builder.emit_op(hint, found, args, attrs, span)?;
        self.account(var.ty())?;
        Ok(Arg::Var(var))
    }

    /// Emits a read of a tuple field and binds it.
    pub(crate) fn field(&mut self, tuple: &Arg, index: usize, span: &Span) -> Result<Arg, OnnxError> {
        let value = tvm_core::relax::Expr::TupleGetItem(tuple.clone(), index);
        Ok(Arg::Var(self.builder.emit("field", value, span)?))
    }

    /// Reads the elements of a short integer vector, or of a scalar, at run time, as dimensions.
    pub(crate) fn read_dims(&mut self, arg: &Arg, span: &Span) -> Result<Option<Vec<PrimExpr>>, OnnxError> {
        let ty = self.type_of(arg);
        let Some((shape, dtype)) = ty.as_tensor().and_then(|ty| Some((ty.const_shape()?, ty.dtype?))) else {
            return Ok(None);
        };
        let len = match shape[..] {
            [] => 1,
            [len] => len,
            _ => return Ok(None),
        };
        if !dtype.is_integer() || len > MAX_RANK as i64 {
            return Ok(None);
        }
        let mut arg = arg.clone();
        if shape.is_empty() {
            let vector = Arg::Shape([PrimExpr::index(1)].into());
            arg = self.emit("reshape", &[arg, vector], Attrs::new(), span)?;
        }
        if dtype != DataType::I64 {
            arg = self.emit("astype", &[arg], Attrs::new().with("dtype", DataType::I64), span)?;
        }
        // Extents cannot be negative, so the positive part and the negative part are read separately.
        let limit = |it: i64| Arg::Prim(PrimExpr::index(it));
        let above = self.emit("maximum", &[arg.clone(), limit(0)], Attrs::new(), span)?;
        let below = self.emit("maximum", &[arg, limit(-i64::MAX)], Attrs::new(), span)?;
        let below = self.emit("negative", &[below], Attrs::new(), span)?;
        let below = self.emit("maximum", &[below, limit(0)], Attrs::new(), span)?;
        let both = Arg::Tuple([above, below].into());
        let both = self.emit("concat", &[both], Attrs::new().with("axis", 0i64), span)?;
        let shape = self.emit("tensor_to_shape", &[both], Attrs::new(), span)?;
        let read = |i| PrimExpr::from(&Var::index(format!("read{i}")));
        let values: Vec<PrimExpr> = (0..2 * len).map(read).collect();
        let (above, below) = values.split_at(len as usize);
        let dims = above.iter().zip(below).map(|(above, below)| above - below).collect();
        let ty = Type::Shape(ShapeType { values: Some(values.clone().into()), ndim: Some(values.len()) });
        self.builder.emit_match_cast("dims", shape, ty, span);
        Ok(Some(dims))
    }

    /// Size in bytes of a tensor of this shape; an error if it is not a valid shape or too large.
    pub(crate) fn check_size(&self, extents: &[i64], dtype: DataType) -> Result<usize, OnnxError> {
        let limit = self.options.max_tensor_bytes;
        let what = || format!("a tensor of shape {}", show_dims(extents));
        match byte_size(extents, dtype) {
            _ if extents.iter().any(|&it| it < 0) => {
                Err(OnnxError::malformed(format!("{} is not a shape", show_dims(extents))))
            }
            Some(bytes) if bytes as u64 <= limit => Ok(bytes),
            bytes => {
                let bytes = bytes.map_or(u128::from(u64::MAX), |it| it as u128);
                Err(OnnxError::TooLarge { what: what(), bytes, limit, place: Span::none() })
            }
        }
    }

    /// Adds the size of a value of type `ty`, if it is known, to the total; rejects values that are too large.
    fn account(&mut self, ty: &Type) -> Result<(), OnnxError> {
        if let Some(fields) = ty.as_tuple() {
            return fields.iter().try_for_each(|field| self.account(field));
        }
        let Some((shape, dtype)) = ty.as_tensor().and_then(|ty| Some((ty.const_shape()?, ty.dtype?))) else {
            return Ok(());
        };
        self.total_bytes += self.check_size(&shape, dtype)? as u128;
        let (bytes, limit) = (self.total_bytes, self.options.max_total_bytes);
        if bytes > limit.into() {
            let what = "the sum of all values".to_string();
            return Err(OnnxError::TooLarge { what, bytes, limit, place: Span::none() });
        }
        Ok(())
    }

    /// Makes an intermediate constant and adds its size to the total.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> Result<Arg, OnnxError> {
        self.account(&Type::Tensor(TensorType::fixed(tensor.shape(), tensor.dtype())))?;
        Ok(Arg::Const(tensor))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{
        DimensionProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto, TensorTypeProto,
        TypeProto,
    };

    #[test]
    fn declared_types_may_not_contradict() {
        let declared = |elem_type: i32, dims: Option<&[i64]>| {
            let dim = |&extent: &i64| DimensionProto {
                dim_value: (extent >= 0).then_some(extent),
                dim_param: (extent < 0).then(|| "n".to_string()),
            };
            let shape = dims.map(|dims| TensorShapeProto { dim: dims.iter().map(dim).collect() });
            TypeProto { tensor_type: Some(TensorTypeProto { elem_type, shape }), ..TypeProto::default() }
        };
        let cases = [
            (declared(1, Some(&[2, 3])), None),
            (declared(1, Some(&[2, -1])), None),
            (declared(0, None), None),
            (declared(7, Some(&[2, 3])), Some("elements of")),
            (declared(1, Some(&[6])), Some("of rank 1")),
            (declared(1, Some(&[2, 4])), Some("of extent 4 along axis 1")),
        ];
        for (ty, want) in cases {
            // The declared type is that of the output, of an intermediate value, or of an input with an initializer.
            for place in ["y", "v", "c"] {
                let info = |name: &str| ValueInfoProto {
                    name: name.into(),
                    ty: (name == place).then(|| ty.clone()),
                };
                let node = |input: &str, output: &str| NodeProto {
                    op_type: "Relu".into(),
                    input: vec![input.into()],
                    output: vec![output.into()],
                    ..NodeProto::default()
                };
                let constant = TensorProto {
                    name: "c".into(),
                    dims: vec![2, 3],
                    data_type: 1,
                    float_data: vec![0.5; 6],
                    ..TensorProto::default()
                };
                let graph = GraphProto {
                    node: vec![node("c", "v"), node("v", "y")],
                    initializer: vec![constant],
                    input: vec![info("c")],
                    value_info: vec![info("v")],
                    output: vec![info("y")],
                    ..GraphProto::default()
                };
                let set = OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() };
                let model =
                    ModelProto { graph: Some(graph), opset_import: vec![set], ..ModelProto::default() };
                let got =
                    import_proto(&model, None, &ImportOptions::default()).err().map(|err| err.to_string());
                match (want, got) {
                    (None, None) => {}
                    (Some(want), Some(got)) => assert!(got.contains(want), "{place}: {got}"),
                    (want, got) => panic!("{place}: {got:?}, expected {want:?}"),
                }
            }
        }
    }
}
