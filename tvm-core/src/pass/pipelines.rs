//! The pipelines that the drivers of compilation run: those of the target, or those of the user in their place.
//!
//! `Pipelines::for_target`, in `pipeline.rs`, defines the default ones. A user takes them, changes their lists of passes and
//! puts them into the [`PassContext`]. They are checked before they run, so that the form that code generation relies on is
//! reached, or an error says what is missing:
//!
//! - Mandatory passes are there, and passes of the default pipeline are in its order.
//! - A pass of the user returns a well-formed module.
//! - No pass of the user runs among the passes that make kernels safe (from `VerifySource` on), unless the caller
//!   [vouches](tvm_runtime::Trust::unchecked_passes) for it.
//!
//! TVM counterpart: `relax.get_default_pipeline`, `tir.get_default_tir_pipeline`.

use super::instrument::VerifyEach;
use super::{Pass, PassContext, PassError, PassInstrument, Sequential};

/// A pipeline for graph functions and one for tensor programs; both are sequences.
#[derive(Clone, Debug)]
pub struct Pipelines {
    /// Lowers graph functions to the form that [`vm_codegen`](crate::relax::vm::vm_codegen) accepts.
    pub graph: Pass,
    /// Lowers tensor programs to [the form](crate::tir::transform) that code generators accept.
    pub tir: Pass,
}

impl Pipelines {
    /// The pipelines that `ctx` replaces those of its target with, or else those.
    ///
    /// # Errors
    /// When the pipelines of `ctx` lack a mandatory pass, break the order, or run a pass where they must not.
    pub fn of(ctx: &PassContext) -> Result<Pipelines, PassError> {
        let default = Pipelines::for_target(&ctx.target);
        let Some(own) = &ctx.pipelines else { return Ok(default) };
        let vouched = !ctx.config.trust.checks_passes();
        Ok(Pipelines {
            graph: checked(&own.graph, &default.graph, true)?,
            tir: checked(&own.tir, &default.tir, vouched)?,
        })
    }

    /// The pipeline for tensor programs in two: the passes of the user before all others, which see programs as they are
    /// written, and the rest.
    pub fn source_and_lowering(&self) -> (Pass, Pass) {
        let parts = self.tir.parts();
        let (source, lowering) = parts.split_at(parts.iter().take_while(|part| part.place.is_none()).count());
        let lowering = Sequential::new(self.tir.info.name, lowering.to_vec());
        let lowering = Pass { mandatory: self.tir.mandatory, ..lowering };
        (Sequential::new("SourcePasses", source.to_vec()), lowering)
    }
}

/// `own` as it runs in place of `default`. If it is not `open`, passes of the user stand before all others.
fn checked(own: &Pass, default: &Pass, open: bool) -> Result<Pass, PassError> {
    let places = default.parts();
    let name = |pass: &Pass| pass.info.name.to_string();
    let place_of = |part: &Pass| {
        let same = |it: &Pass| it.info.name == part.info.name && it.info.required == part.info.required;
        part.place.filter(|&i| places.get(i).is_some_and(same))
    };
    let order = |pass: &Pass, after: &Pass| PassError::Order {
        pipeline: name(own),
        pass: name(pass),
        after: name(after),
    };
    let lacks = |from: usize, to: usize| (from..to).find(|&i| places[i].is_mandatory());
    let mut parts = Vec::new();
    // The first place of a pass that may follow.
    let mut next = 0;
    for part in own.parts() {
        match place_of(part) {
            Some(i) if i < next => return Err(order(part, &places[next - 1])),
            Some(i) => {
                if let Some(lacking) = lacks(next, i) {
                    let later = own.parts().iter().any(|it| place_of(it) == Some(lacking));
                    let lacking = &places[lacking];
                    return Err(if later {
                        order(lacking, part)
                    } else {
                        PassError::Mandatory(name(lacking))
                    });
                }
                next = i + 1;
                parts.push(part.clone());
            }
            None if next > 0 && !open => {
                let (after, first) = (name(&places[next - 1]), name(&places[0]));
                return Err(PassError::Unvouched { pipeline: name(own), pass: name(part), after, first });
            }
            None => parts.push(verified(part.clone())),
        }
    }
    match lacks(next, places.len()) {
        Some(lacking) => Err(PassError::Mandatory(name(&places[lacking]))),
        None => Ok(Pass { mandatory: default.mandatory, ..Sequential::new(own.info.name, parts) }),
    }
}

/// `pass`, with an error if what it returns is not well-formed.
fn verified(pass: Pass) -> Pass {
    let mandatory = pass.mandatory;
    let new = Pass::new(pass.info.clone(), pass.kind, move |module, ctx| {
        let module = (pass.run)(module, ctx)?;
        VerifyEach.after(&pass, &module)?;
        Ok(module)
    });
    Pass { mandatory, ..new }
}
