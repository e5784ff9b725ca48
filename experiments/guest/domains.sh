# domains.sh - domains (cgroups) in the guest: makes them, runs programs in them, samples the CPU
# time that they use. harness.sh sources this.
#
# It works the same way under every scheduler: weights and limits are the kernel's own files
# (cpu.weight, cpu.max). Only aplomb has policies and reservations. They go through domain_set, the
# one place that knows aplomb's command; under other schedulers domain_set does nothing, and an
# experiment sets weights instead.

# A tick of the lab's kernels. A task on another CPU is charged at its tick only (sampler.c).
tick_ms=4
made=()    # folders, in the order in which they were made
started=() # processes in them that the harness started
reserved=() # domains that have a reservation

# domain_set PATH KEY=VALUE…: policy= and cpu= (a reservation) of a domain; PATH as in cgroup files,
# from the root (/media)
domain_set() {
	[ "$SCHEDULER" = aplomb ] || return 0
	timeout 10 /job/aplomb domain set "$@" > "$out/domain-set" 2>&1 || fail "$name: aplomb domain set $*: $(tail -n 2 "$out/domain-set")"
}

# domain PATH[,KEY=VALUE…]: makes the domain, and those above it. Keys: weight, max (as cpu.max:
# quota/period, with a slash), idle; policy and cpu, for aplomb only. Other keys are ignored here
# (see `domains`). PATH has no slash in front.
domain() {
	local path=${1%%,*} rest=${1#"${1%%,*}"} above=$cgroups step key
	local IFS=/
	for step in $path; do
		[ "$above" = "$cgroups" ] || [[ " $(< "$above/cgroup.subtree_control") " = *" cpu "* ]] ||
			echo +cpu > "$above/cgroup.subtree_control" || fail "$name: $above: no cpu controller below"
		above=$above/$step
		[ -d "$above" ] && continue
		mkdir "$above" || fail "$name: $above cannot be made"
		made+=("$above")
	done
	IFS=,
	for key in $rest; do
		case $key in
		weight=*) echo "${key#*=}" > "$above/cpu.weight" || fail "$name: $above: $key" ;;
		max=*) key=${key#*=}; echo "${key/\// }" > "$above/cpu.max" || fail "$name: $above: cpu.max $key" ;;
		idle=*) echo "${key#*=}" > "$above/cpu.idle" || fail "$name: $above: $key" ;;
		policy=* | cpu=*)
			domain_set "/$path" "$key"
			[[ $key != cpu=* ]] || reserved+=("/$path")
			;;
		esac
	done
}

