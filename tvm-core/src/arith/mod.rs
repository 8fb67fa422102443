//! Integer arithmetic: simplification, bounds, iteration maps.
