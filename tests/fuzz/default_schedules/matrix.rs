//! Every rule with every element type that it takes, so that none goes unvisited: some programs of each pair, with NaN,
//! infinities, zeros of both signs and subnormal numbers among their values, or with subnormal numbers only.
//!
//! The programs are those of the families; what a family makes is scheduled, and kept where a pair still lacks programs.
//! Machines with vectors of three widths take turns. `batch` runs each kernel, compiled by LLVM if that is there and as C
//! otherwise, on 1, 2 and 7 threads in guarded memory.

use std::collections::BTreeMap;

use tvm::dlight::schedule;
use tvm::prelude::*;
use tvm::target::Machine;
use tvm_testing::Rng;

use super::batch::{Summary, check_for};
use super::program::{Program, Values};
use super::{attention, choices, elements, indexed, products, reductions, windows};
use crate::native;

/// All types of the matrix.
const TYPES: [DataType; 5] = [DataType::F32, DataType::F64, DataType::F16, DataType::BF16, DataType::I8];

/// Programs of a rule with a type of its first operand.
const OF_PAIR: usize = 2;

/// Programs that are made for a row at most: chance makes enough of each pair sooner.
const MOST: usize = 400;

/// A rule, what makes programs for it, and for which types; the others do not occur.
type Row = (&'static str, &'static [fn(&mut Rng) -> Program], &'static [DataType]);

const ROWS: [Row; 11] = [
    // Of narrow floats, the products are scheduled one by one, as those of other narrow operands.
    ("attention", &[attention::of_heads], TYPES.split_at(2).0),
    // Softmax and norms are of floats.
    ("rows", &[reductions::norm, reductions::rows], TYPES.split_at(4).0),
    ("skinny product", &[products::few_rows], &TYPES),
    ("contraction", &[products::product], &TYPES),
    ("reduction", &[products::product, reductions::reduction], &TYPES),
    // The family has no convolutions of bytes; its pooling is of all types.
    ("window", &[windows::convolution, windows::pooling], &TYPES),
    ("flat product", &[windows::pointwise], TYPES.split_at(2).0),
    ("ordered", &[indexed::running, indexed::scatter], &TYPES),
    ("choice", &[choices::butterfly, choices::winograd], &TYPES),
    // Copies of narrow operands: bytes, and 16 bits where products of pairs are used, which no machine here has.
    ("words", &[products::product], TYPES.split_at(4).1),
    ("spatial", &[elements::chain, elements::motion, indexed::gather, indexed::sorted], &TYPES),
];

#[test]
fn every_rule_with_every_type() {
    let mut rng = Rng::new(41);
    let (mut table, mut failures) = (BTreeMap::new(), Vec::new());
    for (i, (rule, makes, types)) in ROWS.into_iter().enumerate() {
        let machine = Machine { vector_bits: [128, 256, 512][i % 3], ..Machine::baseline() };
        let mut found: BTreeMap<String, usize> = BTreeMap::new();
        let mut programs = Vec::new();
        let wanted = |found: &BTreeMap<String, usize>, dtype: &str| {
            let known = types.iter().any(|it| it.to_string() == dtype);
            known && found.get(dtype).is_none_or(|&count| count < OF_PAIR)
        };
        for _ in 0..MOST {
            if programs.len() == OF_PAIR * types.len() {
                break;
            }
            let mut program = (rng.pick(makes))(&mut rng);
            let first = program.func.params.first().and_then(|param| param.buffer()).map(|it| it.dtype);
            let dtype = first.map_or_else(String::new, |it| it.to_string());
            if !wanted(&found, &dtype) {
                continue;
            }
            let applied = schedule(&program.func, &machine).map_or(Vec::new(), |it| it.1);
            if applied.iter().all(|it| it.rule != rule) || program.expected().is_err() {
                continue;
            }
            let count = found.entry(dtype).or_default();
            if !matches!(program.values, Values::Plain) {
                program.values = [Values::Special(8), Values::Subnormal][*count];
            }
            *count += 1;
            programs.push(program);
        }
        for dtype in types {
            let count = found.get(&dtype.to_string()).copied().unwrap_or(0);
            if count < OF_PAIR {
                failures.push(format!("`{rule}` took {count} programs of {dtype}: {found:?}"));
            }
        }
        let targets = native::targets().pop().into_iter().collect();
        failures.extend(check_for(targets, &programs, &machine, 1, &mut Summary::default()));
        table.insert(rule, found);
    }
    println!("programs by rule and type: {table:#?}");
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n"));
}
