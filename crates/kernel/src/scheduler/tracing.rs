//! The tracing programs of the kernel side.

use libbpf_rs::Link;

use super::{main_skel, quietly};
use crate::LoadError;

/// Attaches them: those of memory only if `memory`. Programs without which the rest works may fail.
///
/// # Errors
///
/// A program that the scheduler needs cannot be attached.
pub(super) fn attach(
    programs: &main_skel::MainProgs<'_>,
    memory: bool,
) -> Result<Vec<Link>, LoadError> {
    let mut links = quietly(|| Ok(vec![programs.on_exec.attach()?, programs.on_exit.attach()?]))?;
    // This one must come after on_exec. It needs tracefs. Without tracefs, some programs may stay
    // unmatched if many are started at the same time on 7.0 or later, but everything else works.
    links.extend(quietly(|| programs.on_exec_left_out.attach()).ok());
    // Without these two, what is moved into its application's cgroup or named after its exec is
    // matched when specs are read the next time.
    links.extend(quietly(|| programs.on_move.attach()).ok());
    links.extend(quietly(|| programs.on_name.attach()).ok());
    // Without this one, a kernel thread that is created later is matched then, too.
    links.extend(quietly(|| programs.on_kernel_thread.attach()).ok());
    // Without these two, a killed or frozen task that is parked reacts only when its park ends.
    links.extend(quietly(|| programs.on_freeze.attach()).ok());
    links.extend(quietly(|| programs.on_kill.attach()).ok());
    if memory {
        // After on_exec, too. Without it, a program that gets a memory domain does not wait for it.
        links.extend(quietly(|| programs.on_start.attach()).ok());
        // Without these, no task is parked while memory is short.
        links.extend(quietly(|| programs.on_low_memory.attach()).ok());
        links.extend(quietly(|| programs.on_huge_page.attach()).ok());
        links.extend(quietly(|| programs.on_direct_reclaim.attach()).ok());
        links.extend(quietly(|| programs.on_memcg_reclaim.attach()).ok());
        // Without these two, waits for pages in swap are not counted, nor a reason to demote.
        links.extend(quietly(|| programs.on_swap_fault.attach()).ok());
        links.extend(quietly(|| programs.on_swap_in.attach()).ok());
        // Without this one, only the kernel's log tells what was killed for memory.
        links.extend(quietly(|| programs.on_killed.attach()).ok());
    }
    Ok(links)
}
