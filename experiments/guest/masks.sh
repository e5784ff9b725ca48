# masks.sh - loops that may run on some of the CPUs only. harness.sh sources this.

# masked FREE GROUP[,KEY=VALUE…] MASK LOOPS SECONDS: a free loop for each CPU in the domain FREE,
# and after half a second LOOPS of them in GROUP, on the CPUs of MASK only; "-" is where the harness
# is, which is no domain of its own. Into masked: what each of these, and then each free loop, had
# over SECONDS from 0.1 s after their start on, ppm of a CPU. Keys are those of `domain`.
masked() {
	local group=${2%%,*} loops=() free=() before=() i from to
	[ "$1" = - ] || domain "$1"
	[ "$group" = - ] || domain "$2"
	start_loops "$1" "$(nproc)"
	sleep 0.5
	start_loops "$group" "$4" taskset -c "$3"
	until_true 10 forked "${started[-1]}" "$4" || fail "$name: no loops"
	sleep 0.1
	read -ra loops < "/proc/${started[-1]}/task/${started[-1]}/children"
	read -ra free < "/proc/${started[0]}/task/${started[0]}/children"
	loops+=("${free[@]}")
	from=$(date +%s%N)
	for i in "${loops[@]}"; do before+=("$(ran "$i")"); done
	sleep "$5"
	to=$(date +%s%N)
	for i in "${!loops[@]}"; do
		echo $((($(ran "${loops[i]}") - before[i]) * 1000000 / (to - from)))
	done > "$out/masked"
	kill -KILL "${started[@]}"
	wait "${started[@]}" 2> /dev/null
	started=()
	end_domains
}
start_loops() { # DOMAIN LOOPS WORD…: WORD… is what starts them
	local domain=$1 number=$2
	shift 2
	if [ "$domain" = - ]; then
		chrt -o 0 "$@" /job/hog "$number" < /dev/null > /dev/null 2>&1 &
	else
		( enter_domain "$domain" "$@" /job/hog "$number" < /dev/null > /dev/null 2>&1 ) &
	fi
	started+=($!)
}
forked() { # PID CHILDREN
	local children=()
	read -ra children < "/proc/$1/task/$1/children"
	[ ${#children[@]} = "$2" ]
}
ran() { cut -d' ' -f1 "/proc/$1/schedstat"; } # PID: its CPU time, ns
