# Tests faults of disks while tasks are parked because of them: a frozen file system, a full one,
# one that becomes read-only, a disk that is removed, and the journal. One CPU, two disks of 400
# requests a second, four at a time.
. /job/guest/lib.sh
. /job/guest/disk_lib.sh

printf '[disk]\norder = true\nlimit-dirty = true\n' > /etc/aplomb/aplomb.toml
check disk0-has-a-file-system "" format
dd if=/dev/zero of=$mnt/film bs=1M count=48 2> /dev/null
start_daemon || { finish; exit; }
a domain set load io=20%
a domain set more io=60%
check parks-can-be-traced "" begin_trace

say "the journal never waits for a parked task"
trace_from
writers load buffered 2
writers load direct 2 oflag=direct
( enter_domain load $programs/save $mnt 5 128 > $out/meta.json 2>&1 ) &
meta=$!
for i in 1 2 3; do ( enter_domain load $programs/save $mnt 60 128 > /dev/null 2>&1 ) & done
readers load $mnt/film 60 4 4
readers more $mnt/film 60 4 2
( enter_domain more $programs/save $mnt 12 4 every 50 > $out/save.json 2>&1 ) &
wait $!
save=$(cat $out/save.json)
check a-program-that-saves-ends "" until_true 5 has_ended $meta
meta=$(cat $out/meta.json)
check all-are-killed-while-parked "" kill_all reads buffered direct save
longest_parks all
parked="load: dirty $(parks load dirty), disk $(parks load disk); more: disk $(parks more disk)"
check writers-are-parked "$parked" [ "$(parks load dirty)" -gt 20 ]
check and-at-the-gate "$parked" [ "$(parks load disk)" -gt 20 ]
check programs-that-save-are-parked "$times_save times" [ "$times_save" -gt 10 ]
check the-load-saves-too "$meta" [ "$(jq .saves $out/meta.json)" -gt 10 ]
# A parked task with a handle open would keep all fsync() calls waiting: for its 5 s at a gate.
check a-save-is-quick "$save" [ "$(jq .longest_us $out/save.json)" -lt 1000000 ]
check saves-go-on "$save" [ "$(jq .saves $out/save.json)" -gt 50 ]
check no-park-with-a-handle-open "$(with_journal $held '==') parks" [ "$(with_journal $held '!=')" = 0 ]
check parks-were-seen "" [ "$(with_journal $held '==')" -gt 100 ]
check handles-were-seen "$(with_journal $queued '!=') of $(with_journal $queued '==')" [ "$(with_journal $queued '!=')" -gt 0 ]
check_parks all

say "a file system is frozen"
trace_from
before_dirty=$(parks load dirty) before_disk=$(parks load disk)
writers load buffered 4
writers load direct 2 oflag=direct
readers load $mnt/film 20 4 6
readers more $mnt/film 20 4 6
more=$!
check writers-are-parked-again "" until_true 10 more_parks load dirty $((before_dirty + 10))
check readers-are-parked-again "" until_true 10 more_parks load disk $((before_disk + 10))
check the-freeze-does-not-wait "" took fsfreeze -f $mnt
check it-is-quick "$ms ms" [ "$ms" -lt 2000 ]
sleep 0.5
reads=$(done_by disk0 reads) writes=$(done_by disk0 writes)
sleep 2.5
reads=$(($(done_by disk0 reads) - reads)) writes=$(($(done_by disk0 writes) - writes))
check nothing-is-written "$writes writes" [ "$writes" = 0 ]
check readers-go-on "$reads reads in 2.5 s" within 900 "$reads" 1010
check the-thaw-is-quick "$ms ms" took fsfreeze -u $mnt
before_dirty=$(parks load dirty) writes=$(done_by disk0 writes)
sleep 2
writes=$(($(done_by disk0 writes) - writes))
check writes-go-on "$writes writes in 2 s" [ "$writes" -gt 30 ]
check writers-are-parked-after-it "$(parks load dirty)" [ "$(parks load dirty)" -gt "$before_dirty" ]
check all-are-killed-after-it "" kill_all reads buffered direct
wait $more 2> /dev/null
longest_parks frozen
check_parks frozen

say "a file system is full"
check disk0-is-small "" format 48M
before_dirty=$(parks load dirty)
for i in 1 2 3 4; do
	( enter_domain load dd if=/dev/zero of=$mnt/full$i bs=64K count=1000 2> $out/full$i.log ) &
