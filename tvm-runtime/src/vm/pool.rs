//! Handles of values that ended, kept so that later values of the same kind need no memory of their own.
//!
//! A tensor, a shape or a tuple is a counted handle on the heap. A run makes the same ones again and again: here they
//! wait in between, without the memory of their elements.

use std::sync::Arc;

use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::tensor::{Storage, Tensor, byte_size};
use crate::value::{Adt, Value};

/// Maximum number of handles of one kind that are kept.
const MAX_KEPT: usize = 1024;

/// Handles that wait for reuse.
#[derive(Default)]
pub(super) struct Pool {
    tensors: Vec<Tensor>,
    shapes: Vec<Arc<[i64]>>,
    tuples: Vec<Adt>,
}

impl Pool {
    /// Takes a value apart if nobody else has it, and drops it otherwise. Calls `memory` with the storage of each tensor
    /// in it that nobody else has.
    pub(super) fn recycle(&mut self, value: Value, memory: &mut impl FnMut(Storage)) {
        match value {
            Value::Tensor(mut tensor) if self.tensors.len() < MAX_KEPT => {
                if let Some(storage) = tensor.take_storage() {
                    memory(storage);
                    self.tensors.push(tensor);
                }
            }
            Value::Shape(mut shape) if self.shapes.len() < MAX_KEPT => {
                if Arc::get_mut(&mut shape).is_some() {
                    self.shapes.push(shape);
                }
            }
            Value::Adt(mut tuple) if self.tuples.len() < MAX_KEPT => {
                let Some((_, fields)) = tuple.parts_mut() else { return };
                for field in fields {
                    // What is nested more deeply is dropped, not taken apart: that needs no recursion.
                    match std::mem::take(field) {
                        it @ (Value::Tensor(_) | Value::Shape(_)) => self.recycle(it, memory),
                        other => drop(other),
                    }
                }
                self.tuples.push(tuple);
            }
            other => drop(other),
        }
    }

    /// As [`Tensor::from_storage`].
    pub(super) fn tensor(
        &mut self,
        storage: Storage,
        byte_offset: usize,
        shape: &[i64],
        dtype: DataType,
    ) -> Result<Tensor, RuntimeError> {
        match self.tensors.pop() {
            None => Tensor::from_storage(storage, byte_offset, shape, dtype),
            Some(tensor) => tensor.renew(storage, byte_offset, shape, dtype),
        }
    }

    /// As [`Tensor::reshape`].
    pub(super) fn reshape(&mut self, tensor: &Tensor, shape: &[i64]) -> Result<Tensor, RuntimeError> {
        if byte_size(shape, tensor.dtype()) != Some(tensor.byte_len()) {
            return tensor.reshape(shape);
        }
        self.tensor(tensor.storage().clone(), tensor.byte_offset(), shape, tensor.dtype())
    }

    /// Makes a shape.
    pub(super) fn shape(&mut self, extents: &[i64]) -> Arc<[i64]> {
        let found = self.shapes.iter().rposition(|shape| shape.len() == extents.len());
        if let Some(at) = found {
            let mut shape = self.shapes.swap_remove(at);
            if let Some(place) = Arc::get_mut(&mut shape) {
                place.copy_from_slice(extents);
                return shape;
            }
        }
        extents.into()
    }

    /// Makes a tuple or data type.
    pub(super) fn tuple(&mut self, tag: u32, fields: &mut [Value]) -> Adt {
        let found = self.tuples.iter().rposition(|tuple| tuple.fields().len() == fields.len());
        if let Some(at) = found {
            let mut tuple = self.tuples.swap_remove(at);
            if let Some((old, places)) = tuple.parts_mut() {
                *old = tag;
                places.swap_with_slice(fields);
                return tuple;
            }
        }
        let fields: Box<[Value]> = fields.iter_mut().map(std::mem::take).collect();
        Adt::new(tag, fields)
    }
}
