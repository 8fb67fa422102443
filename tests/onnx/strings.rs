//! Strings: tensors of bytes with one more axis at the end.

use tvm_onnx::proto::{AttributeProto, AttributeType, ModelProto, TensorProto, ValueInfoProto};
use tvm_onnx::{ImportOptions, decode_strings, encode_strings, import_proto};
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, floats, graph, info, int, ints, longs, model, node, refusal, run, string,
    targets,
};

fn texts(name: &str, texts: &[&'static str]) -> AttributeProto {
    let ty = AttributeType::Strings as i32;
    let strings = texts.iter().map(|it| it.as_bytes().into()).collect();
    AttributeProto { name: name.into(), ty, strings, ..AttributeProto::default() }
}

/// Adds an input of strings.
fn with_strings(mut model: ModelProto, name: &str, dims: &str) -> ModelProto {
    let mut input: ValueInfoProto = info(name, DataType::U8, dims);
    input.ty.as_mut().unwrap().tensor_type.as_mut().unwrap().elem_type = 8;
    model.graph.as_mut().unwrap().input.push(input);
    model
}

fn strings(values: &[&str], shape: &[i64]) -> Tensor {
    encode_strings(values, shape).unwrap()
}

/// Shape and strings of a result.
fn shown(tensor: &Tensor) -> (Vec<i64>, Vec<String>) {
    let (_, shape) = tensor.shape().split_last().unwrap();
    (shape.to_vec(), decode_strings(tensor).unwrap())
}

/// Runs one node on all executors and compares its first output, which is strings.
fn check(make: &dyn Fn(ModelProto) -> ModelProto, args: &[Tensor], shape: &[i64], want: &[&str]) {
    let model = make(model(20, vec![])).output("y");
    for target in targets() {
        let got = run(&compiled(&model, &target).unwrap(), args);
        let want = want.iter().map(|it| it.to_string()).collect();
        assert_eq!(shown(&got[0]), (shape.to_vec(), want), "{target}");
    }
}

fn push(mut model: ModelProto, node: tvm_onnx::proto::NodeProto) -> ModelProto {
    model.graph.as_mut().unwrap().node.push(node);
    model
}

#[test]
fn strings_after_strings() {
    let model = |it| {
        let it = with_strings(with_strings(it, "a", "n m"), "b", "m");
        push(it, node("StringConcat", "a b", "y", vec![]))
    };
    let args = [strings(&["x", "", "äb", "longer"], &[2, 2]), strings(&["123", "-"], &[2])];
    check(&model, &args, &[2, 2], &["x123", "-", "äb123", "longer-"]);
}

/// Operators that move elements move strings.
#[test]
fn strings_are_moved() {
    let args = [strings(&["a", "bcd", "", "e", "fg", "h"], &[2, 3])];
    let on = |nodes: Vec<tvm_onnx::proto::NodeProto>| {
        move |it: ModelProto| {
            let it =
                with_strings(it, "x", "2 3").constant("axis", &longs(&[0])).constant("to", &longs(&[3, 2]));
            nodes.iter().cloned().fold(it, push)
        }
    };
    let one = |op, inputs, attrs| on(vec![node(op, inputs, "y", attrs)]);
    check(&one("Transpose", "x", vec![]), &args, &[3, 2], &["a", "e", "bcd", "fg", "", "h"]);
    check(&one("Reshape", "x to", vec![]), &args, &[3, 2], &["a", "bcd", "", "e", "fg", "h"]);
    check(&one("Gather", "x axis", vec![int("axis", -1)]), &args, &[2, 1], &["a", "e"]);
    let twice = vec![
        node("Transpose", "x", "t", vec![]),
        node("Reshape", "x to", "r", vec![]),
        node("Concat", "t r", "y", vec![int("axis", 1)]),
    ];
    let want = ["a", "e", "a", "bcd", "bcd", "fg", "", "e", "", "h", "fg", "h"];
    check(&on(twice), &args, &[3, 4], &want);
    let arms = vec![
        graph("then_branch", &[], vec![node("Identity", "x", "p", vec![])], "p"),
        graph(
            "else_branch",
            &[],
            vec![node("Transpose", "x", "t", vec![]), node("Reshape", "t two", "q", vec![])],
            "q",
        ),
    ];
    let branch = |it: ModelProto| {
        let it = with_strings(it, "x", "2 3").typed("c", DataType::BOOL, "").constant("two", &longs(&[2, 3]));
        push(it, node("If", "c", "y", arms.clone()))
    };
    let args = [args[0].clone(), Tensor::scalar(false)];
    check(&branch, &args, &[2, 3], &["a", "e", "bcd", "fg", "", "h"]);
}

#[test]
fn equal_strings_and_patterns() {
    let equal =
        with_strings(with_strings(model(19, vec![node("Equal", "a b", "y", vec![])]), "a", "n"), "b", "1");
    let full = |pattern: &'static str| {
        let it = model(20, vec![node("RegexFullMatch", "x", "y", vec![string("pattern", pattern)])]);
        with_strings(it, "x", "r c").output("y")
    };
    let x = strings(&["aab", "ab", "b", "xaab", "aabx", ""], &[2, 3]);
    for target in targets() {
        let vm = compiled(&equal.clone().output("y"), &target).unwrap();
        let got = run(&vm, &[strings(&["ab", "abc", "a", "b"], &[4]), strings(&["ab"], &[1])]);
        assert_eq!(got[0].as_slice::<bool>().unwrap(), [true, false, false, false]);
        for (pattern, want) in [
            ("a+b", [true, true, false, false, false, false]),
            ("(a|x)*b?", [true, true, true, true, false, true]),
            ("[^b]+|b", [false, false, true, false, false, false]),
            (r"[\wé]*a\b\W?|\w{2}\b", [false, true, false, false, false, false]),
            (r"\D\Sa.", [false, false, false, true, false, false]),
            ("", [false, false, false, false, false, true]),
        ] {
            let got = run(&compiled(&full(pattern), &target).unwrap(), std::slice::from_ref(&x));
            assert_eq!(
                (got[0].shape(), got[0].as_slice::<bool>().unwrap()),
                (&[2, 3][..], &want[..]),
                "{pattern}"
            );
        }
    }
    assert!(refusal(&full("(")).contains("the pattern `(`"));
}

