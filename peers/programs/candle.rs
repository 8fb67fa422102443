//! Products in candle.

mod protocol;

use candle_core::{Device, Tensor};
use protocol::{Case, Outcome, inputs, product, serve};

struct Product {
    a: Tensor,
    b: Tensor,
    result: Option<Tensor>,
}

impl Case for Product {
    fn run(&mut self) -> Outcome<()> {
        self.result = Some(self.a.matmul(&self.b)?);
        Ok(())
    }

    fn output(&mut self) -> Outcome<Vec<f32>> {
        Ok(self.result.as_ref().ok_or("no result")?.flatten_all()?.to_vec1()?)
    }
}

fn main() {
    serve(|case| {
        product(case)?;
        let mut tensors = Vec::new();
        for input in inputs(case)? {
            tensors.push(Tensor::from_vec(input.values, input.shape, &Device::Cpu)?);
        }
        let (Some(b), Some(a)) = (tensors.pop(), tensors.pop()) else { return Err("no inputs".into()) };
        Ok(Box::new(Product { a, b, result: None }))
    });
}
