//! Lowering of graph functions to the virtual machine.
