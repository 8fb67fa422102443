//! The declaration of nodes: each node lists its fields once, in a table of [`nodes!`]. Comparison, hashing, the JSON
//! form and the scope rules follow from the table ([`Fielded`]), and so do traversal and rewriting (`derive(traverse)`).
//!
//! Fields stand in structural order: a binder comes before the fields in which it is visible. What is done with a field
//! follows from its type ([`Part`]), except for what a type does not say:
//!
//! | written | meaning |
//! |---|---|
//! | `field` | as its type says; a variable or buffer is a use |
//! | `field as "name"` | the same, under another name |
//! | `def field` | binds the variable or buffer |
//! | `label field` | a name hint, which is not part of the structure |
//! | `field by method` | `method` adds the field to the structure |
//! | `also method` | `method` adds something to the structure that is no field: what the extents of buffers bind |
//! | `scope { .. }` | the binders in it are visible in it only |
//!
//! TVM counterpart: `SEqualReduce`, `SHashReduce`, `VisitAttrs`, reflection.

use std::sync::Arc;

use tvm_runtime::DataType;

use super::json::{FromBuilt, NodeReader};
use super::structural::{Field, Fields, Node};
use super::{Attrs, BlockId, IrError, Span, Type, TypeParam, Var};

/// A node whose fields are declared in a table.
pub(crate) trait Fielded: Sized {
    /// Adds the fields to the structure.
    fn collect_fields<'a>(&'a self, fields: &mut Fields<'a>);

    /// Builds the node from its JSON form.
    fn read_fields(node: &NodeReader<'_>) -> Result<Self, IrError>;
}

/// A field, by its type.
pub(crate) trait Part: Sized {
    /// Adds the field to the structure.
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>);

    /// Reads the field from the JSON form of its node.
    fn read(node: &NodeReader<'_>, name: &str) -> Result<Self, IrError>;
}

/// A node that another one has as a field.
pub(crate) trait Child: FromBuilt + Clone {
    /// The node as one of any kind.
    fn node(&self) -> Node<'_>;
}

impl<T: Child> Part for T {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.node(name, self.node());
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<T, IrError> {
        node.child(name)
    }
}

impl<T: Child> Part for Option<T> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        if let Some(it) = self {
            fields.node(name, it.node());
        }
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Option<T>, IrError> {
        node.option(name)
    }
}

impl<T: Child> Part for Arc<[T]> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.items(name, self.iter().map(|it| Field::Node(it.node())));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<[T]>, IrError> {
        node.list(name)
    }
}

/// Fields that are no nodes: how they stand in the structure, and how they are read.
macro_rules! leaves {
    ($($ty:ty: |$it:ident| $field:expr, |$node:ident, $name:ident| $read:expr;)*) => {$(
        impl Part for $ty {
            fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
                let $it = self;
                fields.field(name, $field);
            }

            fn read($node: &NodeReader<'_>, $name: &str) -> Result<$ty, IrError> {
                $read
            }
        }
    )*};
}

leaves! {
    bool: |it| Field::Int((*it).into()), |node, name| node.flag(name);
    i32: |it| Field::Int((*it).into()), |node, name| node.int(name);
    i64: |it| Field::Int(*it), |node, name| node.int(name);
    usize: |it| Field::Int(*it as i64), |node, name| node.int(name);
    u16: |it| Field::Int((*it).into()), |node, name| node.lanes(name);
    f64: |it| Field::Float(*it), |node, name| node.float(name);
    Arc<str>: |it| Field::Str(it), |node, name| Ok(node.str(name)?.into());
    DataType: |it| Field::DType(*it), |node, name| node.dtype(name);
    Attrs: |it| Field::Attrs(it), |node, name| node.attrs(name);
    Span: |it| Field::Span(it), |node, _name| node.span();
    BlockId: |it| Field::Block(*it), |_node, _name| Ok(BlockId::fresh());
    Var: |it| Field::UseVar(it), |node, name| node.child(name);
}

impl Part for Arc<[TypeParam]> {
    fn collect<'a>(&'a self, name: &'static str, fields: &mut Fields<'a>) {
        fields.items(name, self.iter().map(|param| Field::Str(&param.0)));
    }

    fn read(node: &NodeReader<'_>, name: &str) -> Result<Arc<[TypeParam]>, IrError> {
        node.type_params(name)
    }
}

/// Declares nodes that other nodes have as fields.
macro_rules! children {
    ($($ty:ident)*) => {
        $(impl $crate::ir::node::Child for $ty {
            fn node(&self) -> $crate::ir::structural::Node<'_> {
                self.into()
            }
        })*
    };
}
pub(crate) use children;

children!(Type);

