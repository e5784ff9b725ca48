# Tests which process dies when memory runs out: best-effort work before interactive programs, a
# user beyond the cap before others; and that no oom_score_adj outlives the shortage or the daemon.
# One CPU, 768 MB, no swap.
. /job/guest/lib.sh

for name in player hostile; do program leave $name; spec $name 5ms/100ms; done
cp /bin/bash $bin/shell
spec shell 5ms/100ms
chmod 755 $bin/*
mkdir -p /etc/aplomb
printf '[memory]\nprotect = true\n' > /etc/aplomb/aplomb.toml
start_daemon || { finish; exit; }

score() { cat "/proc/$1/oom_score_adj" 2> /dev/null; } # PID
is_score() { [ "$(score "$1")" = "$2" ]; }
is_lower() { [ "$(score "$1")" -lt 0 ]; }
lives() { [ -d "/proc/$1" ] && ! grep -q '^State:.*zombie' "/proc/$1/status"; }
died() { ! lives "$1"; }
one_died() { died "$1" || died "$2"; }
wait_for() { # SECONDS COMMAND…: looks once a second, because each look needs memory
	local left=$1
	shift
	until "$@"; do
		[ $((left -= 1)) -ge 0 ] || return 1
		sleep 1
	done
}
killed() { a log --json | jq -r "select(.event == \"killed\" and .pid == $1) | .$2"; } # PID FIELD
read_files() { # free memory is used for files again and again: reclaim, but no lack
	while :; do cat /usr/lib/x86_64-linux-gnu/*.so* /usr/bin/* > /dev/null 2>&1; done
}
start_reader() {
	export -f read_files
	bg bash -c read_files
	reader=$!
}
end_reader() { pkill -KILL -P $reader; kill -KILL $reader; wait $reader 2> /dev/null; }
within_unit() { within $(($2 - 1)) "$1" $(($2 + 1)); } # VALUE EXPECTED

check the-kernel-reports-pressure "$(grep 'only seen by parks' $daemon_log)" eval '! grep -q "only seen by parks" $daemon_log'
check the-daemon-goes-last "$(score $daemon)" is_score $daemon -900
# A unit: a thousandth of memory, as the kernel rounds it.
unit=$(awk '/MemTotal|SwapTotal/ { kb += $2 } END { print int(kb / 4 / 1000) * 4 }' /proc/meminfo)

say "a discount while memory is short, and only then"
bg $bin/player 250 1000 1000000
player=$!
bg $bin/shell -c 'trap "sleep 900 & echo \$! > /tmp/child" USR1; while :; do sleep 0.2; done'
shell=$!
until_true 10 is_admitted $player
until_true 10 is_admitted $shell
sleep 3
check no-discount-while-there-is-memory "$(score $player); $(grep MemAvailable /proc/meminfo)" is_score $player 0
bg $programs/leave 200 1000 1000000 # after it nothing is left but what is used for files
modest=$!
start_reader
check a-discount-while-memory-is-short "" until_true 30 is_lower $player
rss=$(awk '/^VmRSS|^VmSwap|^VmPTE/ { kb += $2 } END { print kb }' /proc/$player/status)
expected=$((-(rss + 8192 + unit - 1) / unit))
check the-discount-is-its-memory "$(score $player) of $expected" within_unit "$(score $player)" $expected
check best-effort-has-none "$(score $modest)" is_score $modest 0
until_true 5 is_lower $shell
kill -USR1 $shell
until_true 5 test -s /tmp/child
child=$(cat /tmp/child)
check a-child-does-not-keep-it "$(score $child)" until_true 5 is_score $child 0
check its-parent-does "$(score $shell)" is_lower $shell
end_reader
kill -KILL $modest
check no-discount-when-memory-is-there-again "$(score $player)" wait_for 60 is_score $player 0
check nothing-in-the-journal "$(cat /run/aplomb/oom)" [ ! -s /run/aplomb/oom ]

say "memory runs out: the largest best-effort program dies, not the largest program"
bg $programs/leave 40 1000 1000000
modest=$!
bg $programs/leave 300 1000 1000000
hog=$!
bg $programs/leave 300 1000 1000000
hog2=$!
wait_for 300 one_died $hog $hog2
check a-hog-dies "$(dmesg | grep 'Killed process')" one_died $hog $hog2
check the-larger-interactive-program-lives "$(score $player)" lives $player
check the-smaller-best-effort-program-lives "" lives $modest
died $hog || hog=$hog2
check the-kill-is-an-event "$(killed $hog bytes) bytes" within 80000000 "$(killed $hog bytes)" 250000000
check with-its-class "$(killed $hog class)" [ "$(killed $hog class)" = 1 ]
check with-its-score "$(killed $hog oom_score_adj)" [ "$(killed $hog oom_score_adj)" = 0 ]
check why-explains-it "$(a log --why $hog)" eval 'a log --why $hog | grep -q "killed by the kernel.*best-effort work and had"'
end_all
: > /tmp/child

say "a user who is beyond the cap dies before a modest best-effort program of another"
bg $programs/leave 60 1000 1000000
modest=$!
chrt -o 0 "${as_nobody[@]}" $bin/hostile 580 1000 1000000 > /dev/null 2>&1 &
hostile=$!
wait_for 300 died $hostile
check the-hostile-program-dies "$(dmesg | grep 'Killed process' | tail -n 1)" died $hostile
check it-had-its-users-discount "$(killed $hostile oom_score_adj)" within -520 "$(killed $hostile oom_score_adj)" -300
check as-an-interactive-program "$(killed $hostile class)" [ "$(killed $hostile class)" = 0 ]
check the-modest-program-lives "" lives $modest

say "SIGKILL, and the next daemon"
bg $bin/player 250 1000 1000000
player=$!
bg $programs/leave 140 1000 1000000
until_true 10 is_admitted $player
start_reader
until_true 30 is_lower $player
kill -KILL $daemon
wait $daemon 2> /dev/null
end_reader
check a-discount-outlives-sigkill "$(score $player)" is_lower $player
start_daemon
check the-next-daemon-puts-it-back "$(score $player); $(cat /run/aplomb/oom)" is_score $player 0

say "the end"
start_reader
until_true 30 is_lower $player
stop_daemon
check the-end-puts-it-back "$(score $player)" is_score $player 0
end_reader
end_all
check stock-again "" until_true 5 stock
finish
