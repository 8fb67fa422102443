use tvm::prelude::*;

#[ir_module]
pub mod net {
    use tvm::prelude::*;

    #[prim_func]
    pub fn double(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
        for i in 0..n {
            y[[i]] = x[[i]] * 2.0;
        }
    }

    #[relay::adt]
    pub enum Maybe {
        Nothing,
        Just(Tensor<f32, 3>),
    }

    #[relax::func]
    pub fn quadruple(x: Tensor<f32, n>) -> Tensor<f32, n> {
        let y = dataflow(|| call_tir(double, (x,)));
        call_tir(double, y)
    }

    #[relay::func]
    pub fn or_zero(it: Maybe) -> Tensor<f32, 3> {
        match it {
            Maybe::Just(x) => quadruple(x),
            Maybe::Nothing => zeros([3], f32),
        }
    }
}

#[test]
fn main() {
    let module = net::module().unwrap();
    assert_eq!(module.functions().count(), 3);
    net::or_zero::module().unwrap();
}
