# Tests that a protected program keeps its working set on a machine with less memory, and on one
# with more: the reserve, the caps, and returns beside four programs that want 1.2 times the memory.
. /job/guest/lib.sh
. /job/guest/memory_lib.sh

program leave sleeper
spec sleeper 5ms/100ms
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
# What programs can have, MB: not the kernel's own, nor what the swap device is made of.
room=$(awk '$1 == "MemAvailable:" { print int($2 / 1024) }' /proc/meminfo)
start_daemon || { finish; exit; }

reserve=$(awk '$1 == "min" { sum -= $2 } $1 == "low" { sum += $2 } END { print int(sum / 256) }' /proc/zoneinfo)
check the-reserve-is-kept-free "$reserve MB of $room" [ "$reserve" -ge 8 ]
bg_to /dev/null $bin/sleeper 10 100000 1
first=$!
until_true 5 test -d $top/0/sleeper-$first
cap=$(($(protection $top) >> 20))
check the-cap-goes-by-the-size "$cap MB of $room" within $((room * 70 / 100)) "$cap" $((room * 85 / 100))
kill -KILL $first
beside_bombs bombs $((room * 30 / 100))
end_all
stop_daemon
check knobs-are-as-before "$scale_before, $(cat $scale)" knobs_are_back
check nothing-attached "" stock
finish
