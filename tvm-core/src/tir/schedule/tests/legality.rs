//! Programs whose conditions, bindings or axes may make a primitive illegal: it is refused, or keeps the results.

use super::kernels::{AT, each, input, kernel, local, output, r, results, s};
use super::*;
use crate::script::{FuncBuilder, KernelValue};
use crate::tir::{BinaryOp, Scope};

type Change = fn(&mut Schedule) -> Result<()>;

/// Checks that `change` keeps the results of `program`, or is refused and changes nothing. True when it is accepted.
fn keeps(program: &PrimFunc, change: Change) -> bool {
    let mut sch = Schedule::new(program.clone()).unwrap();
    let before = sch.clone();
    match change(&mut sch) {
        Ok(()) => {
            well_formed(sch.func()).unwrap_or_else(|err| panic!("{err}\n{}", sch.func()));
            assert_eq!(results(sch.func()), results(program), "{}", sch.func());
            true
        }
        Err(err) => {
            assert!(err.to_string().len() > 20, "{err}");
            assert_eq!(results(before.func()), results(program));
            false
        }
    }
}

fn add(a: KernelValue, b: KernelValue) -> KernelValue {
    a.binary(BinaryOp::Add, b)
}

fn mul(a: &KernelValue, b: i64) -> KernelValue {
    a.clone().binary(BinaryOp::Mul, KernelValue::int(b))
}

/// `t[i] = x[i] * 2`, then `if f > 0 { y[i] = t[i] + 1 }`.
fn conditional(b: &FuncBuilder) {
    let x = input(b, "x", &[6]);
    let f = b.scalar(AT, "f", I64);
    let y = output(b, "y", &[6]);
    let t = local(b, "t", 6);
    each(b, "i", 6, |i| b.store(AT, &t, [i.clone()], mul(&b.load(AT, &x, [i]), 2)));
    let then = || {
        each(b, "i", 6, |i| b.store(AT, &y, [i.clone()], add(b.load(AT, &t, [i]), KernelValue::int(1))));
    };
    b.if_else(AT, f.binary(BinaryOp::Gt, KernelValue::int(0)), then, None);
}

#[test]
fn conditions_are_part_of_blocks() {
    let program = kernel(conditional);
    let changes: [Change; 4] = [
        |s| {
            let (t, y) = (s.block("t")?, s.block("y")?);
            let [i] = s.loops(t)?;
            s.reverse_compute_at(y, i)
        },
        |s| {
            let y = s.block("y")?;
            s.reverse_compute_inline(y)
        },
        |s| {
            let y = s.block("y")?;
            s.cache_write(y, "y", Scope::Local).map(drop)
        },
        |s| {
            let (t, y) = (s.block("t")?, s.block("y")?);
            let [i] = s.loops(y)?;
            s.compute_at(t, i)
        },
    ];
    let accepted = changes.map(|change| keeps(&program, change));
    assert_eq!(accepted, [false, false, false, true]);
}

#[test]
fn conditions_that_read_memory_are_seen() {
    let program = kernel(|b| {
        let a = output(b, "a", &[7, 4]);
        each(b, "i", 6, |i| {
            let head = b.load(AT, &a, [i.clone(), KernelValue::int(0)]);
            let then = || {
                each(b, "j", 4, |j| {
                    b.store(AT, &a, [add(i.clone(), KernelValue::int(1)), j], KernelValue::int(0))
                });
            };
            b.if_else(AT, head.binary(BinaryOp::Gt, KernelValue::int(-99)), then, None);
        });
    });
    let change: Change = |s| {
        let a = s.block("a")?;
        let loops = s.get_loops(a)?;
        s.parallel(loops[0])
    };
    assert!(!keeps(&program, change));
    // An explicit block is kept, and is placed inside a block that declares the read.
    let program = kernel(|b| {
        let on = input(b, "on", &[6]);
        let a = output(b, "a", &[6, 4]);
        each(b, "i", 6, |i| {
            let then = || {
                each(b, "j", 4, |j| {
                    b.block(AT, "B", [s("vi", &i), s("vj", &j)], |[vi, vj]| {
                        b.store(AT, &a, [vi, vj], KernelValue::int(3));
                    });
                });
            };
            b.if_else(AT, b.load(AT, &on, [i.clone()]).binary(BinaryOp::Gt, KernelValue::int(0)), then, None);
        });
    });
    let changes: [Change; 3] = [
        |s| {
            let b = s.block("reads")?;
            let [i] = s.loops(b)?;
            let [outer, _] = s.split(i, [None, Some(4)])?;
            s.parallel(outer)
        },
        |s| {
            let b = s.block("B")?;
            let [j] = s.loops(b)?;
            s.vectorize(j)
        },
        |s| {
            let b = s.block("B")?;
            s.cache_write(b, "a", Scope::Local).map(drop)
        },
    ];
    assert_eq!(changes.map(|change| keeps(&program, change)), [true, true, false]);
    // The condition is read once for each `i`, although the blocks write what it reads.
    let program = kernel(|b| {
        let a = output(b, "a", &[6, 4]);
        each(b, "i", 6, |i| {
            let then = || {
                each(b, "j", 4, |j| {
                    b.block(AT, "B", [s("vi", &i), s("vj", &j)], |[vi, vj]| {
                        let old = b.load(AT, &a, [vi.clone(), vj.clone()]);
                        b.store(AT, &a, [vi, vj], add(old, KernelValue::int(100)));
                    });
                });
            };
            let head = b.load(AT, &a, [i.clone(), KernelValue::int(0)]);
            b.if_else(AT, head.binary(BinaryOp::Lt, KernelValue::int(0)), then, None);
        });
    });
    assert_eq!(results(&program)[0], [23; 24]);
}

