use tvm::prelude::*;

mod kernels {
    use tvm::prelude::*;

    const SHIFT: f32 = 1.0;

    /// Adds a constant.
    #[prim_func]
    pub(crate) fn shift<const N: usize>(x: &Tensor<f32, N>, y: &mut Tensor<f32, N>) {
        for i in 0..N {
            y[[i]] = x[[i]] + SHIFT + self::more::EXTRA;
        }
    }

    mod more {
        pub(super) const EXTRA: f32 = 0.5;
    }
}

#[test]
fn main() {
    use tvm::script::PrimFuncDef;
    let mut y = [0.0f32; 2];
    kernels::shift::<2>::reference(&[1.0f32, 2.0], &mut y).unwrap();
    assert_eq!(y, [2.5, 3.5]);
    assert_eq!(<kernels::shift<2> as PrimFuncDef>::SIG.params.len(), 2);
    fn module_of<P: PrimFuncDef>() -> Result<IRModule, IrError> {
        P::module()
    }
    assert_eq!(module_of::<kernels::shift<3>>().unwrap().len(), 1);
}
