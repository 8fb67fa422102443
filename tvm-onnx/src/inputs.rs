//! The inputs of a model: their types, their symbolic dimensions, and what declarations say about values.

use tvm_core::ir::{Span, TensorType, Type, Var};
use tvm_core::relax::Arg;
use tvm_core::tir::PrimExpr;
use tvm_runtime::DataType;

use crate::error::OnnxError;
use crate::importer::Importer;
use crate::names::{identifier, show};
use crate::narrow::Narrow;
use crate::options::DimOption;
use crate::proto::{ElemType, ElementTypeProto, GraphProto, TensorTypeProto, TypeProto, ValueInfoProto};
use crate::tensor::{MAX_RANK, element_from_onnx};
use crate::value::Value;

/// Names that exporters write for dimensions without a name; so does the extent -1.
const UNNAMED: &[&str] = &["", "?", "-1", "None", "unk"];

fn contradiction(declared: String, got: String) -> Result<(), OnnxError> {
    Err(OnnxError::malformed(format!("it is declared as {declared}, it is {got}")))
}

impl<'m> Importer<'m> {
    /// Rejects a declaration of the elements of a value that contradicts their type. Declared shapes of values that nodes
    /// make are not compared: exporters get them wrong, and other implementations only warn.
    pub(crate) fn check_elements(&self, info: &ValueInfoProto, ty: &Type) -> Result<(), OnnxError> {
        let declared = info.ty.as_ref().and_then(|it| it.tensor_type.as_ref());
        let (Some(declared), Some(ty)) = (declared, ty.as_tensor()) else { return Ok(()) };
        let element = if declared.elem_type == 0 { None } else { Some(declared.elem_type) };
        if let (Some(element), Some(dtype)) = (element, ty.dtype) {
            let (expected, narrow) = element_from_onnx(element.into())?;
            if expected != dtype || narrow != self.narrow.get(&*info.name).copied() {
                let got = self.narrow.get(&*info.name).map_or_else(|| dtype.to_string(), |it| it.name.into());
                let declared = narrow.map_or_else(|| expected.to_string(), |it| it.name.into());
                return contradiction(format!("elements of {declared}"), got);
            }
        }
        Ok(())
    }

