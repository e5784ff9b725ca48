//! The parts of sched_ext's interface that differ between kernels: which of them does this kernel
//! have?

use super::{fail, ok, Fact, Machine};
use crate::btf::Types;
use crate::scheduler;

impl Machine {
    /// Checks the kernel's sched_ext interface. The kernel must have all enumerators that the
    /// programs use. Parts that are newer than 6.16 are optional.
    pub(super) fn interface(&self) -> Fact {
        let Some(types) = self.types().filter(|_| self.has_sched_ext()) else {
            return ok("interface", "unknown (without sched_ext or btf)");
        };
        let missing = match scheduler::missing_enumerators(&types) {
            Ok(missing) => missing,
            Err(error) => return ok("interface", format!("unknown ({error})")),
        };
        if !missing.is_empty() {
            return fail(
                "interface",
                format!("without {}", missing.join(", ")),
                "the scheduler takes these numbers of sched_ext from the kernel",
                "boot a kernel of 6.16 to 7.3, and report this one",
            );
        }
        let lacks = lacks(&types);
        if lacks.is_empty() {
            ok("interface", "complete")
        } else {
            ok("interface", format!("without {}", lacks.join(", ")))
        }
    }
}

impl Machine {
    /// True if this kernel takes queueing disciplines in BPF.
    pub(crate) fn has_bpf_qdiscs(&self) -> bool {
        self.types()
            .is_some_and(|types| types.has_function("bpf_qdisc_skb_drop"))
    }

    /// Whether packets can be ordered (`aplomb net`).
    pub(super) fn qdiscs(&self) -> Fact {
        if self.has_bpf_qdiscs() {
            return ok("network", "packets can be ordered");
        }
        ok(
            "network",
            "without queueing disciplines in BPF (Linux 6.16, CONFIG_NET_SCH_BPF)",
        )
    }
}

/// The optional parts of the interface (newer than the oldest supported kernel) that this kernel
/// lacks.
fn lacks(types: &Types) -> Vec<&'static str> {
    let ops = |member| types.has_member("sched_ext_ops", member);
    let function = |name| types.has_function(name);
    let parts = [
        (ops("cgroup_set_bandwidth"), "cpu.max (Linux 6.17)"),
        (ops("cgroup_set_idle"), "changes of cpu.idle (6.19)"),
        (
            function("scx_bpf_task_set_slice"),
            "functions that set a task's slice (6.19)",
        ),
        (
            function("bpf_task_work_schedule_resume"),
            "task work at the return to user mode (7.0)",
        ),
    ];
    let lacks = parts.into_iter().filter(|(has, _)| !has);
    lacks.map(|(_, what)| what).collect()
}
