//! Ensembles of decision trees of the domain `ai.onnx.ml`: tables of nodes, which all rows walk for the depth of the deepest
//! tree. A leaf is its own child.

use rustc_hash::FxHashMap;
use tvm_core::ir::Attrs;
use tvm_core::relax::Arg;
use tvm_runtime::{DataType, Tensor};

use super::features::{Labels, above, largest, table, transformed, two_scores};
use super::{Row, With, numbers, one, row};
use crate::error::OnnxError;
use crate::node::Node;
use crate::value::Value;

pub(super) static ROWS: &[Row] = &[
    row("TreeEnsemble", 5, With(ensemble)),
    row("TreeEnsembleClassifier", 1, With(classify)),
    row("TreeEnsembleRegressor", 1, With(regress)),
];

type Results = Result<Vec<Value>, OnnxError>;

/// Comparison of a feature with the value of a node, as the graph operator.
const MODES: [(&str, &str); 6] = [
    ("BRANCH_LEQ", "less_equal"),
    ("BRANCH_LT", "less"),
    ("BRANCH_GTE", "greater_equal"),
    ("BRANCH_GT", "greater"),
    ("BRANCH_EQ", "equal"),
    ("BRANCH_NEQ", "not_equal"),
];

/// Place of `BRANCH_EQ` in [`MODES`].
const EQUAL: usize = 4;

/// Number of the mode that compares with several values.
const MEMBER: usize = 6;

/// A node of a tree. A leaf has itself as both children.
#[derive(Clone)]
struct Branch {
    feature: i64,
    value: f64,
    /// Index into [`MODES`].
    mode: usize,
    /// NaN takes the true child.
    missing: bool,
    /// The children if the comparison holds and if not.
    children: [usize; 2],
}

/// All trees.
struct Forest {
    nodes: Vec<Branch>,
    roots: Vec<usize>,
    /// Node, target and weight.
    weights: Vec<(usize, usize, f64)>,
    targets: usize,
    /// Type of the values of nodes and of the weights.
    dtype: DataType,
}

/// The attribute `name`, or the tensor `name_as_tensor`, with the type of the elements.
fn reals(node: &Node<'_, '_>, name: &str) -> Result<(Vec<f64>, DataType), OnnxError> {
    match node.attr_tensor(&format!("{name}_as_tensor"))? {
        Some(tensor) => Ok((numbers(&tensor), tensor.dtype())),
        None => {
            let values = node.attr_floats(name)?.unwrap_or_default();
            Ok((values.iter().map(|&it| it.into()).collect(), DataType::F32))
        }
    }
}

fn ints<'m>(node: &Node<'_, 'm>, name: &str, len: usize) -> Result<&'m [i64], OnnxError> {
    let values = node.attr_ints(name)?.unwrap_or_default();
    if values.len() != len {
        return Err(node.malformed(format!("attribute `{name}` has {} elements, not {len}", values.len())));
    }
    Ok(values)
}

/// `value` as an index below `len`.
fn index(node: &Node<'_, '_>, value: i64, len: usize) -> Result<usize, OnnxError> {
    let index = usize::try_from(value).ok().filter(|it| *it < len);
    index.ok_or_else(|| node.malformed(format!("there is no element {value} among {len}")))
}

