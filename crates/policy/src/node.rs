//! For tests: a CPU, in virtual time, and the members of one node, which compute and go elsewhere
//! (Eclipse, section 4).
//!
//! The quantities of the theorems are measured: for each member its lag, w + s - s/a (the time that
//! it has waited and run beyond the time that a CPU of its own with the speed a would take), and
//! for each pair the difference of s/a.

use crate::PPM;

/// A policy, with the state of a node and of its members.
pub trait Order {
    /// Member `m` becomes runnable.
    fn wake(&mut self, m: usize);
    /// Its key; the least is first.
    fn key(&self, m: usize) -> u64;
    /// It is picked.
    fn run(&mut self, _m: usize) {}
    /// How long it may run now, ns.
    fn slice(&self, m: usize) -> u64;
    /// It ran for `ns`.
    fn charge(&mut self, m: usize, ns: u64);
    /// It sleeps. `all`: no other member is runnable.
    fn sleep(&mut self, _m: usize, _all: bool) {}
    /// Does a member that wakes up preempt a member with a greater key?
    fn preempts(&self) -> bool;
}

/// What a member does next: compute for some ns, then be elsewhere for some ns.
pub type Phase = (u64, u64);

/// A member of the node.
pub struct Member {
    /// a, its share of the CPU: so many parts of so many.
    pub share: (u64, u64),
    /// What it does, over and over; with an `elsewhere` of 0 it never sleeps.
    pub phases: Vec<Phase>,
    at: usize,
    todo: u64,
    back: Option<u64>,
    /// What it has run, ns.
    pub ran: u64,
    /// Phases that are done.
    pub done: u64,
    lag: i128,
    least_lag: i128,
    /// The most that its lag has grown over any interval, ns.
    pub worst_lag: i128,
    since_wake: Option<u64>,
    /// Since when what it computes now could have begun: it woke up, or the phase before was done.
    ready: u64,
    /// The most that a phase took from then on, less its length at a speed of a, ns.
    pub worst_job: i128,
    /// When its next turn is expected at a speed of a: a turn is no sooner than 1/a of the one
    /// before (Goyal's EAT), nor than it is there to be run; ns * PPM.
    expected: i128,
    /// The most that a turn was done after it was expected, less its own length, ns.
    pub worst_late: i128,
    /// The longest from a wake-up until it ran, ns.
    pub worst_wait: u64,
}

impl Member {
    /// It begins at 0, with its first phase.
    pub fn new(share: (u64, u64), phases: Vec<Phase>) -> Self {
        Self {
            share,
            at: 0,
            todo: 0,
            back: Some(0),
            ran: 0,
            done: 0,
            lag: 0,
            least_lag: 0,
            worst_lag: 0,
            since_wake: None,
            ready: 0,
            worst_job: 0,
            expected: 0,
            worst_late: 0,
            worst_wait: 0,
            phases,
        }
    }

    fn awake(&self) -> bool {
        self.back.is_none()
    }

    /// What it would have taken at a speed of its own, ns, in parts of 1/PPM.
    fn alone(&self, ran: u64) -> i128 {
        let (parts, whole) = self.share;
        i128::from(ran) * i128::from(PPM) * i128::from(whole) / i128::from(parts)
    }
}

/// The node and its CPU.
pub struct Machine<O> {
    /// The policy.
    pub order: O,
    /// The members.
    pub members: Vec<Member>,
    now: u64,
    /// Of each pair, s/a of the one less that of the other since both have had something to run,
    /// and its extremes.
    pairs: Vec<Vec<[i128; 3]>>,
    /// The most by which two have drifted apart, ns.
    pub worst_pair: i128,
}

impl<O: Order> Machine<O> {
    /// A node at time 0, before any member has run.
    pub fn new(order: O, members: Vec<Member>) -> Self {
        let n = members.len();
        Self {
            order,
            members,
            now: 0,
            pairs: vec![vec![[0; 3]; n]; n],
            worst_pair: 0,
        }
    }

    fn first(&self) -> Option<usize> {
        (0..self.members.len())
            .filter(|&m| self.members[m].awake())
            .min_by_key(|&m| (self.order.key(m), m))
    }

