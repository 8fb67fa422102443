//! Layouts: in which order the axes of a tensor lie in memory, and which of them are divided into blocks.
//!
//! A layout is written as in TVM. Each capital letter is an axis. A small letter with a number before it is an inner axis of
//! that extent: the axis of its capital then counts blocks. In `NCHW16c`, axis `C` counts blocks of 16 channels.
//!
//! TVM counterpart: `tir::Layout`, `tir::BijectiveLayout`.

use std::fmt;
use std::str::FromStr;

use crate::arith::dims::simplify_dim;
use crate::tir::PrimExpr;

/// Larger blocks are of no use, and their products stay far from overflow.
const MAX_FACTOR: i64 = 1 << 16;

/// The axes of a tensor in the order of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    axes: Vec<LayoutAxis>,
}

/// An axis of a [`Layout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LayoutAxis {
    /// Capital letter of the undivided axis.
    pub letter: char,
    /// Extent of an inner axis; `None` for the outermost axis of its letter.
    pub factor: Option<i64>,
    /// How many elements of the undivided axis one step along this axis is.
    pub step: i64,
}

impl Layout {
    /// The axes, outermost first.
    pub fn axes(&self) -> &[LayoutAxis] {
        &self.axes
    }

    /// Number of axes.
    pub fn ndim(&self) -> usize {
        self.axes.len()
    }

    /// Number of elements in one block of the undivided axis `letter`: 1 if it is not divided.
    pub fn block(&self, letter: char) -> i64 {
        self.axes.iter().find(|axis| axis.letter == letter).map_or(1, |axis| axis.step)
    }

    /// True if the undivided axes are those of `letters`, in any order.
    pub fn is_of(&self, letters: &str) -> bool {
        let outer = self.axes.iter().filter(|axis| axis.factor.is_none());
        outer.clone().count() == letters.len() && outer.into_iter().all(|axis| letters.contains(axis.letter))
    }

    /// The index in this layout of the element whose index along the undivided axes `letters` is `index`.
    pub fn index(&self, letters: &str, index: &[PrimExpr]) -> Vec<PrimExpr> {
        self.of_each(letters, index, LayoutAxis::index)
    }

    /// The extents in this layout of a tensor whose undivided axes `letters` have the extents `dims`; `None` if blocks do
    /// not divide a constant extent.
    pub fn shape(&self, letters: &str, dims: &[PrimExpr]) -> Option<Vec<PrimExpr>> {
        let divided =
            |(letter, dim): (char, &PrimExpr)| dim.as_int().is_none_or(|dim| dim % self.block(letter) == 0);
        letters.chars().zip(dims).all(divided).then(|| {
            self.of_each(letters, dims, |axis, dim| match axis.factor {
                Some(factor) => PrimExpr::index(factor),
                None if axis.step == 1 => dim.clone(),
                None => simplify_dim(&dim.clone().floordiv(axis.step)),
            })
        })
    }

    /// The extents of the undivided axes `letters` of a tensor that has the extents `dims` in this layout.
    pub fn undivided_shape(&self, letters: &str, dims: &[PrimExpr]) -> Vec<PrimExpr> {
        self.undivided(letters, dims, |axis, dim| axis.factor.is_none().then(|| dim * axis.step))
    }

    /// The index along the undivided axes `letters` of the element whose index in this layout is `index`.
    pub fn undivided_index(&self, letters: &str, index: &[PrimExpr]) -> Vec<PrimExpr> {
        self.undivided(letters, index, |axis, index| Some(index * axis.step))
    }

    fn of_each(
        &self,
        letters: &str,
        values: &[PrimExpr],
        f: impl Fn(&LayoutAxis, &PrimExpr) -> PrimExpr,
    ) -> Vec<PrimExpr> {
        let value = |axis: &LayoutAxis| values[letters.find(axis.letter).unwrap_or(0)].clone();
        self.axes.iter().map(|axis| f(axis, &value(axis))).collect()
    }

    fn undivided(
        &self,
        letters: &str,
        values: &[PrimExpr],
        part: impl Fn(&LayoutAxis, &PrimExpr) -> Option<PrimExpr>,
    ) -> Vec<PrimExpr> {
        let of_letter = |letter: char| {
            let axes = self.axes.iter().zip(values).filter(|(axis, _)| axis.letter == letter);
            let sum = axes.filter_map(|(axis, value)| part(axis, value)).reduce(|sum, part| sum + part);
            simplify_dim(&sum.unwrap_or_else(|| PrimExpr::index(0)))
        };
        letters.chars().map(of_letter).collect()
    }
}

