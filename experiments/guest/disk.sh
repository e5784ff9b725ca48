# disk.sh - steps on a disk with a time of its own, under one of the kernel's I/O schedulers.
# harness.sh sources this.
#
# The program that matters runs in the cgroup /program and its load in /load (guest/enter), under
# every scheduler, so that weights by cgroup have something to act on, and writeback is by cgroup.

# elevator DEVICE KIND MODEL [WEIGHTS]: none, mq-deadline, bfq, or iocost (none, and the cost model
# of cgroups). WEIGHTS of the program and of the load, as in 60:20; unasked, the program comes first
# as far as the kernel lets it. MODEL: the device, for iocost; it is known, since the disk was made
# so.
elevator() {
	local folder queue kind=$2 model=$3 weights=${4:-} number
	folder=$(block_folder "$1")
	queue=$folder/queue
	number=$(< "$folder/dev")
	case $kind in
	bfq)
		modprobe bfq || fail "$name: no bfq"
		echo bfq > $queue/scheduler || fail "$name: bfq does not take $1"
		weights=${weights:-1000:10}
		echo "${weights%:*}" > "$cgroups/program/io.bfq.weight" && echo "${weights#*:}" > "$cgroups/load/io.bfq.weight" || fail "$name: no weights of bfq"
		;;
	iocost)
		echo none > $queue/scheduler
		echo "$number ctrl=user model=linear $model" > $cgroups/io.cost.model &&
			echo "$number enable=1 ctrl=user" > $cgroups/io.cost.qos || fail "$name: no iocost"
		weights=${weights:-10000:1}
		echo "default ${weights%:*}" > "$cgroups/program/io.weight" && echo "default ${weights#*:}" > "$cgroups/load/io.weight" || fail "$name: no io.weight"
		;;
	*) echo "$kind" > $queue/scheduler || fail "$name: no I/O scheduler $kind" ;;
	esac
	cat $queue/scheduler > "$out/elevator"
}
elevator_off() { # DEVICE
	local folder number
	folder=$(block_folder "$1")
	number=$(< "$folder/dev")
	echo "$number enable=0" > $cgroups/io.cost.qos 2> /dev/null
	echo none > "$folder/queue/scheduler"
}

# What the device in $disk_folder has done, and when: the kernel's counters. Builtins only, as in
# memory_at.
disk_at() { # PHASE
	local up rest fields
	read -r up rest < /proc/uptime
	read -r -a fields < "$disk_folder/stat"
	echo "$up ${fields[*]}" > "$out/disk-$1"
}

# An empty ext4 on a disk. All of its tables are written now, and not by a kernel thread later.
fresh_disk() { # DEVICE FOLDER
	mkdir -p "$2"
	{ mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 "/dev/$1" && mount "/dev/$1" "$2"; } > "$out/disk" 2>&1 ||
		fail "$name: no disk: $(tail -n 1 "$out/disk")"
}

# The cgroups of the program and of its load.
two_groups() {
	local group
	for group in program load; do mkdir "$cgroups/$group" || fail "$name: no cgroup /$group"; done
}
no_groups() {
	local group
	for group in program load; do
		until_true 10 rmdir "$cgroups/$group" || fail "$name: the cgroup /$group cannot be removed"
	done
}

