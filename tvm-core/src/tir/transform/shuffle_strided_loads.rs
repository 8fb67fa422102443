//! Loads whole vectors where every second, third or fourth element is needed, and picks the elements by shuffles.
//!
//! `x[ramp(i, 2, 16)]` reads lane by lane, or gathers, which is as slow. It becomes two vectors, `x[i..i + 16]` and
//! `x[i + 15..i + 31]`, and a shuffle that picks the even elements of the first and the odd ones of the second. The first
//! and the last element read are those of the first and the last lane, so nothing outside of the buffer is read.
//!
//! TVM counterpart: none.

use super::util::body_pass;
use crate::pass::Pass;
use crate::tir::{BufferLoad, Intrinsic, Mutator, PrimCallee, PrimExpr, Shuffle, any_expr};

/// The largest stride that is shuffled: there are as many loads as the stride.
const MAX_STRIDE: i64 = 4;

/// Lanes from which on shuffles are faster than loads of single elements.
const MIN_LANES: u16 = 4;

/// Replaces loads of vectors with strides of 2 to 4 by contiguous loads and shuffles.
/// Requires: flat buffers, vectors in place of vectorized loops.
pub fn shuffle_strided_loads() -> Pass {
    body_pass("ShuffleStridedLoads", |func| ShuffleStridedLoads.mutate_stmt(&func.body))
}

struct ShuffleStridedLoads;

impl Mutator for ShuffleStridedLoads {
    fn mutate_expr(&mut self, expr: &PrimExpr) -> Option<PrimExpr> {
        match expr {
            PrimExpr::BufferLoad(load) => shuffled(load).or_else(|| self.walk_expr(expr)),
            // Lanes that are not chosen may be outside of the buffer.
            PrimExpr::Call(call)
                if call.callee == PrimCallee::Intrinsic(Intrinsic::IfThenElse)
                    && expr.dtype().lanes() > 1 =>
            {
                let of_lanes = call.args.first().is_none_or(|condition| condition.dtype().lanes() > 1);
                if of_lanes { None } else { self.walk_expr(expr) }
            }
            _ => self.walk_expr(expr),
        }
    }
}

/// The load as a shuffle of contiguous loads; `None` if it is of another form.
fn shuffled(load: &BufferLoad) -> Option<PrimExpr> {
    let [PrimExpr::Ramp(ramp)] = &*load.indices else { return None };
    let stride = ramp.stride.as_int().filter(|stride| (2..=MAX_STRIDE).contains(stride))?;
    let dtype = load.buffer.dtype;
    let reads = any_expr(&ramp.base, &mut |it| matches!(it, PrimExpr::BufferLoad(_)));
    if load.predicate.is_some() || dtype.lanes() != 1 || dtype.is_bool() || ramp.lanes < MIN_LANES || reads {
        return None;
    }
    let (lanes, stride) = (ramp.lanes, stride as u16);
    let one = PrimExpr::int(1, ramp.base.dtype());
    // Vector number `part` begins at `part * (lanes - 1)`: the last one ends with the last element.
    let vector = |part: u16| {
        let base = if part == 0 { ramp.base.clone() } else { &ramp.base + i64::from(part * (lanes - 1)) };
        let index = base.ramp(one.clone(), lanes);
        load.buffer.load([index])
    };
    // The first vector that holds the element of a lane.
    let part_of = |lane: u16| (lane * stride).div_ceil(lanes - 1).saturating_sub(1);
    let mut res = vector(0);
    for part in 1..stride {
        let lane = |lane: u16| match part_of(lane) {
            at if at == part => lanes + lane * stride - part * (lanes - 1),
            0 if part == 1 => lane * stride,
            _ => lane,
        };
        let shuffle =
            Shuffle { vectors: [res, vector(part)].into(), indices: (0..lanes).map(lane).collect() };
        res = PrimExpr::Shuffle(shuffle.into());
    }
    Some(res)
}
