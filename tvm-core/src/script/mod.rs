//! What the macros expand to: builders of tensor programs and graph functions.
