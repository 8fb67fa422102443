//! The functional surface over the graph IR, and its prelude.
