# Tests starts of the daemon that must be refused, requests of unprivileged users, and the daemon
# killed during a fork bomb while a movie plays. One CPU.
. /job/guest/lib.sh

program stay plain
program periodic steady
spec plain 1ms/100ms
spec steady 6ms/30ms
printf '[[spec]]\nname = "mplayer"\npath = "/usr/bin/mplayer"\ncpu = "5ms/30ms"\ninherit = true\nrevocable = true\n' > $specs/mplayer.toml
clean=$(nr_bpf)
daemon_words="/job/aplomb daemon --specs $specs"

exits_with() { # STATUS COMMAND…
	local expected=$1
	shift
	"$@" > /dev/null 2>&1
	[ $? = "$expected" ]
}

say "starts that are refused"
: > /tmp/empty
refused no-btf 3 'no BTF' unshare -m sh -c "mount -t tmpfs tmpfs /sys/kernel/btf; exec $daemon_words"
refused empty-btf 3 'BTF' unshare -m sh -c "mount --bind /tmp/empty /sys/kernel/btf/vmlinux; exec $daemon_words"
refused unprivileged-user 4 'permission|root' as_user $daemon_words
mkdir -m 777 /tmp/open
refused unprivileged-user-elsewhere 4 'CAP_|root' as_user $daemon_words --socket /tmp/open/socket
refused no-capabilities 4 'CAP_' setpriv --bounding-set -all --inh-caps -all $daemon_words
printf 'r-hi = "70%%"\nr-lo = "75%%"\n' > /tmp/bad.toml
refused bad-configuration 2 'bad.toml:[0-9]' $daemon_words --config /tmp/bad.toml
printf '[[spec]]\nname = "x"\npath = "/bin/x"\ncpu = "30ms/5ms"\n' > $specs/bad.toml # the daemon skips this file and starts; checks below
check all-refused "" stock

start_daemon || { finish; exit; }
check bad-spec-is-logged "$(cat $daemon_log)" grep -q 'bad.toml:4:7: field "cpu"' $daemon_log
check bad-spec-is-in-status "" grep -q 'bad.toml:4:7: field "cpu"' <(/job/aplomb status)
check bad-spec-fails-reload "" exits_with 2 /job/aplomb reload
check bad-spec-fails-check "" exits_with 2 /job/aplomb spec check $specs/bad.toml
rm $specs/bad.toml
check good-specs-reload "" exits_with 0 /job/aplomb reload
bg $bin/plain
plain=$!
until_true 3 is_task $plain
refused second-daemon 1 "already running.*$daemon" $daemon_words
refused another-scheduler 5 'another sched_ext scheduler is attached: aplomb' $daemon_words --socket /tmp/open/socket2
check first-daemon-stays-attached "" attached
check first-keeps-tasks "" is_admitted $plain
end_all

say "requests of unprivileged users"
check user-may-query "" as_user /job/aplomb status
bg "${as_nobody[@]}" /job/aplomb run --cpu 1ms/20ms -- $bin/plain
mine=$!
check user-reservation-within-the-limit "" until_true 5 is_admitted $mine
has_asked_for() { [ "$(task_of $mine runtime_ns)" = 1000000 ] && [ "$(task_of $mine period_ns)" = 20000000 ]; }
check user-reservation-is-as-requested "not the program's own spec" has_asked_for
user() { # NAME STATUS WORD…
	local name=$1 expected=$2 status
	shift 2
	as_user timeout 20 /job/aplomb "$@" > $out/user.log 2>&1
	status=$?
	check "user-$name" "status $status, expected $expected: $(head -n 1 $out/user.log)" [ $status = "$expected" ]
}
bg $bin/plain
root_task=$!
user over-the-limit 77 run --cpu 5ms/30ms -- /bin/true
user together-over-the-limit 77 run --cpu 1ms/15ms -- /bin/true
user period-too-short 77 run --cpu 100us/5ms -- /bin/true
user own-process-changed 0 set $mine --cpu 2ms/40ms
user others-process 4 set $root_task --cpu 1ms/100ms
user others-reservation 4 set $root_task --clear
user no-such-process 1 set 99999 --cpu 1ms/100ms
user inheritance 4 run --cpu 1ms/100ms --flags I -- /bin/true
user stop 4 stop
user reload 4 reload
user own-process-cleared 0 set $mine --clear
check others-kept-theirs "" is_admitted $root_task
end_all
until_true 3 no_tasks
for i in 1 2 3 4 5 6 7 8; do
	bg "${as_nobody[@]}" /job/aplomb run --cpu 100us/100ms -- $bin/plain
done
eight() { [ "$(nr_tasks)" = 8 ]; }
check user-has-eight "$(nr_tasks)" until_true 5 eight
user the-ninth 77 run --cpu 100us/100ms -- /bin/true
end_all
bg_to $out/poke "${as_nobody[@]}" /job/guest-programs/poke /run/aplomb/socket 300 100000
sleep 1
check daemon-answers-beside-a-flood "" timeout 10 /job/aplomb status
wait ${pids[-1]}
check flood-is-bounded "$(cat $out/poke)" [ "$(value answered "$(cat $out/poke)")" = "$(value connected "$(cat $out/poke)")" ]
check root-may-stop "" /job/aplomb stop
wait $daemon
check stock-after-stop "" stock
check no-bpf-after-stop "was $clean, is $(nr_bpf)" until_true 10 bpf_is "$clean"

say "the daemon is killed during a fork bomb"
frames() { grep -c 'tracing_mark_write.*V:' $trace/trace; }
echo 16384 > $trace/buffer_size_kb
start_daemon || { finish; exit; }
echo > $trace/trace
chrt -o 0 mplayer -noconfig all -nolirc -noconsolecontrols -nosound -vo null -loop 0 /lab/clips/light.mpg \
	> $trace/trace_marker 2> $out/player.err < /dev/null & movie=$!
pids+=("$movie")
playing() { [ "$(frames)" -gt 25 ]; }
check movie-plays "" until_true 20 playing
bg $hog 50 --forks
sleep 2
shown=$(frames)
sleep 4
shown=$(($(frames) - shown))
check movie-through-the-bomb "$shown frames in 4 s" within 96 $shown 104
shown=$(frames)
killed=$(now_ms)
kill -KILL $daemon
until_true 5 stock
took=$(($(now_ms) - killed))
check stock-scheduler-is-back "after $took ms" within 0 $took 1000
wait $daemon 2> /dev/null
sleep 4
shown=$(($(frames) - shown))
check movie-goes-on "$shown frames in the next 4 s, under the stock scheduler" within 5 $shown 120
check player-lives "" [ -d /proc/$movie ]
kill -KILL ${pids[-1]}
check no-bpf-left "was $clean, is $(nr_bpf)" until_true 10 bpf_is "$clean"
check nothing-pinned "$(find /sys/fs/bpf -mindepth 1)" none "$(find /sys/fs/bpf -mindepth 1)"
check only-lock-and-socket-left "$(ls /run/aplomb)" [ "$(ls /run/aplomb | tr '\n' ' ')" = "lock socket " ]
a status > /dev/null 2>&1
check no-daemon-status "" [ $? = 69 ]
start_daemon
check starts-again "over the stale socket" attached
check movie-is-found-again "" until_true 5 is_admitted $movie
bg $hog 50 --forks
sleep 1
shown=$(frames)
sleep 4
shown=$(($(frames) - shown))
check movie-plays-as-before "$shown frames in 4 s" within 96 $shown 104
end_all
stop_daemon
check stock-at-the-end "" stock
finish
