//! Tests on random expressions: their values, and what the library claims about them.

mod claims;
mod deep;
mod iter_map;
mod known;
mod reference;
mod rules;
mod world;

use reference::{Values, eval};
use tvm_testing::Rng;
use world::World;
