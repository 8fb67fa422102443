//! Printed programs.

use expect_test::expect;

use crate::ir::structural::sample::matmul;

#[test]
fn a_matrix_product() {
    expect![[r##"
        #[prim_func]
        fn matmul(a: &Tensor<f32, m, k>, b: &Tensor<f32, k, n>, c: &mut Tensor<f32, m, n>) {
            for [i, j, p] in grid([m, n, k]) {
                block("C", [S(i), S(j), R(p)], |[vi, vj, vk]| {
                    init(|| c[[vi, vj]] = 0.0);
                    c[[vi, vj]] += a[[vi, vk]] * b[[vk, vj]];
                });
            }
        }"##]]
    .assert_eq(&matmul().to_string());
}