/// Reads the trees of the operators before version 5. The weights are in attributes that start with `kind`.
fn forest(node: &Node<'_, '_>, kind: &str, targets: usize) -> Result<Forest, OnnxError> {
    let modes = node.attr_strings("nodes_modes")?;
    let n = modes.len();
    let (trees, ids) = (ints(node, "nodes_treeids", n)?, ints(node, "nodes_nodeids", n)?);
    let features = ints(node, "nodes_featureids", n)?;
    let yes = ints(node, "nodes_truenodeids", n)?;
    let no = ints(node, "nodes_falsenodeids", n)?;
    let missing = match node.attr_ints("nodes_missing_value_tracks_true")?.unwrap_or_default() {
        [] => None,
        _ => Some(ints(node, "nodes_missing_value_tracks_true", n)?),
    };
    let (values, dtype) = reals(node, "nodes_values")?;
    if values.len() != n {
        return Err(node.malformed(format!("there are {} values for {n} nodes", values.len())));
    }
    let mut places = FxHashMap::default();
    for i in 0..n {
        if places.insert((trees[i], ids[i]), i).is_some() {
            return Err(node.malformed(format!("node {} of tree {} is given twice", ids[i], trees[i])));
        }
    }
    let place = |tree: i64, id: i64| {
        let place = places.get(&(tree, id)).copied();
        place.ok_or_else(|| node.malformed(format!("tree {tree} has no node {id}")))
    };
    let (mut nodes, mut is_root) = (Vec::new(), vec![true; n]);
    for i in 0..n {
        if modes[i] == "LEAF" {
            nodes.push(Branch { feature: 0, value: 0.0, mode: 0, missing: false, children: [i; 2] });
            continue;
        }
        let mode = MODES.iter().position(|it| it.0 == modes[i]);
        let mode =
            mode.ok_or_else(|| node.unsupported(format!("nodes of mode {}", crate::names::show(modes[i]))))?;
        let children = [place(trees[i], yes[i])?, place(trees[i], no[i])?];
        children.iter().for_each(|&it| is_root[it] = false);
        let missing = missing.is_some_and(|it| it[i] != 0);
        nodes.push(Branch { feature: features[i], value: values[i], mode, missing, children });
    }
    let roots: Vec<usize> = (0..n).filter(|&it| is_root[it]).collect();
    let mut rooted = rustc_hash::FxHashSet::default();
    if let Some(&second) = roots.iter().find(|&&it| !rooted.insert(trees[it])) {
        return Err(node.malformed(format!("tree {} has two roots", trees[second])));
    }
    let (amounts, _) = reals(node, &format!("{kind}_weights"))?;
    let count = amounts.len();
    let trees = ints(node, &format!("{kind}_treeids"), count)?;
    let ids = ints(node, &format!("{kind}_nodeids"), count)?;
    let of = ints(node, &format!("{kind}_ids"), count)?;
    let mut weights = Vec::new();
    for i in 0..count {
        weights.push((place(trees[i], ids[i])?, index(node, of[i], targets)?, amounts[i]));
    }
    Ok(Forest { nodes, roots, weights, targets, dtype })
}

/// Reads the trees of `TreeEnsemble`, where leaves are apart from the other nodes.
fn forest_with_leaves(node: &Node<'_, '_>) -> Result<Forest, OnnxError> {
    let tensor = |name: &str| -> Result<Tensor, OnnxError> {
        let tensor = node.attr_tensor(name)?;
        node.required(name, tensor)
    };
    let (splits, modes, amounts) = (tensor("nodes_splits")?, tensor("nodes_modes")?, tensor("leaf_weights")?);
    let dtype = splits.dtype();
    let (splits, modes, amounts) = (numbers(&splits), numbers(&modes), numbers(&amounts));
    let (n, leaves) = (splits.len(), amounts.len());
    if modes.len() != n {
        return Err(node.malformed(format!("there are {} modes for {n} nodes", modes.len())));
    }
    let features = ints(node, "nodes_featureids", n)?;
    let missing = match node.attr_ints("nodes_missing_value_tracks_true")?.unwrap_or_default() {
        [] => None,
        _ => Some(ints(node, "nodes_missing_value_tracks_true", n)?),
    };
    let targets = node.int_or("n_targets", 1)?;
    let targets = usize::try_from(targets).ok().filter(|it| (1..1 << 20).contains(it));
    let targets = targets.ok_or_else(|| node.malformed("attribute `n_targets` is out of range"))?;
    let mut children = vec![[0; 2]; n];
    for (side, which) in ["true", "false"].into_iter().enumerate() {
        let ids = ints(node, &format!("nodes_{which}nodeids"), n)?;
        let is_leaf = ints(node, &format!("nodes_{which}leafs"), n)?;
        for i in 0..n {
            let leaf = is_leaf[i] != 0;
            let place = index(node, ids[i], if leaf { leaves } else { n })?;
            children[i][side] = if leaf { n + place } else { place };
        }
    }
    let mut sets = member_sets(node)?.into_iter();
    let (mut nodes, mut members) = (Vec::new(), Vec::new());
    for i in 0..n {
        let mut mode = modes[i] as usize;
        let mut value = splits[i];
        if mode == MEMBER {
            let set = sets.next().filter(|it| !it.is_empty());
            let set = set.ok_or_else(|| node.malformed(format!("node {i} has no members")))?;
            (mode, value) = (EQUAL, set[0]);
            members.push((i, set));
        }
        if mode >= MODES.len() {
            return Err(node.malformed(format!("there is no mode {mode}")));
        }
        let missing = missing.is_some_and(|it| it[i] != 0);
        nodes.push(Branch { feature: features[i], value, mode, missing, children: children[i] });
    }
    let of = ints(node, "leaf_targetids", leaves)?;
    let mut weights = Vec::new();
    for i in 0..leaves {
        let place = n + i;
        nodes.push(Branch { feature: 0, value: 0.0, mode: 0, missing: false, children: [place; 2] });
        weights.push((place, index(node, of[i], targets)?, amounts[i]));
    }
    // The other members are compared one after the other.
    for (i, set) in members {
        let otherwise = nodes[i].children[1];
        let mut before = i;
        for &value in &set[1..] {
            let next = nodes.len();
            nodes.push(Branch { value, ..nodes[i].clone() });
            nodes[before].children[1] = next;
            before = next;
        }
        nodes[before].children[1] = otherwise;
    }
    let roots = node.attr_ints("tree_roots")?.unwrap_or_default();
    let roots = roots.iter().map(|&it| index(node, it, n)).collect::<Result<_, _>>()?;
    Ok(Forest { nodes, roots, weights, targets, dtype })
}

