use tvm::prelude::*;

#[relax::func(name = "main.0", impure, attrs(opt_level = 3, "a.b" = [1, -2]))]
fn cells(x: Tensor<f32, 2>) -> Tensor<f32, 2> {
    let cell = ref_create(x + constant::<f32, 2>([1.0, -0.0]));
    ref_write(cell, bind(x));
    ref_read(cell)
}

#[relay::adt]
enum List<A> {
    Nil,
    Cons(A, Box<List<A>>),
}

#[relay::func]
fn map<A, B>(f: fn(A) -> B, l: List<A>) -> List<B> {
    match l {
        List::Nil => List::<B>::Nil,
        List::Cons(h, t) => List::Cons(f(h), map(f, *t)),
    }
}

#[relax::func]
fn locals(x: Tensor<f32, n>, on: bool, k: i64) -> Tensor<f32, n> {
    let twice = |v: Tensor<f32, m>| -> Tensor<f32, m> { v + v };
    let y: TensorDyn<f32> = twice(x);
    let z = match_cast(y, Tensor::<f32, m>);
    let flat = reshape(z, shape([min(m, 2) * max(m / 2, 1), k]));
    let unused = call_op("nn.relu", flat);
    if prim(on && n < 4) { x } else { twice(x) }
}

#[test]
fn main() {
    let module = cells::module().unwrap();
    assert!(module.lookup("main.0").is_some());
    map::module().unwrap();
    locals::module().unwrap();
}
