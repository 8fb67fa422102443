//! The right twins of wrong kernels, as tests of this program: a program each would be linked each.

mod blocks;
mod calls;
mod dims;
mod element_types;
mod functions;
mod graph_branches_and_tuples;
mod graph_data_types;
mod graph_kernels_and_modules;
mod graph_shapes;
mod graph_written_out;
mod kernel_calls;
mod local_buffers;
mod loop_attributes;
mod names_are_free;
mod nested_deeply;
mod ranks_and_indices;
mod scalars_and_branches;
mod schedules;
mod visibility_and_modules;
