# Tests the scheduler on two CPUs in real time: placement, affinity, CPU hotplug, promises, storms
# of forks and execs, shares, pinned tasks, random changes of domains.
. /job/guest/lib.sh

program periodic movie
for name in one two walker light; do program stay $name; done
program storm storm
program storm bequeath
program spin pinned
program spin burst
program tied tied
spec movie 6ms/30ms
spec one 15ms/25ms
spec two 15ms/25ms
spec walker 5ms/50ms
spec light 1ms/100ms
spec tied 5ms/20ms
spec burst 1ms/100ms 'revocable = true'
spec storm 3ms/30ms 'revocable = true'
spec bequeath 1ms/30ms 'inherit = true' 'revocable = true'
start_daemon || { finish; exit; }

say "placement"
bg $bin/one
one=$!
bg $bin/two
two=$!
until_true 20 is_task $two
placed="CPUs $(task_of $one cpu) and $(task_of $two cpu), $(task_of $two state)"
each_has_one() { # of CPUs 0 and 1
	[ "$(for i in $one $two; do task_of $i cpu; done | sort | tr '\n' ' ')" = "0 1 " ]
}
check two-of-60-percent-on-different-cpus "$placed" each_has_one
check both-are-admitted "$placed" is_admitted $two
kill -KILL $two

say "launches while tasks preempt each other"
# A program that is preempted in its exec, in the kernel's or in ours, is placed as any other.
kill -USR1 $one # it loops from now on: its CPU has the most load
busy=$(task_of $one cpu)
for cpu in 0 1; do # real-time tasks
	taskset -c $cpu $periodic 100 1000 1000000 > /dev/null &
	pids+=($!)
done
light_is() { [ "$(json '[.tasks[] | select(.spec == "light")] | length')" = "$1" ]; } # NUMBER
placed=
for round in 1 2 3 4 5 6 7 8; do
	lights=
	for i in 1 2 3 4 5 6 7 8 9 10 11 12; do
		bg $bin/light
		lights="$lights $!"
	done
	until_true 20 light_is 12
	placed="$placed $(json '.tasks[] | select(.spec == "light") | .cpu' | tr '\n' ' ')"
	kill -KILL $lights
	until_true 20 light_is 0
done
check launches-go-where-there-is-room "$busy is busy:$placed" \
	[ "$(wc -w <<< "$placed") $(grep -cw "$busy" <(tr ' ' '\n' <<< "$placed"))" = "96 0" ]
end_all

say "affinity"
bg $hog 3
bg $bin/walker
walker=$!
until_true 3 is_task $walker
sleep 0.2
kill -USR1 $walker # it loops from now on: uses up its budget
wrong=
moves=0
for mask in 1 2 3 1 3 2 1 2 1 3 2 3 1 2 3; do
	taskset -p $mask $walker > /dev/null || wrong="$wrong taskset-failed"
	sleep 0.3
	/job/aplomb status --json > $out/walk.json
	cpu=$(task_of $walker cpu $out/walk.json)
	case $(task_of $walker state $out/walk.json) in
	admitted) [ $(((mask >> cpu) & 1)) = 1 ] || wrong="$wrong mask=$mask:cpu=$cpu" ;;
	*) wrong="$wrong mask=$mask:$(task_of $walker state $out/walk.json)" ;;
	esac
	moves=$((moves + 1))
done
taskset -p 3 $walker > /dev/null
for i in 1 2 3 4; do # it changes its own affinity: the kernel then calls ops.set_cpumask in its context
	kill -USR2 $walker
	sleep 0.3
	/job/aplomb status --json > $out/walk.json
	cpu=$(task_of $walker cpu $out/walk.json)
	mask=$(sed -n 's/^Cpus_allowed:\t//p' /proc/$walker/status)
	[ $(((0x${mask:-0} >> ${cpu:-0}) & 1)) = 1 ] || wrong="$wrong own-mask=$mask:cpu=$cpu"
	moves=$((moves + 1))
