//! Requests that wait for a look at a domain: an errand looks at what is delegated to a user.

use aplomb_domain::DomainPath;

use super::{Outcome, State};
use crate::protocol::{Answer, Code, Refusal};

impl State {
    /// Look at `domain`, now or by an errand.
    pub(super) fn look(&mut self, domain: DomainPath) -> Result<Outcome, Refusal> {
        match self.domains.look(&domain, &mut *self.kernel) {
            Some(found) => self.looked(&domain, found).map(Outcome::Answer),
            None => Ok(Outcome::Look(domain)),
        }
    }

    /// The answer to a request to look at `domain`.
    fn looked(
        &mut self,
        domain: &DomainPath,
        found: Result<(), Refusal>,
    ) -> Result<Answer, Refusal> {
        found?;
        self.reserve_memory();
        if let Some(why) = self.memory.of_domains().refused(domain) {
            return Err(Refusal::new(Code::Limit, format!("{domain}: {why}")));
        }
        Ok(Answer::Done(String::new()))
    }

    /// A connection, by its number, waits for a look at `domain`.
    pub fn await_look(&mut self, id: u32, domain: DomainPath) {
        self.looking.push((id, domain));
    }

    /// The answers of looks that were awaited and are made, with the connections' numbers.
    pub fn take_looked(&mut self) -> Vec<(u32, Answer)> {
        let mut answers = Vec::new();
        for (id, domain) in std::mem::take(&mut self.looking) {
            match self.domains.verdict(&domain) {
                Some(found) => {
                    let answer = self.looked(&domain, found);
                    answers.push((id, answer.unwrap_or_else(Answer::Refused)));
                }
                None => self.looking.push((id, domain)),
            }
        }
        answers
    }
}
