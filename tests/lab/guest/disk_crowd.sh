# Tests the order of a disk's requests under attack: a thousand callers at a gate, a user who asks
# for more than is due, and a daemon that is killed meanwhile. One CPU, a disk of 2,000 requests and
# 200 MB a second, eight at a time; and one of 400 for writers.
. /job/guest/lib.sh
. /job/guest/disk_lib.sh

printf '[disk]\norder = true\nlimit-dirty = true\n' > /etc/aplomb/aplomb.toml
cp $programs/reads $bin/film
spec film 5ms/40ms
check disk0-has-a-file-system "" format
chmod 666 /dev/disk1
start_daemon || { finish; exit; }
a domain set load io=20%
a domain set more io=60%
check parks-can-be-traced "" begin_trace
parked_now() { # tasks that wait in a queue of parked ones
	awk '/ held: / { match($0, / pid=[0-9]+/); at[substr($0, RSTART + 5, RLENGTH - 5)] = 1 }
		/ sched_switch: / { match($0, /next_pid=[0-9]+/); delete at[substr($0, RSTART + 9, RLENGTH - 9)] }
		END { for (pid in at) n++; print n + 0 }' $trace/trace
}

say "a thousand callers"
trace_from
readers load /dev/disk1 60 4 1000
load=$!
until_true 20 eval '[ "$(runs reads | wc -l)" -gt 1000 ]'
readers more /dev/disk1 60 4 16
more=$!
sleep 6
measure disk1 4
check shares "$sum reads, $part" within 700 $part 800
check the-disk-is-busy "$sum reads in 4 s" [ "$sum" -gt 6800 ]
now=$(parked_now)
check most-are-parked "$now" [ "$now" -gt 900 ]
check a-status "" took a status
check is-answered-at-once "$ms ms" [ "$ms" -lt 1000 ]
check a-sleeper "" took fg sleep 0.1
check wakes-up-in-time "$ms ms" [ "$ms" -lt 300 ]
took pkill -KILL -x reads
until_true 3 ended reads
from=$(now_ms)
check all-can-be-killed "$(runs reads | wc -l) left" ended reads
wait $load $more 2> /dev/null
longest_parks
check no-park-is-longer-than-5-s "$longest_reads ms, ${longest_left:-0} ms" [ "$longest_reads" -le 5100 ]

say "a user who asks for more"
chmod 755 $programs
refused_to_user() { ! as_user "$@"; }
asks() { # NAME COMMAND…
	local name=$1
	shift
	check "a-user-$name" "$(as_user "$@" 2>&1)" refused_to_user "$@"
}
asks is-not-real-time /job/aplomb run --io soft-real-time -- true
asks has-no-deadline-0 /job/aplomb run --io soft-real-time:0ms -- true
asks has-no-priority ionice -c 1 -n 0 true
asks takes-no-share /job/aplomb domain set more io=none
asks changes-no-weight /job/aplomb disk class rest=10000
readers more /dev/disk1 30 4 6
more=$!
sleep 1
flood() { # KB PROCESSES: $part of what `more` and all others do, 1/1000
	local all mine from
	chrt -o 0 "${as_nobody[@]}" $programs/reads /dev/disk1 30 "$1" "$2" > $out/flood.json 2> $out/flood.log &
	flood=$!
	sleep 3
	all=$(done_by disk1 reads) mine=$(io_of more disk1 rios)
	sleep 6
	all=$(($(done_by disk1 reads) - all)) mine=$(($(io_of more disk1 rios) - mine))
	part=$((mine * 1000 / (all + !all))) sum=$all
	pkill -KILL -x -U 65534 reads
	until_true 10 eval '! pgrep -x -U 65534 -r D,R,S reads'
}
flood 1024 16
check a-flood-of-1-MB "$sum requests, $part" [ $part -ge 500 ]
flood 65536 16
check a-flood-of-64-MB "$sum requests, $part $(cat $out/flood.log)" [ $part -ge 500 ]
wait $more
cat $out/more.json >> $out/more.all

say "the daemon is killed while callers are parked"
bg $bin/film /dev/disk1 60 4 1 every 40
readers load /dev/disk1 60 4 1000
load=$!
until_true 20 eval '[ "$(runs reads | wc -l)" -gt 1000 ]'
readers more /dev/disk1 60 4 16
more=$!
writers load buffered 2
prio() { ionice -p "$(pgrep -x "$1" | head -n 1)"; } # NAME
sleep 6
check the-knobs-are-turned "$(knobs)" until_true 10 turned
check a-film-has-its-priority "$(prio film)" eval 'prio film | grep -q realtime'
now=$(parked_now)
check most-are-parked-again "$now" [ "$now" -gt 900 ]
reads_so_far() { grep -H ^syscr: $(runs reads | sed 's|.*|/proc/&/io|'); }
reads_so_far > $out/before
kill -KILL $daemon
wait $daemon 2> /dev/null
took until_true 5 stock
check stock-at-once "$ms ms" [ "$ms" -lt 1000 ]
sleep 1.5
reads_so_far > $out/after
# The two parents sleep. Each other one has read meanwhile.
stuck=$(comm -12 <(sort $out/before) <(sort $out/after) | wc -l)
check all-run "$stuck of $(wc -l < $out/before) stand still" eval '[ $stuck -le 2 ] && [ $(wc -l < $out/after) -gt 1000 ]'
check a-killed-daemon-leaves-the-knobs "$(knobs)" turned
check all-end-then "" kill_all reads buffered
wait $load $more 2> /dev/null
check restore-puts-the-knobs-back "$(a restore 2>&1)" put_back
check and-the-priority "$(prio film)" eval 'prio film | grep -q none'
end_all
end_trace
umount $mnt
finish
