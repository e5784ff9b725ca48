# Starts and stops the daemon $CYCLES times under load, in four ways in turn: `aplomb stop`, SIGINT,
# SIGTERM, SIGKILL. Counts the kernel's BPF programs and maps at the end, and after 25 cycles if
# there are more: none may be left. Two CPUs.
. /job/guest/lib.sh

program stay plain
program hog forks
spec plain 1ms/100ms
spec forks 1ms/30ms 'inherit = true' 'revocable = true'
bg $hog 2 --forks
bg $bin/forks 0 --forks
bg $bin/plain
plain=$!
before=$(nr_bpf)
failed=
for i in $(seq $CYCLES); do
	launch_daemon
	# Most of a cycle is the verifier, emulated, in the daemon's time.
	renice -n -20 $daemon > /dev/null 2>&1
	daemon_await $daemon_log 120
	attached || { failed="$failed $i:start:$(tail -n 1 $daemon_log)"; break; }
	case $((i % 4)) in
	0) /job/aplomb stop ;;
	1) kill -INT $daemon ;;
	2) kill -TERM $daemon ;;
	3) kill -KILL $daemon ;;
	esac > /dev/null 2>&1
	wait $daemon 2> /dev/null
	until_true 5 stock || failed="$failed $i:stop"
	[ $i != 25 ] || [ "$CYCLES" = 25 ] ||
		check no-bpf-leaks-after-25 "before: $before after: $(nr_bpf)" until_true 15 bpf_is "$before"
	[ $((i % 5)) = 0 ] && say "cycle $i of $CYCLES"
done
check all-cycles "$i of $CYCLES; failed:$failed" none "$failed"
check no-bpf-leaks "programs and maps before: $before after: $(nr_bpf)" until_true 15 bpf_is "$before"
check load-still-runs "" [ -d /proc/$plain ]
end_all
finish