    /// Rejects a declaration that contradicts the type of a constant. Extents that are unspecified, symbolic or changed by the
    /// options contradict nothing.
    pub(crate) fn check_declared(&self, info: &ValueInfoProto, ty: &Type) -> Result<(), OnnxError> {
        self.check_elements(info, ty)?;
        let declared = info.ty.as_ref().and_then(|it| it.tensor_type.as_ref());
        let (Some(declared), Some(ty)) = (declared, ty.as_tensor()) else { return Ok(()) };
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

    /// The parameters of the graph function, with their names in the model: the inputs that have no initializer.
    pub(crate) fn params(&mut self, graph: &'m GraphProto) -> Result<Vec<(String, Var)>, OnnxError> {
        let mut params = Vec::new();
        for input in graph.input.iter().filter(|it| !self.values.contains_key(&*it.name)).collect::<Vec<_>>()
        {
            let place = format!("input `{}`", show(&input.name));
            let ty = input.ty.clone().unwrap_or_default();
            let (value, narrow) = self.input(&input.name, &ty, &mut params).map_err(|err| err.at(&place))?;
            if let Some(narrow) = narrow {
                self.narrow.insert(&input.name, narrow);
            }
            self.values.insert(&input.name, value);
        }
        self.check_options(graph, &params)?;
        Ok(params)
    }

    /// Rejects options for dimensions and inputs that the model does not have.
    fn check_options(&self, graph: &GraphProto, params: &[(String, Var)]) -> Result<(), OnnxError> {
        let known = |name: &&String| !params.is_empty() && !self.dims.contains_key(*name);
        if let Some(name) = self.options.dims.keys().find(known) {
            let names: Vec<String> = self.dims.keys().map(|it| show(it)).collect();
            let message =
                format!("no input has a dimension `{}`; there are [{}]", show(name), names.join(", "));
            return Err(OnnxError::malformed(message));
        }
        let missing = |kind: &str, name: &str, names: &mut dyn Iterator<Item = &str>| {
            let names: Vec<String> = names.map(show).collect();
            if names.contains(&show(name)) {
                return Ok(());
            }
            let message = format!("there is no {kind} `{}`; there are [{}]", show(name), names.join(", "));
            Err(OnnxError::malformed(message))
        };
        let inputs = |of: fn(&TypeProto) -> bool| {
            let of = move |it: &&ValueInfoProto| it.ty.as_ref().is_some_and(of);
            graph.input.iter().filter(of).map(|it| it.name.as_str())
        };
        let optional = |it: &TypeProto| it.optional_type.is_some();
        for name in self.options.shapes.keys() {
            let params = params.iter().map(|(name, _)| name.as_str());
            missing("input", name, &mut params.chain(inputs(|it| it.tensor_type.is_some())))?;
        }
        for name in self.options.sequences.keys() {
            let nested = params.iter().filter_map(|(name, _)| name.rsplit_once('[')).map(|(name, _)| name);
            let of = |it: &TypeProto| it.sequence_type.is_some() || it.optional_type.is_some();
            missing("sequence", name, &mut inputs(of).chain(nested))?;
        }
        for name in &self.options.absent {
            missing("optional input", name, &mut inputs(optional))?;
        }
        Ok(())
    }

    /// The value of the input `name`; each of its tensors becomes a parameter.
    fn input(
        &mut self,
        name: &str,
        ty: &TypeProto,
        params: &mut Vec<(String, Var)>,
    ) -> Result<(Value, Option<Narrow>), OnnxError> {
        let element = |of: &ElementTypeProto| of.elem_type.as_deref().cloned().unwrap_or_default();
        if let Some(tensor) = &ty.tensor_type {
            if tensor.elem_type == ElemType::String as i32 {
                return self.input_strings(name, tensor, params).map(|value| (value, None));
            }
            let (ty, narrow) = self.input_type(name, tensor)?;
            self.account(&ty)?;
            let var = Var::with_span(identifier(name), ty, Span::model(format!("input `{}`", show(name))));
            let value = Value::Arg(Arg::from(&var));
            params.push((name.to_string(), var));
            return Ok((value, narrow));
        }
        if let Some(of) = &ty.sequence_type {
            let Some(&len) = self.options.sequences.get(name) else {
                return Err(OnnxError::unsupported("sequences of unknown length as inputs")
                    .help("give the number of elements with the option `sequence`"));
            };
            let mut elements = Vec::new();
            for i in 0..len {
                let (value, narrow) = self.input(&format!("{name}[{i}]"), &element(of), params)?;
                if let Some(narrow) = narrow {
                    return Err(OnnxError::unsupported(format!("sequences of {}", narrow.name)));
                }
                elements.push(value);
            }
            return Ok((Value::Sequence(elements), None));
        }
        match &ty.optional_type {
            Some(_) if self.options.absent.contains(name) => Ok((Value::Absent, None)),
            Some(of) => self.input(name, &element(of), params),
            None if ty.map_type.is_some() => Err(OnnxError::unsupported("maps as inputs")),
            None if ty.sparse_tensor_type.is_some() => {
                Err(OnnxError::unsupported("sparse tensors as inputs"))
            }
            None => Err(OnnxError::malformed("it has no type")),
        }
    }

    /// A tensor of strings is a parameter of bytes, with the dimension `NAME_width` at the end. Options for its shape do not have it.
    fn input_strings(
        &mut self,
        name: &str,
        tensor: &TensorTypeProto,
        params: &mut Vec<(String, Var)>,
    ) -> Result<Value, OnnxError> {
        let bytes = TensorTypeProto { elem_type: ElemType::Uint8 as i32, ..tensor.clone() };
        let (ty, _) = self.input_type(name, &bytes)?;
        let mut shape = ty.as_tensor().and_then(TensorType::known_shape).unwrap_or_default().to_vec();
        shape.push(self.dim(&format!("{}_width", identifier(name)))?);
        let ty = Type::tensor(shape, DataType::U8);
        self.account(&ty)?;
        let var = Var::with_span(identifier(name), ty, Span::model(format!("input `{}`", show(name))));
        let value = Value::Strings(Arg::from(&var));
        params.push((name.to_string(), var));
        Ok(value)
    }

    fn input_type(
        &mut self,
        name: &str,
        tensor: &TensorTypeProto,
    ) -> Result<(Type, Option<Narrow>), OnnxError> {
        let (dtype, narrow) = element_from_onnx(tensor.elem_type.into())?;
        if let Some(shape) = self.options.shapes.get(name) {
            return Ok((Type::Tensor(TensorType::fixed(shape, dtype)), narrow));
        }
        let Some(shape) = &tensor.shape else {
            return Err(OnnxError::unsupported("inputs of unknown rank").help("give the shape of the input"));
        };
        if shape.dim.len() > MAX_RANK {
            return Err(OnnxError::malformed(format!("a tensor of rank {}", shape.dim.len())));
        }
        let mut extents = Vec::new();
        for (axis, dim) in shape.dim.iter().enumerate() {
            extents.push(match (dim.dim_value, dim.dim_param.as_deref()) {
                (Some(value), _) if value < -1 => {
                    return Err(OnnxError::malformed(format!("extent {value} of axis {axis} is negative")));
                }
                (Some(value), _) if value >= 0 => PrimExpr::index(value),
                (None, Some(name)) if !UNNAMED.contains(&name.trim()) => self.dim(name)?,
                _ => self.dim(&format!("{}_dim{axis}", identifier(name)))?,
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
}

#[cfg(test)]
mod tests {
    use crate::importer::import_proto;
    use crate::options::ImportOptions;
    use crate::proto::{
        DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
        TensorTypeProto, TypeProto, ValueInfoProto,
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
                // Shapes of values that nodes make are not compared.
                let want = want.filter(|it| place == "c" || it.starts_with("elements"));
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
