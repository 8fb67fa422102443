//! Sequences and optional values as inputs and outputs of a model: each of their tensors is an input or output of its own.

use tvm_core::ir::AttrValue;
use tvm_onnx::proto::{ElementTypeProto, ModelProto, NodeProto, TensorTypeProto, TypeProto, ValueInfoProto};
use tvm_onnx::{ImportOptions, import_proto};
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, compiled_with, floats, graph, int, model, node, refusal, run, targets,
};

/// The type of sequences, or of optional values, of tensors or of what is given.
fn of(element: Option<TypeProto>) -> Option<Box<ElementTypeProto>> {
    let tensor = || TypeProto {
        tensor_type: Some(TensorTypeProto { elem_type: 1, shape: None }),
        ..TypeProto::default()
    };
    let element = Some(Box::new(element.unwrap_or_else(tensor)));
    Some(Box::new(ElementTypeProto { elem_type: element }))
}

fn sequence() -> TypeProto {
    TypeProto { sequence_type: of(None), ..TypeProto::default() }
}

fn optional(element: Option<TypeProto>) -> TypeProto {
    TypeProto { optional_type: of(element), ..TypeProto::default() }
}

fn with_input(mut model: ModelProto, name: &str, ty: TypeProto) -> ModelProto {
    let info = ValueInfoProto { name: name.into(), ty: Some(ty) };
    model.graph.as_mut().unwrap().input.push(info);
    model
}

/// The list in an attribute of the graph function.
fn names(model: &ModelProto, options: &ImportOptions, key: &str) -> Vec<String> {
    let module = import_proto(model, None, options).unwrap();
    let main = module.global_var("main").unwrap().clone();
    let AttrValue::List(names) = module.relax_func(&main).unwrap().attrs.get(key).unwrap().clone() else {
        panic!("{key} is no list");
    };
    let name = |it: &AttrValue| if let AttrValue::Str(it) = it { it.to_string() } else { panic!("{it:?}") };
    names.iter().map(name).collect()
}

#[test]
fn elements_are_inputs_and_outputs() {
    let body = graph(
        "body",
        &[("e", DataType::F32, "k"), ("w", DataType::F32, "1")],
        vec![node("Mul", "e w", "p", vec![])],
        "p",
    );
    let nodes = vec![
        node("SequenceMap", "s x", "t", vec![body]),
        node("SequenceInsert", "t x at", "u", vec![]),
        node("ConcatFromSequence", "u", "y", vec![int("axis", 0)]),
    ];
    let model = with_input(model(17, nodes), "s", sequence()).input("x", "1").typed("at", DataType::I64, "");
    let model = model.output("t").output("y");
    let options = ImportOptions::default().sequence("s", 2).shape("s[0]", &[1]).shape("s[1]", &[2]);
    assert_eq!(names(&model, &options, "input_names"), ["s[0]", "s[1]", "x", "at"]);
    assert_eq!(names(&model, &options, "output_names"), ["t[0]", "t[1]", "y"]);
    let args = |at: i64| {
        [floats(&[2.0], &[1]), floats(&[3.0, 4.0], &[2]), floats(&[10.0], &[1]), Tensor::scalar(at)]
    };
    for target in targets() {
        let vm = compiled_with(&model, &target, &options).unwrap();
        // The place is read when the model runs.
        for (at, want) in [
            (0, [10.0, 20.0, 30.0, 40.0]),
            (1, [20.0, 10.0, 30.0, 40.0]),
            (2, [20.0, 30.0, 40.0, 10.0]),
            (-1, [20.0, 10.0, 30.0, 40.0]),
            (-2, [10.0, 20.0, 30.0, 40.0]),
        ] {
            let got = run(&vm, &args(at));
            assert_near(&got[0], &floats(&[20.0], &[1]), "t[0]");
            assert_near(&got[1], &floats(&[30.0, 40.0], &[2]), "t[1]");
            assert_near(&got[2], &floats(&want, &[4]), &format!("at {at} on {target}"));
        }
        for at in [3, -3, i64::MIN] {
            let args: Vec<tvm_runtime::Value> = args(at).iter().map(tvm_runtime::Value::from).collect();
            assert!(vm.invoke("main", &args).is_err(), "at {at}");
        }
    }
}

/// `tvm::Model` takes and gives the elements by name.
#[test]
fn elements_in_the_application() {
    use prost::Message;
    let body = graph("body", &[("e", DataType::F32, "k")], vec![node("Neg", "e", "n", vec![])], "n");
    let model =
        with_input(model(17, vec![node("SequenceMap", "s", "t", vec![body])]), "s", sequence()).output("t");
    let model = tvm::Model::onnx_bytes(&model.encode_to_vec()).unwrap();
    let model = model.sequence("s", 2).shape("s[0]", &[1]).shape("s[1]", &[2]);
    let model = model.target(tvm_core::target::Target::interpreter()).compile().unwrap();
    let (one, two) = (floats(&[1.0], &[1]), floats(&[2.0, 3.0], &[2]));
    let got = model.run([("s[1]", (&two).into()), ("s[0]", (&one).into())]).unwrap();
    assert_eq!(got["t[0]"].as_slice::<f32>().unwrap(), [-1.0]);
    assert_eq!(got["t[1]"].as_slice::<f32>().unwrap(), [-2.0, -3.0]);
}

