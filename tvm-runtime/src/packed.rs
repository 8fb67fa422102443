//! Packed functions: functions over values, and the global registry that finds them by name.
//!
//! TVM counterpart: `ffi::Function`, `register_global_func`. Nothing registers itself: the application registers
//! functions before it loads a program that names them.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, PoisonError, RwLock};

use crate::error::RuntimeError;
use crate::host_arg::TensorViewMut;
use crate::tensor::Tensor;
use crate::thread_pool::panic_message;
use crate::value::Value;

/// A function over values; cheap to clone, callable from any thread.
#[derive(Clone)]
pub struct PackedFunc(Arc<Body>);

enum Body {
    Returns(Box<Returns>),
    Fills(Box<Fills>),
}

type Returns = dyn Fn(&[Value]) -> Result<Value, RuntimeError> + Send + Sync;
type Fills = dyn Fn(&[Value], &mut [TensorViewMut<'_>]) -> Result<(), RuntimeError> + Send + Sync;

impl PackedFunc {
    /// Makes a function that returns its result (`call_packed`) and checks its arguments itself.
    pub fn new(f: impl Fn(&[Value]) -> Result<Value, RuntimeError> + Send + Sync + 'static) -> PackedFunc {
        PackedFunc(Arc::new(Body::Returns(Box::new(f))))
    }

    /// Makes a function in destination-passing style (`call_dps_packed`): it fills the outputs that the caller allocated.
    /// An output starts with unspecified content.
    ///
    /// ```
    /// # use tvm_runtime::PackedFunc;
    /// PackedFunc::dps(|inputs, outputs| {
    ///     let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
    ///     let y = outputs[0].as_mut_slice::<f32>()?;
    ///     y.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
    ///     Ok(())
    /// });
    /// ```
    pub fn dps(
        f: impl Fn(&[Value], &mut [TensorViewMut<'_>]) -> Result<(), RuntimeError> + Send + Sync + 'static,
    ) -> PackedFunc {
        PackedFunc(Arc::new(Body::Fills(Box::new(f))))
    }

    /// Makes a function with typed arguments: `PackedFunc::typed(|x: Tensor, n: i64| Ok(x.reshape(&[n])?))`.
    pub fn typed<Args, F: IntoPacked<Args>>(f: F) -> PackedFunc {
        f.into_packed()
    }

    /// Calls the function. A panic becomes an error.
    ///
    /// # Errors
    /// When the function fails, or was made with [`PackedFunc::dps`].
    pub fn call(&self, args: &[Value]) -> Result<Value, RuntimeError> {
        match &*self.0 {
            Body::Returns(f) => guarded(|| f(args)),
            Body::Fills(_) => Err(wrong_style("fills its outputs; `call_dps_packed` calls it")),
        }
    }

    /// Calls a function in destination-passing style. A panic becomes an error.
    ///
    /// # Errors
    /// When the function fails, or was not made with [`PackedFunc::dps`].
    pub fn call_into(&self, inputs: &[Value], outputs: &mut [TensorViewMut<'_>]) -> Result<(), RuntimeError> {
        match &*self.0 {
            Body::Fills(f) => guarded(|| f(inputs, outputs)),
            Body::Returns(_) => Err(wrong_style(
                "returns its result; `call_packed` calls it, or make it with `PackedFunc::dps`",
            )),
        }
    }

    /// Calls the function and converts the result to `R`.
    pub fn call_typed<R: FromValue>(&self, args: &[Value]) -> Result<R, RuntimeError> {
        R::from_value(&self.call(args)?, "result")
    }
}

fn guarded<R>(f: impl FnOnce() -> Result<R, RuntimeError>) -> Result<R, RuntimeError> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|panic| {
        Err(RuntimeError::Panicked { func: "packed function".into(), message: panic_message(&*panic) })
    })
}

fn wrong_style(detail: &str) -> RuntimeError {
    RuntimeError::Signature { func: "packed function".into(), detail: detail.into() }
}

impl fmt::Debug for PackedFunc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PackedFunc")
    }
}

/// A type to which a value can be converted.
#[diagnostic::on_unimplemented(message = "`{Self}` cannot be an argument of a packed function")]
pub trait FromValue: Sized {
    /// Converts `value`; the error names `what`.
    fn from_value(value: &Value, what: &str) -> Result<Self, RuntimeError>;
}

macro_rules! from_value {
    ($($ty:ty => |$value:ident, $what:ident| $expr:expr;)*) => {$(
        impl FromValue for $ty {
            fn from_value($value: &Value, $what: &str) -> Result<$ty, RuntimeError> {
                $expr
            }
        }
    )*};
}

from_value! {
    Value => |value, _what| Ok(value.clone());
    i64 => |value, what| value.try_int(what);
    bool => |value, what| Ok(value.try_int(what)? != 0);
    f64 => |value, what| value.try_float(what);
    Tensor => |value, what| value.try_tensor(what).cloned();
    PackedFunc => |value, what| value.try_func(what).cloned();
    String => |value, what| value.try_str(what).map(str::to_string);
    Vec<i64> => |value, what| value.try_shape(what).map(<[i64]>::to_vec);
    Vec<Value> => |value, what| value.try_adt(what).map(|adt| adt.fields().to_vec());
    () => |_value, _what| Ok(());
}

/// Functions that [`PackedFunc::typed`] accepts: up to eight arguments, and a `Result` of any type that converts to a value.
pub trait IntoPacked<Args> {
    /// Makes a packed function that checks number and types of the arguments before each call.
    fn into_packed(self) -> PackedFunc;
}

macro_rules! into_packed {
    ($(($($ty:ident $index:tt),*);)*) => {$(
        impl<Func, Ret, $($ty),*> IntoPacked<(Ret, $($ty),*)> for Func
        where
            Func: Fn($($ty),*) -> Result<Ret, RuntimeError> + Send + Sync + 'static,
            Ret: Into<Value>,
            $($ty: FromValue,)*
        {
            fn into_packed(self) -> PackedFunc {
                const ARITY: usize = <[usize]>::len(&[$($index),*]);
                PackedFunc::new(move |args| {
                    if args.len() != ARITY {
                        let func = "packed function".into();
                        return Err(RuntimeError::ArgCount { func, expected: ARITY, got: args.len() });
                    }
                    (self)($($ty::from_value(&args[$index], concat!("argument ", $index))?),*).map(Into::into)
                })
            }
        }
    )*};
}

into_packed! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, F 5);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6);
    (A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
}

