# lib.sh - what jobs in a guest share: waiting, disks, the scheduler that runs, aplomb's daemon, its
# JSON, domains. The lab puts it into every guest: `. /run/lab/lib.sh`, from bash. The daemon's
# program is /job/aplomb.
# shellcheck disable=SC2034 # the jobs use these names
scx=/sys/kernel/sched_ext
trace=/sys/kernel/tracing
cgroups=/sys/fs/cgroup

progress() { echo "progress: $*" > /dev/ttyS0; } # the host shows the line at once

# --- waiting ------------------------------------------------------------------------------------
now_ms() { local up rest; read -r up rest < /proc/uptime; echo $((10#${up/./} * 10)); }
until_true() { # SECONDS COMMAND…: false if the command did not succeed in time, or does not exist
	local end=$((SECONDS + $1 + 1))
	shift
	until "$@" > /dev/null 2>&1; do
		[ $? != 127 ] || { echo "until_true: there is no $1" >&2; return 127; }
		[ $SECONDS -ge $end ] && return 1
		sleep 0.05
	done
}
has_ended() { [ ! -d "/proc/$1" ]; } # PID of a child: the shell reaps it
end_process() { # PID SECONDS: ends a child by SIGINT; after SECONDS by SIGKILL, and returns false
	local status=0
	kill -INT "$1" 2> /dev/null
	until_true "$2" has_ended "$1" || { status=1; kill -KILL "$1" 2> /dev/null; }
	wait "$1" 2> /dev/null
	return $status
}

# --- disks --------------------------------------------------------------------------------------
# DEVICE, as in disk0: its folder in /sys. In /dev the name may be a link: the kernel has names of
# its own for rotating disks (ublkb0) and QEMU's (vda).
block_folder() {
	local path
	path=$(readlink -f "/dev/$1")
	echo "/sys/block/${path##*/}"
}

# --- the scheduler that the kernel runs ---------------------------------------------------------
scheduler_state() { cat $scx/state 2> /dev/null || echo disabled; }
scheduler_name() { # "stock" if the kernel runs its own
	if [ "$(scheduler_state)" = disabled ]; then
		echo stock
	else
		cat $scx/root/ops 2> /dev/null || echo none
	fi
}

# --- the daemon ---------------------------------------------------------------------------------
daemon= # its process
daemon_launch() { # LOG ARGUMENT…: as an ordinary task in a session of its own; does not wait
	local log=$1
	shift
	: > "$log"
	setsid chrt -o 0 /job/aplomb daemon "$@" > "$log" 2>&1 < /dev/null &
	daemon=$!
}
daemon_is_ready() { grep -q ready: "$1"; } # LOG
daemon_has_settled() { daemon_is_ready "$1" || has_ended $daemon; }
daemon_await() { # LOG SECONDS: waits until the daemon is attached; false if it ended or was too slow
	until_true "$2" daemon_has_settled "$1"
	daemon_is_ready "$1"
}
daemon_stop() { # as `aplomb stop` does; false if the daemon did not end within 20 s
	timeout 20 /job/aplomb stop > /dev/null 2>&1
	until_true 20 has_ended $daemon && wait $daemon 2> /dev/null && return
	has_ended $daemon || { end_process $daemon 1; return 1; }
}

# --- what the daemon says -----------------------------------------------------------------------
status_file= # a saved `aplomb status --json`; empty: ask the daemon
json() { # JQ-ARGUMENT…: a value of the status
	if [ -n "$status_file" ]; then
		jq -r "$@" "$status_file"
	else
		/job/aplomb status --json | jq -r "$@"
	fi
}
counter() { json --arg name "$1" '.counters[$name]'; } # NAME
# PID FIELD [STATUS-FILE]: a field of an interactive task; prints nothing if the task is not one
task_of() {
	local status_file=$3
	json --arg pid "$1" --arg field "$2" '.tasks[] | select((.pid | tostring) == $pid) | .[$field]'
}
load_of() { # CPU FIELD
	json --arg cpu "$1" --arg field "$2" \
		'.cpus[] | select((.cpu | tostring) == $cpu) | .[$field]'
}
nr_tasks() { json '.tasks | length'; }

# --- domains ------------------------------------------------------------------------------------
# enter_domain PATH WORD…: becomes a program in that domain, an ordinary task: ( enter_domain … ) &
# The process enters before it gives up real-time priority: an ordinary task might wait long before
# it runs and can enter.
enter_domain() {
	echo $BASHPID > "$cgroups/$1/cgroup.procs" || exit 125
	shift
	exec chrt -o 0 "$@"
}
