//! Pooling against its definition, and resizing.

use tvm_core::ir::Attrs;

use crate::support::{Nd, Rng, call1, indices, ints, shape, try_call};

#[test]
fn random_pools() {
    let mut rng = Rng::new(1);
    for round in 0..80 {
        let d = 1 + round % 3;
        let mut pick = |low, high| (0..d).map(|_| rng.int(low, high)).collect::<Vec<i64>>();
        let (window, strides, dilation) = (pick(1, 4), pick(1, 4), pick(1, 3));
        let reach: Vec<i64> = (0..d).map(|k| (window[k] - 1) * dilation[k] + 1).collect();
        let pads: Vec<i64> = (0..2 * d).map(|k| rng.int(0, reach[k % d].min(3))).collect();
        let mut dims = vec![2, 2];
        dims.extend((0..d).map(|k| reach[k] + rng.int(0, 4)));
        let (ceil, include) = (rng.int(0, 2) == 1, rng.int(0, 2) == 1);
        let mut out = vec![2, 2];
        for k in 0..d {
            let room = dims[2 + k] + pads[k] + pads[d + k] - reach[k];
            let mut n = room / strides[k] + 1;
            // One more window that starts inside of the tensor or the padding in front.
            if ceil && room % strides[k] != 0 && n * strides[k] < dims[2 + k] + pads[k] {
                n += 1;
            }
            out.push(n);
        }
        let x = Nd::random(&mut rng, &dims);
        let windows = |i: &[i64]| {
            let (mut inside, mut counted) = (Vec::new(), 0);
            for j in indices(&window) {
                let at: Vec<i64> =
                    (0..d).map(|k| i[2 + k] * strides[k] + j[k] * dilation[k] - pads[k]).collect();
                counted += i64::from((0..d).all(|k| at[k] < dims[2 + k] + pads[d + k]));
                if (0..d).all(|k| (0..dims[2 + k]).contains(&at[k])) {
                    inside.push(x.at(&[&i[..2], &at[..]].concat()));
                }
            }
            (inside, counted)
        };
        let attrs = Attrs::new()
            .with("pool_size", ints(&window))
            .with("strides", ints(&strides))
            .with("padding", ints(&pads))
            .with("dilation", ints(&dilation))
            .with("ceil_mode", ceil);
        let want = Nd::build(&out, |i| windows(i).0.into_iter().fold(f32::NEG_INFINITY, f32::max));
        let got = call1(&format!("nn.max_pool{d}d"), [x.arg()], attrs.clone());
        want.assert_is(&format!("max, round {round}"), &got);
        let want = Nd::build(&out, |i| {
            let (inside, counted) = windows(i);
            let count = if include { counted } else { inside.len() as i64 };
            inside.iter().sum::<f32>() / count.max(1) as f32
        });
        let got = call1(&format!("nn.avg_pool{d}d"), [x.arg()], attrs.with("count_include_pad", include));
        want.assert_is(&format!("avg, round {round}"), &got);
    }
}

#[test]
fn adaptive() {
    let mut rng = Rng::new(2);
    let cases: [(&[i64], &[i64]); 6] = [
        (&[6, 9], &[1, 1]),
        (&[6, 9], &[3, 3]),
        (&[7, 5], &[3, 2]),
        (&[3, 4], &[5, 4]),
        (&[7], &[3]),
        (&[4, 5, 3], &[2, 3, 1]),
    ];
    for (dims, out) in cases {
        let d = dims.len();
        let x = Nd::random(&mut rng, &[&[2, 3], dims].concat());
        let range = |i: i64, k: usize| i * dims[k] / out[k]..((i + 1) * dims[k] + out[k] - 1) / out[k];
        let want = Nd::build(&[&[2, 3], out].concat(), |i| {
            let inside: Vec<f32> = indices(dims)
                .iter()
                .filter(|at| (0..d).all(|k| range(i[2 + k], k).contains(&at[k])))
                .map(|at| x.at(&[&i[..2], &at[..]].concat()))
                .collect();
            inside.iter().sum::<f32>() / inside.len() as f32
        });
        let attrs = Attrs::new().with("output_size", ints(out));
        let got = call1(&format!("nn.adaptive_avg_pool{d}d"), [x.arg()], attrs);
        want.assert_is(&format!("{dims:?} to {out:?}"), &got);
    }
}

#[test]
fn resize2d() {
    let x = Nd::random(&mut Rng::new(3), &[1, 2, 3, 4]);
    let (h, w) = (7, 5);
    type Position = fn(f32, f32, f32) -> f32;
    let modes: &[(&str, Position)] = &[
        ("half_pixel", |i, n, m| (i + 0.5) * n / m - 0.5),
        ("asymmetric", |i, n, m| i * n / m),
        ("align_corners", |i, n, m| i * (n - 1.0) / (m - 1.0)),
    ];
    for (mode, position) in modes {
        let at = |i: &[i64]| (position(i[2] as f32, 3.0, h as f32), position(i[3] as f32, 4.0, w as f32));
        let pixel =
            |i: &[i64], y: f32, z: f32| x.at(&[i[0], i[1], (y as i64).clamp(0, 2), (z as i64).clamp(0, 3)]);
        let attrs = Attrs::new().with("coordinate_transformation_mode", *mode);
        let want = Nd::build(&[1, 2, h, w], |i| {
            let (y, z) = at(i);
            let (fy, fz) = (y - y.floor(), z - z.floor());
            let row = |dy: f32| {
                let y = y.floor() + dy;
                pixel(i, y, z.floor()) * (1.0 - fz) + pixel(i, y, z.floor() + 1.0) * fz
            };
            row(0.0) * (1.0 - fy) + row(1.0) * fy
        });
        want.assert_is(mode, &call1("image.resize2d", [x.arg(), shape(&[h, w])], attrs.clone()));
        // Channels last, and in blocks.
        let last = |x: &Nd| Nd::build(&[1, x.shape[2], x.shape[3], 2], |i| x.at(&[0, i[3], i[1], i[2]]));
        let blocks = |x: &Nd| Nd::build(&[1, 1, x.shape[2], x.shape[3], 2], |i| x.at(&[0, i[4], i[2], i[3]]));
        for (layout, x, want) in [("NHWC", last(&x), last(&want)), ("NCHW2c", blocks(&x), blocks(&want))] {
            let attrs = attrs.clone().with("layout", layout);
            want.assert_is(layout, &call1("image.resize2d", [x.arg(), shape(&[h, w])], attrs));
        }
        let want = Nd::build(&[1, 2, h, w], |i| {
            let (y, z) = at(i);
            pixel(i, y.floor(), z.floor())
        });
        let attrs = attrs.with("method", "nearest_neighbor").with("rounding_method", "floor");
        want.assert_is(mode, &call1("image.resize2d", [x.arg(), shape(&[h, w])], attrs));
    }
    let divided = Attrs::new().with("layout", "NCHW2h");
    let err = try_call("image.resize2d", [x.arg(), shape(&[h, w])], divided).unwrap_err().to_string();
    assert!(err.contains("axis `H` of `NCHW2h` is not divided here"), "{err}");
}
