//! Number of inputs that operators take: the maximum over all versions of the definition.

use super::Convert;

/// Operators with one input that have their own converter.
const ONE: &[&str] = &[
    "ArgMax",
    "ArgMin",
    "AveragePool",
    "Bernoulli",
    "BitCast",
    "BlackmanWindow",
    "Cast",
    "Celu",
    "ConcatFromSequence",
    "ConstantOfShape",
    "DepthToSpace",
    "Det",
    "DynamicQuantizeLinear",
    "Elu",
    "EyeLike",
    "Flatten",
    "Gelu",
    "GlobalAveragePool",
    "GlobalLpPool",
    "GlobalMaxPool",
    "HammingWindow",
    "HannWindow",
    "HardSigmoid",
    "HardSwish",
    "Hardmax",
    "Identity",
    "If",
    "IsInf",
    "LRN",
    "LeakyRelu",
    "LogSoftmax",
    "LpNormalization",
    "LpPool",
    "MaxPool",
    "MeanVarianceNormalization",
    "Mish",
    "Multinomial",
    "NonZero",
    "Optional",
    "OptionalGetElement",
    "OptionalHasElement",
    "RandomNormalLike",
    "RandomUniformLike",
    "Reciprocal",
    "RegexFullMatch",
    "Selu",
    "SequenceLength",
    "Shape",
    "Shrink",
    "Size",
    "Softmax",
    "Softplus",
    "Softsign",
    "SpaceToDepth",
    "StringNormalizer",
    "StringSplit",
    "Swish",
    "TfIdfVectorizer",
    "ThresholdedRelu",
    "Transpose",
    "Unique",
];

/// Operators with two inputs.
const TWO: &[&str] = &[
    "StringConcat",
    "AffineGrid",
    "BitShift",
    "CastLike",
    "CenterCropPad",
    "Compress",
    "CumProd",
    "CumSum",
    "Expand",
    "Gather",
    "GatherElements",
    "GatherND",
    "GridSample",
    "MatMul",
    "Mod",
    "PRelu",
    "Pow",
    "RMSNormalization",
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
    "Reshape",
    "ReverseSequence",
    "SequenceAt",
    "SequenceErase",
    "SimplifiedLayerNormalization",
    "Split",
    "SplitToSequence",
    "Squeeze",
    "SwiGLU",
    "TopK",
    "Trilu",
    "Unsqueeze",
    "Upsample",
];

/// Operators with three inputs.
const THREE: &[&str] = &[
    "Clip",
    "Col2Im",
    "Conv",
    "ConvTranspose",
    "DFT",
    "DequantizeLinear",
    "Dropout",
    "Gemm",
    "GroupNormalization",
    "InstanceNormalization",
    "LayerNormalization",
    "MaxUnpool",
    "NegativeLogLikelihoodLoss",
    "OneHot",
    "QuantizeLinear",
    "Range",
    "RoiAlign",
    "Scatter",
    "ScatterElements",
    "ScatterND",
    "SequenceInsert",
    "SoftmaxCrossEntropyLoss",
    "TensorScatter",
    "Tile",
    "Where",
];

/// Operators with another number of inputs. Operators that take any number are in no table.
const OTHERS: &[(&str, usize)] = &[
    ("Attention", 7),
    ("BatchNormalization", 5),
    ("Constant", 0),
    ("ConvInteger", 4),
    ("DeformConv", 5),
    ("GRU", 6),
    ("LSTM", 8),
    ("LinearAttention", 6),
    ("MatMulInteger", 4),
    ("MelWeightMatrix", 5),
    ("NonMaxSuppression", 5),
    ("Pad", 4),
    ("QLinearConv", 9),
    ("QLinearMatMul", 8),
    ("RNN", 6),
    ("RandomNormal", 0),
    ("RandomUniform", 0),
    ("Resize", 4),
    ("RotaryEmbedding", 4),
    ("STFT", 4),
    ("SequenceEmpty", 0),
    ("Slice", 5),
];

