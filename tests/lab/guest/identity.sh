# Tests that a program is recognised when what its identity depends on changes after the start of
# the daemon: a move into a cgroup, a link, a mount, an update, a name, one file that is many
# commands; a file that gets the inode number of a deleted program, on ext4 and on XFS; specs that
# others can write; a kernel thread that appears later; and children that did not fit at first. One
# CPU.
. /job/guest/lib.sh

cg=/sys/fs/cgroup
program periodic game
program family team
for release in r1 r2; do
	mkdir -p /opt/app/$release
	cp $programs/stay /opt/app/$release/player
done
ln -s r1 /opt/app/current
mkdir -p /opt/late /opt/whole/a
cp $programs/stay /opt/whole/a/mover
program stay plain
program stay foreign
program stay box
ln -s box $bin/vi
ln -s box $bin/gzip
program family zygote
app_spec() { printf '[[spec]]\nname = "%s"\napp = "%s"\ncpu = "5ms/20ms"\nrevocable = true\n' "$1" "$2" > $specs/$1.toml; }
path_spec() { printf '[[spec]]\nname = "%s"\npath = "%s"\ncpu = "1ms/100ms"\n' "$1" "$2" > $specs/$1.toml; }
app_spec game org.example.Game
path_spec player /opt/app/current/player
path_spec late-mount /opt/late/player
path_spec mover /opt/whole/a/mover
path_spec vi $bin/vi
spec plain 1ms/100ms
spec foreign 1ms/100ms
spec zygote 5ms/30ms 'inherit = true' 'revocable = true'
printf '[[spec]]\nname = "named"\ncommand = "named-late"\ncpu = "1ms/100ms"\nrevocable = true\n' > $specs/named.toml
modprobe zram num_devices=2
printf '[[spec]]\nname = "journal"\nkernel-thread = "jbd2/zram0-8"\ncpu = "1ms/100ms"\n' > $specs/journal.toml
start_daemon || { finish; exit; }

say "a move into a cgroup"
scope="$cg/app-gnome-org.example.Game-4711.scope"
mkdir "$scope"
bg "$hog" 8
bg_to $out/game $bin/game 4000 20000 300 brief
game=$!
sleep 0.03
moved=${EPOCHREALTIME/./}
echo $game > "$scope/cgroup.procs"
# No check before its end: this shell and what it starts run at real-time priority.
sleep 7
check game-has-ended "" [ ! -d /proc/$game ]
at=$(/job/aplomb log --json --pid $game | jq -r 'select(.event == "matched") | .time_ns / 1000 | floor')
check moved-into-its-scope-is-recognised "$((${at:-0} - moved)) us after the move" within 0 $((${at:-0} - moved)) 1000000
misses=$(value missed "$(cat $out/game)")
# Before the move it competes with the loops, so its first job is late.
check moved-program-is-in-time "$misses of 300 missed, 1 % may" within 0 "$misses" 3
end_all
bg $bin/team threads 30
team=$!
sleep 0.2
echo $team > "$scope/cgroup.procs"
all_threads() { [ "$(task_of $team threads)" = 31 ]; }
check threads-of-a-moved-program-join "$(task_of $team threads) of 31" until_true 1 all_threads
echo $team > $cg/cgroup.procs
team_has_none() { ! is_task $team; }
check moved-out-is-best-effort-again "" until_true 1 team_has_none
bg $bin/plain
plain=$!
sleep 0.2
echo $plain > "$scope/cgroup.procs"
sleep 0.2
check file-outranks-cgroup "$(task_of $plain spec)" has_spec $plain plain
end_all

say "links, mounts, moves, updates"
bg /opt/app/current/player
first=$!
found=0
for i in 1 2 3 4 5 6; do
	ln -sfn r$((1 + i % 2)) /opt/app/new
	mv -T /opt/app/new /opt/app/current
	sleep 1
	bg /opt/app/current/player
	until_true 1 has_spec $! player && found=$((found + 1))
done
check link-in-the-middle "$found of 6" [ $found = 6 ]
bg /opt/app/r2/player
old=$!
sleep 0.5
check old-target-is-no-longer-matched "$(readlink /opt/app/current)" none "$(task_of $old spec)"
check running-program-keeps-its-spec "" has_spec $first player
end_all
mount -t tmpfs tmpfs /opt/late
cp $programs/stay /opt/late/player
sleep 1.5
bg /opt/late/player
late=$!
check mounted-later "" until_true 1 has_spec $late late-mount
end_all
mkdir -p /opt/whole/b
cp $programs/stay /opt/whole/b/mover
mv /opt/whole/a /opt/whole/old
mv /opt/whole/b /opt/whole/a
bg /opt/whole/a/mover
mover=$!
check directory-renamed "" until_true 2 has_spec $mover mover
found=0
for i in 1 2 3 4 5 6; do
	cp $programs/stay $bin/plain.new
	mv $bin/plain.new $bin/plain
	bg $bin/plain
	until_true 2 has_spec $! plain && found=$((found + 1))
done
check started-right-after-an-update "$found of 6" [ $found = 6 ]
end_all

