//! Schedules: loop transformations addressed by loop and block.
