//! What the machine can do: multiply-adds in registers, reading memory, copying it. It speaks the protocol of the workers; its
//! cases are `{"test":T}` with `fma`, `dot_bf16` or `dot_int8`, and `{"test":T,"bytes":N}` with `read` or `copy`. A time is that of one pass, or
//! of 10⁹ operations.

mod protocol;

use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

use protocol::{Case, Outcome, serve, threads};
use serde_json::Value;

/// Independent chains of multiply-adds.
const CHAINS: usize = 14;

/// The loops for one width of vectors.
#[cfg(any(target_feature = "avx512f", all(target_feature = "avx2", target_feature = "fma")))]
macro_rules! loops {
    ($lanes:literal, $features:literal, $set:ident, $fma:ident, $add:ident, $load:ident) => {
        const LANES: usize = $lanes;

        /// Multiply-adds that do not wait for each other; two operations a lane.
        #[target_feature(enable = $features)]
        fn fma_loop(count: usize) {
            use std::arch::x86_64::{$fma, $set};
            let (x, y) = ($set(black_box(0.5)), $set(black_box(0.25)));
            let mut sums = [$set(0.0); CHAINS];
            for _ in 0..count {
                for sum in &mut sums {
                    *sum = $fma(x, y, *sum);
                }
            }
            black_box(sums);
        }

        /// Reads `STREAMS` parts at once, in lines of two vectors.
        #[target_feature(enable = $features)]
        fn read_loop<const STREAMS: usize>(data: &[f32]) {
            use std::arch::x86_64::{$add, $load, $set};
            const LINE: usize = 2 * LANES;
            let mut sums = [[$set(0.0); 2]; STREAMS];
            let lines = data.as_chunks::<LINE>().0;
            let part = lines.len() / STREAMS;
            for i in 0..part {
                for (stream, sums) in sums.iter_mut().enumerate() {
                    let line = &lines[stream * part + i];
                    // SAFETY: the line holds two vectors.
                    let [low, high] = unsafe { [$load(line.as_ptr()), $load(line.as_ptr().add(LANES))] };
                    *sums = [$add(sums[0], low), $add(sums[1], high)];
                }
            }
            black_box(sums);
        }

        fn fma(count: usize) {
            // SAFETY: this program is built for the processor that it runs on, which has the instructions.
            unsafe { fma_loop(count) }
        }

        fn read(data: &[f32], streams: usize) {
            // SAFETY: as above.
            unsafe { if streams == 1 { read_loop::<1>(data) } else { read_loop::<4>(data) } }
        }
    };
}

#[cfg(target_feature = "avx512f")]
loops!(16, "avx512f", _mm512_set1_ps, _mm512_fmadd_ps, _mm512_add_ps, _mm512_loadu_ps);
#[cfg(all(target_feature = "avx2", target_feature = "fma", not(target_feature = "avx512f")))]
loops!(8, "avx2,fma", _mm256_set1_ps, _mm256_fmadd_ps, _mm256_add_ps, _mm256_loadu_ps);
#[cfg(not(any(target_feature = "avx512f", all(target_feature = "avx2", target_feature = "fma"))))]
use plain::{LANES, fma, read};

/// The loops for other processors; the compiler finds the vectors.
#[cfg(not(any(target_feature = "avx512f", all(target_feature = "avx2", target_feature = "fma"))))]
mod plain {
    use super::{CHAINS, black_box};

    pub const LANES: usize = 4;

    pub fn fma(count: usize) {
        let (x, y) = (black_box([0.5f32; LANES]), black_box([0.25f32; LANES]));
        let mut sums = [[0f32; LANES]; CHAINS];
        for _ in 0..count {
            for sum in &mut sums {
                for i in 0..LANES {
                    sum[i] = x[i].mul_add(y[i], sum[i]);
                }
            }
        }
        black_box(sums);
    }

    pub fn read(data: &[f32], _streams: usize) {
        let mut sums = [[0f32; LANES]; 8];
        for chunk in data.as_chunks::<{ 8 * LANES }>().0 {
            for (i, sum) in sums.iter_mut().enumerate() {
                for j in 0..LANES {
                    sum[j] += chunk[i * LANES + j];
                }
            }
        }
        black_box(sums);
    }
}

/// Repeats independent chains of an instruction that adds products of narrow numbers, and the operations of one of them.
type Dot = (fn(usize), usize);

/// `None` where the processor has no such instruction.
fn dot(test: &str) -> Option<Dot> {
    match test {
        #[cfg(all(target_feature = "avx512f", target_feature = "avx512bf16"))]
        "dot_bf16" => Some((x86_dot::bf16, 64)),
        #[cfg(all(target_feature = "avx512f", target_feature = "avx512vnni"))]
        "dot_int8" => Some((x86_dot::int8, 128)),
        _ => None,
    }
}

