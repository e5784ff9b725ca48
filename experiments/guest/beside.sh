# beside.sh - a program that matters beside a load that wants memory. harness.sh sources this; these
# functions follow `pressure` (memory.sh) or `flooded` (disk.sh) in a step.
#
# All of them call $at_phase when the load runs and when the program has ended. They leave what the
# program and the load printed (stdout, load), how long the program ran (seconds), and a file
# "killed" if it was.

# timed_disk FOLDER: an empty file system there, on the disk with a time of its own (/dev/disk0).
timed_disk() {
	mkdir -p "$1"
	{ mkfs.ext4 -q -F /dev/disk0 && mount /dev/disk0 "$1"; } > "$out/disk" 2>&1 || fail "$name: no disk: $(tail -n 1 "$out/disk")"
}

# with_disk FILE=MB,… FUNCTION ARGUMENT…: with these files on that disk, none of them in the page
# cache. All are in the same folder.
with_disk() {
	local files=$1 folder file
	shift
	folder=${files%%=*}
	folder=${folder%/*}
	timed_disk "$folder"
	for file in ${files//,/ }; do
		dd if=/dev/urandom of="${file%=*}" bs=1M count="${file#*=}" > "$out/disk" 2>&1 || fail "$name: no file: $(tail -n 1 "$out/disk")"
	done
	sync
	echo 3 > /proc/sys/vm/drop_caches
	"$@"
	until_true 10 umount "$folder" || fail "$name: $folder is still in use"
}

# split_words WORD…: the words up to the first -- are in $prefix, those up to the second in
# $program, the others in $load.
split_words() {
	prefix=() program=()
	while [ "$1" != -- ]; do prefix+=("$1"); shift; done
	shift
	while [ "$1" != -- ]; do program+=("$1"); shift; done
	shift
	load=("$@")
}

start_program() { # its process is $program_pid
	program_from=$EPOCHREALTIME
	( in_form sessions "${prefix[@]}" "${program[@]}" > "$out/stdout" 2> "$out/stderr" < /dev/null ) &
	program_pid=$!
}

# The program ends by itself. Then all processes of the load get SIGTERM, and say how it went.
await_program() {
	local to status=0
	wait "$program_pid" || status=$?
	to=$EPOCHREALTIME
	# Above 128: ended by a signal. Anything else is a mistake of the experiment's.
	[ $status = 0 ] || [ $status -gt 128 ] || fail "$name: the program ended with status $status: $(tail -n 1 "$out/stderr")"
	[ $status = 0 ] || echo $status > "$out/killed"
	$at_phase after
	awk "BEGIN { printf \"%.6f\\n\", $to - $program_from }" > "$out/seconds"
	[ -n "$load_pid" ] || return 0
	kill -TERM -- "-$load_pid" 2> /dev/null
	until_true 30 has_ended "$load_pid"
	end_load
}

# before_load SETTLE PREFIX… -- PROGRAM… -- LOAD…: the load starts SETTLE seconds after the program.
before_load() {
	local settle=$1
	shift
	split_words "$@"
	start_program
	sleep "$settle"
	$at_phase load
	with_load sessions
	await_program
}

# after_load SETTLE PREFIX… -- PROGRAM… -- LOAD…: the program starts SETTLE seconds after the load.
after_load() {
	local settle=$1
	shift
	split_words "$@"
	with_load sessions
	sleep "$settle"
	$at_phase load
	start_program
	await_program
}

# cold_start FOLDER LIMIT SETTLE PREFIX… -- PROGRAM… -- LOAD…: as after_load, with what is at
# /mnt/disk as the program's FOLDER and nothing of it in memory. The program is killed after LIMIT
# seconds. It has run before, so that its home is not new: LibreOffice ends its first run with
# status 81 and wants to be started again.
cold_start() {
	local folder=$1 limit=$2 settle=$3 restarts=0
	shift 3
	mount --bind /mnt/disk "$folder" || fail "$name: $folder cannot be on the disk"
	export HOME=/tmp/home
	split_words "$@"
	if [ ! -d $HOME ]; then
		mkdir $HOME
		while ( in_form sessions "${program[@]}" > "$out/first-run" 2>&1 < /dev/null ); [ $? = 81 ]; do
			[ $((restarts += 1)) -lt 4 ] || fail "$name: ${program[0]} wants to be started again and again"
		done
	fi
	sync
	echo 3 > /proc/sys/vm/drop_caches
	reload_specs
	after_load "$settle" timeout -s KILL "$limit" "$@"
	umount "$folder" || fail "$name: $folder is still in use"
}