    fn wake_up(&mut self) {
        for m in 0..self.members.len() {
            if self.members[m].back.is_some_and(|at| at <= self.now) {
                let member = &mut self.members[m];
                member.back = None;
                member.todo = member.phases[member.at].0;
                member.since_wake = Some(self.now);
                member.ready = self.now;
                member.expected = member.expected.max(i128::from(self.now) * i128::from(PPM));
                self.order.wake(m);
                for other in 0..self.members.len() {
                    self.pairs[m][other] = [0; 3];
                    self.pairs[other][m] = [0; 3];
                }
            }
        }
    }

    /// `m` runs for `ns`, the others that are awake wait.
    fn pass(&mut self, m: Option<usize>, ns: u64) {
        let awake: Vec<bool> = self.members.iter().map(Member::awake).collect();
        for (i, member) in self
            .members
            .iter_mut()
            .enumerate()
            .filter(|&(i, _)| awake[i])
        {
            member.lag += i128::from(ns) * i128::from(PPM);
            if Some(i) == m {
                member.lag -= member.alone(ns);
            }
            member.least_lag = member.least_lag.min(member.lag);
            let grown = (member.lag - member.least_lag) / i128::from(PPM);
            member.worst_lag = member.worst_lag.max(grown);
        }
        if let Some(m) = m {
            let gained = self.members[m].alone(ns);
            for other in (0..awake.len()).filter(|&other| other != m && awake[other]) {
                for (a, b, sign) in [(m, other, 1), (other, m, -1)] {
                    let [apart, least, most] = &mut self.pairs[a][b];
                    *apart += sign * gained;
                    *least = (*least).min(*apart);
                    *most = (*most).max(*apart);
                    self.worst_pair = self.worst_pair.max((*most - *least) / i128::from(PPM));
                }
            }
        }
        self.now += ns;
    }

    /// Play until `end`, ns.
    pub fn run(&mut self, end: u64) {
        while self.now < end {
            self.wake_up();
            let comes = self.members.iter().filter_map(|m| m.back).min();
            let Some(m) = self.first() else {
                let until = comes.unwrap_or(end).min(end);
                self.pass(None, until - self.now);
                continue;
            };
            if let Some(since) = self.members[m].since_wake.take() {
                let member = &mut self.members[m];
                member.worst_wait = member.worst_wait.max(self.now - since);
            }
            self.order.run(m);
            let mut left = self.order.slice(m).max(1);
            let mut ran = 0;
            // until its slice or phase is over, or a member with a smaller key wakes up
            while left > 0 && self.members[m].todo > 0 && self.now < end {
                let comes = self.members.iter().filter_map(|m| m.back).min();
                let mut ns = left.min(self.members[m].todo).min(end - self.now);
                if let Some(at) = comes {
                    ns = ns.min(at - self.now);
                }
                self.pass(Some(m), ns);
                self.members[m].todo -= ns;
                left -= ns;
                ran += ns;
                if comes == Some(self.now) {
                    self.wake_up();
                    if self.order.preempts() {
                        break;
                    }
                }
            }
            self.order.charge(m, ran);
            self.finish(m, ran);
        }
    }

    fn finish(&mut self, m: usize, ran: u64) {
        let now = self.now;
        let member = &mut self.members[m];
        let late = i128::from(now - ran) - member.expected / i128::from(PPM);
        member.worst_late = member.worst_late.max(late);
        member.expected += member.alone(ran);
        member.ran += ran;
        if member.todo == 0 {
            let (length, elsewhere) = member.phases[member.at];
            let alone = member.alone(length) / i128::from(PPM);
            member.worst_job = member.worst_job.max(i128::from(now - member.ready) - alone);
            member.ready = now;
            member.at = (member.at + 1) % member.phases.len();
            member.done += 1;
            if elsewhere > 0 {
                member.back = Some(now + elsewhere);
                let all = !self.members.iter().any(Member::awake);
                self.order.sleep(m, all);
            } else {
                member.todo = member.phases[member.at].0;
            }
        }
    }
}
