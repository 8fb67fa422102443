//! Conversion of one node: access to its inputs and attributes, and emission of operators.

use tvm_core::ir::{Attrs, Span, TensorType, Type};
use tvm_core::relax::analysis::{prove_equal, prove_unequal};
use tvm_core::relax::{Arg, Body};
use tvm_core::tir::PrimExpr;
use tvm_runtime::{DataType, Tensor};

use crate::error::OnnxError;
use crate::importer::Importer;
use crate::names::show;
use crate::narrow::Narrow;
use crate::ops::Quantized;
use crate::proto::{AttributeProto, AttributeType, GraphProto, NodeProto};
use crate::split::Split;
use crate::tensor::{decode_tensor, decode_text};
use crate::value::{Form, Ints, Value};

/// A node that is being converted.
pub(crate) struct Node<'a, 'm> {
    importer: &'a mut Importer<'m>,
    proto: &'m NodeProto,
    span: Span,
    /// Version of the standard operator set.
    pub(crate) opset: i64,
    /// Narrow type of the elements of the outputs, if they have one.
    pub(crate) gives: Option<Narrow>,
    /// The rank of the node's results depends on a condition.
    pub(crate) split: Option<Split<'m>>,
}

/// An arm of a branch.
pub(crate) struct Arm {
    pub(crate) body: Body,
    /// Types of the tensors that it gives.
    pub(crate) types: Vec<Type>,
    /// How its values are made up of the tensors.
    pub(crate) forms: Vec<Form>,
}

impl<'a, 'm> Node<'a, 'm> {
    pub(crate) fn new(importer: &'a mut Importer<'m>, proto: &'m NodeProto, span: Span) -> Node<'a, 'm> {
        let opset = importer.opset;
        Node { importer, proto, span, opset, gives: None, split: None }
    }

