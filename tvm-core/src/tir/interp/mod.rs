//! Reference interpreter of tensor programs: the oracle of every test and the constant folder.
