//! The record of the primitives that a schedule applied.
//!
//! TVM counterpart: `Trace`.

use std::fmt;

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use super::{Decision, FactorArg, Handle, InstructionKind, Schedule, ScheduleError, ScheduleInstruction};

/// The version of the JSON form.
const VERSION: u32 = 1;

/// The primitives that a schedule applied, step by step. Prints as the body of a Rust schedule function.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    instructions: rpds::VectorSync<ScheduleInstruction>,
    /// Number of handles returned so far.
    count: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    version: u32,
    instructions: Vec<ScheduleInstruction>,
}

impl Trace {
    /// The steps, in order.
    pub fn instructions(&self) -> impl Iterator<Item = &ScheduleInstruction> {
        self.instructions.iter()
    }

    /// How many handles the steps returned.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Adds a step that returned `outputs` handles; returns the numbers of these handles.
    pub(super) fn record(
        &mut self,
        kind: InstructionKind,
        inputs: &[Handle],
        outputs: usize,
        decision: Option<Decision>,
    ) -> Vec<u32> {
        let numbers: Vec<u32> = (self.count..).take(outputs).collect();
        self.count += numbers.len() as u32;
        let inputs = inputs.iter().map(|handle| handle.number()).collect();
        self.instructions.push_back_mut(ScheduleInstruction {
            kind,
            inputs,
            outputs: numbers.clone(),
            decision,
        });
        numbers
    }

    /// The trace with another decision for the step `index`, a sampling instruction; `None` draws a new one on replay.
    ///
    /// # Errors
    /// When there is no such step, or it samples nothing. Whether the decision fits is checked on replay.
    pub fn with_decision(&self, index: usize, decision: Option<Decision>) -> Result<Trace, ScheduleError> {
        let mut trace = self.clone();
        match trace.instructions.get_mut(index) {
            Some(step) if step.kind.samples() => step.decision = decision,
            Some(step) => {
                let name = step.kind.name();
                return Err(ScheduleError::Trace(format!("step {index} (`{name}`) takes no decision")));
            }
            None => return Err(ScheduleError::Trace(format!("there is no step {index}"))),
        }
        Ok(trace)
    }