/// The parts are those that `str.split` of Python gives.
#[test]
fn strings_in_parts() {
    let split = |attrs: Vec<AttributeProto>| {
        with_strings(model(20, vec![node("StringSplit", "x", "y n", attrs)]), "x", "k")
            .output("y")
            .output("n")
    };
    type Case<'a> = (Vec<AttributeProto>, &'a [&'a str], &'a [&'a [&'a str]]);
    let cases: &[Case<'_>] = &[
        (
            vec![string("delimiter", ".")],
            &["abc.com", "", "a..b."],
            &[&["abc", "com"], &[""], &["a", "", "b", ""]],
        ),
        (vec![string("delimiter", "aa")], &["aaab", "xaax", "a"], &[&["", "ab"], &["x", "x"], &["a"]]),
        (vec![], &["  a  b ", "c", " "], &[&["a", "b"], &["c"], &[]]),
        (vec![int("maxsplit", 1)], &["a b  c", "d"], &[&["a", "b  c"], &["d"]]),
        (
            vec![string("delimiter", "-"), int("maxsplit", 2)],
            &["o-n-e-!", "t"],
            &[&["o", "n", "e-!"], &["t"]],
        ),
        (vec![], &[], &[]),
    ];
    for (attrs, given, want) in cases {
        for target in targets() {
            let got = run(
                &compiled(&split(attrs.clone()), &target).unwrap(),
                &[strings(given, &[given.len() as i64])],
            );
            let counts: Vec<i64> = want.iter().map(|it| it.len() as i64).collect();
            assert_eq!(got[1].as_slice::<i64>().unwrap(), counts, "{given:?} on {target}");
            let most = counts.iter().copied().max().unwrap_or(0);
            let (shape, parts) = shown(&got[0]);
            assert_eq!(shape, [given.len() as i64, most]);
            for (i, want) in want.iter().enumerate() {
                let row = &parts[i * most as usize..(i + 1) * most as usize];
                assert_eq!(row[..want.len()], **want, "{given:?} on {target}");
                assert!(row[want.len()..].iter().all(String::is_empty));
            }
        }
    }
}

