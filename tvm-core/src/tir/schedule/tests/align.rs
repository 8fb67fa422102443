//! `storage_align`: the annotation that it leaves, the strides that lowering makes of it, and uses that it refuses.

use super::*;
use crate::ir::{IRModule, Var};
use crate::pass::{Pass, PassContext};
use crate::pipeline::lower_tir;
use crate::tir::analysis::with_access_regions;
use crate::tir::transform::{self, BUFFER_DIM_ALIGN, align_storage};
use crate::tir::{
    Block, BlockRealize, Buffer, BufferRegion, IterKind, IterVar, MatchBufferRegion, Param, Range, Scope,
    Stmt,
};

fn after(func: PrimFunc, passes: Vec<Pass>) -> PrimFunc {
    let (module, context) = (IRModule::from_prim_func(func), PassContext::new());
    let module = passes.iter().try_fold(module, |module, pass| pass.apply_in(module, &context)).unwrap();
    let (var, _) = module.functions().next().unwrap();
    (**module.prim_func(var).unwrap()).clone()
}

/// The passes that lay out buffers.
fn layout() -> Vec<Pass> {
    vec![
        transform::lower_init_block(),
        transform::check_bounds(),
        transform::convert_blocks_to_opaque(),
        transform::lower_match_buffer(),
        transform::lower_opaque_block(),
        transform::simplify(),
        transform::plan_and_update_buffer_allocation_location(),
        transform::compact_buffer_allocation(),
        align_storage(),
    ]
}

/// `y` of a dense layer, with the alignments of a change.
fn aligned(program: PrimFunc, change: impl FnOnce(&mut Schedule, BlockRV) -> Result<()>) -> Schedule {
    let mut sch = Schedule::new(program).unwrap();
    let y = sch.block("y").unwrap();
    change(&mut sch, y).unwrap_or_else(|err| panic!("{err}"));
    sch
}

/// The strides with which lowering allocates the buffer `name` (none: row-major), and the extent of its memory.
fn lowered(func: &PrimFunc, name: &str) -> (String, String) {
    let allocs = |func: &PrimFunc| {
        let text = func.to_string();
        let lines: Vec<String> = text.lines().map(|line| line.trim().to_string()).collect();
        let at = lines.iter().position(|line| line.starts_with(&format!("let mut {name} = alloc"))).unwrap();
        let strides = lines[at - 2..at].iter().find(|line| line.starts_with("#[strides"));
        (strides.cloned().unwrap_or_default(), lines[at].clone())
    };
    let mut passes = layout();
    let (strides, _) = allocs(&after(func.clone(), passes.clone()));
    passes.extend([transform::flatten_buffer(), transform::simplify()]);
    let (_, flat) = allocs(&after(func.clone(), passes));
    (strides, flat)
}

fn same_results(program: &PrimFunc, func: &PrimFunc, dims: &[[i64; 3]]) {
    let lowered = after(func.clone(), vec![lower_tir()]);
    for dims in dims {
        let values = |func: &PrimFunc| run(func, arguments(program, dims));
        assert_eq!(values(func), values(program), "{dims:?}\n{func}");
        assert_eq!(values(&lowered), values(program), "{dims:?}\n{lowered}");
    }
}

#[test]
fn strides_are_padded() {
    let cases: [(&[[i64; 3]], &str, i64); 8] = [
        (&[[0, 8, 0]], "#[strides(16, 1)]", 6 * 16 + 9),
        (&[[-2, 8, 3]], "#[strides(11, 1)]", 6 * 11 + 9),
        (&[[0, 8, 1]], "", 63),
        (&[[0, 1, 0]], "", 63),
        (&[[1, 4, 0]], "#[strides(36, 4)]", 6 * 36 + 8 * 4 + 1),
        (&[[-1, 2, 0], [0, 32, 2]], "#[strides(34, 2)]", 6 * 34 + 8 * 2 + 1),
        // The last one counts.
        (&[[0, 32, 0], [0, 4, 0]], "#[strides(12, 1)]", 6 * 12 + 9),
        (&[[0, 65536, 65535]], "#[strides(65535, 1)]", 6 * 65535 + 9),
    ];
    for (aligns, strides, elements) in cases {
        let program = small_dense();
        let sch = aligned(program.clone(), |s, y| {
            aligns
                .iter()
                .try_for_each(|&[axis, factor, offset]| s.storage_align(y, "y", axis, factor, offset))
        });
        well_formed(sch.func()).unwrap();
        let (got, flat) = lowered(sch.func(), "y");
        assert_eq!((got.as_str(), flat), (strides, format!("let mut y = alloc::<i64>([{elements}]);")));
        same_results(&program, sch.func(), &[[7, 9, 5]]);
        let mut again = Schedule::new(program).unwrap();
        Trace::from_json(&sch.trace().to_json()).unwrap().apply_to_schedule(&mut again).unwrap();
        structural_equal(sch.func(), again.func()).unwrap();
    }
}

#[test]
fn symbolic_and_single_rows_are_padded() {
    for extents in [None, Some([1, 1, 1]), Some([3, 0, 2])] {
        let program = match extents {
            None => symbolic::program(),
            Some([m, n, k]) => dense(dim(m), dim(n), dim(k)),
        };
        let sch = aligned(program.clone(), |s, y| {
            s.storage_align(y, 0, 0, 16, 4)?;
            let [i, _, _] = s.loops(y)?;
            s.parallel(i)
        });
        if extents.is_none() {
            assert_eq!(lowered(sch.func(), "y").0, "#[strides((n + 11) / 16 * 16 + 4, 1)]");
        }
        same_results(&program, sch.func(), &[[7, 5, 3], [1, 1, 1], [2, 20, 33], [0, 3, 2]]);
    }
}

