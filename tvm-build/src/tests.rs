//! Tests of the whole build.
