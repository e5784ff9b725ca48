# Tests device time: whose time of a disk it was, by domain and class, while disks are watched and
# always. One CPU, a disk of 400 requests a second, four at a time.
. /job/guest/lib.sh

mkdir -p $cgroups/load $cgroups/more $cgroups/outer /etc/aplomb
cp "$programs/reads" $bin/film
spec film 5ms/40ms 'inherit = true' 'revocable = true' # a child of it reads
# DOMAIN SECONDS READERS: random readers of 4 kB there; $! and the file $out/DOMAIN.json
readers() {
	( enter_domain "$1" $programs/reads /dev/disk0 "$2" 4 "$3" > "$out/$1.json" 2> "$out/$1.log" ) &
}
reads_of() { jq .reads "$out/$1.json"; }
# NAME: the counts of all domains now, and the time, ns
snap() {
	a domain ls --disk --json --over 0.1s > "$out/snap.$1"
	date +%s%N > "$out/time.$1"
}
# FIELD DOMAIN NAME: its sum in that snapshot
count() {
	jq --arg path "$2" "[.[] | select(.path == \$path).disk_times[]
		| .soft_real_time, .interactive, .rest | .$1] | add // 0" "$out/snap.$3"
}
# FIELD DOMAIN: how much more it is in the snapshot `after` than in `before`
more() { echo $(($(count "$1" "$2" after) - $(count "$1" "$2" before))); }
elapsed() { echo $(($(< $out/time.after) - $(< $out/time.before))); }
# DOMAIN CLASS NAME: the device time of a class in that snapshot
class() { jq "[.[] | select(.path == \"$1\").disk_times[].$2.device_ns] | add // 0" "$out/snap.$3"; }

say "account takes order"
printf '[disk]\n\naccount = true\n' > /etc/aplomb/aplomb.toml
refused account-alone 2 'aplomb.toml:3: field "disk.account": it takes `order = true`' \
	timeout 20 /job/aplomb daemon --specs $specs

printf '[disk]\norder = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

say "what is not watched is not counted"
readers load 2 4
wait $!
snap before
check nothing-is-counted "$(count requests load before)" [ "$(count requests load before)" = 0 ]
a domain ls --disk > $out/ls
check and-it-is-said "$(tail -n 1 $out/ls)" grep -q "of requests while disks were watched, so far for 0 ns" $out/ls

say "device time is shared as requests are"
a domain set load io=20%
a domain set more io=60%
readers load 13 6
both=$!
readers more 13 6
sleep 2
snap before
sleep 8
snap after
wait $both $!
time=$(($(more device_ns load) + $(more device_ns more)))
requests=$(($(more requests load) + $(more requests more)))
of_time=$(($(more device_ns more) * 1000 / time))
of_requests=$(($(more requests more) * 1000 / requests))
check shares-of-time "$of_time of 1000, and $of_requests of the requests" within $((of_requests - 30)) $of_time $((of_requests + 30))
check shares-as-reserved "$of_time of 1000" within 720 $of_time 780
part=$((time * 1000 / $(elapsed)))
check it-is-the-time-that-passed "$part of 1000" within 900 $part 1010
check the-root-has-both "$(more device_ns /) ns" within $((time * 99 / 100)) "$(more device_ns /)" $((time * 101 / 100))
wait_ms=$(($(more wait_ns more) / $(more waits more) / 1000000))
check waits-are-known "$(more waits more) of $(more requests more), $wait_ms ms" within 0 $wait_ms 200
check each-of-them "" [ "$(more waits more)" = "$(more requests more)" ]
a domain show more > $out/show
check in-words "$(grep disk0 $out/show)" grep -q "^disk0, rest  *[0-9]* requests, device time .* s, mean wait .*s$" $out/show
a disk ls --over 0.1s > $out/ls
check by-class "$(cat $out/ls)" grep -q "^disk0  *0 %  *0 %  *0 % .*-$" $out/ls
check while-watched "$(tail -n 1 $out/ls)" grep -q "^(of requests while disks were watched, so far for .* s)$" $out/ls
a domain set load io=none
a domain set more io=none