/// The instructions of x86.
#[cfg(target_feature = "avx512f")]
mod x86_dot {
    /// A function that repeats the instruction `$step` on registers.
    #[allow(unused_macros)]
    macro_rules! dot {
        ($name:ident, $features:literal, $zero:ident, $step:ident, $operand:expr) => {
            pub fn $name(count: usize) {
                #[target_feature(enable = $features)]
                fn repeat(count: usize) {
                    use std::arch::x86_64::*;
                    use std::hint::black_box;
                    let (x, y) = (black_box($operand), black_box($operand));
                    let mut sums = [$zero(); crate::CHAINS];
                    for _ in 0..count {
                        for sum in &mut sums {
                            *sum = $step(*sum, x, y);
                        }
                    }
                    black_box(sums);
                }
                // SAFETY: this program is built for the processor that it runs on, which has the instructions.
                unsafe { repeat(count) }
            }
        };
    }

    #[cfg(target_feature = "avx512bf16")]
    dot!(
        bf16,
        "avx512f,avx512bf16",
        _mm512_setzero_ps,
        _mm512_dpbf16_ps,
        _mm512_cvtne2ps_pbh(_mm512_set1_ps(0.5), _mm512_set1_ps(0.5))
    );
    #[cfg(target_feature = "avx512vnni")]
    dot!(int8, "avx512f,avx512vnni", _mm512_setzero_si512, _mm512_dpbusd_epi32, _mm512_set1_epi8(1));
}

/// One thread's part of a test.
enum Part {
    Fma,
    Dot(Dot),
    Read(Vec<f32>),
    Copy(Vec<f32>, Vec<f32>),
}

impl Part {
    fn pass(&mut self, count: usize, streams: usize) {
        match self {
            Part::Fma => fma(1_000_000_000 / (2 * LANES * CHAINS) / count),
            Part::Dot((run, operations)) => run(1_000_000_000 / (*operations * CHAINS) / count),
            Part::Read(data) => read(black_box(data), streams),
            Part::Copy(from, to) => black_box(to).copy_from_slice(black_box(from)),
        }
    }
}

/// Memory in large pages, where the system gives them to those who ask, as the memory of tensors is.
fn memory(len: usize, value: f32) -> Vec<f32> {
    let mut data = Vec::with_capacity(len);
    #[cfg(target_os = "linux")]
    {
        use rustix::mm::{Advice, madvise};
        let (start, page) = (data.as_mut_ptr() as *mut u8, rustix::param::page_size());
        let inside = start.addr().wrapping_neg() % page;
        if let Some(bytes) = (len * size_of::<f32>()).checked_sub(inside) {
            // SAFETY: the range is part of the memory of `data`, and the advice changes no contents.
            let _ = unsafe { madvise(start.add(inside).cast(), bytes, Advice::LinuxHugepage) };
        }
    }
    data.resize(len, value);
    data
}

struct Test {
    parts: Vec<Part>,
}

impl Test {
    fn new(case: &Value) -> Outcome<Self> {
        let count = threads();
        let floats = case["bytes"].as_u64().unwrap_or(0) as usize / 4 / count;
        let part = || match case["test"].as_str() {
            Some("fma") => Ok(Part::Fma),
            Some("read") => Ok(Part::Read(memory(floats, 1.0))),
            Some("copy") => Ok(Part::Copy(memory(floats / 2, 1.0), memory(floats / 2, 2.0))),
            Some(test) => dot(test).map(Part::Dot).ok_or("unsupported"),
            None => Err("unsupported"),
        };
        let parts = (0..count).map(|_| part()).collect::<Result<_, _>>()?;
        let mut test = Self { parts };
        test.passes(1, 1);
        Ok(test)
    }

    /// Seconds that `passes` passes take, from the moment when all threads have started.
    fn passes(&mut self, passes: usize, streams: usize) -> f64 {
        let count = self.parts.len();
        let barrier = Barrier::new(count);
        let work = |part: &mut Part| {
            part.pass(count, streams);
            barrier.wait();
            let start = Instant::now();
            for _ in 0..passes {
                part.pass(count, streams);
            }
            start.elapsed().as_secs_f64()
        };
        std::thread::scope(|scope| {
            let running: Vec<_> = self.parts.iter_mut().map(|part| scope.spawn(|| work(part))).collect();
            running.into_iter().filter_map(|it| it.join().ok()).fold(0.0, f64::max)
        })
    }
}

impl Case for Test {
    fn run(&mut self) -> Outcome<()> {
        self.passes(1, 1);
        Ok(())
    }

    /// Memory is read as one stream and as four in turns; the faster one counts.
    fn times(&mut self, seconds: f64) -> Option<Vec<f64>> {
        let once = self.passes(1, 1).max(1e-9);
        let passes = (5e-3 / once).ceil() as usize;
        let groups = (seconds / (once * passes as f64)).ceil().clamp(2.0, 1e4) as usize;
        let mut times = [Vec::new(), Vec::new()];
        for i in 0..groups {
            let streams = if i % 2 == 0 { 1 } else { 4 };
            times[i % 2].push(self.passes(passes, streams) / passes as f64);
        }
        times.iter_mut().for_each(|it| it.sort_by(f64::total_cmp));
        times.into_iter().min_by(|a, b| a[a.len() / 2].total_cmp(&b[b.len() / 2]))
    }

    fn output(&mut self) -> Outcome<Vec<f32>> {
        Err("a limit has no result".into())
    }
}

fn main() {
    serve(|case| Ok(Box::new(Test::new(case)?)));
}
