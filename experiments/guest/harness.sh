# harness.sh - the part of an experiment that runs in the guest; the job sources it, then runs its
# plan.
#
# The plan is shell: lines of `step NAME PROFILE FUNCTION ARGUMENT…`. Each step runs under the
# scheduler that $SCHEDULER names; the harness reads the kernel's scheduler before and after the
# step and compares. All files that a step writes into $out go to the host. The harness runs at
# real-time priority, so that no load can starve it, and sleeps nearly always; loads and players run
# as ordinary tasks.
#
# The host sets SCHEDULER (its name) and OPS (the beginning of /sys/kernel/sched_ext/root/ops; empty
# for the stock scheduler).
# shellcheck source=lab/guest/lib.sh
. /run/lab/lib.sh
results=/job/out
profile_now=
scheduler_pid=

say() { progress "[$SCHEDULER] $*"; }
fail() { # ends the whole run: a comparison with a missing part is worthless
	echo "$*" > $results/failure
	say "failed: $*"
	exit 1
}
number_in() { cat "$1" 2> /dev/null || echo 0; } # FILE: 0 if it is not there
read_back() { # FILE: writes which scheduler runs now, for the host to judge
	echo "$(scheduler_state) $(scheduler_name) $(number_in $scx/enable_seq) $(number_in $scx/nr_rejected)" > "$1"
}
is_attached() {
	local name
	name=$(scheduler_name)
	if [ -z "$OPS" ]; then
		[ "$name" = stock ]
	else
		[ "${name%%_*}" = "$OPS" ] && [ "$(scheduler_state)" = enabled ]
	fi
}

# --- schedulers ---------------------------------------------------------------------------------
start_peer() { # WORD…: a scheduler of the scx collection; scx_lavd needs half a minute
	LD_LIBRARY_PATH=/job/lib chrt -o 0 "$@" > $results/scheduler.log 2>&1 &
	scheduler_pid=$!
	until_true 120 attached_or_ended
	has_ended $scheduler_pid && fail "$SCHEDULER ended at once: $(tail -n 3 $results/*.log)"
	is_attached || fail "$SCHEDULER is not attached after 120 s; the kernel runs $(scheduler_name)"
}
attached_or_ended() { is_attached || has_ended $scheduler_pid; }
start_aplomb() { # PROFILE: the daemon with the specifications in /job/profiles/PROFILE
	local log=$results/aplomb-$1.log
	mkdir -p /etc/aplomb
	cp "/job/profiles/$1/spec.tab" "/job/profiles/$1/aplomb.toml" /etc/aplomb/
	# A copy, since files of the job may belong to another user than root.
	rm -rf /run/vendor-specs
	cp -r --no-preserve=mode,ownership "/job/profiles/$1/vendor" /run/vendor-specs
	daemon_launch "$log" --specs /run/vendor-specs
	scheduler_pid=$daemon
	daemon_await "$log" 60 || fail "aplomb did not become ready: $(tail -n 3 "$log")"
	# The daemon only warns about a wrong specification; here it must not go unnoticed.
	timeout 10 /job/aplomb spec check /etc/aplomb/spec.tab > "$log.check" 2>&1 || fail "spec.tab: $(head -n 3 "$log.check")"
}
stop_scheduler() {
	[ -n "$scheduler_pid" ] || return 0
	end_process $scheduler_pid 20
	scheduler_pid=
	[ "$(scheduler_name)" = stock ] || fail "$SCHEDULER did not give the kernel back"
}
use_profile() { # PROFILE
	[ "$SCHEDULER" = aplomb ] || return 0
	[ "$1" = "$profile_now" ] && return 0
	stop_scheduler
	profile_now=$1
	[ "$1" = off ] || start_aplomb "$1"
}

