//! Partition of a dataflow graph into groups to fuse: the post-dominator tree, and groups that grow along it.
//!
//! TVM counterpart: `relay/analysis/graph_partitioner.h` (`IndexedForwardGraph`, `DominatorTree`, `GraphPartitioner`).

use rustc_hash::FxHashSet;

use crate::ir::OpPattern;

/// A node; producers come before their consumers.
#[derive(Clone, Debug)]
pub(super) struct Node {
    /// Fusion pattern of its operation.
    pub(super) pattern: OpPattern,
    /// True when something outside the graph uses it.
    pub(super) external: bool,
    /// Consumers, and how each uses it.
    pub(super) outputs: Vec<(usize, OpPattern)>,
}

/// A node of the post-dominator tree.
#[derive(Clone, Copy, Debug)]
struct Dom {
    parent: Option<usize>,
    depth: usize,
    /// The most complex use on the paths to the parent.
    pattern: OpPattern,
}

fn post_dominators(nodes: &[Node]) -> Vec<Dom> {
    let mut tree = vec![Dom { parent: None, depth: 1, pattern: OpPattern::Opaque }; nodes.len()];
    for (i, node) in nodes.iter().enumerate().rev() {
        let Some(&(first, edge)) = node.outputs.first() else { continue };
        if node.external {
            continue;
        }
        let mut pattern = edge;
        let mut parent = Some(first);
        for &(output, edge) in &node.outputs[1..] {
            pattern = pattern.max(edge);
            parent = common_ancestor(&tree, parent, Some(output), &mut pattern);
        }
        let depth = parent.map_or(1, |parent| tree[parent].depth + 1);
        tree[i] = Dom { parent, depth, pattern };
    }
    tree
}

fn common_ancestor(
    tree: &[Dom],
    mut a: Option<usize>,
    mut b: Option<usize>,
    pattern: &mut OpPattern,
) -> Option<usize> {
    while a != b {
        let (x, y) = (a?, b?);
        if tree[x].depth >= tree[y].depth {
            *pattern = (*pattern).max(tree[x].pattern);
            a = tree[x].parent;
        }
        if tree[x].depth <= tree[y].depth {
            *pattern = (*pattern).max(tree[y].pattern);
            b = tree[y].parent;
        }
    }
    a
}

/// The groups of a graph.
pub(super) struct Partition<'a> {
    nodes: &'a [Node],
    /// Union-find.
    parent: Vec<usize>,
    /// Pattern of each group, at its root.
    pattern: Vec<OpPattern>,
    /// Number of nodes of each group, at its root.
    size: Vec<usize>,
    max_size: usize,
}

/// The group of each node, identified by the index of one of its nodes. No group has more than `max_size` nodes.
pub(super) fn partition(nodes: &[Node], max_size: usize) -> Vec<usize> {
    let tree = post_dominators(nodes);
    let mut partition = Partition {
        nodes,
        parent: (0..nodes.len()).collect(),
        pattern: nodes.iter().map(|node| node.pattern).collect(),
        size: vec![1; nodes.len()],
        max_size,
    };
    // Heavy operations are fused with their element-wise consumers first; then injective chains grow.
    for phase in 0..2 {
        for (i, dom) in tree.iter().enumerate() {
            if let Some(sink) = dom.parent {
                partition.try_fuse(i, sink, dom.pattern, phase);
            }
        }
    }
    (0..nodes.len()).map(|i| partition.root(i)).collect()
}

