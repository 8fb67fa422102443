use tvm::prelude::*;

#[prim_func]
fn scale(x: &Tensor<f32, n>, s: f32, y: &mut Tensor<f32, n>) {
    for i in 0..n {
        y[[i]] = x[[i]] * s;
    }
}

mod inner {
    use super::*;

    #[prim_helper]
    pub fn square<T: Element>(x: T) -> T {
        x * x
    }

    #[prim_func]
    pub fn squares<T: Element>(x: &Tensor<T, n>, y: &mut Tensor<T, n>) {
        for i in 0..n {
            y[[i]] = square(x[[i]]);
        }
    }
}

use inner::square as sq;

#[prim_func]
fn caller(x: &Tensor<f32, n>, y: &mut Tensor<f32, n>) {
    let mut t = alloc::<f32>([n]);
    scale(x, 2.0, &mut t);
    scale(&t, sq(x[[0]]) + 1.0, y);
    inner::squares::<f32>(&y, &mut t);
    if n > 3 {
        scale(
            &t,
            {
                let a = 1.0;
                let b = a + 1.0;
                b * a
            },
            &mut y,
        )
    }
    for i in 0..n {
        let last = if i + 1 < n {
            let next = i + 1;
            next
        } else {
            0
        };
        y[[i]] += inner::square(t[[last]]);
    }
}

#[test]
fn main() {
    caller::prim_func().unwrap();
    assert_eq!(sq(3), 9);
}
