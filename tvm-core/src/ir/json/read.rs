//! Reading: builds the nodes of the table one after another.

use std::sync::Arc;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value};
use tvm_runtime::{DataType, Device, DeviceKind, Tensor};

use super::{MAX_DEPTH, MAX_SIZE, VERSION};
use crate::ir::graph::{self, Arg, Binding, BindingBlock, Body, Clause, Pattern};
use crate::ir::tensor_program::{
    Block, Buffer, BufferRegion, IterVar, MatchBufferRegion, Param, PrimExpr, Range, Stmt,
};
use crate::ir::{
    AttrValue, Attrs, BaseFunc, ConstructorDef, GlobalVar, IRModule, IrError, Span, Type, TypeDef, TypeParam,
    Var, well_formed,
};

/// The module that `text` describes, with fresh identities.
///
/// # Errors
/// When the text is malformed, has another format version, or describes a module that is not well-formed.
pub fn from_json(text: &str) -> Result<IRModule, IrError> {
    let value: Value = serde_json::from_str(text).map_err(|err| error(format!("not JSON: {err}")))?;
    let top = Fields::new(&value, "the top")?;
    let version = top.value("tvm_ir")?.as_u64();
    if version != Some(VERSION) {
        return Err(error(format!(
            "the format is version {VERSION}, the text says {}",
            top.value("tvm_ir")?
        )));
    }
    let functions = top.array("functions")?;
    let mut reader = Reader::default();
    for function in functions {
        let name = function.get(0).and_then(Value::as_str);
        let name = name.ok_or_else(|| error("a function is a pair of a name and a node"))?;
        if reader.globals.insert(name.to_string(), GlobalVar::new(name)).is_some() {
            return Err(error(format!("two functions are named `{name}`")));
        }
    }
    for (i, node) in top.array("nodes")?.iter().enumerate() {
        reader.node(node, &format!("node {i}"))?;
    }
    let mut module = IRModule::new();
    for place in top.array("types")? {
        module.add_type(reader.at::<Arc<TypeDef>>(place, "types")?);
    }
    for function in functions {
        let func = reader.at::<BaseFunc>(&function[1], "functions")?;
        if let Some(gv) = function[0].as_str().and_then(|name| reader.globals.get(name)) {
            module.update(gv.clone(), func);
        }
    }
    module.attrs = top.attrs("attrs")?;
    well_formed(&module)?;
    Ok(module)
}

pub(crate) fn error(message: impl Into<String>) -> IrError {
    IrError::new(message, &Span::none())
}

macro_rules! built {
    ($($variant:ident($ty:ty);)*) => {
        /// A node that was read.
        pub(crate) enum Built {
            $($variant($ty),)*
        }

        $(
            impl FromBuilt for $ty {
                const WHAT: &'static str = stringify!($variant);

                fn from_built(built: &Built) -> Option<&$ty> {
                    if let Built::$variant(it) = built { Some(it) } else { None }
                }
            }

            impl From<$ty> for Built {
                fn from(node: $ty) -> Built {
                    Built::$variant(node)
                }
            }
        )*
    };
}

/// A type of node that a field may refer to.
pub(crate) trait FromBuilt: Sized {
    const WHAT: &'static str;

    fn from_built(built: &Built) -> Option<&Self>;
}

built! {
    Expr(PrimExpr);
    Stmt(Stmt);
    Block(Arc<Block>);
    IterVar(IterVar);
    Range(Range);
    BufferRegion(BufferRegion);
    MatchBuffer(MatchBufferRegion);
    Buffer(Buffer);
    Var(Var);
    Param(Param);
    Func(BaseFunc);
    Type(Type);
    TypeDef(Arc<TypeDef>);
    ConstructorDef(ConstructorDef);
    Arg(Arg);
    RelaxExpr(graph::Expr);
    Body(Body);
    BindingBlock(BindingBlock);
    Binding(Binding);
    Clause(Clause);
    Pattern(Pattern);
}

/// The nodes read so far, and the functions of the module by name.
#[derive(Default)]
pub(crate) struct Reader {
    nodes: Vec<Entry>,
    globals: FxHashMap<String, GlobalVar>,
}

struct Entry {
    built: Built,
    depth: u32,
    size: u64,
}

/// The fields of one node that is being read.
pub(crate) struct Fields<'a> {
    map: &'a Map<String, Value>,
    place: &'a str,
}