impl LayoutAxis {
    /// The index along this axis of the element whose index along the undivided axis is `index`.
    pub fn index(&self, index: &PrimExpr) -> PrimExpr {
        let block = if self.step == 1 { index.clone() } else { index.clone().floordiv(self.step) };
        self.factor.map_or(block.clone(), |factor| block.floormod(factor))
    }
}

impl FromStr for Layout {
    type Err = String;

    fn from_str(text: &str) -> Result<Layout, String> {
        let error = |why: String| Err(format!("`{text}` is no layout: {why}"));
        let mut axes: Vec<LayoutAxis> = Vec::new();
        let mut factor: Option<i64> = None;
        for c in text.chars() {
            if let Some(digit) = c.to_digit(10) {
                factor = Some((factor.unwrap_or(0) * 10 + i64::from(digit)).min(MAX_FACTOR + 1));
                continue;
            }
            if !c.is_ascii_alphabetic() {
                return error(format!("`{c}` is no letter"));
            }
            let factor = factor.take();
            let seen = axes.iter().any(|axis| axis.letter == c.to_ascii_uppercase());
            match (c.is_ascii_uppercase(), factor) {
                (true, None) if seen => return error(format!("axis `{c}` occurs twice")),
                (true, Some(_)) => return error(format!("the number before `{c}` belongs to an inner axis")),
                (false, None | Some(0)) => {
                    return error(format!("the inner axis `{c}` has no extent before it"));
                }
                (false, Some(_)) if !seen => {
                    return error(format!("axis `{}` comes before `{c}`", c.to_ascii_uppercase()));
                }
                _ => axes.push(LayoutAxis { letter: c.to_ascii_uppercase(), factor, step: 1 }),
            }
        }
        if factor.is_some() {
            return error("it ends with a number".into());
        }
        for i in (0..axes.len()).rev() {
            let mut inside = axes[i + 1..].iter().filter(|axis| axis.letter == axes[i].letter);
            axes[i].step = inside.next().map_or(1, |next| next.step * next.factor.unwrap_or(1));
            if axes[i].step > MAX_FACTOR {
                return error(format!("a block of `{}` has more than {MAX_FACTOR} elements", axes[i].letter));
            }
        }
        Ok(Layout { axes })
    }
}

impl fmt::Display for Layout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.axes.iter().try_for_each(|axis| match axis.factor {
            None => write!(f, "{}", axis.letter),
            Some(factor) => write!(f, "{factor}{}", axis.letter.to_ascii_lowercase()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for text in ["NCHW", "NHWC", "NCHW16c", "OIHW16i32o", "N", ""] {
            assert_eq!(text.parse::<Layout>().unwrap().to_string(), text);
        }
        for text in ["NCHWC", "NCHW16", "NCHWc", "NCHW0c", "16cN", "N16CHW", "NC HW", "NC99999999999999c"] {
            text.parse::<Layout>().unwrap_err();
        }
    }

    #[test]
    fn shapes_and_indices() {
        let layout: Layout = "NCHW4c".parse().unwrap();
        let index = |values: &[i64]| values.iter().map(|&it| PrimExpr::index(it)).collect::<Vec<_>>();
        let ints = |values: &[PrimExpr]| values.iter().map(|it| it.as_int().unwrap()).collect::<Vec<_>>();
        let shape = layout.shape("NCHW", &index(&[2, 12, 5, 7])).unwrap();
        assert_eq!(ints(&shape), [2, 3, 5, 7, 4]);
        assert!(layout.shape("NCHW", &index(&[2, 10, 5, 7])).is_none());
        assert_eq!(ints(&layout.undivided_shape("NCHW", &shape)), [2, 12, 5, 7]);
        let simplified = layout.index("NCHW", &index(&[1, 10, 3, 6]));
        assert_eq!(ints(&simplified.iter().map(simplify_dim).collect::<Vec<_>>()), [1, 2, 3, 6, 2]);
        assert_eq!(ints(&layout.undivided_index("NCHW", &index(&[1, 2, 3, 6, 2]))), [1, 10, 3, 6]);
        assert_eq!((layout.block('C'), layout.block('N'), layout.ndim()), (4, 1, 5));
        assert!(layout.is_of("NHWC") && !layout.is_of("NCW"));
    }
}
