//! Encoding of each type as bytes, and decoding.
//!
//! One trait, [`Codec`], serves both. Structs are lists of fields; enums are a number and fields. Both directions are
//! generated from one list, so writer and reader cannot disagree. The reader treats its input as hostile.

use std::sync::Arc;

use super::ArtifactError;
use crate::device::{Device, DeviceKind};
use crate::dim_bound::DimBound;
use crate::dtype::DataType;
use crate::kernel::{DimSig, KernelSig, ParamKind, ParamSig};
use crate::vm::{
    ConstIdx, DimCheck, FuncIdx, IntOpKind, IntOperand, KernelIdx, ObjectKind, PackedIdx, Pc, Reg, ValueType,
    VmParam,
};

/// Writer of one section.
#[derive(Default)]
pub(super) struct Writer {
    pub(super) bytes: Vec<u8>,
    /// Description of the first value that could not be written.
    pub(super) error: Option<String>,
    /// Current nesting depth of types.
    depth: usize,
}

impl Writer {
    fn len(&mut self, len: usize) {
        match u32::try_from(len) {
            Ok(len) => len.put(self),
            Err(_) => self.fail(format!("a list of {len} entries")),
        }
    }

    fn nested(&mut self, put: impl FnOnce(&mut Writer)) {
        if self.depth == MAX_DEPTH {
            return self.fail(format!("types nest deeper than {MAX_DEPTH}"));
        }
        self.depth += 1;
        put(self);
        self.depth -= 1;
    }

    pub(super) fn fail(&mut self, message: String) {
        self.error.get_or_insert(message);
    }
}

/// Reader of the bytes of one section.
pub(super) struct Reader<'a> {
    section: &'static str,
    bytes: &'a [u8],
    at: usize,
    /// Current nesting depth of types.
    depth: usize,
}

/// Deepest nesting of types that is read or written.
const MAX_DEPTH: usize = 64;

impl<'a> Reader<'a> {
    pub(super) fn new(section: &'static str, bytes: &'a [u8]) -> Reader<'a> {
        Reader { section, bytes, at: 0, depth: 0 }
    }

    pub(super) fn error(&self, message: impl Into<String>) -> ArtifactError {
        ArtifactError::Malformed { section: self.section, at: self.at, message: message.into() }
    }

    fn left(&self) -> usize {
        self.bytes.len() - self.at
    }

    pub(super) fn take(&mut self, len: usize) -> Result<&'a [u8], ArtifactError> {
        match self.bytes.get(self.at..).and_then(|rest| rest.get(..len)) {
            Some(bytes) => {
                self.at += len;
                Ok(bytes)
            }
            None => Err(self.error(format!("{len} byte(s) expected, {} left", self.left()))),
        }
    }

    /// Reads the length of a list. Each entry takes at least one byte, so a length above the number of remaining bytes
    /// is an error.
    fn len(&mut self) -> Result<usize, ArtifactError> {
        let len = u32::get(self)? as usize;
        if len > self.left() {
            Err(self.error(format!("a list of {len} entries in {} bytes", self.left())))
        } else {
            Ok(len)
        }
    }

    fn nested<T>(
        &mut self,
        get: impl FnOnce(&mut Reader<'a>) -> Result<T, ArtifactError>,
    ) -> Result<T, ArtifactError> {
        if self.depth == MAX_DEPTH {
            return Err(self.error(format!("types nest deeper than {MAX_DEPTH}")));
        }
        self.depth += 1;
        let res = get(self);
        self.depth -= 1;
        res
    }

    /// Ends the section; it is an error if bytes remain.
    pub(super) fn finish(self) -> Result<(), ArtifactError> {
        match self.left() {
            0 => Ok(()),
            left => Err(self.error(format!("{left} byte(s) too many"))),
        }
    }
}

/// A type that can be encoded as bytes.
pub(super) trait Codec: Sized {
    fn put(&self, w: &mut Writer);
    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError>;
}

macro_rules! numbers {
    ($($ty:ty),*) => {$(
        impl Codec for $ty {
            fn put(&self, w: &mut Writer) {
                w.bytes.extend_from_slice(&self.to_le_bytes());
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
                let bytes = r.take(size_of::<$ty>())?;
                Ok(<$ty>::from_le_bytes(bytes.try_into().expect("as many bytes as taken")))
            }
        }
    )*};
}

numbers!(u8, u16, u32, u64, i32, i64, f64);

macro_rules! indices {
    ($($ty:ident),*) => {$(
        impl Codec for $ty {
            fn put(&self, w: &mut Writer) {
                self.0.put(w);
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
                u32::get(r).map($ty)
            }
        }
    )*};
}

indices!(Reg, FuncIdx, KernelIdx, PackedIdx, ConstIdx, Pc);

/// Implements `Codec` for structs, field by field.
macro_rules! structs {
    ($($ty:ident { $($field:ident),* })*) => {$(
        impl Codec for $ty {
            fn put(&self, w: &mut Writer) {
                let $ty { $($field),* } = self;
                $($field.put(w);)*
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
                $(let $field = Codec::get(r)?;)*
                Ok($ty { $($field),* })
            }
        }
    )*};
}

pub(super) use structs;

structs! {
    Device { kind, id }
    KernelSig { name, params }
    ParamSig { name, kind, dtype, shape }
    VmParam { name, ty }
}