/// The sets of members, which are separated by NaN.
fn member_sets(node: &Node<'_, '_>) -> Result<Vec<Vec<f64>>, OnnxError> {
    let values = node.attr_tensor("membership_values")?.map(|it| numbers(&it)).unwrap_or_default();
    Ok(values.split(|it| it.is_nan()).map(<[f64]>::to_vec).collect())
}

impl Forest {
    /// Number of steps from a root to the farthest leaf. A branch that leads back to itself is an error.
    fn depth(&self, node: &Node<'_, '_>) -> Result<usize, OnnxError> {
        /// What is known of a node: nothing, that its children are being looked at, the number of steps to the farthest leaf.
        #[derive(Clone, Copy)]
        enum State {
            New,
            Open,
            Done(usize),
        }
        let mut states = vec![State::New; self.nodes.len()];
        let mut todo = self.roots.clone();
        while let Some(&place) = todo.last() {
            let children = self.nodes[place].children;
            if children == [place; 2] || matches!(states[place], State::Done(_)) {
                todo.pop();
                if matches!(states[place], State::New) {
                    states[place] = State::Done(0);
                }
                continue;
            }
            match children.map(|it| states[it]) {
                [State::Done(a), State::Done(b)] => {
                    states[place] = State::Done(1 + a.max(b));
                    todo.pop();
                }
                found if found.iter().any(|it| matches!(it, State::Open)) || children.contains(&place) => {
                    return Err(node.malformed("a branch leads back to itself"));
                }
                found => {
                    states[place] = State::Open;
                    let new = children.iter().zip(found).filter(|(_, it)| matches!(it, State::New));
                    todo.extend(new.map(|(child, _)| *child));
                }
            }
        }
        let steps = |it: &usize| if let State::Done(steps) = states[*it] { steps } else { 0 };
        if self.roots.is_empty() || states.iter().any(|it| matches!(it, State::New)) {
            return Err(node.malformed("a node belongs to no tree"));
        }
        Ok(self.roots.iter().map(steps).max().unwrap_or(0))
    }

    /// A table of one number per node.
    fn table(
        &self,
        node: &mut Node<'_, '_>,
        dtype: DataType,
        number: impl Fn(&Branch) -> f64,
    ) -> Result<Arg, OnnxError> {
        let values: Vec<f64> = self.nodes.iter().map(number).collect();
        table(node, &values, &[values.len() as i64], dtype)
    }

