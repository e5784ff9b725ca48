# Tests reservations: exact budgets, deadlines, a reserved task that runs alone, and attempts to get
# a new budget by exec or fork. One CPU in virtual time.
. /job/guest/lib.sh

for name in irr free hard; do program spin $name; done
for name in p20 p50 p100 late; do program periodic $name; done
program minor minor
program turns turns
spec minor 5ms/16ms
spec turns 60ms/100ms
program chain chain
program orphans orphan
program stay idle
program heap heap
spec irr 6ms/30ms
spec hard 6ms/30ms 'server = "cbs-hard"'
spec p20 4ms/20ms
spec p50 10ms/50ms
spec p100 20ms/100ms
spec late 6ms/30ms
spec chain 6ms/30ms
spec orphan 6ms/30ms
spec idle 6ms/30ms
spec heap 5ms/50ms

# Without load the scheduler must start no timer and must not wake the daemon. The count begins 2 s
# after the daemon's start, when the kernel timers that the start needs have expired.
start_daemon || { finish; exit; }

say "no load: timers and wake-ups"
timers() { # SECONDS: how often a timer of aplomb is started in that time
	echo > $trace/trace
	echo 1 > $trace/events/timer/hrtimer_start/enable
	sleep "$1"
	echo 0 > $trace/events/timer/hrtimer_start/enable
	grep 'hrtimer_start:' $trace/trace > $out/timers
	[ -s $out/timers ] || return # other timers always start: an empty trace is a broken one
		grep -c 'function=bpf_timer_cb' $out/timers
}
switches() { sed -n 's/^voluntary_ctxt_switches:\t//p' /proc/$daemon/status; }
sleep 2
before=$(switches)
n=$(timers 20)
check no-timer-without-interactive-tasks "started $n times in 20 s" within 0 "$n" 0
check no-wake-up-of-the-daemon "$(($(switches) - before)) in 20 s" [ "$(switches)" = "$before" ]
bg $bin/idle; idle=$!
until_true 3 is_task $idle
sleep 5
before=$(switches)
n=$(timers 20)
check one-timer-a-second-with-an-idle-one "started $n times in 20 s" within 15 "$n" 25
check no-wake-up-beside-an-idle-one "$(($(switches) - before)) in 20 s" [ "$(switches)" = "$before" ]
end_all

say "budgets"
r=$(fg $bin/hard 9990)
check hard-waits-on-an-idle-cpu "20 % reserved: $r" within 199950 "$(value ppm "$r")" 201000
# 6 ms at the beginning of each 30 ms: a budget that ends late makes the next one shorter
check hard-budget-ends-in-time-after-idle "$r" within 23 "$(value gap_ms "$r")" 25
bg $hog 20
sleep 0.5
# The time measured is a whole number of periods; otherwise the result depends on where in a period
# it begins. The clocks are read some us apart.
r=$(fg $bin/irr 9990)
check budget-is-exact "20 % asked, among 20 hogs: $r" within 199950 "$(value ppm "$r")" 201000
# The longest gap is exactly T - C if the start of a period preempts the running task at once, and
# not at the next tick.
check period-starts-on-time "$r" within 23 "$(value gap_ms "$r")" 25
# A real-time task that uses 10 % and wakes every 2 ms preempts the reserved task within its budget.
chrt -f 2 $periodic 200 2000 5500 > /dev/null & rt=$!
sleep 0.5
r=$(fg $bin/irr 7980)
check budget-is-exact-beside-real-time "20 % asked: $r" within 199950 "$(value ppm "$r")" 201000
kill $rt
wait $rt 2> /dev/null
r=$(fg $bin/chain exec 3000 5000)
check exec-renews-no-budget "$r" within 150000 "$(value ppm "$r")" 215000
load=$(load_of 0 s_load_ppm)
check exec-is-no-load "S_load $load ppm" within 0 "$load" 450000
r=$(fg $bin/chain fork 800 5000)
check fork-renews-no-budget "$r" within 0 "$(value ppm "$r")" 215000