#[test]
fn writes_of_part_of_a_buffer_are_not_copied_whole() {
    let program = kernel(|b| {
        let x = input(b, "x", &[5]);
        let y = output(b, "y", &[10]);
        each(b, "i", 5, |i| {
            b.block(AT, "B", [s("v", &mul(&i, 2))], |[v]| {
                let at = v.clone().binary(BinaryOp::FloorDiv, KernelValue::int(2));
                b.store(AT, &y, [v], b.load(AT, &x, [at]));
            });
        });
    });
    assert!(!keeps(&program, |s| {
        let b = s.block("B")?;
        s.cache_write(b, "y", Scope::Local).map(drop)
    }));
    assert!(keeps(&program, |s| {
        let b = s.block("B")?;
        let [i] = s.loops(b)?;
        s.parallel(i)
    }));
}

/// `s[i] = Σ x[i + d]`, `y[i] = s[i] + 10 * s[i + 1]`.
fn halo(b: &FuncBuilder) {
    let x = input(b, "x", &[9]);
    let y = output(b, "y", &[6]);
    let t = local(b, "t", 7);
    each(b, "i", 7, |i| {
        each(b, "d", 3, |d| {
            b.block(AT, "s", [s("vi", &i), r("vd", &d)], |[vi, vd]| {
                b.init(AT, || b.store(AT, &t, [vi.clone()], KernelValue::int(0)));
                let at = add(vi.clone(), vd);
                b.update(AT, &t, [vi], BinaryOp::Add, b.load(AT, &x, [at]));
            });
        });
    });
    each(b, "i", 6, |i| {
        let next = mul(&b.load(AT, &t, [add(i.clone(), KernelValue::int(1))]), 10);
        b.store(AT, &y, [i.clone()], add(b.load(AT, &t, [i]), next));
    });
}

#[test]
fn elements_computed_again_are_reduced_once() {
    let program = kernel(halo);
    let changes: [Change; 4] = [
        |s| {
            let (p, y) = (s.block("s")?, s.block("y")?);
            let [i] = s.loops(y)?;
            s.compute_at(p, i)
        },
        |s| {
            let (p, y) = (s.block("s")?, s.block("y")?);
            let [i] = s.loops(y)?;
            s.compute_at(p, i)?;
            let first = s.get_loops(p)?[0];
            s.decompose_reduction(p, first).map(drop)
        },
        |s| {
            let (p, y) = (s.block("s")?, s.block("y")?);
            let [i] = s.loops(y)?;
            s.compute_at(p, i)?;
            let second = s.get_loops(p)?[1];
            s.decompose_reduction(p, second).map(drop)
        },
        |s| {
            let (p, y) = (s.block("s")?, s.block("y")?);
            let [i] = s.loops(y)?;
            s.compute_at(p, i)?;
            let [_, ax, d] = s.loops(p)?;
            s.reorder([d, ax])
        },
    ];
    assert_eq!(changes.map(|change| keeps(&program, change)), [true, false, true, true]);
}

