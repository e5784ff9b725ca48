# memory.sh - steps in a guest whose memory is short. harness.sh sources this.
#
# The program that matters runs in the cgroup /program and its load in /load (guest/enter), under
# every scheduler: so the kernel's own protection (memory.min) differs from the other variants by
# its value alone, and a memory layer finds the programs as systemd's scopes would have them.

lru_gen=/sys/kernel/mm/lru_gen

# Puts the memory into the state that it has after boot: nothing in swap, no file in the page cache
# that no process maps. Pages of files belong to the cgroup that reads them first, so the programs
# of a step must read theirs anew.
fresh_memory() {
	local device
	while read -r device _; do
		[[ $device = /dev/* ]] || continue
		swapoff "$device" && swapon "$device" || fail "$name: $device cannot be emptied"
	done < /proc/swaps
	sync
	echo 3 > /proc/sys/vm/drop_caches
}

# set_knob KNOB: "-", or one of
#  - memory.min=BYTES, memory.low=BYTES: the protection of /program, set by hand;
#  - min_ttl_ms=MS: the kernel evicts no page that was used so recently, and kills a task instead.
set_knob() {
	local file
	case $1 in
	-) return ;;
	memory.*=*) file=$cgroups/program/${1%%=*} ;;
	min_ttl_ms=*) file=$lru_gen/min_ttl_ms ;;
	*) fail "$name: there is no knob $1" ;;
	esac
	echo "${1#*=}" > "$file" || fail "$name: $1 cannot be set"
}

# min_free KB FUNCTION ARGUMENT…: a step with that vm.min_free_kbytes. Where huge pages are on, the
# kernel raises it, to 44 MB in these guests; a quarter of it lies between the watermarks min and
# low.
min_free() {
	local knob=/proc/sys/vm/min_free_kbytes before
	before=$(< $knob)
	echo "$1" > $knob || fail "$name: no vm.min_free_kbytes of $1"
	shift
	"$@"
	echo "$before" > $knob
}

# grouped FUNCTION ARGUMENT…: a step with a cgroup /program, in which the kernel accounts for
# memory.
grouped() {
	mkdir "$cgroups/program" || fail "$name: no cgroup /program"
	"$@"
	until_true 10 rmdir "$cgroups/program" || fail "$name: the cgroup /program cannot be removed"
}

# memory_at PHASE: the kernel's counters, and the program's page faults, at the beginning of a
# phase. It takes builtins only: the harness runs at real-time priority, and a new process would
# need memory.
memory_at() {
	local lines pid fields
	mapfile -t lines < /proc/vmstat
	{
		printf '%s\n' "${lines[@]}"
		read -r pid < /run/pid-of-program && read -r -a fields < "/proc/$pid/stat" && echo "program_majflt ${fields[11]}"
	} > "$out/memory-$1" 2> /dev/null
}

# pressure KNOB FUNCTION ARGUMENT…: a step with the cgroups /program and /load and that knob. The
# words of the step enter the cgroups by /job/enter.
pressure() {
	local knob=$1 group
	shift
	fresh_memory
	for group in program load; do mkdir "$cgroups/$group" || fail "$name: no cgroup /$group"; done
	set_knob "$knob"
	cat /proc/zoneinfo > "$out/zoneinfo"
	[ "$SCHEDULER" != aplomb ] || timeout 10 /job/aplomb status --json > "$out/aplomb-before.json" || fail "$name: no status"
	at_phase=memory_at
	"$@"
	at_phase=
	echo 0 > $lru_gen/min_ttl_ms
	for group in program load; do
		cat $cgroups/$group/memory.events > "$out/events-$group"
		cat $cgroups/$group/memory.peak > "$out/peak-$group"
		cat $cgroups/$group/memory.stat > "$out/stat-$group"
		until_true 10 rmdir "$cgroups/$group" || fail "$name: the cgroup /$group cannot be removed"
	done
}

# The daemon looked for the files of its specifications before that disk was there.
reload_specs() {
	[ "$SCHEDULER" != aplomb ] || timeout 10 /job/aplomb reload > "$out/reload" 2>&1 || fail "$name: $(tail -n 1 "$out/reload")"
}

# left PROGRAM FILES SETTLE PREFIX… -- ARGUMENT… -- LOAD…: as before_load, with a program of /job
# and its files on the timed disk, /mnt/disk. FILES: words NAME:MB:KIND with commas between them, of
# the files /mnt/disk/NAME. KIND is
#  - document, or library (which may be executed): no other program has read it;
#  - shared: a library that another program, in the root cgroup, has read before.
left() {
	local binary=$1 files=$2 settle=$3 prefix=() each file size kind
	shift 3
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	timed_disk /mnt/disk
	cp "/job/$binary" /mnt/disk
	for each in ${files//,/ }; do
		IFS=: read -r file size kind <<< "$each"
		head -c "${size}M" /dev/urandom > "/mnt/disk/$file" || fail "$name: the disk has no room for $file"
		[ "$kind" = document ] || chmod 755 "/mnt/disk/$file"
	done
	sync
	echo 3 > /proc/sys/vm/drop_caches
	for each in ${files//,/ }; do
		IFS=: read -r file size kind <<< "$each"
		[ "$kind" != shared ] || cat "/mnt/disk/$file" > /dev/null
	done
	reload_specs
	before_load "$settle" "${prefix[@]}" -- "/mnt/disk/$binary" "$@"
	umount /mnt/disk || fail "$name: /mnt/disk is still in use"
}

# started FOLDER LIMIT SETTLE PREFIX… -- PROGRAM… -- LOAD…: as cold_start, on the timed disk.
started() {
	timed_disk /mnt/disk
	cp -a "$1/." /mnt/disk || fail "$name: the disk has no room for $1"
	cold_start "$@"
	umount /mnt/disk || fail "$name: the disk of $1 is still in use"
}

# out_and_in MB SECONDS: how long the kernel takes, on an otherwise idle machine, to write MB of a
# program's memory to the swap device and to read all of it back. The program sleeps SECONDS, in
# which the writing must be done. Pages are free when they are written, so the kernel is asked again
# until they are.
out_and_in() {
	local mb=$1 seconds=$2 from to end group=$cgroups/program
	( in_form sessions /job/enter program /job/editor "$mb" "$seconds" 1 > "$out/stdout" 2> "$out/stderr" < /dev/null ) &
	sleep 5 # until it has written to all of its memory
	end=$((SECONDS + seconds - 10))
	from=$EPOCHREALTIME
	# An eighth: what is left is the kernel's own, such as page tables.
	while [ "$(< $group/memory.current)" -gt $((mb << 17)) ] && [ $SECONDS -lt $end ]; do
		echo "${mb}M" > $group/memory.reclaim || sleep 0.02
	done 2> /dev/null
	to=$EPOCHREALTIME
	cat $group/memory.current $group/memory.swap.current > "$out/left"
	wait $!
	awk "BEGIN { printf \"%.6f\\n\", $to - $from }" > "$out/seconds"
}
