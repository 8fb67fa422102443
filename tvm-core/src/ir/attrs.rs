//! Attributes: named constant values on functions, operators, loops and blocks, ordered by name.
//!
//! TVM counterpart: `DictAttrs`.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tvm_runtime::DataType;

/// One attribute value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum AttrValue {
    /// A flag.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A string.
    Str(Arc<str>),
    /// A data type.
    DType(DataType),
    /// A list.
    List(Arc<[AttrValue]>),
}

/// A set of named values; cheap to clone, ordered by name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Attrs(Option<Arc<BTreeMap<Arc<str>, AttrValue>>>);

impl Attrs {
    /// No attributes.
    pub const fn new() -> Attrs {
        Attrs(None)
    }

    /// These attributes with `name` set to `value`.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<AttrValue>) -> Attrs {
        self.set(name, value);
        self
    }

    /// Sets `name` to `value`.
    pub fn set(&mut self, name: &str, value: impl Into<AttrValue>) {
        Arc::make_mut(self.0.get_or_insert_default()).insert(name.into(), value.into());
    }

    /// Removes `name`; returns its value, if it was set.
    pub fn remove(&mut self, name: &str) -> Option<AttrValue> {
        let map = self.0.as_mut()?;
        let value = map.contains_key(name).then(|| Arc::make_mut(map).remove(name))?;
        if map.is_empty() {
            self.0 = None;
        }
        value
    }

    /// The value of `name`.
    pub fn get(&self, name: &str) -> Option<&AttrValue> {
        self.0.as_ref()?.get(name)
    }

    /// The value of `name` as an integer (a bool counts as 0 or 1).
    pub fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.as_int()
    }

    /// The value of `name` as a float (an integer is converted).
    pub fn float(&self, name: &str) -> Option<f64> {
        self.get(name)?.as_float()
    }

    /// The value of `name` as a flag (an integer other than 0 is true).
    pub fn bool(&self, name: &str) -> Option<bool> {
        self.int(name).map(|it| it != 0)
    }

    /// The value of `name` as a string.
    pub fn str(&self, name: &str) -> Option<&str> {
        if let AttrValue::Str(it) = self.get(name)? { Some(it) } else { None }
    }

    /// The value of `name` as a data type.
    pub fn dtype(&self, name: &str) -> Option<DataType> {
        if let AttrValue::DType(it) = self.get(name)? { Some(*it) } else { None }
    }

    /// The value of `name` as a list of integers.
    pub fn ints(&self, name: &str) -> Option<Vec<i64>> {
        if let AttrValue::List(it) = self.get(name)? {
            it.iter().map(AttrValue::as_int).collect()
        } else {
            None
        }
    }

    /// The value of `name` as a list of integers; one integer is a list of one.
    pub fn int_list(&self, name: &str) -> Option<Vec<i64>> {
        self.int(name).map_or_else(|| self.ints(name), |it| Some(vec![it]))
    }

    /// Number of attributes.
    pub fn len(&self) -> usize {
        self.0.as_ref().map_or(0, |it| it.len())
    }

    /// True when there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Names and values, ordered by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &AttrValue)> {
        self.0.iter().flat_map(|it| it.iter().map(|(name, value)| (&**name, value)))
    }
}

impl<N: AsRef<str>, V: Into<AttrValue>> FromIterator<(N, V)> for Attrs {
    fn from_iter<I: IntoIterator<Item = (N, V)>>(iter: I) -> Attrs {
        let mut attrs = Attrs::new();
        for (name, value) in iter {
            attrs.set(name.as_ref(), value);
        }
        attrs
    }
}

impl AttrValue {
    /// The value as an integer (a bool counts as 0 or 1).
    pub fn as_int(&self) -> Option<i64> {
        match self {
            AttrValue::Int(it) => Some(*it),
            AttrValue::Bool(it) => Some(*it as i64),
            AttrValue::Float(_) | AttrValue::Str(_) | AttrValue::DType(_) | AttrValue::List(_) => None,
        }
    }

    /// The value as a float (an integer is converted).
    pub fn as_float(&self) -> Option<f64> {
        match self {
            AttrValue::Float(it) => Some(*it),
            AttrValue::Int(it) => Some(*it as f64),
            AttrValue::Bool(_) | AttrValue::Str(_) | AttrValue::DType(_) | AttrValue::List(_) => None,
        }
    }
}

macro_rules! from {
    ($($ty:ty => |$it:ident| $value:expr;)*) => {
        $(impl From<$ty> for AttrValue {
            fn from($it: $ty) -> AttrValue {
                $value
            }
        })*
    };
}

from! {
    bool => |it| AttrValue::Bool(it);
    i64 => |it| AttrValue::Int(it);
    i32 => |it| AttrValue::Int(it.into());
    usize => |it| AttrValue::Int(it as i64);
    f64 => |it| AttrValue::Float(it);
    f32 => |it| AttrValue::Float(it.into());
    &str => |it| AttrValue::Str(it.into());
    String => |it| AttrValue::Str(it.into());
    DataType => |it| AttrValue::DType(it);
    Vec<i64> => |it| AttrValue::List(it.into_iter().map(AttrValue::Int).collect());
    &[i64] => |it| AttrValue::List(it.iter().copied().map(AttrValue::Int).collect());
    Vec<AttrValue> => |it| AttrValue::List(it.into());
}