/// The loop that defines `SequenceMap`: its sequence grows, its number of iterations is the length of another one.
#[test]
fn loops_over_sequences() {
    let body = graph(
        "body",
        &[("i", DataType::I64, ""), ("c", DataType::BOOL, ""), ("made", DataType::F32, "")],
        vec![
            node("SequenceAt", "s i", "e", vec![]),
            node("Neg", "e", "n", vec![]),
            node("SequenceInsert", "made n", "next", vec![]),
            node("Identity", "c", "again", vec![]),
        ],
        "again next",
    );
    let nodes = vec![
        node("SequenceLength", "s", "count", vec![]),
        node("SequenceEmpty", "", "none", vec![]),
        node("Loop", "count _ none", "t", vec![body]),
    ];
    let model = with_input(model(17, nodes), "s", sequence()).output("t");
    let options = ImportOptions::default().sequence("s", 2).shape("s[0]", &[]).shape("s[1]", &[1]);
    let target = targets().remove(0);
    let vm = compiled_with(&model, &target, &options).unwrap();
    let got = run(&vm, &[Tensor::scalar(1.0f32), floats(&[2.0], &[1])]);
    assert_near(&got[0], &Tensor::scalar(-1.0f32), "t[0]");
    assert_near(&got[1], &floats(&[-2.0], &[1]), "t[1]");
}

/// Loops hand on sequences whose length stays the same; where it changes, import must know the number of iterations.
#[test]
fn loops_that_hand_on_sequences() {
    let params = [("i", DataType::I64, ""), ("c", DataType::BOOL, ""), ("pair", DataType::F32, "")];
    let again = || node("Identity", "c", "again", vec![]);
    let turning = vec![
        again(),
        node("SequenceAt", "pair zero", "a", vec![]),
        node("SequenceAt", "pair one", "b", vec![]),
        node("Add", "a b", "sum", vec![]),
        node("SequenceConstruct", "b sum", "next", vec![]),
    ];
    let growing = vec![again(), node("SequenceInsert", "pair x", "next", vec![])];
    let model = |trip: &str, body: Vec<NodeProto>| {
        let start = node("SequenceConstruct", "x y", "start", vec![]);
        let body = graph("body", &params, body, "again next");
        let nodes = vec![start, node("Loop", &format!("{trip} _ start"), "t", vec![body])];
        (model(17, nodes).input("x", "1").input("y", "1").typed("m", DataType::I64, "").output("t"))
            .constant("zero", &Tensor::scalar(0i64))
            .constant("one", &Tensor::scalar(1i64))
            .constant("many", &Tensor::scalar(300i64))
            .constant("more", &Tensor::scalar(3000i64))
    };
    let number = |it: f32| floats(&[it], &[1]);
    for target in targets() {
        let vm = compiled(&model("m", turning.clone()), &target).unwrap();
        for (trip, want) in [(0i64, [1.0, 2.0]), (1, [2.0, 3.0]), (6, [21.0, 34.0])] {
            let got = run(&vm, &[number(1.0), number(2.0), Tensor::scalar(trip)]);
            assert_near(&got[0], &number(want[0]), &format!("{trip} iterations on {target}"));
            assert_near(&got[1], &number(want[1]), &format!("{trip} iterations on {target}"));
        }
    }
    let vm = compiled(&model("many", growing.clone()), &targets()[0]).unwrap();
    let got = run(&vm, &[number(1.0), number(2.0), Tensor::scalar(0i64)]);
    assert_eq!((got.len(), got[301].to_vec::<f32>().unwrap()), (302, vec![1.0]));
    for trip in ["m", "more"] {
        let message = refusal(&model(trip, growing.clone()));
        assert!(message.contains("change the length of a sequence"), "{trip}: {message}");
    }
}

#[test]
fn optional_inputs() {
    let has = |ty: TypeProto| {
        let nodes = vec![node("OptionalHasElement", "o", "y", vec![])];
        with_input(model(18, nodes), "o", ty).output("y")
    };
    let target = targets().remove(0);
    for (ty, options, count, want) in [
        (optional(None), ImportOptions::default().absent("o"), 0, false),
        (optional(None), ImportOptions::default().shape("o", &[1]), 1, true),
        (optional(Some(sequence())), ImportOptions::default().sequence("o", 0), 0, true),
    ] {
        let vm = compiled_with(&has(ty), &target, &options).unwrap();
        let args = vec![floats(&[1.0], &[1]); count];
        assert_eq!(run(&vm, &args)[0].as_slice::<bool>().unwrap(), [want]);
    }
}

