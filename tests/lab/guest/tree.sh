# tree.sh - makes, uses and measures domains by their directories. Sourced by bash, after lib.sh.
cg=$cgroups
domain_of() { mkdir -p "$cg/$1"; echo +cpu > "$cg/$(dirname "$1")/cgroup.subtree_control" 2> /dev/null; } # PATH
weigh() { echo "$2" > "$cg/$1/cpu.weight"; }
in_domain() { # PATH WORD…: starts an ordinary task there, in the background; adds it to $pids
	local path=$1
	shift
	( enter_domain "$path" "$@" ) > /dev/null 2>&1 < /dev/null &
	pids+=($!)
}
used() { sed -n 's/^usage_usec //p' "$cg/$1/cpu.stat"; } # PATH: CPU time used, us
gone() { # PATH…: removes each as soon as it is empty
	local path
	for path; do until_true 5 rmdir "$cg/$path"; done
}
# PATH SECONDS: ppm of one CPU that the domain uses from now on
had() {
	local u0 u1 t0 t1
	t0=$(date +%s%N) u0=$(used "$1")
	sleep "$2"
	t1=$(date +%s%N) u1=$(used "$1")
	echo $(((u1 - u0) * 1000000000 / (t1 - t0)))
}
# PATH OTHER SECONDS: ppm that PATH uses of what both use from now on. (Not of the CPU: the job
# itself takes a percent.)
share() {
	local u0 u1 o0 o1
	u0=$(used "$1") o0=$(used "$2")
	sleep "$3"
	u1=$(used "$1") o1=$(used "$2")
	echo $(((u1 - u0) * 1000000 / (u1 - u0 + o1 - o0)))
}
# DOMAIN FIELD: what the daemon says of a domain.
shown() { a domain show "$1" --over 100ms --json | jq -r --arg field "$2" '.[$field]'; }
field_is() { [ "$(shown "$1" "$2")" = "$3" ]; }
reserves() { # DOMAIN PERCENT
	a domain show "$1" --over 100ms --json | jq -e --argjson ppm "${2}0000" '.reservation.fraction == $ppm'
}

# --- processes in a domain
procs_of() { cat "$cg/$1/cgroup.procs"; }
empty() { ! grep -q . "$cg/$1/cgroup.procs"; }
has() { [ "$(procs_of "$1" | wc -l)" -ge "$2" ]; } # PATH PROCESSES
move_all() { # FROM TO
	local pid list
	mapfile -t list < "$cg/$1/cgroup.procs" # in one read: the file skips processes if others leave meanwhile
	for pid in "${list[@]}"; do echo "$pid" > "$cg/$2/cgroup.procs"; done 2> /dev/null
}
# PATH SECONDS: prints the processes there that were runnable and did not run in that time
stuck() {
	local pid i f
	local -A before
	for i in 0 1; do
		[ $i = 0 ] || sleep "$2"
		for pid in $(procs_of "$1"); do
			read -ra f 2> /dev/null < "/proc/$pid/stat" || continue
			[ $i = 0 ] && before[$pid]=$((f[13] + f[14]))
			[ $i = 1 ] && [ "${f[2]}" = R ] && [ "${before[$pid]}" = $((f[13] + f[14])) ] && echo "$pid"
		done
	done
}
alive() { kill -0 "${pids[@]}"; }
domains() { a domain ls --over 100ms --json | jq length; } # with the root
are_domains() { [ "$(domains)" = "$1" ]; }
daemon_goes_on() { kill -0 $daemon && ! grep -i panic $daemon_log && a status; }

echo +cpu > $cg/cgroup.subtree_control