end_domains() { # ends all processes in the domains and removes the domains, the last one first
	local i tries
	for ((i = 0; i < ${#made[@]}; i++)); do
		[ "${made[i]%/*}" = "$cgroups" ] && echo 1 > "${made[i]}/cgroup.kill"
	done
	# The reservations are given back by command. The daemon notices a removed folder later, and
	# the next step may request its reservations before that.
	for ((i = ${#reserved[@]} - 1; i >= 0; i--)); do domain_set "${reserved[i]}" cpu=none; done
	reserved=()
	for ((i = ${#made[@]} - 1; i >= 0; i--)); do
		for tries in $(seq 100); do rmdir "${made[i]}" 2> /dev/null && break; sleep 0.05; done
		[ -d "${made[i]}" ] && fail "$name: ${made[i]} cannot be removed"
	done
	made=()
	[ ${#started[@]} = 0 ] || wait "${started[@]}" 2> /dev/null # not for all children: the scheduler's daemon is one
	started=()
}

# domains SETTLE INTERVAL_MS COUNT EVENTS -- DOMAIN[,KEY=VALUE…] [WORD…] -- …: makes all domains,
# then starts a program in each; after SETTLE seconds samples the CPU time that they use (sampler.c)
# into samples.json. Keys beside those of `domain`:
#  - progress=FILE: inf's counters;
#  - wait=1: the step ends when this program has ended; its output is in PATH.out (with - for /);
#  - late=1: the program starts when the others have run for SETTLE;
#  - fine=1: the domain is sampled at each tick as well, into fine.json. Not for many domains at
#    once: their clocks take long to read.
# EVENTS: - or SECONDS:SIGNAL:PATH,… with SECONDS from the first sample on: the signal goes to all
# processes of the domain.
domains() {
	local settle=$1 interval=$2 count=$3 events=$4 group words=() all=() late=() waits=() samplers=() fine=() sampling=() n=0 i one
	shift 4
	while [ $# -gt 0 ]; do # $all: where in $words each group begins
		shift
		all+=(${#words[@]})
		while [ $# -gt 0 ] && [ "$1" != -- ]; do words+=("$1"); shift; done
	done
	all+=(${#words[@]})
	n=$((${#all[@]} - 1))
	for ((i = 0; i < n; i++)); do domain "${words[all[i]]}"; done
	for ((i = 0; i < n; i++)); do
		group=${words[all[i]]}
		[ $((all[i + 1] - all[i])) -gt 1 ] || continue
		[[ $group, != *,fine=1,* ]] || fine+=("$cgroups/${group%%,*}")
		one=${group#*,progress=}
		if [ "$one" = "$group" ]; then samplers+=("$cgroups/${group%%,*}"); else samplers+=("$cgroups/${group%%,*}=${one%%,*}"); fi
		if [[ $group, = *,late=1,* ]]; then late+=("$i"); else start_group $i; fi
	done
	sleep "$settle"
	for i in "${late[@]}"; do start_group $i; done
	[ ${#late[@]} = 0 ] || sleep 0.1 # until the programs are in their domains
	if [ "$count" != 0 ]; then
		for one in "${samplers[@]}"; do [[ $one != *=* ]] || begun "${one#*=}"; done
		if [ ${#fine[@]} != 0 ]; then
			/job/sampler $tick_ms $((count * interval / tick_ms)) "${fine[@]}" > "$out/fine.json" 2> "$out/sampler.err" &
			sampling+=($!)
		fi
		/job/sampler "$interval" "$count" "${samplers[@]}" > "$out/samples.json" 2>> "$out/sampler.err" &
		sampling+=($!)
		[ "$events" = - ] || signal_domains "$events"
		for i in "${sampling[@]}"; do wait $i || fail "$name: sampler: $(cat "$out/sampler.err")"; done
	fi
	for i in "${waits[@]}"; do wait $i || fail "$name: a program failed: $(cat "$out"/*.err | head -c 300)"; done
	for ((i = 0; i < n; i++)); do
		group=${words[all[i]]%%,*}
		cat "$cgroups/$group/cpu.stat" > "$out/${group//\//-}.stat"
	done
	end_domains
}
# FILE: waits until inf's counters exist. On an emulated machine with two CPUs a hundred programs
# may take long to start.
begun() {
	local tries
	[ -s "$1" ] && return
	for tries in $(seq 600); do [ -s "$1" ] && { sleep 1; return; }; sleep 0.05; done
	fail "$name: $1 is not there after 30 s"
}
start_group() { # INDEX: starts the program of a group; uses the variables of `domains`
	local group=${words[all[$1]]} file
	file=${group%%,*}
	file=$out/${file//\//-}
	( enter_domain "${group%%,*}" "${words[@]:all[$1]+1:all[$1 + 1]-all[$1]-1}" > "$file.out" 2> "$file.err" < /dev/null ) &
	started+=($!)
	[[ $group, != *,wait=1,* ]] || waits+=($!)
}
signal_domains() { # EVENTS
	local event at=0 seconds rest pid IFS=,
	for event in $1; do
		seconds=${event%%:*}
		rest=${event#*:}
		sleep $((seconds - at))
		at=$seconds
		while read -r pid; do kill -"${rest%%:*}" "$pid"; done < "$cgroups/${rest#*:}/cgroup.procs"
	done
}

# timed_in DOMAIN WORD…: as `timed`, in a domain of its own; "-" for none
timed_in() {
	[ "$1" = - ] || domain "$1"
	timed_where "$@"
	end_domains
}

# disk LATENCY_US: makes /dev/nullb0, a disk inside the kernel (null_blk: blocks of zeros) that
# serves one request at a time, each in LATENCY_US by a timer of the guest. An emulated disk would
# take the host's time, which is not the guest's virtual time.
disk() {
	[ -b /dev/nullb0 ] && { [ "$disk_now" = "$1" ] && return; modprobe -r null_blk; }
	modprobe null_blk nr_devices=1 queue_mode=2 submit_queues=1 hw_queue_depth=1 irqmode=2 completion_nsec=$(($1 * 1000)) \
		gb=1 bs=4096 || fail "$name: no null_blk"
	disk_now=$1
}
disk_now=

# on_disk LATENCY_US WORD…: `domains` with that disk
on_disk() {
	disk "$1"
	shift
	domains "$@"
}

# web SETTLE INTERVAL_MS COUNT SECONDS CLIENTS WEIGHT WEIGHT: two web servers (nginx), each in a
# domain of the given weight. CLIENTS clients (ab) in a third domain overload each server. A server
# is one process and compresses a page for each request, so the CPU is its bottleneck. The output of
# ab is in clients-c0.out and clients-c1.out.
web() {
	local settle=$1 interval=$2 count=$3 seconds=$4 clients=$5 number port words=()
	shift 5
	mkdir -p /tmp/web /var/log/nginx
	seq 1 4000 > /tmp/web/page.txt
	for number in 0 1; do
		port=$((8001 + number))
		cat > /tmp/web/$number.conf <<-END
			daemon off;
			master_process off;
			user root;
			pid /tmp/web/$number.pid;
			error_log /tmp/web/$number.log;
			events { worker_connections 256; }
			http {
				access_log off;
				gzip on;
				gzip_comp_level 6;
				gzip_http_version 1.0; # which ab speaks
				gzip_types text/plain;
				types { text/plain txt; }
				server { listen 127.0.0.1:$port; root /tmp/web; }
			}
		END
		words+=(-- "web$number,weight=$1" nginx -c "/tmp/web/$number.conf")
		shift
	done
	for number in 0 1; do # the clients need little CPU time, and must always get it
		words+=(-- "clients/c$number,late=1,wait=1" ab -q -r -c "$clients" -t "$seconds" -n 10000000 -H "Accept-Encoding: gzip" \
			"http://127.0.0.1:$((8001 + number))/page.txt")
	done
	domains "$settle" "$interval" "$count" - -- clients,weight=1000 "${words[@]}"
	cp /tmp/web/*.log "$out"
}