#[test]
fn a_fused_reduction_keeps_its_init() {
    let program = kernel(halo);
    let changes: [Change; 2] = [
        |s| {
            let p = s.block("s")?;
            let [i, d] = s.loops(p)?;
            let f = s.fuse([i, d])?;
            let [outer, inner] = s.split(f, [None, Some(4)])?;
            s.reorder([inner, outer])
        },
        |s| {
            let p = s.block("s")?;
            let [i, d] = s.loops(p)?;
            s.reorder([d, i])
        },
    ];
    assert!(changes.map(|change| keeps(&program, change))[1]);
    let n = PrimExpr::from(crate::ir::Var::index("n"));
    let mut sch = Schedule::new(dense(dim(3), dim(4), n)).unwrap();
    let y = sch.block("y").unwrap();
    let [_, j, k] = sch.loops(y).unwrap();
    let err = sch.fuse([j, k]).unwrap_err().to_string();
    assert!(err.contains("may be empty") && err.contains("help:"), "{err}");
}

#[test]
fn rows_of_a_scan_are_independent() {
    let program = kernel(|b| {
        let x = input(b, "x", &[4, 5]);
        let y = output(b, "y", &[4, 6]);
        each(b, "b", 4, |row| {
            each(b, "i", 5, |i| {
                let axes = [s("vb", &row), (crate::tir::IterKind::Ordered, "vi", i.clone())];
                b.block(AT, "scan", axes, |[vb, vi]| {
                    let sum = add(
                        b.load(AT, &y, [vb.clone(), vi.clone()]),
                        b.load(AT, &x, [vb.clone(), vi.clone()]),
                    );
                    b.store(AT, &y, [vb, add(vi, KernelValue::int(1))], sum);
                });
            });
        });
    });
    assert!(keeps(&program, |s| {
        let scan = s.block("scan")?;
        let [b, _] = s.loops(scan)?;
        s.parallel(b)
    }));
    assert!(!keeps(&program, |s| {
        let scan = s.block("scan")?;
        let [_, i] = s.loops(scan)?;
        s.parallel(i)
    }));
    assert!(keeps(&program, |s| {
        let scan = s.block("scan")?;
        let [b, i] = s.loops(scan)?;
        s.reorder([i, b])
    }));
    // Parts of the scan itself keep their order.
    assert!(!keeps(&program, |s| {
        let scan = s.block("scan")?;
        let [_, i] = s.loops(scan)?;
        let [outer, inner] = s.split(i, [None, Some(2)])?;
        s.reorder([inner, outer])
    }));
}

#[test]
fn declared_axes_are_not_taken_for_granted() {
    // The last column wins: `j` is not spatial.
    let program = kernel(|b| {
        let x = input(b, "x", &[4, 6]);
        let y = output(b, "y", &[4]);
        each(b, "i", 4, |i| {
            each(b, "j", 6, |j| {
                b.block(AT, "last", [s("vi", &i), s("vj", &j)], |[vi, vj]| {
                    b.store(AT, &y, [vi.clone()], b.load(AT, &x, [vi, vj]));
                });
            });
        });
    });
    let changes: [Change; 3] = [
        |s| {
            let last = s.block("last")?;
            let [_, j] = s.loops(last)?;
            let [outer, inner] = s.split(j, [Some(2), None])?;
            s.reorder([inner, outer])
        },
        |s| {
            let last = s.block("last")?;
            let [_, j] = s.loops(last)?;
            s.parallel(j)
        },
        |s| {
            let last = s.block("last")?;
            let [i, _] = s.loops(last)?;
            s.parallel(i)
        },
    ];
    assert_eq!(changes.map(|change| keeps(&program, change)), [false, false, true]);
    // Horner: the update does not commute.
    let program = kernel(|b| {
        let x = input(b, "x", &[6]);
        let y = output(b, "y", &[1]);
        each(b, "k", 6, |k| {
            b.block(AT, "horner", [r("vk", &k)], |[vk]| {
                b.init(AT, || b.store(AT, &y, [KernelValue::int(0)], KernelValue::int(0)));
                let old = mul(&b.load(AT, &y, [KernelValue::int(0)]), 2);
                b.store(AT, &y, [KernelValue::int(0)], add(old, b.load(AT, &x, [vk])));
            });
        });
    });
    assert!(!keeps(&program, |s| {
        let horner = s.block("horner")?;
        let [k] = s.loops(horner)?;
        let [outer, inner] = s.split(k, [Some(2), None])?;
        s.reorder([inner, outer])
    }));
}

