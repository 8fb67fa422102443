//! Loads and stores: indices to addresses, bytes to values.

use std::sync::Arc;

use half::{bf16, f16};
use smallvec::SmallVec;
use tvm_runtime::{DTypeCode, DataType};

use super::InterpErrorKind;
use super::machine::{Handle, IntFn, Machine, Run, Trap};
use super::ops::Code;
use super::strict::{Fault, Kind};
use crate::ir::Span;
use crate::support::{to_bf16, to_f16};

/// An access to one element; its indices are computed at run time.
pub(super) struct Access {
    pub(super) view: usize,
    pub(super) indices: Box<[IntFn]>,
    pub(super) dtype: DataType,
    pub(super) buffer: Arc<str>,
    pub(super) span: Span,
    /// True if it is a part of an atomic update.
    pub(super) atomic: bool,
}

impl Access {
    /// Address of the element (of its current lane, for a buffer of vectors).
    #[inline]
    fn address(&self, m: &mut Machine<'_>) -> Result<Handle, Trap> {
        let lanes = usize::from(self.dtype.lanes());
        if lanes == 1 {
            return self.element(m);
        }
        let lane = m.lane;
        m.lane = lane / lanes;
        let at = self.element(m);
        m.lane = lane;
        let at = at?;
        Ok(Handle { byte: at.byte + ((lane % lanes) * self.dtype.scalar().bytes()) as i64, ..at })
    }

    #[inline]
    fn element(&self, m: &mut Machine<'_>) -> Result<Handle, Trap> {
        let mut byte = 0;
        for (axis, index) in self.indices.iter().enumerate() {
            let index = index(m)?;
            let dim = m.views[self.view].dims[axis];
            if index < 0 || index >= dim.extent {
                return Err(self.out_of_bounds(m, axis, index, dim.extent));
            }
            byte += index * dim.stride;
        }
        let at = m.views[self.view].at;
        Ok(Handle { byte: at.byte + byte, ..at })
    }

    /// Address of the element, without a bounds check: a pointer to the start of an empty buffer is valid.
    pub(super) fn pointer(&self, m: &mut Machine<'_>) -> Result<Handle, Trap> {
        let mut byte = 0;
        for (axis, index) in self.indices.iter().enumerate() {
            byte += index(m)? * m.views[self.view].dims[axis].stride;
        }
        let at = m.views[self.view].at;
        Ok(Handle { byte: at.byte + byte, ..at })
    }

    #[cold]
    fn out_of_bounds(&self, m: &mut Machine<'_>, axis: usize, index: i64, extent: i64) -> Trap {
        m.fail(InterpErrorKind::OutOfBounds { buffer: self.buffer.clone(), axis, index, extent }, &self.span)
    }

    #[cold]
    fn out_of_memory(&self, m: &mut Machine<'_>, at: Handle) -> Trap {
        let (buffer, len) = (self.buffer.clone(), m.bytes(at.mem).len());
        m.fail(InterpErrorKind::OutOfMemory { buffer, byte: at.byte, len }, &self.span)
    }

    #[inline]
    fn read<const N: usize>(&self, m: &mut Machine<'_>) -> Result<[u8; N], Trap> {
        let at = self.address(m)?;
        if m.watch.is_some() {
            self.watched(m, at, N, Kind::Read)?;
        }
        match m.bytes(at.mem).get(at.byte as usize..).and_then(|bytes| bytes.first_chunk::<N>()) {
            Some(bytes) => Ok(*bytes),
            None => Err(self.out_of_memory(m, at)),
        }
    }

    /// Reports an access to the strict mode.
    #[cold]
    fn watched(&self, m: &mut Machine<'_>, at: Handle, len: usize, kind: Kind) -> Result<(), Trap> {
        let Some(watch) = &mut m.watch else { return Ok(()) };
        let kind = if self.atomic { Kind::Atomic } else { kind };
        let Err(fault) = watch.access(at.mem, at.byte, len, kind) else { return Ok(()) };
        m.watch = None;
        let element = self.indices.iter().map(|index| index(m)).collect::<Result<_, _>>()?;
        let buffer = self.buffer.clone();
        let kind = match fault {
            Fault::Uninitialised => InterpErrorKind::Uninitialised { buffer, element },
            Fault::Race { at, first, second } => InterpErrorKind::Race {
                buffer,
                element,
                kind: at.kind,
                loop_var: at.name,
                first,
                second,
                loop_span: at.span,
            },
        };
        Err(m.fail(kind, &self.span))
    }