static REGISTRY: RwLock<BTreeMap<String, PackedFunc>> = RwLock::new(BTreeMap::new());

/// Registers `func` under `name`; an error if the name is taken.
pub fn register_global_func(name: impl Into<String>, func: PackedFunc) -> Result<(), RuntimeError> {
    match REGISTRY.write().unwrap_or_else(PoisonError::into_inner).entry(name.into()) {
        Entry::Vacant(entry) => {
            entry.insert(func);
            Ok(())
        }
        Entry::Occupied(entry) => Err(RuntimeError::DuplicateFunc { name: entry.key().clone() }),
    }
}

/// The function registered under `name`.
pub fn get_global_func(name: &str) -> Option<PackedFunc> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
}

/// Removes the function registered under `name` and returns it. Other holders of the function can still call it.
pub fn remove_global_func(name: &str) -> Option<PackedFunc> {
    REGISTRY.write().unwrap_or_else(PoisonError::into_inner).remove(name)
}

/// All names in the registry, sorted.
pub fn global_func_names() -> Vec<String> {
    REGISTRY.read().unwrap_or_else(PoisonError::into_inner).keys().cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn typed_functions_check_their_arguments() {
        let f = PackedFunc::typed(|x: Tensor, n: i64| x.reshape(&[n]));
        let x = Tensor::from_vec(vec![1f32, 2.], &[2, 1]).unwrap();
        let y: Tensor = f.call_typed(&[Value::from(&x), Value::Int(2)]).unwrap();
        assert_eq!(y.shape(), [2]);
        let err = |args: &[Value]| f.call(args).unwrap_err().to_string();
        assert_eq!(err(&[Value::Int(1)]), "`packed function`: expected 2 argument(s), got 1");
        assert_eq!(err(&[Value::Int(1), Value::Int(1)]), "argument 0: expected a tensor, got an integer");
        assert!(f.call_typed::<i64>(&[Value::from(&x), Value::Int(2)]).is_err());
        let panics = PackedFunc::typed(|| -> Result<(), RuntimeError> { panic!("oh") });
        assert_eq!(panics.call(&[]).unwrap_err().to_string(), "`packed function` panicked: oh");
    }

    #[test]
    fn outputs_are_filled_in_place() {
        let double = PackedFunc::dps(|inputs, outputs| {
            let x = inputs[0].try_tensor("x")?.as_slice::<f32>()?;
            outputs[0].as_mut_slice::<f32>()?.iter_mut().zip(x).for_each(|(y, x)| *y = x * 2.0);
            Ok(())
        });
        let x = [Value::from(Tensor::from_slice(&[1f32, 2.], &[2]).unwrap())];
        let mut y = [0f32; 2];
        double.call_into(&x, &mut [TensorViewMut::new(&mut y, &[2]).unwrap()]).unwrap();
        assert_eq!(y, [2., 4.]);
        let err = double.call(&x).unwrap_err().to_string();
        assert!(err.contains("`call_dps_packed` calls it"), "{err}");
        let err = PackedFunc::typed(|x: Tensor| Ok(x)).call_into(&x, &mut []).unwrap_err().to_string();
        assert!(err.contains("`call_packed` calls it"), "{err}");
    }

    #[test]
    fn a_name_is_registered_once() {
        let name = "tvm.test.packed.once";
        let f = || PackedFunc::typed(|a: i64, b: i64| Ok(a + b));
        assert!(get_global_func(name).is_none());
        register_global_func(name, f()).unwrap();
        assert!(matches!(register_global_func(name, f()), Err(RuntimeError::DuplicateFunc { .. })));
        let args = [Value::Int(2), Value::Int(3)];
        assert_eq!(get_global_func(name).unwrap().call_typed::<i64>(&args).unwrap(), 5);
        assert!(global_func_names().iter().any(|other| other == name));
        assert!(remove_global_func(name).is_some() && get_global_func(name).is_none());
    }
}
