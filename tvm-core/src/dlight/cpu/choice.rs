//! Blocks in which an axis chooses the expression: `select(i == 0, a + b, select(i == 1, a - b, ..))`, as in the transforms of
//! Winograd's algorithm.
//!
//! The loops of such axes become the innermost ones and are unrolled, so that every copy has one of the expressions. If what
//! the block reads is chosen as well, it is computed there too: all values of one place stay in registers or in the
//! first-level cache.

use super::{outermost, parallel};
use crate::dlight::Rule;
use crate::dlight::analysis::BlockInfo;
use crate::target::Machine;
use crate::tir::schedule::{BlockRV, LoopRV, Schedule, ScheduleError};
use crate::tir::{BinaryOp, PrimExpr, any_expr};

pub(super) const RULE: Rule = Rule {
    name: "choice",
    why: "an axis chooses among expressions: its iterations are unrolled, so that each copy has one of them",
    apply,
};

/// Copies of the innermost loops' body at most.
const COPIES: i64 = 64;

/// An axis that chooses: by its value, or by its remainder.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Choice {
    /// Index of the axis.
    pub(super) axis: usize,
    /// The divisor of the remainder.
    pub(super) modulus: Option<i64>,
}

fn apply(s: &mut Schedule, info: &BlockInfo, machine: &Machine) -> Result<Option<String>, ScheduleError> {
    let choices = choices(info);
    if info.reduces || choices.is_empty() {
        return Ok(None);
    }
    if let Some(reader) = only_reader(s, info) {
        let mut fork = s.clone();
        let inner = choices_of_reader(info, &choices, &reader);
        if let Ok(Some(text)) = unrolled(&mut fork, &reader, &inner, Some(info), machine) {
            *s = fork;
            return Ok(Some(format!("{text}, inside of `{}`", reader.name)));
        }
    }
    unrolled(s, info, &choices, None, machine)
}

/// Unrolls the loops of `choices` in the block, in front of a vector, and computes `producer` there.
fn unrolled(
    s: &mut Schedule,
    info: &BlockInfo,
    choices: &[Choice],
    producer: Option<&BlockInfo>,
    machine: &Machine,
) -> Result<Option<String>, ScheduleError> {
    let block = s.block(&info.name)?;
    let loops = s.get_loops(block)?;
    let Some(split) = split(s, info, &loops, choices, machine)? else { return Ok(None) };
    // Parts are images, of which there may be many, or rows of them.
    let mut outer = split.outer.clone();
    let longest = outer.iter().rev().max_by_key(|it| it.count).map(|it| it.axis);
    outer.sort_by_key(|it| (it.count.is_some(), Some(it.axis) != longest));
    let counts: Vec<Option<i64>> = outer.iter().map(|it| it.count).collect();
    let outer: Vec<LoopRV> = outer.iter().map(|it| it.over).collect();
    let producer = producer.map(|it| s.block(&it.name)).transpose()?;
    split.unroll(s, 0, &outer, producer)?;
    parallel(s, info, outermost(&outer, &counts, 2, machine))?;
    Ok(Some(format!("{} copies", split.copies)))
}

/// The loops of a block, divided into those that choose, which are innermost and unrolled, and the others.
pub(super) struct Split {
    pub(super) outer: Vec<Outer>,
    /// The loops that choose.
    inner: Vec<LoopRV>,
    /// The loop over the elements of a vector.
    vector: LoopRV,
    /// Iterations of `inner`.
    copies: i64,
}

/// A loop that does not choose.
#[derive(Clone, Copy)]
pub(super) struct Outer {
    /// Index of the axis.
    pub(super) axis: usize,
    pub(super) over: LoopRV,
    /// Iterations, rounded down; vectors count as one.
    count: Option<i64>,
}