impl Reader {
    fn node(&mut self, value: &Value, place: &str) -> Result<(), IrError> {
        let fields = Fields::new(value, place)?;
        let (mut depth, mut size) = (0, 1u64);
        for child in fields.map.values().flat_map(children) {
            if let Some(entry) = self.nodes.get(child) {
                depth = depth.max(entry.depth);
                size = size.saturating_add(entry.size);
            }
        }
        if depth >= MAX_DEPTH || size > MAX_SIZE {
            return Err(error(format!("{place}: the program is too deep or too large")));
        }
        let node = Node { reader: self, fields };
        let kind = node.str("kind")?;
        let built = match node.tensor_program(kind)? {
            Some(built) => built,
            None => node.graph(kind)?.ok_or_else(|| node.error(format!("unknown kind `{kind}`")))?,
        };
        self.nodes.push(Entry { built, depth: depth + 1, size });
        Ok(())
    }

    fn at<T: FromBuilt + Clone>(&self, place: &Value, field: &str) -> Result<T, IrError> {
        let index = place.as_u64().and_then(|index| usize::try_from(index).ok());
        let entry = index.and_then(|index| self.nodes.get(index));
        let entry =
            entry.ok_or_else(|| error(format!("`{field}` refers to {place}, which is no earlier node")))?;
        let found = T::from_built(&entry.built);
        found
            .cloned()
            .ok_or_else(|| error(format!("`{field}` refers to {place}, expected a node of {}", T::WHAT)))
    }
}

/// The numbers in a field that may be table indices of children.
fn children(value: &Value) -> Vec<usize> {
    let place = |value: &Value| value.as_u64().and_then(|it| usize::try_from(it).ok());
    match value {
        Value::Array(items) => items.iter().filter_map(place).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            place(value).into_iter().collect()
        }
    }
}

/// A node that is being read, with access to the nodes before it.
pub(crate) struct Node<'a> {
    reader: &'a Reader,
    fields: Fields<'a>,
}

impl Node<'_> {
    pub(crate) fn error(&self, message: impl AsRef<str>) -> IrError {
        error(format!("{}: {}", self.fields.place, message.as_ref()))
    }

    fn here<T>(&self, found: Result<T, IrError>) -> Result<T, IrError> {
        found.map_err(|err| self.error(err.to_string()))
    }

    /// The node that the field refers to.
    pub(crate) fn child<T: FromBuilt + Clone>(&self, name: &str) -> Result<T, IrError> {
        self.here(self.reader.at(self.fields.value(name)?, name))
    }

    /// As `child`; `None` when the field is missing.
    pub(crate) fn option<T: FromBuilt + Clone>(&self, name: &str) -> Result<Option<T>, IrError> {
        if self.fields.map.contains_key(name) { self.child(name).map(Some) } else { Ok(None) }
    }

    /// The nodes that the field refers to; an empty list when it is missing.
    pub(crate) fn list<T: FromBuilt + Clone>(&self, name: &str) -> Result<Arc<[T]>, IrError> {
        self.items(name)?.iter().map(|item| self.here(self.reader.at(item, name))).collect()
    }

    pub(crate) fn items(&self, name: &str) -> Result<&[Value], IrError> {
        match self.fields.map.get(name) {
            None => Ok(&[]),
            Some(Value::Array(items)) => Ok(items),
            Some(_) => Err(self.error(format!("`{name}` is no list"))),
        }
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.map.contains_key(name)
    }

    pub(crate) fn str(&self, name: &str) -> Result<&str, IrError> {
        self.fields.value(name)?.as_str().ok_or_else(|| self.error(format!("`{name}` is no string")))
    }

    /// An integer of type `T`.
    pub(crate) fn int<T: TryFrom<i64>>(&self, name: &str) -> Result<T, IrError> {
        self.integer(self.fields.value(name)?, name)
    }

    pub(crate) fn integer<T: TryFrom<i64>>(&self, value: &Value, name: &str) -> Result<T, IrError> {
        let value = value.as_i64().and_then(|value| T::try_from(value).ok());
        value.ok_or_else(|| self.error(format!("`{name}` is no integer of its range")))
    }

    pub(crate) fn flag(&self, name: &str) -> Result<bool, IrError> {
        Ok(self.int::<i64>(name)? != 0)
    }

    pub(crate) fn float(&self, name: &str) -> Result<f64, IrError> {
        float(self.str(name)?).ok_or_else(|| self.error(format!("`{name}` is no float")))
    }

    /// A number of lanes, at most 128, so that the lane count of a vector of vectors does not overflow.
    pub(crate) fn lanes(&self, name: &str) -> Result<u16, IrError> {
        let lanes = self.int::<u16>(name)?;
        if lanes <= 128 { Ok(lanes) } else { Err(self.error(format!("`{name}` is over 128"))) }
    }

    pub(crate) fn dtype(&self, name: &str) -> Result<DataType, IrError> {
        let dtype = dtype(self.str(name)?);
        dtype.ok_or_else(|| self.error(format!("`{name}` is no data type")))
    }

    pub(crate) fn device(&self, name: &str) -> Result<Device, IrError> {
        let (kind, id) = self.str(name)?.split_once(':').unwrap_or_default();
        let kind = match kind {
            "cpu" => DeviceKind::Cpu,
            "cuda" => DeviceKind::Cuda,
            _ => return Err(self.error(format!("`{name}` is no device"))),
        };
        let id = id.parse().map_err(|_| self.error(format!("`{name}` is no device")))?;
        Ok(Device { kind, id })
    }

    pub(crate) fn span(&self) -> Result<Span, IrError> {
        let Some(value) = self.fields.map.get("span") else { return Ok(Span::none()) };
        match value {
            Value::String(path) => Ok(Span::model(path.as_str())),
            Value::Array(items) if items.len() == 3 => {
                let file = items[0].as_str().ok_or_else(|| self.error("the file of a span is no string"))?;
                Ok(Span::rust(file, self.integer(&items[1], "span")?, self.integer(&items[2], "span")?))
            }
            _ => Err(self.error("`span` is neither a path nor file, line and column")),
        }
    }

    pub(crate) fn attrs(&self, name: &str) -> Result<Attrs, IrError> {
        if self.has(name) { self.here(self.fields.attrs(name)) } else { Ok(Attrs::new()) }
    }

    pub(crate) fn global(&self, name: &str) -> Result<GlobalVar, IrError> {
        let func = self.str(name)?;
        let found = self.reader.globals.get(func).cloned();
        found.ok_or_else(|| self.error(format!("the module has no function `{func}`")))
    }

    pub(crate) fn tensor(&self, name: &str) -> Result<Tensor, IrError> {
        let fields = Fields::new(self.fields.value(name)?, self.fields.place)?;
        let tensor = Node { reader: self.reader, fields };
        let shape = tensor
            .items("shape")?
            .iter()
            .map(|it| tensor.integer(it, "shape"))
            .collect::<Result<Vec<i64>, _>>()?;
        let bytes = unhex(tensor.str("data")?).ok_or_else(|| self.error("`data` is no hexadecimal text"))?;
        Tensor::from_bytes(&bytes, &shape, tensor.dtype("dtype")?).map_err(|err| self.error(err.to_string()))
    }

    pub(crate) fn type_params(&self, name: &str) -> Result<Arc<[TypeParam]>, IrError> {
        let param = |item: &Value| item.as_str().map(|name| TypeParam(name.into()));
        let params = self.items(name)?.iter().map(param).collect::<Option<_>>();
        params.ok_or_else(|| self.error(format!("`{name}` are no names")))
    }
}

