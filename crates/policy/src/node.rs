//! For tests: a CPU in virtual time with the members of one node, which compute and then wait
//! elsewhere (Eclipse, section 4).
//!
//! The machine measures the quantities of the theorems. For each member: its lag, w + s - s/a,
//! where w is the time it has waited, s the time it has run, and a its share. That is how much
//! longer it has taken than on a CPU of its own with the speed a. For each pair of members: the
//! difference of s/a.

use crate::PPM;

/// A policy, with the state of a node and its members.
pub trait Order {
    /// Member `m` becomes runnable.
    fn wake(&mut self, m: usize);
    /// The member's key; the member with the least key runs first.
    fn key(&self, m: usize) -> u64;
    /// The member is chosen.
    fn run(&mut self, _m: usize) {}
    /// How long the member may run now, ns.
    fn slice(&self, m: usize) -> u64;
    /// The member ran for `ns`.
    fn charge(&mut self, m: usize, ns: u64);
    /// The member goes to sleep. `all`: no other member is runnable.
    fn sleep(&mut self, _m: usize, _all: bool) {}
    /// Does a member that wakes up preempt a running member with a greater key?
    fn preempts(&self) -> bool;
}

/// What a member does next: it computes for the first number of ns, then sleeps for the second.
pub type Phase = (u64, u64);

/// A member of the node.
pub struct Member {
    /// The member's share a of the CPU, as a fraction (numerator, denominator).
    pub share: (u64, u64),
    /// What the member does, repeatedly. If a phase's second number is 0, it does not sleep after
    /// it.
    pub phases: Vec<Phase>,
    at: usize,
    todo: u64,
    back: Option<u64>,
    /// Total run time, ns.
    pub ran: u64,
    /// Number of completed phases.
    pub done: u64,
    lag: i128,
    least_lag: i128,
    /// The most by which the lag grew over any interval, ns.
    pub worst_lag: i128,
    since_wake: Option<u64>,
    /// Time, ns, from which the current phase could have begun: the member woke up, or the previous
    /// phase was completed.
    ready: u64,
    /// The most that a phase took from `ready` on, beyond its length at a speed of a, ns.
    pub worst_job: i128,
    /// The time at which the next turn is expected at a speed of a (Goyal's EAT), ns * PPM. A turn
    /// is expected when the one before it would be done at that speed, but not before the member is
    /// runnable.
    expected: i128,
    /// The longest time between a turn's expected and its actual beginning, ns.
    pub worst_late: i128,
    /// The longest time between a wake-up and the member's next run, ns.
    pub worst_wait: u64,
}

impl Member {
    /// A member that wakes up at 0 with its first phase.
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

    /// The time that `ran` ns take at a speed of a, ns * PPM.
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
    /// For each pair, s/a of the first less s/a of the second since both have been runnable: the
    /// current value, the least and the greatest, ns * PPM.
    pairs: Vec<Vec<[i128; 3]>>,
    /// The most by which the s/a of two members have drifted apart, ns.
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

    /// Time advances by `ns`. Member `m` runs, the other members that are awake wait.
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

    /// Runs the machine until `end`, ns.
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
            // until the slice or the phase is over, or a member wakes up and may preempt
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