#[test]
fn options_that_fit_no_input() {
    let nodes = vec![node("SequenceLength", "s", "y", vec![])];
    let model = with_input(model(17, nodes), "s", sequence()).output("y");
    for (options, want) in [
        (ImportOptions::default(), "sequences of unknown length as inputs"),
        (ImportOptions::default().sequence("s", 1), "inputs of unknown rank"),
        (
            ImportOptions::default().sequence("s", 0).sequence("z", 1),
            "there is no sequence `z`; there are [s]",
        ),
        (ImportOptions::default().sequence("s", 0).absent("s"), "there is no optional input `s`"),
        (
            ImportOptions::default().sequence("s", 1).shape("s[0]", &[1]).shape("s[1]", &[1]),
            "there is no input `s[1]`",
        ),
    ] {
        let err = import_proto(&model, None, &options).unwrap_err().to_string();
        assert!(err.contains(want), "{err}");
    }
}

/// Both arms give a sequence of two elements.
#[test]
fn branches_that_give_sequences() {
    let arm = |name: &str, inputs: &str, out: &'static str| {
        graph(name, &[], vec![node("SequenceConstruct", inputs, out, vec![])], out)
    };
    let arms = vec![arm("then_branch", "x z", "a"), arm("else_branch", "z x", "b")];
    let nodes = vec![node("Neg", "x", "z", vec![]), node("If", "c", "s", arms)];
    let model = model(17, nodes).input("x", "n").typed("c", DataType::BOOL, "").output("s");
    for target in targets() {
        let vm = compiled_with(&model, &target, &ImportOptions::default()).unwrap();
        for (cond, sign) in [(true, 1.0), (false, -1.0)] {
            let got = run(&vm, &[floats(&[1.0, 2.0], &[2]), Tensor::scalar(cond)]);
            assert_near(&got[0], &floats(&[sign, 2.0 * sign], &[2]), "s[0]");
            assert_near(&got[1], &floats(&[-sign, -2.0 * sign], &[2]), "s[1]");
        }
    }
}

/// Sizes of parts that are inputs: as many parts as sizes, or parts of one size, whose number only a run knows.
#[test]
fn sizes_that_only_a_run_knows() {
    let x = floats(&[1.0, 2.0, 3.0, 4.0, 5.0], &[5]);
    let split = || node("SplitToSequence", "x sizes", "s", vec![]);
    let listed = model(17, vec![split()]).input("x", "n").typed("sizes", DataType::I64, "2").output("s");
    let one = vec![
        split(),
        node("SequenceLength", "s", "count", vec![]),
        node("SequenceAt", "s last", "part", vec![]),
        node("ConcatFromSequence", "s", "all", vec![int("axis", 0)]),
    ];
    let one = (model(17, one).input("x", "5").typed("sizes", DataType::I64, ""))
        .output("count")
        .output("part")
        .output("all")
        .constant("last", &Tensor::scalar(-1i64));
    for target in targets() {
        let vm = compiled(&listed, &target).unwrap();
        let sizes = |it: &[i64]| Tensor::from_slice(it, &[it.len() as i64]).unwrap();
        let got = run(&vm, &[x.clone(), sizes(&[2, 3])]);
        assert_near(&got[0], &floats(&[1.0, 2.0], &[2]), "the first part");
        assert_near(&got[1], &floats(&[3.0, 4.0, 5.0], &[3]), "the last part");
        let got = run(&vm, &[x.clone(), sizes(&[5, 0])]);
        assert_near(&got[1], &floats(&[], &[0]), "an empty part");
        for bad in [[2, 2], [2, 4], [-1, 6], [6, -1]] {
            assert!(vm.invoke("main", &[(&x).into(), (&sizes(&bad)).into()]).is_err(), "{bad:?} on {target}");
        }
        let vm = compiled(&one, &target).unwrap();
        for (size, count, part) in
            [(1i64, 5i64, &[5.0][..]), (2, 3, &[5.0]), (3, 2, &[4.0, 5.0]), (9, 1, &x.to_vec().unwrap())]
        {
            let got = run(&vm, &[x.clone(), Tensor::scalar(size)]);
            assert_eq!(got[0], Tensor::scalar(count), "parts of {size}");
            assert_near(&got[1], &floats(part, &[part.len() as i64]), "the last part");
            assert_near(&got[2], &x, "all parts");
        }
        for bad in [0i64, -1, i64::MIN] {
            assert!(vm.invoke("main", &[(&x).into(), (&Tensor::scalar(bad)).into()]).is_err(), "{bad}");
        }
    }
    for (sizes, want) in
        [(&[2i64, 2][..], "do not add up"), (&[4], "do not add up"), (&[6, -1], "do not add up")]
    {
        let model = model(17, vec![split()]).input("x", "5").output("s");
        let message =
            refusal(&model.constant("sizes", &Tensor::from_slice(sizes, &[sizes.len() as i64]).unwrap()));
        assert!(message.contains(want), "{sizes:?}: {message}");
    }
}