#[test]
fn words_without_stop_words() {
    let words = ["monday", "Tuesday", "THURSDAY"];
    let normalized = |case: &'static str, sensitive, stops: &[&'static str], dims: &'static str| {
        let attrs = vec![
            string("case_change_action", case),
            int("is_case_sensitive", sensitive),
            texts("stopwords", stops),
        ];
        move |it: ModelProto| {
            push(with_strings(it, "x", dims), node("StringNormalizer", "x", "y", attrs.clone()))
        }
    };
    let args = [strings(&words, &[3])];
    check(&normalized("UPPER", 1, &["monday"], "n"), &args, &[2], &["TUESDAY", "THURSDAY"]);
    check(&normalized("LOWER", 1, &["tuesday"], "n"), &args, &[3], &["monday", "tuesday", "thursday"]);
    check(&normalized("NONE", 0, &["TUESDAY", "thursday"], "n"), &args, &[1], &["monday"]);
    check(&normalized("NONE", 0, &["monday", "tuesday", "thursday"], "n"), &args, &[1], &[""]);
    check(&normalized("NONE", 1, &[], "1 n"), &[strings(&["é"], &[1, 1])], &[1, 1], &["é"]);
    // The case of letters beyond ASCII is not known.
    let model = normalized("UPPER", 1, &[], "n")(model(20, vec![])).output("y");
    let vm = compiled(&model, &targets()[0]).unwrap();
    assert!(vm.invoke("main", &[(&strings(&["é"], &[1])).into()]).is_err());
}

#[test]
fn labels_are_strings() {
    let encode = |attrs: Vec<AttributeProto>| {
        let mut it = node("LabelEncoder", "x", "y", attrs);
        it.domain = "ai.onnx.ml".into();
        it
    };
    let numbers =
        vec![texts("keys_strings", &["a", "bb"]), ints("values_int64s", &[7, 9]), int("default_int64", -1)];
    let model_of = with_strings(model(17, vec![encode(numbers)]), "x", "n").output("y");
    let got = run(&compiled(&model_of, &targets()[0]).unwrap(), &[strings(&["bb", "b", "a"], &[3])]);
    assert_eq!(got[0].as_slice::<i64>().unwrap(), [9, -1, 7]);
    let names = vec![ints("keys_int64s", &[1, 2]), texts("values_strings", &["one", "two"])];
    let back = |it: ModelProto| push(it.typed("x", DataType::I64, "n"), encode(names.clone()));
    check(&back, &[longs(&[2, 1, 3])], &[3], &["two", "one", "_Unused"]);

    let mut linear = node(
        "LinearClassifier",
        "x",
        "y s",
        vec![
            AttributeProto {
                name: "coefficients".into(),
                ty: AttributeType::Floats as i32,
                floats: vec![1.0, 0.0, 0.0, 1.0, -1.0, -1.0],
                ..AttributeProto::default()
            },
            texts("classlabels_strings", &["first", "second", "none"]),
        ],
    );
    linear.domain = "ai.onnx.ml".into();
    let mut zip = node("ZipMap", "s", "m", vec![texts("classlabels_strings", &["first", "second", "none"])]);
    zip.domain = "ai.onnx.ml".into();
    let scores = push(push(model(17, vec![]).input("x", "n 2"), linear.clone()), zip.clone()).output("m");
    let got = run(&compiled(&scores, &targets()[0]).unwrap(), &[floats(&[3.0, 1.0], &[1, 2])]);
    assert_near(&got[0], &floats(&[3.0, 1.0, -4.0], &[1, 3]), "scores");
    let classify = |it: ModelProto| push(it.input("x", "n 2"), linear.clone());
    check(
        &classify,
        &[floats(&[3.0, 1.0, 0.0, 2.0, -1.0, -1.0], &[3, 2])],
        &[3],
        &["first", "second", "none"],
    );
}

