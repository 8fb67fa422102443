//! The record of the primitives that a schedule applied.
//!
//! TVM counterpart: `Trace`.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Handle, Instruction, InstructionKind, Schedule, ScheduleError};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// The primitives that a schedule applied, step by step. Prints as the body of a Rust schedule function.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    instructions: Vec<Instruction>,
    /// Number of handles returned so far.
    count: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    version: u32,
    instructions: Vec<Instruction>,
}

impl Trace {
    /// The steps, in order.
    pub fn instructions(&self) -> &[Instruction] {
        &self.instructions
    }

    /// How many handles the steps returned.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a step that returned `outputs` handles; returns the numbers of these handles.
    pub(super) fn record(&mut self, kind: InstructionKind, inputs: &[Handle], outputs: usize) -> Vec<u32> {
        let numbers: Vec<u32> = (self.count..).take(outputs).collect();
        self.count += numbers.len() as u32;
        let inputs = inputs.iter().map(|handle| handle.number()).collect();
        self.instructions.push(Instruction { kind, inputs, outputs: numbers.clone() });
        numbers
    }

    /// Replays the steps on `schedule`, a fresh schedule of the same program.
    ///
    /// # Errors
    /// When a step does not fit the program; the steps before it then remain applied to `schedule`.
    pub fn apply_to_schedule(&self, schedule: &mut Schedule) -> Result<(), ScheduleError> {
        let mut handles: FxHashMap<u32, Handle> = FxHashMap::default();
        for (i, instruction) in self.instructions.iter().enumerate() {
            let find = |number: &u32| {
                let name = instruction.kind.name();
                handles.get(number).copied().ok_or_else(|| {
                    ScheduleError::Trace(format!("step {i} (`{name}`) uses {number}, which no step made"))
                })
            };
            let inputs = instruction.inputs.iter().map(find).collect::<Result<Vec<_>, _>>()?;
            let outputs = schedule.run(instruction.kind.clone(), &inputs)?;
            if outputs.len() != instruction.outputs.len() {
                let (got, expected) = (outputs.len(), instruction.outputs.len());
                return Err(ScheduleError::Trace(format!(
                    "step {i} gave {got} handles, the trace has {expected}"
                )));
            }
            handles.extend(instruction.outputs.iter().copied().zip(outputs));
        }
        Ok(())
    }

    /// The trace as JSON.
    pub fn to_json(&self) -> String {
        let json = Json { version: VERSION, instructions: self.instructions.clone() };
        serde_json::to_string(&json).unwrap_or_default()
    }

    /// A trace from JSON.
    ///
    /// # Errors
    /// When the text is not a trace of this version.
    pub fn from_json(text: &str) -> Result<Trace, ScheduleError> {
        let json: Json = serde_json::from_str(text).map_err(|err| ScheduleError::Trace(err.to_string()))?;
        if json.version != VERSION {
            return Err(ScheduleError::Trace(format!("version {}, expected {VERSION}", json.version)));
        }
        Ok(Trace { instructions: json.instructions, ..Trace::default() })
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for instruction in &self.instructions {
            let inputs: Vec<String> = instruction.inputs.iter().map(|it| format!("v{it}")).collect();
            let outputs: Vec<String> = instruction.outputs.iter().map(|it| format!("v{it}")).collect();
            let (ins, outs) = (inputs.join(", "), outputs.join(", "));
            match &instruction.kind {
                InstructionKind::GetBlock { name } => writeln!(f, "let {outs} = s.block({name:?})?;")?,
                InstructionKind::GetLoops => writeln!(f, "let [{outs}] = s.loops({ins})?;")?,
                InstructionKind::Split { factors } => {
                    writeln!(f, "let [{outs}] = s.split({ins}, {factors:?})?;")?
                }
                InstructionKind::Fuse => writeln!(f, "let {outs} = s.fuse([{ins}])?;")?,
                InstructionKind::Reorder => writeln!(f, "s.reorder([{ins}])?;")?,
                InstructionKind::Bind { tag } => writeln!(f, "s.bind({ins}, ThreadTag::{tag:?})?;")?,
                InstructionKind::CacheRead { buffer, scope }
                | InstructionKind::CacheWrite { buffer, scope } => {
                    writeln!(
                        f,
                        "let {outs} = s.{}({ins}, {buffer}, Scope::{scope:?})?;",
                        instruction.kind.name()
                    )?;
                }
                InstructionKind::DecomposeReduction => {
                    writeln!(f, "let {outs} = s.decompose_reduction({ins})?;")?
                }
                InstructionKind::Annotate { key, value } => {
                    writeln!(f, "s.annotate({ins}, {key:?}, {value:?})?;")?
                }
                InstructionKind::Parallel
                | InstructionKind::Vectorize
                | InstructionKind::Unroll
                | InstructionKind::ComputeAt
                | InstructionKind::ReverseComputeAt
                | InstructionKind::ComputeInline
                | InstructionKind::ReverseComputeInline => {
                    writeln!(f, "s.{}({ins})?;", instruction.kind.name())?
                }
            }
        }
        Ok(())
    }
}
