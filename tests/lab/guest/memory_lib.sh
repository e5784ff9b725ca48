# shellcheck shell=bash
# What the jobs of memory share; sourced, and no job of its own.

cg=/sys/fs/cgroup
top=$cg/aplomb
scale=/proc/sys/vm/watermark_scale_factor
scale_before=$(cat $scale)

protection() { cat "$1/memory.min" 2> /dev/null; } # DIRECTORY
is_protected() { [ "$(protection "$1")" = "$2" ]; }
knobs_are_back() { [ "$(cat $scale)" = "$scale_before" ] && scans 4096 10000 && ! [ -s /run/aplomb/knobs ]; }
scale_is() { test "$(cat $scale)" "$@"; } # OPERATOR VALUE
# PAGES MS: khugepaged scans so many at a time, and sleeps for so long
scans() { (cd /sys/kernel/mm/transparent_hugepage/khugepaged && [ "$(cat pages_to_scan scan_sleep_millisecs)" = "$1"$'\n'"$2" ]); }
huge_is() { grep -q "\[$1\]" /sys/kernel/mm/transparent_hugepage/enabled; } # CHOICE
start_bombs() { # [MB]: four that want so much each
	local i
	bombs=
	for i in 1 2 3 4; do
		bg_to /dev/null $programs/leave "${1:-240}" 0 1000000
		bombs="$bombs $!"
	done
}
reclaimed() { json '.memory.counts[] | select(.class == "interactive") | .reclaimed'; }
has_returned() { [ "$(value returns "$(tail -n 1 "$1")")" = "$2" ]; } # OUTPUT OF leave, TIMES
# beside_bombs KIND MB: a program of 80 MB returns from its sleep four times, beside four that want
# so much each.
beside_bombs() {
	local kind=$1 i sleeper last before
	say "$kind"
	before=$(reclaimed)
	bg_to $out/sleeper $bin/sleeper 80 2000 4
	sleeper=$!
	until_true 5 test -d "$top/0/sleeper-$sleeper"
	sleep 3 # then the pages of its file are held, too
	start_bombs "$2"
	wait "$sleeper" # without a new process: this script is a real-time task, and its own are never parked
	last=$(tail -n 1 $out/sleeper)
	check "$kind-all-returns" "$last" [ "$(value returns "$last")" = 4 ]
	# Not zero: pages that are charged to the root, where a program was executed, may go.
	check "$kind-few-major-faults" "$last" within 0 "$(value faults "$last")" 2
	check "$kind-at-once" "$last" within 0 "$(value worst_us "$last")" 60000
	check "$kind-interactive-does-not-reclaim" "$before, then $(reclaimed) times" \
		[ "$(reclaimed)" = "$before" ]
	# shellcheck disable=SC2086 # a list; without swap the kernel may have killed some
	kill -KILL $bombs 2> /dev/null
	for i in $bombs; do until_true 20 has_ended "$i"; done
}
