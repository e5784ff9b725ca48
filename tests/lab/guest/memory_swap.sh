# Tests that a protected program keeps its working set whatever memory goes to when it is short:
# compressed memory (zram), a compressed cache before a swap disk (zswap), a swap disk beside
# reserved huge pages, or nothing at all. One CPU, 768 MB, swap of 400 requests a second.
. /job/guest/lib.sh
. /job/guest/memory_lib.sh

program leave sleeper
spec sleeper 5ms/100ms
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
disk=$(swapon --show=NAME --noheadings | head -n 1)
check there-is-swap "$disk" [ -n "$disk" ]
start_daemon || { finish; exit; }

swapped_out() { awk '$1 == "pswpout" { print $2 }' /proc/vmstat; }
written=$(swapped_out)
swapoff "$disk"
modprobe zram
echo 512M > /sys/block/zram0/disksize
mkswap /dev/zram0 > /dev/null
check zram-is-swap "" swapon /dev/zram0
beside_bombs zram 240
check zram-was-used "$written, then $(swapped_out) pages" [ "$(swapped_out)" -gt "$written" ]
swapoff /dev/zram0

# What does not compress takes as much memory there as it is, and programs cannot have that. The
# daemon measures it when a program comes.
bg_to /dev/null $bin/sleeper 5 600000 1
sleeper=$!
cap() { echo $(($(protection $top) >> 20)); } # MiB, of all programs
comes() { # a program, after the daemon's pause of a second
	sleep 2
	bg_to /dev/null $bin/sleeper 5 100 1
	until_true 5 is_admitted $!
}
echo 1 > /sys/block/zram0/reset
comes
before=$(cap)
echo 128M > /sys/block/zram0/disksize
dd if=/dev/urandom of=/dev/zram0 bs=1M count=100 conv=fsync 2> /dev/null
comes
check less-is-protected-beside-a-full-zram "$before MiB, then $(cap)" within $((before - 105)) "$(cap)" $((before - 55))
echo 1 > /sys/block/zram0/reset
comes
check as-much-as-before-without-it "$before MiB, then $(cap)" within $((before - 30)) "$(cap)" $((before + 30))
kill -KILL $sleeper

swapon "$disk"
echo Y > /sys/module/zswap/parameters/enabled
beside_bombs zswap 240
stored=$(awk '$1 == "zswpout" { print $2 }' /proc/vmstat)
check zswap-was-used "$stored pages" [ "$stored" -gt 0 ]
echo N > /sys/module/zswap/parameters/enabled

echo 32 > /proc/sys/vm/nr_hugepages
check huge-pages-are-reserved "$(< /proc/sys/vm/nr_hugepages)" [ "$(< /proc/sys/vm/nr_hugepages)" = 32 ]
beside_bombs huge-pages 240
echo 0 > /proc/sys/vm/nr_hugepages

swapoff "$disk"
beside_bombs no-swap 240
end_all
stop_daemon
check nothing-attached "" stock
finish
