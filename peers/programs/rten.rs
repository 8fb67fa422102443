//! ONNX models in rten, weights packed when the model is loaded. `RTEN_NUM_THREADS` is the number of threads.

mod protocol;

use protocol::{Case, Outcome, inputs, serve};
use rten::{Model, ModelOptions, NodeId, Value};
use rten_tensor::Tensor;
use rten_tensor::prelude::*;

struct Loaded {
    model: Model,
    inputs: Vec<(NodeId, Value)>,
    result: Option<Vec<Value>>,
}

impl Case for Loaded {
    fn run(&mut self) -> Outcome<()> {
        let inputs = self.inputs.iter().map(|(node, value)| (*node, value.into())).collect();
        self.result = Some(self.model.run(inputs, self.model.output_ids(), None)?);
        Ok(())
    }

    fn output(&mut self) -> Outcome<Vec<f32>> {
        let value = self.result.as_ref().and_then(|it| it.first()).ok_or("no result")?.clone();
        let tensor: Tensor<f32> = value.try_into().map_err(|_| "the result is not f32")?;
        Ok(tensor.to_vec())
    }
}

fn main() {
    serve(|case| {
        let mut options = ModelOptions::with_all_ops();
        options.prepack_weights(true);
        let model = options.load_file(case["onnx"].as_str().ok_or("unsupported")?)?;
        let node = |input: protocol::Input| -> Outcome<(NodeId, Value)> {
            let value: Value = match input.integers {
                // It computes integers in 32 bits.
                Some(integers) => {
                    let integers: Vec<i32> = integers.into_iter().map(i32::try_from).collect::<Result<_, _>>()?;
                    Tensor::from_data(&input.shape, integers).into()
                }
                None => Tensor::from_data(&input.shape, input.values).into(),
            };
            Ok((model.node_id(&input.name)?, value))
        };
        let inputs = inputs(case)?.into_iter().map(node).collect::<Outcome<Vec<_>>>()?;
        Ok(Box::new(Loaded { model, inputs, result: None }))
    });
}
