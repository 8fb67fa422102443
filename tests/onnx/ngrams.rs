//! Counts of n-grams, with results that onnxruntime computed.

use tvm_core::target::Target;
use tvm_onnx::proto::{AttributeProto, AttributeType};
use tvm_runtime::{DataType, Tensor};

use crate::build::{
    Build, assert_near, compiled, floats, int, ints, longs, model, node, refusal, run, string,
};

/// Unigrams 2, 3 and bigrams 5 4, 5 6; place 2 of the result belongs to none.
fn attrs(mode: &'static str, [least, most, skip]: [i64; 3]) -> Vec<AttributeProto> {
    let ty = AttributeType::Floats as i32;
    let weights = vec![2.0, 3.0, 4.0, 5.0];
    vec![
        string("mode", mode),
        int("min_gram_length", least),
        int("max_gram_length", most),
        int("max_skip_count", skip),
        ints("ngram_counts", &[0, 2]),
        ints("ngram_indexes", &[4, 0, 1, 3]),
        ints("pool_int64s", &[2, 3, 5, 4, 5, 6]),
        AttributeProto { name: "weights".into(), ty, floats: weights, ..AttributeProto::default() },
    ]
}

#[test]
fn counts_and_weights() {
    let x = longs(&[3, 5, 4, 5, 2, 6, 3]);
    for (mode, lengths, want) in [
        ("TF", [1, 2, 0], [2.0, 1.0, 0.0, 0.0, 1.0]),
        ("TF", [2, 2, 1], [0.0, 1.0, 0.0, 1.0, 0.0]),
        ("TF", [1, 1, 3], [2.0, 0.0, 0.0, 0.0, 1.0]),
        ("TF", [2, 2, 9], [0.0, 1.0, 0.0, 2.0, 0.0]),
        ("IDF", [1, 2, 1], [3.0, 4.0, 0.0, 5.0, 2.0]),
        ("TFIDF", [1, 2, 3], [6.0, 4.0, 0.0, 10.0, 2.0]),
    ] {
        let tfidf = || node("TfIdfVectorizer", "x", "y", attrs(mode, lengths));
        let rows = Tensor::from_vec([x.as_slice::<i64>().unwrap(), &[0; 7]].concat(), &[2, 7]).unwrap();
        let both = [&want[..], &[0.0; 5]].concat();
        for (dims, x, want) in [("n", &x, floats(&want, &[5])), ("r n", &rows, floats(&both, &[2, 5]))] {
            let model = model(9, vec![tfidf()]).typed("x", DataType::I64, dims).output("y");
            let vm = compiled(&model, &Target::interpreter()).unwrap();
            assert_near(&run(&vm, std::slice::from_ref(x))[0], &want, &format!("{mode} {lengths:?} {dims}"));
        }
    }
    // Any number of distances takes one kernel, also for rows of a length that only a run knows.
    let many = model(9, vec![node("TfIdfVectorizer", "x", "y", attrs("TF", [1, 2, 65_000]))]);
    let vm = compiled(&many.typed("x", DataType::I64, "n").output("y"), &Target::interpreter()).unwrap();
    for (x, want) in [(&[3, 5, 4, 5, 2, 6, 3][..], [2.0, 1.0, 0.0, 2.0, 1.0]), (&[], [0.0; 5])] {
        assert_near(&run(&vm, &[longs(x)])[0], &floats(&want, &[5]), "many distances");
    }
    // A row shorter than an n-gram has none.
    let model = model(9, vec![node("TfIdfVectorizer", "x", "y", attrs("TF", [2, 2, 4]))]);
    let vm = compiled(&model.typed("x", DataType::I64, "n").output("y"), &Target::interpreter()).unwrap();
    assert_near(&run(&vm, &[longs(&[5])])[0], &floats(&[0.0; 5], &[5]), "short");
}

#[test]
fn contradictions_are_refused() {
    for (i, attr, want) in [
        (0, string("mode", "DF"), "attribute `mode` is `DF`"),
        (2, int("max_gram_length", 0), "attribute `max_gram_length` is 0"),
        (4, ints("ngram_counts", &[0, 3]), "the 2-grams are 3..6 of a pool of 6"),
        (4, ints("ngram_counts", &[0, 7]), "the 1-grams are 0..7 of a pool of 6"),
        (5, ints("ngram_indexes", &[0, 1]), "2 places for 4 n-grams"),
        (5, ints("ngram_indexes", &[4, 0, 1, 1]), "two n-grams that share place 1"),
        (6, ints("other", &[]), "the 1-grams are 0..2 of a pool of 0"),
    ] {
        let mut attrs = attrs("TF", [1, 2, 0]);
        attrs[i] = attr;
        let model = model(9, vec![node("TfIdfVectorizer", "x", "y", attrs)]).typed("x", DataType::I64, "7");
        let message = refusal(&model.output("y"));
        assert!(message.contains(want), "{want}: {message}");
    }
}