    /// The leaf that each row of `x` reaches in each tree: (row, tree).
    fn walk(&self, node: &mut Node<'_, '_>, x: &Arg, columns: i64) -> Result<Arg, OnnxError> {
        if self.nodes.iter().any(|it| !(0..columns).contains(&it.feature)) {
            return Err(
                node.malformed(format!("a node compares a feature beyond the {columns} of the input"))
            );
        }
        let (depth, dtype) = (self.depth(node)?, node.dtype(x)?);
        let features = self.table(node, DataType::I64, |it| it.feature as f64)?;
        let values = self.table(node, dtype, |it| it.value)?;
        let modes = self.table(node, DataType::I64, |it| it.mode as f64)?;
        let missing = self.table(node, DataType::BOOL, |it| f64::from(it.missing))?;
        let yes = self.table(node, DataType::I64, |it| it.children[0] as f64)?;
        let no = self.table(node, DataType::I64, |it| it.children[1] as f64)?;
        let branches = || self.nodes.iter().enumerate().filter(|(i, it)| it.children != [*i; 2]);
        let used: Vec<usize> =
            (0..MODES.len()).filter(|&mode| branches().any(|(_, it)| it.mode == mode)).collect();
        let roots: Vec<f64> = self.roots.iter().map(|&it| it as f64).collect();
        let rows = node.extent(x, 0)?;
        let mut place = table(node, &roots, &[roots.len() as i64], DataType::I64)?;
        place = node.broadcast(&place, &[rows, (roots.len() as i64).into()])?;
        for _ in 0..depth {
            let feature = node.take(&features, &place, 0)?;
            let feature =
                node.op("gather_elements", &[x.clone(), feature], Attrs::new().with("axis", 1i64))?;
            let value = node.take(&values, &place, 0)?;
            let mode = node.take(&modes, &place, 0)?;
            let mut holds: Option<Arg> = None;
            for &it in &used {
                let compared = node.apply(MODES[it].1, &feature, &value)?;
                holds = Some(match holds {
                    None => compared,
                    Some(holds) => {
                        let this = node.with("equal", &mode, it as f64)?;
                        node.choice(&this, &compared, &holds)?
                    }
                });
            }
            let Some(mut holds) = holds else { break };
            if self.nodes.iter().any(|it| it.missing) {
                let tracks = node.take(&missing, &place, 0)?;
                let absent = node.map("isnan", &feature)?;
                let absent = node.apply("logical_and", &absent, &tracks)?;
                holds = node.apply("logical_or", &holds, &absent)?;
            }
            let (if_so, else_) = (node.take(&yes, &place, 0)?, node.take(&no, &place, 0)?);
            place = node.choice(&holds, &if_so, &else_)?;
        }
        Ok(place)
    }

    /// The type in which rows are compared and weights are summed.
    fn wide(&self) -> DataType {
        if self.dtype == DataType::F64 { DataType::F64 } else { DataType::F32 }
    }

    /// The leaf that each row of the input reaches in each tree: (row, tree).
    fn leaves(&self, node: &mut Node<'_, '_>) -> Result<Arg, OnnxError> {
        let (x, dtype) = (node.arg(0)?, self.wide());
        let x = node.cast(&x, dtype)?;
        let shape = node.shape(&x)?;
        let [_, columns] = &shape[..] else { return Err(node.malformed("the input has two axes")) };
        let columns = columns.as_int().ok_or_else(|| node.unsupported("an unknown number of features"))?;
        self.walk(node, &x, columns)
    }

    /// Whether a leaf has a weight of the target: (row, target).
    fn weighed(&self, node: &mut Node<'_, '_>, place: &Arg) -> Result<Arg, OnnxError> {
        let mut known = vec![0.0; self.nodes.len() * self.targets];
        for &(place, target, _) in &self.weights {
            known[place * self.targets + target] = 1.0;
        }
        let size = [self.nodes.len() as i64, self.targets as i64];
        let known = table(node, &known, &size, DataType::F32)?;
        let each = node.take(&known, place, 0)?;
        let most = node.op("max", &[each], Attrs::new().with("axis", vec![1i64]))?;
        node.with("greater", &most, 0.0)
    }

    /// The weights of the leaves, combined over the trees: (row, target).
    fn scores(&self, node: &mut Node<'_, '_>, place: &Arg, how: &str) -> Result<Arg, OnnxError> {
        let dtype = self.wide();
        // Of a target without a weight, the smallest and the largest weight are 0.
        let (op, neutral) = match how {
            "SUM" | "AVERAGE" => ("sum", 0.0),
            "MIN" => ("min", f64::INFINITY),
            "MAX" => ("max", f64::NEG_INFINITY),
            _ => return Err(node.malformed(format!("there is no aggregate {}", crate::names::show(how)))),
        };
        let size = [self.nodes.len() as i64, self.targets as i64];
        node.check_shape(&size, dtype)?;
        let mut weights = vec![neutral; self.nodes.len() * self.targets];
        for &(place, target, weight) in &self.weights {
            let entry = &mut weights[place * self.targets + target];
            *entry = if *entry == neutral { weight } else { *entry + weight };
        }
        let weights = table(node, &weights, &size, dtype)?;
        let each = node.take(&weights, place, 0)?;
        let mut res = node.op(op, &[each], Attrs::new().with("axis", vec![1i64]))?;
        if op != "sum" {
            let none = node.with("equal", &res, neutral)?;
            let zero = node.scalar(0.0, dtype)?;
            res = node.choice(&none, &zero, &res)?;
        }
        if how == "AVERAGE" {
            res = node.with("divide", &res, self.roots.len() as f64)?;
        }
        Ok(res)
    }