#[test]
fn a_copy_moves_in_front_of_blocks_of_its_own_scope() {
    // Each row has a sum of its own: the readers are inside the blocks of the rows.
    let program = kernel(|b| {
        let x = input(b, "x", &[4, 6]);
        let w = input(b, "w", &[4, 6]);
        let y = output(b, "y", &[4, 6]);
        each(b, "i", 4, |i| {
            let sum = b.alloc(AT, "sum", I64, [], Scope::Local);
            b.store(AT, &sum, [], KernelValue::int(0));
            each(b, "j", 6, |j| b.update(AT, &sum, [], BinaryOp::Add, b.load(AT, &x, [i.clone(), j])));
            each(b, "j", 6, |j| {
                let value = add(b.load(AT, &w, [i.clone(), j.clone()]), b.load(AT, &sum, []));
                b.store(AT, &y, [i.clone(), j], value);
            });
        });
    });
    assert!(keeps(&program, |s| {
        let rows = s.block("sum_scope")?;
        let [i] = s.loops(rows)?;
        let copy = s.cache_read(rows, "x", Scope::Local)?;
        s.compute_at(copy, i)
    }));
    assert!(!keeps(&program, |s| {
        let inner = s.block("y")?;
        let rows = s.block("sum_scope")?;
        let copy = s.cache_read(rows, "w", Scope::Local)?;
        let [j] = s.loops(inner)?;
        s.compute_at(copy, j)
    }));
    assert!(keeps(&program, |s| {
        let inner = s.block("y")?;
        let copy = s.cache_read(inner, "w", Scope::Local)?;
        let [j] = s.loops(inner)?;
        s.compute_at(copy, j)
    }));
}

#[test]
fn loops_that_run_side_by_side_stay_independent() {
    let program = kernel(halo);
    let mut sch = Schedule::new(program.clone()).unwrap();
    let (p, y) = (sch.block("s").unwrap(), sch.block("y").unwrap());
    let [i] = sch.loops(y).unwrap();
    sch.vectorize(i).unwrap();
    let before = sch.func().clone();
    let err = sch.compute_at(p, i).unwrap_err().to_string();
    assert!(err.contains("`compute_at`") && err.contains("^^^"), "{err}");
    structural_equal(&before, sch.func()).unwrap();
    // `j` drives no axis: its iterations write the same elements.
    let program = kernel(|b| {
        let x = input(b, "x", &[4]);
        let y = output(b, "y", &[4]);
        each(b, "j", 3, |_| {
            each(b, "i", 4, |i| {
                b.block(AT, "B", [s("vi", &i)], |[vi]| {
                    b.store(AT, &y, [vi.clone()], b.load(AT, &x, [vi]));
                });
            });
        });
    });
    assert!(!keeps(&program, |s| {
        let b = s.block("B")?;
        let [j, _] = s.loops(b)?;
        s.parallel(j)
    }));
}

/// `y[3 g + i]` for `i` less than 3, from loops that run to 4: a group writes its own elements only if the axis says so.
#[test]
fn axes_are_within_their_domains() {
    for (extent, apart) in [(3, true), (4, false)] {
        let program = kernel(|b| {
            let x = input(b, "x", &[7]);
            let y = output(b, "y", &[7]);
            each(b, "g", 2, |g| {
                each(b, "i", extent, |i| {
                    b.block(AT, "B", [s("vg", &g), s("vi", &i)], |[vg, vi]| {
                        let at = vg.binary(BinaryOp::Mul, KernelValue::int(3)).binary(BinaryOp::Add, vi);
                        b.store(AT, &y, [at.clone()], b.load(AT, &x, [at]));
                    });
                });
            });
        });
        let parallel = |s: &mut Schedule| -> Result<()> {
            let block = s.block("B")?;
            let [g, i] = s.loops(block)?;
            s.split(i, [None, Some(2)])?;
            s.parallel(g)
        };
        assert_eq!(keeps(&program, parallel), apart, "{extent}");
    }
}

#[test]
fn a_tiled_product_is_legal() {
    let program = dense(dim(16), dim(24), dim(5));
    let mut sch = Schedule::new(program.clone()).unwrap();
    let tiled = |s: &mut Schedule| -> Result<()> {
        let y = s.block("y")?;
        let write = s.cache_write(y, "y", Scope::Local)?;
        let [i, j, k] = s.loops(y)?;
        let [i0, i1] = s.split(i, [None, Some(4)])?;
        let [j0, j1] = s.split(j, [None, Some(8)])?;
        s.reorder([j0, i0, k, i1, j1])?;
        s.reverse_compute_at(write, i0)?;
        let [_, _, row, column] = s.loops(write)?;
        s.unroll(row)?;
        s.vectorize(column)?;
        s.unroll(i1)?;
        s.vectorize(j1)?;
        s.decompose_reduction(y, k)?;
        let panel = s.cache_read(y, "w", Scope::Global)?;
        s.compute_at(panel, j0)?;
        let [_, _, column] = s.loops(panel)?;
        s.vectorize(column)?;
        s.parallel(j0)
    };
    tiled(&mut sch).unwrap_or_else(|err| panic!("{err}"));
    assert_eq!(run(sch.func(), arguments(sch.func(), &[])), run(&program, arguments(&program, &[])));
}

