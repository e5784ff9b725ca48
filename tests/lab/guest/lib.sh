# lib.sh - what every job of the lab tests uses: checks, the daemon, its status, loads. Sourced by
# bash.
#
# The job itself runs at real-time priority, so that no load can starve it, and sleeps nearly
# always. Everything under test starts through `bg`, `fg` or `as_user`, as an ordinary task. A check
# is one line of /job/out/checks: CHECK name ok|FAIL details. The last one is `finish`: if it is
# missing, the job did not run to its end.

# shellcheck disable=SC2034 # the jobs use these names
out=/job/out
programs=/job/guest-programs
hog=$programs/hog
periodic=$programs/periodic
bin=/opt/t
specs=/opt/specs
running=${daemon:-} # of the job before (jobs.sh)
# shellcheck source=lab/guest/lib.sh
. /run/lab/lib.sh
daemon=$running
mkdir -p $bin $specs
chrt -r -p 1 $$
echo mono > $trace/trace_clock

say() { progress "$*"; }
check() { # NAME DETAILS COMMAND…: ok if the command succeeds
	local name=${job:+$job/}$1 details=$2 verdict=FAIL
	shift 2
	"$@" > /dev/null 2>&1 && verdict=ok
	echo "CHECK $name $verdict $details" | tr '\n' ' ' >> $out/checks
	echo >> $out/checks
	[ $verdict = ok ] || { progress "$name FAIL $details"; return 1; }
}
within() { [ -n "$2" ] && [ "$1" -le "$2" ] && [ "$2" -le "$3" ]; } # LOW VALUE HIGH
none() { [ -z "$*" ]; }
finish() { job='' check finish "$(wc -l < $out/checks) checks" true; }
end_job() { # the end of a job that may share its daemon with the next one (jobs.sh)
	if [ "${jobs_left:-0}" -gt 0 ]; then
		rm -f $specs/*.toml
		check next-job-begins-without-specs "" a reload
		check next-job-begins-without-tasks "" until_true 10 no_tasks
		return
	fi
	stop_daemon
	check stock-again "" until_true 5 stock
	finish
}

# --- the daemon ----------------------------------------------------------------------------------
daemon_log=$out/daemon.log
launch_daemon() { daemon_launch $daemon_log --specs $specs "$@"; } # ARGUMENT…: does not wait for it
# ARGUMENT…: waits until the scheduler is attached; false if the daemon ended. A daemon that the job
# before has left reads the specs of this one.
start_daemon() {
	if [ -n "$daemon" ] && ! has_ended $daemon; then
		a reload
		return
	fi
	launch_daemon "$@"
	daemon_await $daemon_log 120 || check daemon-starts "$(tail -n 3 $daemon_log)" false || return
	# The default, s. For the verifier it may have been set to more (test_kernels.py).
	echo 21 > /sys/module/rcupdate/parameters/rcu_cpu_stall_timeout
}
stop_daemon() { daemon_stop || check daemon-stops "not within 20 s: $(tail -n 3 $daemon_log)" false; }
attached() { [ "$(scheduler_state)" = enabled ] && [ "$(scheduler_name)" = aplomb ]; }
state() { scheduler_state; }
stock() { [ "$(scheduler_state)" = disabled ]; }
a() { chrt -o 0 /job/aplomb "$@"; }

# NAME STATUS PATTERN COMMAND…: a daemon that must not start: checks its exit status, its message,
# and that the kernel's BPF programs and maps are as before.
refused() {
	local name=$1 expected=$2 pattern=$3 status before
	shift 3
	before=$(nr_bpf)
	"$@" > $out/refused.log 2>&1
	status=$?
	check "$name-status" "$status, expected $expected" [ $status = "$expected" ]
	check "$name-message" "$(tail -n 2 $out/refused.log)" grep -Eq "$pattern" $out/refused.log
	check "$name-changes-nothing" "" until_true 5 bpf_is "$before"
}

# --- the daemon's status --------------------------------------------------------------------------
who_is_left() { # each process in the table, and what it does
	local pid
	for pid in $(json '.tasks[].pid'); do
		echo "$pid:$(grep -E '^(Name|State|PPid|Threads|SigPnd|ShdPnd)' /proc/$pid/status) $(cat /proc/$pid/stack)"
	done
}
is_task() { [ -n "$(task_of "$1" pid)" ]; }
is_admitted() { [ "$(task_of "$1" state)" = admitted ]; }
is_rejected() { [ "$(task_of "$1" state)" = rejected ]; }
is_revoked() { [ "$(task_of "$1" state)" = revoked ]; }
no_tasks() { [ "$(nr_tasks)" = 0 ]; }
has_spec() { [ "$(task_of "$1" spec)" = "$2" ]; }

# --- programs and loads ---------------------------------------------------------------------------
program() { # SOURCE NAME: copies a program to /opt/t/NAME, so that it has an inode of its own
	cp "$programs/$1" "$bin/$2"
}
spec() { # NAME C/T [LINE…]: writes the spec of /opt/t/NAME, in a file of its own
	local name=$1 cpu=$2
	shift 2
	{ printf '[[spec]]\nname = "%s"\npath = "%s/%s"\ncpu = "%s"\n' "$name" "$bin" "$name" "$cpu"
		printf '%s\n' "$@"; } > "$specs/$name.toml"
}
# FILE WORD…: starts an ordinary task in the background. $! is the program's own process, which is
# also added to $pids. (With `function &` it would be a shell's.)
bg_to() {
	local file=$1
	shift
	chrt -o 0 "$@" > "$file" 2>&1 < /dev/null &
	pids+=($!)
}
bg() { bg_to /dev/null "$@"; }
as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
fg() { chrt -o 0 "$@"; } # WORD…: runs an ordinary task to its end
value() { sed -n "s/.*\b$1=\([0-9]*\).*/\1/p" <<< "$2"; } # NAME TEXT: the number after NAME=
end_all() { # kills everything that bg started
	[ ${#pids[@]} -gt 0 ] || return 0 # `wait` without a pid would wait for the daemon, too
	kill -KILL "${pids[@]}" 2> /dev/null
	wait "${pids[@]}" 2> /dev/null
	pids=()
}
as_user() { fg "${as_nobody[@]}" "$@"; }
child_of() { cat /proc/"$1"/task/*/children | tr -d ' '; }
bpf_is() { [ "$(nr_bpf)" = "$1" ]; }
nr_bpf() { bpftool prog show | grep -c '^[0-9]*:'; bpftool map show | grep -c '^[0-9]*:'; }
