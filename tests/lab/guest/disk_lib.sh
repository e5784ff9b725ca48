# disk_lib.sh - what the jobs about faults of disks share: readers and writers in domains, shares as
# the kernel counts them, and each park as ftrace sees it. Sourced by bash after lib.sh.
# shellcheck disable=SC2034 # the jobs use these names
null_blk=/sys/kernel/config/nullb
mnt=/mnt/disk
vm=/proc/sys/vm
mkdir -p $mnt $cgroups/load $cgroups/more /etc/aplomb

knobs() { # the settings of the kernel's flusher
	echo "$(< $vm/dirty_background_bytes) $(< $vm/dirty_background_ratio) $(< $vm/dirty_writeback_centisecs)"
}
knobs_before=$(knobs)
put_back() { [ "$(knobs)" = "$knobs_before" ]; }
turned() { ! put_back; }
# DOMAIN REASON: how often its tasks were parked
parks() {
	# shellcheck disable=SC2216 # fg is a function here
	a domain show "$1" --json | fg jq --arg reason "$2" \
		'[.. | .parked? // empty | .[] | select(.reason == $reason) | .times] | add // 0'
}
more_parks() { [ "$(parks "$1" "$2")" -gt "$3" ]; } # DOMAIN REASON BEFORE
took() { # COMMAND…: its time, ms, is $ms; returns its status
	local from status
	from=$(now_ms)
	"$@"
	status=$?
	ms=$(($(now_ms) - from))
	return $status
}
format() { # SIZE: disk0 has an ext4 of that size; empty: as large as the disk
	umount $mnt 2> /dev/null
	# shellcheck disable=SC2086 # no word if it is empty
	mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk0 $1 &&
		mount /dev/disk0 $mnt
}

# --- programs -------------------------------------------------------------------------------------
# DOMAIN FILE SECONDS KB READERS: random readers there; $! and the file $out/DOMAIN.json
readers() {
	local domain=$1
	shift
	( enter_domain "$domain" $programs/reads "$@" > "$out/$domain.json" 2> "$out/$domain.log" ) &
}
# The writers are copies of dd, so that traces and pkill can name them.
cp "$(command -v dd)" $bin/buffered
cp "$(command -v dd)" $bin/direct
# DOMAIN PROGRAM NUMBER [FLAG…]: each writes a file of 12 MB again and again until a write fails
writers() {
	local domain=$1 program=$2 number=$3 i
	shift 3
	for ((i = 0; i < number; i++)); do
		# shellcheck disable=SC2016 # the shell in the domain expands these
		( enter_domain "$domain" bash -c 'while "$@"; do :; done' - $bin/"$program" if=/dev/zero \
			of=$mnt/"$program$i" bs=64K count=192 conv=notrunc "$@" 2> "$out/$program$i.log" ) &
	done
}
# NAME: without zombies. (What looks through a thousand processes is no real-time task here.)
runs() { fg pgrep -x -r D,R,S "$1"; }
ended() { local name; for name; do ! runs "$name" || return 1; done; }
kill_all() { # NAME…: false if some of them live for longer than a second
	echo 0 > $trace/tracing_on # what looks through all processes delays the others
	until_true 1 none_left "$@"
}
none_left() { # NAME…: kills them; again, since a shell may be starting the next writer
	local name
	for name; do fg pkill -KILL -x "$name"; done
	ended "$@"
}

# --- what the kernel counts -----------------------------------------------------------------------
number_of() { cat /sys/block/"$1"/dev; }             # DISK: MAJOR:MINOR
done_by() { # DISK READS|WRITES: requests that are done
	awk -v field="$([ "$2" = reads ] && echo 1 || echo 5)" '{ print $field }' /sys/block/"$1"/stat
}
# DOMAIN DISK FIELD: of io.stat: rios, rbytes, …; 0: none
io_of() {
	awk -v number="$(number_of "$2")" -v field="$3" '
		$1 == number { for (i = 2; i <= NF; i++) if (split($i, w, "=") && w[1] == field) n = w[2] }
		END { print n + 0 }' "$cgroups/$1/io.stat"
}
# DISK SECONDS: $part is what domain `more` reads of what it and `load` do, 1/1000; $sum: of both
measure() {
	local load more
	load=$(io_of load "$1" rios) more=$(io_of more "$1" rios)
	sleep "$2"
	load=$(($(io_of load "$1" rios) - load)) more=$(($(io_of more "$1" rios) - more))
	sum=$((load + more)) part=$((more * 1000 / (load + more + !(load + more))))
}

