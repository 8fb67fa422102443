//! Values: contents of virtual machine registers, and arguments and results of packed functions.
//!
//! TVM counterpart: `ffi::Any`. Cheap to clone. Deeply nested data (a list of a million cells) is dropped without
//! recursion. Reference cells may form cycles, which are never freed.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::packed::PackedFunc;
use crate::tensor::{Storage, Tensor};

/// A run-time value.
#[derive(Clone, Default)]
#[non_exhaustive]
pub enum Value {
    /// No value: the content of a register that was never written or was killed.
    #[default]
    Null,
    /// An integer, or a boolean as 0 or 1.
    Int(i64),
    /// A floating-point number.
    Float(f64),
    /// A tensor.
    Tensor(Tensor),
    /// A tuple (tag 0) or an instance of an algebraic data type.
    Adt(Adt),
    /// A function with captured values.
    Closure(Closure),
    /// A function of the application.
    Func(PackedFunc),
    /// The extents of a shape.
    Shape(Arc<[i64]>),
    /// A string.
    Str(Arc<str>),
    /// An element type.
    DType(DataType),
    /// A mutable reference cell.
    Ref(RefCell),
    /// Memory in which tensors are placed.
    Storage(Storage),
    /// An object of the application.
    Opaque(Arc<dyn Any + Send + Sync>),
}

/// An instance of an algebraic data type: the tag of its constructor, and its fields.
#[derive(Clone)]
pub struct Adt(Arc<Cells>);

/// A function of an executable together with the values it captured.
#[derive(Clone)]
pub struct Closure(Arc<Cells>);

/// A mutable cell, shared by all its clones.
#[derive(Clone)]
pub struct RefCell(Arc<Slot>);

/// A number and a list of values; dropped without recursion.
struct Cells {
    /// For a closure, the program that its function belongs to.
    program: u64,
    tag: u32,
    fields: Box<[Value]>,
}

impl Drop for Cells {
    fn drop(&mut self) {
        drop_flat(std::mem::take(&mut self.fields).into_vec());
    }
}

/// Content of a reference cell; dropped without recursion.
struct Slot(Mutex<Value>);

impl Slot {
    fn take(&mut self) -> Value {
        std::mem::take(self.0.get_mut().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        let value = self.take();
        if value.is_nested() {
            drop_flat(vec![value]);
        }
    }
}

/// Drops values and everything that only they own, with a work list instead of recursion.
fn drop_flat(mut pending: Vec<Value>) {
    if !pending.iter().any(Value::is_nested) {
        return;
    }
    while let Some(value) = pending.pop() {
        match value {
            Value::Adt(Adt(cells)) | Value::Closure(Closure(cells)) => {
                if let Some(mut cells) = Arc::into_inner(cells) {
                    pending.append(&mut std::mem::take(&mut cells.fields).into_vec());
                }
            }
            Value::Ref(RefCell(slot)) => pending.extend(Arc::into_inner(slot).map(|mut slot| slot.take())),
            _ => {}
        }
    }
}

impl Adt {
    /// Applies the constructor `tag` to `fields`.
    pub fn new(tag: u32, fields: impl Into<Box<[Value]>>) -> Adt {
        Adt(Arc::new(Cells { program: 0, tag, fields: fields.into() }))
    }

    /// Tag of the constructor.
    pub fn tag(&self) -> u32 {
        self.0.tag
    }

    /// Fields, in the order of the constructor.
    pub fn fields(&self) -> &[Value] {
        &self.0.fields
    }

    /// Number of handles.
    pub(crate) fn handles(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Tag and fields for writing; `None` if other handles exist.
    pub(crate) fn parts_mut(&mut self) -> Option<(&mut u32, &mut [Value])> {
        Arc::get_mut(&mut self.0).map(|cells| (&mut cells.tag, &mut *cells.fields))
    }
}

impl Closure {
    /// Makes a closure of function number `func` of the virtual machine `program`. The `captured` values become its
    /// first arguments.
    pub(crate) fn new(program: u64, func: u32, captured: impl Into<Box<[Value]>>) -> Closure {
        Closure(Arc::new(Cells { program, tag: func, fields: captured.into() }))
    }

    /// Number of the virtual machine that made the closure; only that one may call it.
    pub(crate) fn program(&self) -> u64 {
        self.0.program
    }

    /// Index of the function in its executable.
    pub fn func(&self) -> u32 {
        self.0.tag
    }

    /// The captured values.
    pub fn captured(&self) -> &[Value] {
        &self.0.fields
    }
}

impl RefCell {
    /// Makes a cell that holds `value`.
    pub fn new(value: Value) -> RefCell {
        RefCell(Arc::new(Slot(Mutex::new(value))))
    }

