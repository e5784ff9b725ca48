#!/bin/bash
# Tests what the scheduler uses of the kernel: its numbers, the functions that set a task's slice
# and virtual time, memory for a new task. $EXPECT is "old" before Linux 6.19, "new" since. $LACKS:
# what `aplomb doctor` must list as missing, with commas between. Two CPUs.
. /job/guest/lib.sh
. /job/guest/tree.sh

program periodic wakes
program forks forks
k=$trace/events/kern

# FUNCTION: sets a kprobe on it; hits() then reads the kernel's count of its calls.
probe() { echo "p:kern/$1 $1" >> $trace/kprobe_events && echo 1 > "$k/$1/enable"; }
hits() { awk -v name="$1" '$1 == name { print $2 }' $trace/kprobe_profile; }
bpftool btf dump file /sys/kernel/btf/vmlinux | grep "FUNC '" > /tmp/functions
forks() { chrt -o 0 sh -c 'echo $$ > "$0"; exec "$@"' $cg/a/cgroup.procs $bin/forks "$1"; } # N

# The daemon starts in a cgroup of its own, to which the kernel charges the memory of its maps as
# long as they exist. Its memory.max limits them below.
mkdir $cg/home
echo $$ > $cg/home/cgroup.procs
start_daemon || { finish; exit; }
echo $$ > $cg/cgroup.procs
domain_of a
check attached "" attached

# --- what the kernel offers
/job/aplomb doctor > $out/doctor 2>&1
check doctor-agrees "" [ $? = 0 ]
said=$(grep interface $out/doctor)
for word in ${LACKS//,/ }; do
	check "doctor-lacks-$word" "$said" grep -qw "$word" <<< "$said"
done
[ -n "$LACKS" ] || check doctor-lacks-nothing "$said" grep -q complete <<< "$said"
for name in scx_bpf_task_set_slice scx_bpf_task_set_dsq_vtime; do
	found=old
	grep -q "FUNC '$name' " /tmp/functions && found=new
	check "$name" "$found, expected $EXPECT" [ $found = "$EXPECT" ]
done

# --- a wake-up searches an idle CPU once: in ops.select_cpu, and not again in ops.enqueue
for cpu in 0 1; do bg taskset -c $cpu /job/guest-programs/spin 60000; done
sleep 0.5
probe scx_bpf_select_cpu_dfl
probe scx_bpf_pick_idle_cpu
if [ "$EXPECT" = new ]; then
	probe scx_bpf_task_set_slice
	probe scx_bpf_task_set_dsq_vtime
fi
fg $bin/wakes 500 5000 200 > /dev/null
select=$(hits scx_bpf_select_cpu_dfl) pick=$(hits scx_bpf_pick_idle_cpu)
check wake-ups-were-counted "$select" within 100 "$select" 2000
check one-search-a-wake-up "$select in select_cpu, $pick more" within 0 "$pick" $((select / 4))
if [ "$EXPECT" = new ]; then
	slice=$(hits scx_bpf_task_set_slice) vtime=$(hits scx_bpf_task_set_dsq_vtime)
	check slices-are-set-by-function "$slice" within 1 "$slice" 1000000
	check virtual-times-are-set-by-function "$vtime" within 200 "$vtime" 1000000
fi
end_all
for name in "$k"/*/enable; do echo 0 > "$name"; done
: > $trace/kprobe_events

# --- no memory for a new task of a domain: its fork fails with ENOMEM; the scheduler stays
r=$(forks 300)
check forks-succeed "$r" [ "$(value made "$r")" = 300 ]
echo -1000 > /proc/$daemon/oom_score_adj
echo 4096 > $cg/home/memory.max
# Far more than what stays available without a charge: the storage of the 300 tasks that have
# ended, and what each CPU has charged in advance (64 pages).
r=$(forks 2000)
echo max > $cg/home/memory.max
check forks-fail-without-memory "$r" within 1 "$(value no_memory "$r")" 2000
r=$(forks 300)
check forks-succeed-again "$r" [ "$(value made "$r")" = 300 ]
check still-attached "$(state)" attached
gone a
end_job