impl<'a> Fields<'a> {
    fn new(value: &'a Value, place: &'a str) -> Result<Fields<'a>, IrError> {
        let map = value.as_object().ok_or_else(|| error(format!("{place} is no object")))?;
        Ok(Fields { map, place })
    }

    fn value(&self, name: &str) -> Result<&'a Value, IrError> {
        self.map.get(name).ok_or_else(|| error(format!("{}: `{name}` is missing", self.place)))
    }

    fn array(&self, name: &str) -> Result<&'a [Value], IrError> {
        let items = self.value(name)?.as_array();
        items.map(Vec::as_slice).ok_or_else(|| error(format!("{}: `{name}` is no list", self.place)))
    }

    fn attrs(&self, name: &str) -> Result<Attrs, IrError> {
        let bad = || error(format!("{}: `{name}` are no attributes", self.place));
        let map = self.value(name)?.as_object().ok_or_else(bad)?;
        map.iter().map(|(name, value)| Some((name, attr(value)?))).collect::<Option<Attrs>>().ok_or_else(bad)
    }
}

fn attr(value: &Value) -> Option<AttrValue> {
    Some(match value {
        Value::Bool(it) => AttrValue::Bool(*it),
        Value::Number(it) => AttrValue::Int(it.as_i64()?),
        Value::String(it) => AttrValue::Str(it.as_str().into()),
        Value::Array(items) => AttrValue::List(items.iter().map(attr).collect::<Option<_>>()?),
        Value::Object(map) => match (map.get("float"), map.get("dtype")) {
            (Some(it), None) => AttrValue::Float(float(it.as_str()?)?),
            (None, Some(it)) => AttrValue::DType(dtype(it.as_str()?)?),
            (Some(_), Some(_)) | (None, None) => return None,
        },
        Value::Null => return None,
    })
}

fn float(text: &str) -> Option<f64> {
    match text.strip_prefix("nan:") {
        Some(bits) => Some(f64::from_bits(u64::from_str_radix(bits, 16).ok()?)).filter(|it| it.is_nan()),
        None => text.parse().ok(),
    }
}

fn dtype(text: &str) -> Option<DataType> {
    text.parse().ok().filter(|it: &DataType| (1..=128).contains(&it.lanes()))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |c: u8| char::from(c).to_digit(16).map(|digit| digit as u8);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|&[high, low]| Some(digit(high)? << 4 | digit(low)?)).collect()
}