    /// Returns the current content.
    pub fn get(&self) -> Value {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the content; returns the previous one.
    pub fn set(&self, value: Value) -> Value {
        std::mem::replace(&mut *self.0.0.lock().unwrap_or_else(PoisonError::into_inner), value)
    }
}

macro_rules! accessors {
    ($($(#[$doc:meta])* $as_name:ident $try_name:ident $variant:ident -> $ty:ty, $expr:expr;)*) => {
        impl Value {
            $(
                $(#[$doc])*
                pub fn $as_name(&self) -> Option<$ty> {
                    match self {
                        Value::$variant(it) => Some($expr(it)),
                        _ => None,
                    }
                }

                $(#[$doc])*
                /// Same as the accessor above, but a value of another kind is an error that names `what`.
                pub fn $try_name(&self, what: &str) -> Result<$ty, RuntimeError> {
                    self.$as_name().ok_or_else(|| self.unexpected(what, kind::$variant))
                }
            )*
        }
    };
}

/// Names of the kinds of values in error messages.
#[allow(non_upper_case_globals, reason = "named after the variants")]
mod kind {
    pub(super) const Null: &str = "nothing";
    pub(super) const Int: &str = "an integer";
    pub(super) const Float: &str = "a float";
    pub(super) const Tensor: &str = "a tensor";
    pub(super) const Adt: &str = "a tuple or data type";
    pub(super) const Closure: &str = "a closure";
    pub(super) const Func: &str = "a packed function";
    pub(super) const Shape: &str = "a shape";
    pub(super) const Str: &str = "a string";
    pub(super) const DType: &str = "an element type";
    pub(super) const Ref: &str = "a reference";
    pub(super) const Storage: &str = "a storage";
    pub(super) const Opaque: &str = "an object";
}

accessors! {
    /// The integer.
    as_int try_int Int -> i64, |it: &i64| *it;
    /// The float.
    as_float try_float Float -> f64, |it: &f64| *it;
    /// The tensor.
    as_tensor try_tensor Tensor -> &Tensor, std::convert::identity;
    /// The tuple or data type.
    as_adt try_adt Adt -> &Adt, std::convert::identity;
    /// The closure.
    as_closure try_closure Closure -> &Closure, std::convert::identity;
    /// The packed function.
    as_func try_func Func -> &PackedFunc, std::convert::identity;
    /// The shape.
    as_shape try_shape Shape -> &[i64], AsRef::<[i64]>::as_ref;
    /// The string.
    as_str try_str Str -> &str, AsRef::<str>::as_ref;
    /// The element type.
    as_dtype try_dtype DType -> DataType, |it: &DataType| *it;
    /// The reference cell.
    as_ref_cell try_ref_cell Ref -> &RefCell, std::convert::identity;
    /// The storage.
    as_storage try_storage Storage -> &Storage, std::convert::identity;
    /// The application's object.
    as_opaque try_opaque Opaque -> &Arc<dyn Any + Send + Sync>, std::convert::identity;
}

impl Value {
    /// Makes a tuple.
    pub fn tuple(fields: impl Into<Box<[Value]>>) -> Value {
        Value::Adt(Adt::new(0, fields))
    }

    /// The empty tuple.
    pub fn unit() -> Value {
        Value::tuple([])
    }

    /// Name of the kind of value, for error messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => kind::Null,
            Value::Int(_) => kind::Int,
            Value::Float(_) => kind::Float,
            Value::Tensor(_) => kind::Tensor,
            Value::Adt(_) => kind::Adt,
            Value::Closure(_) => kind::Closure,
            Value::Func(_) => kind::Func,
            Value::Shape(_) => kind::Shape,
            Value::Str(_) => kind::Str,
            Value::DType(_) => kind::DType,
            Value::Ref(_) => kind::Ref,
            Value::Storage(_) => kind::Storage,
            Value::Opaque(_) => kind::Opaque,
        }
    }

    fn unexpected(&self, what: &str, expected: &'static str) -> RuntimeError {
        RuntimeError::ValueKind { what: what.into(), expected, got: self.kind() }
    }

    /// Address that all clones of a nested value (data type, closure, cell) share, and that no other live nested value has.
    pub(crate) fn address(&self) -> Option<usize> {
        match self {
            Value::Adt(Adt(cells)) | Value::Closure(Closure(cells)) => Some(Arc::as_ptr(cells).addr()),
            Value::Ref(RefCell(slot)) => Some(Arc::as_ptr(slot).addr()),
            _ => None,
        }
    }

    /// Calls `f` with each value directly inside this one.
    pub(crate) fn for_each_inside(&self, mut f: impl FnMut(&Value)) {
        match self {
            Value::Adt(adt) => adt.fields().iter().for_each(f),
            Value::Closure(closure) => closure.captured().iter().for_each(f),
            Value::Ref(cell) => f(&cell.get()),
            _ => {}
        }
    }

    /// True if dropping the value may drop values inside it.
    fn is_nested(&self) -> bool {
        matches!(self, Value::Adt(_) | Value::Closure(_) | Value::Ref(_))
    }
}

macro_rules! from {
    ($($ty:ty => |$it:ident| $expr:expr;)*) => {$(
        impl From<$ty> for Value {
            fn from($it: $ty) -> Value {
                $expr
            }
        }
    )*};
}

from! {
    i64 => |it| Value::Int(it);
    bool => |it| Value::Int(it.into());
    f64 => |it| Value::Float(it);
    Tensor => |it| Value::Tensor(it);
    &Tensor => |it| Value::Tensor(it.clone());
    Adt => |it| Value::Adt(it);
    Closure => |it| Value::Closure(it);
    PackedFunc => |it| Value::Func(it);
    &[i64] => |it| Value::Shape(it.into());
    Vec<i64> => |it| Value::Shape(it.into());
    &str => |it| Value::Str(it.into());
    String => |it| Value::Str(it.into());
    DataType => |it| Value::DType(it);
    () => |_it| Value::unit();
}

macro_rules! try_from {
    ($($ty:ty: $try_name:ident, |$it:ident| $expr:expr;)*) => {$(
        impl TryFrom<Value> for $ty {
            type Error = RuntimeError;

            fn try_from(value: Value) -> Result<$ty, RuntimeError> {
                value.$try_name("value").map(|$it| $expr)
            }
        }
    )*};
}

try_from! {
    i64: try_int, |it| it;
    f64: try_float, |it| it;
    Tensor: try_tensor, |it| it.clone();
    Adt: try_adt, |it| it.clone();
    PackedFunc: try_func, |it| it.clone();
    Vec<i64>: try_shape, |it| it.to_vec();
    String: try_str, |it| it.to_string();
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// Values nested deeper are shown as `…`.
        const DEPTH: usize = 8;
        fn show(value: &Value, depth: usize, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            let list = |name: String, fields: &[Value], f: &mut fmt::Formatter<'_>| {
                write!(f, "{name}(")?;
                for (i, field) in fields.iter().enumerate() {
                    write!(f, "{}", if i == 0 { "" } else { ", " })?;
                    if depth < DEPTH { show(field, depth + 1, f)? } else { write!(f, "…")? }
                }
                write!(f, ")")
            };
            match value {
                Value::Null => write!(f, "null"),
                Value::Int(it) => write!(f, "{it}"),
                Value::Float(it) => write!(f, "{it:?}"),
                Value::Tensor(it) => write!(f, "{it:?}"),
                Value::Adt(it) if it.tag() == 0 => list(String::new(), it.fields(), f),
                Value::Adt(it) => list(format!("#{}", it.tag()), it.fields(), f),
                Value::Closure(it) => list(format!("closure@{}", it.func()), it.captured(), f),
                Value::Func(it) => write!(f, "{it:?}"),
                Value::Shape(it) => write!(f, "shape{it:?}"),
                Value::Str(it) => write!(f, "{it:?}"),
                Value::DType(it) => write!(f, "{it}"),
                Value::Ref(_) => write!(f, "ref"),
                Value::Storage(it) => write!(f, "{it:?}"),
                Value::Opaque(_) => write!(f, "object"),
            }
        }
        show(self, 0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_three_words() {
        assert!(size_of::<Value>() <= 24, "{}", size_of::<Value>());
    }

    #[test]
    fn deep_data_drops_without_recursion() {
        let mut list = Value::Adt(Adt::new(0, []));
        let mut closure = Value::Null;
        let mut cell = Value::Null;
        for i in 0..if cfg!(miri) { 300 } else { 300_000 } {
            list = Value::Adt(Adt::new(1, [Value::Int(i), list]));
            closure = Value::Closure(Closure::new(0, 0, [closure]));
            cell = Value::Ref(RefCell::new(cell));
        }
        assert!(format!("{list:?}").len() < 500);
        drop((list, closure, cell));
    }

    #[test]
    fn kinds_are_named() {
        let err = Value::Int(3).try_tensor("argument 0").unwrap_err();
        assert_eq!(err.to_string(), "argument 0: expected a tensor, got an integer");
        assert_eq!(Tensor::try_from(Value::from(Tensor::scalar(1i32))).unwrap(), Tensor::scalar(1i32));
        assert!(i64::try_from(Value::unit()).is_err());
        assert_eq!(Value::from(vec![1, 2]).try_shape("s").unwrap(), [1, 2]);
        assert_eq!(format!("{:?}", Value::tuple([Value::Int(1), Value::from("x")])), "(1, \"x\")");
    }
}