done
followed=
# `turned` at the time: the writers' last reported park may be a second before they end
no_space() { ! turned || followed=1; [ "$(cat $out/full?.log | grep -c 'No space left')" = 4 ]; }
check all-are-told "$(tail -qn 3 $out/full?.log)" until_true 20 no_space
ended_at=$(now_ms)
check all-end "" until_true 1 ended dd
check they-were-parked "$(parks load dirty)" more_parks load dirty $((before_dirty + 5))
check the-flusher-follows "$(knobs)" [ "$followed" = 1 ]
check until-it-is-calm "$(knobs)" until_true 6 put_back
calm=$(($(now_ms) - ended_at))
check which-takes-3-s "$calm ms" within 1500 $calm 4500

say "a file system becomes read-only"
check disk0-is-large "" format
trace_from
before_dirty=$(parks load dirty)
writers load buffered 4
check writers-are-parked-once-more "" until_true 10 more_parks load dirty $((before_dirty + 10))
took mount -o remount,abort $mnt
check the-abort-is-quick "$ms ms" [ "$ms" -lt 2000 ]
check it-is-read-only "$(touch $mnt/new 2>&1)" eval '! touch $mnt/new'
check writers-end "" until_true 2 ended buffered
check they-know-why "$(cat $out/buffered?.log | sort | uniq -c)" \
	[ "$(cat $out/buffered?.log | grep -c 'Read-only file system\|Input/output error')" = 4 ]
check the-flusher-is-left-alone "$(knobs)" until_true 6 put_back
check it-can-be-unmounted "" took umount $mnt
check and-used-again "" format
longest_parks read-only
check_parks read-only
# Here no gate is closed, so each park of a writer is one by dirty pages.
check no-writer-is-parked-for-longer "$longest_buffered ms" within 1 "$longest_buffered" 200

say "a disk is removed"
trace_from
number=$(number_of disk1)
readers load /dev/disk1 60 4 6
load=$!
readers more /dev/disk1 60 4 6
more=$!
sleep 4
measure disk1 4
check shares-before "$sum reads, $part" within 720 $part 780
check callers-are-parked "$(parked_now)" [ "$(parked_now)" -gt 4 ]
switch_off() { echo 0 > $null_blk/disk1/power; }
took switch_off
check the-removal-is-quick "$ms ms" eval '[ ! -e /sys/block/disk1 ] && [ $ms -lt 2000 ]'
children() { [ "$(runs reads | wc -l)" -le 2 ]; }
check readers-end "$(runs reads | wc -l) left" until_true 2 children
check with-an-error "$(sort $out/load.log $out/more.log | uniq -c)" [ "$(grep -c pread $out/load.log)" = 6 ]
check what-is-left-can-be-killed "" kill_all reads
wait $load $more 2> /dev/null
check the-daemon-lives "" eval '! has_ended $daemon'
check it-answers "" took a disk class
check at-once "$ms ms" [ "$ms" -lt 1000 ]
check the-disk-is-gone "$(a disk ls)" eval '! a disk ls | grep -q ^disk1'
longest_parks removed
check_parks removed

say "a disk of the same number, another name"
plug() { # NAME: a disk like disk1
	local from=$null_blk/disk1 to=$null_blk/$1 field
	[ -d "$to" ] || mkdir "$to"
	for field in size blocksize irqmode completion_nsec hw_queue_depth max_sectors; do
		cat $from/$field > "$to/$field" 2> /dev/null
	done
	echo 1 > "$to/memory_backed"
	echo 1 > "$to/power"
}
on() { # NAME SECONDS: readers of both domains
	readers load "/dev/$1" "$2" 4 6
	load=$!
	readers more "/dev/$1" "$2" 4 6
	more=$!
}
plug disk2
check it-is-there "$(number_of disk2)" [ "$(number_of disk2)" = "$number" ]
on disk2 20
sleep 4 # the daemon looks each 3 s
measure disk2 4
check it-is-ordered "$sum reads, $part" within 720 $part 780

say "a disk of the same name, another number"
# and disk2 is no longer the second disk while it has readers at its gates
plug disk1
check it-has-another-number "$(number_of disk1)" [ "$(number_of disk1)" != "$number" ]
sleep 4
measure disk2 4
check the-other-one-still-is "$sum reads, $part" within 720 $part 780
kill_all reads
on disk1 10
sleep 4
measure disk1 4
check it-is-ordered-too "$sum reads, $part" within 720 $part 780
check all-are-killed-at-last "" kill_all reads
end_trace
umount $mnt
stop_daemon
check stock-again "" until_true 5 stock
check the-end-puts-back "$(knobs)" put_back
finish