done
check affinity-is-followed "$moves changes, wrong:$wrong" none "$wrong"
bg $bin/tied 1500
tied=$!
sleep 2
a log --why $tied > $out/why
check a-thread-tied-elsewhere-is-told "$(tail -n 1 $out/why)" grep -q 'its thread [0-9]* may only run on others' $out/why
check moves-are-counted "$(counter moved)" within 5 "$(counter moved)" 15
# If the only CPU allowed has no room, the status shows a state for the task all the same.
taskset -p 1 $walker > /dev/null
sleep 0.5
bg taskset 1 $bin/one
one=$!
sleep 0.3
bg taskset 2 $bin/two
two=$!
sleep 0.3
state=$(task_of $one state)
check no-room-is-in-status "10 % at work and 60 % asked on CPU 0: $state" [ -n "$state" ]
r=$(chrt -o 0 taskset 2 $bin/pinned 4000)
check pinned-best-effort-runs "$r" within 1 "$(value gap_ms "$r")" 500
end_all
until_true 5 no_tasks

say "a CPU goes offline and comes back"
bg $hog 4 --forks
bg $bin/movie 5000 30000 100000
movie=$!
bg /job/aplomb run --cpu 2ms/40ms -- $periodic 1000 40000 100000
asked=$!
check reserved-before "" until_true 5 is_admitted $movie
check requested-before "" until_true 5 is_admitted $asked
seq=$(cat $scx/enable_seq)
for online in 0 1; do
	echo $online > /sys/devices/system/cpu/cpu1/online
	sleep 1
	same() { attached && [ "$(cat $scx/enable_seq)" = "$seq" ]; }
	check stays-attached-$online "CPU 1 online: $online" same
	check reserved-again-$online "" until_true 20 is_admitted $movie
	check asked-again-$online "aplomb run's" until_true 20 is_admitted $asked
	check not-on-a-lost-cpu-$online "CPU $(task_of $movie cpu)" within 0 "$(task_of $movie cpu)" $online
	sleep 2
done
check no-restart "" grep -q '"restarts": 0' <(/job/aplomb status --json)
served=$(task_of $movie served_ns)
began=$(now_ms)
sleep 3
served=$((($(task_of $movie served_ns) - served) / 1000 / ($(now_ms) - began)))
check reserved-is-served "by right: $served thousandths of a CPU; 6:30 reserved, 5:30 wanted" within 100 $served 205
end_all

say "three promises on two CPUs: the third is split over both"
players=
for i in 0 1 2; do
	bg /job/aplomb run --cpu 22ms/41ms --flags G -- $periodic 20000 41000 100000
	players="$players $!"
done
all_promised() { local pid; for pid in $players; do is_admitted $pid && [ "$(task_of $pid guaranteed)" = true ] || return 1; done; }
sum_of() { local pid sum=0; for pid in $players; do sum=$((sum + $(task_of $pid $1 $2))); done; echo $sum; } # FIELD FILE
nr_admitted() { local pid n=0; for pid in $players; do is_admitted $pid && n=$((n + 1)); done; echo $n; }
check all-promised "" until_true 10 all_promised
bg $hog 4 --forks
watch() { # for 4 s; sets $moved, migrations a second, and $served, thousandths of a CPU by right
	local began
	/job/aplomb status --json > $out/before
	began=$(now_ms)
	sleep 4
	/job/aplomb status --json > $out/after
	began=$(($(now_ms) - began))
	moved=$((($(sum_of migrations $out/after) - $(sum_of migrations $out/before)) * 1000 / began))
	served=$((($(sum_of served_ns $out/after) - $(sum_of served_ns $out/before)) / 1000 / began))
}
# This guest runs in real time on a host that may be busy: $served was 1,419 on a quiet host, 901
# beside two compilers. One CPU alone could not promise 900. So the best of five measurements
# counts.
for i in 1 2 3 4 5; do
	watch
	[ $served -lt 900 ] || [ $moved -lt 24 ] || break