    /// Replays the steps on `schedule`, a fresh schedule of the same program. Sampling instructions repeat their decisions.
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
            let decision = instruction.decision.clone();
            let outputs = schedule.run_with(instruction.kind.clone(), &inputs, decision)?;
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
        let json = Json { version: VERSION, instructions: self.instructions.iter().cloned().collect() };
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
        Ok(Trace { instructions: json.instructions.into_iter().collect(), ..Trace::default() })
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
                    let factors = show_factors(factors, &inputs);
                    writeln!(f, "let [{outs}] = s.split({}, [{factors}])?;", inputs[0])?
                }
                InstructionKind::SamplePerfectTile { max_innermost, .. } => {
                    let decision = instruction.decision.as_ref();
                    let decision = decision.map_or("None".into(), |it| format!("Some({it})"));
                    writeln!(f, "let [{outs}] = s.sample_perfect_tile({ins}, {max_innermost}, {decision})?;")?
                }
                InstructionKind::SampleCategorical { candidates, weights } => {
                    let decision = instruction.decision.as_ref();
                    let decision = decision.map_or("None".into(), |it| format!("Some({it})"));
                    let of = format!("&{candidates:?}, &{weights:?}");
                    writeln!(f, "let {outs} = s.sample_categorical({of}, {decision})?;")?
                }
                InstructionKind::AddUnitLoop => writeln!(f, "let {outs} = s.add_unit_loop({ins})?;")?,
                InstructionKind::Fuse => writeln!(f, "let {outs} = s.fuse([{ins}])?;")?,
                InstructionKind::Reorder => writeln!(f, "s.reorder([{ins}])?;")?,
                InstructionKind::LoopPartition { points } => {
                    writeln!(f, "let [{outs}] = s.loop_partition({ins}, &{points:?})?;")?
                }
                InstructionKind::Bind { tag } => writeln!(f, "s.bind({ins}, ThreadTag::{tag:?})?;")?,
                InstructionKind::Atomic { any_order } => writeln!(f, "s.atomic({ins}, {any_order})?;")?,
                InstructionKind::CacheRead { buffer, scope }
                | InstructionKind::CacheWrite { buffer, scope } => {
                    writeln!(
                        f,
                        "let {outs} = s.{}({ins}, {buffer}, Scope::{scope:?})?;",
                        instruction.kind.name()
                    )?;
                }
                InstructionKind::CacheIndex { scope, uses } => {
                    let call = format!("s.cache_index({ins}, Scope::{scope:?}, {uses})?");
                    writeln!(f, "let [{outs}] = {call}[..] else {{ unreachable!() }};")?
                }
                InstructionKind::TransformLayout { buffer, from, to } => {
                    writeln!(f, "s.transform_layout({ins}, {buffer}, {from:?}, {to:?})?;")?
                }
                InstructionKind::SetScope { buffer, scope } => {
                    writeln!(f, "s.set_scope({ins}, {buffer}, Scope::{scope:?})?;")?
                }
                InstructionKind::StorageAlign { buffer, axis, factor, offset } => {
                    writeln!(f, "s.storage_align({ins}, {buffer}, {axis}, {factor}, {offset})?;")?
                }
                InstructionKind::Reindex { buffer } => {
                    writeln!(f, "let {outs} = s.reindex({ins}, {buffer})?;")?
                }
                InstructionKind::TransformBlockLayout { index_map } => {
                    writeln!(f, "s.transform_block_layout({ins}, {:?}.parse()?)?;", index_map.to_string())?
                }
                InstructionKind::PadEinsum { padding } => writeln!(f, "s.pad_einsum({ins}, &{padding:?})?;")?,
                InstructionKind::DecomposeReduction
                | InstructionKind::DecomposePadding
                | InstructionKind::Blockize => {
                    writeln!(f, "let {outs} = s.{}({ins})?;", instruction.kind.name())?
                }
                InstructionKind::Rfactor { factor_axis } => {
                    writeln!(f, "let {outs} = s.rfactor({ins}, {factor_axis})?;")?
                }
                InstructionKind::Tensorize { intrin } => {
                    writeln!(f, "let {outs} = s.tensorize({ins}, {intrin:?})?;")?
                }
                InstructionKind::Annotate { key, value } => {
                    writeln!(f, "s.annotate({ins}, {key:?}, {value:?})?;")?
                }
                InstructionKind::Unannotate { key } => writeln!(f, "s.unannotate({ins}, {key:?})?;")?,
                InstructionKind::Parallel
                | InstructionKind::Vectorize
                | InstructionKind::Unroll
                | InstructionKind::ComputeAt
                | InstructionKind::ReverseComputeAt
                | InstructionKind::ComputeInline
                | InstructionKind::ReverseComputeInline
                | InstructionKind::FuseReductionEpilogue => {
                    writeln!(f, "s.{}({ins})?;", instruction.kind.name())?
                }
            }
        }
        Ok(())
    }
}

/// The factors of a split as the elements of a Rust array: of `Option`s where all are integers.
fn show_factors(factors: &[Option<FactorArg>], inputs: &[String]) -> String {
    let sampled =
        factors.iter().any(|it| matches!(it, Some(FactorArg::Input { .. } | FactorArg::Dim { .. })));
    let show = |factor: &Option<FactorArg>| match factor {
        Some(FactorArg::Input { input }) => {
            format!("Factor::from({})", inputs.get(*input).map_or("?", String::as_str))
        }
        Some(FactorArg::Dim { dim }) => format!("Factor::from({dim:?})"),
        Some(FactorArg::Int(value)) if sampled => format!("Factor::Int({value})"),
        Some(FactorArg::Int(value)) => format!("Some({value})"),
        None if sampled => "Factor::Infer".into(),
        None => "None".into(),
    };
    factors.iter().map(show).collect::<Vec<_>>().join(", ")
}