/// Declares nodes: implements [`Fielded`] for each, and calls each macro of `derive` with the node and its fields.
///
/// The fields become two lists: what they add to the structure, as `(kind ..)`, and their names, as `(field "name")`.
macro_rules! nodes {
    (derive $derive:tt $($node:ident { $($field:tt)* })*) => {
        $($crate::ir::node::nodes!(@list ($derive $node) [] [] $($field)*,);)*
    };

    (@list ($derive:tt $node:ident) [$($item:tt)*] [$(($field:ident $name:expr))*] $(,)?) => {
        impl $crate::ir::node::Fielded for $node {
            fn collect_fields<'a>(&'a self, fields: &mut $crate::ir::structural::Fields<'a>) {
                $($crate::ir::node::nodes!(@collect self fields $item);)*
            }

            fn read_fields(node: &$crate::ir::json::NodeReader<'_>) -> Result<$node, $crate::ir::IrError> {
                Ok($node { $($field: $crate::ir::node::Part::read(node, $name)?),* })
            }
        }
        $crate::ir::node::nodes!(@derive $derive $node [$($field)*]);
    };
    (@list $of:tt $items:tt $fields:tt , $($rest:tt)*) => {
        $crate::ir::node::nodes!(@list $of $items $fields $($rest)*);
    };
    (@list $of:tt [$($item:tt)*] $fields:tt scope { $($inner:tt)* }, $($rest:tt)*) => {
        $crate::ir::node::nodes!(@list $of [$($item)* (open)] $fields $($inner)*, @close, $($rest)*);
    };
    (@list $of:tt [$($item:tt)*] $fields:tt @close, $($rest:tt)*) => {
        $crate::ir::node::nodes!(@list $of [$($item)* (close)] $fields $($rest)*);
    };
    (@list $of:tt [$($item:tt)*] $fields:tt also $method:ident, $($rest:tt)*) => {
        $crate::ir::node::nodes!(@list $of [$($item)* (call $method)] $fields $($rest)*);
    };
    (@list $of:tt [$($item:tt)*] [$($fields:tt)*] $field:ident by $method:ident, $($rest:tt)*) => {
        $crate::ir::node::nodes!(
            @list $of [$($item)* (call $method)] [$($fields)* ($field stringify!($field))] $($rest)*
        );
    };
    (@list $of:tt [$($item:tt)*] [$($fields:tt)*] def $field:ident, $($rest:tt)*) => {
        $crate::ir::node::nodes!(
            @list $of [$($item)* (def $field)] [$($fields)* ($field stringify!($field))] $($rest)*
        );
    };
    (@list $of:tt [$($item:tt)*] [$($fields:tt)*] label $field:ident, $($rest:tt)*) => {
        $crate::ir::node::nodes!(
            @list $of [$($item)* (label $field)] [$($fields)* ($field stringify!($field))] $($rest)*
        );
    };
    (@list $of:tt [$($item:tt)*] [$($fields:tt)*] $field:ident as $name:literal, $($rest:tt)*) => {
        $crate::ir::node::nodes!(@list $of [$($item)* (part $field $name)] [$($fields)* ($field $name)] $($rest)*);
    };
    (@list $of:tt [$($item:tt)*] [$($fields:tt)*] $field:ident, $($rest:tt)*) => {
        $crate::ir::node::nodes!(
            @list $of [$($item)* (part $field stringify!($field))] [$($fields)* ($field stringify!($field))] $($rest)*
        );
    };

    (@collect $it:ident $fields:ident (open)) => { $fields.open() };
    (@collect $it:ident $fields:ident (close)) => { $fields.close() };
    (@collect $it:ident $fields:ident (call $method:ident)) => { $it.$method($fields) };
    (@collect $it:ident $fields:ident (def $field:ident)) => { $fields.node(stringify!($field), &$it.$field) };
    (@collect $it:ident $fields:ident (label $field:ident)) => {
        $fields.field(stringify!($field), $crate::ir::structural::Field::Name(&$it.$field))
    };
    (@collect $it:ident $fields:ident (part $field:ident $name:expr)) => {
        $crate::ir::node::Part::collect(&$it.$field, $name, $fields)
    };

    (@derive () $node:ident $fields:tt) => {};
    (@derive ($derive:ident $($rest:ident)*) $node:ident $fields:tt) => {
        $derive!($node $fields);
        $crate::ir::node::nodes!(@derive ($($rest)*) $node $fields);
    };
}
pub(crate) use nodes;

/// Derives traversal and rewriting of a node from those of its fields: implements the trait `Traverse` of the module
/// that declares the node, over the `Visitor` and `Mutator` there.
macro_rules! traverse {
    ($node:ident [$($field:ident)*]) => {
        impl Traverse for $node {
            fn walk<V: Visitor + ?Sized>(&self, v: &mut V) {
                $(self.$field.walk(v);)*
            }

            fn mutate<M: Mutator + ?Sized>(&self, m: &mut M) -> Option<$node> {
                $(let $field = self.$field.mutate(m);)*
                let changed = $($field.is_some())||*;
                changed.then(|| $node { $($field: $field.unwrap_or_else(|| Clone::clone(&self.$field))),* })
            }
        }
    };
}
pub(crate) use traverse;