say "deadlines"
bg_to $out/p20 $bin/p20 3500 20000 400 brief
one=$!
bg_to $out/p50 $bin/p50 9000 50000 160 brief
two=$!
bg_to $out/p100 $bin/p100 19000 100000 80 brief
three=$!
wait $one $two $three
for name in p20 p50 p100; do
	check deadlines-$name "$(cat $out/$name)" [ "$(value missed "$(cat $out/$name)")" = 0 ]
done
end_all
sleep 6 # R_load (the last 4 s) no longer contains the loads above
bg $hog 20
bg_to $out/irr $bin/irr 6000
one=$!
sleep 1
fg $bin/late 5000 30000 120 brief > $out/late
wait $one
check overrunning-task-harms-no-deadline "$(cat $out/late)" [ "$(value missed "$(cat $out/late)")" = 0 ]
end_all
sleep 6

# They end at once, and each gives its memory back for some tens of ms. The kernel would keep tasks
# that exit in the CPU's local queue until none is left, before all that wait by right.
heaps=
for i in 1 2 3 4; do
	bg $bin/heap 100
	heaps="$heaps $!"
done
sleep 3
bg_to $out/late $bin/late 5000 30000 60 brief
one=$!
sleep 0.5
kill -KILL $heaps
wait $heaps $one 2> /dev/null
check tasks-that-exit-harm-no-deadline "$(cat $out/late)" [ "$(value missed "$(cat $out/late)")" = 0 ]
sleep 6

say "a reserved task alone"
bg_to $out/irr $bin/irr 7000
one=$!
sleep 5
load=$(load_of 0 r_load_ppm)
check spare-time-is-no-load "R_load $load ppm after 5 s; budget 200000" within 0 "$load" 210000
# `aplomb status` runs as an ordinary task: at this job's real-time priority it could keep the CPU
# for longer than T - C.
fg /job/aplomb status --json > $out/status
missed=$(task_of $one missed $out/status)
check lone-task-misses-no-deadline "missed $missed" within 0 "$missed" 0
r=$(fg $bin/late 5000 30000 50 brief)
# a job may wait for one budget (6 ms) of the other task if that has the earlier deadline
check lone-task-yields-to-a-deadline "$r" within 0 "$(value wake_us "$r")" 6500
check lone-task-harms-no-deadline "$r" [ "$(value missed "$r")" = 0 ]
wait $one
check lone-task-has-the-rest "$(cat $out/irr)" within 800000 "$(value ppm "$(cat $out/irr)")" 1000000

say "threads that matter less"
bg $hog 12
r=$(fg $bin/minor 2 3000 16000 300)
check threads-of-nice-19-take-no-budget "$r" [ "$(value missed "$r")" -le 3 ]
check they-run-though "$r" [ "$(value minor_ppm "$r")" -gt 0 ]
r=$(fg $bin/minor 2 3000 16000 300 idle)
check nor-do-those-of-SCHED_IDLE "$r" [ "$(value missed "$r")" -le 3 ]
end_all

say "threads that yield to each other"
plain=$(value handed "$(fg /job/guest-programs/turns 2)")
reserved=$(value handed "$(fg $bin/turns 2)")
check a-reserved-thread-yields-to-its-peer "$reserved hand-offs a second, $plain without a reservation" \
	within $((plain / 3)) "$reserved" $((2 * plain))

say "children that outlive the last reservation"
r=$(fg /job/guest-programs/orphans 40 $bin/orphan)
check orphans-run "$r" within 1 "$(value worst_us "$r")" 100000
bg $hog 5
r=$(fg /job/guest-programs/orphans 40 $bin/orphan)
check orphans-run-under-load "$r" within 1 "$(value worst_us "$r")" 300000
end_all
check still-attached "" attached
check table-is-empty "" until_true 3 no_tasks
/job/aplomb log --json > $out/log
end_job
