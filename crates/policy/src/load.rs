//! `load.h`: R_load and S_load of a CPU, admission, and the use of one server (Redline section
//! 6.1).

/// Samples in the observation window, one a second (`LOAD_SAMPLES`).
pub const SAMPLES: usize = 4;

/// The loads of one CPU (`struct load`), ppm of one CPU.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// The latest samples, as a ring.
    pub sample_ppm: [u64; SAMPLES],
    /// R_load: the mean of the samples.
    pub r_ppm: u64,
    /// S_load: the expected load.
    pub s_ppm: u64,
    /// The part of S_load that was launched after the latest sample.
    pub fresh_ppm: u64,
    /// Index of the next sample in the ring.
    pub next: u32,
    /// Unused.
    pub pad: u32,
}

/// CPU time of one server in each second of the window (`struct usage`).
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of the latest second.
    pub second: u64,
    /// CPU time of each second, ns; second `n` is at index `n % SAMPLES`.
    pub ns: [u64; SAMPLES],
}

extern "C" {
    fn policy_load_expected(l: *const Load) -> u64;
    fn policy_load_fits(l: *const Load, bw_ppm: u64, r_hi_ppm: u64) -> bool;
    fn policy_load_launch(l: *mut Load, bw_ppm: u64);
    fn policy_load_leave(l: *mut Load, bw_ppm: u64, age_s: u64);
    fn policy_load_sample(l: *mut Load, used_ns: u64, interval_ns: u64);
    fn policy_load_forget(l: *mut Load, use_ppm: u64);
    fn policy_usage_add(u: *mut Usage, second: u64, ns: u64);
    fn policy_usage_ppm(u: *mut Usage, second: u64) -> u64;
    fn policy_usage_part_ppm(use_ppm: u64, bw_ppm: u64, age_ns: u64) -> u64;
}

// SAFETY, for all of these: the C functions access only `*l`, whose layout the tests compare.
impl Load {
    /// max(R_load, S_load), ppm.
    pub fn expected(&self) -> u64 {
        unsafe { policy_load_expected(self) }
    }

    /// Admission: does a task of `bw_ppm` keep the expected load below `r_hi_ppm`?
    pub fn fits(&self, bw_ppm: u64, r_hi_ppm: u64) -> bool {
        unsafe { policy_load_fits(self, bw_ppm, r_hi_ppm) }
    }

    /// A task of `bw_ppm` was launched here.
    pub fn launch(&mut self, bw_ppm: u64) {
        unsafe { policy_load_launch(self, bw_ppm) }
    }

    /// A task of `bw_ppm` that was launched `age_s` seconds ago has exited.
    pub fn leave(&mut self, bw_ppm: u64, age_s: u64) {
        unsafe { policy_load_leave(self, bw_ppm, age_s) }
    }

    /// Adds the sample of one second: `used_ns` of `interval_ns` were run on budgets. Adds nothing
    /// if the interval is 0.
    pub fn sample(&mut self, used_ns: u64, interval_ns: u64) {
        unsafe { policy_load_sample(self, used_ns, interval_ns) }
    }

    /// A task that used `use_ppm` over the window was revoked: takes its use out of R_load.
    pub fn forget(&mut self, use_ppm: u64) {
        unsafe { policy_load_forget(self, use_ppm) }
    }
}

// SAFETY: as above.
impl Usage {
    /// The server ran for `ns` in the given second.
    pub fn add(&mut self, second: u64, ns: u64) {
        unsafe { policy_usage_add(self, second, ns) }
    }

    /// Mean use over the window that ends with the given second, ppm of a CPU.
    pub fn ppm(&mut self, second: u64) -> u64 {
        unsafe { policy_usage_ppm(self, second) }
    }
}

/// How much of its reservation of `bw_ppm` a server used, in ppm of the reservation. The server was
/// admitted `age_ns` ago, and its mean use over the whole window is `use_ppm`.
pub fn usage_part_ppm(use_ppm: u64, bw_ppm: u64, age_ns: u64) -> u64 {
    // SAFETY: pure arithmetic on its arguments.
    unsafe { policy_usage_part_ppm(use_ppm, bw_ppm, age_ns) }
}

#[cfg(test)]
mod tests;
