# Tests that one user without rights (65534, the attacker) harms no other program: for a minute the
# attacker starts, asks, creates and writes without end, beside another user's film, a service with
# cpu.max, and root's commands. One CPU in virtual time.
. /job/guest/lib.sh
. /job/guest/tree.sh

attacker=65534
minute=60
program stay loop
program periodic film
program family zygote
spec loop 5ms/100ms # as a shell's: not revocable
spec film 8ms/40ms
spec zygote 5ms/30ms 'inherit = true' 'revocable = true'
# aplomb itself, as its spec in specs/system.toml
printf '[[spec]]\nname = "aplomb"\npath = "/job/aplomb"\ncpu = "2ms/50ms"\n' > $specs/aplomb.toml
chmod 755 /opt $bin
mkdir -p /run/systemd/seats
printf 'IS_SEAT0=1\nACTIVE_UID=1001\n' > /run/systemd/seats/seat0 # the film's user is in front of it
start_daemon || { finish; exit; }
daemon=$(cat /run/aplomb/lock)
memory() { awk '/^VmRSS/ { print $2 }' "/proc/$daemon/status"; } # KB
files() { ls "/proc/$daemon/fd" | wc -l; }
# The tree that systemd makes: system.slice, and a slice for each user, part of it the user's own.
for part in system.slice user.slice; do domain_of $part; done
theirs=user.slice/$attacker
for part in system.slice/service user.slice/0 user.slice/1001 $theirs $theirs/programs; do
	domain_of $part
done
chown $attacker:$attacker $cg/$theirs $cg/$theirs/cgroup.{procs,subtree_control,threads}
echo 20000 100000 > $cg/system.slice/service/cpu.max
in_domain system.slice/service $hog 1
sleep 2
domains() { a domain ls --over 100ms --json | jq length; }
now() { echo "$(files) files, $(json '.tasks | length') tasks, $(domains) domains"; }
before=$(now)
journal_before=$(wc -l < $daemon_log)

cat > $bin/attack << 'A'
#!/bin/bash
# The attacks, as the user. Each goes on until it is killed. The loops are nice, so that the others
# have time: starts without end, connections, requests, answers that are not read, cgroups,
# attributes.
cd /tmp
for i in $(seq 40); do nice -n 5 /opt/t/loop 3600000 & done
/opt/t/zygote 50 3600000 &
while :; do for i in $(seq 20); do /opt/t/loop 10 & done; wait -n; done &
while :; do /job/guest-programs/poke /run/aplomb/socket 100 1000; done &
for i in 1 2 3; do while :; do /job/aplomb domain ls --over 1ms; done & done
while :; do /job/aplomb status; /job/aplomb run --cpu 1ms/20ms -- true; done &
/job/guest-programs/slow /run/aplomb/socket 20 &
while :; do
	for i in $(seq 1500); do mkdir /sys/fs/cgroup/user.slice/65534/$i; done
	rmdir /sys/fs/cgroup/user.slice/65534/[0-9]*
done &
while :; do
	/job/guest-programs/mark /sys/fs/cgroup/user.slice/65534 user.aplomb.policy fifo
	/job/guest-programs/mark /sys/fs/cgroup/user.slice/65534 user.aplomb.policy wrr
	/job/guest-programs/mark /sys/fs/cgroup/user.slice/65534 user.aplomb.policy nonsense
done &
wait
A
chmod 755 $bin/attack

say "a minute of attacks"
in_domain $theirs/programs setsid setpriv --reuid $attacker --regid $attacker --clear-groups \
	bash $bin/attack
sleep 3
as_film() {
	echo $BASHPID > $cg/user.slice/1001/cgroup.procs
	exec chrt -o 0 setpriv --reuid 1001 --regid 1001 --clear-groups "$@"
}
( as_film $bin/film 4500 40000 $((minute * 25)) brief ) > $out/film 2>&1 &
film=$!
# An administrator asks each second, as an ordinary task of root's slice: by the command, which a
# shell starts, and by a program that runs already.
cat > $bin/asking << 'A'
#!/bin/bash
while sleep 1; do
	began=${EPOCHREALTIME/./}
	/job/aplomb status > /dev/null && echo $((${EPOCHREALTIME/./} - began))
done
A
as_root() { echo $BASHPID > $cg/user.slice/0/cgroup.procs; exec chrt -o 0 "$@"; }
( as_root bash $bin/asking ) > $out/asked &
asking=$!
( as_root /job/guest-programs/answer /run/aplomb/socket ) > $out/answered &
answering=$!
used_before=$(used system.slice/service)
began=$(now_ms)
largest=0
while [ -d /proc/$film ]; do
	sleep 1
	rss=$(memory)
	[ "$rss" -le $largest ] || largest=$rss
done
share=$((($(used system.slice/service) - used_before) / ($(now_ms) - began)))
wait $film
kill $asking $answering
range() { # FILE: how many times, the least and the most; $worst is the most, us
	worst=$(sort -n "$1" | tail -n 1)
	times="$(wc -l < "$1") times, after $(sort -n "$1" | head -n 1) to $worst us"
}
line=$(cat $out/film)
check another-users-film "$line" within 0 "$(value worst_second "$line")" 1
check a-service-has-its-quota "$share of 1000, 200 due" within 198 "$share" 202
range $out/answered
check the-daemon-answers "$times" within 1 "$worst" 100000
# The start of the command alone takes 40 ms on this machine. The aim is 100 ms, which most keep.
range $out/asked
check roots-command-is-answered "$times, 100000 aimed at" within 1 "$worst" 300000
check the-daemon-stays-small "$largest KB" within 1 "$largest" 65536
lines=$(($(wc -l < $daemon_log) - journal_before))
check the-journal-stays-short "$lines lines: $(tail -n 3 $daemon_log)" within 0 "$lines" 100
check still-attached "$(state)" attached

say "the user has gone"
is_gone() { ! pgrep -U $attacker > /dev/null; }
end_attack() { pkill -KILL -U $attacker; is_gone; }
until_true 30 end_attack
rmdir $cg/$theirs/[0-9]* 2> /dev/null
as_before() { [ "$(now)" = "$before" ]; }
check all-is-as-before "$before; $(now)" until_true 40 as_before
end_all
stop_daemon
finish
