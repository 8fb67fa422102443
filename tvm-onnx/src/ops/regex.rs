//! Patterns of strings: `RegexFullMatch`, by the table of an automaton that one loop over the bytes walks for all strings at
//! once.

use regex_automata::dfa::{Automaton, dense};
use regex_automata::util::primitives::StateID;
use regex_automata::{Anchored, util::start};
use rustc_hash::FxHashMap;
use tvm_runtime::{DataType, Tensor};

use super::strings::by_byte;
use super::{Row, With, one, row};
use crate::error::OnnxError;
use crate::iterate::{Loop, Step, iterate, row_at};
use crate::names::show;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[row("RegexFullMatch", 20, With(full_match))];

type Result<T> = std::result::Result<T, OnnxError>;

/// Largest size of the automaton of a pattern, in bytes.
const MAX_AUTOMATON: usize = 4 << 20;

/// The pattern with the classes of letters, digits and blanks as RE2 defines them, which the standard refers to: within ASCII.
fn ascii_classes(pattern: &str) -> String {
    let mut res = String::new();
    let mut rest = pattern.chars();
    while let Some(c) = rest.next() {
        let Some(escaped) = (c == '\\').then(|| rest.next()).flatten() else {
            res.push(c);
            continue;
        };
        match escaped {
            'w' => res += "[0-9A-Za-z_]",
            'W' => res += "[^0-9A-Za-z_]",
            'd' => res += "[0-9]",
            'D' => res += "[^0-9]",
            's' => res += r"[\t\n\f\r ]",
            'S' => res += r"[^\t\n\f\r ]",
            'b' | 'B' => res += &format!(r"(?-u:\{escaped})"),
            other => res.extend(['\\', other]),
        }
    }
    res
}

/// The transitions of an automaton, state by state, with 256 entries each; which states accept; the first state is 0.
fn automaton(node: &Node<'_, '_>, pattern: &str) -> Result<(Vec<i64>, Vec<bool>)> {
    let unsupported = |err: &dyn std::fmt::Display| {
        node.unsupported(format!("the pattern `{}`: {}", show(pattern), show(&err.to_string())))
    };
    let config = dense::Config::new()
        .start_kind(regex_automata::dfa::StartKind::Anchored)
        .dfa_size_limit(Some(MAX_AUTOMATON))
        .determinize_size_limit(Some(4 * MAX_AUTOMATON));
    let dfa = dense::Builder::new()
        .configure(config)
        .build(&format!(r"\A(?:{})\z", ascii_classes(pattern)))
        .map_err(|err| unsupported(&err))?;
    let start =
        dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).map_err(|err| unsupported(&err))?;
    let (mut numbers, mut states) = (FxHashMap::<StateID, i64>::default(), vec![start]);
    numbers.insert(start, 0);
    let (mut next, mut accepts, mut at) = (Vec::new(), Vec::new(), 0);
    while at < states.len() {
        let state = states[at];
        for byte in 0..=u8::MAX {
            let to = dfa.next_state(state, byte);
            let number = *numbers.entry(to).or_insert_with(|| {
                states.push(to);
                states.len() as i64 - 1
            });
            next.push(number);
        }
        accepts.push(dfa.is_match_state(dfa.next_eoi_state(state)));
        at += 1;
    }
    Ok((next, accepts))
}

/// Whether the pattern matches whole strings.
fn full_match(node: &mut Node<'_, '_>) -> Result<Vec<Value>> {
    let pattern = node.str_or("pattern", "")?;
    let (next, accepts) = automaton(node, pattern)?;
    let (bytes, shape) = by_byte(node)?;
    let size = next.len() as i64;
    let next = node.constant(Tensor::from_vec(next, &[size])?)?;
    let states = accepts.len() as i64;
    let accepts = node.constant(Tensor::from_vec(accepts, &[states])?)?;
    let (width, count) = (node.extent(&bytes, 0)?, node.extent(&bytes, 1)?);
    let begin = node.full(&[count], 0.0, DataType::I64)?;
    let it = Loop { trip: Some(width), cond: None, carried: vec![begin], reversed: Vec::new() };
    let finished = iterate(node, it, &mut |node, at, _, carried| {
        let byte = row_at(node, &bytes, at.clone())?;
        let place = node.with("multiply", &carried[0], 256.0)?;
        let place = node.apply("add", &place, &byte)?;
        let state = node.take(&next, &place, 0)?;
        let inside = node.with("not_equal", &byte, 0.0)?;
        let state = node.choice(&inside, &state, &carried[0])?;
        Ok(Step { cond: None, carried: vec![state], rows: Vec::new() })
    })?;
    let res = node.take(&accepts, &finished.carried[0], 0)?;
    one(node.reshape(&res, &shape))
}