# on_raw_disk DEVICE KIND MODEL WEIGHTS SHARES FUNCTION ARGUMENT…: a step whose programs read from
# that disk itself, without a file system. WEIGHTS: "-", or those of the cgroups /program and /load,
# for the kernel's I/O schedulers. SHARES: "-", or what aplomb reserves for both, as in 60%:20%;
# "none" is no reservation.
on_raw_disk() {
	local disk=$1 kind=$2 model=$3 weights=${4#-} shares=${5#-} disk_folder
	disk_folder=$(block_folder "$disk")
	shift 5
	two_groups
	elevator "$disk" "$kind" "$model" "$weights"
	[ -z "$shares" ] || { domain_set /program "io=${shares%:*}"; domain_set /load "io=${shares#*:}"; }
	at_phase=disk_at
	"$@"
	at_phase=
	[ -z "$shares" ] || { domain_set /program io=none; domain_set /load io=none; }
	elevator_off "$disk"
	no_groups
}

# Files of zeros on /mnt/disk: words NAME:MB with commas between.
make_files() { # FILES
	local each
	for each in ${1//,/ }; do
		dd if=/dev/zero of="/mnt/disk/${each%:*}" bs=1M count="${each#*:}" > "$out/disk" 2>&1 || fail "$name: no file: $(tail -n 1 "$out/disk")"
	done
}

# with_elevator DEVICE KIND MODEL FUNCTION ARGUMENT…: a step under that I/O scheduler, with the file
# system of that device at /mnt/disk and nothing of it in the page cache. FUNCTION calls $at_phase.
with_elevator() {
	local disk=$1 kind=$2 model=$3 disk_folder
	disk_folder=$(block_folder "$disk")
	shift 3
	sync
	echo 3 > /proc/sys/vm/drop_caches
	elevator "$disk" "$kind" "$model"
	at_phase=disk_at
	"$@"
	at_phase=
	until_true 60 umount /mnt/disk || fail "$name: /mnt/disk is still in use"
	elevator_off "$disk"
	no_groups
}

# flooded DEVICE KIND MODEL FILES FUNCTION ARGUMENT…: a step with the cgroups /program and /load and
# an empty ext4 on that device, at /mnt/disk, with these files (make_files).
flooded() {
	local device=$1 kind=$2 model=$3 files=$4
	shift 4
	two_groups
	fresh_disk "$device" /mnt/disk
	make_files "$files"
	with_elevator "$device" "$kind" "$model" "$@"
}

# installed DEVICE KIND MODEL FILES FOLDER FUNCTION ARGUMENT…: as flooded, with FOLDER on the file
# system, too. It is as the step before left it: to install a large program takes a slow disk longer
# than to start it.
installed() {
	local device=$1 kind=$2 model=$3 files=$4 folder=$5
	shift 5
	two_groups
	if ! mount "/dev/$device" /mnt/disk 2> /dev/null; then
		fresh_disk "$device" /mnt/disk
		make_files "$files"
		cp -a "$folder/." /mnt/disk || fail "$name: the disk has no room for $folder"
	fi
	with_elevator "$device" "$kind" "$model" "$@"
}

# with_stick DEVICE KNOB FUNCTION ARGUMENT…: with an empty ext4 on that slow device, too, at
# /mnt/stick. KNOB: "-", or a file of its folder in /sys/class/bdi and a value, as in max_ratio=1.
# What is left in the page cache at the end is thrown away with the device's file system: to write
# it would take minutes.
with_stick() {
	local device=$1 knob=$2 bdi
	shift 2
	fresh_disk "$device" /mnt/stick
	bdi=/sys/class/bdi/$(< "$(block_folder "$device")/dev")
	[ "$knob" = - ] || { echo 1 > "$bdi/strict_limit" && echo "${knob#*=}" > "$bdi/${knob%%=*}"; } || fail "$name: no $knob"
	"$@"
	[ "$knob" = - ] || { echo 0 > "$bdi/strict_limit" && echo 100 > "$bdi/max_ratio"; }
	rm -f /mnt/stick/*
	until_true 60 umount /mnt/stick || fail "$name: /mnt/stick is still in use"
}

# beside_flood SETTLE PREFIX… -- PROGRAM… -- LOAD…: the program starts SETTLE seconds after the load
# and ends by itself; then the load gets SIGTERM and says how it went.
beside_flood() {
	local settle=$1 status=0
	shift
	split_words "$@"
	with_load sessions
	sleep "$settle"
	$at_phase load
	start_program
	wait "$program_pid" || status=$?
	$at_phase after
	[ $status = 0 ] || fail "$name: the program ended with status $status: $(tail -n 1 "$out/stderr")"
	[ -n "$load_pid" ] || return 0
	kill -TERM -- "-$load_pid" 2> /dev/null
	until_true 60 has_ended "$load_pid"
	end_load
}

# beside_readers DEVICE KB READERS FUNCTION ARGUMENT…: a step during which so many readers in /load
# read KB each from that device, past the page cache (reads.c). They follow `pressure` in a step.
beside_readers() {
	local device=$1 kb=$2 readers=$3 reads
	shift 3
	( in_form sessions /job/enter load=load /job/reads "/dev/$device" 3600 "$kb" "$readers" > "$out/readers" 2>&1 ) &
	reads=$!
	"$@"
	kill -TERM -- "-$reads" 2> /dev/null
	until_true 60 has_ended $reads || fail "$name: the readers of $device do not end"
	wait $reads 2> /dev/null
}
