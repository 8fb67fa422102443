//! `read_at` and `write_at`: copies of the tile that an iteration of a loop needs.

use super::*;
use crate::tir::Scope;

/// `small_dense` in tiles of 4 rows, whose last one is not full.
fn tiled() -> (Schedule, BlockRV, LoopRV) {
    let mut s = Schedule::new(small_dense()).unwrap();
    let y = s.block("y").unwrap();
    let [i, _, _] = s.loops(y).unwrap();
    let [tiles, _] = s.split(i, [None, Some(4)]).unwrap();
    (s, y, tiles)
}

#[test]
fn a_tile_is_copied_where_it_is_needed() {
    let (mut s, y, tiles) = tiled();
    s.read_at(tiles, y, "x", Scope::Local).unwrap();
    s.write_at(tiles, y, 0, Scope::Local).unwrap();
    let (mut apart, y, tiles) = tiled();
    let x = apart.cache_read(y, "x", Scope::Local).unwrap();
    apart.compute_at(x, tiles).unwrap();
    let back = apart.cache_write(y, 0, Scope::Local).unwrap();
    apart.reverse_compute_at(back, tiles).unwrap();
    structural_equal(apart.func(), s.func()).unwrap();
    let args = arguments(&small_dense(), &[]);
    assert_eq!(run(&small_dense(), args.clone()), run(s.func(), args));
    replayed(&small_dense(), &s);
}

#[test]
fn both_steps_or_none() {
    let (mut s, y, tiles) = tiled();
    let other = s.block("o").unwrap();
    let elsewhere = s.get_loops(other).unwrap()[0];
    let inner = s.get_loops(y).unwrap()[3];
    let (before, text) = (s.func().clone(), s.trace().to_string());
    let refused = [
        ("compute_at", s.read_at(elsewhere, y, "x", Scope::Local)),
        ("nope", s.read_at(tiles, y, "nope", Scope::Local)),
        ("reverse_compute_at", s.write_at(elsewhere, y, 0, Scope::Local)),
        // The sum goes on after the iteration.
        ("reverse_compute_at", s.write_at(inner, y, 0, Scope::Local)),
    ];
    for (why, done) in refused {
        let err = done.unwrap_err().to_string();
        assert!(err.contains(why), "{why}: {err}");
    }
    structural_equal(&before, s.func()).unwrap();
    assert_eq!(text, s.trace().to_string());
    // The handles from before are those of the schedule still.
    s.read_at(tiles, y, "w", Scope::Local).unwrap();
}
