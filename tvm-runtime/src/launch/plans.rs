//! The plans of the last calls of a program: calls with the same shapes and scalars have the same plan.

use std::sync::{Arc, Mutex, PoisonError};

use super::{LaunchArg, LaunchError, LaunchPlan};
use crate::dtype::DataType;
use crate::tensor::Shape;

/// How many plans are kept.
const MOST: usize = 8;

/// A [`LaunchArg`] that owns its shape.
enum Key {
    Tensor(Shape, DataType),
    Int(i64),
    /// The bits of a float.
    Float(u64),
}

impl Key {
    fn new(arg: &LaunchArg<'_>) -> Key {
        match *arg {
            LaunchArg::Tensor { shape, dtype } => Key::Tensor(shape.into(), dtype),
            LaunchArg::Int(value) => Key::Int(value),
            LaunchArg::Float(value) => Key::Float(value.to_bits()),
        }
    }

    fn is(&self, arg: &LaunchArg<'_>) -> bool {
        match (self, *arg) {
            (Key::Tensor(own, own_dtype), LaunchArg::Tensor { shape, dtype }) => {
                own.as_slice() == shape && *own_dtype == dtype
            }
            (Key::Int(own), LaunchArg::Int(value)) => *own == value,
            (Key::Float(own), LaunchArg::Float(value)) => *own == value.to_bits(),
            _ => false,
        }
    }
}

type Entry = (Box<[Key]>, Arc<LaunchPlan>);

/// Plans, the last one that was used at the end.
#[derive(Default)]
pub(super) struct Plans(Mutex<Vec<Entry>>);

impl Plans {
    /// The plan of a call with these arguments, which `plan` makes if it is not here.
    pub(super) fn get(
        &self,
        args: &[LaunchArg<'_>],
        plan: impl FnOnce(&[LaunchArg<'_>]) -> Result<LaunchPlan, LaunchError>,
    ) -> Result<Arc<LaunchPlan>, LaunchError> {
        let is =
            |keys: &[Key]| keys.len() == args.len() && keys.iter().zip(args).all(|(key, arg)| key.is(arg));
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = plans.iter().rposition(|(keys, _)| is(keys)) {
            let last = plans.len() - 1;
            plans[at..].rotate_left(usize::from(at < last));
            return Ok(plans[last].1.clone());
        }
        drop(plans);
        // Other calls go on meanwhile; at worst, two of them make the same plan.
        let made = Arc::new(plan(args)?);
        let mut plans = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.len() == MOST {
            plans.remove(0);
        }
        plans.push((args.iter().map(Key::new).collect(), made.clone()));
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn calls_with_the_same_arguments_have_one_plan() {
        let (plans, made) = (Plans::default(), Cell::new(0));
        let get = |shape: &[i64], dtype, s: f64, n: i64| {
            let args = [LaunchArg::Tensor { shape, dtype }, LaunchArg::Float(s), LaunchArg::Int(n)];
            let plan = |args: &[LaunchArg<'_>]| {
                made.set(made.get() + 1);
                let &[LaunchArg::Tensor { shape, .. }, ..] = args else {
                    return Err(LaunchError::Refused("no tensor".into()));
                };
                let bytes = shape.iter().map(|it| *it as u64).collect();
                Ok(LaunchPlan { memories: bytes, steps: vec![] })
            };
            let got = plans.get(&args, plan).unwrap();
            assert!(got.memories.iter().zip(shape).all(|(a, b)| *a == *b as u64));
            made.get()
        };
        let f32 = DataType::F32;
        assert_eq!(get(&[2, 3], f32, 0.0, 1), 1);
        assert_eq!(get(&[2, 3], f32, 0.0, 1), 1);
        for (i, made) in [
            get(&[3, 2], f32, 0.0, 1),
            get(&[2], f32, 0.0, 1),
            get(&[2, 3], DataType::I32, 0.0, 1),
            get(&[2, 3], f32, -0.0, 1),
            get(&[2, 3], f32, 0.0, 2),
        ]
        .into_iter()
        .enumerate()
        {
            assert_eq!(made, 2 + i);
        }
        // What was used last stays.
        assert_eq!(get(&[2, 3], f32, 0.0, 1), 6);
        for n in 0..MOST as i64 - 1 {
            get(&[9], f32, 0.0, n);
        }
        let before = made.get();
        assert_eq!(get(&[2, 3], f32, 0.0, 1), before);
        assert_eq!(get(&[3, 2], f32, 0.0, 1), before + 1);
        let refused = plans.get(&[], |_| Err(LaunchError::Refused("never".into())));
        assert_eq!(refused.unwrap_err(), LaunchError::Refused("never".into()));
    }
}
