//! Operator inventory: tensor programs of the common operators.
