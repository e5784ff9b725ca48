# Tests dirty limits by class: a best-effort writer is parked, an interactive one is not, and what
# is turned outlives neither the daemon nor its death. ext4, XFS, btrfs. One CPU, a disk of 400
# requests and 40 MB a second.
. /job/guest/lib.sh

vm=/proc/sys/vm
knobs() { # the settings of the kernel's flusher: as they are
	echo "$(< $vm/dirty_background_bytes) $(< $vm/dirty_background_ratio) $(< $vm/dirty_writeback_centisecs)"
}
knobs_before=$(knobs)
put_back() { [ "$(knobs)" = "$knobs_before" ]; }
turned() { [ "$(knobs)" = "$((1 << 18)) 0 1" ]; }

mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk0
mkdir -p /mnt/disk $cgroups/load $cgroups/program
mount /dev/disk0 /mnt/disk
cp "$(command -v dd)" $bin/writer
spec writer 5ms/100ms
mkdir -p /etc/aplomb

say "a wrong limit is refused"
printf '[disk]\nlimit-dirty = true\nbest-effort-dirty = "1K"\n' > /etc/aplomb/aplomb.toml
refused too-small 2 'aplomb.toml:3: field "disk.best-effort-dirty": 1K is not between 256K and 1G' \
	timeout 20 /job/aplomb daemon --specs $specs
check a-refused-one-changes-nothing "" put_back

printf '[disk]\nlimit-dirty = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }
check nothing-is-turned-yet "$(knobs)" put_back

# CGROUP: the bytes that wait for the disk or are being written
stock_of() { awk '/^file_(dirty|writeback) / { n += $2 } END { print n }' "$cgroups/$1/memory.stat"; }
parks() { a domain show "$1" --json | jq '[.. | .parked? // empty | .[] | select(.reason == "dirty") | .times] | add // 0'; }
# CGROUP COMMAND…: starts the writer there; it is $writer, and $most becomes the largest stock seen
# until it has ended
watched() {
	local group=$1 now
	shift
	( enter_domain "$group" "$@" > $out/$group.log 2>&1 ) &
	writer=$!
	most=0 followed=
	until has_ended $writer; do
		now=$(stock_of "${counted_in:-$group}")
		[ "$now" -le $most ] || most=$now
		! turned || followed=1
		sleep 0.02
	done
	wait $writer
}

say "best-effort work is limited"
watched load dd if=/dev/zero of=/mnt/disk/load bs=64K count=1000
# The kernel takes the disk for one of 100 MB a second at first: 5 MB are its 50 ms. And what one
# call writes, and what the kernel's counts lag behind.
check best-effort-has-few-dirty-pages "at most $most bytes" within 1 $most $((6 << 20))
check the-flusher-follows "$(knobs)" [ "$followed" = 1 ]
check and-is-put-back-when-it-is-calm "$(knobs)" until_true 6 put_back
check it-was-parked "$(parks load) times" [ "$(parks load)" -gt 5 ]
a log > $out/log
check the-log-says-why "" grep -q "dirty pages, of which they had too many" $out/log

say "nor does a file of another cgroup escape"
dd if=/dev/zero of=/mnt/disk/foreign bs=64K count=600 > /dev/null 2>&1
sync
counted_in=. watched load dd if=/dev/zero of=/mnt/disk/foreign bs=64K count=600 conv=notrunc
check few-dirty-pages-of-a-foreign-file "at most $most bytes" within 1 $most $((6 << 20))

say "what was written is shown"
sync
a domain ls --disk --json > $out/domains.json
written=$(jq '.[] | select(.path == "load").disk_use.disks[0].written_bytes' $out/domains.json)
check of-a-domain "$written bytes" within $((60 << 20)) "$written" $((80 << 20))
check in-words "" eval 'a domain show load | grep "^disk disk0 .* written in [0-9]*$"'
bg dd if=/dev/disk0 of=/dev/null bs=64K iflag=direct
a disk ls --json > $out/disks.json
read_of() { jq '.[] | select(.name == "disk0") | '"$1" $out/disks.json; }
check of-a-disk "$(read_of .meanwhile)" within $((10 << 20)) "$(read_of .meanwhile.read_bytes)" $((45 << 20))
check it-is-busy "$(read_of .meanwhile.busy_ms) ms" within 800 "$(read_of .meanwhile.busy_ms)" 1200
check as-a-table "$(a disk ls --over 0.1s)" eval 'a disk ls --over 0.1s | grep -q "^disk0 *none"'
end_all

for kind in xfs btrfs; do
	say "$kind"
	umount /mnt/disk
	mkfs.$kind -q -f /dev/disk0 > $out/mkfs.log 2>&1
	check $kind "$(tail -n 1 $out/mkfs.log)" mount /dev/disk0 /mnt/disk
	watched load dd if=/dev/zero of=/mnt/disk/load bs=64K count=600
	# By now the rate is known: 2 MB, or a little more if the estimate is too high.
	check few-dirty-pages-on-$kind "at most $most bytes" within 1 $most $((6 << 20))
done
umount /mnt/disk
mkfs.ext4 -q -F -E lazy_itable_init=0,lazy_journal_init=0 /dev/disk0
mount /dev/disk0 /mnt/disk

say "an interactive program is not"
watched program $bin/writer if=/dev/zero of=/mnt/disk/program bs=64K count=320
check interactive-has-more "at most $most bytes" [ $most -gt $((8 << 20)) ]
check it-was-not-parked "$(parks program) times" [ "$(parks program)" = 0 ]

say "a writer that is parked can be killed"
( enter_domain load dd if=/dev/zero of=/mnt/disk/load bs=64K count=4000 conv=notrunc > /dev/null 2>&1 ) &
writer=$!
before=$(parks load)
more_parks() { [ "$(parks load)" -gt "$before" ]; }
check it-is-parked-again "" until_true 10 more_parks
kill -KILL $writer
check it-ends-at-once "" until_true 1 has_ended $writer

say "what is turned goes back"
flood() { # until the flusher follows; the writer goes on
	( enter_domain load dd if=/dev/zero of=/mnt/disk/load bs=64K count=4000 conv=notrunc > /dev/null 2>&1 ) &
	writer=$!
	until_true 10 turned
}
until_true 6 put_back
check a-flood-turns-it-again "$(knobs)" flood
kill -KILL $daemon
wait $daemon 2> /dev/null
kill -KILL $writer
check a-killed-daemon-leaves-it "$(knobs)" turned
check stock-after-the-kill "" until_true 5 stock
check restore-puts-it-back "$(a restore 2>&1)" put_back
daemon=
start_daemon
check a-new-daemon-turns-it "$(knobs)" flood
kill -KILL $writer
a doctor > $out/doctor
check doctor-knows "$(grep -i dirty $out/doctor)" grep -q "can be enforced" $out/doctor
stop_daemon
check the-end-puts-it-back "$(knobs)" put_back
check stock-again "" until_true 5 stock
umount /mnt/disk
finish
