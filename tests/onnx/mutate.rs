//! Random damage: importing a model with damaged bytes must end in a module or an error.

use tvm_onnx::{ImportOptions, import};

/// A small random generator with the same damage in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n.max(1)
    }
}

/// A copy of `bytes` with one kind of damage.
fn damaged(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut res = bytes.to_vec();
    let at = random.below(res.len());
    match random.below(7) {
        0 => res[at] ^= 1 << random.below(8),
        1 => (0..8).for_each(|_| {
            let at = random.below(res.len());
            res[at] = random.below(256) as u8;
        }),
        2 => res.truncate(at),
        3 => drop(res.drain(at..(at + 1 + random.below(16)).min(res.len()))),
        4 => {
            let piece = res[at..(at + 1 + random.below(64)).min(res.len())].to_vec();
            res.splice(at..at, piece);
        }
        5 => drop(res.splice(at..at + 1, [0xff, 0xff, 0xff, 0xff, 0x7f])),
        _ => res[at..].iter_mut().take(8).for_each(|it| *it = 0xff),
    }
    res
}

fn survives(path: &str, n: usize) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let bytes = std::fs::read(file).unwrap();
    let options =
        ImportOptions { max_tensor_bytes: 64 << 20, max_total_bytes: 512 << 20, ..ImportOptions::default() };
    let mut random = Random(7);
    let (mut imported, mut refused) = (0, 0);
    for _ in 0..n {
        match import(&damaged(&bytes, &mut random)[..], None, &options) {
            Ok(_) => imported += 1,
            Err(err) => {
                assert!(err.to_string().len() < 100_000);
                refused += 1;
            }
        }
    }
    assert!(imported > 0 && refused > n / 10, "{imported} imported, {refused} refused");
}

#[test]
fn damaged_digits_models() {
    survives("examples/data/digits_cnn/model.onnx", 2000);
}

#[test]
fn damaged_structure() {
    survives("tests/data/light/light_squeezenet/model.onnx", 300);
}