# --- each park ------------------------------------------------------------------------------------
# A task is held when it is put into a queue 0x6…: bpf/park/holding.bpf.h. `held` sees that, and
# `queued` sees all other queues that are ordered.
held=$trace/events/kprobes/held
queued=$trace/events/kprobes/queued
is_held='queue >= 0x60000 && queue < 0x70000'
begin_trace() {
	local fields='pid=p->pid journal=p->journal_info:x64 queue=args->dsq_id:x64 until=args->vtime:u64' name words=''
	printf 'p:kprobes/%s __scx_bpf_dsq_insert_vtime %s\n' held "$fields" queued "$fields" \
		> $trace/kprobe_events || return
	echo 16384 > $trace/buffer_size_kb
	echo "$is_held" > $held/filter && echo 1 > $held/enable || return
	echo "hist:keys=journal if $is_held" > $held/trigger || return
	echo "hist:keys=journal if queue < 0x60000" > $queued/trigger || return
	for name in reads buffered direct save film; do words+="${words:+ || }next_comm == \"$name\""; done
	echo "$words" > $trace/events/sched/sched_switch/filter
	echo 1 > $trace/events/sched/sched_switch/enable
}
end_trace() {
	echo 0 > $trace/events/sched/sched_switch/enable
	echo 0 > $held/enable
	echo "!hist:keys=journal if $is_held" > $held/trigger
	echo "!hist:keys=journal if queue < 0x60000" > $queued/trigger
	echo > $trace/kprobe_events
}
# EVENT COMPARISON: how often it had a task with journal_info COMPARISON 0: == or !=
with_journal() {
	awk -v is="$2" '/hitcount:/ { none = $3 ~ /^(0x)?0+$/; if (none == (is == "==")) n += $NF }
		END { print n + 0 }' "$1/hist"
}
trace_from() { echo > $trace/trace && echo 1 > $trace/tracing_on; } # parks before it do not count
parked_now() { # tasks that are held
	fg awk '/ held: / { match($0, / pid=[0-9]+/); at[substr($0, RSTART + 5, RLENGTH - 5)] = 1 }
		/ sched_switch: / { match($0, /next_pid=[0-9]+/); delete at[substr($0, RSTART + 9, RLENGTH - 9)] }
		END { for (pid in at) n++; print n + 0 }' $trace/trace
}
# From the trace: $longest_NAME, the longest time, ms, for which a task of that name was held, and
# $times_NAME, how often; $longest_short: the longest of those that were to be held for 100 ms or
# less, so not at a gate; $longest_late: the longest time after the end of a park until the task
# ran; $longest_left: the longest of those that are held still.
longest_parks() { # NAME of the copy in the results
	local name value
	longest_reads=0 longest_direct=0 longest_buffered=0 longest_save=0 longest_short=0 longest_late=0 \
		longest_left=0 times_save=0
	cp $trace/trace "$out/trace.$1"
	while read -r name value; do declare -g "$name=$value"; done < <(fg awk '
		function longer(name, ms) { if (ms > most[name]) most[name] = ms }
		match($0, / [0-9]+\.[0-9]+: /) { now = substr($0, RSTART, RLENGTH - 2) * 1000 }
		/ held: / {
			match($0, / pid=[0-9]+/); pid = substr($0, RSTART + 5, RLENGTH - 5)
			match($0, / until=[0-9]+/); until[pid] = substr($0, RSTART + 7, RLENGTH - 7) / 1000000
			at[pid] = now
		}
		/ sched_switch: / {
			match($0, /next_pid=[0-9]+/); pid = substr($0, RSTART + 9, RLENGTH - 9)
			if (!(pid in at)) next
			match($0, /next_comm=[a-z]+/); comm = substr($0, RSTART + 10, RLENGTH - 10)
			longer(comm, now - at[pid]); times[comm]++
			if (until[pid] - at[pid] <= 100) longer("short", now - at[pid])
			longer("late", now - until[pid])
			delete at[pid]
		}
		END {
			for (pid in at) longer("left", now - at[pid])
			for (name in most) printf "longest_%s %d\n", name, most[name]
			for (comm in times) printf "times_%s %d\n", comm, times[comm]
		}' "$out/trace.$1")
}
check_parks() { # NAME: after longest_parks
	local longest=$longest_reads name
	for name in $longest_direct $longest_save $longest_buffered $longest_left; do
		[ "$name" -le "$longest" ] || longest=$name
	done
	check "$1-gates-hold-for-5-s-at-most" "$longest ms" [ "$longest" -le 5100 ]
	# The job and its commands are real-time tasks: they kept all readers off the CPU for 70 ms.
	check "$1-dirty-pages-for-100-ms" "$longest_short ms" [ "$longest_short" -le 200 ]
	check "$1-end-in-time" "$longest_late ms late" [ "$longest_late" -le 100 ]
}
