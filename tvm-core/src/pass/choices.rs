//! What passes chose among several forms, and why, for people who ask.

use std::sync::{Arc, Mutex, PoisonError};

/// A choice of a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Name of the pass.
    pub pass: &'static str,
    /// What the choice is about.
    pub subject: String,
    /// What was chosen.
    pub chosen: String,
    /// Why.
    pub reason: String,
}

/// The choices of passes, in the order in which they were made; [`PassContext::choices`](super::PassContext::choices).
/// Clones share them. By default nothing is recorded, and passes do not describe their choices.
#[derive(Clone, Debug, Default)]
pub struct Choices(Option<Arc<Mutex<Vec<Choice>>>>);

impl Choices {
    /// Records what passes choose.
    pub fn recorded() -> Choices {
        Choices(Some(Arc::default()))
    }

    /// Notes a choice of the pass `pass`, if choices are recorded: subject, what was chosen, and reason.
    pub fn note(&self, pass: &'static str, describe: impl FnOnce() -> [String; 3]) {
        if let Some(all) = &self.0 {
            let [subject, chosen, reason] = describe();
            let choice = Choice { pass, subject, chosen, reason };
            all.lock().unwrap_or_else(PoisonError::into_inner).push(choice);
        }
    }

    /// What was recorded so far.
    pub fn all(&self) -> Vec<Choice> {
        let all = self.0.as_ref().map(|all| all.lock().unwrap_or_else(PoisonError::into_inner).clone());
        all.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_are_described_only_where_they_are_recorded() {
        Choices::default().note("Pass", || unreachable!("nobody asks"));
        let choices = Choices::recorded();
        choices.clone().note("Pass", || ["x", "blocks", "faster"].map(String::from));
        let [choice] = &choices.all()[..] else { panic!("one choice") };
        assert_eq!((choice.pass, choice.subject.as_str()), ("Pass", "x"));
    }
}
