#!/bin/bash
# Tests that tasks which may run on some CPUs only (taskset, cpuset.cpus) have what they are due,
# each of them, beside one free loop for each CPU: without domains, in one domain with the free
# loops, and as a container with CPUs of its own. A task that a real-time one preempts goes on at a
# CPU that is idle. Four CPUs or eight, in virtual time. $LENGTH: how long each is measured, ms.
. /job/guest/lib.sh
. /job/guest/tree.sh

cpus=$(nproc)
spin=/job/guest-programs/spin
echo +cpuset > $cg/cgroup.subtree_control

# CGROUP MASK LOOPS: measures that many loops there, from 0.1 s after their start on. Without a
# cgroup they run where the job does. Sets $had, ppm of a CPU each.
measure() {
	local i spun=()
	for ((i = 0; i < $3; i++)); do
		(
			[ -z "$1" ] || echo $BASHPID > "$cg/$1/cgroup.procs"
			exec chrt -o 0 taskset -c "$2" $spin "$LENGTH" 0 100
		) > "$out/spin.$i" 2>&1 < /dev/null &
		spun+=($!)
	done
	wait "${spun[@]}"
	had=()
	for ((i = 0; i < $3; i++)); do had+=("$(value ppm "$(cat "$out/spin.$i")")"); done
}
near() { # DUE: each of $had is within 5 % of it
	local of
	for of in "${had[@]}"; do within $(($1 * 95 / 100)) "$of" $(($1 * 105 / 100)) || return 1; done
}
beside_free() { # NAME CGROUP: masks of several sizes, beside a free loop for each CPU
	local mask loops first last due
	for mask in $masks; do
		IFS=: read -r first last loops <<< "$mask"
		due=$((1000000 * cpus / (cpus + loops)))
		measure "$2" "$first-$last" "$loops"
		check "$1-$loops-loops-on-$first-to-$last" "${had[*]}, due are $due ppm" near $due
	done
}

wake_up() { # CGROUP: prints the "wakeup_us" of a task of CPU 1, 1 ms every 37 ms
	local r
	r=$( (
		[ -z "$1" ] || echo $BASHPID > "$cg/$1/cgroup.procs"
		exec chrt -o 0 taskset -c 1 /job/guest-programs/periodic 1000 37000 100
	) 2>&1 < /dev/null)
	sed -n 's/.*"wakeup_us": {\([^{]*\), "below.*/\1/p' <<< "$r"
}
mean_of() { sed -n 's/.*"mean": \([0-9]*\).*/\1/p' <<< "$1"; }
# NAME CGROUP: a task that wakes up beside the free loops. In one domain with them one of 100 was
# seen to wait for a slice, 8 ms, so the mean counts. Sets $woken.
wakes_at_once() {
	woken=$(wake_up "$2")
	check "$1-wakes-at-once" "wakeup_us: $woken" within 0 "$(mean_of "$woken")" 500
}

# NAME CGROUP: one CPU is idle, a real-time task takes that of a loop for 800 ms. A slice is 4 ms.
# The job is real-time itself, so the CPU's number is read without other programs: sed and cut at a
# time leave two CPUs to three loops, and one of these stood still for 29 ms.
goes_on_elsewhere() {
	local i stat gap worst=0 spun=()
	for ((i = 0; i < cpus - 1; i++)); do
		(
			[ -z "$2" ] || echo $BASHPID > "$cg/$2/cgroup.procs"
			exec chrt -o 0 $spin 2500 0 100
		) > "$out/spin.$i" 2>&1 < /dev/null &
		spun+=($!)
	done
	sleep 1
	read -ra stat < "/proc/${spun[0]}/stat"
	chrt -f 2 taskset -c "${stat[38]}" $spin 800 > /dev/null # field 39: the CPU
	wait "${spun[@]}"
	for ((i = 0; i < cpus - 1; i++)); do
		gap=$(value gap_ms "$(cat "$out/spin.$i")")
		[ "$gap" -le $worst ] || worst=$gap
	done
	check "$1-goes-on-elsewhere" "stood still for $worst ms" [ "$worst" -le 20 ]
}

# first and last CPU, loops
masks="1:3:3 1:2:3"
[ "$cpus" -lt 8 ] || masks="2:5:6 4:7:4 1:7:9"

# CPUs take turns of 0.1 ms here, so on eight a wake-up takes long under EEVDF, too: it is compared.
if [ "$cpus" -ge 8 ]; then
	domain_of a
	for ((i = 0; i < cpus; i++)); do in_domain a $hog 1; done
	sleep 1
	stock=$(wake_up "")
	end_all
fi
start_daemon || { finish; exit; }
say "without domains"
for ((i = 0; i < cpus; i++)); do bg $hog 1; done
beside_free plain ""
wakes_at_once plain ""
end_all
goes_on_elsewhere plain ""

say "in one domain"
domain_of a
goes_on_elsewhere in-a-domain a
for ((i = 0; i < cpus; i++)); do in_domain a $hog 1; done
beside_free in-a-domain a
wakes_at_once in-a-domain a
wakes_at_once beside-a-domain ""
if [ "$cpus" -ge 8 ]; then
	most=$(mean_of "$stock")
	check sooner-than-under-eevdf "$woken; EEVDF: $stock" within 0 "$(mean_of "$woken")" "$most"
fi

say "a container with CPUs of its own"
domain_of box
echo "1-$((cpus / 2))" > $cg/box/cpuset.cpus
weigh box 50 # due a third of the machine
loops=$((cpus / 2 + 1))
measure box "0-$((cpus - 1))" $loops # the cpuset has the last word
due=$((1000000 * cpus / 3 / loops))
check container "${had[*]}, due are $due ppm" near $due
end_all

say "two domains, 1:9, with a loop of each for each CPU"
# Ticks of all CPUs coincide here, so they often choose while a task is on its way into a queue.
off=5000 # ppm of the machine; on four CPUs it is 900 (results/cpus/shares-4.json)
[ "$cpus" = 4 ] || off=10000 # on eight 3,100
domain_of light
domain_of heavy
weigh heavy 900
for ((i = 0; i < cpus; i++)); do
	in_domain light $hog 1
	in_domain heavy $hog 1
done
sleep 1
ppm=$(share light heavy 10)
check a-tenth-of-all-cpus "$ppm ppm" within $((100000 - off)) "$ppm" $((100000 + off))
end_all

end_job
