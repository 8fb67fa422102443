//! Matches compiled to tests of tags, clause by clause; when only one constructor is left, its tag is not tested.
//!
//! TVM counterpart: Relay's `CompileMatch`, `CompileTreeNode`.

use tvm_runtime::vm::{Instruction, Reg};

use super::codegen::{Dest, FunctionCodegen};
use crate::ir::IrError;
use crate::relax::{Match, Pattern};

impl FunctionCodegen<'_, '_> {
    /// Emits code that runs the first clause that matches; a value that no clause matches ends the run with an error.
    pub(super) fn match_expr(&mut self, it: &Match, dest: Dest) -> Result<(), IrError> {
        let value = self.arg(&it.value)?;
        let mut done = Vec::new();
        let mut complete = false;
        // The tag of the value, once it is read, and the tags that clauses so far match whatever the fields are.
        let (mut tag, mut taken) = (None, Vec::new());
        for clause in it.clauses.iter() {
            let mut misfits = Vec::new();
            // A variable for the whole value gets a register of its own, because it may be killed on its own.
            if let Pattern::Var(var) = &clause.pattern {
                let dst = self.define(var);
                self.code.emit(Instruction::Move { dst, src: value });
            } else if let Pattern::Constructor(constructor, fields) = &clause.pattern {
                let last = self.num_constructors(constructor) == Some(taken.len() + 1);
                if !last || taken.contains(&constructor.tag) {
                    let get_tag = |dst| Instruction::GetTag { dst, src: value };
                    let tag = *tag.get_or_insert_with(|| self.code.emit_to(get_tag));
                    misfits.push(self.code.unless(tag, constructor.tag as i64));
                }
                self.fields(fields, value, &mut misfits);
                if fields.iter().all(|field| self.fits_all(field)) && !taken.contains(&constructor.tag) {
                    taken.push(constructor.tag);
                }
            } else {
                self.pattern(&clause.pattern, value, &mut misfits);
            }
            self.body(&clause.body, dest)?;
            complete = misfits.is_empty();
            if complete {
                break;
            }
            if !matches!(dest, Dest::Ret) {
                done.push(self.code.goto());
            }
            misfits.into_iter().for_each(|from| self.code.land(from));
        }
        if !complete {
            let place = if it.span.is_none() { String::new() } else { format!(" at {}", it.span) };
            let message = format!("no clause of the match{place} fits the value").into();
            self.code.emit(Instruction::Fatal { message });
        }
        done.into_iter().for_each(|from| self.code.land(from));
        Ok(())
    }

    /// Emits tests of whether the value in `src` matches `pattern`, and binds the pattern's variables. Adds to `misfits` the
    /// jumps that are taken if the value does not match.
    fn pattern(&mut self, pattern: &Pattern, src: Reg, misfits: &mut Vec<usize>) {
        match pattern {
            Pattern::Wildcard => {}
            Pattern::Var(var) => {
                self.regs.insert(var.id(), src);
            }
            Pattern::Constructor(constructor, fields) => {
                if self.num_constructors(constructor) != Some(1) {
                    let tag = self.code.emit_to(|dst| Instruction::GetTag { dst, src });
                    misfits.push(self.code.unless(tag, constructor.tag as i64));
                }
                self.fields(fields, src, misfits);
            }
            Pattern::Tuple(fields) => self.fields(fields, src, misfits),
        }
    }

    /// True when `pattern` matches every value of its type.
    fn fits_all(&self, pattern: &Pattern) -> bool {
        match pattern {
            Pattern::Wildcard | Pattern::Var(_) => true,
            Pattern::Constructor(it, _) if self.num_constructors(it) != Some(1) => false,
            Pattern::Constructor(_, fields) | Pattern::Tuple(fields) => {
                fields.iter().all(|field| self.fits_all(field))
            }
        }
    }

    fn fields(&mut self, fields: &[Pattern], src: Reg, misfits: &mut Vec<usize>) {
        for (i, field) in fields.iter().enumerate() {
            if !matches!(field, Pattern::Wildcard) {
                let value = self.code.emit_to(|dst| Instruction::GetField { dst, src, index: i as u32 });
                self.pattern(field, value, misfits);
            }
        }
    }
}
