//! Places the nodes of a graph in layers from top to bottom: every edge goes down. Long edges bend around nodes.
//!
//! Requires edges without cycles, from smaller to larger numbers. Ensures: nodes do not overlap; the same graph gives the same
//! picture; the time is about linear in the number of edges and of layers that they cross.
//!
//! After Sugiyama, Tagawa and Toda: layers by longest paths, order within a layer by barycentres, places by least squares.

/// Distance between the centres of two layers.
pub(crate) const LAYER: f64 = 84.0;
/// Distance between nodes of a layer.
const GAP: f64 = 18.0;
/// Width that is kept free for an edge that passes a layer.
const LANE: f64 = 10.0;
/// How often the order and the places are improved.
const SWEEPS: usize = 12;
/// Layers that an edge may cross to get a lane of its own in each of them.
const LONGEST: usize = 40;

/// A graph with places.
pub(crate) struct Layout {
    /// Centre of each node.
    pub(crate) nodes: Vec<(f64, f64)>,
    /// The points through which each edge goes.
    pub(crate) edges: Vec<Vec<(f64, f64)>>,
    /// Width of the picture.
    pub(crate) width: f64,
    /// Height of the picture.
    pub(crate) height: f64,
}

/// A node, or a point of an edge on its way through a layer.
struct Slot {
    layer: usize,
    width: f64,
    up: Vec<usize>,
    down: Vec<usize>,
    x: f64,
}

/// Places nodes of these widths. `late` nodes, as inputs are, lie just above the first node that reads them.
pub(crate) fn layout(widths: &[f64], late: &[bool], edges: &[(usize, usize)]) -> Layout {
    let layers = layers(widths.len(), late, edges);
    let mut slots: Vec<Slot> = (widths.iter().zip(&layers))
        .map(|(&width, &layer)| Slot { layer, width, up: Vec::new(), down: Vec::new(), x: 0.0 })
        .collect();
    let mut paths: Vec<Vec<usize>> = Vec::with_capacity(edges.len());
    for &(from, to) in edges {
        let mut path = vec![from];
        let crossed = layers[to].saturating_sub(layers[from]);
        if crossed <= LONGEST {
            for layer in layers[from] + 1..layers[to] {
                path.push(slots.len());
                slots.push(Slot { layer, width: LANE, up: Vec::new(), down: Vec::new(), x: 0.0 });
            }
        }
        path.push(to);
        if crossed <= LONGEST {
            for pair in path.windows(2) {
                slots[pair[0]].down.push(pair[1]);
                slots[pair[1]].up.push(pair[0]);
            }
        }
        paths.push(path);
    }
    let mut rows: Vec<Vec<usize>> = vec![Vec::new(); slots.iter().map(|it| it.layer + 1).max().unwrap_or(0)];
    for (i, slot) in slots.iter().enumerate() {
        rows[slot.layer].push(i);
    }
    order(&mut rows, &slots);
    place(&rows, &mut slots);
    let left = slots.iter().map(|it| it.x - it.width / 2.0).fold(f64::INFINITY, f64::min);
    let right = slots.iter().map(|it| it.x + it.width / 2.0).fold(f64::NEG_INFINITY, f64::max);
    let at = |i: usize| (slots[i].x - left + GAP, (slots[i].layer as f64 + 0.5) * LAYER);
    Layout {
        nodes: (0..widths.len()).map(at).collect(),
        edges: paths.into_iter().map(|path| path.into_iter().map(at).collect()).collect(),
        width: if slots.is_empty() { 0.0 } else { right - left + 2.0 * GAP },
        height: rows.len() as f64 * LAYER,
    }
}

/// The layer of each node: the longest path to it; of a late node, the one above its first reader.
fn layers(nodes: usize, late: &[bool], edges: &[(usize, usize)]) -> Vec<usize> {
    let mut layers = vec![0; nodes];
    let mut readers: Vec<Vec<usize>> = vec![Vec::new(); nodes];
    for &(from, to) in edges {
        readers[from].push(to);
    }
    for node in 0..nodes {
        for &reader in &readers[node] {
            layers[reader] = layers[reader].max(layers[node] + 1);
        }
    }
    for node in (0..nodes).filter(|&it| late[it]) {
        let first = readers[node].iter().map(|&reader| layers[reader]).min();
        layers[node] = first.map_or(0, |it: usize| it.saturating_sub(1));
    }
    layers
}

/// Orders each row by the mean position of its neighbours in the row above, then below, in turns.
fn order(rows: &mut [Vec<usize>], slots: &[Slot]) {
    let mut position = vec![0.0; slots.len()];
    let number = |row: &[usize], position: &mut Vec<f64>| {
        let middle = (row.len() as f64 - 1.0) / 2.0;
        row.iter().enumerate().for_each(|(i, &slot)| position[slot] = i as f64 - middle);
    };
    rows.iter().for_each(|row| number(row, &mut position));
    for sweep in 0..SWEEPS {
        let down = sweep % 2 == 0;
        let mut sort = |row: &mut Vec<usize>| {
            let mean = |slot: usize| {
                let neighbours = if down { &slots[slot].up } else { &slots[slot].down };
                let sum: f64 = neighbours.iter().map(|&it| position[it]).sum();
                if neighbours.is_empty() { position[slot] } else { sum / neighbours.len() as f64 }
            };
            let mut keyed: Vec<(f64, usize)> = row.iter().map(|&slot| (mean(slot), slot)).collect();
            keyed.sort_by(|a, b| a.0.total_cmp(&b.0));
            *row = keyed.into_iter().map(|(_, slot)| slot).collect();
            number(row, &mut position);
        };
        if down { rows.iter_mut().for_each(&mut sort) } else { rows.iter_mut().rev().for_each(&mut sort) }
    }
}

