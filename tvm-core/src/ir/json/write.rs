//! Writing a module as JSON.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;
use serde_json::{Map, Value, json};

use super::VERSION;
use crate::ir::structural::{Field, Fields, Node, Slot};
use crate::ir::{AttrValue, Attrs, BufferId, IRModule, IrError, Span, Var, VarId};
use crate::support::with_stack;

/// `module` as JSON.
///
/// # Errors
/// When the module uses an unbound variable or buffer, or has a constant that is not in host memory.
pub fn to_json(module: &IRModule) -> Result<String, IrError> {
    let mut writer = Writer::default();
    let types = module.type_defs().map(|def| writer.node((&**def).into())).collect::<Result<Vec<_>, _>>()?;
    let functions = module
        .functions()
        .map(|(gv, func)| Ok(json!([gv.name(), writer.node(func.into())?])))
        .collect::<Result<Vec<_>, IrError>>()?;
    let mut out = format!("{{\"tvm_ir\": {VERSION}, \"nodes\": [\n");
    for (i, node) in writer.nodes.iter().enumerate() {
        let comma = if i + 1 == writer.nodes.len() { "" } else { "," };
        let _ = writeln!(out, "{node}{comma}");
    }
    let (types, functions, attrs) = (json!(types), json!(functions), attrs(&module.attrs));
    let _ = writeln!(out, "], \"types\": {types}, \"functions\": {functions}, \"attrs\": {attrs}}}");
    Ok(out)
}

#[derive(Default)]
struct Writer {
    nodes: Vec<Value>,
    vars: FxHashMap<VarId, usize>,
    buffers: FxHashMap<BufferId, usize>,
}

impl Writer {
    /// Appends the node to the table, after the nodes that it refers to; returns its index.
    fn node(&mut self, node: Node<'_>) -> Result<usize, IrError> {
        with_stack(|| {
            let mut out = Map::new();
            out.insert("kind".to_string(), node.kind().into());
            for &(slot, field) in Fields::of(node).iter() {
                if let Some(value) = self.field(field)? {
                    insert(&mut out, slot, value);
                }
            }
            let place = self.nodes.len();
            match node {
                Node::VarDef(var) => {
                    self.vars.insert(var.id(), place);
                }
                Node::BufferDef(buffer) => {
                    self.buffers.insert(buffer.id, place);
                }
                _ => {}
            }
            self.nodes.push(out.into());
            Ok(place)
        })
    }

    fn field(&mut self, field: Field<'_>) -> Result<Option<Value>, IrError> {
        Ok(Some(match field {
            Field::Open
            | Field::Close
            | Field::Len(_)
            | Field::Block(_)
            | Field::DefVar(_)
            | Field::DefBuffer(_) => return Ok(None),
            Field::Span(it) if it.is_none() => return Ok(None),
            Field::Attrs(it) if it.is_empty() => return Ok(None),
            Field::Span(it) => span(it),
            Field::Name(it) | Field::Str(it) => it.into(),
            Field::Int(it) => it.into(),
            Field::Float(it) => float(it).into(),
            Field::DType(it) => it.to_string().into(),
            Field::Device(it) => it.to_string().into(),
            Field::Attrs(it) => attrs(it),
            Field::Tensor(it) => {
                let bytes = it.bytes().map_err(|err| IrError::new(err.to_string(), &Span::none()))?;
                json!({"dtype": it.dtype().to_string(), "shape": it.shape(), "data": hex(bytes)})
            }
            Field::Global(it) => it.name().into(),
            Field::Dim(it) => self.dim(it)?.into(),
            Field::UseVar(it) => {
                let place = self.vars.get(&it.id()).copied();
                place.ok_or_else(|| unbound("variable", it.name(), it.span()))?.into()
            }
            Field::UseBuffer(it) => {
                let place = self.buffers.get(&it.id).copied();
                place.ok_or_else(|| unbound("buffer", &it.name, &it.span))?.into()
            }
            Field::Node(it) => self.node(it)?.into(),
        }))
    }

    fn dim(&mut self, var: &Var) -> Result<usize, IrError> {
        match self.vars.get(&var.id()) {
            Some(&place) => Ok(place),
            None => self.node(Node::VarDef(var)),
        }
    }
}

fn insert(out: &mut Map<String, Value>, slot: Slot, value: Value) {
    if slot.index.is_none() {
        out.insert(slot.name.to_string(), value);
    } else if let Value::Array(items) = out.entry(slot.name).or_insert_with(|| json!([])) {
        items.push(value);
    }
}

fn unbound(what: &str, name: &str, span: &Span) -> IrError {
    IrError::new(format!("{what} `{name}` is used where it is not bound"), span)
}

fn span(span: &Span) -> Value {
    match span.location() {
        Some((file, line, column)) => json!([file, line, column]),
        None => span.to_string().into(),
    }
}

fn float(value: f64) -> String {
    if value.is_nan() { format!("nan:{:016x}", value.to_bits()) } else { format!("{value:?}") }
}

fn hex(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        let _ = write!(out, "{byte:02x}");
    }
    out
}

fn attrs(attrs: &Attrs) -> Value {
    Value::Object(attrs.iter().map(|(name, value)| (name.to_string(), attr(value))).collect())
}

fn attr(value: &AttrValue) -> Value {
    match value {
        AttrValue::Bool(it) => (*it).into(),
        AttrValue::Int(it) => (*it).into(),
        AttrValue::Float(it) => json!({"float": float(*it)}),
        AttrValue::Str(it) => (&**it).into(),
        AttrValue::DType(it) => json!({"dtype": it.to_string()}),
        AttrValue::List(it) => it.iter().map(attr).collect(),
    }
}
