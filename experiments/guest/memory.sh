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
	at_phase=memory_at
	"$@"
	at_phase=
	echo 0 > $lru_gen/min_ttl_ms
	for group in program load; do
		cat $cgroups/$group/memory.events > "$out/events-$group"
		until_true 10 rmdir "$cgroups/$group" || fail "$name: the cgroup /$group cannot be removed"
	done
}

# left FILE FILE_MB SETTLE PREFIX… -- PROGRAM… -- LOAD…: runs a program to its end that maps FILE,
# which is made on the disk with a time of its own; the load starts SETTLE seconds after the
# program, and gets SIGTERM when the program has ended. A program that was killed leaves a file
# "killed".
left() {
	local file=$1 size=$2 settle=$3 prefix=() program=() pid
	shift 3
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	while [ "$1" != -- ]; do program+=("$1"); shift; done
	shift
	load=("$@")
	mkdir -p "${file%/*}"
	{ mkfs.ext4 -q -F /dev/disk0 && mount /dev/disk0 "${file%/*}" &&
		dd if=/dev/urandom of="$file" bs=1M count="$size"; } > "$out/disk" 2>&1 || fail "$name: no disk: $(tail -n 1 "$out/disk")"
	sync
	echo 3 > /proc/sys/vm/drop_caches
	( in_form sessions "${prefix[@]}" "${program[@]}" > "$out/stdout" 2> "$out/stderr" < /dev/null ) &
	pid=$!
	sleep "$settle"
	memory_at load
	with_load sessions
	wait $pid || echo $? > "$out/killed"
	memory_at after
	kill -TERM "$load_pid" 2> /dev/null
	until_true 30 has_ended "$load_pid"
	end_load
	umount "${file%/*}" || fail "$name: ${file%/*} is still in use"
}