/// Implements `Codec` for enums: a number, then the fields.
macro_rules! enums {
    ($($ty:ident { $($number:literal = $variant:ident $(($($item:ident),*))? $({ $($field:ident),* })?,)* })*) => {$(
        impl Codec for $ty {
            fn put(&self, w: &mut Writer) {
                match self {
                    $(Self::$variant $(($($item),*))? $({ $($field),* })? => {
                        w.bytes.push($number);
                        $($($item.put(w);)*)?
                        $($($field.put(w);)*)?
                    })*
                }
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
                Ok(match u8::get(r)? {
                    $($number => {
                        $($(let $item = Codec::get(r)?;)*)?
                        $($(let $field = Codec::get(r)?;)*)?
                        Self::$variant $(($($item),*))? $({ $($field),* })?
                    })*
                    number => return Err(r.error(format!("{number} is no {}", stringify!($ty)))),
                })
            }
        }
    )*};
}
pub(super) use enums;

enums! {
    DeviceKind { 1 = Cpu, 2 = Cuda, }
    ParamKind { 0 = In, 1 = Out, 2 = Scalar, }
    DimSig { 0 = Const(value), 1 = Var(name), 2 = Expr(text), }
    IntOperand { 0 = Const(value), 1 = Reg(reg), }
    DimCheck { 0 = Any, 1 = Const(value), 2 = Reg(reg), 3 = Bind(reg), }
    ObjectKind { 0 = SharedLibrary, 2 = Import(kind), 3 = LevelLibrary(level), 4 = GpuKernels { arch, format }, }
    ValueType {
        0 = Tensor { dtype, shape },
        1 = Shape(rank),
        2 = Int,
        3 = Float,
        4 = Str,
        5 = Tuple(fields),
        6 = Func(params, ret),
        7 = Adt(name),
        8 = Ref(inner),
        9 = Object,
    }
}

/// A type nested in a type; the depth is counted here.
impl<T: Codec> Codec for Box<T> {
    fn put(&self, w: &mut Writer) {
        w.nested(|w| T::put(self, w));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        r.nested(|r| T::get(r).map(Box::new))
    }
}

impl<T: Codec> Codec for Vec<T> {
    fn put(&self, w: &mut Writer) {
        w.len(self.len());
        w.nested(|w| self.iter().for_each(|item| item.put(w)));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        let len = r.len()?;
        r.nested(|r| (0..len).map(|_| T::get(r)).collect())
    }
}

impl<T: Codec> Codec for Box<[T]> {
    fn put(&self, w: &mut Writer) {
        w.len(self.len());
        w.nested(|w| self.iter().for_each(|item| item.put(w)));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        Vec::get(r).map(Vec::into_boxed_slice)
    }
}

impl<T: Codec, const N: usize> Codec for [T; N] {
    fn put(&self, w: &mut Writer) {
        self.iter().for_each(|item| item.put(w));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        let items = (0..N).map(|_| T::get(r)).collect::<Result<Vec<_>, _>>()?;
        items.try_into().map_err(|_| r.error("a list of another length"))
    }
}

impl<T: Codec> Codec for Option<T> {
    fn put(&self, w: &mut Writer) {
        w.bytes.push(self.is_some().into());
        if let Some(item) = self {
            item.put(w);
        }
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        if bool::get(r)? { T::get(r).map(Some) } else { Ok(None) }
    }
}

impl<A: Codec, B: Codec> Codec for (A, B) {
    fn put(&self, w: &mut Writer) {
        self.0.put(w);
        self.1.put(w);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        Ok((A::get(r)?, B::get(r)?))
    }
}

impl Codec for bool {
    fn put(&self, w: &mut Writer) {
        w.bytes.push((*self).into());
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        match u8::get(r)? {
            0 => Ok(false),
            1 => Ok(true),
            byte => Err(r.error(format!("{byte} is neither 0 nor 1"))),
        }
    }
}

macro_rules! strings {
    ($($ty:ty),*) => {$(
        impl Codec for $ty {
            fn put(&self, w: &mut Writer) {
                w.len(self.len());
                w.bytes.extend_from_slice(self.as_bytes());
            }

            fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
                let len = r.len()?;
                match std::str::from_utf8(r.take(len)?) {
                    Ok(text) => Ok(text.into()),
                    Err(_) => Err(r.error("a string that is not UTF-8")),
                }
            }
        }
    )*};
}

strings!(String, Box<str>, Arc<str>);

impl Codec for DataType {
    fn put(&self, w: &mut Writer) {
        (self.code() as u8).put(w);
        self.bits().put(w);
        self.lanes().put(w);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        let (code, bits, lanes) = (u8::get(r)?, u8::get(r)?, u16::get(r)?);
        DataType::from_dlpack(code, bits, lanes).ok_or_else(|| r.error("an unknown element type"))
    }
}

impl Codec for DimBound {
    fn put(&self, w: &mut Writer) {
        self.parts().iter().for_each(|it| it.put(w));
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        let (min, max, modulus, remainder) = (i64::get(r)?, i64::get(r)?, i64::get(r)?, i64::get(r)?);
        DimBound::new(min, max, modulus, remainder).map_err(|err| r.error(err.to_string()))
    }
}

impl Codec for IntOpKind {
    fn put(&self, w: &mut Writer) {
        w.bytes.push(*self as u8);
    }

    fn get(r: &mut Reader<'_>) -> Result<Self, ArtifactError> {
        let number = u8::get(r)?;
        match IntOpKind::ALL.get(number as usize) {
            Some((op, _)) => Ok(*op),
            None => Err(r.error(format!("{number} is no integer operation"))),
        }
    }
}