    /// The scores and the base values, of which there is one for each of the scores.
    fn with_base(&self, node: &mut Node<'_, '_>, scores: &Arg) -> Result<Arg, OnnxError> {
        let (base, _) = reals(node, "base_values")?;
        let count = node.extent(scores, 1)?;
        if base.is_empty() {
            return Ok(scores.clone());
        }
        if !count.is_const(base.len() as i64) {
            return Err(node.unsupported(format!("{} base values for {} targets", base.len(), self.targets)));
        }
        let base = table(node, &base, &[base.len() as i64], self.wide())?;
        node.apply("add", scores, &base)
    }
}

fn regress(node: &mut Node<'_, '_>) -> Results {
    let targets = node.attr_int("n_targets")?;
    let targets = node.required("n_targets", targets)?;
    let targets = usize::try_from(targets).ok().filter(|it| (1..1 << 20).contains(it));
    let targets = targets.ok_or_else(|| node.malformed("attribute `n_targets` is out of range"))?;
    let forest = forest(node, "target", targets)?;
    let how = node.str_or("aggregate_function", "SUM")?;
    let place = forest.leaves(node)?;
    let scores = forest.scores(node, &place, how)?;
    let scores = forest.with_base(node, &scores)?;
    let scores = node.cast(&scores, DataType::F32)?;
    one(transformed(node, &scores))
}

/// The class with the largest sum of weights, among those that have weights. If there are two classes and all weights name the
/// same one, their sum is the score of the second, which is chosen above 0.5 if no weight is negative, and above 0 otherwise.
fn classify(node: &mut Node<'_, '_>) -> Results {
    let labels = Labels::of(node, "classlabels_int64s")?;
    let forest = forest(node, "class", labels.len())?;
    let place = forest.leaves(node)?;
    let scores = forest.scores(node, &place, "SUM")?;
    let id = forest.weights.first().map(|it| it.1);
    if labels.len() != 2 || forest.weights.iter().any(|it| Some(it.1) != id) {
        let scores = forest.with_base(node, &scores)?;
        let scores = node.cast(&scores, DataType::F32)?;
        // A class without a weight in any leaf of the row is not chosen.
        let weighed = forest.weighed(node, &place)?;
        let low = node.scalar(f64::NEG_INFINITY, DataType::F32)?;
        let ranked = node.choice(&weighed, &scores, &low)?;
        return largest(node, &labels, &ranked, &scores);
    }
    let which = id.unwrap_or(0);
    let place = table(node, &[which as f64], &[1], DataType::I64)?;
    let score = node.take(&scores, &place, 1)?;
    let positive = forest.weights.iter().all(|it| it.2 >= 0.0);
    let limit = if positive { 0.5 } else { 0.0 };
    if which == 1 {
        if !reals(node, "base_values")?.0.is_empty() {
            return Err(node.unsupported("base values beside weights of the second class only"));
        }
        // The first class has no score, which is 0 before the transformation.
        let score = node.cast(&score, DataType::F32)?;
        let scores = node.cast(&scores, DataType::F32)?;
        let scores = transformed(node, &scores)?;
        let both = [node.part(&scores, 1, 0, 1)?, node.part(&scores, 1, 1, 2)?];
        return above(node, &labels, &score, limit, both);
    }
    let score = forest.with_base(node, &score)?;
    let score = node.cast(&score, DataType::F32)?;
    let both = two_scores(node, &score, positive)?;
    above(node, &labels, &score, limit, both)
}

fn ensemble(node: &mut Node<'_, '_>) -> Results {
    let how = match node.int_or("aggregate_function", 1)? {
        0 => "AVERAGE",
        1 => "SUM",
        2 => "MIN",
        3 => "MAX",
        other => return Err(node.malformed(format!("attribute `aggregate_function` is {other}"))),
    };
    if node.int_or("post_transform", 0)? != 0 {
        return Err(node.unsupported("a transformation of the scores"));
    }
    let forest = forest_with_leaves(node)?;
    let place = forest.leaves(node)?;
    one(forest.scores(node, &place, how))
}
