//! The tables of an executable and the instructions of a function, under construction.

use std::sync::Arc;

use indexmap::{IndexMap, IndexSet};
use rustc_hash::FxHashMap;
use tvm_runtime::vm::{
    ConstIdx, Constant, FuncIdx, Instruction, IntOpKind, IntOperand, KernelIdx, PackedIdx, Pc, Reg,
};
use tvm_runtime::{DataType, Device, Tensor};

use crate::ir::{GlobalVar, IRModule, IrError, Span};
use crate::relax::Function;
use crate::tir::PrimFunc;

/// Tables of the executable.
pub(super) struct Tables<'a> {
    pub(super) module: &'a IRModule,
    /// Where kernels run.
    pub(super) device: Device,
    functions: FxHashMap<GlobalVar, FuncIdx>,
    kernels: IndexMap<GlobalVar, Arc<PrimFunc>>,
    packed: IndexSet<Arc<str>>,
    constants: Vec<Constant>,
    interned: FxHashMap<Key, ConstIdx>,
    /// The constant tensors of each shape and element type.
    tensors: FxHashMap<TensorKey, Vec<(ConstIdx, Tensor)>>,
}

/// Shape and element type.
type TensorKey = (Box<[i64]>, DataType);

/// Key of an interned constant: constants with equal keys are one.
#[derive(PartialEq, Eq, Hash)]
enum Key {
    Tensor(usize, Box<[i64]>, DataType),
    Float(u64),
    Str(Arc<str>),
    DType(DataType),
}

impl<'a> Tables<'a> {
    pub(super) fn new(module: &'a IRModule, device: Device) -> Tables<'a> {
        let functions = relax_functions(module).enumerate();
        Tables {
            module,
            device,
            functions: functions.map(|(i, (gv, _))| (gv.clone(), FuncIdx(i as u32))).collect(),
            kernels: IndexMap::new(),
            packed: IndexSet::new(),
            constants: Vec::new(),
            interned: FxHashMap::default(),
            tensors: FxHashMap::default(),
        }
    }

    pub(super) fn function(&self, gv: &GlobalVar) -> Option<FuncIdx> {
        self.functions.get(gv).copied()
    }

    pub(super) fn kernel(&mut self, gv: &GlobalVar) -> Result<(KernelIdx, Arc<PrimFunc>), IrError> {
        let func = self.module.prim_func(gv).ok_or_else(|| {
            IrError::new(format!("`{}` is not a tensor program of the module", gv.name()), &Span::none())
        })?;
        let (index, _) = self.kernels.insert_full(gv.clone(), func.clone());
        Ok((KernelIdx(index as u32), func.clone()))
    }

    pub(super) fn packed(&mut self, name: &Arc<str>) -> PackedIdx {
        PackedIdx(self.packed.insert_full(name.clone()).0 as u32)
    }

    /// The index of a tensor; tensors of the same bytes are one, as functions may pack the same weights.
    pub(super) fn tensor(&mut self, tensor: &Tensor) -> ConstIdx {
        let key = Key::Tensor(tensor.data_ptr().addr(), tensor.shape().into(), tensor.dtype());
        if let Some(known) = self.interned.get(&key) {
            return *known;
        }
        let alike = self.tensors.entry((tensor.shape().into(), tensor.dtype())).or_default();
        let same = |other: &Tensor| matches!((tensor.bytes(), other.bytes()), (Ok(a), Ok(b)) if a == b);
        if let Some((known, _)) = alike.iter().find(|(_, other)| same(other)) {
            self.interned.insert(key, *known);
            return *known;
        }
        let made = ConstIdx(self.constants.len() as u32);
        alike.push((made, tensor.clone()));
        self.intern(key, || Constant::Tensor(tensor.clone()))
    }

    pub(super) fn float(&mut self, value: f64) -> ConstIdx {
        self.intern(Key::Float(value.to_bits()), || Constant::Float(value))
    }

    pub(super) fn string(&mut self, value: &Arc<str>) -> ConstIdx {
        self.intern(Key::Str(value.clone()), || Constant::Str(value.to_string()))
    }

    pub(super) fn dtype(&mut self, value: DataType) -> ConstIdx {
        self.intern(Key::DType(value), || Constant::DType(value))
    }

    fn intern(&mut self, key: Key, make: impl FnOnce() -> Constant) -> ConstIdx {
        let constants = &mut self.constants;
        *self.interned.entry(key).or_insert_with(|| {
            constants.push(make());
            ConstIdx(constants.len() as u32 - 1)
        })
    }

    /// The constants, kernels and names of packed functions, each in the order of its indices.
    pub(super) fn finish(self) -> (Vec<Constant>, IndexMap<GlobalVar, Arc<PrimFunc>>, Vec<String>) {
        (self.constants, self.kernels, self.packed.iter().map(ToString::to_string).collect())
    }
}

/// The graph functions of a module, in the order of their indices.
pub(super) fn relax_functions(module: &IRModule) -> impl Iterator<Item = (&GlobalVar, &Arc<Function>)> {
    module.functions().filter_map(|(gv, _)| Some((gv, module.relax_func(gv)?)))
}

/// Instructions of one function.
#[derive(Default)]
pub(super) struct Code {
    pub(super) instructions: Vec<Instruction>,
    pub(super) num_regs: u32,
    /// Integers that are computed on every way to the next instruction: their registers, and the indices of the instructions.
    ints: FxHashMap<(IntOpKind, IntOperand, IntOperand), (Reg, usize)>,
}

impl Code {
    /// A register that nothing else uses.
    pub(super) fn reg(&mut self) -> Reg {
        self.num_regs += 1;
        Reg(self.num_regs - 1)
    }

