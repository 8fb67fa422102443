//! Instructions on tensors, shapes and fields.

use super::instruction::{ConstIdx, DimCheck, Instruction, IntOperand, Reg};
use super::interp::Run;
use crate::device::Device;
use crate::dtype::DataType;
use crate::error::RuntimeError;
use crate::tensor::{Shape, Tensor, byte_size};
use crate::value::Value;

impl Run<'_> {
    /// Executes an instruction that computes a value from shapes and tensors.
    pub(super) fn shape_step<'i>(
        &mut self,
        instruction: &'i Instruction,
    ) -> Result<(&'i Reg, Value), RuntimeError> {
        Ok(match instruction {
            Instruction::ShapeOf { dst, src } => {
                let shape = Shape::from(self.get(*src)?.try_tensor("shape_of")?.shape());
                (dst, Value::Shape(self.ws.pool.shape(&shape)))
            }
            Instruction::ShapeDim { dst, src, axis } => (dst, self.shape_dim(*src, *axis)?),
            Instruction::MakeShape { dst, dims } => {
                let shape = dims.iter().map(|dim| self.int(*dim)).collect::<Result<Shape, _>>()?;
                (dst, self.shape(&shape)?)
            }
            Instruction::ShapeToTensor { dst, src } => {
                let shape = self.get(*src)?.try_shape("shape_to_tensor")?;
                (dst, Tensor::from_slice(shape, &[shape.len() as i64])?.into())
            }
            Instruction::TensorToShape { dst, src } => (dst, self.tensor_to_shape(*src)?),
            Instruction::ReshapeTensor { dst, src, shape } => {
                let shape = Shape::from(self.get(*shape)?.try_shape("reshape_tensor")?);
                let tensor = self.get(*src)?.try_tensor("reshape_tensor")?.clone();
                (dst, self.ws.pool.reshape(&tensor, &shape)?.into())
            }
            Instruction::ReadScalar { dst, src } => {
                (dst, self.get(*src)?.try_tensor("read_scalar")?.read_scalar()?)
            }
            Instruction::MakeScalar { dst, src, dtype } => {
                (dst, Tensor::from_scalar(self.get(*src)?, *dtype)?.into())
            }
            Instruction::DeviceCopy { dst, src, device } => {
                let tensor = self.get(*src)?.try_tensor("device_copy")?.clone();
                let moved = match self.constant_before(*src, &tensor) {
                    Some(index) if tensor.device() != *device => {
                        self.vm().constant_on(index, &tensor, *device)?
                    }
                    _ => self.moved(tensor, *device)?,
                };
                (dst, moved.into())
            }
            other => {
                let message = format!("`{}` is not an instruction on shapes", other.name());
                return Err(RuntimeError::Other(message));
            }
        })
    }

    /// Evaluates an operand that is a size or offset in bytes.
    pub(super) fn size(&self, operand: IntOperand) -> Result<usize, RuntimeError> {
        let value = self.int(operand)?;
        usize::try_from(value).map_err(|_| RuntimeError::BadData("a negative size or offset"))
    }

    /// A tensor in the storage of a register, which it takes if `dst` is the same one.
    pub(super) fn tensor(
        &mut self,
        dst: Reg,
        storage: Reg,
        offset: IntOperand,
        dtype: DataType,
        shape: &[i64],
    ) -> Result<Tensor, RuntimeError> {
        let offset = self.size(offset)?;
        if !offset.is_multiple_of(dtype.bytes()) {
            return Err(RuntimeError::BadData("an offset that is not a multiple of the element size"));
        }
        let value = if storage == dst { self.take(storage)? } else { self.get(storage)?.clone() };
        let storage = match value {
            Value::Storage(storage) => storage,
            other => other.try_storage("alloc_tensor")?.clone(),
        };
        self.ws.pool.tensor(storage, offset, shape, dtype)
    }

    /// Checks that a tensor fits in its place of `max_bytes` bytes, behind which another tensor may lie.
    pub(super) fn check_place(shape: &[i64], dtype: DataType, max_bytes: u64) -> Result<(), RuntimeError> {
        match byte_size(shape, dtype) {
            Some(expected) if expected as u64 > max_bytes => {
                let (shape, got) = (shape.to_vec(), max_bytes as usize);
                Err(RuntimeError::SizeMismatch { shape, dtype, expected, got })
            }
            // A size that does not fit is refused when the tensor is made.
            _ => Ok(()),
        }
    }

    /// The constant that the instruction before the current one loaded into `reg`, if `tensor` is it.
    fn constant_before(&self, reg: Reg, tensor: &Tensor) -> Option<ConstIdx> {
        let Instruction::LoadConst { dst, index } = self.before()? else { return None };
        // A jump may have come here instead.
        let constant = self.vm().constants[index.index()].as_tensor()?;
        (*dst == reg && constant.is_same(tensor)).then_some(*index)
    }

    /// The tensor on `device`: a copy in memory of this run, unless it is there.
    pub(super) fn moved(&mut self, tensor: Tensor, device: Device) -> Result<Tensor, RuntimeError> {
        if tensor.device() == device {
            return Ok(tensor);
        }
        self.ws.copy(&tensor, device, self.writer, self.max_bytes())
    }

    pub(super) fn field(&self, src: Reg, index: u32) -> Result<Value, RuntimeError> {
        let fields = self.get(src)?.try_adt("get_field")?.fields();
        fields.get(index as usize).cloned().ok_or_else(|| RuntimeError::ShapeCheck {
            context: "get_field".into(),
            detail: format!("field {index} of {}", fields.len()),
        })
    }

    fn shape_dim(&self, src: Reg, axis: u32) -> Result<Value, RuntimeError> {
        let shape = match self.get(src)? {
            Value::Tensor(tensor) => tensor.shape(),
            other => other.try_shape("shape_dim")?,
        };
        let extent = shape.get(axis as usize).ok_or_else(|| RuntimeError::ShapeCheck {
            context: "shape_dim".into(),
            detail: format!("axis {axis} of rank {}", shape.len()),
        })?;
        Ok(Value::Int(*extent))
    }

    fn tensor_to_shape(&mut self, src: Reg) -> Result<Value, RuntimeError> {
        let tensor = self.get(src)?.try_tensor("tensor_to_shape")?.clone();
        let tensor = self.moved(tensor, Device::cpu())?;
        if tensor.rank() != 1 {
            return Err(RuntimeError::RankMismatch { expected: 1, got: tensor.rank() });
        }
        let extent = |index| tensor.element(index)?.try_int("tensor_to_shape");
        let shape = (0..tensor.len()).map(extent).collect::<Result<Shape, _>>()?;
        self.shape(&shape)
    }

    pub(super) fn check_tensor(
        &mut self,
        src: Reg,
        dtype: Option<DataType>,
        dims: Option<&[DimCheck]>,
        context: &str,
    ) -> Result<(), RuntimeError> {
        let fail = |detail| Err(RuntimeError::ShapeCheck { context: context.into(), detail });
        let got = match self.get(src)? {
            Value::Tensor(tensor) => tensor.dtype(),
            other => return fail(format!("expected a tensor, got {}", other.kind())),
        };
        match dtype {
            Some(dtype) if dtype != got => fail(format!("element type is {got}, expected {dtype}")),
            _ => dims.map_or(Ok(()), |dims| self.check_dims(src, dims, context)),
        }
    }

    pub(super) fn check_shape(
        &mut self,
        src: Reg,
        dims: &[DimCheck],
        context: &str,
    ) -> Result<(), RuntimeError> {
        self.get(src)?.try_shape(context)?;
        self.check_dims(src, dims, context)
    }

    fn shape(&mut self, shape: &[i64]) -> Result<Value, RuntimeError> {
        match shape.iter().position(|&extent| extent < 0) {
            None => Ok(Value::Shape(self.ws.pool.shape(shape))),
            Some(axis) => Err(RuntimeError::ShapeCheck {
                context: "shape".into(),
                detail: format!("axis {axis} is {}, expected at least 0", shape[axis]),
            }),
        }
    }
}