#[test]
fn counts_of_words() {
    let attrs = vec![
        string("mode", "TF"),
        int("min_gram_length", 1),
        int("max_gram_length", 2),
        int("max_skip_count", 0),
        ints("ngram_counts", &[0, 2]),
        ints("ngram_indexes", &[0, 1, 2]),
        texts("pool_strings", &["the", "cat", "the", "cat"]),
    ];
    let model = with_strings(model(9, vec![node("TfIdfVectorizer", "x", "y", attrs)]), "x", "n").output("y");
    for target in targets() {
        let got =
            run(&compiled(&model, &target).unwrap(), &[strings(&["the", "cat", "saw", "the", "cats"], &[5])]);
        assert_near(&got[0], &floats(&[2.0, 1.0, 1.0], &[3]), &target.to_string());
    }
}

/// The axis of the bytes is no axis of the strings.
#[test]
fn extents_of_strings() {
    let nodes = vec![node("Shape", "x", "s", vec![]), node("Size", "x", "n", vec![])];
    let model = with_strings(model(20, nodes), "x", "a b").output("s").output("n");
    let got = run(&compiled(&model, &targets()[0]).unwrap(), &[strings(&["p", "qrs", "", ""], &[1, 4])]);
    assert_eq!(
        (got[0].as_slice::<i64>().unwrap(), got[1].as_slice::<i64>().unwrap()),
        (&[1, 4][..], &[4][..])
    );
}

/// Constants are strings, too; what computes with numbers refuses them; damaged ones are refused.
#[test]
fn constants_and_refusals() {
    let words = |count: i64| TensorProto {
        name: "w".into(),
        dims: vec![count],
        data_type: 8,
        string_data: vec![b"red".to_vec().into(), b"green".to_vec().into()],
        ..TensorProto::default()
    };
    let make = |op: &str, count| {
        let mut it = model(20, vec![node(op, "w", "y", vec![])]).output("y").input("unused", "1");
        it.graph.as_mut().unwrap().initializer.push(words(count));
        it
    };
    let module = import_proto(&make("Identity", 2), None, &ImportOptions::default()).unwrap();
    assert!(module.to_string().contains(r#"output_elements = ["string"]"#), "{module}");
    assert!(refusal(&make("Relu", 2)).contains("strings in place of numbers"));
    assert!(refusal(&make("Identity", 3)).contains("has 3 strings, got 2"));
}

/// Axes that only a run knows: the rest of the graph is converted for each, with the strings in mind.
#[test]
fn axes_of_strings_that_only_a_run_knows() {
    let model = |it: ModelProto| {
        push(with_strings(it, "x", "1 3 1"), node("Squeeze", "x axes", "y", vec![])).typed(
            "axes",
            DataType::I64,
            "1",
        )
    };
    let x = strings(&["a", "bc", ""], &[1, 3, 1]);
    check(&model, &[x.clone(), longs(&[2])], &[1, 3], &["a", "bc", ""]);
    check(&model, &[x, longs(&[-3])], &[3, 1], &["a", "bc", ""]);
}

/// The width of the result reads the width of both operands, which are one value.
#[test]
fn strings_joined_with_themselves_again_and_again() {
    let chain = |mut it: ModelProto| {
        for i in 0..10 {
            let from = if i == 0 { "x".to_string() } else { format!("y{i}") };
            let to = if i == 9 { "y".to_string() } else { format!("y{}", i + 1) };
            it = push(it, node("Concat", &format!("{from} {from}"), &to, vec![int("axis", 0)]));
        }
        with_strings(it, "x", "n")
    };
    let want: Vec<&str> = ["a", "", "bc"].into_iter().cycle().take(3 << 10).collect();
    check(&chain, &[strings(&["a", "", "bc"], &[3])], &[3 << 10], &want);
}
