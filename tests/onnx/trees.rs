//! Operators of the domain `ai.onnx.ml`, with results that onnxruntime computed.

use tvm_onnx::proto::{AttributeProto, AttributeType};
use tvm_runtime::Tensor;

use crate::build::{floats, int, ints, longs, refusal, string, tensor};
use crate::extensions::{build, check};

const ML: &str = "ai.onnx.ml";

fn reals(name: &str, floats: &[f32]) -> AttributeProto {
    let ty = AttributeType::Floats as i32;
    AttributeProto { name: name.into(), ty, floats: floats.to_vec(), ..AttributeProto::default() }
}

fn texts(name: &str, texts: &[&'static str]) -> AttributeProto {
    let strings = texts.iter().map(|it| it.as_bytes().into()).collect();
    AttributeProto {
        name: name.into(),
        ty: AttributeType::Strings as i32,
        strings,
        ..AttributeProto::default()
    }
}

fn x() -> Tensor {
    floats(&[-2.0, -0.5, 0.0, 3.0, 1.0, 1.0], &[3, 2])
}

#[test]
fn features() {
    let square = floats(&[-2.0, -0.5, 0.0, 3.0], &[2, 2]);
    let cases = [
        ("Scaler", vec![reals("offset", &[1.0, 2.0]), reals("scale", &[2.0, 3.0])], [-6.0, -7.5, -2.0, 3.0]),
        ("Normalizer", vec![string("norm", "MAX")], [4.0, 1.0, 0.0, 1.0]),
        ("Normalizer", vec![string("norm", "L1")], [-0.8, -0.2, 0.0, 1.0]),
        ("Normalizer", vec![string("norm", "L2")], [-0.970_142_5, -0.242_535_6, 0.0, 1.0]),
        ("Binarizer", vec![crate::build::float("threshold", -0.5)], [0.0, 0.0, 1.0, 1.0]),
    ];
    for (op, attrs, want) in cases {
        check(ML, (op, "i0"), attrs, std::slice::from_ref(&square), &[floats(&want, &[2, 2])]);
    }
    let rows = floats(&[0.0, 0.0, 1.0, -2.0], &[2, 2]);
    let want = floats(&[0.0, 0.0, 0.333_333_34, -0.666_666_7], &[2, 2]);
    check(ML, ("Normalizer", "i0"), vec![string("norm", "L1")], &[rows], &[want]);
    let holes = floats(&[f32::NAN, 1.0, 2.0, f32::NAN], &[2, 2]);
    let attrs = vec![
        reals("imputed_value_floats", &[7.0, 8.0]),
        crate::build::float("replaced_value_float", f32::NAN),
    ];
    check(ML, ("Imputer", "i0"), attrs, &[holes], &[floats(&[7.0, 1.0, 2.0, 8.0], &[2, 2])]);
    let args = [square, floats(&[9.0, 8.0], &[2, 1])];
    let want = floats(&[-2.0, -0.5, 9.0, 0.0, 3.0, 8.0], &[2, 3]);
    check(ML, ("FeatureVectorizer", "i0 i1"), vec![ints("inputdimensions", &[2, 1])], &args, &[want]);
    let want = floats(&[-0.5, -2.0, 3.0, 0.0, 1.0, 1.0], &[3, 2]);
    check(ML, ("ArrayFeatureExtractor", "i0 i1"), vec![], &[x(), longs(&[1, 0])], &[want]);
    let args = [floats(&[1.0, 2.0, 3.0], &[3]), longs(&[1, 0])];
    check(ML, ("ArrayFeatureExtractor", "i0 i1"), vec![], &args, &[floats(&[2.0, 1.0], &[1, 2])]);
}

#[test]
fn categories() {
    let args = [longs(&[3, 9, 5])];
    let want = [floats(&[1.0, 0.0, 0.0, 0.0, 0.0, 1.0], &[3, 2])];
    check(ML, ("OneHotEncoder", "i0"), vec![ints("cats_int64s", &[3, 5])], &args, &want);
    let attrs = |keys: &[i64]| {
        vec![
            ints("keys_int64s", keys),
            reals("values_floats", &[0.5, 0.25]),
            crate::build::float("default_float", -1.0),
        ]
    };
    check(ML, ("LabelEncoder", "i0"), attrs(&[3, 5]), &args, &[floats(&[0.5, -1.0, 0.25], &[3])]);
    let refused = refusal(&build(ML, "LabelEncoder", "i0", attrs(&[3, 3]), &args, "y"));
    assert!(refused.contains("keys that are not distinct numbers"), "{refused}");
    let strict = vec![ints("cats_int64s", &[3, 5]), int("zeros", 0)];
    let refused = refusal(&build(ML, "OneHotEncoder", "i0", strict, &args, "y"));
    assert!(refused.contains("zeros = 0"), "{refused}");
}

#[test]
fn linear_models() {
    let attrs = |transform| {
        vec![
            reals("coefficients", &[1.0, 2.0, 3.0, 4.0]),
            reals("intercepts", &[0.5, 0.25]),
            int("targets", 2),
            string("post_transform", transform),
        ]
    };
    let want = [floats(&[-2.5, -7.75, 6.5, 12.25, 3.5, 7.25], &[3, 2])];
    check(ML, ("LinearRegressor", "i0"), attrs("NONE"), &[x()], &want);
    let want = [0.075_858_176, 0.000_430_554_15, 0.998_498_8, 0.999_995_23, 0.970_687_8, 0.999_290_35];
    check(ML, ("LinearRegressor", "i0"), attrs("LOGISTIC"), &[x()], &[floats(&want, &[3, 2])]);
    let refused = refusal(&build(ML, "LinearRegressor", "i0", attrs("PROBIT"), &[x()], "y"));
    assert!(refused.contains("post_transform PROBIT"), "{refused}");
    let attrs = vec![
        reals("coefficients", &[1.0, 2.0, 3.0, 4.0, 5.0, -6.0]),
        reals("intercepts", &[0.5, 0.25, 0.0]),
        ints("classlabels_ints", &[5, 7, 9]),
    ];
    let scores = floats(&[-2.5, -7.75, -7.0, 6.5, 12.25, -18.0, 3.5, 7.25, -1.0], &[3, 3]);
    check(ML, ("LinearClassifier", "i0"), attrs, &[x()], &[longs(&[5, 7, 7]), scores]);
    let attrs = |transform| {
        vec![
            reals("coefficients", &[1.0, 2.0]),
            reals("intercepts", &[0.5]),
            ints("classlabels_ints", &[5, 7]),
            string("post_transform", transform),
        ]
    };
    let scores = floats(&[3.5, -2.5, -5.5, 6.5, -2.5, 3.5], &[3, 2]);
    check(ML, ("LinearClassifier", "i0"), attrs("NONE"), &[x()], &[longs(&[5, 7, 7]), scores]);
    let scores = [0.924_141_8, 0.075_858_176, 0.001_501_2, 0.998_498_8, 0.029_312_2, 0.970_687_8];
    let want = [longs(&[5, 7, 7]), floats(&scores, &[3, 2])];
    check(ML, ("LinearClassifier", "i0"), attrs("LOGISTIC"), &[x()], &want);
    let machine = |kernel| {
        vec![
            string("kernel_type", kernel),
            reals("kernel_params", &[0.5, 0.25, 2.0]),
            reals("support_vectors", &[1.0, 2.0, 0.0, -1.0]),
            reals("coefficients", &[1.0, -2.0]),
            reals("rho", &[0.25]),
            int("n_supports", 2),
        ]
    };
    for (kernel, want) in [
        ("LINEAR", [-3.75, 12.25, 5.25]),
        ("POLY", [1.3125, 7.6875, 3.1875]),
        ("RBF", [0.011_622_16, 0.617_208_5, 0.692_360_64]),
        ("SIGMOID", [-1.522_518, 2.943_565, 1.681_213]),
    ] {
        check(ML, ("SVMRegressor", "i0"), machine(kernel), &[x()], &[floats(&want, &[3, 1])]);
    }
    let mut plain = machine("LINEAR");
    plain.truncate(5);
    check(ML, ("SVMRegressor", "i0"), plain, &[x()], &[floats(&[-0.75, -5.75, -0.75], &[3, 1])]);
}

/// Two trees; the first node of the first compares with `mode`.
fn trees(mode: &'static str) -> Vec<AttributeProto> {
    let modes = [mode, "LEAF", "BRANCH_LT", "LEAF", "LEAF", "BRANCH_GT", "LEAF", "LEAF"];
    vec![
        ints("nodes_treeids", &[0, 0, 0, 0, 0, 1, 1, 1]),
        ints("nodes_nodeids", &[0, 1, 2, 3, 4, 0, 1, 2]),
        ints("nodes_featureids", &[0, 0, 1, 0, 0, 1, 0, 0]),
        reals("nodes_values", &[-1.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0, 0.0]),
        texts("nodes_modes", &modes),
        ints("nodes_truenodeids", &[1, 0, 3, 0, 0, 1, 0, 0]),
        ints("nodes_falsenodeids", &[2, 0, 4, 0, 0, 2, 0, 0]),
    ]
}

fn weights(kind: &str, ids: &[i64], values: &[f32]) -> Vec<AttributeProto> {
    vec![
        ints(&format!("{kind}_treeids"), &[0, 0, 0, 1, 1, 1]),
        ints(&format!("{kind}_nodeids"), &[1, 3, 4, 1, 2, 2]),
        ints(&format!("{kind}_ids"), ids),
        reals(&format!("{kind}_weights"), values),
    ]
}

#[test]
fn regression_trees() {
    let model = |how| {
        let more =
            [int("n_targets", 2), reals("base_values", &[0.5, 0.25]), string("aggregate_function", how)];
        let values = [10.0, 20.0, 30.0, 1.0, 2.0, 3.0];
        let weights = weights("target", &[0, 1, 0, 1, 0, 1], &values);
        [&trees("BRANCH_LEQ")[..], &weights[..], &more[..]].concat()
    };
    for (how, want) in [
        ("SUM", [12.5, 3.25, 30.5, 1.25, 30.5, 1.25]),
        ("AVERAGE", [6.5, 1.75, 15.5, 0.75, 15.5, 0.75]),
        ("MIN", [2.5, 3.25, 30.5, 1.25, 30.5, 1.25]),
        ("MAX", [10.5, 3.25, 30.5, 1.25, 30.5, 1.25]),
    ] {
        check(ML, ("TreeEnsembleRegressor", "i0"), model(how), &[x()], &[floats(&want, &[3, 2])]);
    }
}

#[test]
fn classification_trees() {
    let model = |labels: &[i64], transform, ids: &[i64], values: &[f32]| {
        let more = [ints("classlabels_int64s", labels), string("post_transform", transform)];
        [&trees("BRANCH_LEQ")[..], &weights("class", ids, values)[..], &more[..]].concat()
    };
    let op = ("TreeEnsembleClassifier", "i0");
    let attrs = model(&[5, 7, 9], "NONE", &[0, 1, 2, 1, 0, 1], &[10.0, 20.0, 30.0, 1.0, 2.0, 3.0]);
    let scores = floats(&[12.0, 3.0, 0.0, 0.0, 1.0, 30.0, 0.0, 1.0, 30.0], &[3, 3]);
    check(ML, op, attrs, &[x()], &[longs(&[5, 9, 9]), scores]);
    // A class without a weight in the leaves of a row is not chosen, though its score 0 is the largest.
    let attrs = model(&[5, 7, 9], "NONE", &[0, 1, 2, 1, 0, 1], &[-10.0, -20.0, -30.0, -1.0, -2.0, -3.0]);
    let scores = floats(&[-12.0, -3.0, 0.0, 0.0, -1.0, -30.0, 0.0, -1.0, -30.0], &[3, 3]);
    check(ML, op, attrs, &[x()], &[longs(&[7, 7, 7]), scores]);
    // One score, with a base value, or of the second class.
    let values = [0.1, -0.2, 0.3, 0.1, -0.2, 0.3];
    let mut attrs = model(&[5, 7], "NONE", &[0; 6], &values);
    attrs.push(reals("base_values", &[0.25]));
    let scores = floats(&[-0.45, 0.45, -0.65, 0.65, -0.65, 0.65], &[3, 2]);
    check(ML, op, attrs, &[x()], &[longs(&[7, 7, 7]), scores]);
    let attrs = model(&[5, 7], "NONE", &[1; 6], &values);
    check(ML, op, attrs, &[x()], &[longs(&[7, 7, 7]), floats(&[0.0, 0.2, 0.0, 0.4, 0.0, 0.4], &[3, 2])]);
    let (positive, signed) = ([0.1, 0.2, 0.3, 0.1, 0.2, 0.3], [0.1, -0.2, 0.3, 0.1, -0.2, 0.3]);
    for (transform, values, labels, scores) in [
        ("NONE", positive, [7, 5, 5], [0.4, 0.6, 0.6, 0.4, 0.6, 0.4]),
        (
            "LOGISTIC",
            positive,
            [7, 5, 5],
            [0.354_343_7, 0.645_656_3, 0.401_312_35, 0.598_687_65, 0.401_312_35, 0.598_687_65],
        ),
        ("NONE", signed, [7, 7, 7], [-0.2, 0.2, -0.4, 0.4, -0.4, 0.4]),
        (
            "LOGISTIC",
            signed,
            [7, 7, 7],
            [0.450_166, 0.549_834, 0.401_312_35, 0.598_687_65, 0.401_312_35, 0.598_687_65],
        ),
    ] {
        let attrs = model(&[5, 7], transform, &[0; 6], &values);
        check(ML, op, attrs, &[x()], &[longs(&labels), floats(&scores, &[3, 2])]);
    }
}

/// Nodes compare with sets of numbers; a node may be reached in several ways.
#[test]
fn sets_of_members() {
    let bytes =
        |name, values: &[u8]| tensor(name, &Tensor::from_slice(values, &[values.len() as i64]).unwrap());
    let reals = |name, values: &[f32]| tensor(name, &floats(values, &[values.len() as i64]));
    let attrs = |modes: &[u8], no: &[i64]| {
        vec![
            reals("nodes_splits", &[10.0, f32::NAN]),
            bytes("nodes_modes", modes),
            ints("nodes_featureids", &[0, 0]),
            ints("nodes_truenodeids", &[1, 0]),
            ints("nodes_falsenodeids", no),
            ints("nodes_trueleafs", &[0, 1]),
            ints("nodes_falseleafs", &[1, 1]),
            reals("membership_values", &[1.0, 4.0, -2.0]),
            reals("leaf_weights", &[1.0, 10.0, 100.0]),
            ints("leaf_targetids", &[0, 0, 0]),
            ints("tree_roots", &[0]),
        ]
    };
    let x = floats(&[4.0, 3.0, 1.0, -2.0, 11.0], &[5, 1]);
    let want = floats(&[1.0, 10.0, 1.0, 1.0, 100.0], &[5, 1]);
    let op = ("TreeEnsemble", "i0");
    check(ML, op, attrs(&[0, 6], &[2, 1]), std::slice::from_ref(&x), &[want]);
    let refused =
        refusal(&build(ML, "TreeEnsemble", "i0", attrs(&[0, 7], &[2, 1]), std::slice::from_ref(&x), "y"));
    assert!(refused.contains("there is no mode 7"), "{refused}");
    let refused = refusal(&build(ML, "TreeEnsemble", "i0", attrs(&[6, 6], &[2, 1]), &[x], "y"));
    assert!(refused.contains("node 1 has no members"), "{refused}");
}

#[test]
fn damaged_trees_are_refused() {
    let refused = |attrs: Vec<AttributeProto>| {
        let more = [int("n_targets", 1)];
        let all = [&attrs[..], &weights("target", &[0; 6], &[1.0; 6])[..], &more[..]].concat();
        refusal(&build(ML, "TreeEnsembleRegressor", "i0", all, &[x()], "y"))
    };
    let message = refused(trees("BRANCH_MEMBER"));
    assert!(message.contains("nodes of mode BRANCH_MEMBER"), "{message}");
    for (i, attr, want) in [
        (6, ints("nodes_falsenodeids", &[1, 0, 4, 0, 0, 2, 0, 0]), "tree 0 has two roots"),
        (6, ints("nodes_falsenodeids", &[2, 0, 0, 0, 0, 2, 0, 0]), "belongs to no tree"),
        (6, ints("nodes_falsenodeids", &[9, 0, 4, 0, 0, 2, 0, 0]), "has no node 9"),
        (2, ints("nodes_featureids", &[7, 0, 1, 0, 0, 1, 0, 0]), "beyond the 2"),
        (1, ints("nodes_nodeids", &[0, 1, 2, 3, 3, 0, 1, 2]), "given twice"),
        (3, reals("nodes_values", &[1.0]), "1 values for 8 nodes"),
    ] {
        let mut attrs = trees("BRANCH_LEQ");
        attrs[i] = attr;
        let message = refused(attrs);
        assert!(message.contains(want), "{want}: {message}");
    }
}