#[test]
fn the_buffer_is_shrunk_before_it_is_padded() {
    let program = dense(dim(8), dim(24), dim(5));
    let sch = aligned(program.clone(), |s, _| {
        let o = s.block("o")?;
        let copy = s.cache_read(o, "z", Scope::Local)?;
        let [i, j] = s.loops(o)?;
        let [_, i_1] = s.split(i, [None, Some(4)])?;
        let [j_0, j_1] = s.split(j, [None, Some(8)])?;
        s.reorder([j_0, i_1])?;
        s.compute_at(copy, j_0)?;
        s.storage_align(copy, 0, 0, 8, 1)?;
        s.vectorize(j_1)
    });
    let trace = sch.trace().to_string();
    assert!(trace.contains("s.storage_align(v2, 0, 0, 8, 1)?;\n"), "{trace}");
    let (strides, flat) = lowered(sch.func(), "z_local");
    assert_eq!([strides, flat], ["#[strides(9, 1)]", "let mut z_local = alloc::<i64>([35]);"]);
    same_results(&program, sch.func(), &[[8, 24, 5]]);
}

#[test]
fn refusals_name_the_reason() {
    let cases: [(i64, i64, i64, &str); 8] = [
        (2, 8, 0, "has 2 axes, and no axis 2"),
        (-3, 8, 0, "has 2 axes, and no axis -3"),
        (i64::MIN, 8, 0, "has 2 axes, and no axis"),
        (0, 0, 0, "expected a factor from 1 to 65536"),
        (0, -8, 0, "expected a factor from 1 to 65536"),
        (0, i64::MAX, 1, "expected a factor from 1 to 65536"),
        (0, 8, 8, "an offset below it"),
        (0, 8, -1, "an offset below it"),
    ];
    let mut sch = Schedule::new(small_dense()).unwrap();
    let (y, o) = (sch.block("y").unwrap(), sch.block("o").unwrap());
    let mut refused = |block: BlockRV, buffer: BufferArg, [axis, factor, offset]: [i64; 3], why: &str| {
        let err = sch.storage_align(block, buffer, axis, factor, offset).unwrap_err().to_string();
        assert!(err.contains(why), "{why} is missing in\n{err}");
        structural_equal(&small_dense(), sch.func()).unwrap();
    };
    for (axis, factor, offset, why) in cases {
        refused(y, "y".into(), [axis, factor, offset], why);
    }
    refused(o, 0.into(), [0, 8, 0], "does not allocate `o`");
    refused(y, "x".into(), [0, 8, 0], "names none");
    refused(y, usize::MAX.into(), [0, 8, 0], "names none");
}

#[test]
fn annotations_that_make_no_sense_are_ignored() {
    let program = small_dense();
    let hostile: [&[i64]; 7] = [
        &[1, 0, 8, 0],
        &[-1, 0, 8, 0],
        &[0, 2, 8, 0],
        &[0, 0, 0, 0],
        &[0, 0, i64::MAX, i64::MAX - 1],
        &[0, 0, 8],
        &[i64::MIN; 4],
    ];
    for ints in hostile {
        let sch = aligned(program.clone(), |s, y| s.annotate(y, BUFFER_DIM_ALIGN, ints.to_vec()));
        assert_eq!(lowered(sch.func(), "y").0, "");
        same_results(&program, sch.func(), &[[7, 9, 5]]);
    }
}

#[test]
fn strides_that_the_program_names_stay() {
    // `t` of 3 x 5 elements, and `o`, the stride of its rows.
    let (t, o) = (Buffer::new("t", [dim(3), dim(5)], I64), Buffer::new("o", [dim(1)], I64));
    let (i, rows, columns) = (Var::index("v"), Var::index("rows"), Var::index("columns"));
    let write = Block {
        iter_vars: [IterVar { var: i.clone(), dom: Range::from_extent(3), kind: IterKind::Spatial }].into(),
        ..Block::new("t", Stmt::store(&t, [PrimExpr::from(&i), dim(0)], PrimExpr::from(&i)))
    };
    let row = Var::index("i");
    let write = BlockRealize {
        iter_values: [PrimExpr::from(&row)].into(),
        predicate: PrimExpr::bool(true),
        block: with_access_regions(write).into(),
    };
    let part = Buffer::new("part", [dim(3), dim(5)], I64)
        .renew(|node| node.strides = [PrimExpr::from(&rows), PrimExpr::from(&columns)].into());
    let value = part.load([dim(2), dim(0)]) * 100 + &rows;
    let read = Block {
        match_buffers: [MatchBufferRegion { buffer: part, source: BufferRegion::full(&t) }].into(),
        ..Block::new("o", Stmt::store(&o, [dim(0)], value))
    };
    let read = BlockRealize::opaque(with_access_regions(read));
    let body = Stmt::seq([crate::tir::For::serial(row, 3, write.into()).into(), read]);
    let func = PrimFunc::new("f", vec![Param::Out(o)], BlockRealize::opaque(Block::root(vec![t], body)));
    well_formed(&func).unwrap_or_else(|err| panic!("{err}\n{func}"));
    let mut sch = Schedule::new(func.clone()).unwrap();
    let block = sch.block("t").unwrap();
    let err = sch.storage_align(block, 0, 0, 8, 0).unwrap_err().to_string();
    assert!(err.contains("has a second name"), "{err}");
    sch.annotate(block, BUFFER_DIM_ALIGN, vec![0i64, 0, 8, 0]).unwrap();
    for func in [&func, sch.func(), &after(sch.func().clone(), vec![lower_tir()])] {
        assert_eq!(run(func, arguments(sch.func(), &[])), [205], "{func}");
    }
}
