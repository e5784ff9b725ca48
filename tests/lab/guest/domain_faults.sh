# Issue 4, section 4: what may happen to domains, and must do no harm: thousands of them, changes at random, processes that
# move in any state, cgroups that vanish, users who want more than they may have. One CPU, exact time.
. /job/guest/lib.sh
. /job/guest/tree.sh

procs_of() { cat "$cg/$1/cgroup.procs"; }
empty() { ! grep -q . "$cg/$1/cgroup.procs"; }
has() { [ "$(procs_of "$1" | wc -l)" -ge "$2" ]; } # PATH PROCESSES
move_all() { # FROM TO
	local pid list
	mapfile -t list < "$cg/$1/cgroup.procs" # at once: the file skips some when others go meanwhile
	for pid in "${list[@]}"; do echo "$pid" > "$cg/$2/cgroup.procs"; done 2> /dev/null
}
# PATH SECONDS: processes there that want to run and did not
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
domains() { a domain ls --over 100ms --json | grep -c '"cgid"'; } # with the root
are_domains() { [ "$(domains)" = "$1" ]; }
daemon_goes_on() { kill -0 $daemon && ! grep -i panic $daemon_log && a status; }

start_daemon || { finish; exit; }
alone=$(domains)

for part in ${PARTS:-random moves vanish users limit}; do . "/job/guest/domain_$part.sh"; done

check still-attached "$(state)" attached
stop_daemon
check stock-again "" until_true 5 stock
finish
