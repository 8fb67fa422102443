//! Products of the crates `gemm`, `faer` and `matrixmultiply`: `w_blas gemm | faer | matrixmultiply`.

mod protocol;

use protocol::{Case, Outcome, inputs, product, serve, threads};

struct Product {
    engine: String,
    extents: (usize, usize, usize),
    a: Vec<f32>,
    b: Vec<f32>,
    c: Vec<f32>,
}

impl Case for Product {
    fn run(&mut self) -> Outcome<()> {
        let (m, n, k) = self.extents;
        let count = threads();
        match self.engine.as_str() {
            "gemm" => {
                let parallel =
                    if count > 1 { gemm::Parallelism::Rayon(count) } else { gemm::Parallelism::None };
                let (a, b, c) = (self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
                let [rows, depth] = [n as isize, k as isize];
                // SAFETY: the slices hold m·k, k·n and m·n values, row by row; `load` checked it.
                unsafe {
                    gemm::gemm(
                        m, n, k, c, 1, rows, false, a, 1, depth, b, 1, rows, 0f32, 1f32, false, false, false,
                        parallel,
                    );
                }
            }
            "faer" => faer::linalg::matmul::matmul(
                faer::MatMut::from_row_major_slice_mut(&mut self.c, m, n),
                faer::Accum::Replace,
                faer::MatRef::from_row_major_slice(&self.a, m, k),
                faer::MatRef::from_row_major_slice(&self.b, k, n),
                1f32,
                if count > 1 { faer::Par::rayon(count) } else { faer::Par::Seq },
            ),
            "matrixmultiply" => {
                let (a, b, c) = (self.a.as_ptr(), self.b.as_ptr(), self.c.as_mut_ptr());
                let [rows, depth] = [n as isize, k as isize];
                // SAFETY: as above.
                unsafe { matrixmultiply::sgemm(m, k, n, 1.0, a, depth, 1, b, rows, 1, 0.0, c, rows, 1) }
            }
            other => return Err(format!("unknown engine {other}").into()),
        }
        Ok(())
    }

    fn output(&mut self) -> Outcome<Vec<f32>> {
        Ok(self.c.clone())
    }
}

fn main() {
    let engine = std::env::args().nth(1).unwrap_or_else(|| "gemm".to_string());
    serve(|case| {
        let extents @ (m, n, k) = product(case)?;
        let mut values = inputs(case)?.into_iter().map(|it| it.values);
        let (Some(a), Some(b)) = (values.next(), values.next()) else { return Err("no inputs".into()) };
        if a.len() != m * k || b.len() != k * n {
            return Err("inputs of the wrong size".into());
        }
        Ok(Box::new(Product { engine: engine.clone(), extents, a, b, c: vec![0.0; m * n] }))
    });
}
