//! Work on several threads at once.

use std::num::NonZero;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// Size of the stack of a thread, in bytes: compilers behind the code generators recurse without a limit.
const STACK: usize = 16 << 20;

/// What `f` makes of each of `items`, in their order. The calls run on this thread and on new ones, as many as the process may use
/// and the system grants.
///
/// # Errors
/// The first error in the order of the items.
pub fn in_parallel<T: Sync, R: Send, E: Send>(
    items: &[T],
    f: impl Fn(&T) -> Result<R, E> + Sync,
) -> Result<Vec<R>, E> {
    let threads = thread::available_parallelism().map_or(1, NonZero::get).min(items.len());
    if threads < 2 {
        return items.iter().map(f).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let indices = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
        indices.map_while(|i| items.get(i).map(|item| (i, f(item)))).collect::<Vec<_>>()
    };
    let mut results = thread::scope(|scope| {
        let new = |_| thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work).ok();
        let threads: Vec<_> = (1..threads).filter_map(new).collect();
        let mut results = work();
        for thread in threads {
            results.extend(thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        results
    });
    results.sort_by_key(|(i, _)| *i);
    results.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_and_errors_come_in_order() {
        let items: Vec<u32> = (0..100).collect();
        assert_eq!(
            in_parallel(&items, |it| Ok::<_, ()>(it * 2)).unwrap(),
            (0..200).step_by(2).collect::<Vec<_>>()
        );
        let odd = |it: &u32| if it.is_multiple_of(2) { Ok(()) } else { Err(*it) };
        assert_eq!(in_parallel(&items, odd), Err(1));
        assert_eq!(in_parallel(&items[..0], odd), Ok(vec![]));
    }

    #[test]
    fn a_panic_is_passed_on() {
        let items: Vec<u32> = (0..100).collect();
        let all = || in_parallel(&items, |it| if *it == 70 { panic!("item {it}") } else { Ok::<_, ()>(()) });
        let panic = std::panic::catch_unwind(all).unwrap_err();
        assert_eq!(panic.downcast_ref::<String>().unwrap(), "item 70");
    }
}
