use tvm::prelude::*;

#[prim_func]
fn broken(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = unknown(x[[i]]);
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let program = broken::prim_func()?;
    println!("{program}");
    let f = broken::compile(&Target::host())?;
    f.call(&[1.0f32], &mut [0.0f32])?;
    broken(&[1.0f32], &mut [0.0f32])?;
    Ok(())
}
