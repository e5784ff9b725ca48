# shellcheck shell=bash
# What the jobs of memory share; sourced, and no job of its own.

cg=/sys/fs/cgroup
top=$cg/aplomb
scale=/proc/sys/vm/watermark_scale_factor
scale_before=$(cat $scale)

protection() { cat "$1/memory.min" 2> /dev/null; } # DIRECTORY
is_protected() { [ "$(protection "$1")" = "$2" ]; }
knobs_are_back() { [ "$(cat $scale)" = "$scale_before" ] && ! [ -s /run/aplomb/knobs ]; }
start_bombs() { # four that want 240 MB each
	local i
	bombs=
	for i in 1 2 3 4; do
		bg_to /dev/null $programs/leave 240 0 1000000
		bombs="$bombs $!"
	done
}
