#!/bin/bash
# Tests CPUs that differ, and cores of several threads: two cores of two threads in virtual time.
# First the daemon is told that the second core does half of the work. A budget there is twice as
# long; tasks wake up on fast CPUs, and leave slow ones; background work stays there; reservations
# are placed on fast ones. Then all CPUs are alike: reservations are spread over the cores.
. /job/guest/lib.sh
. /job/guest/tree.sh

tries=50
cpu_of() { sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f37; } # PID: field 39
for name in hard held; do program spin $name; done
spec hard 6ms/30ms 'server = "cbs-hard"'
program periodic film
program periodic call
spec film 4ms/20ms
spec call 4ms/20ms 'guaranteed = true'

echo 'cpu-capacities = "2-3=512"' > /tmp/aplomb.toml
start_daemon --config /tmp/aplomb.toml || { finish; exit; }
sleep 3 # the daemon looks at what runs

say "budgets"
# On a fast CPU 20 %; on a slow one the work takes twice as long. (Exact to 0.5 % on one CPU:
# reserved.sh. Here all CPUs share one of the host.)
r=$(fg taskset -c 1 "$bin/hard" 5990)
check budget-of-a-fast-cpu "20 % reserved: $r" within 198000 "$(value ppm "$r")" 204000
r=$(fg taskset -c 2 "$bin/hard" 5990)
check budget-of-a-slow-cpu "20 % reserved: $r" within 396000 "$(value ppm "$r")" 408000

say "placement"
placed() { # PROGRAM: the CPUs of its reservations
	local i
	for i in 1 2 3 4; do bg "$bin/$1" 1000 20000 1000000; done
	sleep 1
	a status --json > "$out/placed.json"
	jq -r --arg name "$1" '[.tasks[] | select(.comm == $name) | .cpu] | join(" ")' "$out/placed.json"
	end_all
}
all_fast() { [ -n "$1" ] && [ -z "$(tr -d '01 ' <<< "$1")" ]; }
for name in film call; do
	r=$(placed $name)
	check "$name-is-placed-on-fast-cpus" "on CPUs $r" all_fast "$r"
done

# NAME CGROUP CPU "EXPECTED CPU"… COMMAND…: a task that has slept on that CPU may run anywhere, and
# wakes up: how often on one of those that are expected? A tenth of $tries may find these busy with
# work of the kernel or of the daemon. (Left to the kernel, it would wake up where it slept.)
wakes_on() {
	local name=$1 cgroup=$2 from=$3 expected=$4 found cpu hits=0
	shift 4
	found=$(enter_domain "$cgroup" "$@" "$programs/woke" "$from" $tries)
	for cpu in $found; do [[ " $expected " != *" $cpu "* ]] || hits=$((hits + 1)); done
	check "$name" "on $found; expected: $expected" within $((tries * 9 / 10)) $hits $tries
}
leaves() { # NAME CGROUP: a loop of a slow CPU, as soon as it may
	local task
	in_domain "$2" taskset -c 3 "$programs/spin" 60000 0 100
	task=${pids[-1]}
	sleep 0.2
	check "$1-loop-is-on-a-slow-cpu" "" [ "$(cpu_of "$task")" = 3 ]
	taskset -p -c 0-3 "$task" > /dev/null
	sleep 0.1
	check "$1-loop-leaves-it" "on $(cpu_of "$task")" within 0 "$(cpu_of "$task")" 1
	end_all
}
in_each_case() { # NAME CGROUP
	wakes_on "$1-task-wakes-up-on-a-fast-cpu" "$2" 3 "0 1"
	wakes_on "$1-background-work-wakes-up-on-a-slow-cpu" "$2" 0 "2 3" chrt -i 0
	leaves "$1" "$2"
}
say "without domains"
in_each_case plain .
say "in a domain"
domain_of a
in_each_case in-a-domain a

say "all alike"
stop_daemon
start_daemon || { finish; exit; }
sleep 3
on_both_cores() { [ "$(tr ' ' '\n' <<< "$1" | sed 's/[01]/a/; s/[23]/b/' | sort | uniq -c | tr -d ' \n')" = 2a2b ]; }
r=$(placed film)
check reservations-are-spread-over-cores "on CPUs $r" on_both_cores "$r"

end_job