/// Places the slots of each row near their neighbours, in order and without overlaps.
fn place(rows: &[Vec<usize>], slots: &mut [Slot]) {
    for row in rows {
        spread(row, slots, &vec![0.0; row.len()]);
    }
    for sweep in 0..SWEEPS {
        let mut improve = |row: &Vec<usize>| {
            let wish = |&slot: &usize| {
                let (up, down) = (&slots[slot].up, &slots[slot].down);
                let near = if sweep % 2 == 0 && !up.is_empty() || down.is_empty() { up } else { down };
                let sum: f64 = near.iter().map(|&it| slots[it].x).sum();
                if near.is_empty() { slots[slot].x } else { sum / near.len() as f64 }
            };
            let wishes: Vec<f64> = row.iter().map(wish).collect();
            spread(row, slots, &wishes);
        };
        if sweep % 2 == 0 {
            rows.iter().for_each(&mut improve)
        } else {
            rows.iter().rev().for_each(&mut improve)
        }
    }
}

/// Places a row as near as possible to `wishes`: least squares under the distances that slots need.
fn spread(row: &[usize], slots: &mut [Slot], wishes: &[f64]) {
    let mut offset = 0.0;
    let mut offsets = Vec::with_capacity(row.len());
    for (i, &slot) in row.iter().enumerate() {
        if i > 0 {
            offset += (slots[row[i - 1]].width + slots[slot].width) / 2.0 + GAP;
        }
        offsets.push(offset);
    }
    // Neighbours whose wishes are in the wrong order share the mean of their wishes: sum, number.
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for (wish, offset) in wishes.iter().zip(&offsets) {
        let mut pool = (wish - offset, 1);
        while let Some(&(sum, n)) = pools.last()
            && sum / n as f64 >= pool.0 / pool.1 as f64
        {
            pool = (pool.0 + sum, pool.1 + n);
            pools.pop();
        }
        pools.push(pool);
    }
    let mut slot = row.iter().zip(&offsets);
    for (sum, n) in pools {
        for (&slot, offset) in slot.by_ref().take(n) {
            slots[slot].x = sum / n as f64 + offset;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Edges of a graph of `n` nodes with skips and branches.
    fn edges(n: usize) -> Vec<(usize, usize)> {
        let mut state = 7u64;
        let mut random = move |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) as usize % below
        };
        (1..n).flat_map(|i| vec![(i - 1 - random(i.min(3)), i), (random(i), i)]).collect()
    }

    #[test]
    fn edges_go_down_and_nodes_do_not_overlap() {
        for n in [0, 1, 2, 50, 1000] {
            let edges = edges(n);
            let widths: Vec<f64> = (0..n).map(|i| 60.0 + (i % 5) as f64 * 20.0).collect();
            let found = layout(&widths, &vec![false; n], &edges);
            assert_eq!((found.nodes.len(), found.edges.len()), (n, edges.len()));
            for (&(from, to), path) in edges.iter().zip(&found.edges) {
                assert!(found.nodes[from].1 < found.nodes[to].1);
                assert!(path.windows(2).all(|it| it[0].1 < it[1].1));
                assert_eq!((path[0], path[path.len() - 1]), (found.nodes[from], found.nodes[to]));
            }
            let mut by_place: Vec<usize> = (0..n).collect();
            let key = |i: usize| (found.nodes[i].1, found.nodes[i].0);
            by_place.sort_by(|&a, &b| key(a).partial_cmp(&key(b)).unwrap());
            for pair in by_place.windows(2) {
                let [(x, y), (next, below)] = [found.nodes[pair[0]], found.nodes[pair[1]]];
                let apart = (widths[pair[0]] + widths[pair[1]]) / 2.0;
                assert!(y < below || next - x >= apart, "{n}: nodes {pair:?} overlap");
            }
            let inside = |&(x, y): &(f64, f64)| x >= 0.0 && x <= found.width && y >= 0.0 && y <= found.height;
            assert!(found.nodes.iter().all(inside));
        }
    }

    #[test]
    fn a_chain_is_straight_and_inputs_are_near_their_readers() {
        let chain: Vec<(usize, usize)> = (1..20).map(|i| (i - 1, i)).collect();
        let found = layout(&[80.0; 20], &[false; 20], &chain);
        assert!(found.nodes.iter().all(|it| (it.0 - found.nodes[0].0).abs() < 1e-6));
        let edges = [(0, 2), (2, 3), (3, 4), (1, 4)];
        let found = layout(&[80.0; 5], &[true, true, false, false, false], &edges);
        assert_eq!(found.nodes[1].1, found.nodes[3].1);
    }
}