#[test]
fn a_consumer_that_reads_ahead_of_its_producer_stays() {
    let reads = |b: &FuncBuilder, t: &crate::tir::Buffer, y: &crate::tir::Buffer, i: KernelValue| {
        b.block(AT, "y", [s("v", &i)], |[v]| {
            b.store(AT, y, [v.clone()], add(b.load(AT, t, [v]), KernelValue::int(1)));
        });
    };
    let makes = |b: &FuncBuilder, t: &crate::tir::Buffer, x: &crate::tir::Buffer, i: KernelValue| {
        b.block(AT, "t", [s("v", &i)], |[v]| b.store(AT, t, [v.clone()], mul(&b.load(AT, x, [v]), 2)));
    };
    let buffers = |b: &FuncBuilder| (input(b, "x", &[6]), output(b, "out", &[6]), local(b, "tmp", 6));
    let backwards = kernel(|b| {
        let (x, y, t) = buffers(b);
        each(b, "i", 6, |i| {
            makes(b, &t, &x, i.clone());
            reads(b, &t, &y, KernelValue::int(5).binary(BinaryOp::Sub, i));
        });
    });
    let before = kernel(|b| {
        let (x, y, t) = buffers(b);
        each(b, "i", 6, |i| reads(b, &t, &y, i));
        each(b, "i", 6, |i| makes(b, &t, &x, i));
    });
    for program in [backwards, before] {
        assert!(!keeps(&program, |s| s.block("y").and_then(|y| s.reverse_compute_inline(y))));
        assert!(!keeps(&program, |s| s.block("t").and_then(|t| s.compute_inline(t))));
    }
}

/// The copy of a part of a padded result moves to the tiles that make the result, and is cut there.
#[test]
fn a_consumer_of_a_part_moves() {
    let free = ["m", "n", "k"].map(|name| PrimExpr::from(crate::ir::Var::index(name)));
    let [m, n, k] = free;
    let sizes: [(PrimFunc, &[i64]); 2] = [(dense(dim(7), dim(5), dim(9)), &[]), (dense(m, n, k), &[7, 3, 5])];
    for (program, dims) in sizes {
        let mut sch = Schedule::new(program.clone()).unwrap();
        let moved = |s: &mut Schedule| -> Result<()> {
            let y = s.block("y")?;
            s.pad_einsum(y, &[4, 4, 1])?;
            let [i, j, _] = s.loops(y)?;
            let [i0, i1] = s.split(i, [None, Some(4)])?;
            let [j0, j1] = s.split(j, [None, Some(4)])?;
            s.reorder([i0, j0, i1, j1])?;
            let write = s.block("y_pad")?;
            s.reverse_compute_at(write, j0)
        };
        moved(&mut sch).unwrap_or_else(|err| panic!("{err}"));
        let text = sch.func().to_string();
        let [product, write] = ["block(\"y\"", "block(\"y_pad\""].map(|it| text.find(it).unwrap());
        assert!(product < write && text[product..write].contains("if "), "{text}");
        assert_eq!(run(sch.func(), arguments(sch.func(), dims)), run(&program, arguments(&program, dims)));
    }
    // What it adds up is all of it.
    let kernel = kernel(|b| {
        let (x, y, t) = (input(b, "x", &[8]), output(b, "out", &[1]), local(b, "tmp", 8));
        each(b, "i", 8, |i| {
            b.block(AT, "t", [s("v", &i)], |[v]| b.store(AT, &t, [v.clone()], mul(&b.load(AT, &x, [v]), 2)));
        });
        each(b, "i", 6, |i| {
            b.block(AT, "sum", [r("v", &i)], |[v]| {
                let zero = || KernelValue::int(0);
                b.init(AT, || b.store(AT, &y, [zero()], zero()));
                b.store(AT, &y, [zero()], add(b.load(AT, &y, [zero()]), b.load(AT, &t, [v])));
            });
        });
    });
    let refused = |s: &mut Schedule| -> Result<()> {
        let [t, sum] = [s.block("t")?, s.block("sum")?];
        let [i] = s.loops(t)?;
        s.reverse_compute_at(sum, i)
    };
    assert!(!keeps(&kernel, refused));
}
