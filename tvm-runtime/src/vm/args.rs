//! Arguments of calls.

use smallvec::SmallVec;

use super::workspace::Workspace;
use crate::value::Value;

/// Arguments of a call: a slice, an array or a vector of values. Passed by reference, the values stay with the caller.
/// Passed by value, they are given away: the program may reuse the memory of those that nobody else has.
pub trait IntoArgs {
    /// Puts the arguments into the first registers of a run.
    #[doc(hidden)]
    fn push_to(self, workspace: &mut Workspace);
}

macro_rules! into_args {
    ($([$($generics:tt)*] $ty:ty, |$args:ident| $values:expr;)*) => {$(
        impl<$($generics)*> IntoArgs for $ty {
            fn push_to(self, workspace: &mut Workspace) {
                let $args = self;
                workspace.start($values);
            }
        }
    )*};
}

into_args! {
    [] &[Value], |args| args.iter().cloned();
    [] &Vec<Value>, |args| args.iter().cloned();
    [const N: usize] &[Value; N], |args| args.iter().cloned();
    [] Vec<Value>, |args| args.into_iter();
    [const N: usize] [Value; N], |args| args.into_iter();
    [] SmallVec<[Value; 4]>, |args| args.into_iter();
}