    /// The node as it is in the model.
    pub(crate) fn proto(&self) -> &'m NodeProto {
        self.proto
    }

    /// Name of the operator.
    pub(crate) fn op_type(&self) -> &'m str {
        &self.proto.op_type
    }

    /// Number of inputs listed in the node, including omitted inputs with an empty name.
    pub(crate) fn num_inputs(&self) -> usize {
        self.proto.input.len()
    }

    /// Number of outputs listed in the node.
    pub(crate) fn num_outputs(&self) -> usize {
        self.proto.output.len()
    }

    /// True if output `i` is used.
    pub(crate) fn has_output(&self, i: usize) -> bool {
        self.proto.output.get(i).is_some_and(|name| !name.is_empty())
    }

    /// Makes an error: the model contradicts the definition of the operator.
    pub(crate) fn malformed(&self, message: impl Into<String>) -> OnnxError {
        OnnxError::malformed(message)
    }

    /// Makes an error: the node uses an unsupported feature.
    pub(crate) fn unsupported(&self, what: impl AsRef<str>) -> OnnxError {
        OnnxError::unsupported(format!("{}: {}", show(self.op_type()), what.as_ref()))
    }

    /// State of the import.
    pub(crate) fn importer(&mut self) -> &mut Importer<'m> {
        self.importer
    }

    /// Place of the node in the model.
    pub(crate) fn span(&self) -> &Span {
        &self.span
    }

    // Nested graphs.

    /// The graph in the attribute `name`.
    pub(crate) fn graph(&self, name: &str) -> Result<&'m GraphProto, OnnxError> {
        let graph = self.attr(name, AttributeType::Graph)?.and_then(|it| it.g.as_ref());
        self.required(name, graph)
    }

    fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.span.text())
    }

    /// Converts the graph of the attribute `name` here, with the given inputs; returns its outputs.
    pub(crate) fn nested(
        &mut self,
        name: &str,
        graph: &'m GraphProto,
        inputs: Vec<Value>,
    ) -> Result<Vec<Value>, OnnxError> {
        let path = self.path_of(name);
        self.importer.nested(graph, &path, inputs)
    }

    /// Converts an arm of a branch to a body of its own, under the assumption that the condition has the given value. The
    /// inner result is an error if the model contradicts itself there.
    pub(crate) fn arm(
        &mut self,
        name: &str,
        graph: &'m GraphProto,
        (cond, truth): (&Arg, bool),
    ) -> Result<Result<Arm, OnnxError>, OnnxError> {
        let (path, span) = (self.path_of(name), self.span.clone());
        let tried = self.importer.tried(|importer| {
            importer.assume(cond, truth);
            let values = importer.nested(graph, &path, Vec::new())?;
            let (args, forms) = importer.tensors(values, &span)?;
            let types = args.iter().map(|arg| importer.type_of(arg)).collect();
            Ok((args, (types, forms)))
        })?;
        Ok(tried.map(|(body, (types, forms))| Arm { body, types, forms }))
    }

    /// Binds a choice between two bodies that give values of the same forms; returns the values.
    pub(crate) fn choose(
        &mut self,
        cond: &Arg,
        yes: Body,
        no: Body,
        forms: &[Form],
    ) -> Result<Vec<Value>, OnnxError> {
        let span = self.span.clone();
        self.importer.choose(cond, yes, no, forms, &span)
    }

    /// Runs `convert` with other values for some inputs.
    pub(crate) fn with_inputs<T>(
        &mut self,
        values: Vec<(usize, Value)>,
        convert: impl FnOnce(&mut Self) -> Result<T, OnnxError>,
    ) -> Result<T, OnnxError> {
        let before = self.importer.read.len();
        self.importer.enter();
        let mut replaced: Vec<&str> = Vec::new();
        for (i, value) in values {
            replaced.push(&self.proto.input[i]);
            self.importer.define(&self.proto.input[i], value, None);
        }
        let res = convert(self);
        // What was read of other inputs stays read: a choice that the conversion asks for is about those very dimensions.
        let mut read = self.importer.read.split_off(before);
        read.retain(|(name, _)| !replaced.contains(name));
        self.importer.leave();
        self.importer.read.extend(read);
        res
    }

    /// Runs `convert` and drops what it emits.
    pub(crate) fn rehearsed<T>(
        &mut self,
        convert: impl FnOnce(&mut Self) -> Result<T, OnnxError>,
    ) -> Result<T, OnnxError> {
        self.importer.enter();
        self.importer.builder.begin_scope();
        let res = convert(self);
        self.importer.builder.end_scope(Arg::Tuple([].into()));
        self.importer.leave();
        res
    }

    /// The value as an argument.
    pub(crate) fn materialise(&mut self, value: Value) -> Result<Arg, OnnxError> {
        self.importer.materialise(value, &self.span)
    }

    /// The tensors of the values, and how the values are made up of them.
    pub(crate) fn tensors(&mut self, values: Vec<Value>) -> Result<(Vec<Arg>, Vec<Form>), OnnxError> {
        self.importer.tensors(values, &self.span)
    }

    /// Whether `extent` is 1; `None` where that is not known.
    pub(crate) fn is_one(&self, extent: &PrimExpr) -> Option<bool> {
        let one = PrimExpr::index(1);
        if prove_equal(extent, &one) || prove_unequal(extent, &one) {
            return Some(prove_equal(extent, &one));
        }
        self.importer.holds(&extent.clone().equal(1))
    }

    /// `value` as a constant, if it is a condition that is known here.
    pub(crate) fn decided(&self, value: &PrimExpr) -> PrimExpr {
        self.importer.decided(value)
    }

    // Inputs.

    /// Input `i` as the importer knows it, or `None` if it is omitted.
    pub(crate) fn opt_value(&self, i: usize) -> Option<&Value> {
        self.proto.input.get(i).filter(|name| !name.is_empty()).and_then(|name| self.importer.value(name))
    }

    /// Input `i` as the importer knows it; an error if it is omitted.
    pub(crate) fn value(&self, i: usize) -> Result<&Value, OnnxError> {
        self.opt_value(i).ok_or_else(|| self.malformed(format!("input {i} is missing")))
    }

    /// True if input `i` is given.
    pub(crate) fn has(&self, i: usize) -> bool {
        self.opt_value(i).is_some()
    }

    /// Input `i` as an argument; an error if it is omitted.
    pub(crate) fn arg(&mut self, i: usize) -> Result<Arg, OnnxError> {
        let value = self.value(i)?.clone();
        self.materialise(value)
    }

    /// Input `i` as an argument, or `None` if it is omitted.
    pub(crate) fn opt_arg(&mut self, i: usize) -> Result<Option<Arg>, OnnxError> {
        if self.has(i) { self.arg(i).map(Some) } else { Ok(None) }
    }

    /// All inputs as arguments.
    pub(crate) fn args(&mut self) -> Result<Vec<Arg>, OnnxError> {
        (0..self.num_inputs()).map(|i| self.arg(i)).collect()
    }

    /// Input `i`, which must be a constant.
    pub(crate) fn tensor(&self, i: usize) -> Result<Tensor, OnnxError> {
        let what = || self.unsupported(format!("input {i} that is not a constant"));
        self.value(i)?.tensor().ok_or_else(what)
    }

    /// Input `i`, which must be a vector of integers: constants, symbolic values, or dimensions that are read at run time.
    pub(crate) fn dims(&mut self, i: usize) -> Result<Vec<PrimExpr>, OnnxError> {
        if let Some(ints) = self.value(i)?.ints() {
            return Ok(ints.values);
        }
        let name = self.proto.input[i].as_str();
        if let Some((_, Some(read))) = self.importer.read.iter().rev().find(|(it, _)| *it == name) {
            return Ok(read.clone());
        }
        let arg = self.arg(i)?;
        let read = self.importer.read_dims(&arg, &self.span)?;
        let read = read
            .ok_or_else(|| self.unsupported(format!("input {i}, which is not a short vector of integers")))?;
        self.importer.read.push((name, Some(read.clone())));
        Ok(read)
    }

    /// Axes of a tensor of `rank` axes, from input `i` in operator sets from `since` on, or from the attribute `name` in
    /// earlier ones. For axes that only a run knows, the rest of the graph is converted for each axis.
    pub(crate) fn axes_at(
        &mut self,
        i: usize,
        name: &str,
        since: i64,
        rank: impl FnOnce(usize) -> usize,
    ) -> Result<Option<Vec<i64>>, OnnxError> {
        let known = if self.opset < since { self.attr_ints(name)?.map(<[i64]>::to_vec) } else { None };
        if let Some(axes) = known {
            return self.axes(&axes, rank(axes.len())).map(Some);
        }
        if self.opset < since || !self.has(i) {
            return Ok(None);
        }
        let given = self.dims(i)?;
        let rank = rank(given.len());
        let mut axes = Vec::new();
        for axis in given {
            axes.push(self.one_of(&axis, rank as i64, rank as i64)?);
        }
        self.axes(&axes, rank).map(Some)
    }

    /// The value of a position from `-count` to `last`, which is below `count` or equal to it: an axis, or a place in a
    /// sequence; negative ones count from the end. For a position that only a run knows, the rest of the graph is converted
    /// for each.
    pub(crate) fn one_of(&mut self, position: &PrimExpr, count: i64, end: i64) -> Result<i64, OnnxError> {
        /// Largest number of positions for which the rest of the graph is converted for each.
        const MAX_POSITIONS: i64 = 8;
        if let Some(position) = position.as_int() {
            return Ok(position);
        }
        if end > MAX_POSITIONS {
            return Err(self.unsupported(format!("one of {end} positions, which only a run knows")));
        }
        let place = position.clone().less(0).select(position.clone() + count, position.clone());
        for at in 0..end - 1 {
            let cond = place.clone().equal(at);
            match self.importer.holds(&cond) {
                Some(true) => return Ok(at),
                Some(false) => {}
                None => {
                    if at == 0 {
                        let inside = position.clone().greater_equal(-count).and(position.clone().less(end));
                        let span = self.span.clone();
                        self.importer.check_condition(&Arg::Prim(inside), true, &span)?;
                    }
                    self.split = Some(Split { cond: Arg::Prim(cond), arms: None });
                    return Err(self.unsupported("a position that only a run knows"));
                }
            }
        }
        Ok(end - 1)
    }

    /// The elements of a short vector of integers, or of a scalar, which are read when the program runs.
    pub(crate) fn read(&mut self, arg: &Arg) -> Result<Vec<PrimExpr>, OnnxError> {
        let read = self.importer.read_dims(arg, &self.span)?;
        read.ok_or_else(|| self.unsupported("a long list of integers that only a run knows"))
    }

    /// Input `i`, which must be one integer; otherwise as [`dims`](Self::dims).
    pub(crate) fn dim(&mut self, i: usize) -> Result<PrimExpr, OnnxError> {
        match &self.dims(i)?[..] {
            [value] => Ok(value.clone()),
            values => Err(self.malformed(format!("input {i} is one integer, got {}", values.len()))),
        }
    }

    /// Input `i`, which must be constant integers.
    pub(crate) fn ints(&self, i: usize) -> Result<Vec<i64>, OnnxError> {
        let what = || self.unsupported(format!("input {i} whose values are not constant"));
        self.value(i)?.ints().and_then(|it| it.as_const()).ok_or_else(what)
    }

    /// Input `i`, which must be one constant integer.
    pub(crate) fn int(&self, i: usize) -> Result<i64, OnnxError> {
        match self.ints(i)?[..] {
            [value] => Ok(value),
            _ => Err(self.malformed(format!("input {i} is one integer"))),
        }
    }

    /// Integers from input `i` in operator sets from `since` on, or from the attribute `name` in earlier ones.
    pub(crate) fn ints_or_attr(
        &self,
        i: usize,
        name: &str,
        since: i64,
    ) -> Result<Option<Vec<i64>>, OnnxError> {
        if self.opset < since {
            return Ok(self.attr_ints(name)?.map(<[i64]>::to_vec));
        }
        if self.has(i) { self.ints(i).map(Some) } else { Ok(None) }
    }

    // Types.

    /// The narrow type of the elements of input `i`, if they have one.
    pub(crate) fn narrow(&self, i: usize) -> Option<Narrow> {
        self.importer.narrow.get(self.proto.input.get(i)?.as_str()).copied()
    }

    /// What input `i` was dequantised from, if that is known.
    pub(crate) fn quantized(&self, i: usize) -> Option<Quantized> {
        let known = self.importer.quantized.get(self.proto.input.get(i)?.as_str())?;
        let Value::Arg(value) = self.opt_value(i)? else { return None };
        known.is_of(value).then(|| known.clone())
    }

    /// Declares what output 0 was dequantised from.
    pub(crate) fn is_quantized(&mut self, quantized: Quantized) {
        if let Some(name) = self.proto.output.first() {
            self.importer.quantized.insert(name, quantized);
        }
    }

    /// Declares that the elements of the outputs have a narrow type.
    pub(crate) fn gives(&mut self, narrow: Narrow) {
        self.gives = Some(narrow);
    }

    /// The tensor type of an argument.
    pub(crate) fn type_of(&self, arg: &Arg) -> Result<TensorType, OnnxError> {
        match self.importer.type_of(arg) {
            Type::Tensor(ty) => Ok(ty),
            _ => Err(self.malformed("an input is not a tensor")),
        }
    }

    /// Element type of an argument.
    pub(crate) fn dtype(&self, arg: &Arg) -> Result<DataType, OnnxError> {
        self.type_of(arg)?.dtype.ok_or_else(|| self.unsupported("an unknown element type"))
    }

    /// Extents of an argument.
    pub(crate) fn shape(&self, arg: &Arg) -> Result<Vec<PrimExpr>, OnnxError> {
        let ty = self.type_of(arg)?;
        ty.known_shape().map(<[_]>::to_vec).ok_or_else(|| self.unsupported("a shape known only at run time"))
    }

    /// Extent of an argument along an axis; an error if it has no such axis.
    pub(crate) fn extent(&self, arg: &Arg, axis: usize) -> Result<PrimExpr, OnnxError> {
        let shape = self.shape(arg)?;
        let rank = shape.len();
        let extent = shape.into_iter().nth(axis);
        extent.ok_or_else(|| self.malformed(format!("an operand has {rank} axes, there is none at {axis}")))
    }

    /// Rank of an argument.
    pub(crate) fn rank(&self, arg: &Arg) -> Result<usize, OnnxError> {
        self.type_of(arg)?.ndim().ok_or_else(|| self.unsupported("a rank known only at run time"))
    }

    /// Converts `axis`, which may count from the end, to an index into `rank` axes.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Result<usize, OnnxError> {
        let n = rank as i64;
        if (-n..n).contains(&axis) {
            return Ok(axis.rem_euclid(n) as usize);
        }
        Err(self.malformed(format!("axis {axis} is outside of a tensor of rank {rank}")))
    }

    /// Converts `axes` to indices into `rank` axes; a repeated axis is an error.
    pub(crate) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<i64>, OnnxError> {
        let mut res = Vec::new();
        for &axis in axes {
            let axis = self.axis(axis, rank)? as i64;
            if res.contains(&axis) {
                return Err(self.malformed(format!("axis {axis} is given twice")));
            }
            res.push(axis);
        }
        Ok(res)
    }

    // Attributes.

    fn attr(&self, name: &str, ty: AttributeType) -> Result<Option<&'m AttributeProto>, OnnxError> {
        let Some(attr) = self.proto.attribute.iter().find(|it| it.name == name) else { return Ok(None) };
        if attr.ty != ty as i32 {
            let got = AttributeType::try_from(attr.ty);
            let got = got.map_or_else(|_| format!("type {}", attr.ty), |it| format!("{it:?}"));
            return Err(self.malformed(format!("attribute `{name}` is {ty:?}, got {got}")));
        }
        Ok(Some(attr))
    }

    /// Kind of the attribute, if it is given and its kind is a defined one.
    pub(crate) fn attr_type(&self, name: &str) -> Option<AttributeType> {
        let attr = self.proto.attribute.iter().find(|it| it.name == name)?;
        AttributeType::try_from(attr.ty).ok()
    }

    /// True if the attribute is given.
    pub(crate) fn has_attr(&self, name: &str) -> bool {
        self.proto.attribute.iter().any(|it| it.name == name)
    }

    /// An integer attribute.
    pub(crate) fn attr_int(&self, name: &str) -> Result<Option<i64>, OnnxError> {
        Ok(self.attr(name, AttributeType::Int)?.map(|it| it.i))
    }

    /// An integer attribute with a default.
    pub(crate) fn int_or(&self, name: &str, default: i64) -> Result<i64, OnnxError> {
        Ok(self.attr_int(name)?.unwrap_or(default))
    }

    /// An integer attribute that represents a boolean.
    pub(crate) fn flag(&self, name: &str, default: bool) -> Result<bool, OnnxError> {
        Ok(self.int_or(name, default.into())? != 0)
    }

    /// A float attribute.
    pub(crate) fn attr_float(&self, name: &str) -> Result<Option<f64>, OnnxError> {
        Ok(self.attr(name, AttributeType::Float)?.map(|it| it.f.into()))
    }

    /// A float attribute with a default.
    pub(crate) fn float_or(&self, name: &str, default: f64) -> Result<f64, OnnxError> {
        Ok(self.attr_float(name)?.unwrap_or(default))
    }

    /// A string attribute with a default.
    pub(crate) fn str_or(&self, name: &str, default: &'m str) -> Result<&'m str, OnnxError> {
        let Some(attr) = self.attr(name, AttributeType::String)? else { return Ok(default) };
        std::str::from_utf8(&attr.s).map_err(|_| self.malformed(format!("attribute `{name}` is not text")))
    }

    /// An attribute that is a list of integers.
    pub(crate) fn attr_ints(&self, name: &str) -> Result<Option<&'m [i64]>, OnnxError> {
        Ok(self.attr(name, AttributeType::Ints)?.map(|it| &it.ints[..]))
    }

    /// An attribute that is a list of floats.
    pub(crate) fn attr_floats(&self, name: &str) -> Result<Option<&'m [f32]>, OnnxError> {
        Ok(self.attr(name, AttributeType::Floats)?.map(|it| &it.floats[..]))
    }

    /// An attribute that is a list of strings; empty if it is not given.
    pub(crate) fn attr_strings(&self, name: &str) -> Result<Vec<&'m str>, OnnxError> {
        let Some(attr) = self.attr(name, AttributeType::Strings)? else { return Ok(Vec::new()) };
        let texts: Option<Vec<&str>> = attr.strings.iter().map(|it| std::str::from_utf8(it).ok()).collect();
        texts.ok_or_else(|| self.malformed(format!("attribute `{name}` is not text")))
    }

    /// The bytes of a tensor attribute of strings; `None` if it is another tensor, or not given.
    pub(crate) fn attr_text(&self, name: &str) -> Result<Option<Tensor>, OnnxError> {
        let Some(attr) = self.attr(name, AttributeType::Tensor)? else { return Ok(None) };
        let Some(proto) = &attr.t else { return Ok(None) };
        decode_text(proto, self.importer.options.max_tensor_bytes)
    }

    /// A tensor attribute.
    pub(crate) fn attr_tensor(&self, name: &str) -> Result<Option<Tensor>, OnnxError> {
        let Some(attr) = self.attr(name, AttributeType::Tensor)? else { return Ok(None) };
        let proto =
            attr.t.as_ref().ok_or_else(|| self.malformed(format!("attribute `{name}` has no value")))?;
        decode_tensor(proto, &self.importer.external, self.importer.options.max_tensor_bytes).map(Some)
    }

    /// The narrow type of the elements of a tensor attribute, if they have one.
    pub(crate) fn attr_narrow(&self, name: &str) -> Option<Narrow> {
        let attr = self.proto.attribute.iter().find(|it| it.name == name)?;
        Narrow::from_onnx(attr.t.as_ref()?.data_type.into())
    }

    /// The value of the attribute; if there is none, an error that names the attribute.
    pub(crate) fn required<T>(&self, name: &str, value: Option<T>) -> Result<T, OnnxError> {
        value.ok_or_else(|| self.malformed(format!("attribute `{name}` is missing")))
    }

    // Results.

    /// Emits a call of a graph operator and binds its result.
    pub(crate) fn op(&mut self, name: &str, args: &[Arg], attrs: Attrs) -> Result<Arg, OnnxError> {
        self.importer.emit(name, args, attrs, &self.span)
    }

    /// Emits a call of a graph operator without attributes.
    pub(crate) fn call(&mut self, name: &str, args: &[Arg]) -> Result<Arg, OnnxError> {
        self.op(name, args, Attrs::new())
    }

    /// Emits a read of a tuple field.
    pub(crate) fn field(&mut self, tuple: &Arg, index: usize) -> Result<Arg, OnnxError> {
        self.importer.field(tuple, index, &self.span)
    }

    /// Makes a constant.
    pub(crate) fn constant(&mut self, tensor: Tensor) -> Result<Arg, OnnxError> {
        self.importer.constant(tensor)
    }

    /// Size in bytes of a tensor of this shape; an error if it is not a valid shape or too large.
    pub(crate) fn check_shape(&mut self, extents: &[i64], dtype: DataType) -> Result<usize, OnnxError> {
        self.importer.check_size(extents, dtype)
    }

    /// Makes a constant of rank 0.
    pub(crate) fn scalar(&self, value: f64, dtype: DataType) -> Result<Arg, OnnxError> {
        let tensor = Tensor::from_f64s(&[value], &[], dtype);
        let tensor = tensor.map_err(|_| self.unsupported(format!("constants of type {dtype}")))?;
        Ok(Arg::Const(tensor))
    }

    /// Reshapes `x` to a shape with the same number of elements.
    pub(crate) fn reshape(&mut self, x: &Arg, shape: &[PrimExpr]) -> Result<Arg, OnnxError> {
        if let Some(tensor) = x.as_const()
            && let Some(dims) = shape.iter().map(PrimExpr::as_int).collect::<Option<Vec<_>>>()
            && let Ok(tensor) = tensor.reshape(&dims)
        {
            return Ok(Arg::Const(tensor));
        }
        self.call("reshape", &[x.clone(), Arg::Shape(shape.to_vec().into())])
    }

    /// Converts `x` to `dtype`.
    pub(crate) fn cast(&mut self, x: &Arg, dtype: DataType) -> Result<Arg, OnnxError> {
        if self.dtype(x)? == dtype {
            return Ok(x.clone());
        }
        self.op("astype", std::slice::from_ref(x), Attrs::new().with("dtype", dtype))
    }

    /// A copy of input `i`, if its integers are known symbolically.
    pub(crate) fn known(&self, i: usize) -> Option<Ints> {
        self.opt_value(i)?.ints()
    }
}