# --- steps --------------------------------------------------------------------------------------
step() { # NAME PROFILE FUNCTION ARGUMENT…
	local name=$1 profile=$2
	shift 2
	out=$results/$name
	mkdir -p "$out"
	use_profile "$profile"
	is_attached || fail "before $name the kernel runs $(scheduler_name), not $SCHEDULER"
	read_back "$out/before"
	say "$name"
	"$@"
	read_back "$out/after"
	is_attached || fail "after $name the kernel runs $(scheduler_name), not $SCHEDULER"
	if [ "$SCHEDULER" = aplomb ]; then
		timeout 10 /job/aplomb status --json > "$out/aplomb.json" 2>&1
		timeout 10 /job/aplomb log > "$out/decisions" 2>&1
	fi
}

# FORM WORD…: becomes an ordinary task, in the harness's session or (FORM sessions) in one of its
# own.
in_form() {
	local form=$1
	shift
	if [ "$form" = sessions ]; then exec setsid chrt -o 0 "$@"; else exec chrt -o 0 "$@"; fi
}
with_load() { # FORM: starts the command in $load, if any; its process is $load_pid
	load_pid=
	[ "${#load[@]}" = 0 ] && return
	# The load gets a process group of its own, so that one kill ends it. (A session has one.)
	[ "$1" = sessions ] || set -m
	( in_form "$1" "${load[@]}" > "$out/load" 2>&1 ) &
	load_pid=$!
	set +m
}
# Ends the load while a movie still plays. It takes one system call only: the harness runs at
# real-time priority, so its time is a gap in the movie. Children in sessions of their own end with
# their parent.
stop_load() { kill -KILL -- -$load_pid 2> /dev/null || kill -KILL $load_pid; }
end_load() {
	[ -n "$load_pid" ] || return 0
	# No process of any load may be left.
	stop_load 2> /dev/null
	wait $load_pid 2> /dev/null
	local pid
	for pid in $(pgrep -x 'hog|onoff|bomb|membomb|reread|rewrite|make|cc1|as|collect2|ld|gcc|sh'); do kill -KILL $pid 2> /dev/null; done
	while pgrep -x 'hog|onoff|bomb|membomb|reread|rewrite|cc1' > /dev/null; do sleep 0.1; done
	load_pid=
}

# Some loads end themselves and then say how it went.
load_ends_itself() { [[ " ${load[*]} " = *" /job/bomb "* || " ${load[*]} " = *" /job/membomb "* ]]; }

at_phase= # a function that is called with the name of each phase of a movie
phase() { # NAME: marks where a phase of a movie begins
	echo "PHASE $1" > $trace/trace_marker
	[ -z "$at_phase" ] || $at_phase "$1"
}

# movie CLIP FORM STARTUP BEFORE DURING AFTER PREFIX… -- LOAD…: plays a movie before, during and
# after a load. The player's status line goes to trace_marker, so the kernel stamps every frame, and
# there is no reader that could starve. The player starts after 6 s without load, longer than
# admission looks back (R_load: 4 s): the load of the step before could cause its rejection.
movie() {
	local clip=$1 form=$2 startup=$3 before=$4 during=$5 after=$6 prefix=() player i
	shift 6
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	load=("$@")
	sleep 6
	echo 0 > $trace/tracing_on
	echo mono > $trace/trace_clock
	echo 8192 > $trace/buffer_size_kb
	echo > $trace/trace
	echo 1 > $trace/tracing_on
	( in_form "$form" "${prefix[@]}" mplayer -noconfig all -nolirc -noconsolecontrols -nosound -vo null \
		"/lab/clips/$clip" > $trace/trace_marker 2> "$out/player.err" < /dev/null ) &
	player=$!
	for i in $(seq 100); do grep -q 'V:' $trace/trace && break; sleep 0.1; done
	[ "$i" = 100 ] && fail "$name: the player shows nothing: $(head -c 300 "$out/player.err")"
	sleep "$startup"
	cat /proc/$player/schedstat > "$out/schedstat-before"
	phase before
	sleep "$before"
	cat /proc/$player/schedstat > "$out/schedstat-load"
	phase load
	with_load "$form"
	sleep "$during"
	phase after
	load_ends_itself || stop_load
	sleep "$after"
	phase end
	echo 0 > $trace/tracing_on
	cat /proc/$player/schedstat > "$out/schedstat-end"
	kill -KILL $player 2> /dev/null
	wait $player 2> /dev/null
	end_load
	# One line for each frame or phase: seconds (monotonic clock), then "frame" or the phase.
	tr '\r' '\n' < $trace/trace | sed -n \
		-e 's/.* \([0-9.]*\): tracing_mark_write: PHASE \([a-z]*\).*/\1 \2/p' \
		-e 's/.* \([0-9.]*\): tracing_mark_write: .*V: *[0-9.]*.*/\1 frame/p' > "$out/frames"
}

