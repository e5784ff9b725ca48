//! A model of the kernel's generations, for tests: pages with accessed bits, at most four
//! generations, aging as `mm/vmscan.c` does it.

use std::time::{Duration, Instant};

use crate::ages::{Ages, Generation, Node};

/// Generations that the kernel keeps (MAX_NR_GENS).
const GENERATIONS: usize = 4;

/// A page of the model.
#[derive(Debug, Clone, Copy)]
struct Page {
    used: Instant,
    accessed: bool,
    seq: u64,
}

/// The pages of one cgroup.
#[derive(Debug)]
pub struct Kernel {
    pages: Vec<Page>,
    /// Births of the generations, the oldest first. The last one has the number `max_seq`.
    births: Vec<Instant>,
    max_seq: u64,
}

impl Kernel {
    pub fn new(now: Instant) -> Self {
        Self {
            pages: Vec::new(),
            births: vec![now],
            max_seq: 0,
        }
    }

    /// Use the pages from `first` on. Those that do not exist are allocated.
    pub fn touch(&mut self, now: Instant, first: usize, count: usize) {
        let new = Page {
            used: now,
            accessed: true,
            seq: self.max_seq,
        };
        let end = first + count;
        let length = self.pages.len().max(end);
        self.pages.resize(length, new);
        for page in &mut self.pages[first..end] {
            page.used = now;
            page.accessed = true;
        }
    }

    /// Move the used pages into the youngest generation, and create the next one.
    pub fn age(&mut self, now: Instant) {
        for page in &mut self.pages {
            if std::mem::take(&mut page.accessed) {
                page.seq = self.max_seq;
            }
        }
        self.births.push(now);
        self.max_seq += 1;
        if self.births.len() > GENERATIONS {
            self.births.remove(0);
        }
        let min_seq = self.min_seq();
        for page in &mut self.pages {
            page.seq = page.seq.max(min_seq);
        }
    }

    fn min_seq(&self) -> u64 {
        self.max_seq + 1 - self.births.len() as u64
    }

    pub fn ages(&self, now: Instant) -> Ages {
        let generations = self.births.iter().zip(self.min_seq()..);
        let generations = generations.map(|(birth, seq)| Generation {
            seq,
            // The kernel counts ticks; its file has milliseconds.
            age: Duration::from_millis(now.duration_since(*birth).as_millis() as u64),
            anon_pages: self.pages.iter().filter(|p| p.seq == seq).count() as u64,
            file_pages: 0,
        });
        let node = Node {
            id: 0,
            generations: generations.collect(),
        };
        Ages {
            memcg: 5,
            nodes: vec![node],
        }
    }

    pub fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// Pages that were used within the last `pi`, as they really are.
    pub fn young(&self, now: Instant, pi: Duration) -> u64 {
        let young = self.pages.iter();
        let young = young.filter(|p| now.duration_since(p.used) < pi);
        young.count() as u64
    }
}
