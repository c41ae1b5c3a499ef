//! The cases of a policy file: questions with the answers that its author wants.

use super::Policy;
use super::explanation::Verdict;
use super::mistake::{Mistake, Place};
use super::question::Question;

/// A question and its right answer. Addresses of names are not looked up, so nothing is said about them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Case {
    pub(super) place: Place,
    pub(super) question: Question,
    pub(super) expect: Verdict,
    /// Of a denial; none where any will do.
    pub(super) code: Option<String>,
}

impl Case {
    /// What is wrong when a policy answers otherwise.
    ///
    /// # Errors
    /// The [`Mistake`], at the case.
    pub fn check(&self, policy: &Policy) -> Result<(), Mistake> {
        let question = &self.question;
        let (what, hint) = match (self.expect, question.ask(policy), self.code.as_deref()) {
            (Verdict::Permit, Ok(_), _) => return Ok(()),
            (Verdict::Permit, Err(denial), _) => {
                let what =
                    format!("{question} is denied ({}), and this case expects it to be permitted", denial.code());
                (what, denial.to_string())
            }
            (Verdict::Deny, Ok(permit), _) => {
                let what = format!("{question} is permitted, and this case expects it to be denied");
                (what, format!("it is permitted by {}", permit.grant))
            }
            (Verdict::Deny, Err(denial), Some(code)) if denial.code() != code => {
                let what = format!("{question} is denied as {}, and this case expects {code}", denial.code());
                (what, denial.to_string())
            }
            (Verdict::Deny, Err(_), Some(_) | None) => return Ok(()),
        };
        Err(Mistake { place: self.place.clone(), what, hint })
    }
}
