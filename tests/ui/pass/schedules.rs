use tvm::prelude::*;

#[prim_func]
fn fill(y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = 1.0;
    }
}

#[schedule(fill)]
fn tiled(s: &mut Schedule) -> Result<(), ScheduleError> {
    let y = s.block("y")?;
    let [i] = s.loops(y)?;
    let [outer, _] = s.split(i, [None, Some(4)])?;
    s.parallel(outer)
}

#[test]
fn main() {
    let func = tiled::apply(fill::prim_func().unwrap()).unwrap();
    tiled(&mut Schedule::new(func).unwrap()).unwrap_err();
    let mut y = [0.0f32; 6];
    tiled::compile(&Target::native(tvm::target::TargetKind::Interpreter)).unwrap().call(&mut y).unwrap();
    assert_eq!(y, [1.0; 6]);
}
