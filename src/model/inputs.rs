//! What can be passed to a compiled model: tensors, arrays, and slices with shapes, by position or by name.

use std::collections::{BTreeMap, HashMap};

use tvm_runtime::{Element, RuntimeError, Tensor, Value};

/// The value of one input. It is made from a [`Tensor`] or `&Tensor`, an ndarray array or view (`&array`, `array`,
/// `array.view()`; strided ones are copied), data with a shape (`(&data[..], [2, 3])`, `(vec, [2, 3])`), or a number for a
/// scalar parameter (`3i64`, `0.5f64`, `true`).
///
/// Tensors, owned arrays and vectors are passed without a copy. What is passed by value is given away: the model may reuse
/// its memory.
#[derive(Clone, Debug)]
pub struct Input(pub(super) Result<Value, RuntimeError>);

/// A type that can be passed as one input.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a model as an input",
    note = "pass a `Tensor` or `&Tensor`, an ndarray array or view, or data with its shape: `(&data[..], [2, 3])`; a scalar parameter takes an `i64`, `f64` or `bool`"
)]
pub trait IntoInput {
    /// Converts to an input.
    fn into_input(self) -> Input;
}

/// An input with a name, `("image", &tensor)`, or without one.
pub trait NamedInput {
    #[doc(hidden)]
    fn named(self) -> (Option<String>, Input);
}

impl<T: IntoInput> NamedInput for T {
    fn named(self) -> (Option<String>, Input) {
        (None, self.into_input())
    }
}

impl<T: IntoInput> NamedInput for (&str, T) {
    fn named(self) -> (Option<String>, Input) {
        (Some(self.0.to_string()), self.1.into_input())
    }
}

/// The inputs of a call.
#[derive(Debug, Default)]
pub struct InputList(pub(super) Vec<(Option<String>, Input)>);

/// The inputs of a call, all by position or all by name:
///
/// - one input: `run(&tensor)`, `run(("image", &tensor))`;
/// - by position: tuples, `run((&ids, &mask))`, and arrays, slices and vectors of one type, `run([&a, &b])`;
/// - by name: tuples, `run((("ids", &ids), ("mask", &mask)))`, arrays and vectors, `run([("ids", ids.into()),
///   ("mask", mask.into())])`, and maps.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be passed to a model as its inputs",
    note = "pass one input, a tuple or array of inputs, or pairs of name and input: `[(\"image\", x.into())]`"
)]
pub trait Inputs {
    /// Lists the inputs.
    fn list(self) -> InputList;
}

fn positional<T: IntoInput>(inputs: impl IntoIterator<Item = T>) -> InputList {
    InputList(inputs.into_iter().map(|it| (None, it.into_input())).collect())
}

fn named<K: AsRef<str>, T: IntoInput>(inputs: impl IntoIterator<Item = (K, T)>) -> InputList {
    let name = |(name, it): (K, T)| (Some(name.as_ref().to_string()), it.into_input());
    InputList(inputs.into_iter().map(name).collect())
}

macro_rules! single {
    ($([$($generics:tt)*] $ty:ty, |$it:ident| $value:expr;)*) => {$(
        impl<$($generics)*> From<$ty> for Input {
            fn from($it: $ty) -> Input {
                Input($value)
            }
        }
        impl<$($generics)*> IntoInput for $ty {
            fn into_input(self) -> Input {
                Input::from(self)
            }
        }
        impl<$($generics)*> Inputs for $ty {
            fn list(self) -> InputList {
                positional([self])
            }
        }
    )*};
}

single! {
    [] Tensor, |it| Ok(it.into());
    [] &Tensor, |it| Ok(it.into());
    [] Value, |it| Ok(it);
    [] i64, |it| Ok(it.into());
    [] f64, |it| Ok(it.into());
    [] bool, |it| Ok(it.into());
    [T: Element] (&[T], &[i64]), |it| Tensor::from_slice(it.0, it.1).map(Value::from);
    [T: Element, const R: usize] (&[T], [i64; R]), |it| Tensor::from_slice(it.0, &it.1).map(Value::from);
    [T: Element, const N: usize, const R: usize] (&[T; N], [i64; R]), |it| {
        Tensor::from_slice(it.0, &it.1).map(Value::from)
    };
    [T: Element, const R: usize] (&Vec<T>, [i64; R]), |it| Tensor::from_slice(it.0, &it.1).map(Value::from);
    [T: Element] (Vec<T>, &[i64]), |it| Tensor::from_vec(it.0, it.1).map(Value::from);
    [T: Element, const R: usize] (Vec<T>, [i64; R]), |it| Tensor::from_vec(it.0, &it.1).map(Value::from);
}

#[cfg(feature = "ndarray")]
mod arrays {
    use tvm_runtime::ndarray::{ArrayBase, Data, Dimension, OwnedRepr, ViewRepr};

    use super::{Element, Input, InputList, Inputs, IntoInput, Tensor, Value, positional};

    single! {
        [T: Element, D: Dimension] ArrayBase<OwnedRepr<T>, D>, |it| Tensor::from_array(it).map(Value::from);
        [T: Element, D: Dimension] ArrayBase<ViewRepr<&T>, D>, |it| {
            Tensor::from_array(it.to_owned()).map(Value::from)
        };
        [T: Element, D: Dimension, S: Data<Elem = T>] &ArrayBase<S, D>, |it| {
            Tensor::from_array(it.to_owned()).map(Value::from)
        };
    }
}

impl IntoInput for Input {
    fn into_input(self) -> Input {
        self
    }
}

impl Inputs for Input {
    fn list(self) -> InputList {
        positional([self])
    }
}

impl Inputs for InputList {
    fn list(self) -> InputList {
        self
    }
}

/// No input.
impl Inputs for () {
    fn list(self) -> InputList {
        InputList::default()
    }
}

impl<T: IntoInput> Inputs for (&str, T) {
    fn list(self) -> InputList {
        InputList(vec![self.named()])
    }
}

macro_rules! tuples {
    ($(($($name:ident $index:tt),+);)*) => {$(
        impl<$($name: NamedInput),+> Inputs for ($($name,)+) {
            fn list(self) -> InputList {
                InputList(vec![$(self.$index.named()),+])
            }
        }
    )*};
}

tuples! {
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

macro_rules! lists {
    ($([$($generics:tt)*] $ty:ty, $list:ident;)*) => {$(
        impl<$($generics)*> Inputs for $ty {
            fn list(self) -> InputList {
                $list(self)
            }
        }
    )*};
}

lists! {
    [T: IntoInput, const N: usize] [T; N], positional;
    [T: IntoInput] Vec<T>, positional;
    ['a, const N: usize] [(&'a str, Input); N], named;
    ['a, T: IntoInput] Vec<(&'a str, T)>, named;
    [T: IntoInput] Vec<(String, T)>, named;
    [K: AsRef<str>, T: IntoInput, S] HashMap<K, T, S>, named;
    [K: AsRef<str>, T: IntoInput] BTreeMap<K, T>, named;
    ['a] &'a [Tensor], positional;
    ['a] &'a Vec<Tensor>, positional;
    ['a, const N: usize] &'a [Tensor; N], positional;
}