/// Operators of the domains beside the standard one, with their numbers of inputs. Those that take any number are missing.
const EXTENSIONS: &[(&str, usize)] = &[
    ("ArrayFeatureExtractor", 2),
    ("Attention", 7),
    ("BiasGelu", 2),
    ("Binarizer", 1),
    ("DynamicQuantizeLSTM", 12),
    ("DynamicQuantizeMatMul", 5),
    ("EmbedLayerNormalization", 9),
    ("FastGelu", 2),
    ("FlexAttention", 3),
    ("FusedConv", 4),
    ("FusedGemm", 3),
    ("FusedMatMul", 2),
    ("Gelu", 1),
    ("GroupQueryAttention", 14),
    ("Imputer", 1),
    ("LabelEncoder", 1),
    ("LinearClassifier", 1),
    ("LinearRegressor", 1),
    ("MatMulIntegerToFloat", 7),
    ("MatMulNBits", 6),
    ("MultiHeadAttention", 10),
    ("Normalizer", 1),
    ("OneHotEncoder", 1),
    ("QLinearAdd", 8),
    ("QLinearAveragePool", 5),
    ("QLinearGlobalAveragePool", 5),
    ("QLinearLeakyRelu", 5),
    ("QLinearMul", 8),
    ("QLinearSigmoid", 5),
    ("QuickGelu", 1),
    ("RotaryEmbedding", 4),
    ("SVMRegressor", 1),
    ("Scaler", 1),
    ("SkipLayerNormalization", 5),
    ("SkipSimplifiedLayerNormalization", 4),
    ("TreeEnsemble", 1),
    ("TreeEnsembleClassifier", 1),
    ("TreeEnsembleRegressor", 1),
    ("ZipMap", 1),
];

/// Maximum number of inputs of the operator `name` of a domain beside the standard one, if it has one.
pub(super) fn max_inputs_of_extension(name: &str) -> Option<usize> {
    EXTENSIONS.iter().find(|it| it.0 == name).map(|it| it.1)
}

/// Operators that take any number of inputs, or whose number is not checked.
#[cfg(test)]
const ANY: &[&str] =
    &["CausalConvWithState", "Concat", "Einsum", "Loop", "Mean", "Scan", "SequenceConstruct", "SequenceMap"];

/// Maximum number of inputs of the operator `name`, if it has one.
pub(super) fn max_inputs(name: &str, convert: &Convert) -> Option<usize> {
    match convert {
        Convert::Unary(_) => Some(1),
        // Before opset 7 the broadcast axis is an attribute.
        Convert::Binary(_) => Some(2),
        Convert::Variadic(_) => None,
        Convert::With(_) => {
            let tables = [(TWO, 2), (ONE, 1), (THREE, 3)];
            let listed = tables.iter().find(|(names, _)| names.contains(&name)).map(|&(_, n)| n);
            listed.or_else(|| OTHERS.iter().find(|it| it.0 == name).map(|it| it.1))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetIdProto, ValueInfoProto};
    use crate::{ImportOptions, import_proto};

    /// Imports a graph of one node with `inputs` constants and the output `y`; returns the error, if any.
    fn refusal(op: &str, inputs: usize) -> Option<String> {
        let names: Vec<String> = (0..inputs).map(|i| format!("c{i}")).collect();
        let constant = |name: &String| crate::proto::TensorProto {
            name: name.clone(),
            dims: vec![2],
            data_type: 1,
            float_data: vec![1.0, 2.0],
            ..Default::default()
        };
        let node = NodeProto {
            op_type: op.into(),
            input: names.clone(),
            output: vec!["y".into()],
            ..NodeProto::default()
        };
        let graph = GraphProto {
            node: vec![node],
            initializer: names.iter().map(constant).collect(),
            output: vec![ValueInfoProto { name: "y".into(), ..ValueInfoProto::default() }],
            ..GraphProto::default()
        };
        let set = OperatorSetIdProto { version: 17, ..OperatorSetIdProto::default() };
        let model = ModelProto { graph: Some(graph), opset_import: vec![set], ..ModelProto::default() };
        import_proto(&model, None, &ImportOptions::default()).err().map(|err| err.to_string())
    }

    #[test]
    fn surplus_inputs_are_refused() {
        for (op, most) in [("Relu", 1), ("Add", 2), ("MatMul", 2), ("Where", 3), ("Softmax", 1)] {
            let refused = refusal(op, most + 1).unwrap_or_default();
            assert!(refused.contains(&format!("the operator takes {most}")), "{op}: {refused}");
        }
        assert_eq!(refusal("Sum", 4), None);
        assert_eq!(refusal("Add", 2), None);
    }

    #[test]
    fn every_operator_has_its_number() {
        for row in super::super::TABLES.iter().flat_map(|table| table.iter()) {
            let any = matches!(row.convert, Convert::Variadic(_)) || ANY.contains(&row.name);
            assert_eq!(max_inputs(row.name, &row.convert).is_none(), any, "{}", row.name);
        }
        for (domain, name) in super::super::supported_extension_ops() {
            let any = matches!(name, "Adagrad" | "Adam" | "FeatureVectorizer" | "Momentum" | "QLinearConcat");
            assert_eq!(max_inputs_of_extension(name).is_none(), any, "{domain} {name}");
        }
    }
}