done
check one-of-three-moves-twice-a-period "$moved times a second, of 48 (real time)" within 24 $moved 50
check promises-are-kept "by right: $served thousandths of a CPU; 3 x 488 wanted (real time)" within 900 $served 1620
echo 0 > /sys/devices/system/cpu/cpu1/online
only_one() { [ "$(nr_admitted)" = 1 ]; }
check one-cpu-keeps-one-promise "$(nr_admitted) of 3" until_true 5 only_one
echo 1 > /sys/devices/system/cpu/cpu1/online
check promised-again "" until_true 30 all_promised
end_all

say "many execs at once"
# A task that becomes interactive by exec preempts other tasks during their exec. Each exec must be
# matched, and only once.
bg $hog 4 --forks
before=$(counter matched)
for i in $(seq 40); do
	burst=
	for j in 1 2 3 4 5 6 7 8; do
		chrt -o 0 $bin/burst 30 > /dev/null &
		burst="$burst $!"
	done
	wait $burst
done
execs=$(($(counter matched) - before))
check each-exec-is-matched-once "$execs matched, of 320" [ $execs = 320 ]
end_all

say "storms"
bg $hog 2 --forks
bg_to $out/storm $bin/storm 12000 5 7
one=$!
bg_to $out/bequeath $bin/bequeath 12000 3 8
two=$!
bg_to $out/movie $bin/movie 3000 30000 600 brief
three=$!
wait $one $two $three
check storm-ended "$(cat $out/storm)" grep -q ended= $out/storm
check storm-that-bequeaths-ended "$(cat $out/bequeath)" grep -q ended= $out/bequeath
check steady-through-the-storm "$(cat $out/movie) (real time: a lead only)" true
end_all
until_true 10 no_tasks
check table-is-empty-after-storms "$(who_is_left)" no_tasks

say "two CPUs take tasks from one queue at once: no task is left in it"
. /job/guest/tree.sh
left=
for round in 1 2 3 4 5 6 7 8 9 10; do
	domain_of one
	domain_of two
	in_domain one $hog 2
	in_domain two $hog 2
	sleep 1
	echo 1 > $cg/one/cgroup.kill # a killed task must be dispatched once more to end
	echo 1 > $cg/two/cgroup.kill
	gone one two 2> /dev/null
	for name in one two; do [ ! -d $cg/$name ] || left="$left $round:$name"; done
	wait "${pids[@]}" 2> /dev/null
	pids=()
done
check no-task-is-left-in-a-queue "10 rounds, left:$left" none "$left"

say "shares of the machine while both CPUs choose at the same tick"
# THREADS: domain one, weight 900, has that many tasks; domain two, weight 100, has two. Prints the
# ppm that domain one gets of what both use.
one_heavy() {
	domain_of one
	domain_of two
	weigh one 900
	in_domain one $hog $1
	in_domain two $hog 2
	sleep 2
	share one two 8
	echo 1 > $cg/one/cgroup.kill
	echo 1 > $cg/two/cgroup.kill
	gone one two
}
got=$(one_heavy 2)
check nine-tenths-of-two-cpus "$got ppm of 900000" within 895000 "$got" 905000
got=$(one_heavy 1)
check one-heavy-thread-keeps-its-cpu "$got ppm of 500000" within 485000 "$got" 515000

say "pinned tasks"
domain_of free; domain_of pinned
weigh pinned 1
in_domain free $hog 2
for cpu in 0 1; do in_domain pinned taskset -c $cpu $hog 10; done
sleep 1
ppm=$(share pinned free 4)
check pinned-tasks-stay-within-their-domains-share "$ppm, 9901 due" within 1 "$ppm" 30000
weigh pinned 100
# What ran at the old weight stays charged at that weight: 1 ms there is 50 ms of waiting here. A
# CPU of this machine is a thread of the host, which may stand still for 50 ms, so no fixed wait is
# enough.
paid() { within 480000 "$(share pinned free 0.5)" 520000; }
until_true 10 paid
ppm=$(share pinned free 5)
check pinned-tasks-get-their-domains-share "$ppm, 500000 due" within 480000 "$ppm" 520000
end_all
gone free pinned

alone=$(domains) # with two CPUs the random changes also pin tasks
. /job/guest/domain_random.sh

check still-attached "" attached
/job/aplomb log --json > $out/log
stop_daemon
check stock-again "" stock
finish