    /// Adds an instruction and returns its index.
    pub(super) fn emit(&mut self, instruction: Instruction) -> usize {
        self.instructions.push(instruction);
        self.instructions.len() - 1
    }

    /// Adds the instruction that `make` builds for a fresh register.
    pub(super) fn emit_to(&mut self, make: impl FnOnce(Reg) -> Instruction) -> Reg {
        let dst = self.reg();
        self.emit(make(dst));
        dst
    }

    /// A register that holds the result of an operation: the one that holds it already, if there is one.
    pub(super) fn int_op(&mut self, op: IntOpKind, lhs: IntOperand, rhs: IntOperand) -> Reg {
        if let Some((reg, _)) = self.ints.get(&(op, lhs, rhs)) {
            return *reg;
        }
        let at = self.instructions.len();
        let reg = self.emit_to(|dst| Instruction::IntOp { op, dst, lhs, rhs });
        self.ints.insert((op, lhs, rhs), (reg, at));
        reg
    }

    /// Ends the value in `reg`.
    pub(super) fn kill(&mut self, reg: Reg) {
        self.ints.retain(|&(_, lhs, rhs), (res, _)| {
            *res != reg && [lhs, rhs].iter().all(|operand| *operand != IntOperand::Reg(reg))
        });
        self.emit(Instruction::KillRegister { reg });
    }

    /// The address of the next instruction.
    pub(super) fn here(&self) -> Pc {
        Pc(self.instructions.len() as u32)
    }

    /// Emits a jump, whose target [`land`](Self::land) sets; returns its index.
    pub(super) fn goto(&mut self) -> usize {
        self.emit(Instruction::Goto { target: Pc(u32::MAX) })
    }

    /// Emits a jump that is taken unless `test` equals `target`; [`land`](Self::land) sets where to. Returns its index.
    pub(super) fn unless(&mut self, test: Reg, target: i64) -> usize {
        let on_eq = Pc(self.here().0 + 1);
        self.emit(Instruction::If { test, target, on_eq, on_ne: Pc(u32::MAX) })
    }

    /// Emits a jump that is taken unless `test` is true; [`land`](Self::land) sets where to. Returns its index.
    pub(super) fn unless_true(&mut self, test: Reg) -> usize {
        let on_ne = Pc(self.here().0 + 1);
        self.emit(Instruction::If { test, target: 0, on_eq: Pc(u32::MAX), on_ne })
    }

    /// Makes the next instruction the target of the jump at `from`.
    pub(super) fn land(&mut self, from: usize) {
        // What was computed after the jump is not computed if it is taken.
        self.ints.retain(|_, (_, at)| *at < from);
        let here = self.here();
        match self.instructions.get_mut(from) {
            Some(Instruction::Goto { target }) => *target = here,
            Some(Instruction::If { on_eq, on_ne, .. }) => {
                let open = if on_eq.0 == u32::MAX { on_eq } else { on_ne };
                *open = here;
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The register of `reg + 1`.
    fn plus_one(code: &mut Code, reg: Reg) -> Reg {
        code.int_op(IntOpKind::Add, reg.into(), 1.into())
    }

    #[test]
    fn integers_are_computed_once() {
        let mut code = Code::default();
        let n = code.reg();
        let first = plus_one(&mut code, n);
        assert_eq!(plus_one(&mut code, n), first);
        assert_ne!(code.int_op(IntOpKind::Sub, n.into(), 1.into()), first);
        assert_eq!(code.instructions.len(), 2);
    }

    #[test]
    fn what_one_branch_computes_is_not_known_in_the_other_or_after_both() {
        let mut code = Code::default();
        let (n, test) = (code.reg(), code.reg());
        let before = plus_one(&mut code, n);
        let otherwise = code.unless_true(test);
        let inside = plus_one(&mut code, before);
        let done = code.goto();
        code.land(otherwise);
        let other = plus_one(&mut code, before);
        assert_ne!(other, inside);
        code.land(done);
        assert_eq!(plus_one(&mut code, n), before);
        assert!(![inside, other].contains(&plus_one(&mut code, before)));
    }

    #[test]
    fn a_register_that_ended_is_not_used_again() {
        let mut code = Code::default();
        let n = code.reg();
        let first = plus_one(&mut code, n);
        let second = plus_one(&mut code, first);
        code.kill(first);
        let again = plus_one(&mut code, n);
        assert_ne!(again, first);
        assert_ne!(plus_one(&mut code, again), second);
    }
}
