# Tests that a protected program keeps its working set whatever memory goes to when it is short:
# compressed memory (zram), a compressed cache before a swap disk (zswap), a swap disk beside
# reserved huge pages, or nothing at all. One CPU, 768 MB, swap of 400 requests a second.
. /job/guest/lib.sh

program leave sleeper
spec sleeper 5ms/100ms
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
disk=$(swapon --show=NAME --noheadings | head -n 1)
check there-is-swap "$disk" [ -n "$disk" ]
start_daemon || { finish; exit; }

reclaimed() { json '.memory.counts[] | select(.class == "interactive") | .reclaimed'; }
swapped_out() { awk '$1 == "pswpout" { print $2 }' /proc/vmstat; }
# beside_bombs KIND: a program of 80 MB returns from its sleep four times, beside four that want
# 240 MB each.
beside_bombs() {
	local kind=$1 i bombs='' sleeper last before
	say "$kind"
	before=$(reclaimed)
	bg_to $out/sleeper $bin/sleeper 80 2000 4
	sleeper=$!
	until_true 5 test -d "/sys/fs/cgroup/aplomb/0/sleeper-$sleeper"
	sleep 3 # then the pages of its file are held, too
	for i in 1 2 3 4; do
		bg_to /dev/null $programs/leave 240 0 1000000
		bombs="$bombs $!"
	done
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

written=$(swapped_out)
swapoff "$disk"
modprobe zram
echo 512M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
check zram-is-swap "" swapon /dev/zram0
beside_bombs zram
check zram-was-used "$written, then $(swapped_out) pages" [ "$(swapped_out)" -gt "$written" ]
swapoff /dev/zram0

swapon "$disk"
echo Y > /sys/module/zswap/parameters/enabled
beside_bombs zswap
stored=$(awk '$1 == "zswpout" { print $2 }' /proc/vmstat)
check zswap-was-used "$stored pages" [ "$stored" -gt 0 ]
echo N > /sys/module/zswap/parameters/enabled

echo 32 > /proc/sys/vm/nr_hugepages
check huge-pages-are-reserved "$(< /proc/sys/vm/nr_hugepages)" [ "$(< /proc/sys/vm/nr_hugepages)" = 32 ]
beside_bombs huge-pages
echo 0 > /proc/sys/vm/nr_hugepages

swapoff "$disk"
beside_bombs no-swap
end_all
stop_daemon
check nothing-attached "" stock
finish
