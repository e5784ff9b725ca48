# reserves.sh - steps with memory that is reserved by amount. harness.sh sources this.

# in_two_domains RESERVE SETTLE PROGRAM… -- LOAD…: runs a program to its end in each of the domains
# /reserved and /unreserved; the load starts SETTLE seconds later, and gets SIGTERM when both have
# ended. Their outputs are reserved.out and unreserved.out. RESERVE, for /reserved: "-";
# min=BYTES, memory.min by hand; or memory=SIZE, by aplomb. Each domain has its own copy of the
# program: the pages of one file belong to the domain that reads them first, and a file in memory
# belongs to none of them.
in_two_domains() {
	local reserve=$1 settle=$2 program=() domain pids=() kept n domains=(reserved unreserved)
	shift 2
	while [ "$1" != -- ]; do program+=("$1"); shift; done
	shift
	load=("$@")
	for domain in "${domains[@]}"; do
		cp "${program[0]}" "/opt/program-$domain" || fail "$name: no copy of ${program[0]}"
	done
	fresh_memory
	for domain in "${domains[@]}" load; do
		mkdir "$cgroups/$domain" || fail "$name: no cgroup /$domain"
	done
	case $reserve in
	-) ;;
	min=*)
		echo "${reserve#*=}" > "$cgroups/reserved/memory.min" || fail "$name: $reserve cannot be set"
		;;
	memory=*) domain_set /reserved "$reserve" ;;
	*) fail "$name: there is no reserve $reserve" ;;
	esac
	for domain in "${domains[@]}"; do
		( in_form sessions /job/enter $domain "/opt/program-$domain" "${program[@]:1}" > "$out/$domain.out" 2> "$out/$domain.err" < /dev/null ) &
		pids+=($!)
	done
	sleep "$settle"
	memory_at load
	with_load sessions
	# What the domains have, each second: builtins only, as in memory_at.
	while ! has_ended "${pids[0]}" || ! has_ended "${pids[1]}"; do
		sleep 1
		for n in 0 1; do
			domain=${domains[n]}
			has_ended "${pids[n]}" || { read -r kept < "$cgroups/$domain/memory.current" && echo "$kept" >> "$out/$domain.bytes"; }
		done
	done
	memory_at after
	kill -TERM "$load_pid" 2> /dev/null
	until_true 30 has_ended "$load_pid"
	end_load
	[[ $reserve != memory=* ]] || domain_set /reserved memory=none
	for domain in "${domains[@]}" load; do
		until_true 10 rmdir "$cgroups/$domain" || fail "$name: the cgroup /$domain cannot be removed"
	done
}

films_folder=/var/films
# films COUNT MAKE RESERVE STARTUP BEFORE DURING AFTER PREFIX… -- PLAYER… -- LOAD…: plays COUNT
# instances of the movie that the shell command MAKE makes, before, during and after a load, as
# `movie` does one. RESERVE, for each: min=BYTES, memory.min by hand on a cgroup of its own; or "-".
# Leaves frames-N and, at the beginning of each phase, times-PHASE: a line for each player, with its
# user and system time in ticks of 10 ms and its major faults.
films() {
	local count=$1 make=$2 reserve=$3 startup=$4 before=$5 during=$6 after=$7 prefix=() player=() n enter
	players=()
	shift 7
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	while [ "$1" != -- ]; do player+=("$1"); shift; done
	shift
	load=("$@")
	mkdir -p $films_folder
	( cd $films_folder && in_form one sh -c "$make" > "$out/make" 2>&1 < /dev/null ) || fail "$name: no movie: $(tail -n 2 "$out/make")"
	fresh_memory
	mkdir "$cgroups/load" || fail "$name: no cgroup /load"
	sleep 6
	echo 0 > $trace/tracing_on
	echo mono > $trace/trace_clock
	echo 16384 > $trace/buffer_size_kb
	echo > $trace/trace
	echo 1 > $trace/tracing_on
	for n in $(seq "$count"); do
		enter=()
		if [[ $reserve = min=* ]]; then
			mkdir "$cgroups/film-$n" || fail "$name: no cgroup /film-$n"
			echo "${reserve#*=}" > "$cgroups/film-$n/memory.min" || fail "$name: $reserve cannot be set"
			enter=(/job/enter "film-$n")
		fi
		( cd $films_folder && in_form sessions "${enter[@]}" "${prefix[@]}" "${player[@]}" \
			> $trace/trace_marker 2> "$out/player-$n.err" < /dev/null ) &
		players+=($!)
		sleep 0.71 # so that they are not in step
	done
	for n in "${players[@]}"; do until_true 30 shows_frames "$n" || fail "$name: a player shows nothing: $(head -c 300 "$out"/player-*.err)"; done
	sleep "$startup"
	at_phase=films_at
	phase before
	sleep "$before"
	phase load
	with_load sessions
	sleep "$during"
	phase after
	sleep "$after"
	phase end
	at_phase=
	echo 0 > $trace/tracing_on
	kill -KILL "${players[@]}" 2> /dev/null
	wait "${players[@]}" 2> /dev/null
	end_load
	# As in movie, for each player by its process id.
	for n in $(seq "$count"); do
		tr '\r' '\n' < $trace/trace | sed -n \
			-e 's/.* \([0-9.]*\): tracing_mark_write: PHASE \([a-z]*\).*/\1 \2/p' \
			-e "s/^ *[^ ]*-${players[n - 1]} .* \\([0-9.]*\\): tracing_mark_write: .*V: *[0-9.]*.*/\\1 frame/p" > "$out/frames-$n"
		[[ $reserve != min=* ]] || until_true 10 rmdir "$cgroups/film-$n" || fail "$name: the cgroup /film-$n cannot be removed"
	done
	until_true 10 rmdir "$cgroups/load" || fail "$name: the cgroup /load cannot be removed"
	rm -rf $films_folder
}
shows_frames() { grep -q -e "-$1 .*V:" $trace/trace; } # PID
films_at() { # PHASE
	local pid fields
	memory_at "$1"
	for pid in "${players[@]}"; do
		read -r -a fields < "/proc/$pid/stat" && echo "${fields[13]} ${fields[14]} ${fields[11]}" || echo "ended"
	done > "$out/times-$1" 2> /dev/null
}