    #[inline]
    fn write<const N: usize>(&self, m: &mut Machine<'_>, at: Handle, value: [u8; N]) -> Result<(), Trap> {
        if m.watch.is_some() {
            self.watched(m, at, N, Kind::Write)?;
        }
        let Some(bytes) = m.bytes_mut(at.mem) else {
            return Err(m.fail(InterpErrorKind::ReadOnly { buffer: self.buffer.clone() }, &self.span));
        };
        match bytes.get_mut(at.byte as usize..).and_then(|bytes| bytes.first_chunk_mut::<N>()) {
            Some(bytes) => {
                *bytes = value;
                Ok(())
            }
            None => Err(self.out_of_memory(m, at)),
        }
    }

    /// Reads the element.
    pub(super) fn load(self) -> Code {
        macro_rules! load {
            ($kind:ident $ty:ty, |$x:ident| $value:expr) => {
                Code::$kind(Box::new(move |m| {
                    let $x = <$ty>::from_le_bytes(self.read(m)?);
                    Ok($value)
                }))
            };
        }
        match (self.dtype.code(), self.dtype.bits()) {
            (DTypeCode::Bool, _) => load!(Int u8, |x| i64::from(x != 0)),
            (DTypeCode::Int, 8) => load!(Int i8, |x| i64::from(x)),
            (DTypeCode::Int, 16) => load!(Int i16, |x| i64::from(x)),
            (DTypeCode::Int, 32) => load!(Int i32, |x| i64::from(x)),
            (DTypeCode::UInt, 8) => load!(Int u8, |x| i64::from(x)),
            (DTypeCode::UInt, 16) => load!(Int u16, |x| i64::from(x)),
            (DTypeCode::UInt, 32) => load!(Int u32, |x| i64::from(x)),
            (DTypeCode::Int | DTypeCode::UInt | DTypeCode::Handle, _) => load!(Int i64, |x| x),
            (DTypeCode::BFloat, _) => load!(Float bf16, |x| x.to_f64()),
            (DTypeCode::Float, 16) => load!(Float f16, |x| x.to_f64()),
            (DTypeCode::Float, 32) => load!(Float f32, |x| f64::from(x)),
            (DTypeCode::Float, _) => load!(Float f64, |x| x),
        }
    }

    /// Writes `lanes` elements, or those of them in which `predicate` holds: all lanes are computed before the first is written.
    pub(super) fn store(self, value: Code, lanes: usize, predicate: Option<IntFn>) -> Run {
        macro_rules! store {
            ($value:ident, |$x:ident| $bytes:expr) => {
                if lanes == 1 {
                    Box::new(move |m| {
                        m.step()?;
                        let $x = $value(m)?;
                        let at = self.address(m)?;
                        self.write(m, at, $bytes.to_le_bytes())
                    })
                } else {
                    Box::new(move |m| {
                        m.step()?;
                        let values = each_lane(m, lanes, |m| {
                            let value = $value(m)?;
                            let written = predicate.as_ref().map_or(Ok(1), |holds| holds(m))? != 0;
                            Ok((value, written.then(|| self.address(m)).transpose()?))
                        })?;
                        for ($x, at) in values {
                            let Some(at) = at else { continue };
                            self.write(m, at, $bytes.to_le_bytes())?;
                        }
                        Ok(())
                    })
                }
            };
        }
        let bits = self.dtype.bits();
        match value {
            Code::Int(value) => match bits {
                8 => store!(value, |x| (x as i8)),
                16 => store!(value, |x| (x as i16)),
                32 => store!(value, |x| (x as i32)),
                _ => store!(value, |x| x),
            },
            Code::Float(value) => match (self.dtype.code(), bits) {
                (DTypeCode::BFloat, _) => store!(value, |x| to_bf16(x)),
                (_, 16) => store!(value, |x| to_f16(x)),
                (_, 32) => store!(value, |x| (x as f32)),
                _ => store!(value, |x| x),
            },
        }
    }
}

/// Calls `f` for every lane.
pub(super) fn each_lane<T>(
    m: &mut Machine<'_>,
    lanes: usize,
    mut f: impl FnMut(&mut Machine<'_>) -> Result<T, Trap>,
) -> Result<SmallVec<[T; 16]>, Trap> {
    let saved = m.lane;
    let res = (0..lanes)
        .map(|lane| {
            m.lane = lane;
            f(m)
        })
        .collect();
    m.lane = saved;
    res
}