impl Partition<'_> {
    fn root(&self, mut i: usize) -> usize {
        while self.parent[i] != i {
            i = self.parent[i];
        }
        i
    }

    fn try_fuse(&mut self, src: usize, sink: usize, edge: OpPattern, phase: usize) {
        if self.root(src) == self.root(sink) {
            return;
        }
        let injective = |pattern, _| pattern <= OpPattern::Injective;
        let fits = match self.pattern[self.root(src)] {
            // A heavy operation, such as a convolution: only if all that follows is element-wise.
            OpPattern::OutEWiseFusable => {
                phase == 0
                    && edge == OpPattern::ElemWise
                    && self.all_between(src, sink, |pattern, _| pattern <= OpPattern::Broadcast)
            }
            // Element-wise work is fused into its consumer, be it a reduction or a convolution's group.
            OpPattern::ElemWise | OpPattern::Broadcast => {
                edge <= OpPattern::CommReduce
                    && self.all_between(src, sink, |pattern, last| {
                        pattern <= OpPattern::Injective || (last && pattern <= OpPattern::OutEWiseFusable)
                    })
            }
            OpPattern::Injective => phase == 1 && self.all_between(src, sink, injective),
            OpPattern::CommReduce | OpPattern::Tuple | OpPattern::Opaque => false,
        };
        if fits {
            self.merge(src, sink);
        }
    }

    /// True when `cond` holds for the pattern of the group of every node on the paths from `src` (excluded) to `sink`
    /// (included); the second argument of `cond` is true for `sink`.
    fn all_between(&self, src: usize, sink: usize, cond: impl Fn(OpPattern, bool) -> bool) -> bool {
        let Some(path) = self.path(src, sink) else { return false };
        let mut nodes = path.iter().filter(|&&node| node != src);
        nodes.all(|&node| cond(self.pattern[self.root(node)], node == sink))
    }

    /// All nodes on the paths from `src` to its post-dominator `sink`; `None` when there are more than a group may have.
    fn path(&self, src: usize, sink: usize) -> Option<Vec<usize>> {
        let mut seen: FxHashSet<usize> = [src].into_iter().collect();
        let mut path = vec![src];
        let mut next = 0;
        while let Some(&node) = path.get(next) {
            if path.len() > self.max_size {
                return None;
            }
            next += 1;
            if node != sink {
                let outputs = self.nodes[node].outputs.iter();
                path.extend(outputs.map(|(output, _)| *output).filter(|&output| seen.insert(output)));
            }
        }
        Some(path)
    }

    fn merge(&mut self, src: usize, sink: usize) {
        let Some(path) = self.path(src, sink) else { return };
        let mut roots: Vec<usize> = path.iter().map(|&node| self.root(node)).collect();
        roots.sort_unstable();
        roots.dedup();
        if roots.iter().map(|&root| self.size[root]).sum::<usize>() > self.max_size {
            return;
        }
        let target = self.root(sink);
        for root in roots.into_iter().filter(|&root| root != target) {
            self.parent[root] = target;
            self.size[target] += self.size[root];
            // A group has at most one heavy operation, which determines its pattern.
            if self.pattern[root] == OpPattern::OutEWiseFusable {
                self.pattern[target] = OpPattern::OutEWiseFusable;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(patterns: &[OpPattern], edges: &[(usize, usize)]) -> Vec<Node> {
        let mut nodes: Vec<Node> =
            patterns.iter().map(|&pattern| Node { pattern, external: false, outputs: Vec::new() }).collect();
        for &(from, to) in edges {
            let pattern = nodes[to].pattern;
            nodes[from].outputs.push((to, pattern));
        }
        nodes
    }

    #[test]
    fn groups_of_typical_graphs() {
        use OpPattern::{
            Broadcast as B, CommReduce as R, ElemWise as E, Injective as I, Opaque as O, OutEWiseFusable as C,
        };
        type Case<'a> = (&'a [OpPattern], &'a [(usize, usize)], &'a [usize]);
        let cases: [Case<'_>; 9] = [
            // conv, bias, relu
            (&[C, E, E], &[(0, 1), (1, 2)], &[0, 0, 0]),
            // conv, conv
            (&[C, C], &[(0, 1)], &[0, 1]),
            // relu, conv: not into the convolution
            (&[E, C], &[(0, 1)], &[0, 1]),
            // diamond of element-wise operations
            (&[E, E, E, E], &[(0, 1), (0, 2), (1, 3), (2, 3)], &[0, 0, 0, 0]),
            // a diamond with an opaque side
            (&[E, O, E, E], &[(0, 1), (0, 2), (1, 3), (2, 3)], &[0, 1, 2, 2]),
            // element-wise into reduction, reduction alone after that
            (&[E, R, E], &[(0, 1), (1, 2)], &[0, 0, 2]),
            // injective chain
            (&[I, I, E], &[(0, 1), (1, 2)], &[0, 0, 0]),
            // conv and a residual: the addition goes to one of the two convolutions
            (&[C, C, E], &[(0, 2), (1, 2)], &[0, 1, 0]),
            // conv, broadcast of its result: not element-wise
            (&[C, B], &[(0, 1)], &[0, 1]),
        ];
        for (case, (patterns, edges, want)) in cases.into_iter().enumerate() {
            let got = partition(&graph(patterns, edges), 256);
            let same: Vec<usize> =
                got.iter().map(|root| got.iter().position(|it| it == root).unwrap()).collect();
            assert_eq!(same, want, "case {case}");
        }
    }
}
