#!/bin/bash
# Tests on which CPU a task wakes up while CPUs are idle: on a core that is idle rather than beside
# the busy thread of one, and among such cores at its own cache; if no core is idle, at its own
# cache. Two sockets of two cores of two threads, in virtual time; a socket has one cache.
. /job/guest/lib.sh
. /job/guest/tree.sh

tries=50
share() { [ "$(cat "/sys/devices/system/cpu/cpu0/$1")" = "$2" ]; } # FILE LIST: CPU 0 and others

# NAME CGROUP "BUSY CPU"… "EXPECTED CPU"…: loops on the busy CPUs. A task that has slept on CPU 1
# may run anywhere, and wakes up: how often on one of those that are expected? A tenth of $tries may
# find these busy with work of the kernel or of the daemon.
wakes_on() {
	local busy found cpu hits=0
	for busy in $3; do in_domain "$2" taskset -c "$busy" "$hog" 1; done
	found=$(enter_domain "$2" "$programs/woke" 1 $tries)
	end_all
	for cpu in $found; do [[ " $4 " != *" $cpu "* ]] || hits=$((hits + 1)); done
	check "$1" "on $found; expected: $4" within $((tries * 9 / 10)) $hits $tries
}
in_each_case() { # NAME CGROUP
	wakes_on "$1-idle-core-of-its-cache-first" "$2" 0 "2 3"
	wakes_on "$1-idle-core-of-another-cache-next" "$2" "0 2" "4 5 6 7"
	wakes_on "$1-idle-thread-of-its-cache-last" "$2" "0 2 4 6" "1 3"
}

check cores-of-two "" share topology/core_cpus_list 0-1
check caches-of-four "" share cache/index3/shared_cpu_list 0-3
start_daemon || { finish; exit; }
sleep 3 # the daemon looks at what runs
say "without domains"
in_each_case plain .
say "in a domain"
domain_of a
in_each_case in-a-domain a

end_job
