#!/bin/bash
# Tests that loops seldom change the cache: more loops of one domain than CPUs, on two sockets of
# two CPUs, each with a cache, in virtual time. (Linux takes a coarse clock on several emulated
# sockets, so turns are counted, and time is not.)
. /job/guest/lib.sh
. /job/guest/tree.sh

share() { [ "$(cat "/sys/devices/system/cpu/cpu0/$1")" = "$2" ]; } # FILE LIST: CPU 0 and others
check caches-of-two "" share cache/index3/shared_cpu_list 0-1
start_daemon || { finish; exit; }
sleep 3
domain_of a

# LOOPS: prints how many turns they have in 4 s, and how many of these begin beside another cache
# than the one before.
turns_of() {
	local i
	for ((i = 0; i < $1; i++)); do in_domain a "$programs/spin" 60000 0 100; done
	sleep 1
	echo 'next_comm == "spin"' > "$trace/events/sched/sched_switch/filter"
	echo > "$trace/trace"
	echo 1 > "$trace/events/sched/sched_switch/enable"
	sleep 4
	echo 0 > "$trace/events/sched/sched_switch/enable"
	grep 'next_comm=spin' "$trace/trace" > "$out/loops-$1"
	end_all
	sed -n 's/.*\[0*\([0-9]\+\)\].* next_pid=\([0-9]*\).*/\1 \2/p' "$out/loops-$1" | awk '
		{ cache = int($1 / 2); n += ($2 in at) && at[$2] != cache; at[$2] = cache }
		END { print NR, n + 0 }'
}
for loops in 5 9; do
	r=$(turns_of $loops)
	check "$loops-loops-take-turns" "turns, and changes of the cache: $r" within 300 "${r% *}" 100000
	# without the rule 55 to 65 %
	check "$loops-loops-seldom-change-the-cache" "turns, and changes of the cache: $r" \
		within 0 "${r#* }" $((${r% *} * 45 / 100))
done

end_job