# loaded FORM SETTLE PREFIX… -- PROGRAM… -- LOAD…: runs a program to its end while a load runs.
loaded() {
	local form=$1 settle=$2 prefix=() program=() status
	shift 2
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	while [ "$1" != -- ]; do program+=("$1"); shift; done
	shift
	load=("$@")
	with_load "$form"
	[ ${#load[@]} = 0 ] || sleep "$settle"
	( in_form "$form" "${prefix[@]}" "${program[@]}" > "$out/stdout" 2> "$out/stderr" < /dev/null )
	status=$?
	end_load
	[ $status = 0 ] || fail "$name: ${program[*]} ended with status $status: $(head -c 300 "$out/stderr")"
}

# alone WORD…: runs a program to its end without load.
alone() { loaded one 0 -- "$@" --; }

# timed WORD…: measures how long a program takes that runs alone, in a session of its own. Its
# output goes to a file.
timed() { timed_where - "$@"; }
timed_where() { # DOMAIN WORD…: the same in a domain that exists; "-" for none
	local domain=$1 from to # seconds
	shift
	from=$(date +%s.%N)
	(
		[ "$domain" = - ] || echo $BASHPID > "$cgroups/$domain/cgroup.procs" || exit 125
		in_form sessions "$@" > "$out/stdout" 2>&1 < /dev/null
	) || fail "$name: $* failed: $(tail -n 2 "$out/stdout")"
	to=$(date +%s.%N)
	awk "BEGIN { printf \"%.6f\\n\", $to - $from }" > "$out/seconds"
}

# players FORM SECONDS TRACE SCALE PERIOD_US FIRST,FIRST… PREFIX… -- LOAD…: runs several players of
# a recorded trace together for SECONDS; each begins with its frame FIRST. As in movie, 6 s without
# load come before.
players() {
	local form=$1 seconds=$2 trace=$3 scale=$4 period=$5 firsts=$6 prefix=() first pid pids=() n=0
	shift 6
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	load=("$@")
	sleep 6
	for first in ${firsts//,/ }; do
		( in_form "$form" "${prefix[@]}" /job/player "/job/$trace" "$scale" "$period" "$first" "$seconds" \
			> "$out/player-$n" 2> "$out/player-$n.err" < /dev/null ) &
		pids+=($!)
		n=$((n + 1))
	done
	with_load "$form"
	for pid in "${pids[@]}"; do wait "$pid" || fail "$name: a player failed: $(cat "$out"/player-*.err | head -c 300)"; done
	end_load
}

# overhead COUNT SETTLE SECONDS MAKE PREFIX… -- PROGRAM…: measures the CPU time that COUNT copies of
# a program and the kernel use together in SECONDS, by the time that is left for `soak`. MAKE is as
# for recorded. The frames shown are the carriage returns on a program's standard output.
overhead() {
	local copies=$1 settle=$2 seconds=$3 make=$4 prefix=() i pids=() soak
	shift 4
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	( cd /tmp && in_form one sh -c "$make" > "$out/make" 2>&1 < /dev/null ) || fail "$name: no movie: $(tail -n 2 "$out/make")"
	sleep 6
	( in_form sessions /job/soak /tmp/soaked ) &
	soak=$!
	sleep 1
	for i in $(seq "$copies"); do
		( cd /tmp && in_form sessions "${prefix[@]}" "$@" > "/tmp/shown-$i" 2> "$out/stderr-$i" < /dev/null ) &
		pids+=($!)
		sleep 0.71 # so that the copies are not in step
	done
	sleep "$settle"
	account "$out/from" "${pids[@]}"
	sleep "$seconds"
	account "$out/to" "${pids[@]}"
	kill -KILL $soak "${pids[@]}" || fail "$name: a player ended early: $(cat "$out"/stderr-* | tail -n 2)"
	wait "${pids[@]}" $soak 2> /dev/null
	for i in $(seq "$copies"); do # frames in the time between
		head -c "$(sed -n "s|^ *\([0-9]*\) /tmp/shown-$i$|\1|p" "$out/to")" "/tmp/shown-$i" |
			tail -c "+$(($(sed -n "s|^ *\([0-9]*\) /tmp/shown-$i$|\1|p" "$out/from") + 1))" | tr -cd '\r' | wc -c
	done > "$out/frames"
	mv /tmp/soaked "$out/soaked"
	rm -f /tmp/movie.* /tmp/shown-*
}
# FILE PID…: writes the clock in us; schedstat of each process (CPU time, wait, turns); how many
# bytes each has printed.
account() {
	local file=$1 pid line
	shift
	{
		echo "clock ${EPOCHREALTIME/./}"
		for pid in "$@"; do read -r line < /proc/$pid/schedstat && echo "task $line"; done
		[ $# = 0 ] || wc -c /tmp/shown-*
	} > "$file"
}

# recorded MAKE PLAYER…: records the CPU time of each frame that a player shows, without load. The
# shell command MAKE makes the movie.
recorded() {
	local make=$1
	shift
	( cd /tmp && in_form one sh -c "$make" > "$out/make" 2>&1 < /dev/null ) || fail "$name: no movie: $(tail -n 2 "$out/make")"
	sleep 2
	( cd /tmp && in_form one /job/record "$out/frames" "$@" > "$out/stdout" 2> "$out/stderr" < /dev/null ) ||
		fail "$name: $(tail -n 2 "$out/stderr")"
	rm -f /tmp/movie.*
}

# idle SECONDS: counts timers and context switches of a machine without load.
idle() {
	local daemon_before=0 daemon_after=0 timer=/sys/kernel/tracing/events/timer/hrtimer_expire_entry
	echo 0 > $trace/tracing_on
	echo 8192 > $trace/buffer_size_kb
	sleep 3 # until the work that the daemon's start caused has ended
	echo > $trace/trace
	echo 1 > $timer/enable
	daemon_before=$(daemon_switches)
	switches_before=$(sed -n 's/^ctxt //p' /proc/stat)
	echo 1 > $trace/tracing_on
	sleep "$1"
	echo 0 > $trace/tracing_on
	daemon_after=$(daemon_switches)
	switches_after=$(sed -n 's/^ctxt //p' /proc/stat)
	echo 0 > $timer/enable
	printf '{"seconds": %d, "daemon_switches": %d, "bpf_timers": %d, "timers": %d, "switches": %d}\n' "$1" \
		$((daemon_after - daemon_before)) "$(grep -c bpf_timer_cb $trace/trace)" "$(grep -c hrtimer_expire_entry: $trace/trace)" \
		$((switches_after - switches_before)) > "$out/idle.json"
}
daemon_switches() { # context switches of all threads of the daemon so far; 0 if there is none
	[ -n "$scheduler_pid" ] || { echo 0; return; }
	cat /proc/$scheduler_pid/task/*/status | awk '/ctxt_switches/ { n += $2 } END { print n + 0 }'
}

. /job/domains.sh
. /job/memory.sh
. /job/beside.sh
. /job/disk.sh
. /job/link.sh
. /job/masks.sh
. /job/reserves.sh
ulimit -l unlimited
ulimit -n 65536
trap stop_scheduler EXIT
