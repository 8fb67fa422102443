//! Small helpers with no compiler knowledge.

mod parallel;
mod short_float;

pub use parallel::in_parallel;
pub use short_float::{to_bf16, to_f16};

/// The candidate nearest to `name` by edit distance, if it is near enough for `name` to be a typo of it.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let limit = name.len() / 3 + 1;
    candidates.map(|it| (edit_distance(name, it), it)).filter(|&(d, _)| d <= limit).min().map(|(_, it)| it)
}

fn edit_distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, &y) in b.iter().enumerate() {
            let above = row[j + 1];
            row[j + 1] = (diagonal + usize::from(x != y)).min(above + 1).min(row[j] + 1);
            diagonal = above;
        }
    }
    row[b.len()]
}

/// Runs `f`, on a new stack segment if little stack is left; recursion over deep programs goes through this function.
pub fn with_stack<R>(f: impl FnOnce() -> R) -> R {
    #[cfg(test)]
    STEPS.with(|steps| steps.set(steps.get() + 1));
    stacker::maybe_grow(64 * 1024, 2 * 1024 * 1024, f)
}

#[cfg(test)]
thread_local! {
    static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Number of calls of [`with_stack`] in `f`: a measure of work for tests, because times are noisy.
#[cfg(test)]
pub(crate) fn steps_of(f: impl FnOnce()) -> u64 {
    let before = STEPS.get();
    f();
    STEPS.get() - before
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_names() {
        let names = ["matmul", "maximum", "relu"];
        for (given, want) in [("matmull", Some("matmul")), ("rely", Some("relu")), ("conv2d", None)] {
            assert_eq!(nearest(given, names.into_iter()), want, "{given}");
        }
    }
}