say "a class has its own"
snap before
bg $bin/film /dev/disk0 6 64 1 every 40
readers load 5 6
wait $!
snap after
film=$(($(class / interactive after) - $(class / interactive before)))
rest=$(($(class load rest after) - $(class load rest before)))
check a-film-is-interactive "$((film / 1000000)) ms, the load $((rest / 1000000)) ms" within 200000000 $film $rest
end_all
stop_daemon

say "all requests are counted"
printf '[disk]\norder = true\naccount = true\n' > /etc/aplomb/aplomb.toml
start_daemon
snap before
readers load 4 6
wait $!
snap after
reads=$(reads_of load)
check all-are-counted "$(more requests load) of $reads" within $((reads - 2)) "$(more requests load)" $((reads + 20))
part=$(($(more device_ns load) / 4000000))
check a-busy-disk "$part of 1000 of 4 s" within 950 $part 1020
a log > $out/log
check without-a-watch "" eval '! grep -q "disks are watched" $out/log'
a domain ls --disk > $out/ls
check it-is-said "$(tail -n 1 $out/ls)" grep -q "of all requests, in" $out/ls
echo 0 > /sys/block/disk0/queue/iostats
snap before
readers load 1 2
wait $!
snap after
echo 1 > /sys/block/disk0/queue/iostats
check without-statistics-no-wait-is-known "$(more waits load) of $(more requests load)" eval '[ $(more waits load) = 0 ] && [ $(more requests load) -gt 150 ]'

say "a wait in the queue of the disk's scheduler is known"
queue=/sys/block/disk0/queue
echo mq-deadline > $queue/scheduler
snap before
readers load 3 12
wait $!
snap after
wait_ms=$(($(more wait_ns load) / $(more waits load) / 1000000))
# The disk is sent 4 at a time, and its scheduler has 8 requests. Each waits for 4 others, of 400 a
# second: 10 ms. The other 4 readers wait for a free request; that is in no wait.
check mean-wait "$wait_ms ms, $(< $queue/scheduler), $(< $queue/nr_requests) requests" within 8 $wait_ms 12
echo none > $queue/scheduler

say "a watch in between loses none"
a domain set more io=60%
snap before
readers load 8 6
load=$!
sleep 2
readers more 2 2
wait $!
both=$(reads_of more)
wait $load
snap after
both=$((both + $(reads_of load)))
check none-is-lost "$(($(more requests load) + $(more requests more))) of $both" within $((both - 4)) $(($(more requests load) + $(more requests more))) $((both + 40))
a log > $out/log
check there-was-a-watch "" grep -q "disks are watched" $out/log
a domain set more io=none

say "counts outlive a domain in the one above"
echo "+cpu +io" > $cgroups/outer/cgroup.subtree_control
mkdir $cgroups/outer/inner
( enter_domain outer/inner $programs/reads /dev/disk0 2 4 2 > $out/inner.json )
snap before
inner=$(count requests outer/inner before)
check it-has-some "$inner" within 300 "$inner" "$(count requests outer before)"
rmdir $cgroups/outer/inner
mkdir $cgroups/outer/next
snap after
check the-one-above-keeps-them "$(more requests outer)" [ "$(more requests outer)" = 0 ]
check the-next-one-has-none "$(count requests outer/next after)" [ "$(count requests outer/next after)" = 0 ]
rmdir $cgroups/outer/next

say "a page that is written back is charged to the domain that wrote it"
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk0
mkdir -p /mnt/disk
mount /dev/disk0 /mnt/disk
sync
snap before
start=$(date +%s%N)
( enter_domain load dd if=/dev/zero of=/mnt/disk/load bs=64K count=640 > /dev/null 2>&1 )
sync
took=$(($(date +%s%N) - start))
snap after
load=$(more device_ns load)
all=$(more device_ns /)
check a-buffered-writer "$((load / 1000000)) of $((all / 1000000)) ms" within $((all * 8 / 10)) "$load" "$all"
check it-is-its-time "$((load / 1000000)) of $((took / 1000000)) ms" within $((took * 7 / 10)) "$load" "$took"
umount /mnt/disk
stop_daemon
check stock-again "" until_true 5 stock
finish