/// Divides `loops`, one for each axis of the block; `None` if there are too many copies, or if the innermost axis chooses.
pub(super) fn split(
    s: &mut Schedule,
    info: &BlockInfo,
    loops: &[LoopRV],
    choices: &[Choice],
    machine: &Machine,
) -> Result<Option<Split>, ScheduleError> {
    let (Some(column), Some(store)) = (info.contiguous_axis(), &info.store) else { return Ok(None) };
    let extent = |choice: &Choice| choice.modulus.or(info.axes[choice.axis].extent.as_int());
    let copies = choices.iter().try_fold(1i64, |copies, choice| copies.checked_mul(extent(choice)?));
    let Some(copies) = copies.filter(|&copies| copies <= COPIES) else { return Ok(None) };
    let (mut outer, mut inner, mut vector) = (Vec::new(), Vec::new(), None);
    for (axis, &it) in loops.iter().enumerate() {
        let count = info.axes[axis].extent.as_int();
        match choices.iter().find(|choice| choice.axis == axis) {
            Some(_) if axis == column => return Ok(None),
            Some(Choice { modulus: Some(modulus), .. }) => {
                let [over, part] = s.split(it, [None, Some(*modulus)])?;
                outer.push(Outer { axis, over, count: count.map(|count| count / modulus) });
                inner.push(part);
            }
            Some(_) => inner.push(it),
            None if axis == column => {
                let lanes = i64::from(machine.lanes(store.buffer.dtype));
                let lanes = count.map_or(lanes, |count| lanes.min(count.max(1)));
                let [over, lanes] = s.split(it, [None, Some(lanes)])?;
                outer.push(Outer { axis, over, count: Some(1) });
                vector = Some(lanes);
            }
            None => outer.push(Outer { axis, over: it, count }),
        }
    }
    Ok(vector.filter(|_| !outer.is_empty()).map(|vector| Split { outer, inner, vector, copies }))
}

impl Split {
    /// Makes the loops that choose the innermost ones but for that over a vector, unrolled, inside of `outer`, which has so many loops
    /// `around` it, and computes `producer` there.
    pub(super) fn unroll(
        &self,
        s: &mut Schedule,
        around: usize,
        outer: &[LoopRV],
        producer: Option<BlockRV>,
    ) -> Result<(), ScheduleError> {
        let copies = [&self.inner[..], &[self.vector]].concat();
        s.reorder_n(&[outer, &copies].concat())?;
        if let (Some(producer), Some(&last)) = (producer, outer.last()) {
            s.compute_at(producer, last)?;
            let loops = s.get_loops(producer)?;
            unroll_all(s, &loops[around + outer.len()..])?;
        }
        unroll_all(s, &copies)
    }
}

/// Unrolls the loops but for the last one, which becomes a vector.
pub(super) fn unroll_all(s: &mut Schedule, loops: &[LoopRV]) -> Result<(), ScheduleError> {
    let Some((&vector, copies)) = loops.split_last() else { return Ok(()) };
    copies.iter().try_for_each(|&it| s.unroll(it))?;
    s.vectorize(vector)
}

/// The axes that choose among the expressions of the block.
pub(super) fn choices(info: &BlockInfo) -> Vec<Choice> {
    let mut found = Vec::new();
    let Some(store) = &info.store else { return found };
    any_expr(&store.value, &mut |expr| {
        if let PrimExpr::Select(select) = expr
            && let PrimExpr::Binary(equal) = &select.condition
            && equal.op == BinaryOp::Eq
            && equal.b.as_int().is_some()
        {
            add(&mut found, choice(info, &equal.a));
        }
        false
    });
    found
}

fn add(choices: &mut Vec<Choice>, choice: Option<Choice>) {
    choices.extend(choice.filter(|choice| !choices.contains(choice)));
}

/// An axis, or its remainder.
fn choice(info: &BlockInfo, expr: &PrimExpr) -> Option<Choice> {
    let (var, modulus) = match expr {
        PrimExpr::Binary(it) if it.op == BinaryOp::FloorMod => (it.a.as_var()?, Some(it.b.as_int()?)),
        _ => (expr.as_var()?, None),
    };
    let axis = info.axes.iter().position(|axis| axis.var == *var)?;
    Some(Choice { axis, modulus })
}

/// The block that reads what the block stores, if there is one and it is element-wise.
pub(super) fn only_reader(s: &Schedule, info: &BlockInfo) -> Option<BlockInfo> {
    let store = info.store.as_ref()?;
    let reads = |block: &crate::tir::Block| block.reads.iter().any(|read| read.buffer == store.buffer);
    let mut readers =
        s.state().leaf_blocks().iter().filter(|it| it.block.name != info.name && reads(&it.block));
    let (reader, None) = (readers.next()?, readers.next()) else { return None };
    BlockInfo::of(s, &reader.block.name).filter(|reader| !reader.reduces)
}

/// The axes of `reader` that choose among its expressions, or that are the index where an axis of `info` chooses.
pub(super) fn choices_of_reader(info: &BlockInfo, of_info: &[Choice], reader: &BlockInfo) -> Vec<Choice> {
    let mut found = choices(reader);
    let Some(store) = &info.store else { return found };
    for load in reader.loads.iter().filter(|load| load.buffer == store.buffer) {
        for (index, stored) in load.indices.iter().zip(store.indices.iter()) {
            let chooses = of_info.iter().any(|it| stored.as_var() == Some(&info.axes[it.axis].var));
            add(&mut found, choice(reader, index).filter(|_| chooses));
        }
    }
    found
}