say "the inode number of a deleted program"
echo 400M > /sys/block/zram1/disksize # only what is written takes memory
modprobe xfs
mkdir -p /opt/xfs
check there-is-an-xfs "$(mkfs.xfs -q -f /dev/zram1 2>&1)" mount -t xfs /dev/zram1 /opt/xfs
# Empty files, until one has this number: $heir. XFS takes a deleted file out of its index in the
# background, so there the number is not free at once.
inherits() { # DIRECTORY NUMBER
	local i
	for ((i = 1; i < 5000; i++)); do
		heir=$1/heir$i
		: > "$heir"
		[ "$(stat -c %i "$heir")" != "$2" ] || return 0
	done
	return 1
}
deleted_on() { # PREFIX DIRECTORY
	local number heir=none
	cp $programs/stay "$2/deleted"
	path_spec deleted "$2/deleted"
	a reload > /dev/null
	bg "$2/deleted"
	check "$1program-is-recognised" "" until_true 2 has_spec $! deleted
	end_all
	number=$(stat -c %i "$2/deleted")
	# For the worst case the daemon stands still: it does not see that the program is gone.
	kill -STOP $daemon
	rm "$2/deleted"
	inherits "$2" "$number"
	check "$1another-file-gets-its-number" "$heir of $(stat -f -c %T "$2")" [ "$(stat -c %i "$heir")" = "$number" ]
	cp $programs/stay "$heir"
	chmod 755 "$heir"
	bg "$heir"
	pid=$!
	sleep 0.5
	kill -CONT $daemon
	sleep 1
	check "$1it-is-not-recognised" "$(task_of $pid spec)" none "$(task_of $pid spec)"
	check "$1nor-was-it" "" eval '! a log --json --pid $pid | grep -q matched'
	check "$1it-runs" "$(readlink /proc/$pid/exe)" [ "$(readlink /proc/$pid/exe)" = "$heir" ]
	end_all
	rm -f "$2"/heir*
}
deleted_on "" $bin
deleted_on xfs- /opt/xfs
umount /opt/xfs

say "specs that others can write"
# Starts the program until it has its spec, or, after "no", until it has none.
foreign() {
	bg $bin/foreign
	sleep 0.5
	if [ "${1:-}" = no ]; then none "$(task_of $! spec)"; else has_spec $! foreign; fi
}
check roots-spec-holds "" until_true 5 foreign
chown 65534 $specs/foreign.toml
check a-users-spec-does-not "" until_true 5 foreign no
check the-file-is-named "" grep -q 'foreign.toml: .*does not belong to root' $daemon_log
chown 0 $specs/foreign.toml
chmod 666 $specs/foreign.toml
check nor-one-that-others-can-write "" until_true 5 foreign no
check that-file-is-named "" grep -q 'foreign.toml: .*group or others can write it' $daemon_log
chmod 644 $specs/foreign.toml
check it-holds-again "" until_true 5 foreign
chmod 775 $specs
check nor-one-of-such-a-folder "" until_true 5 foreign no
check the-folder-is-named "$(grep 'nothing is read' $daemon_log)" grep -q "$specs: nothing is read from here" $daemon_log
chmod 755 $specs
check and-again "" until_true 5 foreign
chown 65534 /opt
a reload > /dev/null
check nor-one-below-a-users-folder "" until_true 5 foreign no
check that-folder-is-named "" grep -q "$specs: nothing is read from here: of /opt: it does not" $daemon_log
chown 0 /opt
a reload > /dev/null
check holds-at-last "" until_true 5 foreign
end_all

say "one file, many commands"
bg $bin/vi
vi=$!
bg $bin/gzip
gzip=$!
bg $bin/box
box=$!
sleep 0.5
check link-is-matched-by-name "" has_spec $vi vi
check another-link-is-not "" none "$(task_of $gzip spec)"
check the-file-itself-is-not "" none "$(task_of $box spec)"
check daemon-warns-of-many-commands "" grep -q 'is one of the commands' $daemon_log
check spec-check-warns-of-many-commands "" grep -q 'is one of the commands' <(/job/aplomb spec check $specs/vi.toml 2>&1)
end_all

say "names"
chrt -o 0 bash -c 'sleep 0.3; echo -n named-late > /proc/$$/comm; read -r line < <(sleep 60)' &
named=$!
pids+=("$named")
sleep 0.1
check not-yet-named "" none "$(task_of $named spec)"
check named-after-its-exec "" until_true 2 has_spec $named named
end_all

say "a kernel thread that appears later"
echo 64M > /sys/block/zram0/disksize
mkfs.ext4 -q -F /dev/zram0 && mkdir -p /opt/late-disk && mount /dev/zram0 /opt/late-disk
journal=$(pgrep -x jbd2/zram0-8)
check there-is-one "$journal" [ -n "$journal" ]
check late-kernel-thread-is-matched "$(task_of "$journal" spec)" until_true 2 has_spec "$journal" journal
umount /opt/late-disk
check it-leaves-when-it-ends "" until_true 5 eval '! is_task $journal'

say "children that did not fit"
bg $bin/zygote brood 3 8
zygote=$!
sleep 1
nr_zygotes() { /job/aplomb status --json | grep -c '"spec": "zygote"'; }
admitted_zygotes() { json '.tasks[] | select(.spec == "zygote" and .state == "admitted") | .pid' | wc -w; }
check all-children-are-in-the-table "$(nr_zygotes) of 9" [ "$(nr_zygotes)" = 9 ]
all_admitted() { [ "$(admitted_zygotes)" = 9 ]; }
check all-that-fit-when-they-fit "" until_true 40 all_admitted
end_all

check still-attached "" attached
end_job
