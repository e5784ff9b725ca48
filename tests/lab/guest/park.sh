# Tests that affinity, cpuset, freeze and kill of parked tasks take effect within 10 ms, and parks
# by request. Two CPUs in virtual time.
. /job/guest/lib.sh
. /job/guest/tree.sh

effect=/job/guest-programs/effect
grace=/job/guest-programs/grace
start_daemon || { finish; exit; }
echo +cpuset > $cg/cgroup.subtree_control

# NAME TASKS: makes a domain that may use 2 ms each second, so it is throttled for the rest of it.
throttled_domain() {
	local i
	domain_of "$1"
	echo 0-1 > "$cg/$1/cpuset.cpus"
	echo "2000 1000000" > "$cg/$1/cpu.max"
	for ((i = 0; i < $2; i++)); do in_domain "$1" /job/guest-programs/spin 600000; done
	until_true 5 has "$1" "$2"
	sleep 1.2
}
cpu_of() { local f; read -ra f < "/proc/$1/stat"; echo "${f[38]}"; } # PID
worst=0
record() { # WORD…: notes the time that `effect` prints; if it prints none, the check will fail
	local us
	us=$(value effect_us "$("$@")")
	[ -n "$us" ] || { worst=999999999; return; }
	times="$times $us"
	[ "$us" -le $worst ] || worst=$us
}
measure() { worst=0 times=; }
takes_effect() { check "$1" "$worst us at most:$times" within 0 "$worst" 10000; } # NAME

say "affinity of throttled tasks"
throttled_domain quota 3
check is-throttled "$(shown quota throttled) times" [ "$(shown quota throttled)" -gt 0 ]
measure
for round in 1 2 3; do
	for pid in "${pids[@]}"; do
		sleep 0.13
		record $effect affinity "$pid" $((1 - $(cpu_of "$pid")))
	done
done
takes_effect affinity-takes-effect
for pid in "${pids[@]}"; do taskset -p 3 "$pid" > /dev/null; done

say "cpuset of a throttled domain"
measure
for cpus in 0 1 0 1 0-1 1 0; do
	sleep 0.23
	record $effect cpus $cg/quota $cpus
done
takes_effect cpuset-takes-effect
echo 0-1 > $cg/quota/cpuset.cpus

say "freeze of a throttled domain"
measure
for round in 1 2 3 4 5; do
	sleep 0.27
	record $effect freeze $cg/quota
	echo 0 > $cg/quota/cgroup.freeze
done
takes_effect freeze-takes-effect
before=$(used quota)
sleep 3
us=$(($(used quota) - before))
# The tasks had to run for the changes to take effect. That time is charged to the domain beyond its
# quota, and the quota of later periods repays it.
check quota-holds-after-the-changes "$us us in 3 s of 2000 each" within 0 $us 9000
check tasks-live "" alive

say "kill of throttled tasks"
measure
for pid in "${pids[@]}"; do
	sleep 0.31
	record $effect kill "$pid"
done
takes_effect kill-takes-effect
end_all
gone quota

say "RCU readers in a throttled domain"
# Pinned tasks are preempted as RCU readers when their domain is throttled. They leave the kernel
# before they are parked, so no grace period waits for the next period of cpu.max.
domain_of readers
echo "5000 1000000" > $cg/readers/cpu.max
for cpu in 0 1 0 1; do in_domain readers taskset -c $cpu $grace read; done
for cpu in 0 1; do bg taskset -c $cpu $hog 1; done
until_true 5 has readers 4
sleep 1
r=$(fg $grace wait 6000)
check throttled-readers-hold-up-no-grace-period "$r" within 1 "$(value longest_ms "$r")" 300
us=$(used readers)
sleep 3
check readers-quota-holds "$(($(used readers) - us)) us in 3 s of 5000 each" \
	within 5000 $(($(used readers) - us)) 25000
end_all
gone readers

say "thread ids that are alike"
# A thread that was asked to land while it sleeps in the kernel does so when it wakes up. That must
# not keep another thread from landing, whatever its id: a user could evade cpu.max.
domain_of evader
echo "2000 1000000" > $cg/evader/cpu.max
bg sleep 600
sleeper=$!
sleep 0.2
a park $sleeper --for 50ms > /dev/null
like=$((sleeper + 4096))
echo $((like - 1)) > /proc/sys/kernel/ns_last_pid
in_domain evader taskset -c 0 $grace read
check thread-ids-are-alike "$sleeper and $!" [ $! = $like ]
bg taskset -c 0 $hog 1
sleep 1
us=$(used evader)
sleep 3
us=$(($(used evader) - us))
check like-thread-is-throttled "$us us in 3 s of 2000 each" within 1000 $us 12000
end_all
gone evader

say "parks by request"
gap_with() { # TIME: parks a loop for that long; prints the longest time, ms, in which it did not run
	bg_to /tmp/spun /job/guest-programs/spin 2000
	sleep 0.7
	a park $! --for "$1" > /dev/null
	wait $!
	value gap_ms "$(cat /tmp/spun)"
}
gap=$(gap_with 50ms)
check request-is-held-so-long "$gap ms, asked for 50, in whole ms" within 49 "$gap" 53
gap=$(gap_with 5s)
check request-is-cut-to-the-bound "$gap ms, asked for 5,000, bound 100" within 99 "$gap" 103
bg /job/guest-programs/spin 600000
measure
a park $! --for 100ms > /dev/null
record $effect kill $!
takes_effect kill-of-a-held-task-takes-effect
end_all
bg /job/guest-programs/spin 600000
as_user /job/aplomb park $! --for 50ms > /dev/null 2> /tmp/refused
status=$?
check users-may-not-park "status $status" [ $status != 0 ]
end_all
status=0
a park 2 --for 50ms > /dev/null 2> /tmp/refused || status=$?
check kernel-threads-never-park "$(cat /tmp/refused)" [ $status != 0 ]
times=$(a domain show / --over 100ms --json | jq '.parked[] | select(.reason == "request") | .times')
check parks-are-counted "$times" within 3 "$times" 10

check attached "$(state)" attached
end_job
