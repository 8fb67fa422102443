//! What passes chose among several forms, and why, for people who ask.

use std::sync::{Arc, Mutex, PoisonError};

/// A choice of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// Name of the pass.
    pub pass: &'static str,
    /// What the choice is about.
    pub subject: String,
    /// What was chosen.
    pub choice: String,
    /// Why.
    pub reason: String,
}

/// The choices of passes, in the order in which they were made; [`PassContext::decisions`](super::PassContext::decisions).
/// Clones share them. By default nothing is recorded, and passes do not describe their choices.
#[derive(Clone, Debug, Default)]
pub struct Decisions(Option<Arc<Mutex<Vec<Decision>>>>);

impl Decisions {
    /// Records what passes choose.
    pub fn recorded() -> Decisions {
        Decisions(Some(Arc::default()))
    }

    /// Notes a choice of the pass `pass`, if choices are recorded: subject, choice and reason.
    pub fn note(&self, pass: &'static str, describe: impl FnOnce() -> [String; 3]) {
        if let Some(all) = &self.0 {
            let [subject, choice, reason] = describe();
            let decision = Decision { pass, subject, choice, reason };
            all.lock().unwrap_or_else(PoisonError::into_inner).push(decision);
        }
    }

    /// What was recorded so far.
    pub fn all(&self) -> Vec<Decision> {
        let all = self.0.as_ref().map(|all| all.lock().unwrap_or_else(PoisonError::into_inner).clone());
        all.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_described_only_where_they_are_recorded() {
        Decisions::default().note("Pass", || unreachable!("nobody asks"));
        let decisions = Decisions::recorded();
        decisions.clone().note("Pass", || ["x", "blocks", "faster"].map(String::from));
        let [decision] = &decisions.all()[..] else { panic!("one choice") };
        assert_eq!((decision.pass, decision.subject.as_str()), ("Pass", "x"));
    }
}
