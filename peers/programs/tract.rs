//! ONNX models in tract, for the shapes of their inputs.

mod protocol;

use std::sync::Arc;

use protocol::{Case, Outcome, inputs, serve, threads};
use tract_onnx::prelude::*;
use tract_onnx::tract_core::tract_linalg::multithread::{Executor, set_default_executor};

struct Loaded {
    plan: Arc<TypedRunnableModel>,
    inputs: TVec<TValue>,
    result: Option<TVec<TValue>>,
}

impl Case for Loaded {
    fn run(&mut self) -> Outcome<()> {
        self.result = Some(self.plan.run(self.inputs.clone())?);
        Ok(())
    }

    fn output(&mut self) -> Outcome<Vec<f32>> {
        let value = self.result.as_ref().and_then(|it| it.first()).ok_or("no result")?;
        Ok(value.to_plain_array_view::<f32>()?.iter().copied().collect())
    }
}

fn main() {
    if threads() > 1 {
        set_default_executor(Executor::multithread(threads()));
    }
    serve(|case| {
        let mut model = tract_onnx::onnx().model_for_path(case["onnx"].as_str().ok_or("unsupported")?)?;
        let mut values = TVec::new();
        for (at, input) in inputs(case)?.into_iter().enumerate() {
            let value = match input.integers {
                Some(integers) => Tensor::from_shape(&input.shape, &integers)?,
                None => Tensor::from_shape(&input.shape, &input.values)?,
            };
            model = model.with_input_fact(at, InferenceFact::dt_shape(value.datum_type(), value.shape()))?;
            values.push(value.into());
        }
        let plan = model.into_optimized()?.into_runnable()?;
        Ok(Box::new(Loaded { plan, inputs: values, result: None }))
    });
}
