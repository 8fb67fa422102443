//! tvmc
fn main() {}
